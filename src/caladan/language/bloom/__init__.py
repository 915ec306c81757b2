"""Bloom: Python classes of collections and rules, as Programs."""
