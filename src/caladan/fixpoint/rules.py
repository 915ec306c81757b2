"""The evaluation of a rule: its plan over relations, its guard, and the sink of its solutions.

A guard is what must be there for a rule to derive anything: a delta in its seed, facts in every
other atom. A rule may read copies and parts of relations under names of their own; those are shown
as what they are of.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from caladan.columns.relation import StoredRelation
from caladan.fixpoint.blueprint import said
from caladan.fixpoint.heads import RelationHead
from caladan.fixpoint.state import State
from caladan.join.arithmetic import blamed
from caladan.join.plan import RulePlan
from caladan.join.walk import Sink
from caladan.program.events import Listener, RuleDone, RulePlanned, RuleSearched, RuleSkipped
from caladan.rules.body import Scan
from caladan.rules.program import DeltaRule


@dataclass(frozen=True, slots=True, eq=False)
class ReadyRule:
    """A rule over relations; `seeds` are those it reads the delta of, `reads` the others.

    An `idle` one is somebody else's to evaluate.
    """

    rule: DeltaRule
    plan: RulePlan
    head: RelationHead
    sink: Sink
    seeds: tuple[StoredRelation, ...]
    reads: tuple[StoredRelation, ...]
    shown: Callable[[Scan], Scan]
    idle: bool = False

    def may_derive(self) -> bool:
        """The guard: whether there is something new to start from, and to join it with."""
        return (
            not self.idle
            and all(seed.delta_count() for seed in self.seeds)
            and all(relation.count() for relation in self.reads)
        )

    def evaluate(self, state: State, events: Listener) -> None:
        """Hand its solutions to the head, if there can be any."""
        number, seed = self.rule.rule.number, self.rule.seeded_by
        if not self.may_derive():
            events.tell(RuleSkipped(number, seed))
            return
        started, before = time.perf_counter(), self.sink.count
        limits, head = state.limits, self.head

        def check() -> None:
            limits.seconds()
            # Sorting what was found takes as much again.
            limits.memory.require(2 * head.pending_bytes, state.held)

        with blamed(self.rule.rule):
            self.plan.run(self.sink, check)
            self.sink.finish()
        seconds = time.perf_counter() - started
        if (steps := self.plan.news()) is not None:
            events.tell(RulePlanned(number, seed, [said(step, self.shown) for step in steps]))
        events.tell(RuleDone(number, seed, self.sink.count - before, seconds))
        by = self.plan.proposers()
        for variable, proposed, confirmed in self.plan.proposals():
            who = by.get(variable, ())
            events.tell(RuleSearched(number, seed, variable, proposed, confirmed, who))
