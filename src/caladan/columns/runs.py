"""Runs and arrangements: a relation's keys in one column order, sorted.

A `Run` is immutable: sorted distinct keys, and the bounds of its leading column, made when first
wanted. An `Arrangement` is a few runs, each at least twice as large as the next, and the delta of
the current round. A new run is merged with its neighbours while they are less than twice its size,
so every fact is merged O(log n) times.

`Space` is for runs that memory has no room for. Runs are read mostly in order, so one in a
memory-mapped file is as good as one in memory, for as long as the system finds pages for what is
being read. The file has no name from the start: whatever happens to this process, nothing is left
behind.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from caladan.columns import pool
from caladan.columns.invariants import CHECKED, check_run
from caladan.columns.kernels import is_loaded, probe, sorted as kernels
from caladan.columns.layout import Counts, Keys, Packing, Words
from caladan.program import thresholds

_NO_BOUNDS: Counts = np.empty(0, np.int64)
_GLANCE: Final = 64  # keys that show whether all may be in order
# Bits of a digit: with few keys there are fewer passes, with many the lines written stay in cache.
_WIDE_DIGIT: Final = 11
_NARROW_DIGIT: Final = 8


@dataclass(frozen=True, slots=True)
class Filter:
    """A bitmap that most lookup keys without a match do not pass; see kernels/probe.py."""

    bits: Keys
    log: int


_NO_FILTER = Filter(np.empty(0, np.uint64), 0)


class Run:
    """Sorted distinct keys in a packing, in memory or in some space on disk.

    `ranks` has for each key when it was derived (columns/membership.py), where somebody asks.
    """

    def __init__(
        self,
        keys: Keys,
        packing: Packing,
        space: Space | None = None,
        ranks: Words | None = None,
    ) -> None:
        self.keys = keys
        self.packing = packing
        self.space = space
        self.ranks = ranks
        self._filters: dict[int, Filter] = {}

    def __len__(self) -> int:
        return len(self.keys)

    @property
    def nbytes(self) -> int:
        """The bytes in memory: of the keys, and of bounds and filters if there are any."""
        bounds = self.__dict__.get("bounds", _NO_BOUNDS)
        filters = sum(each.bits.nbytes for each in self._filters.values())
        ranks = 0 if self.ranks is None else self.ranks.nbytes
        return ranks + bounds.nbytes + filters + (self.keys.nbytes if self.space is None else 0)

    @property
    def spilled(self) -> int:
        return 0 if self.space is None else self.keys.nbytes

    def filter(self, shift: int, lookups: int) -> Filter:
        """A filter for lookup keys of that shift, once there are enough lookups to pay for it."""
        known = self._filters.get(shift)
        if known is not None:
            return known
        chosen = thresholds.now
        size = len(self.keys)
        if size < chosen.filter_keys or lookups * chosen.filter_lookups < size:
            return _NO_FILTER
        wanted = max(1, (size * chosen.filter_bits - 1).bit_length())  # 0 would mean all of them
        space = sum(self.packing.widths) - shift
        # A bit for every lookup key spares the search; clearing 512 of them costs about a lookup.
        small = space <= chosen.exact_bits and (1 << space) >> 9 <= lookups
        log = 0 if space <= wanted + 2 or small else wanted
        bits: Keys = np.zeros(max(1, (1 << (log or space)) >> 6), np.uint64)
        probe.fill_filter(self.keys, shift, log, bits)
        self._filters[shift] = Filter(bits, log)
        return self._filters[shift]

    @cached_property
    def bounds(self) -> Counts:
        """Where each word of the leading column starts; empty where that would not pay."""
        chosen = thresholds.now
        if len(self.keys) < chosen.bounds_keys or self.packing.arity < 2:
            return _NO_BOUNDS
        shift = self.packing.leading_shift
        words = int(self.keys[-1] >> np.uint64(shift)) + 1
        if len(self.keys) * chosen.bounds_sparse < words:
            return _NO_BOUNDS
        bounds: Counts = np.empty(words + 1, np.int64)
        probe.leading_bounds(self.keys, shift, bounds)
        return bounds


class Arrangement:
    """The keys of a relation in one column order."""

    def __init__(self, packing: Packing) -> None:
        self.packing = packing
        self.runs: list[Run] = []  # largest first
        self.delta: Run | None = None

    def __len__(self) -> int:
        return sum(map(len, self.runs)) + (len(self.delta) if self.delta else 0)

    @property
    def nbytes(self) -> int:
        return sum(run.nbytes for run in self.all_runs)

    @property
    def spilled(self) -> int:
        return sum(run.spilled for run in self.runs)

    def spill(self, space: Space) -> int:
        """Move the runs that are worth it to disk; how many bytes of memory that saves.

        Whoever reads them goes on with the arrays they have.
        """
        before = self.nbytes
        for i, run in enumerate(self.runs):
            if run.space is None and len(run) >= thresholds.now.spill_keys:
                keys = space.empty(len(run))
                keys[:] = run.keys
                self.runs[i] = Run(keys, self.packing, space, run.ranks)
        return before - self.nbytes

    @property
    def all_runs(self) -> list[Run]:
        return [*self.runs, self.delta] if self.delta is not None else self.runs

    def commit(self) -> None:
        if self.delta is not None:
            self.push(self.delta)
            self.delta = None

    def push(self, run: Run) -> None:
        """Add a run of keys that no other run has."""
        if not len(run):
            return
        if CHECKED:
            check_run(run.keys, [other.keys for other in self.runs])
        self.runs.append(run)
        ratio, tail = thresholds.now.run_ratio, thresholds.now.tail
        while len(self.runs) > 1 and len(self.runs[-2]) < max(ratio * len(self.runs[-1]), tail):
            small, large = self.runs.pop(), self.runs.pop()
            self.runs.append(_merge_runs(large, small))

    def repacked(self, packing: Packing) -> Arrangement:
        """The same facts in another packing; sorted again where the order of columns differs."""
        to = Arrangement(packing)
        resort = packing.order != self.packing.order
        to.runs = [_repack(run, packing, resort) for run in self.runs]
        to.delta = None if self.delta is None else _repack(self.delta, packing, resort)
        if CHECKED:
            to.check()
        return to

    def check(self) -> None:
        """Raise if the runs are not what every reader takes them to be."""
        keys = [run.keys for run in self.all_runs]
        for number, each in enumerate(keys):
            check_run(each, keys[:number])


def _merge_runs(one: Run, other: Run) -> Run:
    """Two runs as one, with ranks if they have some."""
    space = one.space or other.space
    if one.ranks is None or other.ranks is None:
        return Run(merge(one.keys, other.keys, space), one.packing, space)
    size = len(one) + len(other)
    keys: Keys = np.empty(size, np.uint64) if space is None else space.empty(size)
    ranks: Words = np.empty(size, np.uint32)
    kernels.merge_ranked(one.keys, one.ranks, other.keys, other.ranks, keys, ranks)
    return Run(keys, one.packing, space, ranks)


def _repack(run: Run, packing: Packing, resort: bool) -> Run:
    keys = run.packing.moved(run.keys, packing)
    if resort:
        keys = in_order(keys)
    return Run(keys, packing, ranks=None if resort else run.ranks)


def merge(left: Keys, right: Keys, space: Space | None = None) -> Keys:
    """The union of two sorted distinct arrays, in some space if it is given."""
    size = len(left) + len(right)
    out: Keys = np.empty(size, np.uint64) if space is None else space.empty(size)
    count = kernels.merge(left, right, out)
    return out[:count]


def distinct(keys: Keys) -> Keys:
    """Keys sorted, each once. The array is overwritten."""
    if len(keys) < thresholds.now.sort_in_threads or pool.threads() < 2:
        return _distinct_part(keys)
    parts = pool.in_parts(_distinct_part, np.array_split(keys, pool.threads()))
    while len(parts) > 1:
        twos = zip(parts[::2], parts[1::2], strict=False)
        parts = [merge(one, other) for one, other in twos] + parts[len(parts) // 2 * 2 :]
    return parts[0]


def _distinct_part(keys: Keys) -> Keys:
    keys = in_order(keys)
    return keys[: kernels.dedup(keys)]


def in_order(keys: Keys, low: int = 0) -> Keys:
    """Keys sorted, where `low` bits of them are in order already among those that share the rest.

    The array is overwritten. Data often comes in order, which is told by looking; otherwise digits
    are a few times quicker than numpy's own way, and take as much memory again.
    """
    if not len(keys) or (_rises(keys[:_GLANCE]) and _rises(keys)):
        return keys
    chosen = thresholds.now
    if not chosen.radix_keys <= len(keys) <= chosen.radix_most or not is_loaded():
        keys.sort()
        return keys
    high = int(keys.max()).bit_length()
    digit = _WIDE_DIGIT if len(keys) < chosen.radix_narrow else _NARROW_DIGIT
    scratch: Keys = np.empty(len(keys), np.uint64)
    return scratch if kernels.radix(keys, scratch, low, high, digit) else keys


def _rises(keys: Keys) -> bool:
    return bool((keys[1:] >= keys[:-1]).all())


def subtract(batch: Keys, runs: Sequence[Run]) -> Keys:
    """The keys of a sorted distinct batch that are in no run. The batch is overwritten."""
    times = thresholds.now.gallop
    for run in runs:
        if not len(batch):
            break
        if len(run) > times * len(batch) or len(batch) > times * len(run):
            count = kernels.subtract_galloping(batch, run.keys, batch)
        else:
            count = kernels.subtract_linear(batch, run.keys, batch)
        batch = batch[:count]
    return batch


class NoSpace(MemoryError):
    """The disk is full."""


class Space:
    """Files in a temporary folder (TMPDIR), as arrays of keys."""

    def __init__(self) -> None:
        self.nbytes = 0  # handed out so far

    def empty(self, keys: int) -> Keys:
        """Room for so many keys."""
        try:
            with tempfile.TemporaryFile(prefix="caladan-") as file:
                _take_room(file.fileno(), max(1, keys) * 8)
                mapped = np.memmap(file, np.uint64, "r+", shape=(keys,))
        except OSError as problem:
            raise NoSpace(str(problem)) from None
        self.nbytes += mapped.nbytes
        return np.asarray(mapped)


def _take_room(file: int, nbytes: int) -> None:
    """Take room for a file now: a page that finds no place later would kill the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file, 0, nbytes)
    else:  # macOS: what is written is there, what is left out may not be
        zeros = bytes(1 << 20)
        for at in range(0, nbytes, len(zeros)):
            os.pwrite(file, zeros[: nbytes - at], at)
