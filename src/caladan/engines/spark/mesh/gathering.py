"""A clique that is gathered in the first task, which goes through its rounds alone.

That task has the loop of one peer, with shapes and small rounds; the others wait for it. It comes
back to them when a round has become so large that it should be shared out, or when it is time to
save what there is.

Cliques with a shape are gathered from the start, others once rounds are small (exchange.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from caladan.engines.spark.mesh.members import Member
from caladan.engines.spark.mesh.rules import MeshInputs
from caladan.fixpoint.blueprint import ROUNDS
from caladan.fixpoint.exchange import Alone, RoundWork, Tally
from caladan.fixpoint.fixpoint import run
from caladan.fixpoint.shapes.choice import Shaping
from caladan.fixpoint.whole import Whole
from caladan.program import thresholds
from caladan.program.events import Listener, StrategyDeclined

TellRound: TypeAlias = Callable[[int, Tally, float], None]
"""Is told of a round: its number, how things stand, and the seconds it took."""


def has_shape(given: MeshInputs, events: Listener) -> bool:
    """Whether a clique is a closure, which is not gone through in rounds if it can be helped."""

    def declined(strategy: str, reason: str) -> None:
        events.tell(StrategyDeclined(given.clique.relations, strategy, reason))

    return Shaping(given.state, given.planner, events).closure(given.clique, declined) is not None


class GatheredClique:
    """All facts of a clique, in the heads of `members`; `done` rounds are done."""

    def __init__(
        self, given: MeshInputs, members: Mapping[str, Member], events: Listener, done: int
    ) -> None:
        self._given, self._members, self._limits = given, members, given.state.limits
        given.state.heads = {name: member.head for name, member in members.items()}
        self._whole = Whole(given.clique, given.state, given.planner, events, done)
        self.delta = 0
        """How many facts are new."""

    @property
    def is_shaped(self) -> bool:
        """Whether a shape has found everything."""
        return self._whole.strategy != ROUNDS

    def go_on(self, done: int, must_return: Callable[[], bool], tell: TellRound) -> int:
        """Go through all rounds that are left; how many there were.

        `must_return` tells whether the others are to be met before the next round.
        """
        if done:
            self._limits.rounds(done)

        def round_done(number: int, tally: Tally, seconds: float) -> None:
            tell(number, tally, seconds)
            self._limits.facts(tally.facts)
            self._limits.memory.add(tally.new, self._given.state.held)

        heads, is_over = self._given.state.heads, False
        try:
            exchange = _SoloExchange(self._whole, done, must_return)
            rounds = run(self._whole, exchange, self._limits, round_done) - done
            self.delta = self._whole.delta
            is_over = not self.delta
        finally:
            for name, member in self._members.items():
                member.head = heads[name]
            if is_over or self.is_shaped:
                self._whole.finish()
        return rounds

    def is_too_much(self) -> bool:
        """Whether so much is new that other tasks should have their share of it."""
        return self._whole.delta > thresholds.now.mesh_spread


class _SoloExchange(Alone):
    """The exchange of a task that goes on alone, until it has to come back to the others."""

    def __init__(self, share: Whole, done: int, must_return: Callable[[], bool]) -> None:
        super().__init__(share, done)
        self._must_return = must_return

    def round(self, work: RoundWork) -> Tally:
        """Do some work, and settle it."""
        tally = super().round(work)
        return replace(tally, goes_on=False) if tally.goes_on and self._must_return() else tally
