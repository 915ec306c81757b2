"""Values that become heavy while tasks work: found, agreed on and split between two rounds.

All tasks see the same sums, so all know when it is time to look: when a round may become large, and
looking so often takes a small part of what is done. Each then estimates what it has to
do in the coming round, and tells the others how much that is and which values make a large part of
it (expected.py); facts with a value that is not split are in one task, so that one knows. If it
pays, everything is placed anew (moving.py).

It pays if the busiest task has more to do beyond the mean than it costs to move all facts. What it
had to do beyond the mean since the last move counts too: a hub that does a little harm in every
round is split once the harm is as large as the cost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from caladan.columns.layout import Words
from caladan.engines.spark.mesh.expected import Work, expected, meetings_of
from caladan.engines.spark.mesh.members import Slots
from caladan.engines.spark.mesh.messages import (
    Exchange,
    Standing,
    Verdict,
    batches_of,
    message,
    standing_of,
)
from caladan.engines.spark.mesh.part import Part
from caladan.engines.spark.mesh.slots import AsIs, Batch, Everywhere, codec

_LOOKING: Final = 1 << 11  # rows and solutions that are worth a look at one rule
_CREDIT: Final = 16  # looks that can be saved up


class Balance:
    """Keeps the tasks of a clique equally busy; `beat` is called while that takes long."""

    def __init__(self, part: Part, exchange: Exchange, beat: Callable[[], None]) -> None:
        self._part, self._exchange, self._beat = part, exchange, beat
        self._meetings = list(meetings_of(part.placed))
        self._found = [0] * part.tasks
        self._excess = 0
        self._credit: float = _CREDIT

    def is_due(self, standings: Sequence[Standing]) -> bool:
        """Whether it is time to look; `standings` are those of all tasks, in their order."""
        splitting, tasks = self._part.splitting, self._part.tasks
        found = [each.found for each in standings]
        last = [now - before for now, before in zip(found, self._found, strict=True)]
        self._found = found
        self._excess += max(last) - sum(last) // tasks
        if not splitting.share or tasks == 1 or not self._meetings:
            return False
        rows = sum(each.activity for each in standings)
        facts = sum(each.facts for each in standings)
        price = _LOOKING * (2 + len(self._meetings))
        self._credit = min(self._credit + (sum(last) + rows) / price, _CREDIT)
        can_be_much = rows * max(facts, rows) >= splitting.least
        return (can_be_much and self._credit >= 1) or self._excess >= self._cost(facts)

    def look(self, *, failed: bool) -> bool:
        """Look together with all tasks, and split what should be; whether anything was.

        A task that has failed has nothing to say, and then nothing is split.
        """
        part = self._part
        self._credit = max(self._credit - 1, 0)
        domains = [domain for _, domain in part.given.domains()]
        offered: dict[int, tuple[Words, Work]] = {}
        total = 0
        if not failed:
            offered, total = self._offered()
        found: dict[int, list[Batch]] = {number: [] for number in range(len(domains))}
        slots = Slots()
        for number, domain in enumerate(domains):
            slots.made((codec(domain), AsIs(np.int64)), Everywhere(), found[number].append)
        told = [
            (slots[number], Batch(len(offered[id(domain)][0]), offered[id(domain)]))
            for number, domain in enumerate(domains)
            if id(domain) in offered
        ]
        verdict = Verdict.FAILED if failed else Verdict.GO_ON
        mine = Standing(total, part.new, part.facts, part.found, verdict)
        came = self._exchange.exchange([message(mine, told)] * part.tasks)
        standings = [mine if each is None else standing_of(each) for each in came]
        if any(each.verdict is Verdict.FAILED for each in standings):
            return False
        for slot, batch in told:
            slot.receive(batch)
        for data in came:
            for slot, batch in batches_of(data, slots) if data is not None else ():
                slot.receive(batch)
        by_domain = {id(domain): found[number] for number, domain in enumerate(domains)}
        return self._decided(standings, by_domain)

    def _decided(self, standings: Sequence[Standing], found: dict[int, list[Batch]]) -> bool:
        part = self._part
        work = [each.activity for each in standings]
        excess = self._excess + max(work) - sum(work) // part.tasks
        if excess < self._cost(sum(each.facts for each in standings)):
            return False
        self._excess = 0
        least = max(part.splitting.share * sum(work) / part.tasks, 1)
        heavy: dict[int, Words] = {}
        for domain, batches in found.items():
            words = [batch.fields[0][batch.fields[1] >= least] for batch in batches]
            if sum(map(len, words)):
                heavy[domain] = np.concatenate(words)
        if not heavy:
            return False
        part.split(part.placed.heavy.plus(heavy), self._exchange, self._beat)
        self._meetings = list(meetings_of(part.placed))
        return True

    def _offered(self) -> tuple[dict[int, tuple[Words, Work]], int]:
        """By domain the values that may be heavy, with their work; the work of all values."""
        part = self._part
        by_domain: dict[int, list[tuple[Words, Work]]] = {}
        for meeting in self._meetings:
            by_domain.setdefault(id(meeting.domain), []).append(expected(meeting))
            self._beat()
        total = sum(int(work.sum()) for parts in by_domain.values() for _, work in parts)
        least = max(part.splitting.share * total / part.tasks, 1)  # of this task alone
        offered: dict[int, tuple[Words, Work]] = {}
        for domain, parts in by_domain.items():
            values, places = np.unique(np.concatenate([v for v, _ in parts]), return_inverse=True)
            work: Work = np.zeros(len(values), np.int64)
            np.add.at(work, places, np.concatenate([w for _, w in parts]))
            split = part.placed.heavy.by_domain.get(domain)
            large = work >= least
            if split is not None:
                large &= ~np.isin(values, split)
            if large.any():
                offered[domain] = (values[large], work[large])
        return offered, total

    def _cost(self, facts: int) -> float:
        """What placing all facts anew costs each task, in solutions."""
        splitting = self._part.splitting
        return max(splitting.least, splitting.moving * facts / self._part.tasks)
