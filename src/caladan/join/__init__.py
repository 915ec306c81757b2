"""The join: bodies, plans, steps over batches, the guided search; `search` is `find`."""
