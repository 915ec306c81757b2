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
from caladan.plan.recursion import Closure
from caladan.plan.weights import Weight
from caladan.program import thresholds
from caladan.program.kinds import Kind, kind_of


def spread_labels(closure: Closure, inputs: ShapeInputs, limits: ShapeLimits) -> Layout:
    """The relation of a shape; its facts are listed."""
    exits, graph = label_graph(closure, inputs, limits)
    values = exits[closure.value]
    numbers = _numbers(closure, values, inputs)
    order = np.argsort(numbers, kind="stable")
    starts = graph.starts[closure.relation][order]
    origin = np.full(graph.size, NONE, np.uint32)  # the exit fact whose label a node has, in order
    begin = 0
    kind = kind_of(inputs.info(closure.relation).columns[closure.value].type)
    ends = [_count_allowed(closure, each.weight, kind, numbers[order]) for each in closure.steps]
    for end in sorted({*ends, len(order)}):
        edges = union([e for e, last in zip(graph.edges, ends, strict=True) if last >= end])
        lists = Graph.of(*edges, graph.size)
        spread(lists.bounds, lists.targets, starts, begin, end, origin, limits.stop)
        limits.check()
        begin = end
    return inputs.stored(closure.relation, _facts(closure, graph, origin, values[order]))


def label_graph(
    closure: Closure, inputs: ShapeInputs, limits: ShapeLimits
) -> tuple[tuple[Words, ...], StepGraph]:
    """The exit facts of a shape, and the graph that their labels go along."""
    exits = inputs.exit(closure.relation)
    steps = [each.edge for each in closure.steps]
    given = {closure.relation: exits}
    graph = graph_of(
        {closure.relation: closure.splits[closure.relation].node}, steps, given, inputs, limits
    )
    if limits.max_rounds is not None:
        limits.require_path(longest_path(union(graph.edges), graph.size))
    return exits, graph


def _numbers(closure: Closure, values: Words, inputs: ShapeInputs) -> Ranks:
    """Numbers in the order of some labels, the best one first."""
    domain = inputs.domain(closure.relation, closure.value)
    if isinstance(domain, TextDomain):
        ranks = domain.ordered(values)
    else:
        ranks = inputs.numbers(closure.relation, closure.value, values)
    return in_order(ranks, smallest=closure.is_least)


def _count_allowed(closure: Closure, weight: Weight | None, kind: Kind, ordered: Ranks) -> int:
    """How many labels, from the best on, are good enough to be handed on."""
    most = None if weight is None else weight.leaves
    if most is None:
        return len(ordered)
    last = most if closure.is_least else -most
    if kind is Kind.INTEGER:
        last = math.floor(last) if closure.is_least else math.ceil(last)
    rank = np.array([rank_of(last)], np.int64)
    (end,) = np.searchsorted(ordered, in_order(rank, smallest=closure.is_least), side="right")
    return int(end)


def _facts(
    closure: Closure, graph: StepGraph, origin: Words, values: Words
) -> Iterator[tuple[Words, ...]]:
    """The facts of the relation, in batches."""
    place = graph.places[closure.relation]
    mine = origin[slice(*place.range)]
    nodes = np.flatnonzero(mine != NONE).astype(np.uint32)
    room = 4 * thresholds.now.block
    for first in range(0, len(nodes), room):
        some = nodes[first : first + room]
        columns = dict(zip(closure.splits[closure.relation].node, place.columns(some), strict=True))
        columns[closure.value] = values[mine[some]]
        yield tuple(columns[c] for c in range(len(columns)))
