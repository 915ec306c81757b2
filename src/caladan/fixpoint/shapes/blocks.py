"""Pivot blocks: what sources reach where they differ in the steps they may take.

    p(X, Z) <- p(X, Y), step(Y, Z), X < 10        some rules apply to some X only
    p(X, Z) <- p(X, Y), step(Y, Z), X ~= Z        an X may step where others may not

Nodes cannot be folded, for what one source reaches together another one may not. But X is carried,
so no source depends on another, and 512 of them are searched at a time: every node has a bit for
each, and a step moves them all at once (kernels/blocks.py). A `Trail` is a rule: its edges, the
sources it applies to, and tests of a source against the ends of a step. A test comes down to bits
too; unless most are, only those nodes are asked that a source of the block would reach without
any test.

Rows come out as ranges or as bit rows, whichever a block in the middle says is smaller. Nodes are
numbered in the order of components, so that what is reached is few ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from caladan.columns.folded import Fold
from caladan.columns.folded_index import NONE, stretches
from caladan.columns.kernels.bits import set_bits
from caladan.columns.kernels.blocks import (
    WORDS,
    compare_masks,
    drain_ranges,
    drain_rows,
    step_block,
)
from caladan.columns.kernels.graph import components
from caladan.columns.layout import Counts, Keys, Mask, Words
from caladan.columns.matrices import BitRows, RangeRows
from caladan.fixpoint.shapes.pairs import Declined, Graph, Pairs, ShapeLimits, extent, union
from caladan.program import thresholds

Bits: TypeAlias = NDArray[np.uint64]

BLOCK: Final = 64 * WORDS
ALL: Final = np.uint64(0xFFFFFFFFFFFFFFFF)
_KINDS: Final = {"<": 0, "<=": 1, ">": 2, ">=": 3, "=": 4, "~=": 5}


# ── Tests ────────────────────────────────────────────────────────────────────────────────────────


class BlockTest(Protocol):
    """Something that must hold of a source and a node for a step to be taken."""

    def keep(self, sources: Words, nodes: Words, rows: Words, masks: Bits) -> None:
        """Clear the bits of sources that fail, in the rows that some nodes have in `masks`."""
        ...


@dataclass(frozen=True, slots=True)
class ComparedTest:
    """A comparison of a number that each source has with one that each node has."""

    operator: str
    of_source: Counts
    of_node: Counts

    def keep(self, sources: Words, nodes: Words, rows: Words, masks: Bits) -> None:
        values = self.of_source[sources]
        order = np.argsort(values, kind="stable")
        compare_masks(values[order], order, rows, self.of_node[nodes], _KINDS[self.operator], masks)


class PairedTest:
    """Pairs of a kind of source and a kind of node that must be, or must not be."""

    def __init__(
        self, pairs: Pairs, of_source: Words, of_node: Words, kinds: tuple[int, int], negated: bool
    ) -> None:
        self._lists = Graph.of(*pairs, kinds[0])
        self._of_source = of_source
        self._of_node = of_node
        self._kinds = kinds[1]
        self._negated = negated

    def keep(self, sources: Words, nodes: Words, rows: Words, masks: Bits) -> None:
        kinds, kind = np.unique(self._of_source[sources], return_inverse=True)
        begin, end = self._lists.bounds[kinds], self._lists.bounds[kinds + np.uint32(1)]
        found = self._lists.targets[stretches(begin, end)]
        held = np.zeros((self._kinds, WORDS), np.uint64)
        if len(kinds) == len(sources):
            of = np.repeat(np.argsort(kind).astype(np.uint32), end - begin)
            set_bits(held, found, of)
        else:  # all sources of a kind at once
            members = as_bits(kind == np.arange(len(kinds))[:, None])
            ends = np.cumsum(end - begin)
            for bits, first, last in zip(members, ends - (end - begin), ends, strict=True):
                held[found[first:last]] |= bits
        may = held[self._of_node[nodes]]
        masks[rows] &= ~may if self._negated else may


class Holds(Protocol):
    """Whether something holds, for every pair of some sources and some nodes."""

    def __call__(self, sources: Words, nodes: Words, /) -> Mask: ...


class AskedTest:
    """Whatever else may be asked, pair by pair."""

    def __init__(self, holds: Holds) -> None:
        self._holds = holds
        self._asked = 0

    def keep(self, sources: Words, nodes: Words, rows: Words, masks: Bits) -> None:
        self._asked += len(sources) * len(nodes)
        if self._asked > thresholds.now.shape_tests:
            raise Declined(f"it has more than {thresholds.now.shape_tests:,} pairs to test")
        size = max(1, thresholds.now.shape_block // max(len(sources), 1))
        for at in range(0, len(nodes), size):
            held = self._holds(sources, nodes[at : at + size])
            masks[rows[at : at + size]] &= as_bits(held.T)


class LayeredTest:
    """Tests of what was looked up for a source, which must hold for one of the finds.

    Each layer has another one of them by source, `NONE` where there are no more.
    """

    def __init__(self, layers: Sequence[Words], tests: Sequence[BlockTest]) -> None:
        self._layers = layers
        self.tests = tests

    def keep(self, sources: Words, nodes: Words, rows: Words, masks: Bits) -> None:
        if len(self._layers) == 1 and (self._layers[0][sources] != NONE).all():
            for test in self.tests:
                test.keep(self._layers[0][sources], nodes, rows, masks)
            return
        held = np.zeros((len(nodes), WORDS), np.uint64)
        every = np.arange(len(nodes), dtype=np.uint32)
        for layer in self._layers:
            found = layer[sources]
            some = as_bits((found != NONE)[None, :])[0]
            if some.any():
                passed = np.tile(some, (len(nodes), 1))
                for test in self.tests:
                    test.keep(np.where(found == NONE, np.uint32(0), found), nodes, every, passed)
                held |= passed
        masks[rows] &= held


def _is_asked(test: BlockTest) -> bool:
    """Whether a test looks at every pair."""
    tests = test.tests if isinstance(test, LayeredTest) else ()
    return isinstance(test, AskedTest) or any(map(_is_asked, tests))


def as_bits(mask: Mask) -> Bits:
    """Flags of a block's sources as rows of bits."""
    padded = np.zeros((len(mask), BLOCK // 8), np.uint8)
    packed = np.packbits(mask, axis=1, bitorder="little")
    padded[:, : packed.shape[1]] = packed
    return padded.view(np.uint64)


@dataclass(frozen=True, slots=True)
class PlaceTest:
    """A test of the nodes `begin` … `end` - 1; a step to or from another one is not tested."""

    begin: int
    end: int
    test: BlockTest


@dataclass(frozen=True, slots=True)
class Trail:
    """Steps that some sources may take (all, if it does not say), and tests at their ends."""

    edges: Pairs
    may: Mask | None = None
    leaving: tuple[PlaceTest, ...] = ()
    arriving: tuple[PlaceTest, ...] = ()


# ── Blocks ───────────────────────────────────────────────────────────────────────────────────────


def search_rows(
    exits: Pairs, trails: Sequence[Trail], size: int, limits: ShapeLimits
) -> RangeRows | BitRows | None:
    """What each source reaches along its own trails, or None if it does not fit the budget."""
    limits.check()
    graph = _BlockGraph(trails, exits, size)
    if graph.count * WORDS * 8 * (3 + len(graph.tests)) > limits.budget:
        return None
    last_start = np.zeros(extent(exits[0]), np.int64)
    np.maximum.at(last_start, exits[0], graph.number[exits[1]])
    known = np.unique(exits[0])
    sources = known[np.argsort(last_start[known], kind="stable")]
    starts = Graph.of(exits[0], graph.number[exits[1]], extent(exits[0]))
    row_of = np.full(extent(exits[0]), NONE, np.uint32)
    row_of[sources] = np.arange(len(sources), dtype=np.uint32)
    folds = Fold.of(row_of, len(sources)), Fold.of(graph.number, graph.count)

    def reach(block: Words) -> None:
        graph.reach(block, starts, limits)

    return drain_blocks(sources, reach, graph.bits, graph.touched, folds, limits)


def drain_blocks(
    sources: Words,
    fill: Callable[[Words], None],
    bits: Bits,
    touched: Bits,
    folds: tuple[Fold, Fold],
    limits: ShapeLimits,
) -> RangeRows | BitRows | None:
    """The rows of sources, a block of which `fill` puts into the bits of nodes that are touched.

    They become ranges unless bits are smaller, as far as a block in the middle can tell; None if
    they do not fit the budget.
    """
    blocks = [sources[at : at + BLOCK] for at in range(0, len(sources), BLOCK)]
    if blocks:
        block = blocks[len(blocks) // 2]
        fill(block)
        part = _ranges(bits, touched, len(block), limits.budget)
        if part is None or len(part[1]) > len(block) * len(touched):
            if len(sources) * len(touched) * 8 > limits.budget:
                return None
            rows = np.zeros((len(sources), len(touched)), np.uint64)
            for number, block in enumerate(blocks):
                fill(block)
                limits.check()
                drain_rows(bits, touched, len(block), rows[number * BLOCK :])
            return BitRows.of(*folds, rows)
    parts: list[tuple[Counts, Keys]] = []
    room = limits.budget
    for block in blocks:
        fill(block)
        limits.check()
        part = _ranges(bits, touched, len(block), room)
        if part is None:
            return None
        room -= part[1].nbytes
        parts.append(part)
    offsets = np.cumsum([0, *(len(ranges) for _, ranges in parts)])
    bounds = [each[1:] + offset for (each, _), offset in zip(parts, offsets, strict=False)]
    ranges = np.concatenate([np.empty(0, np.uint64), *(ranges for _, ranges in parts)])
    return RangeRows.of(*folds, np.concatenate([np.zeros(1, np.int64), *bounds]), ranges)


def _ranges(bits: Bits, touched: Bits, sources: int, room: int) -> tuple[Counts, Keys] | None:
    """The rows of a block as ranges; None if there is no room."""
    longest = len(bits) // 2 + 66
    bounds = np.zeros(sources + 1, np.int64)
    out = np.empty(min(room // 8, sources * longest) + longest, np.uint64)
    if drain_ranges(bits, touched, sources, bounds, out) < sources:
        return None
    return bounds, out[: bounds[-1]].copy()


class _BlockGraph:
    """Trails over nodes in the order of components, and the bits of the block at hand."""

    def __init__(self, trails: Sequence[Trail], exits: Pairs, size: int) -> None:
        edges = union([trail.edges for trail in trails])
        every = Graph.of(*edges, size)
        component = np.empty(size, np.uint32)
        components(every.bounds, every.targets, component)
        used = np.zeros(size, np.bool_)
        for ends in (exits[1], *edges):
            used[ends] = True
        order = np.argsort(component, kind="stable").astype(np.uint32)
        self.order = order[used[order]]
        self.count = len(self.order)
        self.number = np.full(size, NONE, np.uint32)
        self.number[self.order] = np.arange(self.count, dtype=np.uint32)
        _, dense = np.unique(component[self.order], return_inverse=True)
        self._component = dense.astype(np.uint32)
        self._firsts = np.searchsorted(dense, np.arange(int(dense.max(initial=-1)) + 2))
        graphs = [
            Graph.of(self.number[first], self.number[second], self.count)
            for first, second in (trail.edges for trail in trails)
        ]
        self._offsets = np.cumsum([0, *(len(g.targets) for g in graphs)])[:-1].astype(np.int64)
        self._bounds = np.stack([g.bounds for g in graphs])
        self._targets = np.concatenate([g.targets for g in graphs])
        self._trails = trails
        self.tests = [each for t in trails for each in (t.leaving, t.arriving) if each]
        self._numbers = np.full((len(trails), 2), -1, np.int64)
        ends = [(i, j) for i, t in enumerate(trails) for j in (0, 1) if (t.leaving, t.arriving)[j]]
        for number, (i, j) in enumerate(ends):
            self._numbers[i, j] = number
        self._every = False  # whether tests are asked for all nodes
        self._masks = np.full((len(self.tests), self.count, WORDS), ALL, np.uint64)
        self.bits: Bits = np.zeros((self.count, WORDS), np.uint64)
        self._fresh: Bits = np.zeros((self.count, WORDS), np.uint64)
        self.touched: Bits = np.zeros((self.count + 63) // 64, np.uint64)

    def reach(self, sources: Words, starts: Graph, limits: ShapeLimits) -> None:
        """Fill the bits for some sources."""
        may = np.full((len(self._trails), WORDS), ALL, np.uint64)
        for number, trail in enumerate(self._trails):
            if trail.may is not None:
                may[number] = as_bits(trail.may[sources][None, :])[0]
        if self.tests:
            rows = self._foreseen(sources, starts, may, limits)
            nodes = self.order[rows]
            for masks, tests in zip(self._masks, self.tests, strict=True):
                masks[rows] = ALL
                for each in tests:
                    inside = (nodes >= each.begin) & (nodes < each.end)
                    each.test.keep(sources, nodes[inside], rows[inside], masks)
        self._run(sources, starts, may, self._numbers, limits)

    def _foreseen(self, sources: Words, starts: Graph, may: Bits, limits: ShapeLimits) -> Words:
        """The nodes that some sources may reach: all, once they were most of them."""
        if self._every:
            return np.arange(self.count, dtype=np.uint32)
        self._run(sources, starts, may, np.full_like(self._numbers, -1), limits)
        touched = np.unpackbits(self.touched.view(np.uint8), bitorder="little")
        rows = np.flatnonzero(touched).astype(np.uint32)
        asks = any(_is_asked(t.test) for tests in self.tests for t in tests)
        self._every = 2 * len(rows) > self.count and not asks
        return rows

    def _run(
        self, sources: Words, starts: Graph, may: Bits, numbers: Counts, limits: ShapeLimits
    ) -> None:
        self.bits[:] = 0
        self.touched[:] = 0
        lists = [starts.targets[starts.bounds[s] : starts.bounds[s + 1]] for s in sources]
        places = np.repeat(np.arange(len(sources), dtype=np.uint32), [len(each) for each in lists])
        begins = np.concatenate(lists)
        set_bits(self.bits, begins, places)
        set_bits(self.touched[None, :], np.zeros(len(begins), np.uint32), begins)
        self._fresh[:] = self.bits
        step_block(
            self._offsets, self._bounds, self._targets, self._component, self._firsts,
            may, numbers, self._masks, self.bits, self._fresh, self.touched, limits.stop,
        )  # fmt: skip
        limits.check()
