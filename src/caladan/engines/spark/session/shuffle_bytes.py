"""How many bytes Spark shuffles, as its own status store has it."""

from __future__ import annotations

from typing import Any, Final, cast

from py4j.protocol import Py4JError
from pyspark import SparkContext

_OFTEN: Final = 200  # Spark forgets old jobs and stages; by default it remembers a thousand


class ShuffleBytes:
    """The bytes that jobs with a tag have written for others to read; None if Spark won't say."""

    def __init__(self, context: SparkContext, tag: str) -> None:
        self._scala = cast("Any", context)._jsc.sc()
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
        try:
            self._scala.listenerBus().waitUntilEmpty()
            tracker, store = self._scala.statusTracker(), self._scala.statusStore()
            jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForTag(self._tag)]
            stages = {stage for job in jobs if job.isDefined() for stage in job.get().stageIds()}
            for stage in stages - self._stages:
                self.size += int(store.lastStageAttempt(stage).shuffleWriteBytes())
            self._stages |= stages
        except Py4JError:  # no public interface: another version may have none of this
            self.size = None
