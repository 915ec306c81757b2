"""Shapes: cliques with a structure that lets them be evaluated without rounds.

    recognise.py     which cliques have a shape: from the rules alone
    closure.py       p(X, Z) <- p(X, Y), step(Y, Z): bit rows, ranges or searches, over what
    condensed.py     makes of the steps: an acyclic graph of components
    generations.py   p(X, Y) <- l(A, X), p(A, B), r(B, Y): a bit matrix over classes
    pairs.py         pairs of words and small graphs
    places.py        words of several relations side by side

`evaluate_shape` is what the engine calls for each recursive clique, with the exit facts at hand.
It gives layouts (columns/folded.py) that hold the same facts as the rounds would have found, or
None, and then the rounds go ahead:

- the clique has no shape, or the pairs don't fit it (`Carried` with steps that do not commute);
- fewer than `Limits.least` pairs: rounds are done before the shape's kernels are loaded;
- words are spread too thin to index arrays by them;
- no way fits the memory budget.

A limit on rounds or facts is about rounds, so the engine does not ask for shapes then.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from caladan.analysis.core import CoreRule
from caladan.columns.folded import Distinct, Swapped
from caladan.columns.layout import Layout, Mask, Words
from caladan.delta.program import DeltaClique, DeltaProgram
from caladan.engines.embedded.shapes.pairs import (
    Interrupted,
    Limits,
    Pairs,
    contains,
    turned,
    union,
)
from caladan.engines.embedded.shapes.places import Places
from caladan.engines.embedded.shapes.recognise import (
    Carried,
    Generations,
    Reached,
    Shape,
    Step,
    recognise,
)

__all__ = ["Inputs", "Interrupted", "Limits", "Shape", "evaluate_shape", "recognise"]


class Inputs(Protocol):
    """What a shape asks of the engine."""

    def exit(self, relation: str) -> tuple[Words, ...]:
        """The distinct facts of a relation before its recursive rules: exit rules, facts, data."""
        ...

    def solve(self, rule: CoreRule) -> tuple[Words, ...]:
        """The distinct head rows of a rule over finished relations; its head names no relation."""
        ...


def evaluate_shape(
    clique: DeltaClique, program: DeltaProgram, inputs: Inputs, limits: Limits
) -> dict[str, Layout] | None:
    """The relation of a clique that has a shape; None if it has none or rounds are better."""
    shape = recognise(clique, program.relations)
    if shape is None:
        return None
    match shape:
        case Reached():
            return _reached(shape, inputs, limits)
        case Carried():
            return _carried(shape, inputs, limits)
        case Generations():
            layout = _generations(shape, inputs, limits)
            return None if layout is None else {shape.relation: layout}


def _reached(shape: Reached, inputs: Inputs, limits: Limits) -> dict[str, Layout] | None:
    from caladan.engines.embedded.shapes.closure import reached

    starts = {name: inputs.exit(name)[0] for name in shape.relations}
    links = [_solved(inputs, step) for step in shape.steps]
    pairs = [each for step in links for each in step]
    if not limits.suits(*pairs, *((words, words) for words in starts.values())):
        return None
    columns = [*starts.values(), *(column for each in pairs for column in each)]
    places = Places.of(shape.relations, shape.steps, columns)
    if not places.fit:
        return None
    marks = reached(
        np.concatenate([places.put(name, words) for name, words in starts.items()]),
        places.edges(shape.steps, links),
        places.size,
    )
    return {name: Distinct(places.marked(name, marks)) for name in shape.relations}


def _carried(shape: Carried, inputs: Inputs, limits: Limits) -> dict[str, Layout] | None:
    exits = {name: _exits(inputs, name) for name in shape.relations}
    links = [_solved(inputs, step) for step in shape.steps]
    if not limits.suits(*exits.values(), *(each for step in links for each in step)):
        return None
    passing = [
        None if step.condition is None else _passing(exits[step.source], step, inputs)
        for step in shape.steps
    ]
    if len(shape.relations) == 1 and all(len(step) == 1 for step in links):
        (name,) = shape.relations
        layout = _alone(shape, exits[name], [step[0] for step in links], passing, limits)
        return None if layout is None else {name: layout}
    # A condition that is not met by all facts is met by some only on their way: leave it to rounds.
    if any(mask is not None and not mask.all() for mask in passing):
        return None
    if shape.doubles or len({step.column for step in shape.steps}) > 1:
        return None
    return _together(shape, exits, links, limits)


def _alone(
    shape: Carried,
    exits: Pairs,
    steps: list[Pairs],
    passing: list[Mask | None],
    limits: Limits,
) -> Layout | None:
    """One relation, carrying either column or both, or doubling."""
    from caladan.engines.embedded.shapes.closure import carried

    beside: Pairs | None = None  # exit facts that no step applies to
    for mask in passing:
        if mask is not None and not mask.all():
            if len(steps) > 1 or shape.doubles:
                return None
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
            return None
        if not shape.doubles and not contains(union(forward), exits):
            return None
        return carried(exits, exits, limits)
    if forward:
        return carried(exits, union(forward), limits, beside=beside)
    # E*·B is the transpose of Bᵗ·(Eᵗ)*; a closure is the same from both ends.
    edges = union(backward)
    if beside is None and contains(exits, edges) and contains(edges, exits):
        return carried(exits, exits, limits)
    layout = carried(
        turned(exits), turned(edges), limits, beside=None if beside is None else turned(beside)
    )
    return None if layout is None else Swapped(layout)


def _together(
    shape: Carried, exits: dict[str, Pairs], links: list[list[Pairs]], limits: Limits
) -> dict[str, Layout] | None:
    """Relations that carry the same column: a graph over (relation, word)."""
    from caladan.engines.embedded.shapes.closure import carried

    column = shape.steps[0].column
    given = {n: turned(pairs) if column == 1 else pairs for n, pairs in exits.items()}
    words = [pairs[1] for pairs in given.values()]
    columns = [*words, *(column for step in links for pairs in step for column in pairs)]
    places = Places.of(shape.relations, shape.steps, columns)
    if not places.fit:
        return None
    layout = carried(
        (
            np.concatenate([pairs[0] for pairs in given.values()]),
            np.concatenate([places.put(name, pairs[1]) for name, pairs in given.items()]),
        ),
        places.edges(shape.steps, links),
        limits,
        may_share=False,
    )
    if layout is None:
        return None
    found: dict[str, Layout] = {}
    for name in shape.relations:
        mine = layout.with_columns(layout.columns.part(*places.range(name)))
        found[name] = Swapped(mine) if column == 1 else mine
    return found


def _generations(shape: Generations, inputs: Inputs, limits: Limits) -> Layout | None:
    from caladan.engines.embedded.shapes.generations import generations

    first, second = inputs.exit(shape.relation)
    left, right = _pairs(inputs, shape.left), _pairs(inputs, shape.right)
    if not limits.suits((first, second), left, right):
        return None
    return generations((first, second), left, right, limits)


def _exits(inputs: Inputs, relation: str) -> Pairs:
    first, second = inputs.exit(relation)
    return first, second


def _passing(exits: Pairs, step: Step, inputs: Inputs) -> Mask | None:
    """Which exit facts meet the condition of a step."""
    assert step.condition is not None
    return np.isin(exits[step.column], inputs.solve(step.condition)[0])


def _solved(inputs: Inputs, step: Step) -> list[Pairs]:
    """The pairs of each link of a step."""
    return [_pairs(inputs, rule) for rule in step.links]


def _pairs(inputs: Inputs, rule: CoreRule) -> Pairs:
    first, second = inputs.solve(rule)
    return first, second
