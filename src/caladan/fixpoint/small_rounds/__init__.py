"""Small rounds: the rules of a clique as tables of integers, run fact by fact by one kernel."""
