"""Columns of Spark: types, expressions and aggregates, as the engine's frames have them."""
