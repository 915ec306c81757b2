"""Shapes of cliques: which structure their rules have, told before any data is seen."""
