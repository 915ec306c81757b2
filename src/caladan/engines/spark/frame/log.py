"""The runs of a relation in a clique.

Most facts lie in runs of falling size, partitioned by the relation's key: a run that is not much
smaller than its neighbour is merged with it, so a fact is rewritten a few times only, however many
rounds there are. The newest facts are in the tail, one small run that every round rewrites. The
latest run says of each of its facts, in the column `fresh`, whether the last round found it. A tail
that has outgrown one partition becomes a run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from caladan.engines.spark.choice import SMALL
from caladan.engines.spark.session.workspace import FrameRows, FrameRun, Workspace, union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FRESH: Final = "fresh"

_RATIO: Final = 2  # a run is at least so many times larger than what comes after it


class Log:
    """Runs, tail, and what is new among them.

    `merged` makes one frame of the facts of several runs. `carried` says that what rules derive may
    already lie where it belongs; else grouping brings it there.
    """

    def __init__(
        self,
        workspace: Workspace,
        names: Sequence[str],
        key: Sequence[str],
        merged: Callable[[DataFrame], DataFrame],
        *,
        carried: bool,
    ) -> None:
        self.workspace = workspace
        self.names = list(names)
        self.runs: list[FrameRun] = []
        self.tail: FrameRun | None = None
        self._key = list(key)
        self._merged = merged
        self._carried = carried
        self._latest: FrameRun | None = None

    @property
    def all(self) -> list[FrameRun]:
        """The runs, and the tail as the last of them."""
        return self.runs if self.tail is None else [*self.runs, self.tail]

    @property
    def lone(self) -> bool:
        """Whether all of it is little enough for one partition."""
        is_split = self.workspace.asked is not None and self.workspace.asked > 1
        return not is_split and sum(run.count for run in self.all) <= SMALL

    def everything(self) -> DataFrame:
        """The facts of all runs, one after another."""
        return self.of(self.all)

    def of(self, runs: Sequence[FrameRun]) -> DataFrame:
        """The facts of some runs, one after another."""
        return union([run.frame.select(*self.names) for run in runs])

    def old(self) -> DataFrame:
        """The facts that were not found in the last round."""
        frames = [r.frame.where(~sf.col(FRESH)) if r is self._latest else r.frame for r in self.all]
        return union([frame.select(*self.names) for frame in frames])

    def delta(self, new: int) -> FrameRows:
        """The facts that were found in the last round, so many of them."""
        latest = self._latest
        assert latest is not None, "nothing is new"
        rows = latest.rows
        frame = rows.frame if new == latest.count else rows.frame.where(sf.col(FRESH))
        if not rows.lone and latest.partitions != self.workspace.partitions:
            # Spread anew before they are joined: what they derive is more, and is born in place.
            frame = self.placed(frame)
        return FrameRows(frame, new, rows.lone)

    def placed(self, frame: DataFrame) -> DataFrame:
        """Rows where they belong, or where grouping them will bring them."""
        partitions = self.workspace.partitions
        if partitions == 1:
            return frame.coalesce(1)
        if self._carried:
            return frame.repartition(partitions, *(sf.col(name) for name in self._key))
        return frame

    def expects(self, new: int) -> bool:
        """Whether a round may find many facts, if the last one found so many."""
        return self.workspace.partitions > 1 and new > SMALL

    def settle(self) -> None:
        """Nothing is new any more."""
        self._latest = None

    def renew(self, tail: FrameRun) -> None:
        """Take the tail that a round made, with what it found."""
        self.workspace.release(self.tail)
        self.tail = self._latest = tail
        if tail.count > SMALL:
            self._merge()
            self.runs.append(tail)
            self.tail = None

    def spread(self) -> None:
        """Bring the runs into another number of partitions."""
        if self.runs:
            self._replace(self.runs)

    def close_ranks(self) -> None:
        """Make one run of everything."""
        self.runs, self.tail = self.all, None
        if len(self.runs) > 1:
            self._replace(self.runs)

    def _merge(self) -> None:
        """Merge the last runs, as far back as a run is not much larger than those after it."""
        start = len(self.runs) - 1
        while start > 0 and self.runs[start - 1].count < _RATIO * self._facts_from(start):
            start -= 1
        if 0 <= start < len(self.runs) - 1:
            self._replace(self.runs[start:])

    def _facts_from(self, start: int) -> int:
        return sum(run.count for run in self.runs[start:])

    def _replace(self, runs: list[FrameRun]) -> None:
        frame = self._merged(self.placed(self.of(runs)))
        if not self._carried and self.workspace.partitions > 1:
            # Where nothing is grouped nothing is moved, so the runs are brought there by hand;
            # Spark leaves out an exchange that changes nothing.
            frame = frame.repartition(self.workspace.partitions, *map(sf.col, self._key))
        frame = frame.select(*self.names, sf.lit(False).alias(FRESH))
        run = self.workspace.materialise(frame, many=sum(each.count for each in runs) > SMALL)
        kept = [each for each in self.runs if each not in runs]
        self.workspace.release(*runs)
        self.runs = [*kept, run]
