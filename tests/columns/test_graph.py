"""Graph kernels against plain Python on small random graphs."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, strategies as st

from caladan.columns.kernels.closure import closure_bits, closure_ranges, reach_ranges
from caladan.columns.kernels.generations import equal_sets
from caladan.columns.kernels.graph import components, condense, reach
from caladan.fixpoint.shapes.pairs import Graph

Edges = set[tuple[int, int]]
NO_STOP = np.zeros(1, np.int64)
STOP = np.ones(1, np.int64)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, Edges]:
    nodes = draw(st.integers(1, 90))
    node = st.integers(0, nodes - 1)
    return nodes, draw(st.sets(st.tuples(node, node), max_size=2 * nodes))


def graph_of(nodes: int, edges: Edges) -> Graph:
    first, second = np.array(sorted(edges), np.uint32).reshape(-1, 2).T
    return Graph.of(first.copy(), second.copy(), nodes)


def reachable(edges: Edges, start: int) -> set[int]:
    """What can be reached in one step or more."""
    found: set[int] = set()
    todo = [start]
    while todo:
        v = todo.pop()
        new = {y for x, y in edges if x == v} - found
        found |= new
        todo.extend(new)
    return found


@given(graphs())
def test_adjacency_groups_targets_by_source(drawn: tuple[int, Edges]) -> None:
    nodes, edges = drawn
    graph = graph_of(nodes, edges)
    for v in range(nodes):
        targets = graph.targets[graph.bounds[v] : graph.bounds[v + 1]]
        assert targets.tolist() == sorted(y for x, y in edges if x == v)


@given(graphs())
def test_components_are_mutually_reachable_and_in_order(drawn: tuple[int, Edges]) -> None:
    nodes, edges = drawn
    graph = graph_of(nodes, edges)
    component = np.empty(nodes, np.uint32)
    count = components(graph.bounds, graph.targets, component)
    reached = [reachable(edges, v) for v in range(nodes)]
    for v in range(nodes):
        for t in range(nodes):
            mutual = v == t or (t in reached[v] and v in reached[t])
            assert (component[v] == component[t]) == mutual
    assert sorted(set(component.tolist())) == list(range(count))
    assert all(component[x] >= component[y] for x, y in edges)

    members = Graph.of(component, np.arange(nodes, dtype=np.uint32), count)
    bounds, targets = np.zeros(count + 1, np.int64), np.empty(len(edges), np.uint32)
    cyclic = np.zeros(count, np.bool_)
    written = condense(
        graph.bounds, graph.targets, component, members.bounds, members.targets,
        bounds, targets, cyclic,
    )  # fmt: skip
    lists = [targets[bounds[c] : bounds[c + 1]].tolist() for c in range(count)]
    assert written == sum(map(len, lists))
    for c in range(count):
        inside = {v for v in range(nodes) if component[v] == c}
        leading_out = {int(component[y]) for x, y in edges if x in inside} - {c}
        assert lists[c] == sorted(leading_out)
        assert cyclic[c] == any(x in inside and y in inside for x, y in edges)


@st.composite
def descending(draw: st.DrawFn) -> tuple[int, int, Edges, set[int]]:
    """Columns, rows behind them, edges that lead to smaller columns, and cyclic columns."""
    columns, sources = draw(st.integers(1, 80)), draw(st.integers(0, 20))
    pairs = st.tuples(st.integers(0, columns + sources - 1), st.integers(0, columns - 1))
    edges = {(x, y) for x, y in draw(st.sets(pairs, max_size=200)) if x > y}
    return columns, columns + sources, edges, draw(st.sets(st.integers(0, columns - 1), max_size=9))


@given(descending(), st.integers(0, 2))
def test_closures(drawn: tuple[int, int, Edges, set[int]], cut: int) -> None:
    columns, count, edges, cycles = drawn
    graph = graph_of(count, edges)
    cyclic = np.isin(np.arange(columns), sorted(cycles))
    expected = [sorted(reachable(edges, r) | ({r} if r in cycles else set())) for r in range(count)]
    words = (columns + 63) // 64
    bits = np.zeros((count, words), np.uint64)
    cut = min(cut, words)
    for first, last in ((0, cut), (cut, words)):  # as two threads would
        assert (
            closure_bits(graph.bounds, graph.targets, cyclic, bits, first, last, NO_STOP) == count
        )
    one_by_one = np.unpackbits(bits.view(np.uint8), axis=1, bitorder="little")
    assert [np.flatnonzero(row).tolist() for row in one_by_one] == expected

    bounds, out = np.zeros(count + 1, np.int64), np.empty((count + 1) * columns + 2, np.uint64)
    assert closure_ranges(graph.bounds, graph.targets, cyclic, bounds, out, NO_STOP) == count
    assert [values(out[bounds[r] : bounds[r + 1]]) for r in range(count)] == expected


def values(ranges: np.ndarray) -> list[int]:
    """What the ranges of a row stand for; between two of them something is missing."""
    pairs = [(int(r) >> 32, int(r) & 0xFFFFFFFF) for r in ranges]
    assert all(low <= high for low, high in pairs)
    assert all(high + 1 < low for (_, high), (low, _) in itertools.pairwise(pairs))
    return [value for low, high in pairs for value in range(low, high + 1)]


@given(descending())
def test_ranges_that_run_out_of_room_keep_the_rows_they_have(
    drawn: tuple[int, int, Edges, set[int]],
) -> None:
    columns, count, edges, _ = drawn
    graph = graph_of(count, edges)
    bounds, out = np.zeros(count + 1, np.int64), np.empty(columns, np.uint64)
    cyclic = np.zeros(columns, np.bool_)
    done = closure_ranges(graph.bounds, graph.targets, cyclic, bounds, out, NO_STOP)
    for r in range(done):
        assert values(out[bounds[r] : bounds[r + 1]]) == sorted(reachable(edges, r))


@given(graphs(), st.data())
def test_searches(drawn: tuple[int, Edges], data: st.DataObject) -> None:
    nodes, edges = drawn
    graph = graph_of(nodes, edges)
    starts = data.draw(st.lists(st.sets(st.integers(0, nodes - 1), max_size=4), max_size=5))
    expected = [sorted(s | {y for v in s for y in reachable(edges, v)}) for s in starts]
    start_bounds = np.cumsum([0, *map(len, starts)])
    flat = np.array([v for s in starts for v in sorted(s)], np.uint32)
    bounds = np.zeros(len(starts) + 1, np.int64)
    out, walked = np.empty((len(starts) + 1) * nodes + 2, np.uint64), np.zeros(1, np.int64)
    assert reach_ranges(
        graph.bounds,
        graph.targets,
        start_bounds,
        flat,
        0,
        len(starts),
        bounds,
        out,
        walked,
        NO_STOP,
    ) == len(starts)
    assert [values(out[bounds[s] : bounds[s + 1]]) for s in range(len(starts))] == expected
    assert walked[0] == sum(1 + sum(x == v for x, _ in edges) for row in expected for v in row)
    for s, row in zip(starts, expected, strict=True):
        marks = np.zeros(nodes, np.bool_)
        count = reach(graph.bounds, graph.targets, np.array(sorted(s), np.uint32), marks)
        assert np.flatnonzero(marks).tolist() == row and count == len(row)


@given(graphs())
def test_equal_sets_are_one_class(drawn: tuple[int, Edges]) -> None:
    nodes, edges = drawn
    graph = graph_of(nodes, edges)
    classes = np.empty(nodes, np.uint32)
    count = equal_sets(graph.bounds, graph.targets, classes)
    sets = [frozenset(x for x, y in edges if y == v) for v in range(nodes)]
    numbers: dict[frozenset[int], int] = {}
    for v in range(nodes):
        if not sets[v]:
            assert classes[v] == 2**32 - 1
        else:
            assert classes[v] == numbers.setdefault(sets[v], len(numbers))
    assert count == len(numbers)


def test_a_raised_flag_stops_long_kernels() -> None:
    nodes = 5000
    graph = graph_of(nodes, {(v, v - 2) for v in range(2, nodes)})  # every other one: many ranges
    cyclic = np.zeros(nodes, np.bool_)
    bounds, out = np.zeros(nodes + 1, np.int64), np.empty(nodes * nodes // 2, np.uint64)
    assert closure_ranges(graph.bounds, graph.targets, cyclic, bounds, out, NO_STOP) == nodes
    assert closure_ranges(graph.bounds, graph.targets, cyclic, bounds, out, STOP) < nodes
