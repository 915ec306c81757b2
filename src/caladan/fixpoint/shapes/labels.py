"""The best label that steps bring: l(Y, mmin<Z>) <- l(X, Z), step(X, Y).

Components, the first of all that reach a node, whatever a best value is handed on from. Labels are
taken from the best to the worst, each to all that it reaches and that has none: every step is gone
along once, where rounds go along it again whenever a better label comes by. A label is a value of
an exit fact, of any type that has an order; nothing is computed of it.

Where rules say how bad a label may be to be handed on (`Z < 50`), worse ones find fewer steps.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from caladan.columns.domains import TextDomain
from caladan.columns.folded_index import NONE
from caladan.columns.kernels.graph import spread
from caladan.columns.layout import Layout, Words
from caladan.columns.ranks import Ranks, in_order, rank_of
from caladan.fixpoint.shapes.explore import graph_of
from caladan.fixpoint.shapes.inputs import ShapeInputs
from caladan.fixpoint.shapes.pairs import Graph, ShapeLimits, longest_path, union
from caladan.fixpoint.shapes.steps import StepGraph
from caladan.program import thresholds
from caladan.program.kinds import Kind, kind_of
from caladan.rules.shapes.forms import Labels


def labels(shape: Labels, inputs: ShapeInputs, limits: ShapeLimits) -> Layout:
    """The relation of a shape; its facts are listed."""
    exits, graph = label_graph(shape, inputs, limits)
    values = exits[shape.column]
    numbers = _numbers(shape, values, inputs)
    order = np.argsort(numbers, kind="stable")
    starts = graph.starts[shape.relation][order]
    origin = np.full(graph.size, NONE, np.uint32)  # the exit fact whose label a node has, in order
    begin = 0
    kind = kind_of(inputs.info(shape.relation).columns[shape.column].type)
    ends = [_allowed(shape, each.most, kind, numbers[order]) for each in shape.steps]
    for end in sorted({*ends, len(order)}):
        edges = union([e for e, last in zip(graph.edges, ends, strict=True) if last >= end])
        lists = Graph.of(*edges, graph.size)
        spread(lists.bounds, lists.targets, starts, begin, end, origin, limits.stop)
        limits.check()
        begin = end
    return inputs.stored(shape.relation, _facts(shape, graph, origin, values[order]))


def label_graph(
    shape: Labels, inputs: ShapeInputs, limits: ShapeLimits
) -> tuple[tuple[Words, ...], StepGraph]:
    """The exit facts of a shape, and the graph that their labels go along."""
    exits = inputs.exit(shape.relation)
    steps = [each.step for each in shape.steps]
    given = {shape.relation: exits}
    graph = graph_of({shape.relation: shape.stepping}, steps, given, inputs, limits)
    if limits.max_rounds is not None:
        limits.require_path(longest_path(union(graph.edges), graph.size))
    return exits, graph


def _numbers(shape: Labels, values: Words, inputs: ShapeInputs) -> Ranks:
    """Numbers in the order of some labels, the best one first."""
    domain = inputs.domain(shape.relation, shape.column)
    if isinstance(domain, TextDomain):
        ranks = domain.ordered(values)
    else:
        ranks = inputs.numbers(shape.relation, shape.column, values)
    return in_order(ranks, smallest=shape.smallest)


def _allowed(shape: Labels, most: float | None, kind: Kind, ordered: Ranks) -> int:
    """How many labels, from the best on, are no worse than `most`."""
    if most is None:
        return len(ordered)
    last = most if shape.smallest else -most
    if kind is Kind.INTEGER:
        last = math.floor(last) if shape.smallest else math.ceil(last)
    rank = np.array([rank_of(last)], np.int64)
    (end,) = np.searchsorted(ordered, in_order(rank, smallest=shape.smallest), side="right")
    return int(end)


def _facts(
    shape: Labels, graph: StepGraph, origin: Words, values: Words
) -> Iterator[tuple[Words, ...]]:
    """The facts of the relation, in batches."""
    place = graph.places[shape.relation]
    mine = origin[slice(*place.range)]
    nodes = np.flatnonzero(mine != NONE).astype(np.uint32)
    room = 4 * thresholds.now.block
    for first in range(0, len(nodes), room):
        some = nodes[first : first + room]
        columns = dict(zip(shape.stepping, place.columns(some), strict=True))
        columns[shape.column] = values[mine[some]]
        yield tuple(columns[c] for c in range(len(columns)))
