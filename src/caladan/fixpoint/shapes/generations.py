"""Recursion that steps both columns at once: p(X, Y) <- l(A, X), p(A, B), r(B, Y).

Same generation is the best known. What the rule gives to X depends only on the set of its A, so
words with equal sets are folded into one class (the children of one parent), and the same for Y.
What the rule derives is a bit matrix over these classes; exit pairs that it does not cover stand
beside it. The matrix is taken where it fits the budget: its cost is bounded by its own size and
by the bits it gets, while the facts may be thousands of times as many.

With several rules, tests of both sides, or rules that step one of them only, exchange or join them,
there are no classes that serve all (grid.py). `prepare_grid` makes the grid of a closure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from caladan.columns.folded import Fold
from caladan.columns.folded_index import NONE
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.kernels.generations import equal_sets, seed_generations, step_generations
from caladan.columns.kernels.graph import components
from caladan.columns.layout import Layout, Mask, Words
from caladan.columns.matrices import BitRows
from caladan.fixpoint.shapes.closure import close_pairs
from caladan.fixpoint.shapes.conditions import TestedSide, place_tests
from caladan.fixpoint.shapes.explore import explore
from caladan.fixpoint.shapes.grid import Grid, GridRule, require_dense, side_words, stepped_grid
from caladan.fixpoint.shapes.inputs import ShapeInputs, exit_facts
from caladan.fixpoint.shapes.pairs import (
    Declined,
    Graph,
    NodePlace,
    Pairs,
    ShapeLimits,
    distinct,
    extent,
    longest_path,
    transpose,
    union,
)
from caladan.plan.literals import variable_names
from caladan.plan.recursion import Closure, EdgeRule, Step
from caladan.program import Variable, thresholds


def solve_two_sided(
    closure: Closure, inputs: ShapeInputs, limits: ShapeLimits
) -> dict[str, Layout]:
    """The relations of a shape."""
    if closure.rises and (risen := _close_rising(closure, inputs, limits)) is not None:
        return risen
    grid = prepare_grid(closure, inputs, limits)
    (rule, *others) = grid.rules
    if others or not rule.is_plain or rule.left is None or rule.right is None:
        found = stepped_grid(grid, limits)
    else:
        found = classes(grid.exits[0], rule.left, rule.right, limits)
        found = None if found is None else [found]
    if found is None:
        raise Declined("no layout of it fits the memory budget")
    return {
        name: FoldedRelation(
            matrix,
            FoldedSide(sides.carried, grid.rows.words),
            FoldedSide(sides.node, grid.columns.words),
        )
        for matrix, (name, sides) in zip(found, closure.splits.items(), strict=True)
    }


def _close_rising(
    closure: Closure, inputs: ShapeInputs, limits: ShapeLimits
) -> dict[str, Layout] | None:
    """p(X, Z) <- p(X, Y), p(Y, Z), X < Z, if exit facts have it: then their closure has it, too."""
    ((name, sides),), (step,) = closure.splits.items(), closure.steps
    facts = inputs.exit(name)
    if limits.max_rounds is not None or not inputs.share_words(name, 0, 1) or not len(facts[0]):
        return None
    exits = facts[sides.carried[0]], facts[sides.node[0]]
    limits.require_some(len(exits[0]))
    limits.require_close(*exits)
    read = (*variable_names(step.head[0]), *variable_names(step.head[1]))
    columns = {n: words[:, None] for n, words in zip(read, exits, strict=True)}
    if not inputs.holds(step.rule, step.arriving, columns, (len(exits[0]), 1)).all():
        return None
    matrix = close_pairs(exits, exits, limits)
    if matrix is None:
        return None
    return {name: FoldedRelation(matrix, FoldedSide(sides.carried), FoldedSide(sides.node))}


def prepare_grid(closure: Closure, inputs: ShapeInputs, limits: ShapeLimits) -> Grid:
    """What a shape comes down to; declines where a layout makes no sense."""
    given = {name: exit_facts(closure, name, inputs) for name in closure.splits}
    for name, sides in closure.splits.items():
        alike = inputs.share_words(name, *sides.carried, *sides.node)
        if not alike and (closure.is_square or any(step.apart for step in closure.steps)):
            raise Declined("it compares columns whose words have nothing in common")
    lefts, rights = [p.left for p in closure.steps], [p.right for p in closure.steps]
    columns = [{n: each.both[i] for n, each in closure.splits.items()} for i in (0, 1)]
    starts = [
        {name: tuple(given[name][c] for c in mine) for name, mine in some.items()}
        for some in columns
    ]
    if closure.is_square:
        ends = {n: zip(starts[0][n], starts[1][n], strict=True) for n in given}
        both = {name: tuple(map(np.concatenate, pairs)) for name, pairs in ends.items()}
        axis = _Axis([*lefts, *rights], both, columns[0], inputs, limits)
        axes = axis, axis
        cut = {name: len(facts[0]) for name, facts in given.items()}
        exits = [(each[: cut[n]], each[cut[n] :]) for n, each in axis.starts.items()]
        edges = axis.edges[: len(lefts)], axis.edges[len(lefts) :]
    else:
        axes = (
            _Axis(lefts, starts[0], columns[0], inputs, limits),
            _Axis(rights, starts[1], columns[1], inputs, limits),
        )
        exits = [(axes[0].starts[name], axes[1].starts[name]) for name in given]
        edges = axes[0].edges, axes[1].edges
    known = [pairs for some in edges for pairs in some if pairs is not None]
    limits.require_some(sum(len(first) for first, _ in (*exits, *known)))
    rows, cols = axes[0].place, axes[1].place
    used = [side_words(np.concatenate([pair[i] for pair in exits]), edges[i]) for i in (0, 1)]
    if closure.is_square:
        used = [np.union1d(*used)] * 2
    if limits.max_rounds is not None:
        limits.require_path(_most_steps(closure, edges, (rows.size, cols.size)))
    number = {name: i for i, name in enumerate(closure.splits)}
    rules: list[GridRule] = []
    for step, left, right in zip(closure.steps, *edges, strict=True):
        may = _rows_that(step, rows, inputs) if step.condition else None
        if left is not None and not step.crosses and np.array_equal(*left):
            may = np.zeros(rows.size, np.bool_)  # rows stay, as far as there are any
            may[left[0]] = True
            left = None
        tests = [
            place_tests(
                step.rule,
                literals,
                TestedSide(rows, used[0], terms[0]),
                TestedSide(cols, used[1], terms[1]),
                inputs,
            )
            for literals, terms in ((step.leaving, step.body), (step.arriving, step.head))
        ]
        ends = number[step.source], number[step.target]
        second = None if step.own is None else number[step.own]
        kept = step.crosses, step.apart
        rules.append(GridRule(left, right, *ends, second, *kept, tests[0], tests[1], may))
    return Grid(rows, cols, exits, rules)


def _rows_that(step: Step, rows: NodePlace, inputs: ShapeInputs) -> Mask:
    """The rows that a rule applies to."""
    every = rows.columns(np.arange(rows.size, dtype=np.uint32))
    known = zip(step.head[0], every, strict=True)
    columns = {t.name: words[:, None] for t, words in known if isinstance(t, Variable)}
    return inputs.holds(step.rule, step.condition, columns, (rows.size, 1))[:, 0]


def _most_steps(
    closure: Closure, edges: Sequence[Sequence[Pairs | None]], sizes: tuple[int, int]
) -> float:
    """How many steps there may be one after the other: every rule has to step some side."""
    if closure.is_square:
        return np.inf
    paths = [
        longest_path(union([pairs for pairs in mine if pairs is not None]), size)
        for mine, size in zip(edges, sizes, strict=True)
    ]
    whole = [path for path, mine in zip(paths, edges, strict=True) if None not in mine]
    return min(*whole, sum(paths), np.inf)


class _Axis:
    """The tuples of one side of all relations, numbered alike, and the pairs of its edges."""

    def __init__(
        self,
        sides: Sequence[EdgeRule | None],
        starts: Mapping[str, tuple[Words, ...]],
        columns: Mapping[str, tuple[int, ...]],
        inputs: ShapeInputs,
        limits: ShapeLimits,
    ) -> None:
        some = [edge for edge in sides if edge is not None]
        if all(edge.pairs is not None for edge in some) and all(
            len(each) == 1 for each in columns.values()
        ):
            self.starts = {name: given[0] for name, given in starts.items()}
            exits = sum(map(len, self.starts.values()))
            self.edges = [None if e is None else _pairs(inputs, e, exits) for e in sides]
            known = [pairs for pairs in self.edges if pairs is not None]
            limits.require_close(*self.starts.values(), *(end for pair in known for end in pair))
            words = [*self.starts.values(), *(end for pair in known for end in pair)]
            self.place = NodePlace(None, extent(*words))
            return
        named = {
            name: dict(zip(columns[name], given, strict=True)) for name, given in starts.items()
        }
        graph = explore(columns, some, named, inputs, limits, together=True)
        self.place = next(iter(graph.places.values()))
        self.starts = dict(graph.starts)
        found = iter(graph.edges)
        self.edges = [None if edge is None else next(found) for edge in sides]


def _pairs(inputs: ShapeInputs, edge: EdgeRule, exits: int) -> Pairs:
    """The pairs of an edge; not too many, if they are a join."""
    assert edge.pairs is not None
    room = 4 * exits + thresholds.now.shape_join if edge.multiplies else None
    first, second = inputs.solve(edge.pairs, room)
    return first, second


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


def classes(exits: Pairs, left: Pairs, right: Pairs, limits: ShapeLimits) -> BitRows | None:
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
    require_dense(exits, [left], [right], rows.fold.count * words)
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
        Graph.of(*transpose(steps), count),
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
