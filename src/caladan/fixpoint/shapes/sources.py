"""The sources of a recursion: the tuples that its steps carry, and which of them may take a step.

A step may have a condition on what is carried, and look up more for it; literals that connect that
with an end of the step become tests of a block of sources (conditions.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from caladan.columns.folded_index import NONE
from caladan.columns.layout import Mask, Words
from caladan.fixpoint.shapes.blocks import LayeredTest, PlaceTest
from caladan.fixpoint.shapes.conditions import TestedSide, place_tests
from caladan.fixpoint.shapes.inputs import ShapeInputs
from caladan.fixpoint.shapes.pairs import Declined, NodePlace, number_tuples
from caladan.plan.literals import CoreLiteral
from caladan.plan.recursion import Split, Step
from caladan.program import Expression, Variable, thresholds


class StepSources:
    """Tuples of the carried columns, numbered: `given` ones, `rows`, whose numbers are `firsts`.

    `masks` has for each step the sources that it is open to, None if it is to all.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        sides: Mapping[str, Split],
        given: Sequence[tuple[Words, ...]],
        inputs: ShapeInputs,
        rows: int = 0,
    ) -> None:
        self._steps = steps
        self._inputs = inputs
        self._solved = [
            None
            if step.is_open
            else [inputs.solve(step.conditions(r, s, inputs.info(r))) for r, s in sides.items()]
            for step in steps
        ]
        width = len(given[0])
        parts = [*given, *(part[:width] for each in self._solved for part in each or ())]
        columns = [tuple(np.ascontiguousarray(c) for c in part) for part in parts]
        # Where nothing is carried, all that is given belongs to one source.
        counts = [len(part[0]) if part else rows for part in parts]
        self.place, ids = number_tuples(columns, counts)
        self.firsts = np.concatenate(ids[: len(given)])
        later = iter(ids[len(given) :])
        self._open_to = [
            None if each is None else [next(later) for _ in each] for each in self._solved
        ]
        self.masks = [None if each is None else self._marked(each) for each in self._open_to]

    def _marked(self, parts: list[Words]) -> Mask:
        marks = np.zeros(self.place.size, np.bool_)
        for part in parts:
            marks[part] = True
        return marks

    def tests(
        self,
        number: int,
        ends: Sequence[tuple[tuple[CoreLiteral, ...], NodePlace, tuple[Expression, ...]]],
        used: Mask,
    ) -> list[tuple[PlaceTest, ...]]:
        """The tests of a step's literals at some places, whose columns have terms of the rule."""
        step = self._steps[number]
        side, layers = self._tested(number)
        found: list[tuple[PlaceTest, ...]] = []
        for literals, place, terms in ends:
            some = np.flatnonzero(used[slice(*place.range)]).astype(np.uint32)
            tests: tuple[PlaceTest, ...] = ()
            if literals:
                other = TestedSide(place, some, terms)
                tests = place_tests(step.rule, literals, side, other, self._inputs)
            if layers is not None and tests:
                layered = LayeredTest(layers, [each.test for each in tests])
                tests = (PlaceTest(*place.range, layered),)
            found.append(tests)
        if layers is not None and len(layers) > 1 and sum(map(bool, found)) > 1:
            raise Declined("its rules test what they look up in several places")
        return found

    def _tested(self, number: int) -> tuple[TestedSide, list[Words] | None]:
        """The sources as tests of a step see them, and layers of what is looked up for them."""
        step, solved, open_to = self._steps[number], self._solved[number], self._open_to[number]
        if not step.looked or solved is None or open_to is None:
            return TestedSide(self.place, np.unique(self.firsts), step.body[0]), None
        width = len(step.body[0])
        parts = [(ids, *columns[width:]) for ids, columns in zip(open_to, solved, strict=True)]
        place, _ = number_tuples(parts, [len(ids) for ids in open_to])
        assert place.words is not None
        source, *others = place.words
        order = np.argsort(source, kind="stable")
        depth = np.arange(len(order)) - np.searchsorted(source[order], source[order])
        deepest = int(depth.max(initial=0))
        if deepest >= thresholds.now.shape_kinds:
            raise Declined("its rules look up many values for a fact")
        layers = [np.full(self.place.size, NONE, np.uint32) for _ in range(deepest + 1)]
        for level, layer in enumerate(layers):
            of = order[depth == level]
            layer[source[of]] = of
        whole = NodePlace((*self.place.columns(source), *others), place.size)
        terms = (*step.body[0], *map(Variable, step.looked))
        return TestedSide(whole, np.arange(place.size, dtype=np.uint32), terms), layers
