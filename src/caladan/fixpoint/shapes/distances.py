"""The least sum along steps: d(X, Z, mmin<D>) <- d(X, Y, E), step(Y, Z, W), D = E + W.

What is carried tells sources apart, and no source depends on another. So each is gone through by
itself, over arrays of the size of the nodes, and what it finds goes straight into the relation.
Tests of what is carried against the ends of a step are bits, for 512 sources at a time (blocks.py).
The largest sum is the least one of what is negated. Where steps lead in circles they must not
improve a sum by themselves, or one might go on for ever: rounds have the limits for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from caladan.columns.kernels.blocks import WORDS
from caladan.columns.kernels.distances import nearest
from caladan.columns.kernels.graph import components
from caladan.columns.layout import Layout, Words
from caladan.columns.ranks import float_ranks, magnitude, rank_floats
from caladan.fixpoint.shapes.blocks import ALL, BLOCK, PlaceTest, as_bits
from caladan.fixpoint.shapes.inputs import ShapeInputs
from caladan.fixpoint.shapes.pairs import (
    Declined,
    Graph,
    NodePlace,
    ShapeLimits,
    longest_path,
    number_tuples,
    union,
)
from caladan.fixpoint.shapes.sources import StepSources
from caladan.join.arithmetic import blame_rule
from caladan.join.frontier import Bindings
from caladan.plan.recursion import Closure
from caladan.program import thresholds
from caladan.program.kinds import EXACT, Kind, kind_of

Sums: TypeAlias = NDArray[np.float64]


def find_distances(closure: Closure, inputs: ShapeInputs, limits: ShapeLimits) -> Layout:
    """The relation of a shape; its facts are listed."""
    return inputs.stored(closure.relation, prepare_facts(closure, inputs, limits))


def prepare_facts(
    closure: Closure, inputs: ShapeInputs, limits: ShapeLimits
) -> Iterator[tuple[Words, ...]]:
    """The facts of a shape, which are found once they are asked for; declines before that."""
    split, steps = closure.splits[closure.relation], closure.steps
    stepping = split.node
    given = inputs.exit(closure.relation)
    firsts = tuple(given[c] for c in split.carried)
    sources = StepSources(steps, closure.splits, [firsts], inputs, len(given[0]))
    kind = kind_of(inputs.info(closure.relation).columns[closure.value].type)
    numbers = inputs.numbers(closure.relation, closure.value, given[closure.value])
    sign = 1 if closure.is_least else -1
    values = sign * (rank_floats(numbers) if kind is Kind.FLOAT else numbers.astype(np.float64))
    parts = [tuple(given[c] for c in stepping)]
    weights: list[Sums] = []
    for each in steps:
        weight = each.weight
        assert weight is not None
        # Where nothing is carried, rounds would take far longer than listing the steps.
        most = 4 * len(values) + thresholds.now.shape_join if split.carried else None
        found = inputs.solve(each.weighted, most)
        parts += [found[: len(stepping)], found[len(stepping) : 2 * len(stepping)]]
        read = dict(zip(weight.read, found[2 * len(stepping) :], strict=True))
        evaluator = inputs.evaluator(each.rule, weight.read)
        with blame_rule(each.rule):
            added = evaluator.values(weight.added, Bindings(len(found[0]), read), None)
        weights.append(sign * added.data.astype(np.float64))
    limits.require_some(sum(len(part[0]) for part in parts))
    columns = [tuple(np.ascontiguousarray(c) for c in part) for part in parts]
    place, ids = number_tuples(columns, [len(part[0]) for part in columns])
    most = max(map(magnitude, (*weights, values)))
    if not place.size * most < (EXACT if kind is Kind.INTEGER else np.inf):
        raise Declined("its sums may be larger than doubles can tell apart")
    graph = _WeightedGraph(closure, ids[1::2], ids[2::2], weights, place.size)
    if limits.max_rounds is not None:
        edges = zip(ids[1::2], ids[2::2], strict=True)
        limits.require_path(longest_path(union([*edges]), place.size))
    used = np.zeros(place.size, np.bool_)
    for each in ids:
        used[each] = True
    graph.tests = [
        sources.tests(i, [(s.leaving, place, s.edge.begin), (s.arriving, place, s.edge.end)], used)
        for i, s in enumerate(steps)
    ]
    starts = Graph.of(sources.firsts, graph.number[ids[0]], sources.place.size)
    first_values = values[np.argsort(sources.firsts, kind="stable")]
    rows = graph.rows(starts, first_values, sources, limits)
    return _facts(closure, rows, sources.place, place, sign, inputs)


class _WeightedGraph:
    """Steps between nodes, in the order of these if they do not lead in circles."""

    def __init__(
        self,
        closure: Closure,
        begins: Sequence[Words],
        ends: Sequence[Words],
        weights: Sequence[Sums],
        size: int,
    ) -> None:
        steps = [step.weight for step in closure.steps if step.weight is not None]
        begin, end = (np.concatenate([np.empty(0, np.uint32), *each]) for each in (begins, ends))
        plain = Graph.of(begin, end, size)
        component = np.empty(size, np.uint32)
        is_tree = components(plain.bounds, plain.targets, component) == size
        self.is_ordered = is_tree and not bool(np.any(begin == end))
        self.number = np.arange(size, dtype=np.uint32)
        if self.is_ordered:  # components are numbered so that edges lead to smaller ones
            self.number = np.uint32(max(size, 1) - 1) - component
        elif any(
            not each.is_widest and bool(np.any(added < 0))
            for each, added in zip(steps, weights, strict=True)
        ):
            raise Declined("a step of it improves what it adds to, and steps lead in circles")
        self._node = np.empty(size, np.uint32)
        self._node[self.number] = np.arange(size, dtype=np.uint32)
        begin = self.number[begin]
        order = np.argsort(begin, kind="stable")
        self._graph = Graph.of(begin, self.number[end], size)
        self._weights = np.concatenate([np.empty(0, np.float64), *weights])[order]
        lengths = [len(each) for each in begins]
        self._step_of = np.repeat(np.arange(len(lengths), dtype=np.uint32), lengths)[order]
        self._widest = np.array([each.is_widest for each in steps], np.bool_)
        # Sums are finite (`prepare_facts` declines others), so none is beyond infinity.
        both = [(s.leaves, s.arrives) for s in steps]
        self._limits = np.array([[np.inf if e is None else e for e in each] for each in both])
        self.tests: list[list[tuple[PlaceTest, ...]]] = []

    def rows(
        self, starts: Graph, values: Sums, sources: StepSources, limits: ShapeLimits
    ) -> Iterator[tuple[Words, Words, Sums]]:
        """Sources, the nodes they reach, and the least sums, in batches."""
        some = np.flatnonzero(np.diff(starts.bounds)).astype(np.uint32)
        # Only sources that start somewhere: their lists, one behind the other, are all there is.
        bounds = np.append(starts.bounds[some], starts.bounds[-1])
        graph, size = self._graph, self._graph.nodes
        room = max(size, min(4 * thresholds.now.block, limits.budget >> 6))
        flat = [tests for both in self.tests for tests in both]
        number = np.cumsum([bool(tests) for tests in flat]) - 1
        numbers = np.where([bool(tests) for tests in flat], number, -1).reshape(-1, 2)
        masks = np.empty((int(number.max(initial=-1)) + 1, size, WORDS), np.uint64)
        if masks.nbytes > limits.budget:
            raise Declined("no layout of it fits the memory budget")
        is_open = all(mask is None for mask in sources.masks)
        tested = bool(len(masks)) or not is_open or bool(np.isfinite(self._limits).any())
        width = BLOCK if tested else max(len(some), 1)
        for offset in range(0, len(some), width):
            block = some[offset : offset + width]
            may = np.full((len(self.tests), WORDS), ALL, np.uint64)
            for i, mask in enumerate(sources.masks):
                if mask is not None:
                    may[i] = as_bits(mask[block][None, :])[0]
            masks[:] = ALL
            for mask, tests in zip(masks, (each for each in flat if each), strict=True):
                for each in tests:
                    each.test.keep(block, self._node, np.arange(size, dtype=np.uint32), mask)
            first, last = offset, offset + len(block)
            while first < last:
                nodes, least = np.empty(room, np.uint32), np.empty(room, np.float64)
                row_bounds = np.zeros(last - first + 1, np.int64)
                done = nearest(
                    graph.bounds, graph.targets, self._weights, self._step_of,
                    bounds, starts.targets, values, first, last, offset,
                    self.is_ordered, tested, self._widest, self._limits, may, numbers, masks,
                    row_bounds, nodes, least, limits.stop,
                )  # fmt: skip
                limits.check()
                total = int(row_bounds[done])
                counts = np.diff(row_bounds[: done + 1])
                yield (
                    np.repeat(some[first : first + done], counts),
                    self._node[nodes[:total]],
                    least[:total],
                )
                first += done


def _facts(
    closure: Closure,
    rows: Iterator[tuple[Words, Words, Sums]],
    sources: NodePlace,
    place: NodePlace,
    sign: int,
    inputs: ShapeInputs,
) -> Iterator[tuple[Words, ...]]:
    """The facts of the relation, in batches."""
    split = closure.splits[closure.relation]
    kind = kind_of(inputs.info(closure.relation).columns[closure.value].type)
    for source, node, least in rows:
        columns = dict(zip(split.carried, sources.columns(source), strict=True))
        columns |= dict(zip(split.node, place.columns(node), strict=True))
        least *= sign
        ranks = float_ranks(least) if kind is Kind.FLOAT else least.astype(np.int64)
        columns[closure.value] = inputs.words(closure.relation, closure.value, ranks)
        yield tuple(columns[c] for c in range(len(columns)))
