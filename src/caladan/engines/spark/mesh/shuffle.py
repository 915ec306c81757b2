"""What travels between tasks: batches of facts, and which task each row of them goes to.

Tasks encode the same inputs in the same way, so words of closed domains mean the same everywhere
and travel as they are; facts whose columns are all closed travel as packed keys. A domain that
grows gives words in its own order in every task; of those the values travel: ranks, or
texts as Arrow writes them.

A `Slot` is a kind of batch, numbered alike in all tasks: candidates for a relation, what a rule
contributes to groups, or new facts for a copy. Its `spread` says where rows go.

Where the facts of a copy go: by a hash of some columns, but for those with heavy values.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from caladan.columns.domains import Domain, TextDomain
from caladan.columns.kernels import packs
from caladan.columns.layout import Keys, Mask, Packing, Words
from caladan.columns.ranks import CODED
from caladan.engines.spark.mesh.placement import ColumnPlaces, Heavy

WireField: TypeAlias = NDArray[Any]

_ALL_BITS: Final = 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Some rows, as columns."""

    rows: int
    fields: tuple[WireField, ...]


class Codec(Protocol):
    """How a field of a batch travels."""

    def outward(self, field: WireField) -> list[WireField]:
        """The arrays to send."""
        ...

    def inward(self, take: Callable[[Any, int], WireField], rows: int) -> WireField:
        """The field, from arrays that `take(type, length)` gives one after another."""
        ...

    def values(self, field: WireField) -> Keys:
        """64 bits for each row that are the same in every task, to be hashed."""
        ...


@dataclass(frozen=True, slots=True)
class AsIs:
    """Numbers that mean the same in every task."""

    dtype: Any

    def outward(self, field: WireField) -> list[WireField]:
        return [np.ascontiguousarray(field, self.dtype)]

    def inward(self, take: Callable[[Any, int], WireField], rows: int) -> WireField:
        return take(self.dtype, rows)

    def values(self, field: WireField) -> Keys:
        return field.astype(np.uint64)


@dataclass(frozen=True, slots=True)
class RankCodec:
    """Words of a domain that grows: their ranks travel."""

    domain: Domain

    def outward(self, field: WireField) -> list[WireField]:
        return [self.domain.ranks(field)]

    def inward(self, take: Callable[[Any, int], WireField], rows: int) -> WireField:
        return self.domain.words(take(np.int64, rows))

    def values(self, field: WireField) -> Keys:
        return self.domain.ranks(field).view(np.uint64)


@dataclass(frozen=True, slots=True)
class TextCodec:
    """Words of values that rules compute: each different value travels once in a batch."""

    domain: TextDomain

    def outward(self, field: WireField) -> list[WireField]:
        different, places = np.unique(field, return_inverse=True)
        written = np.frombuffer(stream_of(self._values(different)), np.uint8)
        return [np.array([len(written)], np.int64), written, places.astype(np.uint32)]

    def inward(self, take: Callable[[Any, int], WireField], rows: int) -> WireField:
        written = take(np.uint8, int(take(np.int64, 1)[0]))
        with pa.ipc.open_stream(pa.py_buffer(written.tobytes())) as reader:
            values = reader.read_all().column(0).combine_chunks()
        return self.domain.take_column(values)[take(np.uint32, rows)]

    def values(self, field: WireField) -> Keys:
        different, places = np.unique(field, return_inverse=True)
        hashes = [zlib.crc32(_bytes_of(value)) for value in self._values(different).to_pylist()]
        return np.array(hashes, np.uint64)[places]

    def _values(self, words: Words) -> pa.Array:
        return self.domain.arrow(words, CODED[self.domain.kind])


def stream_of(values: pa.Array) -> bytes:
    """A column as Arrow's stream has it: the same bytes for the same values."""
    sink: Any = pa.BufferOutputStream()
    table = pa.table({"values": values})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _bytes_of(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def codec(domain: Domain) -> Codec:
    """How the words of a domain travel."""
    if isinstance(domain, TextDomain):
        return TextCodec(domain)
    return RankCodec(domain) if domain.grows else AsIs(np.uint32)


class Route(Protocol):
    """Where the rows of a batch go."""

    def split(self, batch: RowBatch, tasks: int) -> list[RowBatch | None]:
        """For each task its rows, None if it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Everywhere:
    """To every task."""

    def split(self, batch: RowBatch, tasks: int) -> list[RowBatch | None]:
        return [batch] * tasks


@dataclass(frozen=True, slots=True)
class Nowhere:
    """To no task."""

    def split(self, batch: RowBatch, tasks: int) -> list[RowBatch | None]:
        return [None] * tasks


@dataclass(frozen=True, slots=True)
class ToFirst:
    """To the first task."""

    def split(self, batch: RowBatch, tasks: int) -> list[RowBatch | None]:
        return [batch, *[None] * (tasks - 1)]


@dataclass(frozen=True, slots=True)
class ByKey:
    """By a hash of some bits of packed keys, the one field of the batch."""

    shift: int
    mask: int

    def split(self, batch: RowBatch, tasks: int) -> list[RowBatch | None]:
        (keys,) = batch.fields
        owners, counts = _owners(keys, self.shift, self.mask, tasks)
        ends = np.cumsum(counts)
        out: Keys = np.empty(len(keys), np.uint64)
        packs.scatter(keys, owners, ends - counts, out)
        return [
            RowBatch(count, (out[end - count : end],)) if count else None
            for count, end in zip(counts.tolist(), ends.tolist(), strict=True)
        ]


@dataclass(frozen=True, slots=True)
class ByValues:
    """By a hash of the values of some fields."""

    fields: tuple[tuple[int, Codec], ...]

    def split(self, batch: RowBatch, tasks: int) -> list[RowBatch | None]:
        owners, counts = _owners(self._hashes(batch), 0, _ALL_BITS, tasks)
        order = np.argsort(owners, kind="stable")
        parts: list[RowBatch | None] = []
        start = 0
        for count in counts.tolist():
            rows = order[start : start + count]
            start += count
            fields = tuple(field[rows] for field in batch.fields)
            parts.append(RowBatch(count, fields) if count else None)
        return parts

    def _hashes(self, batch: RowBatch) -> Keys:
        values = [codec.values(batch.fields[i]) for i, codec in self.fields]
        if len(values) == 1:
            return values[0]  # as `ByKey` hashes one column
        hashes: Keys = np.zeros(batch.rows, np.uint64)
        for each in values:
            packs.mix_in(hashes, each)
        return hashes


def _owners(keys: Keys, shift: int, mask: int, tasks: int) -> tuple[Any, Any]:
    owners = np.empty(len(keys), np.uint16)
    counts = np.zeros(tasks, np.int64)
    packs.owners(keys, shift, mask, tasks, owners, counts)
    return owners, counts


def key_spread(packing: Packing, by: Sequence[int] | None) -> Route:
    """How packed keys are spread by some of their columns."""
    if by is None:
        return Everywhere()
    if not by:
        return ToFirst()
    if len(by) == 1:
        return ByKey(packing.shifts[by[0]], packing.masks[by[0]])
    assert len(by) == packing.arity, "keys are spread by one column or by all"
    return ByKey(0, _ALL_BITS)


def field_spread(codecs: Sequence[Codec], by: Sequence[int] | None) -> Route:
    """How a batch is spread by some of its fields."""
    if by is None:
        return Everywhere()
    return ByValues(tuple((i, codecs[i]) for i in by)) if by else ToFirst()


@dataclass(frozen=True, slots=True)
class Slot:
    """A kind of batch: how its fields travel, where its rows go, who takes them in."""

    number: int
    codecs: tuple[Codec, ...]
    spread: Route
    receive: Callable[[RowBatch], None]


class Slots(list[Slot]):
    """The slots of a clique, numbered in the order in which they are made."""

    def made(
        self, codecs: Sequence[Codec], spread: Route, receive: Callable[[RowBatch], None]
    ) -> Slot:
        """One more slot."""
        self.append(Slot(len(self), tuple(codecs), spread, receive))
        return self[-1]


@dataclass(frozen=True, slots=True)
class SkewRoute:
    """Rows with heavy values one way, all others another."""

    is_heavy: Callable[[RowBatch], Mask]
    heavy: Route
    light: Route

    def split(self, batch: RowBatch, tasks: int) -> list[RowBatch | None]:
        mask = self.is_heavy(batch)
        if not mask.any():
            return self.light.split(batch, tasks)
        heavy = self.heavy.split(_take(batch, mask), tasks)
        if mask.all():
            return heavy
        light = self.light.split(_take(batch, ~mask), tasks)
        return [_both(one, other) for one, other in zip(heavy, light, strict=True)]


def key_copy(
    packing: Packing, by: ColumnPlaces | None, heavy: Heavy, values: Words | None
) -> Route:
    """How packed keys are spread as a copy by some columns, with these heavy values."""
    light = key_spread(packing, by)
    if heavy is Heavy.TOGETHER or not by or values is None:
        return light

    def is_heavy(batch: RowBatch) -> Mask:
        return np.isin(packing.column(batch.fields[0], by[0]), values)

    return _split(is_heavy, key_spread(packing, range(packing.arity)), light, heavy)


def field_copy(
    codecs: Sequence[Codec],
    by: ColumnPlaces | None,
    whole: ColumnPlaces,
    heavy: Heavy,
    values: Words | None,
) -> Route:
    """How batches are spread by some of their fields; `whole` are all that facts are known by."""
    light = field_spread(codecs, by)
    if heavy is Heavy.TOGETHER or not by or values is None:
        return light

    def is_heavy(batch: RowBatch) -> Mask:
        return np.isin(batch.fields[by[0]], values)

    return _split(is_heavy, field_spread(codecs, whole), light, heavy)


def _split(
    is_heavy: Callable[[RowBatch], Mask], whole: Route, light: Route, heavy: Heavy
) -> SkewRoute:
    return SkewRoute(
        is_heavy,
        whole if heavy is Heavy.SPREAD else Everywhere(),
        Nowhere() if heavy is Heavy.ALONE else light,
    )


def _take(batch: RowBatch, mask: Mask) -> RowBatch:
    return RowBatch(int(mask.sum()), tuple(field[mask] for field in batch.fields))


def _both(one: RowBatch | None, other: RowBatch | None) -> RowBatch | None:
    if one is None or other is None:
        return one or other
    fields = zip(one.fields, other.fields, strict=True)
    return RowBatch(one.rows + other.rows, tuple(np.concatenate(pair) for pair in fields))
