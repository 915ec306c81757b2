"""The solutions of a body around a layout: a matrix over the tuples of its two sides.

solved(body, …)      each side is solved for its tuples, which take the places of the numbers
                     that the layout's matrix had; tests of both are made block by block
blocked(parts, …)    what several matrices and facts add up to: rows of bits for 512 tuples at a
                     time are filled from each
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.columns.folded import Fold
from caladan.columns.folded_index import NONE, class_of, stretches
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.kernels.bits import set_bits
from caladan.columns.kernels.blocks import WORDS, add_rows
from caladan.columns.layout import Keys, Mask, Words
from caladan.columns.matrices import Matrix, RangeRows
from caladan.fixpoint.shapes.blocks import Bits, BlockTest, ComparedTest, drain_blocks
from caladan.fixpoint.shapes.conditions import TestedSide, place_tests
from caladan.fixpoint.shapes.halves import Halves
from caladan.fixpoint.shapes.inputs import ShapeInputs
from caladan.fixpoint.shapes.pairs import (
    NO_PAIRS,
    Declined,
    Graph,
    NodePlace,
    Pairs,
    ShapeLimits,
)
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.plan.literals import CoreLiteral, literal_names
from caladan.program import Expression, Variable, thresholds
from caladan.rules.body import names

_HALF = np.uint64(32)


@dataclass(frozen=True, slots=True)
class SideTuples:
    """The tuples of a side of a body: words of its variables."""

    columns: dict[str, Words]
    rows: int

    @property
    def bindings(self) -> Bindings:
        """The tuples as a frontier."""
        return Bindings(self.rows, self.columns)

    def has(self, expression: Expression) -> bool:
        """Whether an expression can be told from a tuple."""
        return names(expression) <= self.columns.keys()

    def tested(self, rule: CoreRule) -> TestedSide:
        """The tuples as tests of a rule see them."""
        known = {n: words for n, words in self.columns.items() if n in rule.types}
        place = NodePlace(tuple(known.values()), self.rows)
        return TestedSide(place, np.arange(self.rows, dtype=np.uint32), tuple(map(Variable, known)))


class Solutions:
    """The solutions of a body: a matrix over the tuples of its left and right side."""

    def __init__(
        self, matrix: Matrix, left: SideTuples, right: SideTuples, evaluator: Evaluator
    ) -> None:
        self.matrix = matrix
        self.left = left
        self.right = right
        self.evaluator = evaluator

    @cached_property
    def relation(self) -> FoldedRelation:
        """As a relation with numbers of tuples in its columns."""
        return FoldedRelation(self.matrix, FoldedSide((0,)), FoldedSide((1,)))

    def count(self) -> int:
        """How many solutions there are."""
        return self.matrix.count()

    def part(self, some: Mask, *, first: bool) -> Solutions:
        """The solutions of some tuples of a side."""
        matrix = self.matrix
        folds = [matrix.rows, matrix.columns]
        fold = folds[not first]
        kept = np.where(some[: len(fold.class_of)], fold.class_of, NONE)
        folds[not first] = Fold.of(kept, fold.count)
        pairs = [(matrix.extra >> _HALF).astype(np.uint32), matrix.extra.astype(np.uint32)]
        beside = some[pairs[not first]]
        found = matrix.with_folds(*folds).with_extra(*(each[beside] for each in pairs))
        return Solutions(found, self.left, self.right, self.evaluator)


def solve_body(
    body: Halves,
    folded: FoldedRelation,
    inputs: ShapeInputs,
    limits: ShapeLimits,
) -> Solutions:
    """The solutions of a body."""
    # Where a side is a join of its own with far more tuples, listing the layout costs less.
    most = 4 * folded.count() + thresholds.now.shape_join
    if body.is_free:
        left, right = (_solve_side(rule, inputs) for rule in (body.left, body.right))
        matrix = _every_pair(left, right, folded)
    else:
        left, first = solved_side(body.left, folded.first, inputs, most)
        right, second = solved_side(body.right, folded.second, inputs, most)
        matrix = refold(folded.matrix, first, second)
    known = [n for side in (left, right) for n in side.columns if n in body.rule.types]
    if body.tests:
        tests = _tests(body, left, right, inputs)
        whole = BlockPart(matrix, _every(left.rows), _every(right.rows))
        matrix = add_blocks([whole], left.rows, right.rows, limits, tests=tests)
    return Solutions(matrix, left, right, inputs.evaluator(body.rule, known))


def _solve_side(rule: CoreRule, inputs: ShapeInputs) -> SideTuples:
    """The tuples of a part of a body."""
    found = inputs.solve(rule)
    terms = (a.name for a in rule.arguments if isinstance(a, Variable))
    return SideTuples(dict(zip(terms, found, strict=True)), len(found[0]))


def _every_pair(left: SideTuples, right: SideTuples, folded: FoldedRelation) -> Matrix:
    """Each tuple with each, columns in the order of a layout whose facts are left out: so there are
    few ranges."""
    if left.rows * right.rows < thresholds.now.folded:
        raise Declined("there are few pairs that might be no facts of a layout")
    place = class_of(folded.matrix.columns.class_of, next(iter(right.columns.values())))
    number = np.empty(right.rows, np.uint32)
    number[np.argsort(place, kind="stable")] = _every(right.rows)
    rows = Fold.of(np.zeros(left.rows, np.uint32), 1)
    whole = np.array([max(right.rows - 1, 0)], np.uint64)
    return RangeRows.of(rows, Fold.of(number, right.rows), np.array([0, 1], np.int64), whole)


def solved_side(
    rule: CoreRule, side: FoldedSide, inputs: ShapeInputs, most: int | None = None
) -> tuple[SideTuples, Words]:
    """The tuples of a side of a body, and their numbers in the layout; declines past `most`."""
    found = inputs.solve(rule, most)
    terms = [a.name for a in rule.arguments if isinstance(a, Variable)]
    rows = len(found[0])
    numbers = side.keys(side.columns, dict(zip(side.columns, found, strict=False)), rows)
    return SideTuples(dict(zip(terms, found, strict=True)), rows), numbers


def _every(count: int) -> Words:
    return np.arange(count, dtype=np.uint32)


def refold(matrix: Matrix, first: Words, second: Words) -> Matrix:
    """A matrix over tuples, each of which has a number of the matrix."""
    rows = Fold.of(class_of(matrix.rows.class_of, first), matrix.rows.count)
    columns = Fold.of(class_of(matrix.columns.class_of, second), matrix.columns.count)
    found = matrix.with_folds(rows, columns)
    extra = _spread(matrix.extra, first, second)
    return found.with_extra(*extra) if len(extra[0]) else found


def _spread(extra: Keys, first: Words, second: Words) -> Pairs:
    """Pairs of numbers, for all the tuples that have them."""
    found: Pairs = (extra >> _HALF).astype(np.uint32), extra.astype(np.uint32)
    for at, tuples in enumerate((first, second)):
        if not len(found[0]) or not len(tuples):
            return NO_PAIRS
        size = 1 + max(int(tuples.max()), int(found[at].max()))
        lists = Graph.of(tuples, _every(len(tuples)), size)
        begin, end = lists.bounds[found[at]], lists.bounds[found[at] + np.uint32(1)]
        members = lists.targets[stretches(begin, end)]
        others = np.repeat(found[1 - at], end - begin)
        found = (members, others) if at == 0 else (others, members)
    return found


def _tests(
    body: Halves,
    left: SideTuples,
    right: SideTuples,
    inputs: ShapeInputs,
) -> list[BlockTest]:
    found: list[BlockTest] = []
    asked: list[CoreLiteral] = []
    for literal in body.tests:
        if not literal_names(literal) <= body.rule.types.keys():  # one variable on both sides
            found.append(_same(literal, left, right))
            continue
        if isinstance(literal, CoreAtom) and not literal.negated and not inputs.layout(literal):
            raise Declined("an atom connects both sides of a layout")
        asked.append(literal)
    tests = place_tests(body.rule, asked, left.tested(body.rule), right.tested(body.rule), inputs)
    return [*found, *(each.test for each in tests)]


def _same(literal: CoreLiteral, left: SideTuples, right: SideTuples) -> ComparedTest:
    """Whether both sides have the same word for what the atom has twice."""
    (one,), (other,) = (literal_names(literal) & side.columns.keys() for side in (left, right))
    return ComparedTest(
        "=", left.columns[one].astype(np.int64), right.columns[other].astype(np.int64)
    )


# ── Block by block ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class BlockPart:
    """A matrix, with the row and the column that each of its words goes to; or turned, both."""

    matrix: Matrix
    first: Words
    second: Words
    is_turned: bool = False

    @property
    def leads(self) -> tuple[Pairs, Pairs]:
        """Rows and columns of the outcome, each with the classes that they are added up from."""
        folds = (self.matrix.rows, self.first), (self.matrix.columns, self.second)
        one, two = ((to[fold.words], fold.class_of[fold.words]) for fold, to in folds)
        return (two, one) if self.is_turned else (one, two)

    @property
    def extra(self) -> Pairs:
        """The facts beside the matrix."""
        keys = self.matrix.extra
        one, two = (
            self.first[(keys >> _HALF).astype(np.uint32)],
            self.second[keys.astype(np.uint32)],
        )
        return (two, one) if self.is_turned else (one, two)

    def fill(self, classes: Words, places: Words) -> Bits:
        """The bits of some classes, by class of the other side."""
        matrix = self.matrix
        out = np.zeros(
            ((matrix.rows if self.is_turned else matrix.columns).count, WORDS), np.uint64
        )
        (matrix.fill_columns if self.is_turned else matrix.fill)(classes, places, out)
        return out


def add_blocks(
    parts: Sequence[BlockPart],
    rows: int,
    columns: int,
    limits: ShapeLimits,
    pairs: Pairs = NO_PAIRS,
    tests: Sequence[BlockTest] = (),
) -> Matrix:
    """What matrices and pairs add up to, as far as tests hold; declines if it does not fit."""
    leads = [part.leads for part in parts]
    beside = [pairs, *(part.extra for part in parts)]
    ends = [*leads, *((pair, (pair[1], pair[0])) for pair in beside)]
    place = np.full(columns, NONE, np.uint32)  # columns by class: so there are few ranges
    for (_, _), (to, classes) in reversed(ends):
        place[to] = classes
    some = np.flatnonzero(place != NONE)
    order = some[np.argsort(place[some], kind="stable")].astype(np.uint32)
    node_of = np.full(columns, NONE, np.uint32)
    node_of[order] = _every(len(order))
    used = np.zeros(rows, np.bool_)
    for (to, _), _ in ends:
        used[to] = True
    sources = np.flatnonzero(used).astype(np.uint32)
    row_of = np.full(rows, NONE, np.uint32)
    row_of[sources] = _every(len(sources))
    lists = [Graph.of(*one, rows) for one, _ in leads]
    facts = Graph.of(
        np.concatenate([each[0] for each in beside]),
        node_of[np.concatenate([each[1] for each in beside])],
        rows,
    )
    bits: Bits = np.zeros((len(order), WORDS), np.uint64)
    if bits.nbytes * (3 + len(parts)) > limits.budget:
        raise Declined("no layout of it fits the memory budget")
    touched = np.full((len(order) + 63) // 64, 0xFFFFFFFFFFFFFFFF, np.uint64)

    def fill(block: Words) -> None:
        limits.check()
        bits[:] = 0
        for part, graph, (_, (to, classes)) in zip(parts, lists, leads, strict=True):
            given, places = _list_block(graph, block)
            add_rows(bits, node_of[to], part.fill(given, places), classes)
        nodes, places = _list_block(facts, block)
        set_bits(bits, nodes, places)
        for test in tests:
            some = np.flatnonzero(bits.any(axis=1)).astype(np.uint32)
            test.keep(block, order[some], some, bits)

    folds = Fold.of(row_of, len(sources)), Fold.of(node_of, len(order))
    found = drain_blocks(sources, fill, bits, touched, folds, limits)
    if found is None:
        raise Declined("no layout of it fits the memory budget")
    return found


def _list_block(graph: Graph, block: Words) -> Pairs:
    """What goes with the rows of a block, and their places in it."""
    begin, end = graph.bounds[block], graph.bounds[block + np.uint32(1)]
    return graph.targets[stretches(begin, end)], np.repeat(_every(len(block)), end - begin)
