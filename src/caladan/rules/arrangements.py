"""The fewest column orders that serve every lookup.

A lookup binds some columns of a relation; an order serves it if those columns come first in it.
A relation is kept in the order of its columns in any case; what that does not serve needs others.
One order serves a chain of such sets, each inside the next, so the fewest orders are the fewest
chains that cover all sets (Dilworth), found as a maximum matching of sets with larger ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Need = tuple[str, frozenset[int]]


@dataclass(frozen=True, slots=True)
class ColumnOrder:
    """A relation in one column order; a lookup binds the first columns of the order."""

    relation: str
    order: tuple[int, ...]


def cover(wanted: Iterable[Need], arity: Mapping[str, int]) -> dict[Need, ColumnOrder]:
    """An arrangement for each need; needs share one where an order serves both.

    >>> wanted = [("r", frozenset({0})), ("r", frozenset({0, 1})), ("r", frozenset({1}))]
    >>> sorted({a.order for a in cover(wanted, {"r": 3}).values()})
    [(0, 1, 2), (1, 0, 2)]
    """
    by_relation: dict[str, list[frozenset[int]]] = {}
    for relation, columns in dict.fromkeys(wanted):
        by_relation.setdefault(relation, []).append(columns)
    found: dict[Need, ColumnOrder] = {}
    for relation, sets in by_relation.items():
        straight = tuple(range(arity[relation]))
        served = [columns for columns in sets if columns == frozenset(straight[: len(columns)])]
        for columns in served:
            found[relation, columns] = ColumnOrder(relation, straight)
        for chain in chains([columns for columns in sets if columns not in served]):
            order: list[int] = []
            for columns in (*chain, range(arity[relation])):
                order += sorted(set(columns).difference(order))
            for columns in chain:
                found[relation, columns] = ColumnOrder(relation, tuple(order))
    return found


def chains(sets: list[frozenset[int]]) -> list[list[frozenset[int]]]:
    """The fewest chains of growing sets that cover all of them."""
    ordered = sorted(set(sets), key=lambda s: (len(s), sorted(s)))
    above: dict[frozenset[int], frozenset[int]] = {}
    below: dict[frozenset[int], frozenset[int]] = {}

    def match(one: frozenset[int], tried: set[frozenset[int]]) -> bool:
        for larger in ordered:
            if one < larger and larger not in tried:
                tried.add(larger)
                if larger not in below or match(below[larger], tried):
                    above[one], below[larger] = larger, one
                    return True
        return False

    for one in ordered:
        match(one, set())
    found: list[list[frozenset[int]]] = []
    for start in ordered:
        if start not in below:
            chain = [start]
            while chain[-1] in above:
                chain.append(above[chain[-1]])
            found.append(chain)
    return found
