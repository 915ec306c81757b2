"""Bodies as hypergraphs: which atoms form cycles, and the tree of those that form none.

An *ear* is an atom whose variables are either its own or all in one other atom, its witness. A body
that can be taken apart ear by ear is acyclic, and the witnesses make a tree. What no ear can be cut
off from is the cyclic core: joined atom by atom, it may go through far more partial solutions than
it has results.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Edges (atom, its witness) in the order ears were cut off: leaves first."""

    edges: tuple[tuple[int, int], ...]


def join_tree(atoms: Sequence[Collection[str]]) -> JoinTree | None:
    """The tree of an acyclic body, or None.

    >>> join_tree([("x", "y"), ("y", "z")])
    JoinTree(edges=((0, 1),))
    >>> join_tree([("x", "y"), ("y", "z"), ("z", "x")]) is None
    True
    """
    edges, left = _taken_apart(atoms)
    return JoinTree(tuple(edges)) if len(left) <= 1 else None


def cyclic_core(
    atoms: Sequence[Collection[str]], ties: Sequence[Collection[str]] = ()
) -> tuple[int, ...]:
    """The atoms that no ear can be cut off from any more; none if the body is acyclic.

    Equations are `ties` between atoms. They list no values: an atom all of whose variables one of
    them has is part of the cycle that the equation is part of.

    >>> cyclic_core([("w", "x"), ("x", "y"), ("y", "z"), ("z", "x")])
    (1, 2, 3)
    >>> cyclic_core([("x", "y"), ("y", "z"), ("w", "x")], [("w", "x", "z")])
    (0, 1, 2)
    """
    edges, left = _taken_apart([*atoms, *ties])
    if len(left) < 2:
        return ()
    ears = {ear for ear, witness in edges if witness >= len(atoms) and witness in left}
    return tuple(sorted(number for number in {*left, *ears} if number < len(atoms)))


def is_cyclic(atoms: Sequence[Collection[str]]) -> bool:
    """Whether a body, given as the variables of its positive atoms, is cyclic.

    >>> is_cyclic([("x", "y"), ("y", "z"), ("z", "x")])
    True
    """
    return join_tree(atoms) is None


def _taken_apart(
    atoms: Sequence[Collection[str]],
) -> tuple[list[tuple[int, int]], dict[int, frozenset[str]]]:
    """The ears with their witnesses, in the order they can be cut off, and what is left."""
    left = {number: frozenset(variables) for number, variables in enumerate(atoms)}
    having: dict[str, set[int]] = {}
    for number, variables in left.items():
        for variable in variables:
            having.setdefault(variable, set()).add(number)
    edges: list[tuple[int, int]] = []
    while len(left) > 1 and (edge := _ear(left, having)) is not None:
        edges.append(edge)
        for variable in left.pop(edge[0]):
            having[variable].remove(edge[0])
    return edges, left


def _ear(
    left: Mapping[int, frozenset[str]], having: Mapping[str, set[int]]
) -> tuple[int, int] | None:
    """The first ear and its first witness; `having` has by variable the atoms that have it."""
    for number, variables in left.items():
        shared = [having[variable] for variable in variables if len(having[variable]) > 1]
        witnesses = set.intersection(*shared) if shared else left.keys()
        if len(witnesses) > 1:
            return number, min(witness for witness in witnesses if witness != number)
    return None
