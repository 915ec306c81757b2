"""Events: what a run tells while it goes. Progress and stats only listen.

An engine calls the methods of an `Events`; whoever wants to know overrides some of them. Several
listeners are joined by `Several`. The engine never waits for a listener's answer, but a listener
may raise to end the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Events:
    """A listener that ignores everything: the base of those that do not."""

    def run_started(self, engine: str, cliques: int) -> None:
        """A run begins; it has so many cliques to evaluate."""

    def data_read(self, relation: str, facts: int, seconds: float) -> None:
        """The data of a relation was brought in."""

    def clique_started(self, relations: Sequence[str], recursive: bool, strategy: str) -> None:
        """A clique begins."""

    def strategy_declined(self, relations: Sequence[str], strategy: str, reason: str) -> None:
        """A strategy cannot evaluate a clique, or need not; another is tried.

        Told before the clique starts, or while it goes.
        """

    def clique_taken(self, relations: Sequence[str], strategy: str, layouts: Sequence[str]) -> None:
        """A strategy has evaluated the current clique; how each of its relations is held now."""

    def machine_ran(self, rounds: int) -> None:
        """So many rounds of the current clique were tiny, and done one fact at a time."""

    def rule_planned(self, rule: int, seed: str | None, steps: Sequence[str]) -> None:
        """The steps that a rule goes through from now on."""

    def rule_done(self, rule: int, seed: str | None, facts: int | None, seconds: float) -> None:
        """A rule was evaluated; `facts` are those it derived, None where nobody counted."""

    def rule_searched(
        self, rule: int, seed: str | None, variable: str, proposed: int, confirmed: int
    ) -> None:
        """The guided search of a rule made proposals for a variable, and confirmed some."""

    def rule_skipped(self, rule: int, seed: str | None) -> None:
        """A guard kept a rule from being evaluated."""

    def round_done(self, number: int, new: int, total: int, seconds: float) -> None:
        """A round of the current clique is over; it found so many new facts."""

    def split(self, values: int, shown: Sequence[str]) -> None:
        """So many values are too frequent for one task, some of them `shown`; all share them.

        Told again when there are more.
        """

    def resumed(self, number: int) -> None:
        """The current clique goes on at a round that was saved by an earlier attempt or run."""

    def checkpoint_lost(self, reason: str) -> None:
        """What was saved of the current clique is of no use, or nothing can be saved."""

    def clique_done(
        self, relations: Sequence[str], rounds: int, facts: int, seconds: float
    ) -> None:
        """A clique is finished."""

    def shuffled(self, size: int) -> None:
        """So many bytes went from one task to another."""

    def relation_held(
        self,
        relation: str,
        facts: int,
        nbytes: int,
        spilled: int,
        layout: str,
        arrangements: Sequence[Sequence[str]],
    ) -> None:
        """At the end: how many facts a relation has, its bytes in memory, and those on disk.

        `arrangements` are the column orders that were made of it.
        """

    def run_done(self, seconds: float) -> None:
        """The run is over."""


def plain(value: Any) -> Any:
    """A number of NumPy's as one of Python's, an array as a list; all else as it is.

    Kernels count in NumPy's numbers. They become plain here, on the way to listeners and onto a
    line between processes, and nowhere else.
    """
    return value.tolist() if hasattr(value, "dtype") else value


def sendable(value: Any) -> Any:
    """What JSON holds for a value that it does not know (`json.dumps(…, default=sendable)`).

    What is no number becomes text: whoever tells how a run goes does not end it by that.
    """
    return plain(value) if hasattr(value, "dtype") else str(value)


class Several(Events):
    """Passes every event on to several listeners, with numbers that are Python's own."""

    def __init__(self, *listeners: Events) -> None:
        self._listeners = listeners

    def _tell(self, event: str, *told: object) -> None:
        numbers = [plain(each) for each in told]
        for each in self._listeners:
            getattr(each, event)(*numbers)

    def run_started(self, engine: str, cliques: int) -> None:
        self._tell("run_started", engine, cliques)

    def data_read(self, relation: str, facts: int, seconds: float) -> None:
        self._tell("data_read", relation, facts, seconds)

    def clique_started(self, relations: Sequence[str], recursive: bool, strategy: str) -> None:
        self._tell("clique_started", relations, recursive, strategy)

    def strategy_declined(self, relations: Sequence[str], strategy: str, reason: str) -> None:
        self._tell("strategy_declined", relations, strategy, reason)

    def clique_taken(self, relations: Sequence[str], strategy: str, layouts: Sequence[str]) -> None:
        self._tell("clique_taken", relations, strategy, layouts)

    def machine_ran(self, rounds: int) -> None:
        self._tell("machine_ran", rounds)

    def rule_planned(self, rule: int, seed: str | None, steps: Sequence[str]) -> None:
        self._tell("rule_planned", rule, seed, steps)

    def rule_done(self, rule: int, seed: str | None, facts: int | None, seconds: float) -> None:
        self._tell("rule_done", rule, seed, facts, seconds)

    def rule_searched(
        self, rule: int, seed: str | None, variable: str, proposed: int, confirmed: int
    ) -> None:
        self._tell("rule_searched", rule, seed, variable, proposed, confirmed)

    def rule_skipped(self, rule: int, seed: str | None) -> None:
        self._tell("rule_skipped", rule, seed)

    def round_done(self, number: int, new: int, total: int, seconds: float) -> None:
        self._tell("round_done", number, new, total, seconds)

    def split(self, values: int, shown: Sequence[str]) -> None:
        self._tell("split", values, shown)

    def resumed(self, number: int) -> None:
        self._tell("resumed", number)

    def checkpoint_lost(self, reason: str) -> None:
        self._tell("checkpoint_lost", reason)

    def clique_done(
        self, relations: Sequence[str], rounds: int, facts: int, seconds: float
    ) -> None:
        self._tell("clique_done", relations, rounds, facts, seconds)

    def shuffled(self, size: int) -> None:
        self._tell("shuffled", size)

    def relation_held(
        self,
        relation: str,
        facts: int,
        nbytes: int,
        spilled: int,
        layout: str,
        arrangements: Sequence[Sequence[str]],
    ) -> None:
        self._tell("relation_held", relation, facts, nbytes, spilled, layout, arrangements)

    def run_done(self, seconds: float) -> None:
        self._tell("run_done", seconds)
