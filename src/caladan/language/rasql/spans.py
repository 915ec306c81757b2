"""Where a node of a syntax tree was written."""

from __future__ import annotations

from sqlglot import exp

from caladan.errors import Source, Span


def span_of(node: exp.Expr | None, source: Source) -> Span | None:
    """From the first to the last character of the names and values in a node, if any has a place.

    Names and literals know their places; a node reaches from its first to its last.
    """
    if node is None:
        return None
    places = [
        (part.meta["start"], part.meta["end"] + 1) for part in node.walk() if "start" in part.meta
    ]
    if not places:
        return None
    return Span(source, min(start for start, _ in places), max(end for _, end in places))
