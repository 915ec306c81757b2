"""What a clique knows of a relation whose aggregates are all `mmin` or `mmax`.

A group may be in several runs: its best values count. A round combines what was derived for a
group (n0, n1 …) with what is known of it (o0, o1 …), and keeps the groups that improved.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from caladan.analysis.core import RelationInfo
from caladan.engines.spark.columns.aggregates import best, fold_values
from caladan.engines.spark.columns.types import inside
from caladan.engines.spark.frame.log import FRESH, Log
from caladan.engines.spark.session.workspace import FrameRows, FrameRun, Workspace, union
from caladan.program.aggregates import AggregateFunction
from caladan.rules.body import Version

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BORN: Final = "born"  # a group that was not known before
_HELD: Final = "held"  # a group that is in the tail


class BestFacts:
    """The best values of each group: old, new and both."""

    def __init__(
        self, workspace: Workspace, info: RelationInfo, key: tuple[int, ...], *, carried: bool
    ) -> None:
        self.info = info
        self.names = [f"c{i}" for i in range(info.arity)]
        self._group = [f"c{i}" for i in info.group]
        self._values = [i for i, function in enumerate(info.aggregates) if function is not None]
        keys = [f"c{i}" for i in key]
        self._log = Log(workspace, self.names, keys, self._bests, carried=carried)
        self.new = 0
        self.count = 0

    def read(self, version: Version) -> FrameRows:
        """The facts of a version; a delta has the groups that improved."""
        log = self._log
        if version is Version.DELTA:
            return log.delta(self.new)
        frame = log.everything()
        if len(log.all) > 1:
            frame = self._bests(log.placed(frame))
        return FrameRows(frame.coalesce(1) if log.lone else frame, self.count, log.lone)

    def advance(self, derived: Sequence[DataFrame]) -> int:
        """Take what a round derived; how many groups improved."""
        log = self._log
        made, many = self.round(derived) if derived else None, log.expects(self.new)
        self.new = 0
        log.settle()
        if made is None:
            return 0
        run = log.workspace.materialise(made, (FRESH, BORN), many=many)
        self.new, born = run.counted
        self.count += born
        if self.new:
            log.renew(run)
        else:
            log.workspace.release(run)
        return self.new

    def round(self, derived: Sequence[DataFrame]) -> DataFrame:
        """The frame that a round computes: the tail with the groups that improved."""
        log, found = self._log, self._candidates(derived)
        if log.tail is not None:
            known = log.tail.frame.select(
                *self._group,
                *(self._none(i).alias(f"n{i}") for i in self._values),
                *(sf.col(f"c{i}").alias(f"o{i}") for i in self._values),
                sf.lit(True).alias(_HELD),
            )
            found = log.placed(known.union(found))
        elif len(log.runs) < 2:
            return self._improved(found)
        # A group that several runs know met each of them: what the newest knows is the best.
        merged = found.groupBy(*self._group).agg(
            *self._aggregated("n", "n"),
            *self._aggregated("o", "o"),
            sf.bool_or(_HELD).alias(_HELD),
        )
        return self._improved(merged)

    def spread(self) -> None:
        """Bring the facts into another number of partitions."""
        self._log.spread()

    def finished(self) -> tuple[DataFrame, tuple[FrameRun, ...]]:
        """All facts, and the runs that hold them: one, in which each group is once."""
        self._log.close_ranks()
        return self._log.everything(), tuple(self._log.all)

    def _bests(self, frame: DataFrame) -> DataFrame:
        made = self._aggregated("c", "c")
        return frame.groupBy(*self._group).agg(*made).select(*self.names)

    def _candidates(self, derived: Sequence[DataFrame]) -> DataFrame:
        """The best of what was derived for each group, and what the runs know of it."""
        log = self._log
        frame = union([each.select(*self.names) for each in derived])
        found = log.placed(frame).groupBy(*self._group).agg(*self._aggregated("c", "n"))
        if not self._group:  # a group without columns is there even if nothing was derived
            found = found.where(sf.col(f"n{self._values[0]}").isNotNull())
        if log.runs:
            known = log.of(log.runs).select(
                *self._group, *(sf.col(f"c{i}").alias(f"o{i}") for i in self._values)
            )
            found = found.hint("shuffle_hash").join(known, self._group, "left")
        else:
            found = found.select("*", *(self._none(i).alias(f"o{i}") for i in self._values))
        return found.select(
            *self._group,
            *(sf.col(f"n{i}") for i in self._values),
            *(sf.col(f"o{i}") for i in self._values),
            sf.lit(False).alias(_HELD),
        )

    def _improved(self, merged: DataFrame) -> DataFrame:
        """Of groups with what was derived and what is known: the tail, and those that improved."""
        first = self._values[0]
        values = {i: self._better(i).alias(f"c{i}") for i in self._values}
        result = merged.select(
            *(values.get(i, sf.col(f"c{i}")) for i in range(self.info.arity)),
            reduce(lambda a, b: a | b, map(self._is_better, self._values)).alias(FRESH),
            (sf.col(f"o{first}").isNull() & sf.col(f"n{first}").isNotNull()).alias(BORN),
            sf.col(_HELD),
        )
        return result.where(sf.col(FRESH) | sf.col(_HELD)).select(*self.names, FRESH, BORN)

    def _aggregated(self, source: str, target: str) -> list[Column]:
        """The best value of each aggregate, of columns of one name as columns of another."""
        return [
            best(self._row(i), sf.col(f"{source}{i}"), self.info.types[i]).alias(f"{target}{i}")
            for i in self._values
        ]

    def _is_better(self, i: int) -> Column:
        new, old = sf.col(f"n{i}"), sf.col(f"o{i}")
        better = (
            self._row(i).is_better(new, old) if self._row(i).is_best else self._better(i) != old
        )
        return sf.coalesce(better, new.isNotNull() & old.isNull())

    def _better(self, i: int) -> Column:
        row = self._row(i)
        if not row.is_best:
            return fold_values(row, sf.array(sf.col(f"n{i}"), sf.col(f"o{i}")), self.info.types[i])
        return sf.when(self._is_better(i), sf.col(f"n{i}")).otherwise(sf.col(f"o{i}"))

    def _row(self, i: int) -> AggregateFunction:
        row = self.info.aggregates[i]
        assert row is not None
        return row

    def _none(self, i: int) -> Column:
        return sf.lit(None).cast(inside(self.info.types[i]))
