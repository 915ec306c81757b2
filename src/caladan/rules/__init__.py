"""What engines read: bodies, delta rules, guards, pivots. `delta` makes the DeltaProgram."""
