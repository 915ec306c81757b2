"""Strategy *meshed*, as the engine calls it."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from typing import Final

from py4j.protocol import Py4JError

from caladan.data.output import cannot_write
from caladan.engines.spark.mesh import checkpoint, job
from caladan.engines.spark.session.failures import first_line
from caladan.engines.spark.sources.table import SparkTable
from caladan.engines.spark.strategy import CannotServe, Context
from caladan.engines.spark.tasks.control import Message
from caladan.engines.spark.tasks.job import tables, work_on
from caladan.program.diagnostics import without_user
from caladan.program.events import Events
from caladan.rules.program import DeltaProgram

_SAID: Final = re.compile(r"^(?:caladan\.[\w.]+|\w+Error): .+$", re.MULTILINE)


def meshed(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate the one clique of a program by tasks that exchange what is new."""
    (clique,) = program.cliques
    if not clique.is_recursive:
        raise CannotServe("the relation is not recursive")
    slots = job.slots(context)
    if not slots:
        raise CannotServe("Spark has no executor to run tasks on")
    tasks = min(context.parts, slots)
    folder = context.options.checkpoint
    if folder is not None:
        _prepare(folder)
    started = time.perf_counter()
    listener = Listener(context.events, clique.relations)
    work = work_on(program, store, context, None)
    try:
        outcomes = job.run(work, tasks, listener.hear, context)
    except Py4JError as problem:
        if context.stopping.is_set or "cancel" in str(problem).lower():
            raise
        raise CannotServe(f"tasks were lost again and again: {_last_words(str(problem))}") from None
    # A task that failed has something to say; the others only ended with it.
    outcomes.sort(key=lambda outcome: outcome.status != "failed")
    if all(outcome.status != "cannot" for outcome in outcomes):
        listener.tell_totals()
    if folder is not None and all(outcome.status != "stopped" for outcome in outcomes):
        for name in listener.saved:
            checkpoint.removed(folder, name)
    found = tables(work, outcomes, context)
    facts = sum(table.count() for table in found.values())
    context.events.clique_done(
        clique.relations, listener.rounds, facts, time.perf_counter() - started
    )
    return found


def _prepare(folder: str) -> None:
    try:
        checkpoint.prepared(folder)
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


class Listener:
    """What tasks tell, as events. A stage that is tried again tells of its rounds again."""

    def __init__(self, events: Events, relations: Sequence[str]) -> None:
        self._events = events
        self._relations = relations
        self._has_started = False
        self._rules: dict[int, dict[int, tuple[int, float]]] = {}
        self._bytes: dict[int, int] = {}
        self._searched: dict[int, list[tuple[int, str, int, int]]] = {}
        self.rounds = 0
        self.saved: set[str] = set()
        """The names under which tasks save."""

    def hear(self, message: Message) -> None:
        """A message of a task."""
        for name, *arguments in message.get("events", ()):
            if name == "round_done" and arguments[0] > self.rounds:
                self._start()
                self.rounds = int(arguments[0])
                self._events.round_done(*arguments)
            elif name == "resumed":
                self._start()
                self._events.resumed(int(arguments[0]))
            elif name == "split":
                self._start()
                self._events.split(int(arguments[0]), [str(value) for value in arguments[1]])
        if "checkpoint" in message:
            self.saved.add(str(message["checkpoint"]))
        if "lost" in message:
            self._start()
            self._events.checkpoint_lost(str(message["lost"]))
        if "rules" in message:
            found = {int(rule): (int(n), float(s)) for rule, n, s in message["rules"]}
            self._rules[int(message["part"])] = found
            self._bytes[int(message["part"])] = int(message["bytes"])
            self._searched[int(message["part"])] = message["searched"]

    def tell_totals(self) -> None:
        """Tell what each rule did in all tasks together, in the time of the slowest."""
        self._start()
        for rule in {rule: None for found in self._rules.values() for rule in found}:
            done = [found[rule] for found in self._rules.values() if rule in found]
            solutions = sum(count for count, _ in done)
            self._events.rule_done(rule, None, solutions, max(seconds for _, seconds in done))
        for found in self._searched.values():
            for rule, variable, proposed, confirmed in found:
                self._events.rule_searched(
                    int(rule), None, str(variable), int(proposed), int(confirmed)
                )
        self._events.shuffled(sum(self._bytes.values()))

    def _start(self) -> None:
        """The clique has started once tasks have met: before that, another strategy may do it."""
        if not self._has_started:
            self._has_started = True
            self._events.clique_started(self._relations, recursive=True, strategy="meshed")
