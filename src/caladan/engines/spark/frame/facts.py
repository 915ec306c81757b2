"""What a clique knows of a relation without aggregates, from round to round.

A round is one job: what was derived, less what is in the runs, joins the tail, where facts that
were there before stay old.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from caladan.engines.spark.frame.log import FRESH, Log
from caladan.engines.spark.session.workspace import FrameRows, FrameRun, Workspace, union
from caladan.rules.body import Version

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_HASHED: Final = 500_000
"""New facts in a partition up to which the candidates that they derive go into a hash table, which
runs are read against; beyond that Spark sorts both, which fits in memory whatever their size."""


class PlainFacts:
    """The facts of a relation: old, new and both."""

    def __init__(
        self, workspace: Workspace, width: int, key: tuple[int, ...], *, carried: bool
    ) -> None:
        names = [f"c{i}" for i in range(max(width, 1))]
        keys = [f"c{i}" for i in key] or names
        self._names = names
        # Columns are made once: each costs several calls into the JVM, and rounds are many.
        self._columns = [sf.col(name) for name in names]
        self._as_new = [*self._columns, sf.lit(True).alias(FRESH)]
        self._as_old = [*self._columns, sf.lit(False).alias(FRESH)]
        self._is_fresh = sf.bool_and(FRESH).alias(FRESH)
        self._log = Log(workspace, names, keys, lambda frame: frame, carried=carried)
        self.new = 0

    @property
    def count(self) -> int:
        """How many facts are known."""
        return sum(run.count for run in self._log.all)

    def read(self, version: Version) -> FrameRows:
        """The facts of a version."""
        log = self._log
        if version is Version.DELTA:
            return log.delta(self.new)
        is_old = version is Version.OLD
        frame = log.old() if is_old else log.everything()
        bound = self.count - self.new if is_old else self.count
        return FrameRows(frame.coalesce(1) if log.lone else frame, bound, log.lone)

    def advance(self, derived: Sequence[DataFrame]) -> int:
        """Take what a round derived; how many facts of it are new."""
        log, before = self._log, self._log.tail
        made, many = self.round(derived) if derived else None, log.expects(self.new)
        self.new = 0
        log.settle()
        if made is None:
            return 0
        run = log.workspace.materialise(made, many=many)
        self.new = run.count - (0 if before is None else before.count)
        if self.new:
            log.renew(run)
        else:
            log.workspace.release(run)
        return self.new

    def round(self, derived: Sequence[DataFrame]) -> DataFrame:
        """The frame that a round computes: the tail with what is new."""
        log = self._log
        found = union(derived)
        if log.runs:
            found = self._unknown(found)
        pool = found.select(*self._as_new)
        if log.tail is not None:
            pool = log.tail.frame.select(*self._as_old).union(pool)
        elif log.runs:
            return pool  # each fact is there once
        return log.placed(pool).groupBy(*self._columns).agg(self._is_fresh)

    def spread(self) -> None:
        """Bring the facts into another number of partitions."""
        self._log.spread()

    def finished(self) -> tuple[DataFrame, tuple[FrameRun, ...]]:
        """All facts, and the runs that hold them."""
        return self._log.everything(), tuple(self._log.all)

    def _unknown(self, found: DataFrame) -> DataFrame:
        """What is in none of the runs."""
        log = self._log
        found = log.placed(found).distinct()
        known = log.of(log.runs)
        if self.new > _HASHED * log.workspace.partitions:
            return found.join(known, self._names, "left_anti")
        known = known.select(*self._names, sf.lit(True).alias("known"))
        met = found.hint("shuffle_hash").join(known, self._names, "left")
        return met.where(sf.col("known").isNull())
