"""Strategy *meshed*, as the engine calls it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from caladan.data.frames import first_line
from caladan.data.output import cannot_write
from caladan.engines.spark.mesh import checkpoint, job
from caladan.engines.spark.sources.table import SparkTable
from caladan.engines.spark.strategy import CannotServe, Context
from caladan.engines.spark.tasks.control import Message
from caladan.engines.spark.tasks.job import lost, tables, work_on
from caladan.engines.spark.tasks.relay import heard, together
from caladan.program.diagnostics import without_user
from caladan.program.events import CliqueDone, CliqueStarted, Event, Listener, RoundDone
from caladan.rules.program import DeltaProgram

_SAID: Final = re.compile(r"^(?:caladan\.[\w.]+|\w+Error): .+$", re.MULTILINE)


def run_meshed(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate the one clique of a program by tasks that exchange what is new."""
    (clique,) = program.cliques
    slots = job.slots(context)
    if not slots:
        raise CannotServe("Spark has no executor to run tasks on")
    tasks = min(context.parts, slots)
    folder = context.options.checkpoint
    if folder is not None:
        _prepare(folder)
    started = time.perf_counter()
    listener = MeshListener(context.events, clique.relations)
    work = work_on(program, store, context)
    try:
        result = job.run(work, tasks, listener.hear, context)
    except (PySparkException, Py4JError) as problem:
        failure = lost(problem)
        if isinstance(failure, CannotServe):
            raise failure from None
        if context.stopping.is_set or "cancel" in str(problem).lower():
            raise
        raise CannotServe(f"tasks were lost again and again: {_last_words(str(problem))}") from None
    # A task that failed has something to say; the others only ended with it.
    outcomes = sorted(result.outcomes, key=lambda outcome: outcome.status != "failed")
    result = replace(result, outcomes=outcomes)
    if all(outcome.status != "cannot" for outcome in outcomes):
        listener.tell_totals()
    if folder is not None and all(outcome.status != "stopped" for outcome in outcomes):
        for name in listener.saved:
            checkpoint.remove_saved(folder, name)
    found = tables(work, result, context)
    facts = sum(table.count() for table in found.values())
    context.events.tell(
        CliqueDone(clique.relations, listener.rounds, facts, time.perf_counter() - started)
    )
    return found


def _prepare(folder: str) -> None:
    try:
        checkpoint.prepare_folder(folder)
    except checkpoint.FAILURES as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise cannot_write(
            without_user(folder),
            first_line(reason),
            "a checkpoint needs a folder that the driver and all executors can write to",
        ) from None


def _last_words(text: str) -> str:
    """What the last task to fail said, in the text of an exception of Spark's."""
    said = _SAID.findall(text)
    return said[-1] if said else first_line(text)


class MeshListener:
    """What tasks tell, as events. A stage that is tried again tells of its rounds again."""

    def __init__(self, events: Listener, relations: Sequence[str]) -> None:
        self._events = events
        self._relations = relations
        self._has_started = False
        self._totals: dict[int, list[Event]] = {}
        self.rounds = 0
        self.saved: set[str] = set()
        """The names under which tasks save."""

    def hear(self, message: Message) -> None:
        """A message of a task: of what happens meanwhile, or of all that it did."""
        if "totals" in message:
            self._totals[int(message["totals"])] = list(heard(message))
            return
        for event in heard(message):
            if isinstance(event, RoundDone):
                if event.number <= self.rounds:
                    continue
                self.rounds = event.number
            self._start()
            self._events.tell(event)
        if "checkpoint" in message:
            self.saved.add(str(message["checkpoint"]))

    def tell_totals(self) -> None:
        """Tell what was done in all tasks together."""
        self._start()
        for event in together(self._totals.values(), self._relations):
            self._events.tell(event)

    def _start(self) -> None:
        """The clique has started once tasks have met: before that, another strategy may do it."""
        if not self._has_started:
            self._has_started = True
            self._events.tell(CliqueStarted(self._relations, recursive=True, strategy="meshed"))
