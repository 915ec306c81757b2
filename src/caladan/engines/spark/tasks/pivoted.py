"""Strategy *pivoted*: a task for each part of the pivot's values, no exchange.

A clique that hands one column on unchanged falls into independent parts. Every task has all inputs,
evaluates the facts that fall to it (parts.py), and never asks another. One job, whatever the number
of rounds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import cast

from caladan.delta.program import DeltaClique, DeltaProgram
from caladan.engines.interface import Stopped
from caladan.engines.problems import limit
from caladan.engines.spark.choice import why_not_pivoted
from caladan.engines.spark.strategies import CannotServe, Context
from caladan.engines.spark.table import SparkTable
from caladan.engines.spark.tasks import job
from caladan.errors import Diagnostic
from caladan.events import Events


def pivoted(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate the one clique of a program in parts."""
    (clique,) = program.cliques
    reason = why_not_pivoted(clique)
    if reason is not None:
        raise CannotServe(reason)
    started = time.perf_counter()
    context.events.clique_started(clique.relations, recursive=True, strategy="pivoted")
    work = job.work_on(program, store, context, context.parts)
    together = _Together(context)
    outcomes = job.run(work, context.parts, lambda part: _Part(together, part), context)
    try:
        found = job.tables(work, outcomes, context)
    except Stopped as stopped:
        if together.has_too_many:  # it was us who stopped the others
            raise Stopped(_too_many(clique, context), stopped.store) from None
        raise
    facts = sum(table.count() for table in found.values())
    context.events.clique_done(
        clique.relations, together.rounds, facts, time.perf_counter() - started
    )
    most = context.options.max_facts
    if most is not None and facts > most:
        raise Stopped(_too_many(clique, context), found)
    return found


def _too_many(clique: DeltaClique, context: Context) -> Diagnostic:
    return limit("max_facts", cast("int", context.options.max_facts), clique.relations)


class _Together:
    """The rounds of all parts as those of one clique: each part counts its own."""

    def __init__(self, context: Context) -> None:
        self.events = context.events
        self.rounds = 0
        self.has_too_many = False
        self._context = context
        self._totals: dict[int, int] = {}

    def round_done(self, part: int, number: int, new: int, total: int, seconds: float) -> None:
        """A round of a part is over."""
        self.rounds = max(self.rounds, number)
        self._totals[part] = total
        facts = sum(self._totals.values())
        self.events.round_done(self.rounds, new, facts, seconds)
        most = self._context.options.max_facts
        if most is not None and facts > most and self._context.stopping.ask is not None:
            self.has_too_many = True
            self._context.stopping.ask()


class _Part(Events):
    """Listens to one part."""

    def __init__(self, together: _Together, part: int) -> None:
        self._together = together
        self._part = part

    def rule_done(self, rule: int, seed: str | None, facts: int | None, seconds: float) -> None:
        self._together.events.rule_done(rule, seed, facts, seconds)

    def rule_skipped(self, rule: int, seed: str | None) -> None:
        self._together.events.rule_skipped(rule, seed)

    def round_done(self, number: int, new: int, total: int, seconds: float) -> None:
        self._together.round_done(self._part, number, new, total, seconds)

    def clique_done(
        self, relations: Sequence[str], rounds: int, facts: int, seconds: float
    ) -> None:
        self._together.round_done(self._part, rounds, 0, facts, 0.0)
