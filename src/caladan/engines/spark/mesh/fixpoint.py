"""The rounds that all tasks go through together.

In a round a task evaluates, sends one message to every peer, and takes in one from every peer. All
see the same sums, so all come to the same conclusion: the end is reached when nobody sent
anything. Limits are looked at in the same way, and a task that failed says so instead of dying: a
death would be taken for an accident, and the whole job would be tried again. Between two rounds
values may be split that make one task busier than others (balance.py).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from caladan.engines.spark.mesh.balance import Balance
from caladan.engines.spark.mesh.messages import (
    Exchange,
    Saving,
    Standing,
    Verdict,
    batches_of,
    merged,
    message,
    standing_of,
)
from caladan.engines.spark.mesh.shard import Shard
from caladan.engines.spark.mesh.shuffle import Batch, Slot
from caladan.program.diagnostics import CaladanError
from caladan.rules.growth import Growth, Sign

if TYPE_CHECKING:
    from caladan.engines.spark.mesh.recovery import Recovery

Going = list[list[tuple[Slot, Batch]]]


class Enough(Exception):
    """Raised within a round that is to end early."""

    def __init__(self, verdict: Verdict) -> None:
        super().__init__(verdict.name)
        self.verdict = verdict


@dataclass(frozen=True, slots=True)
class Bounds:
    """Where the tasks must stop."""

    max_rounds: int | None = None
    max_facts: int | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """A round as one task saw it; sums of all tasks, but the times are its own."""

    number: int
    new: int
    facts: int
    evaluating: float
    exchanging: float


@dataclass(slots=True)
class Ending:
    """How the rounds ended: `reached` names a limit; a failure is of this task.

    `growth` is for how many rounds sums have been growing.
    """

    rounds: int
    facts: int
    reached: str | None = None
    failure: CaladanError | None = None
    failed_elsewhere: bool = False
    growth: int = 0


def rounds(
    part: Shard,
    exchange: Exchange,
    bounds: Bounds,
    tell: Callable[[Round], None] = lambda _: None,
    *,
    local: bool = False,
    keeper: Recovery | None = None,
    split: Callable[[], None] = lambda: None,
) -> Ending:
    """Go through the rounds. With `local`, a task goes on alone while it can before it sends.

    With a keeper, they begin where tasks have been before, if they have, and are saved now and
    then. `split` is called when other values are split than at the start.
    """
    number = facts = 0
    # Other copies hear of a value one round after its owner has it.
    growth = Growth(None if local else part.totals, steps=2)
    work = part.start
    if keeper is not None and (saved := keeper.resume(part, exchange, bounds)) is not None:
        number, work = saved, part.step
        if part.heavy:
            split()
    balance = Balance(part, exchange, lambda: _beat(part))
    while True:
        started = time.perf_counter()
        verdict, failure = Verdict.GO_ON, None
        going: Going = [[] for _ in range(part.tasks)]
        try:
            part.check()
            going = work()
            if local:
                going = _alone(part, going)
        except Enough as enough:
            verdict = enough.verdict
        except CaladanError as problem:
            verdict, failure = Verdict.FAILED, problem
        evaluated = time.perf_counter()
        saving = Saving.NOT_NOW if keeper is None else keeper.saving
        counts = (part.activity, part.new, part.facts, part.found)
        sign = growth.look(part.values()) if growth.is_suspect else Sign.NOTHING
        standing = Standing(*counts, verdict, saving, sign)
        came, standings = _exchanged(exchange, standing, going)
        exchanged = time.perf_counter()
        facts = sum(each.facts for each in standings)
        worst = max(each.verdict for each in standings)
        if number:
            new = sum(each.new for each in standings)
            tell(Round(number, new, facts, evaluated - started, exchanged - evaluated))
        if worst is Verdict.FAILED:
            return Ending(number, facts, None, failure, failure is None)
        if worst is not Verdict.GO_ON:
            return Ending(number, facts, worst.name)
        if bounds.max_facts is not None and facts > bounds.max_facts:
            return Ending(number, facts, "max_facts")
        if not any(each.activity for each in standings):
            return Ending(number, facts)
        growth.count(facts)
        if number and bounds.max_rounds is not None and number >= bounds.max_rounds:
            return Ending(number, facts, "max_rounds")
        try:
            part.take(batch for data in came for batch in batches_of(data, part.slots))
        except CaladanError as problem:
            failure = problem
        if failure is None and _never_settles(growth, standings):
            return Ending(number, facts, "growing", growth=growth.rounds)
        number += 1
        if balance.is_due(standings) and balance.look(failed=failure is not None):
            growth = Growth(None if local else part.totals, steps=2)  # groups have moved
            split()
        if keeper is not None and failure is None:
            keeper.keep(part, number, [each.saving for each in standings])
        work = part.step if failure is None else _raising(failure)


def _never_settles(growth: Growth, standings: Sequence[Standing]) -> bool:
    """Whether sums grow for ever; all tasks come to the same conclusion."""
    if not growth.is_suspect or not any(each.new for each in standings):
        return False
    return growth.is_sure or bool(reduce(and_, (each.sign for each in standings), Sign.BOTH))


def _raising(failure: CaladanError) -> Callable[[], Going]:
    def fail() -> Going:
        raise failure

    return fail


def _exchanged(
    exchange: Exchange, standing: Standing, going: Going
) -> tuple[list[bytearray], list[Standing]]:
    came = exchange.exchange([message(standing, merged(sections)) for sections in going])
    standings = [standing if each is None else standing_of(each) for each in came]
    return [each for each in came if each is not None], standings


def _beat(part: Shard) -> None:
    """Tell peers that this task is alive; that it is to stop, the next round will find."""
    with suppress(Enough):
        part.check()


def _alone(part: Shard, going: Going) -> Going:
    """Go on with what this task derived for itself; all that is to be sent in the end."""
    activity = part.activity
    while part.keeps_some:
        part.take(())
        for sections, more in zip(going, part.step(), strict=True):
            sections += more
        activity += part.activity
    part.activity = activity
    return going
