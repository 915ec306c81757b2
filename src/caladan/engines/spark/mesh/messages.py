"""What a task tells a peer in a round: how it stands, and its batches, as bytes.

    activity, new, facts, found, verdict, saving, sign, sections                       8 bytes each
    for each section: slot, rows                                                       8 bytes each
    the arrays of every section, each filled up to a multiple of 8 bytes

Both sides know from a slot which arrays there are and how long, so nothing else is said. What
arrives is not copied: arrays lie in the message.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol, cast

import numpy as np

from caladan.engines.spark.mesh.shuffle import Batch, Codec, Field, Slot
from caladan.rules.growth import Sign

_HEAD: Final = struct.Struct("<qqqqqqqq")
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


class Saving(IntEnum):
    """Whether a task wants all tasks to save how far they are."""

    NOT_NOW = 0
    NOW = 1
    CANNOT = 2


@dataclass(frozen=True, slots=True)
class Standing:
    """How a task stands: the rows it sends now, what it last found new, the facts it owns.

    `found` is how many solutions it has found so far, `sign` what its sums show.
    """

    activity: int
    new: int
    facts: int
    found: int
    verdict: Verdict
    saving: Saving = Saving.NOT_NOW
    sign: Sign = Sign.NOTHING


def message(standing: Standing, sections: Sequence[tuple[Slot, Batch]]) -> list[Any]:
    """The buffers of a message."""
    head = [_HEAD.pack(*_numbers(standing), len(sections))]
    head += [_SECTION.pack(slot.number, batch.rows) for slot, batch in sections]
    buffers: list[Any] = [b"".join(head)]
    for slot, batch in sections:
        buffers += buffers_of(slot.codecs, batch)
    return buffers


def buffers_of(codecs: Sequence[Codec], batch: Batch) -> Iterator[Any]:
    """The arrays of a batch, as bytes."""
    for codec, field in zip(codecs, batch.fields, strict=True):
        for array in codec.outward(field):
            if array.nbytes:
                yield memoryview(cast("Any", array)).cast("B")
                if array.nbytes % 8:
                    yield _FILL[array.nbytes % 8 :]


def _numbers(standing: Standing) -> tuple[int, ...]:
    counts = (standing.activity, standing.new, standing.facts, standing.found)
    return *counts, standing.verdict, standing.saving, standing.sign


def standing_of(data: bytearray) -> Standing:
    """How the sender of a message stands."""
    activity, new, facts, found, verdict, saving, sign, _ = _HEAD.unpack_from(data)
    return Standing(activity, new, facts, found, Verdict(verdict), Saving(saving), Sign(sign))


def batches_of(data: bytearray, slots: Sequence[Slot]) -> Iterator[tuple[Slot, Batch]]:
    """The batches of a message."""
    sections = _HEAD.unpack_from(data)[-1]
    take = Taking(data, _HEAD.size + sections * _SECTION.size)
    for number in range(sections):
        slot_number, rows = _SECTION.unpack_from(data, _HEAD.size + number * _SECTION.size)
        slot = slots[slot_number]
        yield slot, Batch(rows, tuple(codec.inward(take, rows) for codec in slot.codecs))


class Taking:
    """Takes one array after another out of what has come, without copying; `at` is the next."""

    def __init__(self, data: bytearray, at: int) -> None:
        self._data, self.at = data, at

    def __call__(self, dtype: Any, length: int) -> Field:
        """An array of a type and length that are known."""
        if not length:
            return np.empty(0, dtype)
        array: Field = np.frombuffer(self._data, dtype, length, self.at)
        self.at += array.nbytes + -array.nbytes % 8
        return array


def merged(sections: Iterable[tuple[Slot, Batch]]) -> list[tuple[Slot, Batch]]:
    """Sections with those of one slot put together, in their order."""
    by_slot: dict[int, tuple[Slot, list[Batch]]] = {}
    for slot, batch in sections:
        by_slot.setdefault(slot.number, (slot, []))[1].append(batch)
    return [(slot, _joined(batches)) for slot, batches in by_slot.values()]


def _joined(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    fields = tuple(
        np.concatenate(parts) for parts in zip(*(b.fields for b in batches), strict=True)
    )
    return Batch(sum(batch.rows for batch in batches), fields)
