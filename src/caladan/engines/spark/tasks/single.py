"""Strategy *single*: one task evaluates everything.

Where inputs are small, the embedded engine needs less time for the whole program than Spark for one
round of it. The task is the embedded engine, fed and heard through Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from caladan.delta.program import DeltaProgram
from caladan.engines.spark.strategies import Context
from caladan.engines.spark.table import SparkTable
from caladan.engines.spark.tasks import job
from caladan.events import Events, Several


def single(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate all cliques of a program in one task."""
    work = job.work_on(program, store, context, None)
    outcomes = job.run(work, 1, lambda _: _Single(context.events), context)
    return job.tables(work, outcomes, context)


class _Single(Several):
    """Passes events on; what the engine calls its way of going about it is our business alone."""

    def __init__(self, events: Events) -> None:
        super().__init__(events)
        self._events = events

    def clique_started(self, relations: Sequence[str], recursive: bool, strategy: str) -> None:
        self._events.clique_started(relations, recursive, "single")

    def clique_taken(self, relations: Sequence[str], strategy: str, layouts: Sequence[str]) -> None:
        self._events.clique_taken(relations, "single", layouts)
