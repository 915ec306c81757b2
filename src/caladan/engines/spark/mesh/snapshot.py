"""What a part of a clique is made of, taken out and put back: the way a checkpoint sees it.

A `SnapshotSection` is one kind of thing that a part keeps: the old facts of a copy, its new ones,
the groups of a relation, what their sums are made of. Parts of the same clique have the same
sections in the same order. What lies on them travels like what tasks send each other (shuffle.py):
closed words as they are, values that rules computed as values. So it can be put into another
process, which numbers such values differently.

    16 bytes for each batch: the number of its shelf, its rows; then its arrays, each filled up to a
    multiple of 8 bytes. At the end a number of -1.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from caladan.columns.groups import GroupRelation
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh.messages import ArrayReader, buffers_of
from caladan.engines.spark.mesh.shuffle import AsIs, Codec, RowBatch
from caladan.program import thresholds
from caladan.rules.body import Version

_BATCH: Final = struct.Struct("<qq")
_END: Final = -1


@dataclass(frozen=True, slots=True)
class SnapshotSection:
    """Something to be saved: how it travels, what there is, and who takes it back.

    `take` gets one batch after another, in arrays that lie in what was read; `done` is called after
    the last, also if there was none.
    """

    codecs: tuple[Codec, ...]
    given: Callable[[], Iterable[RowBatch]]
    take: Callable[[RowBatch], None]
    done: Callable[[], object] = lambda: None


def write_snapshot(shelves: Iterable[SnapshotSection]) -> Iterator[Any]:
    """What lies on the shelves, as buffers."""
    for number, shelf in enumerate(shelves):
        for batch in shelf.given():
            yield _BATCH.pack(number, batch.rows)
            yield from buffers_of(shelf.codecs, batch)
    yield _BATCH.pack(_END, 0)


def restore_snapshot(shelves: Sequence[SnapshotSection], data: bytearray, at: int) -> int:
    """Put what was written back on the shelves of a part that has not started; where it ends."""
    take = ArrayReader(data, at)
    current = 0
    while True:
        number, rows = (int(n) for n in take(np.int64, 2))
        while current < (len(shelves) if number == _END else number):
            shelves[current].done()
            current += 1
        if number == _END:
            return take.at
        codecs = shelves[number].codecs
        shelves[number].take(RowBatch(rows, tuple(each.inward(take, rows) for each in codecs)))


# ── Shelves for what relations are made of ───────────────────────────────────────────────────────


def facts(
    relation: StoredRelation, codecs: Sequence[Codec], *, keyed: bool
) -> list[SnapshotSection]:
    """The old facts of a relation, then the new ones; `keyed` if they travel as packed keys."""

    def old() -> None:
        relation.flip()
        relation.commit()

    def take(batch: RowBatch) -> None:
        add(relation, batch, keyed=keyed)

    return [
        SnapshotSection(
            tuple(codecs), lambda: batches(relation, Version.OLD, keyed=keyed), take, old
        ),
        SnapshotSection(
            tuple(codecs),
            lambda: batches(relation, Version.DELTA, keyed=keyed),
            take,
            relation.flip,
        ),
    ]


def batches(relation: StoredRelation, version: Version, *, keyed: bool) -> Iterator[RowBatch]:
    """The facts of a version; as packed keys, run by run, if they travel so."""
    body = relation.body
    if keyed and isinstance(body, PackedRelation):
        for run in body.index((), version).runs:
            yield RowBatch(len(run), (run.keys,))
        return
    index = relation.index((), version)
    for hits in relation.scan(version):
        columns = tuple(index.column(hits, c) for c in range(relation.arity))
        yield RowBatch(len(hits), columns)


def add(relation: StoredRelation, batch: RowBatch, *, keyed: bool) -> None:
    """Facts of a batch that are perhaps new."""
    if not keyed:
        relation.add(batch.fields, batch.rows)
        return
    body = relation.packed()
    assert body is not None
    # What is taken in gets sorted in place; a message, or a part of a larger array, is not ours.
    body.add_keys(np.array(batch.fields[0]))


def groups(
    relation: StoredRelation, codecs: Sequence[Codec], restore: Callable[[RowBatch], None]
) -> list[SnapshotSection]:
    """Groups with their values, in the order of their numbers; then which of them are new."""
    body = relation.body
    assert isinstance(body, GroupRelation)

    def rows() -> Iterator[RowBatch]:
        start, size = 0, thresholds.now.block
        for block in body.blocks(size):
            count = min(size, body.count() - start)
            start += count
            yield RowBatch(count, block)

    def changed() -> Iterator[RowBatch]:
        yield RowBatch(body.delta_count(), (body.changed_rows,))

    return [
        SnapshotSection(tuple(codecs), rows, restore),
        SnapshotSection(
            (AsIs(np.int64),), changed, lambda batch: body.change(np.array(batch.fields[0]), {})
        ),
    ]
