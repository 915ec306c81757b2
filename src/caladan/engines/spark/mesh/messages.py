"""What a task tells: a peer in a round how it stands, with its batches, as bytes; the driver in the
end what was done here in all (`ShardEvents`).

    activity, new, facts, found, verdict, saving, sign, rounds, sections               8 bytes each
    for each section: slot, rows                                                       8 bytes each
    the arrays of every section, each filled up to a multiple of 8 bytes

Both sides know from a slot which arrays there are and how long, so nothing else is said. What
arrives is not copied: arrays lie in the message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol, TypeAlias, cast

import numpy as np

from caladan.engines.spark.mesh.shuffle import Codec, RowBatch, Slot, WireField
from caladan.program.events import (
    Event,
    Listener,
    MachineRan,
    RoundsGathered,
    RuleDone,
    RulePlanned,
    RuleSearched,
    RunsMet,
    StrategyDeclined,
)
from caladan.rules.support import Sign

_HEAD: Final = struct.Struct("<9q")
_SECTION: Final = struct.Struct("<qq")
_FILL: Final = bytes(8)


class Connections(Protocol):
    """Those of a task to its peers."""

    def exchange(self, messages: Sequence[Sequence[Any] | None]) -> list[bytearray | None]:
        """Send each peer its message and return theirs; the entry of this task is None."""
        ...


class Verdict(IntEnum):
    """Whether a task wants to go on."""

    GO_ON = 0
    STOP = 1  # a limit was reached, or the user has had enough
    FAILED = 2


class SaveRequest(IntEnum):
    """Whether a task wants all tasks to save how far they are."""

    NOT_NOW = 0
    NOW = 1
    CANNOT = 2


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """How a task stands: the rows it sends now, what it last found new, the facts it owns.

    `found` is how many solutions it has found so far, `sign` what its sums show, `rounds` how many
    it has done alone.
    """

    activity: int
    new: int
    facts: int
    found: int
    verdict: Verdict
    saving: SaveRequest = SaveRequest.NOT_NOW
    sign: Sign = Sign.NOTHING
    rounds: int = 0


def message(standing: TaskStatus, sections: Sequence[tuple[Slot, RowBatch]]) -> list[Any]:
    """The buffers of a message."""
    head = [_HEAD.pack(*_numbers(standing), len(sections))]
    head += [_SECTION.pack(slot.number, batch.rows) for slot, batch in sections]
    buffers: list[Any] = [b"".join(head)]
    for slot, batch in sections:
        buffers += buffers_of(slot.codecs, batch)
    return buffers


def buffers_of(codecs: Sequence[Codec], batch: RowBatch) -> Iterator[Any]:
    """The arrays of a batch, as bytes."""
    for codec, field in zip(codecs, batch.fields, strict=True):
        for array in codec.outward(field):
            if array.nbytes:
                yield memoryview(cast("Any", array)).cast("B")
                if array.nbytes % 8:
                    yield _FILL[array.nbytes % 8 :]


def _numbers(standing: TaskStatus) -> tuple[int, ...]:
    counts = (standing.activity, standing.new, standing.facts, standing.found)
    return *counts, standing.verdict, standing.saving, standing.sign, standing.rounds


def standing_of(data: bytearray) -> TaskStatus:
    """How the sender of a message stands."""
    activity, new, facts, found, verdict, saving, sign, rounds, _ = _HEAD.unpack_from(data)
    told = Verdict(verdict), SaveRequest(saving), Sign(sign)
    return TaskStatus(activity, new, facts, found, *told, rounds)


def batches_of(data: bytearray, slots: Sequence[Slot]) -> Iterator[tuple[Slot, RowBatch]]:
    """The batches of a message."""
    sections = _HEAD.unpack_from(data)[-1]
    take = ArrayReader(data, _HEAD.size + sections * _SECTION.size)
    for number in range(sections):
        slot_number, rows = _SECTION.unpack_from(data, _HEAD.size + number * _SECTION.size)
        slot = slots[slot_number]
        yield slot, RowBatch(rows, tuple(codec.inward(take, rows) for codec in slot.codecs))


class ArrayReader:
    """Takes one array after another out of what has come, without copying; `at` is the next."""

    def __init__(self, data: bytearray, at: int) -> None:
        self._data, self.at = data, at

    def __call__(self, dtype: Any, length: int) -> WireField:
        """An array of a type and length that are known."""
        if not length:
            return np.empty(0, dtype)
        array: WireField = np.frombuffer(self._data, dtype, length, self.at)
        self.at += array.nbytes + -array.nbytes % 8
        return array


def merge_sections(sections: Iterable[tuple[Slot, RowBatch]]) -> list[tuple[Slot, RowBatch]]:
    """Sections with those of one slot put together, in their order."""
    by_slot: dict[int, tuple[Slot, list[RowBatch]]] = {}
    for slot, batch in sections:
        by_slot.setdefault(slot.number, (slot, []))[1].append(batch)
    return [(slot, _join(batches)) for slot, batches in by_slot.values()]


def _join(batches: Sequence[RowBatch]) -> RowBatch:
    if len(batches) == 1:
        return batches[0]
    fields = tuple(
        np.concatenate(parts) for parts in zip(*(b.fields for b in batches), strict=True)
    )
    return RowBatch(sum(batch.rows for batch in batches), fields)


RuleKey: TypeAlias = tuple[int, str | None]
"""The number of a rule, and the relation whose new facts seed it."""
SolutionCounts: TypeAlias = Mapping[RuleKey, tuple[int, float]]
"""By rule, how many solutions were found, and in how many seconds."""


class ShardEvents(Listener):
    """What a task has to tell when it is done: of all rounds together."""

    def __init__(self) -> None:
        self.solutions: dict[RuleKey, tuple[int, float]] = {}
        self.found = 0
        self._proposed: dict[tuple[RuleKey, str], tuple[int, int]] = {}
        self._met: dict[RuleKey, tuple[int, int]] = {}
        self._planned: dict[tuple[RuleKey, tuple[str, ...]], RulePlanned] = {}
        self._declined: dict[StrategyDeclined, None] = {}
        self._machine = 0
        self.gathered = 0

    def add(self, rule: RuleKey, count: int, seconds: float) -> None:
        """Some more solutions of a rule."""
        so_far, before = self.solutions.get(rule, (0, 0.0))
        self.solutions[rule] = (so_far + count, before + seconds)

    def tell(self, event: Event) -> None:
        """Keep what an event says of a rule."""
        match event:
            case RuleDone():
                self.add((event.rule, event.seed), event.facts or 0, event.seconds)
                self.found += event.facts or 0
            case RulePlanned():
                self._planned[(event.rule, event.seed), tuple(event.steps)] = event
            case RuleSearched():
                key = (event.rule, event.seed), event.variable
                proposed, confirmed = self._proposed.get(key, (0, 0))
                self._proposed[key] = proposed + event.proposed, confirmed + event.confirmed
            case RunsMet():
                lookups, accumulated = self._met.get((event.rule, event.seed), (0, 0))
                met = lookups + event.lookups, accumulated + event.accumulated
                self._met[event.rule, event.seed] = met
            case StrategyDeclined():
                self._declined[event] = None
            case MachineRan():
                self._machine += event.rounds
            case _:
                pass

    def told(self, *, is_first: bool) -> Iterator[Event]:
        """All of it; what holds for all tasks the first one says."""
        yield from self._planned.values()
        yield from self._declined if is_first else ()
        if self.gathered:
            yield RoundsGathered(self.gathered)
        if self._machine:
            yield MachineRan(self._machine)
        for key, done in self.solutions.items():
            yield RuleDone(*key, *done)
        for (key, variable), counts in self._proposed.items():
            yield RuleSearched(*key, variable, *counts)
        for key, counts in self._met.items():
            yield RunsMet(*key, *counts)
