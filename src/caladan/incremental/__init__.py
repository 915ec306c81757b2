"""Incremental relations: what rules derive, kept true while facts come and go."""
