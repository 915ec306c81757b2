"""Values that become heavy while tasks work: found, agreed on and split between two rounds.

All tasks see the same sums, so all know when it is time to look: when a round may become large, and
looking so often takes a small part of what is done. Each then estimates what it has to
do in the coming round, and tells the others how much that is and which values make a large part of
it (`estimate_work`); facts with a value that is not split are in one task, so that one knows. If it
pays, everything is placed anew (`moved` in rules.py).

It pays if the busiest task has more to do beyond the mean than it costs to move all facts. What it
had to do beyond the mean since the last move counts too: a hub that does a little harm in every
round is split once the harm is as large as the cost.

What a task has to do in the coming round, and with which values: an estimate.

Where atoms of a rule meet in a variable, each new fact of one of them finds all facts of the others
that have its value. Where facts with one value are owned by one task, each new one is a start. Only
some of the new facts are looked at, since looking must not take as long as evaluating.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from caladan.columns.domains import Domain
from caladan.columns.layout import Words
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh.messages import (
    Connections,
    TaskStatus,
    Verdict,
    batches_of,
    message,
    standing_of,
)
from caladan.engines.spark.mesh.rules import ShardRules
from caladan.engines.spark.mesh.shard import Shard
from caladan.engines.spark.mesh.shuffle import AsIs, Everywhere, RowBatch, Slots, codec
from caladan.rules.body import Version

_FEW: Final = 1 << 12  # new facts that are all looked at
_SPARSE: Final = 16  # of more, one in so many
_MANY: Final = 1 << 16  # facts that are looked at, at most
_MOST: Final = 1e15  # so that sums of all tasks are exact

Work = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class JoinEstimate:
    """New facts by a column of their copy, and the copies by whose columns they meet others."""

    column: int
    domain: Domain
    seed: StoredRelation
    met: tuple[tuple[StoredRelation, int], ...]


def meetings_of(placed: ShardRules) -> Iterator[JoinEstimate]:
    """Where rules do things by single values that can be split, delta rule by delta rule."""
    given = placed.given
    for rule in given.recursive:
        seed: tuple[str, int, StoredRelation] | None = None
        met: list[tuple[StoredRelation, int]] = []
        can_be_split = False
        for scan in rule.recursive:
            name, copy = scan.relation, placed.placement.read(rule, scan)
            if copy.by is None or len(copy.by) != 1:
                continue  # in every task, in one, or spread evenly
            can_be_split |= copy.by != given.own[name].group
            relation = placed.members[name].reading(copy)
            if scan.version is Version.DELTA:
                seed = (name, copy.by[0], relation)
            else:
                met.append((relation, copy.by[0]))
        if seed is not None and can_be_split:
            name, column, relation = seed
            yield JoinEstimate(column, given.classes.column(name, column), relation, tuple(met))


def estimate_work(meeting: JoinEstimate) -> tuple[Words, Work]:
    """Values of new facts, and about how much there is to do with each."""
    rows = meeting.seed.delta_count()
    step = max(min(rows // _FEW, _SPARSE), rows // _MANY) | 1  # odd: patterns tend to be even
    values, work = _count_sample(meeting.seed, Version.DELTA, meeting.column, step)
    for relation, column in meeting.met if len(values) else ():
        work = work * _matches(relation, column, values)
    return values, np.minimum(work, _MOST).astype(np.int64)


def _count_sample(
    relation: StoredRelation, version: Version, column: int, step: int
) -> tuple[Words, NDArray[np.float64]]:
    """The values of a column and how often they occur, by every so manieth fact."""
    index = relation.index((), version)
    parts = [index.column(hits[::step].copy(), column) for hits in relation.scan(version)]
    sample = np.concatenate(parts) if parts else np.empty(0, np.uint32)
    values, counts = np.unique(sample, return_counts=True)
    return values, counts.astype(np.float64) * step


def _matches(relation: StoredRelation, column: int, values: Words) -> NDArray[Any]:
    """How many facts have each of some values in a column."""
    if relation.has_order((column,)):
        index = relation.index((column,), Version.NEW)
        return index.find(*index.key({column: values}, len(values))).counts()
    # An order of columns that no rule asks for is not worth its memory.
    known, counts = _count_sample(relation, Version.NEW, column, relation.count() // _MANY | 1)
    if not len(known):
        return np.zeros(len(values))
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[at] == values, counts[at], 0.0)


_LOOKING: Final = 1 << 11  # rows and solutions that are worth a look at one rule
_CREDIT: Final = 16  # looks that can be saved up


class Balance:
    """Keeps the tasks of a clique equally busy; `beat` is called while that takes long."""

    def __init__(self, part: Shard, exchange: Connections, beat: Callable[[], None]) -> None:
        self._part, self._exchange, self._beat = part, exchange, beat
        self.placed()
        self._found = [0] * part.tasks
        self._excess = 0
        self._credit: float = _CREDIT

    def placed(self) -> None:
        """All is placed anew."""
        self._meetings = list(meetings_of(self._part.placed))

    def is_due(self, standings: Sequence[TaskStatus]) -> bool:
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
        offered: dict[Domain, tuple[Words, Work]] = {}
        total = 0
        if not failed:
            offered, total = self._offered()
        found: dict[int, list[RowBatch]] = {number: [] for number in range(len(domains))}
        slots = Slots()
        for number, domain in enumerate(domains):
            slots.made((codec(domain), AsIs(np.int64)), Everywhere(), found[number].append)
        told = [
            (slots[number], RowBatch(len(offered[domain][0]), offered[domain]))
            for number, domain in enumerate(domains)
            if domain in offered
        ]
        verdict = Verdict.FAILED if failed else Verdict.GO_ON
        mine = TaskStatus(total, part.new, part.facts, part.events.found, verdict)
        came = self._exchange.exchange([message(mine, told)] * part.tasks)
        standings = [mine if each is None else standing_of(each) for each in came]
        if any(each.verdict is Verdict.FAILED for each in standings):
            return False
        for slot, batch in told:
            slot.receive(batch)
        for data in came:
            for slot, batch in batches_of(data, slots) if data is not None else ():
                slot.receive(batch)
        by_domain = {domain: found[number] for number, domain in enumerate(domains)}
        return self._decided(standings, by_domain)

    def _decided(
        self, standings: Sequence[TaskStatus], found: dict[Domain, list[RowBatch]]
    ) -> bool:
        part = self._part
        work = [each.activity for each in standings]
        excess = self._excess + max(work) - sum(work) // part.tasks
        if excess < self._cost(sum(each.facts for each in standings)):
            return False
        self._excess = 0
        least = max(part.splitting.share * sum(work) / part.tasks, 1)
        heavy: dict[Domain, Words] = {}
        for domain, batches in found.items():
            words = [batch.fields[0][batch.fields[1] >= least] for batch in batches]
            if sum(map(len, words)):
                heavy[domain] = np.concatenate(words)
        if not heavy:
            return False
        part.place(part.placed.heavy.plus(heavy), self._exchange, self._beat)
        self.placed()
        return True

    def _offered(self) -> tuple[dict[Domain, tuple[Words, Work]], int]:
        """By domain the values that may be heavy, with their work; the work of all values."""
        part = self._part
        by_domain: dict[Domain, list[tuple[Words, Work]]] = {}
        for meeting in self._meetings:
            by_domain.setdefault(meeting.domain, []).append(estimate_work(meeting))
            self._beat()
        total = sum(int(work.sum()) for parts in by_domain.values() for _, work in parts)
        least = max(part.splitting.share * total / part.tasks, 1)  # of this task alone
        offered: dict[Domain, tuple[Words, Work]] = {}
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
