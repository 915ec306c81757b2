"""The fixpoint: cliques in order, each round after round over what is new.

    state.py        the relations so far
    planner.py      the plans of rules over them
    shapes/         cliques with a special structure, which are not gone through in rounds
    small_rounds/   rounds with little new in them, handed to a machine

A round evaluates every delta rule whose seed has a delta and whose guard holds: a guard is a
relation that must have facts for the rule to derive any. The heads then sort out what is new.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from functools import partial

from caladan.analysis.core import CoreRule
from caladan.columns.layout import Layout, Words
from caladan.columns.relation import StoredRelation
from caladan.fixpoint.blueprint import ROUNDS, Blueprint, said
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.planner import Planner
from caladan.fixpoint.shapes.choice import Shaping
from caladan.fixpoint.small_rounds.choice import TinyRounds
from caladan.fixpoint.state import State
from caladan.fixpoint.sums import never_settling, values_of
from caladan.join.arithmetic import blamed
from caladan.join.classes import Classes
from caladan.join.plan import RulePlan
from caladan.program.events import (
    CliqueDone,
    CliqueStarted,
    CliqueTaken,
    Listener,
    MachineRan,
    RoundDone,
    RuleDone,
    RulePlanned,
    RuleSearched,
    RuleSkipped,
    StrategyDeclined,
)
from caladan.rules.body import Body, Version
from caladan.rules.failures import LimitReached
from caladan.rules.growth import Growth
from caladan.rules.program import DeltaClique, DeltaRule


class Fixpoint:
    """A run: the relations so far, and how to go on.

    `given` has the facts from data and from the program's text, as words. `search` is the grade
    of the guided search that cyclic bodies go through, if they should.
    """

    def __init__(
        self,
        plan: Blueprint,
        classes: Classes,
        given: Mapping[str, Sequence[tuple[Sequence[Words], int]]],
        limits: Limits,
        events: Listener,
        search: str | None = None,
    ) -> None:
        self._state = State(plan.program, classes, given, limits, plan.orders)
        self._planner = Planner(self._state, search)
        self._shaping = Shaping(self._state, self._planner)
        self._limits = limits
        self._events = events

    def layouts(self) -> dict[str, Layout]:
        """What is known of every relation."""
        return self._state.layouts()

    def rank(self) -> None:
        """Let facts remember when they were derived; so there are rounds, and no shapes."""
        self._state.is_ranked = True

    def adopt(self, relations: Mapping[str, StoredRelation]) -> None:
        """Relations that are finished."""
        self._state.finished.update(relations)

    def relation(self, name: str) -> StoredRelation:
        """A relation that can be joined with."""
        return self._state.relation(name)

    def load(self, name: str) -> None:
        """Store the given facts of a relation that no rule derives."""
        self._state.load(name)

    def clique(self, clique: DeltaClique) -> None:
        """Derive the relations of a clique."""
        started = time.perf_counter()
        self._limits.enter(clique.relations)
        self._events.tell(CliqueStarted(clique.relations, clique.is_recursive, ROUNDS))
        shape = self._shaping.shape(clique, partial(self._declined, clique))
        self._state.start(clique.relations)
        for rule in clique.exit_rules:
            self._evaluate(rule, self._planner.plan(rule))
        rounds = 1
        self._round_done(clique, rounds, time.perf_counter(), clique.relations)
        found, strategy = None, ROUNDS
        if shape is not None:
            found = self._shaping.evaluate(shape, partial(self._declined, clique))
            strategy = ROUNDS if found is None else shape.name
        if found is None:
            rounds = self._rounds(clique, rounds)
            orders = self._state.orders
            found = {
                name: self._state.heads[name].finished(orders.get(name, {}))
                for name in clique.relations
            }
        self._state.finish(found)
        layouts = [found[name].form for name in clique.relations]
        self._events.tell(CliqueTaken(clique.relations, strategy, layouts))
        facts = self._state.total(clique.relations)
        seconds = time.perf_counter() - started
        self._events.tell(CliqueDone(clique.relations, rounds, facts, seconds))
        if strategy != ROUNDS and self._limits.max_facts is not None:
            self._limits.facts(self._state.derived())

    def _declined(self, clique: DeltaClique, strategy: str, reason: str) -> None:
        self._events.tell(StrategyDeclined(clique.relations, strategy, reason))

    # ── Rounds ───────────────────────────────────────────────────────────────────────────────────

    def _rounds(self, clique: DeltaClique, rounds: int) -> int:
        """Go on until nothing is new; how many rounds it took in all."""
        members, plans = self._planner.ready(clique)
        heads = self._state.heads
        tiny = TinyRounds(
            [heads[name] for name in members],
            [(heads[rule.rule.head], plan) for rule, plan in plans],
            self._limits,
            partial(self._declined, clique, "tiny rounds"),
        )
        growth = Growth(clique.totals, 1 if len(members) == len(clique.relations) else 2)
        while plans and any(heads[name].relation.delta_count() for name in members):
            self._look_at_sums(growth, clique, members)
            self._limits.rounds(rounds)
            started = time.perf_counter()
            more, new = tiny.run(self._limits.rounds_left(rounds), self._facts_left())
            if more:
                rounds += more
                self._events.tell(MachineRan(more))
                self._tell(rounds, new, self._state.total(clique.relations), started)
                continue
            for rule, plan in plans:
                self._evaluate(rule, plan)
            self._commit(members)
            rounds += 1
            self._round_done(clique, rounds, started, members)
        self._commit(members)
        for name in members[len(clique.relations) :]:
            del heads[name]
        return rounds

    def _look_at_sums(self, growth: Growth, clique: DeltaClique, members: Sequence[str]) -> None:
        """Stop if there are sums that will never settle."""
        if clique.totals is None:
            return
        relations = {name: self._state.heads[name].relation for name in members}
        infos, domains = self._state.program.relations, self._state.classes.columns
        growth.count(sum(relation.count() for relation in relations.values()))
        if growth.is_sure or (
            growth.is_suspect and growth.look(values_of(relations, infos, domains))
        ):
            found = never_settling(clique, relations, infos, domains, growth.rounds)
            if found is not None:
                raise LimitReached(found)

    def _commit(self, members: Sequence[str]) -> None:
        for name in members:
            self._state.heads[name].relation.commit()

    def _round_done(
        self, clique: DeltaClique, number: int, started: float, members: Sequence[str]
    ) -> None:
        new = 0
        for name in clique.relations:
            with blamed(_aggregating(clique, name)):
                new += self._state.heads[name].flip()
        for name in members[len(clique.relations) :]:
            self._state.heads[name].flip()
        self._tell(number, new, self._state.total(clique.relations), started)

    def _tell(self, number: int, new: int, total: int, started: float) -> None:
        """A round is over: say so, and see whether the limits allow another."""
        self._events.tell(RoundDone(number, new, total, time.perf_counter() - started))
        if self._limits.max_facts is not None:
            self._limits.facts(self._state.derived())
        self._limits.memory.add(new, self._state.layouts)

    def _facts_left(self) -> int | None:
        if self._limits.max_facts is None:
            return None
        return self._limits.facts_left(self._state.derived())

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def _evaluate(self, rule: DeltaRule, plan: RulePlan) -> None:
        seed = rule.seeded_by
        if not self._may_derive(rule, plan.body):
            self._events.tell(RuleSkipped(rule.rule.number, seed))
            return
        started = time.perf_counter()
        head = self._state.heads[rule.rule.head]
        keys = self._state.classes.keys(rule)
        sink = head.sink(rule, plan, keys)

        def check() -> None:
            self._limits.seconds()
            # Sorting what was found takes as much again.
            needed = 2 * head.relation.pending_bytes
            self._limits.memory.require(needed, self._state.layouts)

        with blamed(rule.rule):
            plan.run(sink, check)
            sink.finish()
        seconds = time.perf_counter() - started
        if (steps := plan.news()) is not None:
            self._events.tell(RulePlanned(rule.rule.number, seed, [said(step) for step in steps]))
        self._events.tell(RuleDone(rule.rule.number, seed, sink.count, seconds))
        for variable, proposed, confirmed in plan.proposals():
            self._events.tell(RuleSearched(rule.rule.number, seed, variable, proposed, confirmed))

    def _may_derive(self, rule: DeltaRule, body: Body) -> bool:
        """The guard: whether the seed has a delta and every other relation facts."""
        seeds = [scan.relation for scan in body.atoms if scan.version is Version.DELTA]
        if not all(self._state.heads[name].relation.delta_count() for name in seeds):
            return False
        return all(map(self._state.count, rule.guard))


def _aggregating(clique: DeltaClique, name: str) -> CoreRule | None:
    rules = [r.rule for r in (*clique.exit_rules, *clique.delta_rules) if r.rule.head == name]
    return next((rule for rule in rules if rule.has_aggregates), None)
