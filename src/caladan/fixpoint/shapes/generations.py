"""Recursion that steps both columns at once: p(X, Y) <- l(A, X), p(A, B), r(B, Y).

Same generation is the best known. What the rule gives to X depends only on the set of its A, so
words with equal sets are folded into one class (the children of one parent), and the same for Y.
What the rule derives is a bit matrix over these classes; exit pairs that it does not cover stand
beside it. The matrix is taken where it fits the budget: its cost is bounded by its own size and
by the bits it gets, while the facts may be thousands of times as many.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from caladan.columns.folded import NONE, BitRows, Fold
from caladan.columns.kernels.generations import equal_sets, seed_generations, step_generations
from caladan.columns.kernels.graph import components
from caladan.columns.layout import Mask, Words
from caladan.fixpoint.shapes.pairs import Graph, Pairs, ShapeLimits, distinct, extent, turned


@dataclass(frozen=True, slots=True)
class Side:
    """One side of the rule, from pairs (A, X).

    `below` leads from a word A to the classes of its X; `steps` does the same from A's own class;
    `back` is `steps` turned round.
    """

    fold: Fold
    below: Graph
    steps: Graph
    back: Graph


def generations(exits: Pairs, left: Pairs, right: Pairs, limits: ShapeLimits) -> BitRows | None:
    """The facts of p, or None where the matrix would not fit the budget.

    All pairs are distinct; `left` has (A, X), `right` (B, Y).
    """
    limits.check()
    rows = _side(left, exits[0])
    columns = rows if left is right and exits[0] is exits[1] else _side(right, exits[1])
    words = (columns.fold.count + 63) // 64
    group_of, groups, cyclic = _groups(rows.steps)
    slots, circling = _slots(group_of, cyclic)
    if (rows.fold.count + circling) * words * 8 > limits.budget:
        return None
    bits = np.zeros((rows.fold.count, words), np.uint64)
    pairs = Graph.of(*exits, rows.below.nodes)
    seed_generations(
        pairs.bounds, pairs.targets, rows.below.bounds, rows.below.targets,
        columns.below.bounds, columns.below.targets, bits, limits.stop,
    )  # fmt: skip
    step_generations(
        groups.bounds, groups.targets, group_of, cyclic, slots,
        rows.steps.bounds, rows.steps.targets, columns.steps.bounds, columns.steps.targets,
        columns.back.bounds, columns.back.targets,
        bits, np.zeros((circling, words), np.uint64), limits.stop,
    )  # fmt: skip
    limits.check()
    derived = BitRows.of(rows.fold, columns.fold, bits)
    beside = ~derived.contains(exits)
    return derived.with_extra(exits[0][beside], exits[1][beside])


def _side(pairs: Pairs, others: Words) -> Side:
    parents, children = pairs
    size = extent(parents, children, others)
    lists = Graph.of(parents, children, size)
    class_of = np.empty(size, np.uint32)
    count = equal_sets(lists.bounds, lists.targets, class_of)
    below = distinct(parents, class_of[children])
    inner = class_of[parents] != NONE
    steps = distinct(class_of[parents[inner]], class_of[children[inner]])
    return Side(
        Fold.of(class_of, count),
        Graph.of(*below, size),
        Graph.of(*steps, count),
        Graph.of(*turned(steps), count),
    )


def _groups(steps: Graph) -> tuple[Words, Graph, Mask]:
    """The components of the class graph, and which of them have a cycle inside."""
    group_of = np.empty(steps.nodes, np.uint32)
    count = components(steps.bounds, steps.targets, group_of)
    groups = Graph.of(group_of, np.arange(steps.nodes, dtype=np.uint32), count)
    sources = np.repeat(np.arange(steps.nodes), np.diff(steps.bounds))
    inside = group_of[sources] == group_of[steps.targets]
    cyclic = np.zeros(count, np.bool_)
    cyclic[group_of[sources[inside]]] = True
    return group_of, groups, cyclic


def _slots(group_of: Words, cyclic: Mask) -> tuple[Words, int]:
    """A place for what each class on a cycle has yet to pass on."""
    circling = cyclic[group_of]
    slots = np.full(len(group_of), NONE, np.uint32)
    slots[circling] = np.arange(np.count_nonzero(circling), dtype=np.uint32)
    return slots, int(np.count_nonzero(circling))
