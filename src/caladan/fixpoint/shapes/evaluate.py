"""Shapes: cliques with a structure that lets them be evaluated without rounds.

    recognise.py     which cliques have a shape: from the rules alone
    closure.py       p(X, Z) <- p(X, Y), step(Y, Z): bit rows, ranges or searches, over the acyclic
                     graph of the steps' components
    generations.py   p(X, Y) <- l(A, X), p(A, B), r(B, Y): a bit matrix over classes
    pairs.py         pairs of words and small graphs; words of several relations side by side

`evaluated` is what the engine calls for each clique that has a shape, with the exit facts at hand.
It gives layouts (columns/folded.py) that hold the same facts as the rounds would have found, or
None, and then the rounds go ahead:

- the pairs don't fit it (`Carried` with steps that do not commute);
- fewer pairs than the threshold `shape`: rounds are done before the shape's kernels are loaded;
- words are spread too thin to index arrays by them;
- no way fits the memory budget.

A limit on rounds or facts is about rounds, so the engine does not ask for shapes then.

`Shaping` (choice.py) hands a clique to its shape, with what shapes ask of a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from caladan.analysis.core import CoreRule
from caladan.columns.folded import Distinct
from caladan.columns.folded_relation import FoldedRelation, FoldedSide
from caladan.columns.layout import Layout, Mask, Words
from caladan.fixpoint.shapes.pairs import (
    Declined,
    NodeNumbers,
    Pairs,
    ShapeLimits,
    contains,
    turned,
    union,
)
from caladan.fixpoint.shapes.recognise import Carried, Generations, Reached, Shape, Step, recognise
from caladan.rules.program import DeltaClique, DeltaProgram

L = TypeVar("L", bound=Layout)


class ShapeInputs(Protocol):
    """What a shape asks of the engine."""

    def exit(self, relation: str) -> tuple[Words, ...]:
        """The distinct facts of a relation before its recursive rules: exit rules, facts, data."""
        ...

    def solve(self, rule: CoreRule) -> tuple[Words, ...]:
        """The distinct head rows of a rule over finished relations; its head names no relation."""
        ...


def evaluate_shape(
    clique: DeltaClique, program: DeltaProgram, inputs: ShapeInputs, limits: ShapeLimits
) -> dict[str, Layout] | None:
    """The relations of a clique that has a shape; None if it has none or rounds are better."""
    shape = recognise(clique, program.relations)
    return None if shape is None else evaluated(shape, inputs, limits)


def evaluated(
    shape: Shape,
    inputs: ShapeInputs,
    limits: ShapeLimits,
    declined: Callable[[str], None] | None = None,
) -> dict[str, Layout] | None:
    """The relations of a shape; None if rounds are better, and then `declined` is told why."""
    try:
        match shape:
            case Reached():
                return _reached(shape, inputs, limits)
            case Carried():
                return _carried(shape, inputs, limits)
            case Generations():
                return {shape.relation: _generations(shape, inputs, limits)}
    except Declined as reason:
        if declined is not None:
            declined(str(reason))
        return None


def _reached(shape: Reached, inputs: ShapeInputs, limits: ShapeLimits) -> dict[str, Layout]:
    from caladan.fixpoint.shapes.closure import reached

    starts = {name: inputs.exit(name)[0] for name in shape.relations}
    links = [_solved(inputs, step) for step in shape.steps]
    pairs = [each for step in links for each in step]
    limits.require(*pairs, *((words, words) for words in starts.values()))
    columns = [*starts.values(), *(column for each in pairs for column in each)]
    places = NodeNumbers.of(shape.relations, shape.steps, columns)
    places.require()
    marks = reached(
        np.concatenate([places.put(name, words) for name, words in starts.items()]),
        places.edges(shape.steps, links),
        places.size,
    )
    return {name: Distinct(places.marked(name, marks)) for name in shape.relations}


def _carried(shape: Carried, inputs: ShapeInputs, limits: ShapeLimits) -> dict[str, Layout]:
    from caladan.fixpoint.shapes.closure import carried

    closure = _closure(shape, inputs, limits)
    layout = _fitting(
        carried(
            closure.exits,
            closure.steps,
            limits,
            beside=closure.beside,
            may_share=closure.places is None,
        )
    )
    found: dict[str, Layout] = {}
    for name in shape.relations:
        mine = layout
        if closure.places is not None:
            mine = layout.with_columns(layout.columns.part(*closure.places.range(name)))
        sides = (FoldedSide((0,)), FoldedSide((1,)))
        found[name] = FoldedRelation(mine, *(sides[::-1] if closure.is_turned else sides))
    return found


def ways(shape: Carried, inputs: ShapeInputs, limits: ShapeLimits) -> list[str]:
    """The layouts of a closure that fit the budget, the one estimated to cost least first."""
    from caladan.fixpoint.shapes.closure import LAYOUTS, ranked

    closure = _closure(shape, inputs, limits)
    found = ranked(closure.exits, closure.steps, limits, may_share=closure.places is None)
    turned = ", transposed" if closure.is_turned else ""
    return list(dict.fromkeys(LAYOUTS[way] + turned for way in found))


@dataclass(frozen=True, slots=True)
class _Closure:
    """Exit pairs B and step pairs E, for B·E*; facts `beside` it are added as they are.

    Where it `is_turned` the columns are exchanged; where relations share it, each has its place.
    """

    exits: Pairs
    steps: Pairs
    beside: Pairs | None = None
    is_turned: bool = False
    places: NodeNumbers | None = None


def _closure(shape: Carried, inputs: ShapeInputs, limits: ShapeLimits) -> _Closure:
    """What a carried shape comes down to; declines if it comes down to nothing of the kind."""
    exits = {name: _exits(inputs, name) for name in shape.relations}
    links = [_solved(inputs, step) for step in shape.steps]
    limits.require(*exits.values(), *(each for step in links for each in step))
    passing = [
        None if step.condition is None else _passing(exits[step.source], step, inputs)
        for step in shape.steps
    ]
    if len(shape.relations) == 1 and all(len(step) == 1 for step in links):
        (name,) = shape.relations
        return _alone(shape, exits[name], [step[0] for step in links], passing)
    # A condition that is not met by all facts is met by some only on their way: leave it to rounds.
    if any(mask is not None and not mask.all() for mask in passing):
        raise Declined("a condition on the carried column holds for some facts only")
    if shape.doubles or len({step.column for step in shape.steps}) > 1:
        raise Declined("some of its rules carry one column, some another")
    return _together(shape, exits, links)


def _alone(
    shape: Carried, exits: Pairs, steps: list[Pairs], passing: list[Mask | None]
) -> _Closure:
    """One relation, carrying either column or both, or doubling."""
    beside: Pairs | None = None  # exit facts that no step applies to
    for mask in passing:
        if mask is not None and not mask.all():
            if len(steps) > 1 or shape.doubles:
                raise Declined("a condition on the carried column holds for some facts only")
            exits, beside = (
                (exits[0][mask], exits[1][mask]),
                (exits[0][~mask], exits[1][~mask]),
            )
    # Edges lead from the first column to the second, whichever is carried.
    forward = [p for s, p in zip(shape.steps, steps, strict=True) if s.column == 0]
    backward = [turned(p) for s, p in zip(shape.steps, steps, strict=True) if s.column == 1]
    if shape.doubles or (forward and backward):
        # p ⊇ its exit pairs B. With steps inside B all rules together give B⁺, provided that one
        # of them makes every such step: doubling does, and so does stepping by the whole of B.
        if beside is not None or not all(contains(exits, e) for e in (*forward, *backward)):
            raise Declined("its rules step by more than the pairs it starts with")
        if not shape.doubles and not contains(union(forward), exits):
            raise Declined("its rules step by less than the pairs it starts with")
        return _Closure(exits, exits)
    if forward:
        return _Closure(exits, union(forward), beside)
    # E*·B is the transpose of Bᵗ·(Eᵗ)*; a closure is the same from both ends.
    edges = union(backward)
    if beside is None and contains(exits, edges) and contains(edges, exits):
        return _Closure(exits, exits)
    aside = None if beside is None else turned(beside)
    return _Closure(turned(exits), turned(edges), aside, is_turned=True)


def _together(shape: Carried, exits: dict[str, Pairs], links: list[list[Pairs]]) -> _Closure:
    """Relations that carry the same column: a graph over (relation, word)."""
    column = shape.steps[0].column
    given = {n: turned(pairs) if column == 1 else pairs for n, pairs in exits.items()}
    words = [pairs[1] for pairs in given.values()]
    columns = [*words, *(column for step in links for pairs in step for column in pairs)]
    places = NodeNumbers.of(shape.relations, shape.steps, columns)
    places.require()
    starts = (
        np.concatenate([pairs[0] for pairs in given.values()]),
        np.concatenate([places.put(name, pairs[1]) for name, pairs in given.items()]),
    )
    edges = places.edges(shape.steps, links)
    return _Closure(starts, edges, is_turned=column == 1, places=places)


def _generations(shape: Generations, inputs: ShapeInputs, limits: ShapeLimits) -> Layout:
    from caladan.fixpoint.shapes.generations import generations

    first, second = inputs.exit(shape.relation)
    left, right = _pairs(inputs, shape.left), _pairs(inputs, shape.right)
    limits.require((first, second), left, right)
    matrix = _fitting(generations((first, second), left, right, limits))
    return FoldedRelation(matrix, FoldedSide((0,)), FoldedSide((1,)))


def _fitting(layout: L | None) -> L:
    """A layout, if it fits the memory budget."""
    if layout is None:
        raise Declined("no layout of it fits the memory budget")
    return layout


def _exits(inputs: ShapeInputs, relation: str) -> Pairs:
    first, second = inputs.exit(relation)
    return first, second


def _passing(exits: Pairs, step: Step, inputs: ShapeInputs) -> Mask | None:
    """Which exit facts meet the condition of a step."""
    assert step.condition is not None
    return np.isin(exits[step.column], inputs.solve(step.condition)[0])


def _solved(inputs: ShapeInputs, step: Step) -> list[Pairs]:
    """The pairs of each link of a step."""
    return [_pairs(inputs, rule) for rule in step.links]


def _pairs(inputs: ShapeInputs, rule: CoreRule) -> Pairs:
    first, second = inputs.solve(rule)
    return first, second
