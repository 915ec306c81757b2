"""Recursion that steps both columns at once: p(X, Y) <- l(A, X), p(A, B), r(B, Y).

Same generation is the best known. What the rule gives to X depends only on the set of its A, so
words with equal sets are folded into one class (the children of one parent), and the same for Y.
What the rule derives is a bit matrix over these classes; exit pairs that it does not cover stand
beside it. The matrix is taken where it fits the budget: its cost is bounded by its own size and
by the bits it gets, while the facts may be thousands of times as many.

With several rules, tests of both sides, or rules that step one of them only, exchange or join them,
there are no classes that serve all: every tuple is a row of bits, for each relation, and a test is
a matrix as well, of what may be.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from caladan.columns.folded import NONE, Fold
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.kernels.bits import set_bits
from caladan.columns.kernels.blocks import WORDS, drain_rows
from caladan.columns.kernels.generations import (
    APART,
    ARRIVING,
    CROSS,
    JOIN,
    KIND,
    LEAVING,
    SECOND,
    SOURCE,
    STAY,
    STEP,
    TARGET,
    equal_sets,
    seed_generations,
    step_generations,
    step_products,
)
from caladan.columns.kernels.graph import components
from caladan.columns.layout import Layout, Mask, Words
from caladan.columns.matrices import BitRows
from caladan.fixpoint.shapes.blocks import ALL, BLOCK, Bits, PlaceTest
from caladan.fixpoint.shapes.conditions import TestedSide, place_tests
from caladan.fixpoint.shapes.explore import explored
from caladan.fixpoint.shapes.pairs import (
    Declined,
    Graph,
    NodePlace,
    Pairs,
    ShapeLimits,
    distinct,
    extent,
    longest_path,
    turned,
    union,
)
from caladan.program import thresholds
from caladan.rules.shapes.forms import Generations, Link, Step

if TYPE_CHECKING:
    from caladan.fixpoint.shapes.evaluate import ShapeInputs


def generations(shape: Generations, inputs: ShapeInputs, limits: ShapeLimits) -> dict[str, Layout]:
    """The relations of a shape."""
    grid = paced(shape, inputs, limits)
    (rule, *others) = grid.rules
    if others or not rule.is_plain or rule.left is None or rule.right is None:
        found = products(grid, limits)
    else:
        found = classes(grid.exits[0], rule.left, rule.right, limits)
        found = None if found is None else [found]
    if found is None:
        raise Declined("no layout of it fits the memory budget")
    return {
        name: FoldedRelation(
            matrix,
            FoldedSide(sides.carried, grid.rows.words),
            FoldedSide(sides.stepping, grid.columns.words),
        )
        for matrix, (name, sides) in zip(found, shape.sides.items(), strict=True)
    }


@dataclass(frozen=True, slots=True)
class Grid:
    """The places of rows and columns, the same for all relations; exit pairs by relation; rules."""

    rows: NodePlace
    columns: NodePlace
    exits: list[Pairs]
    rules: list[Product]


def paced(shape: Generations, inputs: ShapeInputs, limits: ShapeLimits) -> Grid:
    """What a shape comes down to; declines where a layout makes no sense."""
    given = {name: inputs.exit(name) for name in shape.sides}
    for name, sides in shape.sides.items():
        alike = inputs.share_words(name, *sides.carried, *sides.stepping)
        if not alike and (shape.is_square or any(pace.apart for pace in shape.paces)):
            raise Declined("it compares columns whose words have nothing in common")
    lefts, rights = [p.left for p in shape.paces], [p.right for p in shape.paces]
    columns = [{n: each.both[i] for n, each in shape.sides.items()} for i in (0, 1)]
    starts = [
        {name: tuple(given[name][c] for c in mine) for name, mine in some.items()}
        for some in columns
    ]
    if shape.is_square:
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
    used = [_ends(np.concatenate([pair[i] for pair in exits]), edges[i]) for i in (0, 1)]
    if shape.is_square:
        used = [np.union1d(*used)] * 2
    if limits.max_rounds is not None:
        limits.require_path(_most_steps(shape, edges, (rows.size, cols.size)))
    number = {name: i for i, name in enumerate(shape.sides)}
    rules: list[Product] = []
    for pace, left, right in zip(shape.paces, *edges, strict=True):
        tests = [
            place_tests(
                pace.rule,
                literals,
                TestedSide(rows, used[0], terms[0]),
                TestedSide(cols, used[1], terms[1]),
                inputs,
            )
            for literals, terms in ((pace.leaving, pace.body), (pace.arriving, pace.head))
        ]
        ends = number[pace.source], number[pace.rule.head]
        second = None if pace.second is None else number[pace.second]
        rules.append(Product(left, right, *ends, second, pace.crosses, pace.apart, *tests))
    return Grid(rows, cols, exits, rules)


def _most_steps(
    shape: Generations, edges: Sequence[Sequence[Pairs | None]], sizes: tuple[int, int]
) -> float:
    """How many steps there may be one after the other: every rule has to step some side."""
    if shape.is_square:
        return np.inf
    paths = [
        longest_path(union([pairs for pairs in mine if pairs is not None]), size)
        for mine, size in zip(edges, sizes, strict=True)
    ]
    whole = [path for path, mine in zip(paths, edges, strict=True) if None not in mine]
    return min(*whole, sum(paths), np.inf)


class _Axis:
    """The tuples of one side of all relations, numbered alike, and the pairs that steps go by."""

    def __init__(
        self,
        steps: Sequence[Step | None],
        starts: Mapping[str, tuple[Words, ...]],
        columns: Mapping[str, tuple[int, ...]],
        inputs: ShapeInputs,
        limits: ShapeLimits,
    ) -> None:
        some = [step for step in steps if step is not None]
        if not any(s.explores for s in some) and all(len(c) == 1 for c in columns.values()):
            self.starts = {name: given[0] for name, given in starts.items()}
            exits = sum(map(len, self.starts.values()))
            self.edges = [None if s is None else _pairs(inputs, s.links[0], exits) for s in steps]
            known = [pairs for pairs in self.edges if pairs is not None]
            limits.require_close(*self.starts.values(), *(end for pair in known for end in pair))
            words = [*self.starts.values(), *(end for pair in known for end in pair)]
            self.place = NodePlace(None, extent(*words))
            return
        named = {
            name: dict(zip(columns[name], given, strict=True)) for name, given in starts.items()
        }
        graph = explored(columns, some, named, inputs, limits, together=True)
        self.place = next(iter(graph.places.values()))
        self.starts = dict(graph.starts)
        edges = iter(graph.edges)
        self.edges = [None if step is None else next(edges) for step in steps]


def _pairs(inputs: ShapeInputs, link: Link, exits: int) -> Pairs:
    """The pairs that a side steps by; not too many, if they are a join."""
    assert link.rule is not None
    room = 4 * exits + thresholds.now.shape_join if link.multiplies else None
    first, second = inputs.solve(link.rule, room)
    return first, second


@dataclass(frozen=True, slots=True)
class Product:
    """A rule: pairs (A, X) and (B, Y), None where a side stays as it is; numbers of relations.

    One that keeps rows and columns `apart` derives no (X, X); tests are of what it leaves, and
    arrives at.
    """

    left: Pairs | None
    right: Pairs | None
    source: int
    target: int
    second: int | None = None
    crosses: bool = False
    apart: bool = False
    leaving: tuple[PlaceTest, ...] = ()
    arriving: tuple[PlaceTest, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the pairs says what it derives."""
        return not (self.apart or self.leaving or self.arriving or self.crosses)


def products(grid: Grid, limits: ShapeLimits) -> list[BitRows] | None:
    """What several rules derive together, or rules with tests; every word is a row or a column.

    A matrix for each relation. None if they would not fit the budget.
    """
    limits.check()
    rules, exits = grid.rules, grid.exits
    sides = [[rule.left for rule in rules], [rule.right for rule in rules]]
    row_words, column_words = (
        _ends(np.concatenate([pair[i] for pair in exits]), sides[i]) for i in (0, 1)
    )
    if any(rule.crosses or rule.second is not None for rule in rules):
        row_words = column_words = np.union1d(row_words, column_words)
        row_words = column_words = _in_order(column_words, sides[1])
    else:
        column_words = _in_order(column_words, sides[1])
    words = (len(column_words) + 63) // 64
    tested = [each for rule in rules for each in (rule.leaving, rule.arriving) if each]
    if (2 * len(exits) + len(tested)) * len(row_words) * words * 8 > limits.budget:
        return None
    lists = [r.left for r in rules], [r.right for r in rules]
    _require_dense(union(exits), *lists, len(row_words) * words)
    rows, columns = _singles(row_words), _singles(column_words)
    lefts = [(row_words, row_words) if r.left is None else r.left for r in rules]
    rights = [(column_words, column_words) if r.right is None else r.right for r in rules]
    left = [_within(rows, pairs) for pairs in lefts]
    fan = [_within(columns, pairs) for pairs in rights]
    back = [_within(columns, turned(pairs)) for pairs in rights]
    size = rows.count
    bits = np.zeros((len(exits) * size, words), np.uint64)
    for number, (first, second) in enumerate(exits):
        part = bits[number * size : (number + 1) * size]
        set_bits(part, rows.class_of[first], columns.class_of[second])
    same = np.full(size, -1, np.int64)
    (own, *_) = grid.rows.columns(row_words)
    (others, *_) = grid.columns.columns(column_words)
    known = _singles(others)
    shared = np.flatnonzero(own < len(known.class_of))
    found = known.class_of[own[shared]]
    same[shared[found != NONE]] = found[found != NONE]
    leads = [*lefts, *map(turned, exits)] if any(r.second is not None for r in rules) else lefts
    along = union([(rows.class_of[one], rows.class_of[other]) for one, other in leads])
    graph = Graph.of(*along, size)
    component = np.empty(size, np.uint32)
    components(graph.bounds, graph.targets, component)
    order = np.argsort(np.tile(component, len(exits)), kind="stable")[::-1].astype(np.uint32)
    masks = np.zeros((len(tested), size, words), np.uint64)
    for mask, tests in zip(masks, tested, strict=True):
        _may_be(tests, row_words, column_words, mask)
        limits.check()
    table = np.full((len(rules), 7), -1, np.int64)
    mask_numbers = iter(range(len(tested)))
    for line, rule in zip(table, rules, strict=True):
        line[KIND] = CROSS if rule.crosses else STEP if rule.second is None else JOIN
        if line[KIND] == STEP and rule.left is None and rule.source == rule.target:
            line[KIND] = STAY
        line[SOURCE], line[TARGET], line[APART] = rule.source, rule.target, rule.apart
        line[SECOND] = -1 if rule.second is None else rule.second
        line[LEAVING] = next(mask_numbers) if rule.leaving else -1
        line[ARRIVING] = next(mask_numbers) if rule.arriving else -1
    firsts = [np.cumsum([0, *(len(g.targets) for g in some)])[:-1] for some in (left, fan)]
    done = step_products(
        table, size, np.stack(firsts, axis=1), order, same,
        *_together(left), *_together(fan), *_together(back), masks,
        bits, bits.copy(), limits.stop,
    )  # fmt: skip
    limits.check()
    assert done >= 0
    parts = [bits[i * size : (i + 1) * size] for i in range(len(exits))]
    return [BitRows.of(rows, columns, part) for part in parts]


def _require_dense(
    exits: Pairs, lefts: Sequence[Pairs | None], rights: Sequence[Pairs | None], words: int
) -> None:
    """Decline if a matrix of so many words is all but empty: it is gone through, facts or not.

    A fact leads from what one exit fact is connected with to what it is connected with too, so
    there are no more of them than pairs within parts that nothing connects.
    """
    left, right = ([each for each in side if each is not None] for side in (lefts, rights))
    if words < thresholds.now.shape_matrix * (
        len(exits[0]) + sum(len(first) for first, _ in (*left, *right))
    ):
        return
    shift = np.uint32(extent(exits[0], *(column for pairs in left for column in pairs)))
    pairs = [(exits[0], exits[1] + shift), *left, *((a + shift, b + shift) for a, b in right)]
    size = extent(*(column for each in pairs for column in each))
    edges = [np.concatenate([each[i] for each in pairs]) for i in (0, 1)]
    graph = Graph.of(np.concatenate(edges), np.concatenate(edges[::-1]), size)
    part = np.empty(size, np.uint32)
    count = components(graph.bounds, graph.targets, part)
    rows, columns = (
        np.bincount(side, minlength=count).astype(np.float64)
        for side in (part[:shift], part[shift:])
    )
    if thresholds.now.shape_empty * float(rows @ columns) < words:
        raise Declined("its values fall into many parts, and few pairs of them can be facts")


def _ends(words: Words, sides: Sequence[Pairs | None]) -> Words:
    """All words of a side."""
    return np.unique(np.concatenate([words, *(end for side in sides if side for end in side)]))


def _in_order(words: Words, steps: Sequence[Pairs | None]) -> Words:
    """Words so that steps lead from earlier to later ones, unless in circles."""
    edges = union([pairs for pairs in steps if pairs is not None])
    graph = Graph.of(*edges, extent(words))
    component = np.empty(graph.nodes, np.uint32)
    components(graph.bounds, graph.targets, component)
    return words[np.argsort(component[words], kind="stable")[::-1]]


def _may_be(tests: Sequence[PlaceTest], rows: Words, columns: Words, out: Bits) -> None:
    """The places of a matrix where tests hold."""
    every = np.arange(len(columns), dtype=np.uint32)
    touched = np.full((len(columns) + 63) // 64, ALL, np.uint64)
    bits = np.empty((len(columns), WORDS), np.uint64)
    for at in range(0, len(rows), BLOCK):
        block = rows[at : at + BLOCK]
        bits[:] = ALL
        for each in tests:
            each.test.keep(block, columns, every, bits)
        drain_rows(bits, touched, len(block), out[at:])


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
    _require_dense(exits, [left], [right], rows.fold.count * words)
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
