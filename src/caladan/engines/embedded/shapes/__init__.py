"""Shapes: cliques with a structure that lets them be evaluated without rounds.

    recognise.py     which cliques have a shape: from the rules alone
    closure.py       p(X, Z) <- p(X, Y), step(Y, Z): bit rows, lists or searches, over what
    condensed.py     makes of the steps: an acyclic graph of components
    generations.py   p(X, Y) <- l(A, X), p(A, B), r(B, Y): a bit matrix over classes
    pairs.py         pairs of words and small graphs

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
from caladan.columns.layout import Layout, Words
from caladan.delta.program import DeltaClique, DeltaProgram
from caladan.engines.embedded.shapes.pairs import Interrupted, Limits, Pairs
from caladan.engines.embedded.shapes.recognise import (
    Carried,
    Generations,
    Reached,
    Shape,
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
            layout = _reached(shape, inputs, limits)
        case Carried():
            layout = _carried(shape, inputs, limits)
        case Generations():
            layout = _generations(shape, inputs, limits)
    return None if layout is None else {shape.relation: layout}


def _reached(shape: Reached, inputs: Inputs, limits: Limits) -> Layout | None:
    from caladan.engines.embedded.shapes.closure import reached

    (starts,) = inputs.exit(shape.relation)
    steps = _union([_pairs(inputs, rule) for rule in shape.pairs])
    if not limits.suits((starts, starts), steps):
        return None
    return reached(starts, steps)


def _carried(shape: Carried, inputs: Inputs, limits: Limits) -> Layout | None:
    from caladan.columns.folded import Swapped
    from caladan.engines.embedded.shapes.closure import carried
    from caladan.engines.embedded.shapes.pairs import contains, turned

    first, second = inputs.exit(shape.relation)
    # Edges lead from the first column to the second, whichever is carried.
    forward = [_pairs(inputs, s.pairs) for s in shape.steps if s.column == 0]
    backward = [turned(_pairs(inputs, s.pairs)) for s in shape.steps if s.column == 1]
    if not limits.suits((first, second), *forward, *backward):
        return None
    exits: Pairs = (first, second)
    beside: Pairs | None = None  # exit facts that no step applies to
    for step in shape.steps:
        if step.condition is not None:
            passing = np.isin((first, second)[step.column], inputs.solve(step.condition)[0])
            if passing.all():
                continue
            if len(shape.steps) > 1 or shape.doubles:
                return None
            exits = (first[passing], second[passing])
            beside = (first[~passing], second[~passing])
    if shape.doubles or (forward and backward):
        # p ⊇ its exit pairs B. With steps inside B all rules together give B⁺, provided that one
        # of them makes every such step: doubling does, and so does stepping by the whole of B.
        if beside is not None or not all(contains(exits, e) for e in (*forward, *backward)):
            return None
        if not shape.doubles and not contains(_union(forward), exits):
            return None
        return carried(exits, exits, limits)
    if forward:
        return carried(exits, _union(forward), limits, beside=beside)
    # E*·B is the transpose of Bᵗ·(Eᵗ)*; a closure is the same from both ends.
    edges = _union(backward)
    if beside is None and contains(exits, edges) and contains(edges, exits):
        return carried(exits, exits, limits)
    layout = carried(
        turned(exits), turned(edges), limits, beside=None if beside is None else turned(beside)
    )
    return None if layout is None else Swapped(layout)


def _generations(shape: Generations, inputs: Inputs, limits: Limits) -> Layout | None:
    from caladan.engines.embedded.shapes.generations import generations

    first, second = inputs.exit(shape.relation)
    left, right = _pairs(inputs, shape.left), _pairs(inputs, shape.right)
    if not limits.suits((first, second), left, right):
        return None
    return generations((first, second), left, right, limits)


def _pairs(inputs: Inputs, rule: CoreRule) -> Pairs:
    first, second = inputs.solve(rule)
    return first, second


def _union(parts: list[Pairs]) -> Pairs:
    from caladan.engines.embedded.shapes.pairs import distinct

    if len(parts) == 1:
        return parts[0]
    return distinct(
        np.concatenate([first for first, _ in parts]),
        np.concatenate([second for _, second in parts]),
    )
