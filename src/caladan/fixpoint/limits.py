"""Where a run must stop: rounds, facts, seconds and memory, looked at between pieces of work.

Memory: the relations of a run may take `most` bytes, the option or else most of what the machine or
the container has. Beyond that the largest runs go to disk (columns/runs.py). What cannot go there
(deltas, facts by rows, sets of facts, what a rule has just derived) must fit; if it does not, the
run ends with a diagnostic. What a rule adds up of parts of its body is forgotten sooner than that.
Data as it was given is not counted, nor are its dictionaries: only what rules add to them.

Seconds, and Ctrl-C: Python delivers it to the main thread between two instructions, and a kernel is
one instruction. So kernels that may take long run in a thread of their own and look at a flag; the
caller waits, and raises the flag on Ctrl-C or when the time is over.
"""

from __future__ import annotations

import os
import resource
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias, TypeVar

from caladan.columns.layout import Counts, Layout
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.columns.runs import NoSpace, Space
from caladan.program import thresholds
from caladan.program.clock import deadline, heed
from caladan.program.options import Options
from caladan.rules.failures import LimitName, LimitReached, MemoryReached, limit

ReadLayouts: TypeAlias = Callable[[], Mapping[str, Layout]]  # asked only when it comes to it

_SHARE: Final = 0.7
_CGROUPS: Final = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",
)
_FACT: Final = 64  # bytes that a fact takes at most, with all its arrangements, for that purpose


class Rollups(Protocol):
    """Parts of a rule's body that are added up, and could be once more."""

    def spare_bytes(self) -> int:
        """Their bytes."""
        ...

    def forget_rollups(self) -> None:
        """Drop them."""
        ...


class Spare(Protocol):
    """Tables that are held for later runs, and can be derived again."""

    def nbytes(self) -> int:
        """Their bytes."""
        ...

    def clear(self) -> None:
        """Drop all of them."""
        ...


class OutOfMemory(MemoryError):
    """The relations need more than the budget."""


class Memory:
    """The budget of a run."""

    def __init__(self, most: int | None) -> None:
        self.most = budget() if most is None else most
        self.outside = 0
        """Bytes of relations that are held, but not by this run."""
        self.spare: Spare | None = None
        """What is held of earlier runs, and goes before anything is written to disk."""
        self._held = 0
        self._new = 0
        self._space = Space()
        self.dictionaries: Callable[[], int] = int
        """Bytes of the dictionaries that rules add to; those that the data has do not count."""
        self._dictionaries = 0

    def watch(self, dictionaries: Callable[[], int]) -> None:
        """Count what dictionaries take more than now."""
        self.dictionaries, self._dictionaries = dictionaries, dictionaries()

    def add(self, facts: int, relations: ReadLayouts) -> None:
        """Some facts were found; now and then that is a reason to look at all relations."""
        self._new += facts
        if self._new * _FACT * thresholds.now.memory_looks > self.most:
            self.settle(relations)

    def settle(self, relations: ReadLayouts) -> None:
        """Make the relations fit, the largest runs on disk if need be."""
        self._new = 0
        every = list(relations().values())
        spare = 0 if self.spare is None else self.spare.nbytes()
        self._held = self.outside + spare + sum(each.nbytes for each in every)
        if spare and 100 * self._held > thresholds.now.spill_share * self.most:
            assert self.spare is not None
            self.spare.clear()
            self._held -= spare
        if 100 * self._held > thresholds.now.spill_share * self.most:
            self._spill(every)
        if self._held + self._added() > self.most:
            raise OutOfMemory

    def facts_until_look(self) -> int:
        """After how many more facts all relations are looked at."""
        looks = max(thresholds.now.memory_looks, 1)
        return max(self.most // (_FACT * looks) - self._new, 0) + 1

    def _added(self) -> int:
        return self.dictionaries() - self._dictionaries

    def require(self, nbytes: int, relations: ReadLayouts, rollups: Rollups | None = None) -> None:
        """Make room for so many bytes beside the relations."""
        nbytes += self._added()
        if rollups is not None and self._held + nbytes + rollups.spare_bytes() > self.most:
            rollups.forget_rollups()
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
    """Bytes: 70 % of the memory that this process can have.

    Spark limits the address space of Python workers by `spark.executor.pyspark.memory`.
    """
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _CGROUPS:
        try:
            text = Path(path).read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    most, _ = resource.getrlimit(resource.RLIMIT_AS)
    if most != resource.RLIM_INFINITY:
        total = min(total, most)
    return int(total * _SHARE)


class Limits:
    """Watches over a run; its methods raise `LimitReached`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self.deadline = deadline(options.timeout)
        """When the time is over, by the monotonic clock."""
        self.relations: Sequence[str] = ()
        """Those that are derived now."""
        self.memory = Memory(options.memory)

    def restart(self) -> None:
        """A change of facts has as much time as a run."""
        self.deadline = deadline(self._options.timeout)

    def enter(self, relations: Sequence[str]) -> None:
        """Relations that are derived from now on, to be named if a limit is reached."""
        self.relations = relations

    @property
    def max_facts(self) -> int | None:
        """How many facts may be derived."""
        return self._options.max_facts

    @property
    def max_rounds(self) -> int | None:
        """How many rounds a clique may take."""
        return self._options.max_rounds

    def glance(self) -> None:
        """Stop if the user has had enough; whoever waits for a kernel looks at the time itself."""
        heed()

    def seconds(self) -> None:
        """Stop if the time is over, or the user has had enough."""
        self.glance()
        if self.deadline is not None and time.monotonic() > self.deadline:
            self._stop("timeout", self._options.timeout or 0)

    def facts(self, derived: int) -> None:
        """Stop if more facts were derived than allowed."""
        most = self._options.max_facts
        if most is not None and derived > most:
            self._stop("max_facts", most)

    def rounds_left(self, done: int) -> int | None:
        """How many more rounds a clique may take."""
        most = self._options.max_rounds
        return None if most is None else most - done

    def facts_left(self, derived: int) -> int | None:
        """How many more facts are too many."""
        most = self._options.max_facts
        return None if most is None else most - derived + 1

    def rounds(self, done: int) -> None:
        """Stop if another round is needed and none is left."""
        most = self._options.max_rounds
        if most is not None and done >= most:
            self._stop("max_rounds", most)

    def out_of_memory(self) -> MemoryReached:
        """The relations do not fit into the memory they may use."""
        return MemoryReached(limit("memory", self.memory.most, self.relations))

    def _stop(self, name: LimitName, bound: float) -> None:
        raise LimitReached(limit(name, bound, self.relations))


T = TypeVar("T")

_GLANCE: Final = 0.1  # seconds between two looks at the clock


def run_stoppable(
    work: Callable[[], T],
    stop: Counts,
    deadline: float | None,
    glance: Callable[[], None] = heed,
) -> T:
    """The result of some work; past the deadline the flag is raised, and the work should end.

    `glance` is called now and then, and may raise.
    """
    results: list[T] = []
    failures: list[BaseException] = []
    done = threading.Event()  # a thread whose `join` was interrupted may say it ended, and has not

    def target() -> None:
        try:
            results.append(work())
        except BaseException as failure:
            failures.append(failure)
        finally:
            done.set()

    # No daemon: Python would be torn down around a kernel that has not seen the flag yet.
    threading.Thread(target=target).start()
    try:
        while not done.wait(_GLANCE):
            glance()
            if deadline is not None and time.monotonic() > deadline:
                stop[0] = 1
    except BaseException:
        stop[0] = 1
        done.wait()
        raise
    if failures:
        raise failures[0]
    return results[0]
