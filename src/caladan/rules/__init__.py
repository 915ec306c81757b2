"""The operator program: the relational operators of each rule. `build.operators` makes it."""
