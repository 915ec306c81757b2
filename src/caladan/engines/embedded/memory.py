"""How much memory a run may use, and what happens when that is not enough.

The relations of a run may take `most` bytes: the option, else most of what the machine or the
container has. Beyond that the largest runs go to disk (columns/spill.py). What cannot go there
(deltas, facts by rows, sets of facts, what a rule has just derived) must fit; if it does not, the
run ends with a diagnostic. Data as it was given, and dictionaries, are not counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

from caladan import thresholds
from caladan.columns.layout import Layout
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.columns.spill import NoSpace, Space

Relations: TypeAlias = Callable[[], Mapping[str, Layout]]  # asked only when it comes to it

_SHARE: Final = 0.7
_CGROUPS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
_FACT: Final = 64  # bytes that a fact takes at most, with all its arrangements, for that purpose


class OutOfMemory(MemoryError):
    """The relations need more than the budget."""


class Memory:
    """The budget of a run."""

    def __init__(self, most: int | None) -> None:
        self.most = budget() if most is None else most
        self._held = 0
        self._new = 0
        self._space = Space()

    def add(self, facts: int, relations: Relations) -> None:
        """Some facts were found; now and then that is a reason to look at all relations."""
        self._new += facts
        if self._new * _FACT * thresholds.now.memory_looks > self.most:
            self.settle(relations)

    def settle(self, relations: Relations) -> None:
        """Make the relations fit, the largest runs on disk if need be."""
        self._new = 0
        every = list(relations().values())
        self._held = sum(each.nbytes for each in every)
        if 100 * self._held > thresholds.now.spill_share * self.most:
            self._spill(every)
        if self._held > self.most:
            raise OutOfMemory

    def require(self, nbytes: int, relations: Relations) -> None:
        """Make room for so many bytes beside the relations."""
        if self._held + nbytes > self.most:
            self.settle(relations)
            if self._held + nbytes > self.most:
                self._spill(relations().values())
            if self._held + nbytes > self.most:
                raise OutOfMemory

    def _spill(self, relations: Iterable[Layout]) -> None:
        packed = [
            each.body
            for each in relations
            if isinstance(each, StoredRelation) and isinstance(each.body, PackedRelation)
        ]
        for relation in sorted(packed, key=lambda each: each.nbytes, reverse=True):
            if 200 * self._held <= thresholds.now.spill_share * self.most:
                return
            try:
                self._held -= relation.spill(self._space)
            except NoSpace:
                return


def budget() -> int:
    """Bytes: 70 % of the memory that this process can have."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUPS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return int(total * _SHARE)
