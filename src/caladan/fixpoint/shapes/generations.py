"""Recursion that steps both columns at once: p(X, Y) <- l(A, X), p(A, B), r(B, Y).

Same generation is the best known. What the rule gives to X depends only on the set of its A, so
words with equal sets are folded into one class (the children of one parent), and the same for Y.
What the rule derives is a bit matrix over these classes; exit pairs that it does not cover stand
beside it. The matrix is taken where it fits the budget: its cost is bounded by its own size and
by the bits it gets, while the facts may be thousands of times as many.

With several rules, tests of both columns, or rules that step one of them only, there are no classes
that serve all: every word is a row of bits, and a test is a matrix as well, of what may be.
Columns that stay make a row of each word and tuple of theirs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from caladan.analysis.core import CoreRule
from caladan.columns.folded import NONE, BitRows, Fold
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.kernels.bits import set_bits
from caladan.columns.kernels.blocks import WORDS, drain_rows
from caladan.columns.kernels.generations import (
    equal_sets,
    seed_generations,
    step_generations,
    step_products,
)
from caladan.columns.kernels.graph import components
from caladan.columns.layout import Layout, Mask, Words
from caladan.fixpoint.shapes.blocks import ALL, BLOCK, Bits, PlaceTest
from caladan.fixpoint.shapes.conditions import TestedSide, place_tests
from caladan.fixpoint.shapes.forms import Generations, Literal, Pace
from caladan.fixpoint.shapes.pairs import (
    Declined,
    Graph,
    NodePlace,
    Pairs,
    ShapeLimits,
    distinct,
    extent,
    numbered,
    turned,
    union,
)
from caladan.program import Constant, Variable, thresholds, variables

if TYPE_CHECKING:
    from caladan.fixpoint.shapes.evaluate import ShapeInputs


def generations(shape: Generations, inputs: ShapeInputs, limits: ShapeLimits) -> Layout:
    """The relation of a shape."""
    exits, rules, place = paced(shape, inputs, limits)
    (rule, *others) = rules
    if others or not rule.is_plain or rule.left is None or rule.right is None:
        matrix = products(exits, rules, limits, place)
    else:
        matrix = classes(exits, rule.left, rule.right, limits)
    if matrix is None:
        raise Declined("no layout of it fits the memory budget")
    columns = (shape.columns[0], *shape.stays)
    return FoldedRelation(matrix, FoldedSide(columns, place.words), FoldedSide(shape.columns[1:]))


def paced(
    shape: Generations, inputs: ShapeInputs, limits: ShapeLimits
) -> tuple[Pairs, list[Product], NodePlace]:
    """Exit pairs, rules, and the place of rows; declines where a layout makes no sense."""
    given = inputs.exit(shape.relation)
    first, second = (given[c] for c in shape.columns)
    sides = [
        [None if r is None else _pairs(inputs, r, len(first)) for r in (pace.left, pace.right)]
        for pace in shape.paces
    ]
    known = [pairs for both in sides for pairs in both if pairs is not None]
    limits.require((first, second), *known)
    alike = inputs.share_words(shape.relation, *shape.columns)
    if not alike and (shape.swaps or any(pace.apart for pace in shape.paces)):
        raise Declined("it compares columns whose words have nothing in common")
    rows = _Rows(shape, given, [both[0] for both in sides], inputs)
    exits = rows.numbers, second
    rules = [
        Product(left, right, pace.apart, *rows.tests(pace, exits, sides, inputs))
        for pace, left, (_, right) in zip(shape.paces, rows.lefts, sides, strict=True)
    ]
    if shape.swaps:
        exits = union([exits, turned(exits)])
        rules += [Product(r.right, r.left, r.apart) for r in rules]
    return exits, rules, rows.place


class _Rows:
    """The rows of the matrix: words of the first column, or each of them with what stays."""

    def __init__(
        self,
        shape: Generations,
        given: Sequence[Words],
        lefts: Sequence[Pairs | None],
        inputs: ShapeInputs,
    ) -> None:
        first = given[shape.columns[0]]
        self.lefts: list[Pairs | None] = list(lefts)
        self.numbers = first
        self.place = NodePlace(None, extent(first, *(end for p in lefts if p for end in p)))
        if not shape.stays:
            return
        size = self.place.size
        stays, (of,) = numbered(
            [tuple(np.ascontiguousarray(given[c]) for c in shape.stays)], [len(first)]
        )
        kinds = np.unique(of)
        if len(kinds) > thresholds.now.shape_kinds:
            raise Declined("what stays in it has many values")
        if size * len(kinds) >= 1 << 31:
            raise Declined("its relations have too many values between them")
        place = np.zeros(stays.size, np.uint32)
        place[kinds] = np.arange(len(kinds), dtype=np.uint32)
        self.numbers = place[of] * np.uint32(size) + first
        every = np.arange(size * len(kinds), dtype=np.uint32)
        columns = stays.columns(kinds[every // np.uint32(size)])
        self.place = NodePlace((every % np.uint32(size), *columns), len(every))
        for i, (pace, pairs) in enumerate(zip(shape.paces, lefts, strict=True)):
            fits = np.ones(len(kinds), np.bool_)
            for column, term, words in zip(
                shape.stays, pace.stays, stays.columns(kinds), strict=True
            ):
                if isinstance(term, Constant):
                    word = inputs.word(shape.relation, column, term.value)
                    fits &= np.False_ if word is None else words == np.uint32(word)
            begins = np.flatnonzero(fits).astype(np.uint32) * np.uint32(size)
            if pairs is None:
                ends = (begins[:, None] + np.arange(size, dtype=np.uint32)).ravel()
                self.lefts[i] = ends, ends
            else:
                one, other = ((begins[:, None] + end[None, :]).ravel() for end in pairs)
                self.lefts[i] = one, other

    def tests(
        self,
        pace: Pace,
        exits: Pairs,
        sides: Sequence[Sequence[Pairs | None]],
        inputs: ShapeInputs,
    ) -> tuple[tuple[PlaceTest, ...], tuple[PlaceTest, ...]]:
        """The tests of a rule that is to leave a place of the matrix, and to arrive at one."""
        if not pace.leaving and not pace.arriving:
            return (), ()
        seconds = [exits[1], *(end for _, right in sides if right is not None for end in right)]
        columns = np.unique(np.concatenate(seconds))
        rows = [exits[0], *(end for left in self.lefts if left is not None for end in left)]
        numbers = np.unique(np.concatenate(rows))

        def tests(literals: tuple[Literal, ...], names: tuple[str, ...]) -> tuple[PlaceTest, ...]:
            terms = (Variable(names[0]), *pace.stays)
            return place_tests(
                pace.rule,
                literals,
                TestedSide(self.place, numbers, terms),
                TestedSide(NodePlace(None, extent(columns)), columns, (Variable(names[1]),)),
                inputs,
            )

        return tests(pace.leaving, pace.body), tests(pace.arriving, pace.head)


def _pairs(inputs: ShapeInputs, rule: CoreRule, exits: int) -> Pairs:
    """The pairs that a side steps by; not too many, if they are a join."""
    ends = {v.name for v in variables(*rule.arguments)}
    joined = not any(ends <= {*atom.variables} for atom in rule.positive)
    first, second = inputs.solve(rule, 4 * exits + thresholds.now.shape_join if joined else None)
    return first, second


@dataclass(frozen=True, slots=True)
class Product:
    """A rule: pairs (A, X) and (B, Y), None where a side is handed on as it is.

    One that keeps them `apart` derives no (X, X); tests are of what it leaves, and arrives at.
    """

    left: Pairs | None
    right: Pairs | None
    apart: bool = False
    leaving: tuple[PlaceTest, ...] = ()
    arriving: tuple[PlaceTest, ...] = ()

    @property
    def is_plain(self) -> bool:
        """Whether nothing but the pairs says what it derives."""
        return not (self.apart or self.leaving or self.arriving)


def products(
    exits: Pairs, rules: Sequence[Product], limits: ShapeLimits, place: NodePlace
) -> BitRows | None:
    """What several rules derive together, or rules with tests; every word is a row or a column.

    Rows have a `place`, whose first column is to be kept apart from columns where a rule says so.
    None if the matrix would not fit the budget.
    """
    limits.check()
    row_words = _ends(exits[0], [rule.left for rule in rules])
    column_words = _ends(exits[1], [rule.right for rule in rules])
    words = (len(column_words) + 63) // 64
    tested = [each for rule in rules for each in (rule.leaving, rule.arriving) if each]
    if (2 + len(tested)) * len(row_words) * words * 8 > limits.budget:
        return None
    rows, columns = _singles(row_words), _singles(column_words)
    lefts = [(row_words, row_words) if r.left is None else r.left for r in rules]
    rights = [(column_words, column_words) if r.right is None else r.right for r in rules]
    left = [_within(rows, pairs) for pairs in lefts]
    fan = [_within(columns, pairs) for pairs in rights]
    back = [_within(columns, turned(pairs)) for pairs in rights]
    bits = np.zeros((rows.count, words), np.uint64)
    set_bits(bits, rows.class_of[exits[0]], columns.class_of[exits[1]])
    same = np.full(rows.count, -1, np.int64)
    (own, *_) = place.columns(row_words)
    shared = np.flatnonzero(own < len(columns.class_of))
    found = columns.class_of[own[shared]]
    same[shared[found != NONE]] = found[found != NONE]
    along = union([(rows.class_of[one], rows.class_of[other]) for one, other in lefts])
    graph = Graph.of(*along, rows.count)
    component = np.empty(rows.count, np.uint32)
    components(graph.bounds, graph.targets, component)
    first = np.cumsum([0, *(len(g.targets) for g in left)])[:-1]
    second = np.cumsum([0, *(len(g.targets) for g in fan)])
    masks = np.zeros((len(tested), rows.count, words), np.uint64)
    for mask, tests in zip(masks, tested, strict=True):
        _may_be(tests, row_words, column_words, mask)
        limits.check()
    flags = np.array([bool(t) for r in rules for t in (r.leaving, r.arriving)])
    numbers = np.where(flags, np.cumsum(flags) - 1, -1).reshape(-1, 2)
    done = step_products(
        np.concatenate([first, second[:-1], second]), np.argsort(component)[::-1].astype(np.uint32),
        same, *_together(left), *_together(fan), *_together(back),
        np.array([r.apart for r in rules], np.bool_), numbers, masks,
        bits, bits.copy(), limits.stop,
    )  # fmt: skip
    limits.check()
    assert done >= 0
    return BitRows.of(rows, columns, bits)


def _ends(words: Words, sides: Sequence[Pairs | None]) -> Words:
    """All words of a side."""
    return np.unique(np.concatenate([words, *(end for side in sides if side for end in side)]))


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
