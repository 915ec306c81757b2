"""Inputs on their way to the tasks.

A shipment is what a task needs in order to read a table: a few bytes travel with the work itself; a
file is mapped into the memory of every worker of a machine that can see it; else Spark broadcasts
the bytes, once to each executor. Much that Spark holds, and what tasks have left in the staging
folder, does not come by the driver: executors write it there as Parquet, unless it is there, and
tasks read it. A table is shipped once, however many runs read it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import pyarrow as pa

from caladan.data.schema import arrow_schema
from caladan.engines.spark.columns.physical import stored_schema
from caladan.engines.spark.session.staging import drop, gather_files, open_filesystem, remove
from caladan.program import Column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from caladan.engines.spark.session.workspace import Workspace
    from caladan.engines.spark.sources.table import SparkTable

_FEW_BYTES: Final = 1 << 16
_MANY_BYTES: Final = 16 << 20
_STREAM_BYTES: Final = 4 << 20
_WORD: Final = 8  # bytes of a value


class Shipment(Protocol):
    """Facts where tasks can read them; pickled with the work."""

    def read(self) -> pa.Table:
        """The facts, in the Arrow types of their columns; for tasks."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """The files that tasks read."""
        ...

    def close(self) -> None:
        """Let go of what the driver holds for it."""
        ...


class _Unstored:
    """Facts that need no room but their own."""

    __slots__ = ()

    files: tuple[str, ...] = ()

    def close(self) -> None:
        """There is nothing to let go of."""


@dataclass(frozen=True, slots=True)
class EmptyShipment(_Unstored):
    """A table without columns: all there is to know is how many facts it has."""

    rows: int

    def read(self) -> pa.Table:
        return pa.table({"": pa.nulls(self.rows)}).select([])


@dataclass(frozen=True, slots=True)
class InlineShipment(_Unstored):
    """An Arrow stream."""

    stream: bytes

    def read(self) -> pa.Table:
        return pa.ipc.open_stream(self.stream).read_all()


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class MappedShipment:
    """An Arrow file on a disk that the driver and the workers share."""

    path: str

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def read(self) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(self.path)).read_all()

    def close(self) -> None:
        remove(self.files)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class StagedShipment:
    """Parquet files of facts in columns c0 …, in the staging folder; `own` if made for this."""

    files: tuple[str, ...]
    columns: tuple[Column, ...]
    own: bool

    def read(self) -> pa.Table:
        from pyarrow.parquet import ParquetFile

        fields = stored_schema(self.columns)
        tables: list[pa.Table] = [pa.Table.from_batches([], schema=fields)]
        for uri in self.files:
            system, path = open_filesystem(uri)
            with system.open_input_file(path) as file:
                tables.append(cast("Any", ParquetFile(file).read()).cast(fields))
        return declare_columns(pa.concat_tables(tables), self.columns)

    def close(self) -> None:
        if self.own:
            remove(self.files)


@dataclass(frozen=True, slots=True)
class BroadcastShipment:
    """An Arrow stream that Spark broadcasts."""

    broadcast: Any

    @property
    def files(self) -> tuple[str, ...]:
        return ()

    def read(self) -> pa.Table:
        return pa.ipc.open_stream(self.broadcast.value).read_all()

    def close(self) -> None:
        self.broadcast.destroy()


@dataclass(frozen=True, slots=True)
class ShipmentSlice(_Unstored):
    """One of `count` slices of another shipment, whose storage is not its own."""

    of: Shipment
    number: int
    count: int

    def read(self) -> pa.Table:
        facts = self.of.read()
        begin, end = (facts.num_rows * n // self.count for n in (self.number, self.number + 1))
        return facts.slice(begin, end - begin)


@dataclass(frozen=True, slots=True)
class ReceivedShipment(_Unstored):
    """Facts in the columns of the engine's frames that came to a task as rows of one."""

    facts: pa.Table
    columns: tuple[Column, ...]

    def read(self) -> pa.Table:
        return declare_columns(self.facts, self.columns)


def ship(table: SparkTable, workspace: Workspace) -> Shipment:
    """Bring a table to the tasks, unless it is there already."""
    if table.shipped is None:
        workspace.check()  # all this takes time, which may be over
        if workspace.staging.folder is not None and _is_elsewhere(table):
            table.shipped = _stage(table, workspace)
        else:
            facts = table.arrow() if table.held is None else table.held.given
            workspace.check()
            table.shipped = _ship(facts, table.columns, workspace)
        workspace.check()
    return table.shipped


def pieces_of(table: SparkTable, workspace: Workspace) -> list[Shipment]:
    """A table in pieces, for tasks to read one each: as many as run at once, or its files.

    Facts of this process that no folder brings to tasks go with them, not to all as a broadcast.
    """
    is_near = workspace.staging.is_on_every_disk or table.shipped is not None
    if table.held is not None and table.columns and not is_near:
        facts = cast("Any", table.held.given).cast(arrow_schema(table.columns))
        count = max(workspace.parallelism, facts.nbytes // _STREAM_BYTES + 1)
        ends = [facts.num_rows * n // count for n in range(count + 1)]
        pairs = [(begin, end) for begin, end in pairwise(ends) if end > begin]
        return [InlineShipment(stream_of(facts.slice(b, e - b))) for b, e in pairs]
    shipped = ship(table, workspace)
    if isinstance(shipped, StagedShipment):
        return [StagedShipment((file,), shipped.columns, own=False) for file in shipped.files]
    count = workspace.parallelism
    return [ShipmentSlice(shipped, number, count) for number in range(count)]


def _is_elsewhere(table: SparkTable) -> bool:
    """Whether a table is not in this process, and too large to be worth a collect."""
    if table.held is not None or not table.columns:
        return False
    return bool(table.fact_files) or table.size * len(table.columns) * _WORD > _MANY_BYTES


def _stage(table: SparkTable, workspace: Workspace) -> StagedShipment:
    """What executors have of a table, where tasks can read it; the driver sees names of files."""
    if files := table.fact_files:
        return StagedShipment(files, table.columns, own=False)
    uri = workspace.staging.file("input", "parquet")
    table.frame.write.parquet(uri)
    shipment = StagedShipment(gather_files(uri), table.columns, own=True)
    weakref.finalize(shipment, drop, shipment.files).atexit = False
    return shipment


def _ship(facts: pa.Table, columns: tuple[Column, ...], workspace: Workspace) -> Shipment:
    if not columns:
        return EmptyShipment(facts.num_rows)
    facts = cast("Any", facts).cast(arrow_schema(columns))
    if cast("Any", facts).nbytes <= _FEW_BYTES:
        return InlineShipment(stream_of(facts))
    staging = workspace.staging
    if staging.is_on_every_disk:
        path = staging.file("input", "arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, facts.schema) as writer:
            writer.write_table(facts)
        shipment = MappedShipment(path)
        weakref.finalize(shipment, drop, shipment.files).atexit = False
        return shipment
    return BroadcastShipment(workspace.session.sparkContext.broadcast(stream_of(facts)))


def declare_columns(facts: pa.Table, columns: tuple[Column, ...]) -> pa.Table:
    """Facts in the columns of the engine's frames, as those that were declared."""
    wanted = arrow_schema(columns)
    return cast("Any", facts).rename_columns(wanted.names).cast(wanted)


def stream_of(facts: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, facts.schema) as writer:
        writer.write_table(facts)
    return sink.getvalue().to_pybytes()


def in_streams(session: Any, facts: pa.Table) -> DataFrame:
    """A frame of Arrow streams of facts, where there is no folder that tasks see: Spark Connect.

    A server takes far longer to make rows of what it is sent than tasks to read a stream.
    """
    rows = max(_STREAM_BYTES * facts.num_rows // max(cast("Any", facts).nbytes, 1), 1)
    parts = [stream_of(facts.slice(i, rows)) for i in range(0, facts.num_rows, rows)]
    return session.createDataFrame(pa.table({"stream": pa.array(parts, pa.binary())}))


def unpacker() -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that makes rows of a column of streams; a server without us can run it."""

    def rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for stream in batch.column("stream"):
                yield from pa.ipc.open_stream(stream.as_buffer())

    return rows
