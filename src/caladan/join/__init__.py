"""Joins of a rule: bodies, plans, steps over batches of bindings; `search` is the guided search."""
