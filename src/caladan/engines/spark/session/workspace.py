"""Frames that are computed once.

A `FrameRun` is a frame whose rows are held by Spark's block managers, in memory or on disk, with
its lineage cut: what it was computed from is forgotten, so that the five-hundredth round costs what
the first did. A `Workspace` makes runs, knows which are alive, and lets go of them.

Spark counts rows in the same job that computes them, if asked through its JVM; where that way is
not open (it is no public interface, and Connect has no JVM), rows are counted once they are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext, StorageLevel
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.types import StructType

from caladan.engines.spark.choice import SMALL
from caladan.engines.spark.session import connect, internals
from caladan.engines.spark.session.session import create_frame
from caladan.engines.spark.session.staging import Staging

# As objects: PySpark's MEMORY_AND_DISK has rows serialised, one by one, and back for every reader.
HELD: Final = StorageLevel.MEMORY_AND_DISK_DESER
_OBSERVED: Final = "caladan"
_OFTEN: Final = 200  # Spark forgets old jobs and stages; by default it remembers a thousand


@dataclass(frozen=True, slots=True)
class FrameRows:
    """A frame; at most `bound` rows, if that is known; `lone` if it is all in one partition."""

    frame: DataFrame
    bound: int | None
    lone: bool


@dataclass(frozen=True, slots=True, eq=False)
class FrameRun:
    """Rows that were computed: how many, and in how many partitions they lie, 0 if Spark won't say.

    `counted` has the numbers that were asked for. `handle` is the RDD behind the frame. One that
    `is_split` stays in its partitions, however few its rows are.
    """

    frame: DataFrame
    count: int
    partitions: int
    counted: tuple[int, ...]
    handle: Any
    is_split: bool = False

    @property
    def rows(self) -> FrameRows:
        """The run as an input of a rule: a small one is read by a single task."""
        if self.count > SMALL or self.is_split:
            return FrameRows(self.frame, self.count, lone=False)
        frame = self.frame if self.partitions == 1 else self.frame.coalesce(1)
        return FrameRows(frame, self.count, lone=True)


class ShuffleBytes:
    """The bytes that jobs with a tag have written for others to read; None if Spark won't say."""

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._context = context
        self._tag = tag
        self._stages: set[int] = set()
        self._passed = 0
        self.expected = False
        """Whether a job was started that may shuffle; to look for what no job did takes time."""
        self.size: int | None = 0

    def pass_by(self) -> None:
        """Tell that a job or a few were done; every so often their bytes are counted."""
        self._passed += 1
        if self._passed % _OFTEN == 0:
            self.look()

    def look(self) -> None:
        """Count what has been written since the last look."""
        if self.size is None or not self.expected:
            return
        more = internals.bytes_shuffled(self._context, self._tag, self._stages)
        self.size = None if more is None else self.size + more


class Workspace:
    """Where a run of the engine keeps what it computes."""

    def __init__(
        self,
        session: SparkSession,
        check: Callable[[], None] = lambda: None,
        staging: Staging | None = None,
        asked: int | None = None,
    ) -> None:
        """Exchanges make as many partitions as are `asked` for, or as suit the facts."""
        self.session = session
        self.asked = asked
        self.staging = staging or Staging(session)
        self.parallelism = connect.parallelism(session)
        self.check = check
        self.ship: bool | None = None
        """Whether this package is sent to executors; None for where they lack it."""
        self.shuffle_bytes: ShuffleBytes | None = None
        """Counts what is exchanged, if anybody wants to know."""
        self._alive: set[FrameRun] = set()
        self._condemned: list[FrameRun] = []
        self._partitions = 0

    def spread(self, partitions: int) -> None:
        """How many partitions an exchange makes from now on."""
        partitions = self.asked or partitions
        if partitions != self._partitions:
            self.session.conf.set("spark.sql.shuffle.partitions", str(partitions))
            self._partitions = partitions

    @property
    def partitions(self) -> int:
        """How many partitions an exchange makes."""
        return self._partitions

    def materialise(
        self, frame: DataFrame, flags: Sequence[str] = (), *, many: bool = False
    ) -> FrameRun:
        """Compute a frame. For each of the flags, boolean columns, the rows that have it count.

        Rows that may be `many` are held in columns.
        """
        self.check()
        if self.shuffle_bytes is not None:
            self.shuffle_bytes.expected = True
        if connect.is_connect(frame):
            return self._kept(_count_by_job(connect.checkpoint(frame, HELD), flags, 0))
        if flags or many:
            sums = [sf.sum(sf.col(flag).cast("long")).alias(flag) for flag in flags]
            frame = frame.observe(_OBSERVED, sf.count(sf.lit(1)).alias("rows"), *sums)
        held = frame.localCheckpoint(eager=False, storageLevel=HELD)
        handle = internals.checkpoint_rdd(held)
        if handle is None:
            run = _count_by_job(held, flags, held.rdd.getNumPartitions())
        else:
            run = self._held(frame, held, handle, len(flags), many=many)
        return self._kept(run)

    def _kept(self, run: FrameRun) -> FrameRun:
        run = run if self.asked is None else replace(run, is_split=self.asked > 1)
        self._alive.add(run)
        return run

    def _held(
        self, frame: DataFrame, held: DataFrame, handle: Any, flags: int, *, many: bool
    ) -> FrameRun:
        """A run of a frame that was checkpointed; its rows are computed and counted in one job."""
        columns = internals.in_columns(held, HELD) if many else None
        rows = handle
        if columns is not None:
            rows.unpersist(False)
            held, handle = columns.frame, columns.batches
        try:
            count = int(handle.count())
        except BaseException:
            handle.unpersist(False)  # parts of it may have been computed
            raise
        counted: tuple[int, ...] = ()
        if flags or many:
            count, *sums = internals.read_observed(frame, _OBSERVED, 1 + flags)
            counted = tuple(sums)
        if columns is not None:
            rows.markCheckpointed()  # in columns: they need not be computed from anything again
        return FrameRun(held, count, int(handle.getNumPartitions()), counted, handle)

    def release(self, *runs: FrameRun | None) -> None:
        """Runs that nobody needs after this round; until then, frames may still read them."""
        self._condemned.extend(run for run in runs if run is not None)

    def sweep(self) -> None:
        """Let go of what was released, and of what nobody has any more."""
        if self.shuffle_bytes is not None:
            self.shuffle_bytes.pass_by()
        release_abandoned()
        for run in self._condemned:
            self._alive.discard(run)
            release(run)
        self._condemned.clear()

    def keep(self, *runs: FrameRun) -> None:
        """Runs that outlive this workspace: whoever holds them lets them go."""
        self._alive.difference_update(runs)

    def close(self) -> None:
        """Let go of every run that is not to be kept."""
        self.release(*self._alive)
        self.sweep()

    def local(self, table: pa.Table, schema: StructType) -> DataFrame:
        """An Arrow table as a frame."""
        return create_frame(self.session, table, schema)

    def empty(self, schema: StructType) -> DataFrame:
        """A frame without rows."""
        return create_frame(self.session, [], schema)

    def one_row(self) -> DataFrame:
        """One row without columns."""
        return self.session.range(0, 1, 1, 1).select()


def _count_by_job(held: DataFrame, flags: Sequence[str], partitions: int) -> FrameRun:
    """A run whose rows are counted by a job; that job computes them, if none has."""
    asked = [sf.count(sf.lit(1)), *(sf.count_if(sf.col(flag)) for flag in flags)]
    count, *counted = cast("Any", held.agg(*asked).head())
    return FrameRun(held, count, partitions, tuple(counted), None)


_ABANDONED: Final[list[FrameRun]] = []


def abandon(runs: Sequence[FrameRun]) -> None:
    """Runs of somebody who was collected: the next to sweep lets go of them.

    Python collects at any moment, also in the middle of a call to the JVM.
    """
    _ABANDONED.extend(runs)


def release_abandoned() -> None:
    """Let go of runs that nobody has any more."""
    while _ABANDONED:
        release(_ABANDONED.pop())


def release(run: FrameRun) -> None:
    """Give back the storage of a run; its frame can be read no more."""
    if run.handle is not None:
        try:
            run.handle.unpersist(False)
        except (Py4JError, OSError):  # the session has ended, and its storage with it
            return


def union(frames: Sequence[DataFrame]) -> DataFrame:
    """Frames with the same columns, one after another."""
    first, *others = frames
    for other in others:
        first = first.union(other)
    return first
