"""Data of every kind as tables of the engine."""
