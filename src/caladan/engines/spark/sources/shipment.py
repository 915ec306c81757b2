"""Inputs on their way to the tasks.

A shipment is what a task needs in order to read a table: a few bytes travel with the work itself; a
file is mapped into the memory of every worker of a machine that can see it; else Spark broadcasts
the bytes, once to each executor. A table is shipped once, however many runs read it.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import pyarrow as pa

from caladan.data.schema import arrow_schema
from caladan.engines.spark.session.staging import drop, remove
from caladan.program import Column

if TYPE_CHECKING:
    from caladan.engines.spark.session.workspace import Workspace
    from caladan.engines.spark.sources.table import SparkTable

_FEW_BYTES: Final = 1 << 16


class Shipment(Protocol):
    """Facts where tasks can read them; pickled with the work."""

    def read(self) -> pa.Table:
        """The facts, in the Arrow types of their columns; for tasks."""
        ...

    @property
    def files(self) -> tuple[str, ...]:
        """The files that tasks read."""
        ...

    def lend(self) -> None:
        """Leave it to Spark to let go of what it holds: somebody outside may read it."""
        ...

    def close(self) -> None:
        """Let go of what the driver holds for it."""
        ...


class _Unstored:
    """Facts that need no room but their own."""

    __slots__ = ()

    files: tuple[str, ...] = ()

    def lend(self) -> None:
        """There is nothing to leave."""

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

    def lend(self) -> None:
        """Whoever reads the file is known."""

    def close(self) -> None:
        remove(self.files)


@dataclass(slots=True)
class BroadcastShipment:
    """An Arrow stream that Spark broadcasts, and forgets once no plan has it."""

    broadcast: Any
    is_lent: bool = False

    @property
    def files(self) -> tuple[str, ...]:
        return ()

    def read(self) -> pa.Table:
        return pa.ipc.open_stream(self.broadcast.value).read_all()

    def lend(self) -> None:
        self.is_lent = True

    def close(self) -> None:
        if not self.is_lent:
            self.broadcast.destroy()


def ship(table: SparkTable, workspace: Workspace) -> Shipment:
    """Bring a table to the tasks, unless it is there already."""
    if table.shipped is None:
        workspace.check()  # all this takes time, which may be over
        facts = table.arrow()
        workspace.check()
        table.shipped = _shipped(facts, table.columns, workspace)
        workspace.check()
    return table.shipped


def _shipped(facts: pa.Table, columns: tuple[Column, ...], workspace: Workspace) -> Shipment:
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


def stream_of(facts: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, facts.schema) as writer:
        writer.write_table(facts)
    return sink.getvalue().to_pybytes()
