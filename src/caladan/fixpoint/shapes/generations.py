"""Recursion that steps both columns at once: p(X, Y) <- l(A, X), p(A, B), r(B, Y).

Same generation is the best known. What the rule gives to X depends only on the set of its A, so
words with equal sets are folded into one class (the children of one parent), and the same for Y.
What the rule derives is a bit matrix over these classes; exit pairs that it does not cover stand
beside it. The matrix is taken where it fits the budget: its cost is bounded by its own size and
by the bits it gets, while the facts may be thousands of times as many.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from caladan.columns.folded import NONE, BitRows, Fold
from caladan.columns.kernels.bits import set_bits
from caladan.columns.kernels.generations import (
    equal_sets,
    seed_generations,
    step_generations,
    step_products,
)
from caladan.columns.kernels.graph import components
from caladan.columns.layout import Mask, Words
from caladan.fixpoint.shapes.pairs import Graph, Pairs, ShapeLimits, distinct, extent, turned, union


@dataclass(frozen=True, slots=True)
class Product:
    """A rule: pairs (A, X) and (B, Y). One that keeps them `apart` derives no (X, X)."""

    left: Pairs
    right: Pairs
    apart: bool


def products(exits: Pairs, rules: Sequence[Product], limits: ShapeLimits) -> BitRows | None:
    """What several rules derive together, or rules that leave out what has two columns alike.

    Their classes would differ from rule to rule, so every word is a row, or a column, by itself.
    None if the matrix would not fit the budget.
    """
    limits.check()
    row_words = np.unique(np.concatenate([exits[0], *(end for r in rules for end in r.left)]))
    column_words = np.unique(np.concatenate([exits[1], *(end for r in rules for end in r.right)]))
    words = (len(column_words) + 63) // 64
    if 2 * len(row_words) * words * 8 > limits.budget:
        return None
    rows, columns = _singles(row_words), _singles(column_words)
    left = [_within(rows, rule.left) for rule in rules]
    fan = [_within(columns, rule.right) for rule in rules]
    back = [_within(columns, turned(rule.right)) for rule in rules]
    bits = np.zeros((rows.count, words), np.uint64)
    set_bits(bits, rows.class_of[exits[0]], columns.class_of[exits[1]])
    same = np.full(rows.count, -1, np.int64)
    shared = np.flatnonzero(row_words < len(columns.class_of))
    found = columns.class_of[row_words[shared]]
    same[shared[found != NONE]] = found[found != NONE]
    along = union([(rows.class_of[r.left[0]], rows.class_of[r.left[1]]) for r in rules])
    graph = Graph.of(*along, rows.count)
    component = np.empty(rows.count, np.uint32)
    components(graph.bounds, graph.targets, component)
    first = np.cumsum([0, *(len(g.targets) for g in left)])[:-1]
    second = np.cumsum([0, *(len(g.targets) for g in fan)])
    done = step_products(
        np.concatenate([first, second[:-1], second]), np.argsort(component)[::-1].astype(np.uint32),
        same, *_together(left), *_together(fan), *_together(back),
        np.array([r.apart for r in rules], np.bool_), bits, bits.copy(), limits.stop,
    )  # fmt: skip
    limits.check()
    assert done >= 0
    return BitRows.of(rows, columns, bits)


def _singles(words: Words) -> Fold:
    """Every word a class of its own."""
    class_of = np.full(extent(words), NONE, np.uint32)
    class_of[words] = np.arange(len(words), dtype=np.uint32)
    return Fold.of(class_of, len(words))


def _within(fold: Fold, pairs: Pairs) -> Graph:
    """Pairs of words as a graph of their classes."""
    return Graph.of(fold.class_of[pairs[0]], fold.class_of[pairs[1]], fold.count)


def _together(graphs: Sequence[Graph]) -> tuple[NDArray[np.int64], Words]:
    """The bounds of graphs as a table, and their targets one behind the other."""
    return np.stack([g.bounds for g in graphs]), np.concatenate([g.targets for g in graphs])


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
