"""The exchange of tasks that have connections to each other: what happens between two rounds.

In a round a task evaluates, sends one message to every peer, and takes in one from every peer. All
see the same sums, so all come to the same conclusion: the end is reached when nobody sent
anything. Limits are looked at in the same way, and a task that failed says so instead of dying: a
death would be taken for an accident, and the whole job would be tried again. Between two rounds
values may be split that make one task busier than others (balance.py), all facts may be gathered in
one task or spread again, and what tasks have may be saved (recovery.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from caladan.engines.spark.mesh.balance import Balance
from caladan.engines.spark.mesh.messages import (
    Connections,
    SaveRequest,
    TaskStatus,
    Verdict,
    batches_of,
    merge_sections,
    message,
    standing_of,
)
from caladan.engines.spark.mesh.shard import Shard
from caladan.fixpoint.exchange import RoundWork, Tally
from caladan.program import thresholds
from caladan.program.diagnostics import CaladanError
from caladan.rules.failures import LimitReached
from caladan.rules.support import Sign

if TYPE_CHECKING:
    from caladan.engines.spark.mesh.recovery import Recovery


class FailedElsewhere(Exception):
    """Another task has failed, and says why."""


class MeshExchange:
    """The exchange of a shard with its peers.

    With a keeper, rounds begin where tasks have been before, if they have, and are saved now and
    then. `split` is called when other values are split than at the start.
    """

    lag = 1

    def __init__(
        self,
        shard: Shard,
        connections: Connections,
        keeper: Recovery | None = None,
        split: Callable[[], None] = lambda: None,
    ) -> None:
        self.peers, self.index = shard.tasks, shard.me
        self._shard, self._connections, self._keeper = shard, connections, keeper
        self._split = split
        self._failure: CaladanError | None = None
        self._small = 0  # rounds in a row with little to do
        self._patience = thresholds.now.mesh_small_rounds
        if keeper is not None:
            shard.pauses = lambda: keeper.saving is SaveRequest.NOW

    def begin(self) -> int:
        """How many rounds are done already: those that were saved, if they were."""
        if self._keeper is not None:
            saved = self._keeper.resume(self._shard, self._connections)
            if saved is not None:
                self._shard.done = saved
                if self._shard.heavy:
                    self._split()
        self._balance = Balance(self._shard, self._connections, self._beat)
        return self._shard.done

    def round(self, work: RoundWork) -> Tally:
        """Do some work, send what comes of it, and take in what has come."""
        shard = self._shard
        verdict = self._attempt(work)
        came, standings = self._exchanged(shard.standing(verdict, self._saving))
        facts, new = (sum(each.facts for each in standings), sum(each.new for each in standings))
        worst = max(each.verdict for each in standings)
        if worst is not Verdict.GO_ON and self._failure is not None:
            raise self._failure
        if worst is Verdict.FAILED:
            raise FailedElsewhere
        rows = 0 if worst is Verdict.STOP else sum(each.activity for each in standings)
        shard.limits.facts(facts)
        rounds = max(each.rounds for each in standings) if shard.is_gathered else 1
        if rows:
            if not shard.is_gathered:
                shard.limits.rounds(shard.done)
                self._take(came)
            shard.done += rounds
            if self._balance.is_due(standings) and self._look():
                self._split()
            elif self._is_misplaced(rows, facts):
                self._place()
            if self._keeper is not None and self._failure is None:
                self._keeper.keep(shard, shard.done, [each.saving for each in standings])
            shard.growth.count(facts)
        elif shard.is_gathered:
            rounds += self.lag
        sign = reduce(and_, (each.sign for each in standings), Sign.BOTH)
        return Tally(new, facts, rows > 0, rounds, sign if new else Sign.NOTHING)

    def _is_misplaced(self, rows: int, facts: int) -> bool:
        """Whether one task has too much to do, or all so little that one is quicker alone."""
        shard, chosen = self._shard, thresholds.now
        if shard.is_gathered:
            return self.peers > 1 and rows > chosen.mesh_spread
        self._small = self._small + 1 if rows < chosen.small else 0
        enough = max(self._patience, facts // chosen.mesh_facts_a_round)
        return self._small >= enough and facts <= chosen.mesh_gathered and not shard.local

    def _place(self) -> None:
        """Gather all in the first task, or spread it again; if a task has failed, the end is near.

        What was too much for one task at once may well be so again.
        """
        verdict, shard = self._verdict, self._shard
        _, standings = self._exchanged(TaskStatus(0, shard.new, shard.facts, 0, verdict))
        self._small = 0
        if all(each.verdict is Verdict.GO_ON for each in standings):
            if not shard.is_gathered:  # the next message of what was new comes from one alone
                self._patience *= 2
                new, facts = sum(s.new for s in standings), sum(s.facts for s in standings)
                shard.tell(shard.done, Tally(new, facts, goes_on=True), 0.0)
            heavy, gathers = shard.placed.heavy, not shard.is_gathered
            shard.place(heavy, self._connections, self._beat, is_gathered=gathers)
            self._balance.placed()

    def _attempt(self, work: RoundWork) -> Verdict:
        shard = self._shard
        try:
            if self._failure is None:
                shard.limits.seconds()
                work()
        except MemoryError:
            self._failure = shard.limits.out_of_memory()
        except CaladanError as problem:
            self._failure = problem
        return self._verdict

    @property
    def _verdict(self) -> Verdict:
        if self._failure is None:
            return Verdict.GO_ON
        return Verdict.STOP if isinstance(self._failure, LimitReached) else Verdict.FAILED

    @property
    def _saving(self) -> SaveRequest:
        return SaveRequest.NOT_NOW if self._keeper is None else self._keeper.saving

    def _exchanged(self, standing: TaskStatus) -> tuple[list[bytearray], list[TaskStatus]]:
        going = self._shard.going()
        messages = [message(standing, merge_sections(sections)) for sections in going]
        came = self._connections.exchange(messages)
        standings = [standing if each is None else standing_of(each) for each in came]
        return [each for each in came if each is not None], standings

    def _take(self, came: Sequence[bytearray]) -> None:
        """Take in what has come; a failure is told in the next round."""
        shard = self._shard
        try:
            shard.take(batch for data in came for batch in batches_of(data, shard.slots))
        except CaladanError as problem:
            self._failure = problem

    def _look(self) -> bool:
        return self._balance.look(failed=self._failure is not None)

    def _beat(self) -> None:
        """Tell peers that this task is alive; that it is to stop, the next round will find."""
        with suppress(LimitReached):
            self._shard.limits.seconds()
