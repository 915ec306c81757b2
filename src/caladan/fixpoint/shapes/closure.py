"""Linear recursion that carries a column: p(X, Z) <- p(X, Y), step(Y, Z).

With exit pairs B and step pairs E the relation is B·E*: whatever B reaches, X by X. The nodes of E
are folded into strongly connected components, which are reached together; what is left is acyclic
and one pass over it, sinks first, gives all rows. Where B is E itself (the transitive closure)
the rows are the components' too, otherwise each X is a row of its own.

There are three ways, and the cheapest is taken by estimate (`_rank_rows`):

    bits        word-parallel bit rows      edges × columns / 64 words, whatever is reached
    ranges      ranges of columns, merged   the ranges of what is reached, summed over the edges
    search      a search from each X        the edges reached from each X; no rows for the nodes

How much is reached, and in how many ranges, is estimated from searches of a few X. A way that runs
out of room gives way to the next; if none fits the budget the shape declines, and rounds take over.

The graph a closure is computed on: the components of the steps, and sources before them.

Where rules apply to some sources only, or test where a source steps, components are not folded:
blocks.py searches from many X at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from caladan.columns.folded import Fold
from caladan.columns.folded_index import NONE
from caladan.columns.kernels.closure import (
    closure_bits,
    closure_ranges,
    reach_ranges,
)
from caladan.columns.kernels.graph import components, condense, farthest, reach
from caladan.columns.layout import Counts, Keys, Mask, Words
from caladan.columns.matrices import BitRows, RangeRows
from caladan.fixpoint.shapes.pairs import (
    Declined,
    Graph,
    Pairs,
    ShapeLimits,
    contains,
    distinct,
    extent,
    longest_path,
)
from caladan.program import thresholds


@dataclass(frozen=True, slots=True)
class ClosureRows:
    """The acyclic graph to close: rows 0 … columns - 1 are components, those behind are sources."""

    graph: Graph
    cyclic: Mask
    row_fold: Fold
    column_fold: Fold

    @property
    def columns(self) -> int:
        """How many components."""
        return self.column_fold.count

    @property
    def has_sources(self) -> bool:
        """Whether the answer's rows are the sources rather than the components."""
        return self.row_fold is not self.column_fold

    @property
    def first(self) -> int:
        """Where the answer's rows start."""
        return self.columns if self.has_sources else 0


def condense_pairs(exits: Pairs, step: Pairs, may_share: bool = True) -> ClosureRows:
    """The rows for exit pairs B and step pairs E; if they are the same, components are enough."""
    closes_itself = may_share and contains(exits, step) and contains(step, exits)
    size = extent(*step, exits[1])
    graph = Graph.of(*step, size)
    if not closes_itself:
        # Nothing counts but what the exit pairs reach.
        reached = np.zeros(size, np.bool_)
        reach(graph.bounds, graph.targets, np.ascontiguousarray(exits[1], np.uint32), reached)
        keep = reached[step[0]]
        graph = Graph.of(step[0][keep], step[1][keep], size)
    else:
        reached = np.zeros(size, np.bool_)
        reached[step[0]] = True
        reached[step[1]] = True
    # Words nobody uses would be components of their own: number those in use.
    used = np.flatnonzero(reached).astype(np.uint32)
    number = np.full(size, NONE, np.uint32)
    number[used] = np.arange(len(used), dtype=np.uint32)
    graph = Graph(np.append(graph.bounds[used], graph.bounds[-1]), number[graph.targets])
    component = np.empty(len(used), np.uint32)
    count = components(graph.bounds, graph.targets, component)
    members = Graph.of(component, np.arange(len(used), dtype=np.uint32), count)
    bounds = np.zeros(count + 1, np.int64)
    targets = np.empty(len(graph.targets), np.uint32)
    cyclic = np.zeros(count, np.bool_)
    edges = condense(
        graph.bounds, graph.targets, component, members.bounds, members.targets,
        bounds, targets, cyclic,
    )  # fmt: skip
    condensed = Graph(bounds, targets[:edges])
    class_of = np.full(size, NONE, np.uint32)
    class_of[used] = component
    columns = Fold.of(class_of, count)
    if closes_itself:
        return ClosureRows(condensed, cyclic, columns, columns)
    return _with_sources(condensed, cyclic, columns, exits)


def _with_sources(graph: Graph, cyclic: Mask, columns: Fold, exits: Pairs) -> ClosureRows:
    sources, starts = distinct(exits[0], columns.class_of[exits[1]])
    size = extent(sources)
    is_source = np.zeros(size, np.bool_)
    is_source[sources] = True
    words = np.flatnonzero(is_source)
    class_of = np.full(size, NONE, np.uint32)
    class_of[words] = np.arange(len(words), dtype=np.uint32)
    behind = Graph.of(class_of[sources], starts, len(words))
    both = Graph(
        np.concatenate([graph.bounds, behind.bounds[1:] + graph.bounds[-1]]),
        np.concatenate([graph.targets, behind.targets]),
    )
    return ClosureRows(both, cyclic, Fold.of(class_of, len(words)), columns)


Way = Literal["bits", "ranges", "search"]

LAYOUTS: Final[dict[Way, str]] = {
    "bits": BitRows.form,
    "ranges": RangeRows.form,
    "search": RangeRows.form,
}


def find_reached(starts: Words, step: Pairs, nodes: int) -> Mask:
    """Which nodes are starts, or led to by steps from there."""
    graph = Graph.of(*step, nodes)
    marks = np.zeros(nodes, np.bool_)
    reach(graph.bounds, graph.targets, np.ascontiguousarray(starts, np.uint32), marks)
    return marks


def require_rounds(
    exits: Pairs, step: Pairs, nodes: int, limits: ShapeLimits, *, exact: bool
) -> None:
    """Decline if going by rounds might take more of them than there may be.

    Exit facts are the first round, every step is one more, and the last one finds nothing. The
    longest path is a bound, and easily found; where it is too long, and a step is `exact`ly a
    round, every source is looked at.
    """
    if limits.max_rounds is None:
        return
    if not exact:
        limits.require_path(longest_path(step, nodes))
    most = limits.max_rounds - 2
    if exact and longest_path(step, nodes) > most:
        graph, starts = Graph.of(*step, nodes), Graph.of(*exits, extent(exits[0]))
        far = farthest(
            graph.bounds, graph.targets, starts.bounds, starts.targets, max(most, -1), limits.stop
        )
        limits.check()
        if len(exits[0]) and far > most:
            raise Declined(f"rounds would be more than {limits.max_rounds}, which is the limit")


def rank_ways(
    exits: Pairs, step: Pairs, limits: ShapeLimits, *, may_share: bool = True
) -> list[Way]:
    """The ways that fit the budget, the one with the least estimate first."""
    return list(
        dict.fromkeys(way for way, _ in _rank_rows(condense_pairs(exits, step, may_share), limits))
    )


def close_pairs(
    exits: Pairs,
    step: Pairs,
    limits: ShapeLimits,
    *,
    beside: Pairs | None = None,
    may_share: bool = True,
    way: Way | None = None,
) -> BitRows | RangeRows | None:
    """B·E* for distinct exit pairs B and step pairs E, or None if it does not fit the budget.

    Facts `beside` are added as they are; their first words are none of the exit pairs'. Unless
    `may_share`, the first column's words are not nodes of E, even if the pairs look the same.
    """
    limits.check()
    rows = condense_pairs(exits, step, may_share)
    ways: list[tuple[Way, int]] = [(way, limits.budget)] if way else _rank_rows(rows, limits)
    for each, room in ways:
        try:
            layout = _WAYS[each](rows, limits, room)
        except MemoryError:
            continue
        if layout is not None:
            return layout if beside is None else layout.with_extra(*beside)
    return None


# ── The choice ───────────────────────────────────────────────────────────────────────────────────


def _rank_rows(rows: ClosureRows, limits: ShapeLimits) -> list[tuple[Way, int]]:
    """The ways that fit the budget, by their estimates of nanoseconds, with the bytes for each.

    A way that was underestimated is given up at several times its estimate if there is another.
    """
    count = rows.graph.nodes
    answers = count - rows.first
    edges = len(rows.graph.targets)
    if not answers:
        return [("ranges", limits.budget)]
    ranges, walks = _sample(rows, limits)
    words = (rows.columns + 63) // 64
    prices = thresholds.now
    costs: list[tuple[float, float, Way]] = [
        (edges * words * prices.closure_word, count * words * 8.0, "bits"),
        (max(edges, count) * ranges * prices.closure_range, count * ranges * 8.0, "ranges"),
    ]
    if rows.has_sources:
        costs.append((answers * walks * prices.closure_edge, answers * ranges * 8.0, "search"))
    fitting: list[tuple[float, float, Way]] = [
        (time + space * prices.closure_byte, space, way)
        for time, space, way in costs
        if space <= limits.budget
    ]
    fitting.sort()
    ways: list[tuple[Way, int]] = [
        (way, min(limits.budget, prices.closure_patience * int(space) + (1 << 22)))
        for _, space, way in fitting
    ]
    return [*ways, *((way, limits.budget) for way, room in ways[:1] if room < limits.budget)]


def _sample(rows: ClosureRows, limits: ShapeLimits) -> tuple[float, float]:
    """For a row, on average: the ranges of what it reaches, and the nodes and edges on the way."""
    answers = rows.graph.nodes - rows.first
    # The middles of equal parts: the first and last rows are the odd ones.
    samples = thresholds.now.closure_samples
    picked = rows.first + np.unique((np.arange(samples) * 2 + 1) * answers // (2 * samples))
    bounds, targets = rows.graph.bounds, rows.graph.targets
    starts = [targets[bounds[r] : bounds[r + 1]] for r in picked]
    start_bounds = np.cumsum([0, *map(len, starts)], dtype=np.int64)
    columns = rows.columns
    out = np.empty((len(picked) + 1) * (columns // 2 + 2), np.uint64)
    row_bounds = np.zeros(len(picked) + 1, np.int64)
    walked = np.zeros(1, np.int64)
    reach_ranges(
        bounds[: columns + 1], targets, start_bounds, np.concatenate(starts),
        0, len(picked), row_bounds, out, walked, limits.stop,
    )  # fmt: skip
    limits.check()
    return int(row_bounds[-1]) / len(picked), int(walked[0]) / len(picked)


# ── The ways ─────────────────────────────────────────────────────────────────────────────────────


def _bits(rows: ClosureRows, limits: ShapeLimits, room: int) -> BitRows | None:
    """Threads take ranges of words: no word depends on another."""
    words = (rows.columns + 63) // 64
    if rows.graph.nodes * words * 8 > room:
        return None
    bits = np.zeros((rows.graph.nodes, words), np.uint64)
    parts = max(1, min(limits.threads, words // thresholds.now.shape_part))
    cuts = [words * i // parts for i in range(parts + 1)]

    def part(i: int) -> int:
        return closure_bits(
            rows.graph.bounds, rows.graph.targets, rows.cyclic, bits,
            cuts[i], cuts[i + 1], limits.stop,
        )  # fmt: skip

    _in_threads(part, parts)
    limits.check()
    answer = bits[rows.first :].copy() if rows.has_sources else bits
    return BitRows.of(rows.row_fold, rows.column_fold, answer)


def _ranges(rows: ClosureRows, limits: ShapeLimits, room: int) -> RangeRows | None:
    """One large array; pages that stay unused are never taken from the system."""
    count = rows.graph.nodes
    longest = rows.columns // 2 + 2  # a row begins only where there is room for all its ranges
    bounds = np.zeros(count + 1, np.int64)
    out = np.empty(min(room // 8, count * longest) + longest, np.uint64)
    done = closure_ranges(
        rows.graph.bounds, rows.graph.targets, rows.cyclic, bounds, out, limits.stop
    )
    limits.check()
    if done < count:
        return None
    begin, end = int(bounds[rows.first]), int(bounds[-1])
    return RangeRows.of(
        rows.row_fold, rows.column_fold, bounds[rows.first :] - begin, out[begin:end].copy()
    )


def _search(rows: ClosureRows, limits: ShapeLimits, room: int) -> RangeRows | None:
    """Threads take ranges of sources; their rows are put one behind the other."""
    columns = rows.columns
    longest = columns // 2 + 2
    sources = rows.graph.nodes - rows.first
    start_bounds = rows.graph.bounds[rows.first :]
    parts = max(1, min(limits.threads, sources // thresholds.now.shape_part))
    cuts = [sources * i // parts for i in range(parts + 1)]
    results: list[tuple[Counts, Keys]] = [(_ZERO, _NO_KEYS)] * parts

    def part(i: int) -> int:
        first, last = cuts[i], cuts[i + 1]
        bounds = np.zeros(last - first + 1, np.int64)
        out = np.empty(min(room // 8 // parts, (last - first) * longest) + longest, np.uint64)
        done = reach_ranges(
            rows.graph.bounds[: columns + 1], rows.graph.targets, start_bounds,
            rows.graph.targets, first, last, bounds, out, np.zeros(1, np.int64), limits.stop,
        )  # fmt: skip
        results[i] = (bounds, out[: bounds[done]].copy())
        return done

    done = _in_threads(part, parts)
    limits.check()
    if sum(done) < sources:
        return None
    offsets = np.cumsum([0, *(len(ranges) for _, ranges in results)])
    bounds = np.concatenate(
        [_ZERO, *(part[1:] + offset for (part, _), offset in zip(results, offsets, strict=False))]
    )
    ranges = np.concatenate([ranges for _, ranges in results])
    return RangeRows.of(rows.row_fold, rows.column_fold, bounds, ranges)


def _in_threads(part: Callable[[int], int], parts: int) -> list[int]:
    if parts == 1:
        return [part(0)]
    with ThreadPoolExecutor(parts) as pool:
        return list(pool.map(part, range(parts)))


_ZERO: Final[Counts] = np.zeros(1, np.int64)
_NO_KEYS: Final[Keys] = np.empty(0, np.uint64)
_WAYS: Final[dict[Way, Callable[[ClosureRows, ShapeLimits, int], BitRows | RangeRows | None]]] = {
    "bits": _bits,
    "ranges": _ranges,
    "search": _search,
}
