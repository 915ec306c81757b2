"""Ticks: Bloom programs wired, and run from tick to tick."""
