"""Rules on top of a layout: what they derive is again one, and nothing is listed.

    big(A, B) <- tc(A, B), A > 10, w(B, V), V < 5     one side at a time: other words, same matrix
    far(A, B) <- tc(A, B), B - A > 100, ~near(A, B)   both sides: tests, block by block
    j(A, B) <- tc(A, C), pair(C, B)                   rows and columns that are added up
    both(A, B) <- tc(A, B). both(A, B) <- e(B, A).    several rules, and facts

A body with a folded atom `tc(X, Y)` falls into what is connected with X, what is connected with Y,
and tests of both (`parted`). Each side is solved for its tuples, and these take the places of the
numbers that the matrix had (`Solutions`). That is all there is to it where a head keeps them apart;
otherwise rows of bits for 512 tuples at a time are filled from the matrix (`blocked`).

A head that reads one side only is listed; aggregates are up to weighing.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.columns.folded import NONE, Fold
from caladan.columns.folded_index import class_of, stretches
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.kernels.bits import set_bits
from caladan.columns.kernels.blocks import WORDS, add_rows
from caladan.columns.layout import Keys, Words
from caladan.columns.matrices import Matrix
from caladan.fixpoint.shapes.blocks import Bits, BlockTest, ComparedTest, drained
from caladan.fixpoint.shapes.conditions import TestedSide, place_tests
from caladan.fixpoint.shapes.pairs import (
    NO_PAIRS,
    Declined,
    Graph,
    NodePlace,
    Pairs,
    ShapeLimits,
    numbered,
)
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.program import Comparison, Expression, Type, Variable, thresholds
from caladan.program.diagnostics import CaladanError
from caladan.rules.body import names
from caladan.rules.program import DeltaRule
from caladan.rules.shapes.forms import Sides
from caladan.rules.shapes.literals import Literal, defined, is_positive, literal_names
from caladan.rules.shapes.recognise import is_of_one_kind

if TYPE_CHECKING:
    from caladan.fixpoint.shapes.evaluate import ShapeInputs

_HALF = np.uint64(32)


# ── The body in parts ────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Halves:
    """A body around a folded atom: the rules for the tuples of its sides, and tests of both.

    The heads of the rules begin with the columns of the atom's side.
    """

    rule: CoreRule
    relation: str
    left: CoreRule
    right: CoreRule
    tests: tuple[Literal, ...]


def parted(
    rule: CoreRule,
    atom: CoreAtom,
    columns: Sides,
    info: RelationInfo,
    wanted: frozenset[str] | None,
    whole: Sequence[CoreAtom],
) -> Halves | None:
    """The parts of a body around an atom with columns on either side.

    Its tuples have all variables, or those that are `wanted`. Atoms
    that are to stay `whole` are layouts too.
    """
    types = dict(rule.types)
    literals: list[Literal] = [a for a in rule.atoms if a is not atom]
    literals += rule.comparisons
    own: list[Variable] = []
    for column, term in zip(info.columns, atom.arguments, strict=True):
        fresh = Variable(f"{column.name}'")
        if isinstance(term, Variable) and term not in own:
            own.append(term)
        else:
            types[fresh.name] = column.type
            own.append(fresh)
            literals.append(Comparison("=", fresh, term))
    sides = columns.carried, columns.stepping
    reach = [{own[c].name for c in side} for side in sides]
    parts: tuple[list[Literal], list[Literal]] = ([], [])
    rest = _bound(literals, reach, parts, types, whole)
    tests: list[Literal] = []
    for literal in rest:
        mine = literal_names(literal)
        if mine <= reach[0] or mine <= reach[1]:
            parts[0 if mine <= reach[0] else 1].append(literal)
        elif mine <= reach[0] | reach[1]:
            tests.append(literal)
        else:
            return None
    asked = literal_names(*tests) if wanted is None else literal_names(*tests) | wanted
    rules: list[CoreRule] = []
    for side, mine, known in zip(sides, parts, reach, strict=True):
        first = [own[c].name for c in side]
        others = sorted((known if wanted is None else known & asked) - {*first})
        terms = [
            own[c] if c in side else Variable(f"{column.name}''")
            for c, column in enumerate(info.columns)
        ]
        beside = [c for c in range(info.arity) if c not in side]
        unread = {f"{info.columns[c].name}''": info.columns[c].type for c in beside}
        mine_only = {name: type for name, type in types.items() if name in known}
        rules.append(
            replace(
                rule,
                arguments=tuple(map(Variable, (*first, *others))),
                atoms=(CoreAtom(atom.relation, tuple(terms)), *_atoms(mine)),
                comparisons=tuple(each for each in mine if isinstance(each, Comparison)),
                types=mine_only | unread,
                order=(),
                limit=None,
            )
        )
    return Halves(rule, atom.relation, rules[0], rules[1], tuple(tests))


def spelled_out(rule: DeltaRule) -> DeltaRule:
    """A rule without variables that are defined: what they are stands in their place."""
    core, (columns, keys) = defined(rule.rule, (rule.body.columns, rule.body.keys))
    return replace(rule, rule=core, body=replace(rule.body, columns=columns, keys=keys))


def sides_of(folded: FoldedRelation) -> Sides:
    """The columns of a layout, those of its rows first."""
    return Sides(folded.first.columns, folded.second.columns)


def around(
    rule: DeltaRule,
    relations: Mapping[str, RelationInfo],
    sides: Callable[[CoreAtom], Sides | None],
) -> tuple[CoreAtom, Halves]:
    """The folded atom that a body falls apart around, and its parts; declines if there is none."""
    core = rule.rule
    large = [a for a in core.positive if sides(a) is not None]
    if not large or core.order or core.limit is not None:
        raise Declined("its rules read no layout")
    if not is_of_one_kind(core, relations, with_head=False):
        raise Declined("its variables stand for values of several kinds")
    wanted = None if core.has_aggregates else names(*rule.body.columns)
    for atom in large:
        mine = sides(atom)
        assert mine is not None
        body = parted(core, atom, mine, relations[atom.relation], wanted, large)
        if body is not None and all(a is atom or any(a is t for t in body.tests) for a in large):
            return atom, body  # no other layout is listed for a side
    raise Declined("its rules join layouts with each other")


def _bound(
    literals: Sequence[Literal],
    reach: list[set[str]],
    parts: tuple[list[Literal], list[Literal]],
    types: dict[str, Type],
    whole: Sequence[CoreAtom],
) -> list[Literal]:
    """Put what binds variables to the side that it is connected with; what is left."""
    rest = list(literals)

    def moved(binds: Callable[[Literal], bool], *, alone: bool = False) -> bool:
        for literal in rest:
            mine = literal_names(literal)
            found = [i for i in (0, 1) if mine & reach[i]]
            if binds(literal) and (len(found) == 1 or (alone and not found)):
                side = found[0] if found else 0
                parts[side].append(literal)
                reach[side] |= mine
                rest[:] = [each for each in rest if each is not literal]
                return True
        return False

    own = [{*names} for names in reach]

    def parts_ways() -> bool:
        """Put an atom that finds the same for both sides to the one whose own columns it has."""
        for literal in rest:
            mine = literal_names(literal)
            sides = [i for i in (0, 1) if mine & own[i]]
            if not is_positive(literal) or len(sides) != 1 or any(literal is a for a in whole):
                continue
            assert isinstance(literal, CoreAtom)
            (side,) = sides
            twice = (mine & reach[1 - side]) - reach[side]
            renamed = {Variable(n): Variable(f"{n}'{side}") for n in twice}
            terms = tuple(
                renamed.get(t, t) if isinstance(t, Variable) else t for t in literal.arguments
            )
            types.update({f"{n}'{side}": types[n] for n in twice})
            rest[:] = [each for each in rest if each is not literal]
            rest.extend(Comparison("=", one, other) for one, other in renamed.items())
            found = replace(literal, arguments=tuple(terms))
            parts[side].append(found)
            reach[side] |= literal_names(found)
            return True
        return False

    while (
        moved(is_positive) or moved(_is_equality) or moved(is_positive, alone=True) or parts_ways()
    ):
        pass
    return rest


def _is_equality(literal: Literal) -> bool:
    return isinstance(literal, Comparison) and literal.operator == "="


def _atoms(literals: Sequence[Literal]) -> tuple[CoreAtom, ...]:
    return tuple(each for each in literals if isinstance(each, CoreAtom))


# ── The solutions as a matrix ────────────────────────────────────────────────────────────────────


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


def solved(
    body: Halves,
    folded: FoldedRelation,
    inputs: ShapeInputs,
    limits: ShapeLimits,
) -> Solutions:
    """The solutions of a body."""
    # Where a side is a join of its own with far more tuples, listing the layout costs less.
    most = 4 * folded.count() + thresholds.now.shape_join
    left, first = solved_side(body.left, folded.first, inputs, most)
    right, second = solved_side(body.right, folded.second, inputs, most)
    sides = left, right
    known = [name for side in sides for name in side.columns if name in body.rule.types]
    matrix = refolded(folded.matrix, first, second)
    if body.tests:
        tests = _tests(body, left, right, inputs)
        whole = BlockPart(matrix, _every(left.rows), _every(right.rows))
        matrix = blocked([whole], left.rows, right.rows, limits, tests=tests)
    return Solutions(matrix, left, right, inputs.evaluator(body.rule, known))


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


def refolded(matrix: Matrix, first: Words, second: Words) -> Matrix:
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
    asked: list[Literal] = []
    for literal in body.tests:
        if not literal_names(literal) <= body.rule.types.keys():  # one variable on both sides
            found.append(_same(literal, left, right))
            continue
        if isinstance(literal, CoreAtom) and not literal.negated and not inputs.layout(literal):
            raise Declined("an atom connects both sides of a layout")
        asked.append(literal)
    tests = place_tests(body.rule, asked, left.tested(body.rule), right.tested(body.rule), inputs)
    return [*found, *(each.test for each in tests)]


def _same(literal: Literal, left: SideTuples, right: SideTuples) -> ComparedTest:
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


def blocked(
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
            given, places = _listed(graph, block)
            add_rows(bits, node_of[to], part.fill(given, places), classes)
        nodes, places = _listed(facts, block)
        set_bits(bits, nodes, places)
        for test in tests:
            test.keep(block, order, _every(len(order)), bits)

    folds = Fold.of(row_of, len(sources)), Fold.of(node_of, len(order))
    found = drained(sources, fill, bits, touched, folds, limits)
    if found is None:
        raise Declined("no layout of it fits the memory budget")
    return found


def _listed(graph: Graph, block: Words) -> Pairs:
    """What goes with the rows of a block, and their places in it."""
    begin, end = graph.bounds[block], graph.bounds[block + np.uint32(1)]
    return graph.targets[stretches(begin, end)], np.repeat(_every(len(block)), end - begin)


# ── Heads ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _HeadPart:
    """A rule's solutions, and the words that they have in the columns of the head."""

    body: Solutions
    is_left: tuple[bool | None, ...]  # None for a constant, which has one word
    words: tuple[Words, ...]

    def fits(self, first: Sequence[int], second: Sequence[int]) -> bool:
        """Whether some columns come from its left side, and the others from its right."""
        return all(self.is_left[i] is not False for i in first) and all(
            self.is_left[i] is not True for i in second
        )

    def columns(self, some: Sequence[int], side: SideTuples) -> tuple[Words, ...]:
        """Columns that come from a side."""
        return tuple(
            np.full(side.rows, self.words[i][0], np.uint32)
            if self.is_left[i] is None
            else np.ascontiguousarray(self.words[i])
            for i in some
        )


class Overlay:
    """A relation that rules derive from layouts."""

    def __init__(self, info: RelationInfo, inputs: ShapeInputs) -> None:
        self._info = info
        self._inputs = inputs
        self._parts: list[_HeadPart] = []

    def solve(self, rule: DeltaRule, limits: ShapeLimits) -> Solutions:
        """The solutions of a rule's body; declines if it has no layout for them."""
        inputs = self._inputs
        relations = {a.relation: inputs.info(a.relation) for a in rule.rule.atoms}
        atom, body = around(rule, relations, self._sides)
        folded = self._inputs.layout(atom)
        assert folded is not None
        try:
            return solved(body, folded, inputs, limits)
        except (ArithmeticError, CaladanError):
            raise Declined("something in it cannot be computed for all values") from None

    def _sides(self, atom: CoreAtom) -> Sides | None:
        folded = self._inputs.layout(atom)
        return None if folded is None else sides_of(folded)

    def take(
        self, rule: DeltaRule, give: Callable[[Sequence[Words], int], None], limits: ShapeLimits
    ) -> int:
        """Take the solutions of a rule; `give` gets those that are listed. Says how many there are.

        Declines if it does not take them.
        """
        body = self.solve(rule, limits)
        columns = rule.body.columns[: self._info.arity]
        is_left: list[bool | None] = []
        for each in columns:
            sides = [side.has(each) for side in (body.left, body.right)]
            if not any(sides):
                raise Declined("a column is computed from both sides of a layout")
            is_left.append(None if all(sides) else sides[0])
        kinds = {*is_left} - {None}
        of_side = {None: Bindings(1, {}), True: body.left.bindings, False: body.right.bindings}
        try:
            words = tuple(
                body.evaluator.words(each, of_side[one], self._inputs.domain(self._info.name, i))
                for i, (each, one) in enumerate(zip(columns, is_left, strict=True))
            )
        except ArithmeticError:
            raise Declined("something in it cannot be computed for all values") from None
        part = _HeadPart(body, tuple(is_left), words)
        if len(kinds) < 2:
            is_first = False not in kinds
            numbers, _ = body.relation.weighed(first=is_first)
            listed = part.columns(range(len(columns)), body.left if is_first else body.right)
            if len(numbers):
                give([each[numbers] for each in listed], len(numbers))
        else:
            self._parts.append(part)
        return body.count()

    @property
    def has_parts(self) -> bool:
        """Whether it has solutions that are not listed."""
        return bool(self._parts)

    def finish(self, listed: Sequence[Words], limits: ShapeLimits) -> FoldedRelation:
        """The relation, with facts that were listed."""
        first = tuple(i for i, one in enumerate(self._parts[0].is_left) if one is not False)
        second = tuple(i for i in range(self._info.arity) if i not in first)
        turned: list[bool] = []
        for part in self._parts:
            if not part.fits(first, second) and not part.fits(second, first):
                raise Declined("its rules put the columns of layouts together in several ways")
            turned.append(not part.fits(first, second))
        places: list[NodePlace] = []
        ids: list[list[Words]] = []
        for side, is_first in ((first, True), (second, False)):
            given = [
                part.columns(side, part.body.left if is_first is not flipped else part.body.right)
                for part, flipped in zip(self._parts, turned, strict=True)
            ]
            given.append(tuple(np.ascontiguousarray(listed[i]) for i in side))
            place, numbers = numbered(given, [len(each[0]) for each in given])
            places.append(place)
            ids.append(numbers)
        rows, columns = places
        facts = ids[0][-1], ids[1][-1]
        matrix = self._matrix(turned, ids, (rows.size, columns.size), facts, limits)
        return FoldedRelation(
            matrix, FoldedSide(first, rows.words), FoldedSide(second, columns.words)
        )

    def _matrix(
        self,
        turned: list[bool],
        ids: list[list[Words]],
        sizes: tuple[int, int],
        facts: Pairs,
        limits: ShapeLimits,
    ) -> Matrix:
        rows, columns = sizes
        (part, *others) = self._parts
        if (
            not others
            and not turned[0]
            and _are_apart(ids[0][0], rows)
            and _are_apart(ids[1][0], columns)
        ):
            return _renamed(part.body.matrix, ids[0][0], rows, ids[1][0], columns, facts)
        parts = [
            BlockPart(part.body.matrix, *((two, one) if flipped else (one, two)), is_turned=flipped)
            for part, one, two, flipped in zip(self._parts, ids[0], ids[1], turned, strict=False)
        ]
        return blocked(parts, rows, columns, limits, facts)


def _are_apart(numbers: Words, size: int) -> bool:
    """Whether all are different."""
    seen = np.zeros(size, np.bool_)
    seen[numbers] = True
    return int(np.count_nonzero(seen)) == len(numbers)


def _renamed(
    matrix: Matrix, first: Words, rows: int, second: Words, columns: int, facts: Pairs
) -> Matrix:
    """A matrix with other words, each for one of its own, and facts besides."""
    folds: list[Fold] = []
    for fold, to, size in ((matrix.rows, first, rows), (matrix.columns, second, columns)):
        classes = np.full(size, NONE, np.uint32)
        classes[to] = fold.class_of
        folds.append(Fold.of(classes, fold.count))
    found = matrix.with_folds(*folds)
    extra = [
        first[(matrix.extra >> _HALF).astype(np.uint32)],
        second[matrix.extra.astype(np.uint32)],
    ]
    if len(extra[0]):
        found = found.with_extra(*extra)
    new = ~found.contains(facts)
    if new.any():
        extra = [np.concatenate([one, other[new]]) for one, other in zip(extra, facts, strict=True)]
        found = matrix.with_folds(*folds).with_extra(*extra)
    return found
