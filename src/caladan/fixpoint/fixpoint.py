"""The fixpoint: cliques in order, each round after round over what is new.

    state.py        the relations so far
    planner.py      the plans of rules over them, and the evaluation of each
    whole.py        what a round of a clique is, where all of it is in one place
    exchange.py     how peers go from round to round, if there are several, or alone

`run` is the loop, whoever evaluates: this process, a task on Spark, or tasks that exchange facts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from caladan.columns.layout import Layout, Words
from caladan.columns.relation import StoredRelation
from caladan.fixpoint.blueprint import ROUNDS, Blueprint
from caladan.fixpoint.exchange import Alone, Exchange, Share, Tally
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.planner import Planner
from caladan.fixpoint.state import State
from caladan.fixpoint.whole import Whole
from caladan.join.classes import Classes
from caladan.program.events import CliqueDone, CliqueStarted, CliqueTaken, Listener, RoundDone
from caladan.rules.failures import LimitReached
from caladan.rules.program import DeltaClique


def run(
    share: Share, exchange: Exchange, limits: Limits, tell: Callable[[int, Tally, float], None]
) -> int:
    """Go from round to round until nobody has anything new; how many rounds it took in all.

    All peers see the same tallies, so all come to the same conclusions. `tell` is told of each
    round: its number, how things stand, and the seconds it took; like the limits, it may raise.
    """
    done = exchange.begin()
    work = share.step if done else share.start
    while True:
        started = time.perf_counter()
        tally = exchange.round(work)
        done += tally.rounds
        number = done - exchange.lag
        tell(number, tally, time.perf_counter() - started)
        if not tally.goes_on:
            return number
        growth = share.growth
        if tally.new and growth.is_suspect and (growth.is_sure or tally.sign):
            found = share.never_settling()
            if found is not None:
                raise LimitReached(found)
            if exchange.peers > 1:  # it is others who have a fact to show
                return number
        limits.rounds(number)
        work = share.step


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
        self._limits.enter(clique.origins)
        self._events.tell(CliqueStarted(clique.relations, clique.is_recursive, ROUNDS))
        whole = Whole(clique, self._state, self._planner, self._events)
        rounds = run(whole, Alone(whole), self._limits, self._round_done)
        found = whole.finish()
        layouts = [found[name].form for name in clique.relations]
        self._events.tell(CliqueTaken(clique.relations, whole.strategy, layouts))
        facts = self._state.total(clique.relations)
        seconds = time.perf_counter() - started
        self._events.tell(CliqueDone(clique.relations, rounds, facts, seconds))
        if whole.strategy != ROUNDS and self._limits.max_facts is not None:
            self._limits.facts(self._state.derived())

    def _round_done(self, number: int, tally: Tally, seconds: float) -> None:
        """A round is over: say so, and see whether the limits allow another."""
        self._events.tell(RoundDone(number, tally.new, tally.facts, seconds))
        if self._limits.max_facts is not None:
            self._limits.facts(self._state.derived())
        self._limits.memory.add(tally.new, self._state.held)
