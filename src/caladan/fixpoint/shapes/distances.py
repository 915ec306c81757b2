"""The least sum along steps: d(X, Z, mmin<D>) <- d(X, Y, E), step(Y, Z, W), D = E + W.

What is carried tells sources apart, and no source depends on another. So each is gone through by
itself, over arrays of the size of the nodes, and what it finds goes straight into the relation. The
largest sum is the least one of what is negated. Steps must not improve a sum by themselves, or a
cycle might go on for ever: rounds have the limits for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from caladan.columns.kernels.distances import nearest
from caladan.columns.layout import Counts, Layout, Mask, Words
from caladan.fixpoint.shapes.forms import Distances
from caladan.fixpoint.shapes.pairs import Declined, Graph, NodePlace, ShapeLimits, numbered
from caladan.join.arithmetic import blamed
from caladan.join.frontier import Bindings
from caladan.program import Variable, thresholds

if TYPE_CHECKING:
    from caladan.fixpoint.shapes.evaluate import ShapeInputs

_FAR: Final = 1 << 62


def distances(shape: Distances, inputs: ShapeInputs, limits: ShapeLimits) -> Layout:
    """The relation of a shape; its facts are listed."""
    return inputs.stored(shape.relation, prepared(shape, inputs, limits))


def prepared(
    shape: Distances, inputs: ShapeInputs, limits: ShapeLimits
) -> Iterator[tuple[Words, ...]]:
    """The facts of a shape, which are found once they are asked for; declines before that."""
    carried, stepping = shape.sides.carried, shape.sides.stepping
    sign = 1 if shape.smallest else -1
    given = inputs.exit(shape.relation)
    values = sign * inputs.numbers(shape.relation, shape.column, given[shape.column])
    parts = [tuple(given[c] for c in stepping)]
    weights: list[Counts] = []
    for step in shape.steps:
        found = inputs.solve(step.rule, 4 * len(values) + thresholds.now.shape_join)
        parts += [found[: len(stepping)], found[len(stepping) : 2 * len(stepping)]]
        read = dict(zip(step.read, found[2 * len(stepping) :], strict=True))
        evaluator = inputs.evaluator(step.rule, step.read)
        with blamed(step.rule):
            added = evaluator.values(step.weight, Bindings(len(found[0]), read), None)
        weights.append(sign * added.data)
    if shape.doubles:
        if not inputs.share_words(shape.relation, *carried, *stepping):
            raise Declined("its columns have no words in common")
        parts += [tuple(given[c] for c in carried), tuple(given[c] for c in stepping)]
        weights.append(values)
    limits.require_some(sum(len(part[0]) for part in parts))
    if any(int(each.min(initial=0)) < 0 for each in weights):
        raise Declined("a step of it improves what it adds to")
    firsts = tuple(np.ascontiguousarray(given[c]) for c in carried)
    sources, (source,) = numbered([firsts], [len(values)])
    columns = [tuple(np.ascontiguousarray(c) for c in part) for part in parts]
    place, ids = numbered(columns, [len(part[0]) for part in columns])
    most = max((int(each.max(initial=0)) for each in weights), default=0)
    if place.size * most + int(np.abs(values).max(initial=0)) >= _FAR:
        raise Declined("its sums may leave 64 bits")
    graph, lengths = _weighted(ids[1::2], ids[2::2], weights, place.size)
    moving = _moving(shape, sources, np.unique(source), inputs)
    starts, first_values = _weighted([source], [ids[0]], [values], sources.size)
    rows = _rows(graph, lengths, starts, first_values, moving, limits)
    return _facts(shape, rows, sources, place, sign, inputs)


def _weighted(
    begins: list[Words], ends: list[Words], weights: list[Counts], size: int
) -> tuple[Graph, Counts]:
    """A graph of edges with their weights, in the order of its lists."""
    begin, end = (np.concatenate([np.empty(0, np.uint32), *each]) for each in (begins, ends))
    weight = np.concatenate([np.empty(0, np.int64), *weights])
    order = np.argsort(begin, kind="stable")
    return Graph.of(begin[order], end[order], size), weight[order]


def _moving(shape: Distances, sources: NodePlace, used: Words, inputs: ShapeInputs) -> Mask:
    """The sources that the steps apply to."""
    found = np.zeros(sources.size, np.bool_)
    held = [np.ones(len(used), np.bool_)]
    for step in shape.steps:
        named = zip(step.carried, sources.columns(used), strict=True)
        columns = {t.name: words[None, :] for t, words in named if isinstance(t, Variable)}
        held.append(inputs.holds(step.rule, step.condition, columns, (1, len(used)))[0])
    if any(not np.array_equal(each, held[-1]) for each in held[1:]):
        raise Declined("its rules apply to different facts")
    found[used[held[-1]]] = True
    return found


def _rows(
    graph: Graph,
    weights: Counts,
    starts: Graph,
    values: Counts,
    moving: Mask,
    limits: ShapeLimits,
) -> Iterator[tuple[Words, Words, Counts]]:
    """Sources, the nodes they reach, and the least sums, in batches."""
    each = np.repeat(np.arange(starts.nodes, dtype=np.uint32), np.diff(starts.bounds))
    if not np.all(moving[each]):
        still = ~moving[each]
        yield each[still], starts.targets[still], values[still]
        starts = Graph.of(each[~still], starts.targets[~still], starts.nodes)
        values = values[~still]
    sources = np.flatnonzero(np.diff(starts.bounds)).astype(np.uint32)
    # Only sources that start somewhere: their lists, one behind the other, are all there is.
    bounds = np.append(starts.bounds[sources], starts.bounds[-1])
    size = max(graph.nodes, min(4 * thresholds.now.block, limits.budget >> 6))
    first = 0
    while first < len(sources):
        nodes, least = np.empty(size, np.uint32), np.empty(size, np.int64)
        row_bounds = np.zeros(len(sources) - first + 1, np.int64)
        done = nearest(
            graph.bounds, graph.targets, weights, bounds, starts.targets, values,
            first, len(sources), row_bounds, nodes, least, limits.stop,
        )  # fmt: skip
        limits.check()
        counts = np.diff(row_bounds[: done + 1])
        total = int(row_bounds[done])
        yield np.repeat(sources[first : first + done], counts), nodes[:total], least[:total]
        first += done


def _facts(
    shape: Distances,
    rows: Iterator[tuple[Words, Words, Counts]],
    sources: NodePlace,
    place: NodePlace,
    sign: int,
    inputs: ShapeInputs,
) -> Iterator[tuple[Words, ...]]:
    """The facts of the relation, in batches."""
    for source, node, least in rows:
        columns = dict(zip(shape.sides.carried, sources.columns(source), strict=True))
        columns |= dict(zip(shape.sides.stepping, place.columns(node), strict=True))
        columns[shape.column] = inputs.words(shape.relation, shape.column, sign * least)
        yield tuple(columns[c] for c in range(len(columns)))
