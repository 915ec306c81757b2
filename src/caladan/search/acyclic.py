"""Acyclic bodies: the GYO reduction, join trees, and the reduction of relations to what survives.

An *ear* is an atom whose variables are either its own or all in one other atom, its witness. A body
that can be taken apart ear by ear is acyclic, and the witnesses make a tree. Semijoins up and down
that tree (Yannakakis) leave in every relation exactly the facts that take part in some result.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from caladan.search.frontier import Mask, Var, Words
from caladan.search.trie import Trie


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Edges (atom, its witness) in the order ears were cut off: leaves first."""

    edges: tuple[tuple[int, int], ...]


def join_tree(atoms: Sequence[Collection[Var]]) -> JoinTree | None:
    """The tree of an acyclic body, or None.

    >>> join_tree([("x", "y"), ("y", "z")])
    JoinTree(edges=((0, 1),))
    >>> join_tree([("x", "y"), ("y", "z"), ("z", "x")]) is None
    True
    """
    edges, left = _taken_apart(atoms)
    return JoinTree(tuple(edges)) if len(left) <= 1 else None


def cyclic_core(atoms: Sequence[Collection[Var]]) -> tuple[int, ...]:
    """The atoms that no ear can be cut off from any more; none if the body is acyclic.

    >>> cyclic_core([("w", "x"), ("x", "y"), ("y", "z"), ("z", "x")])
    (1, 2, 3)
    """
    _, left = _taken_apart(atoms)
    return tuple(left) if len(left) > 1 else ()


def is_cyclic(atoms: Sequence[Collection[Var]]) -> bool:
    """Whether a body, given as the variables of its positive atoms, is cyclic.

    >>> is_cyclic([("x", "y"), ("y", "z"), ("z", "x")])
    True
    """
    return join_tree(atoms) is None


def _taken_apart(
    atoms: Sequence[Collection[Var]],
) -> tuple[list[tuple[int, int]], dict[int, frozenset[Var]]]:
    """The ears with their witnesses, in the order they can be cut off, and what is left."""
    left = {number: frozenset(variables) for number, variables in enumerate(atoms)}
    edges: list[tuple[int, int]] = []
    while len(left) > 1 and (edge := _ear(left)) is not None:
        edges.append(edge)
        del left[edge[0]]
    return edges, left


def _ear(left: Mapping[int, frozenset[Var]]) -> tuple[int, int] | None:
    for number, variables in left.items():
        elsewhere = frozenset[Var]().union(*(v for n, v in left.items() if n != number))
        shared = variables & elsewhere
        for witness, others in left.items():
            if witness != number and shared <= others:
                return number, witness
    return None


def reduce_fully(
    tables: Sequence[Mapping[Var, Words]], counts: Sequence[int], tree: JoinTree
) -> list[Mask]:
    """For each table which of its rows take part in some result of the join of all."""
    masks = [np.ones(count, np.bool_) for count in counts]
    for ear, witness in tree.edges:
        _semijoin(tables, masks, witness, ear)
    for ear, witness in reversed(tree.edges):
        _semijoin(tables, masks, ear, witness)
    return masks


def _semijoin(tables: Sequence[Mapping[Var, Words]], masks: list[Mask], kept: int, by: int) -> None:
    """Leave in one table the rows that agree with some row of the other."""
    shared = sorted(tables[kept].keys() & tables[by].keys())
    if not shared:
        if not masks[by].any():
            masks[kept][:] = False
        return
    rows = np.flatnonzero(masks[kept])
    if not masks[by].any() or not len(rows):
        masks[kept][:] = False
        return
    trie = Trie.of([tables[by][v][masks[by]] for v in shared])
    found = trie.locate([tables[kept][v][rows] for v in shared]) >= 0
    masks[kept][rows[~found]] = False
