"""Strategies *single* and *pivoted*: tasks of the embedded engine, none of which asks another.

*single*: where inputs are small, the embedded engine needs less time for the whole program than
Spark for one round of it. One task is that engine, fed and heard through Spark.

*pivoted*: a clique that hands one column on unchanged falls into independent parts. Every task is
sent its share of what exit rules read (shard.py, exchange.py) and evaluates it: one job, whatever
the number of rounds. How parts are run, heard and put together serves *cubed* too, where a part is
another thing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeAlias, cast

from caladan.engines.interface import EngineStopped
from caladan.engines.spark.sources.table import SparkTable
from caladan.engines.spark.strategy import Context
from caladan.engines.spark.tasks import job, relay
from caladan.engines.spark.tasks.work import Work
from caladan.program.diagnostics import Diagnostic
from caladan.program.events import (
    CliqueDone,
    CliqueStarted,
    CliqueTaken,
    Event,
    Listener,
    RelationHeld,
    RoundDone,
    RuleDone,
    RulePlanned,
    RuleSearched,
    RuleSkipped,
    RunsMet,
)
from caladan.rules.failures import limit
from caladan.rules.program import DeltaClique, DeltaProgram

Tables: TypeAlias = "dict[str, SparkTable]"
Finish: TypeAlias = "Callable[[job.JobResult], Tables]"


def in_parts(
    strategy: str, work: Work, context: Context, finish: Finish, *, apart: bool
) -> dict[str, SparkTable]:
    """Evaluate the one clique of some work; `finish` makes tables of what its tasks hand out.

    Parts are `apart` if no two of them derive the same fact: then their numbers add up.
    """
    (clique,) = work.program.cliques
    started = time.perf_counter()
    context.events.tell(CliqueStarted(clique.relations, clique.is_recursive, strategy))
    together = _Together(strategy, work.program.relations, context, apart=apart)
    result = job.run(work, together.listen, context)
    together.tell_rules()
    try:
        found = finish(result)
    except EngineStopped as stopped:
        if together.has_too_many:  # it was us who stopped the others
            raise EngineStopped(_too_many(clique, context), stopped.store) from None
        raise
    for event in relay.together(together.totals, clique.relations):
        context.events.tell(event)
    facts = sum(table.count() for table in found.values())
    seconds = time.perf_counter() - started
    context.events.tell(CliqueDone(clique.relations, together.rounds, facts, seconds))
    most = context.options.max_facts
    if most is not None and facts > most:
        raise EngineStopped(_too_many(clique, context), cast("Mapping[str, SparkTable]", found))
    return found


def _too_many(clique: DeltaClique, context: Context) -> Diagnostic:
    return limit("max_facts", cast("int", context.options.max_facts), clique.origins)


class _Together:
    """What all parts tell, as of one clique: each counts its own rounds.

    What they tell at the end, of `relations` that they and the driver have, is put together then.
    """

    def __init__(
        self, strategy: str, relations: Collection[str], context: Context, *, apart: bool
    ) -> None:
        self.strategy, self.relations = strategy, relations
        self.events = context.events
        self.rounds = 0
        self.has_too_many = False
        self._context = context
        self._most = context.options.max_facts if apart else None
        self._totals: dict[int, int] = {}
        self._parts: dict[int, _Part] = {}

    def listen(self, part: int) -> _Part:
        """A listener for a part; one that is evaluated again has another."""
        self._parts[part] = _Part(self, part)
        return self._parts[part]

    def tell_rules(self) -> None:
        """Tell what rules did in those attempts whose results count."""
        for _, part in sorted(self._parts.items()):
            for event in part.rules:
                self.events.tell(event)

    @property
    def totals(self) -> list[list[Event]]:
        """What parts told at their end, in those attempts."""
        return [part.totals for _, part in sorted(self._parts.items())]

    def round_done(self, part: int, done: RoundDone) -> None:
        """A round of a part is over."""
        self.rounds = max(self.rounds, done.number)
        self._totals[part] = done.total
        facts = sum(self._totals.values())
        self.events.tell(replace(done, number=self.rounds, total=facts))
        ask = self._context.stopping.ask
        if self._most is not None and facts > self._most and ask is not None:
            self.has_too_many = True
            ask()


class _Part(Listener):
    """Listens to one part."""

    def __init__(self, together: _Together, part: int) -> None:
        self._together = together
        self._part = part
        self.rules: list[Event] = []
        self.totals: list[Event] = []

    def tell(self, event: Event) -> None:
        match event:
            case RulePlanned() | RuleDone() | RuleSearched() | RunsMet() | RuleSkipped():
                self.rules.append(event)
            case RoundDone():
                self._together.round_done(self._part, event)
            case CliqueDone():
                over = RoundDone(event.rounds, 0, event.facts, 0.0)
                self._together.round_done(self._part, over)
            case CliqueTaken():
                self.totals.append(replace(event, strategy=self._together.strategy))
            case RelationHeld():
                if event.relation in self._together.relations:
                    self.totals.append(event)
            case _:
                pass


def single(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate all cliques of a program in one task."""
    work = job.work_on(program, store, context)
    result = job.run(work, lambda _: Single(context.events), context)
    return job.tables(work, result, context)


class Single(Listener):
    """Passes events on; what the engine calls its way of going about it is our business alone."""

    def __init__(self, events: Listener) -> None:
        self._events = events

    def tell(self, event: Event) -> None:
        if isinstance(event, CliqueStarted | CliqueTaken):
            event = replace(event, strategy="single")
        self._events.tell(event)


def run_pivoted(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate the one clique of a program in parts."""
    from caladan.engines.spark.tasks.shard import ByPivot

    work = job.work_on(program, store, context, ByPivot.of(program, context.parts))
    return in_parts(
        "pivoted", work, context, lambda outcomes: job.tables(work, outcomes, context), apart=True
    )
