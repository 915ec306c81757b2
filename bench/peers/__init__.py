"""Peers: what people use today for the same work, each written as well as we can."""
