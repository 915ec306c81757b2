"""A clique that several tasks evaluate side by side, none of which asks another.

*pivoted* and *cubed* differ in what a part is; how parts are run, heard and put together is here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, cast

from caladan.delta.program import DeltaClique
from caladan.engines.interface import Stopped
from caladan.engines.problems import limit
from caladan.engines.spark.strategies import Context
from caladan.engines.spark.table import SparkTable
from caladan.engines.spark.tasks import job
from caladan.engines.spark.tasks.work import Outcome, Work
from caladan.errors import Diagnostic
from caladan.events import Events

Tables: TypeAlias = "dict[str, SparkTable]"
Finish: TypeAlias = "Callable[[Sequence[Outcome]], Tables]"


def in_parts(
    strategy: str, work: Work, context: Context, finish: Finish, *, apart: bool
) -> dict[str, SparkTable]:
    """Evaluate the one clique of some work; `finish` makes tables of what its tasks hand out.

    Parts are `apart` if no two of them derive the same fact: then their numbers add up.
    """
    (clique,) = work.program.cliques
    tasks = cast("int", work.parts)
    started = time.perf_counter()
    context.events.clique_started(clique.relations, clique.is_recursive, strategy)
    together = _Together(context, apart=apart)
    outcomes = job.run(work, tasks, lambda part: _Part(together, part), context)
    try:
        found = finish(outcomes)
    except Stopped as stopped:
        if together.has_too_many:  # it was us who stopped the others
            raise Stopped(_too_many(clique, context), stopped.store) from None
        raise
    facts = sum(table.count() for table in found.values())
    seconds = time.perf_counter() - started
    context.events.clique_done(clique.relations, together.rounds, facts, seconds)
    most = context.options.max_facts
    if most is not None and facts > most:
        raise Stopped(_too_many(clique, context), cast("Mapping[str, SparkTable]", found))
    return found


def _too_many(clique: DeltaClique, context: Context) -> Diagnostic:
    return limit("max_facts", cast("int", context.options.max_facts), clique.relations)


class _Together:
    """The rounds of all parts as those of one clique: each part counts its own."""

    def __init__(self, context: Context, *, apart: bool) -> None:
        self.events = context.events
        self.rounds = 0
        self.has_too_many = False
        self._context = context
        self._most = context.options.max_facts if apart else None
        self._totals: dict[int, int] = {}

    def round_done(self, part: int, number: int, new: int, total: int, seconds: float) -> None:
        """A round of a part is over."""
        self.rounds = max(self.rounds, number)
        self._totals[part] = total
        facts = sum(self._totals.values())
        self.events.round_done(self.rounds, new, facts, seconds)
        ask = self._context.stopping.ask
        if self._most is not None and facts > self._most and ask is not None:
            self.has_too_many = True
            ask()


class _Part(Events):
    """Listens to one part."""

    def __init__(self, together: _Together, part: int) -> None:
        self._together = together
        self._part = part

    def rule_planned(self, rule: int, seed: str | None, steps: Sequence[str]) -> None:
        self._together.events.rule_planned(rule, seed, steps)

    def rule_done(self, rule: int, seed: str | None, facts: int | None, seconds: float) -> None:
        self._together.events.rule_done(rule, seed, facts, seconds)

    def rule_searched(
        self, rule: int, seed: str | None, variable: str, proposed: int, confirmed: int
    ) -> None:
        self._together.events.rule_searched(rule, seed, variable, proposed, confirmed)

    def rule_skipped(self, rule: int, seed: str | None) -> None:
        self._together.events.rule_skipped(rule, seed)

    def round_done(self, number: int, new: int, total: int, seconds: float) -> None:
        self._together.round_done(self._part, number, new, total, seconds)

    def clique_done(
        self, relations: Sequence[str], rounds: int, facts: int, seconds: float
    ) -> None:
        self._together.round_done(self._part, rounds, 0, facts, 0.0)
