"""Inputs of which tasks have a share: through Spark's shuffle, from where they are to their task.

    pieces of arc ─► read where Spark places them ─► cut (shard.py, cells.py) ─► shuffle ─► a task

A piece is a shipment: some rows of a file, a few megabytes of Arrow. A task of the first stage
reads its pieces and sends each task its share of them, as Arrow streams; a task of the second
evaluates. The driver sees neither, and Spark tries each again like any task of its own.

What a task needs of a relation as a whole is shipped as ever (sources/shipment.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from caladan.engines.spark.sources.shipment import Shipment, stream_of

if TYPE_CHECKING:
    from caladan.engines.spark.tasks.cells import ByCell, CellColumn, Samples
    from caladan.engines.spark.tasks.shard import ByPivot

Piece: TypeAlias = tuple[str, Shipment]
"""The name of a relation, and some of its facts."""

Pieces: TypeAlias = "Mapping[str, Sequence[Shipment]]"

Sent: TypeAlias = tuple[int, tuple[str, bytes]]
"""The task, the name of the share, and facts as an Arrow stream."""

SAMPLED: Final = 50_000
"""Facts of a relation that are looked at for heavy values."""


def sent(cut: ByPivot | ByCell, pieces: Iterable[Piece]) -> Iterator[Sent]:
    """The function that Spark maps over pieces: what each task gets of them."""
    for name, shipment in pieces:
        for part, share, facts in cut.spread(name, shipment.read()):
            yield part, (share, stream_of(facts))


def receive(came: Iterable[Sent]) -> dict[str, pa.Table]:
    """What a task gets, by the names of its shares."""
    found: dict[str, list[pa.Table]] = {}
    for _, (share, stream) in came:
        found.setdefault(share, []).append(pa.ipc.open_stream(stream).read_all())
    return {share: pa.concat_tables(tables) for share, tables in found.items()}


def looked_at(
    columns: Collection[CellColumn], steps: Mapping[str, int], pieces: Iterable[Piece]
) -> Iterator[tuple[CellColumn, bytes]]:
    """The function that Spark maps over pieces before that: samples of columns."""
    from caladan.engines.spark.tasks.cells import sample_column

    for name, shipment in pieces:
        wanted = [column for of, column in columns if of == name]
        facts = shipment.read() if wanted else None
        for column in wanted:
            assert facts is not None
            yield (name, column), sample_column(facts, column, steps[name]).tobytes()


def samples(found: Iterable[tuple[CellColumn, bytes]], steps: Mapping[str, int]) -> Samples:
    """Samples of columns, of all pieces."""
    from caladan.engines.spark.tasks.cells import HashSample

    by_column: dict[Any, list[Any]] = {}
    for column, data in found:
        by_column.setdefault(column, []).append(np.frombuffer(data, np.uint64))
    return {c: HashSample(np.concatenate(parts), steps[c[0]]) for c, parts in by_column.items()}
