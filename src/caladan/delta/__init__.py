"""Delta rules: what is new in one atom seeds a rule. `build.delta` makes the DeltaProgram."""
