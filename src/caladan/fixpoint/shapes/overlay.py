"""Rules on top of a layout: what they derive is again one, and nothing is listed.

    big(A, B) <- tc(A, B), A > 10, w(B, V), V < 5     one side at a time: other words, same matrix
    far(A, B) <- tc(A, B), B - A > 100, ~near(A, B)   both sides: tests, block by block
    j(A, B) <- tc(A, C), pair(C, B)                   rows and columns that are added up
    both(A, B) <- tc(A, B). both(A, B) <- e(B, A).    several rules, and facts

A body falls into two sides and tests (halves.py), and its solutions are a matrix over the tuples of
these (solutions.py). That is all there is to it where a head keeps them apart; otherwise rows and
columns are added up. A head that reads one side only is listed; aggregates are up to aggregates.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from caladan.analysis.core import CoreAtom, RelationInfo
from caladan.columns.folded import Fold
from caladan.columns.folded_index import NONE
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.layout import Words
from caladan.columns.matrices import Matrix
from caladan.fixpoint.shapes.halves import around, sides_of
from caladan.fixpoint.shapes.inputs import ShapeInputs
from caladan.fixpoint.shapes.pairs import (
    Declined,
    NodePlace,
    Pairs,
    ShapeLimits,
    number_tuples,
)
from caladan.fixpoint.shapes.solutions import (
    BlockPart,
    SideTuples,
    Solutions,
    add_blocks,
    solve_body,
)
from caladan.join.frontier import Bindings
from caladan.plan.recursion import Split
from caladan.program.diagnostics import CaladanError
from caladan.rules.program import DeltaRule

_HALF = np.uint64(32)


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
            return solve_body(body, folded, inputs, limits)
        except (ArithmeticError, CaladanError):
            raise Declined("something in it cannot be computed for all values") from None

    def _sides(self, atom: CoreAtom) -> Split | None:
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
            place, numbers = number_tuples(given, [len(each[0]) for each in given])
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
            return _rename_words(part.body.matrix, ids[0][0], rows, ids[1][0], columns, facts)
        parts = [
            BlockPart(part.body.matrix, *((two, one) if flipped else (one, two)), is_turned=flipped)
            for part, one, two, flipped in zip(self._parts, ids[0], ids[1], turned, strict=False)
        ]
        return add_blocks(parts, rows, columns, limits, facts)


def _are_apart(numbers: Words, size: int) -> bool:
    """Whether all are different."""
    seen = np.zeros(size, np.bool_)
    seen[numbers] = True
    return int(np.count_nonzero(seen)) == len(numbers)


def _rename_words(
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
