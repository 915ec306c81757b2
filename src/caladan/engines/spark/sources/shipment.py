"""Inputs on their way to the tasks.

A shipment is what a task needs in order to read a table: a few bytes travel with the work itself; a
file is mapped into the memory of every worker of a machine that can see it; else Spark broadcasts
the bytes, once to each executor. A table is shipped once, however many runs read it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

import pyarrow as pa

from caladan.data.schema import arrow_schema
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

    def close(self) -> None:
        """Let go of what the driver holds for it."""
        ...


@dataclass(frozen=True, slots=True)
class EmptyShipment:
    """A table without columns: all there is to know is how many facts it has."""

    rows: int

    def read(self) -> pa.Table:
        return pa.table({"": pa.nulls(self.rows)}).select([])

    def close(self) -> None:
        """There is nothing to let go of."""


@dataclass(frozen=True, slots=True)
class InlineShipment:
    """An Arrow stream."""

    stream: bytes

    def read(self) -> pa.Table:
        return pa.ipc.open_stream(self.stream).read_all()

    def close(self) -> None:
        """There is nothing to let go of."""


@dataclass(frozen=True, slots=True)
class MappedShipment:
    """An Arrow file on a disk that the driver and the workers share."""

    path: str

    def read(self) -> pa.Table:
        return pa.ipc.open_file(pa.memory_map(self.path)).read_all()

    def close(self) -> None:
        with suppress(OSError):
            Path(self.path).unlink()


@dataclass(frozen=True, slots=True)
class BroadcastShipment:
    """An Arrow stream that Spark broadcasts."""

    broadcast: Any

    def read(self) -> pa.Table:
        return pa.ipc.open_stream(self.broadcast.value).read_all()

    def close(self) -> None:
        self.broadcast.destroy()


def ship(table: SparkTable, workspace: Workspace) -> Shipment:
    """Bring a table to the tasks, unless it is there already."""
    if table.shipped is None:
        table.shipped = _shipped(table.arrow(), table.columns, workspace)
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
        return MappedShipment(path)
    return BroadcastShipment(workspace.session.sparkContext.broadcast(stream_of(facts)))


def stream_of(facts: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, facts.schema) as writer:
        writer.write_table(facts)
    return sink.getvalue().to_pybytes()
