"""A task with Spark Connect: there are no RDDs there, but `mapInArrow` runs functions of ours.

One task evaluates everything, as *single* does elsewhere. Few facts travel with the function; what
the server holds becomes rows of Arrow streams, and all of them go into one partition. The task
answers with such rows, too: how it went, and few facts, are fetched at once; many stay with the
server until somebody reads them; and what is derived sooner than written is derived again.

There is no line to such a task: events come with its answer, and it keeps its limits by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa
from pyspark.errors import PySparkException

from caladan.data.schema import arrow_schema
from caladan.engines.interface import EngineStopped
from caladan.engines.spark.columns.physical import physical_schema
from caladan.engines.spark.columns.types import schema
from caladan.engines.spark.session.connect import checkpointed
from caladan.engines.spark.session.workspace import HELD, union
from caladan.engines.spark.sources.shipment import (
    EmptyShipment,
    InlineShipment,
    Shipment,
    stream_of,
)
from caladan.engines.spark.sources.table import SparkTable, held
from caladan.engines.spark.strategy import CannotServe, Context
from caladan.engines.spark.tasks.job import lost
from caladan.engines.spark.tasks.relay import OF_THE_DRIVER, heard, unpacked
from caladan.engines.spark.tasks.strategies import Single
from caladan.engines.spark.tasks.work import Retention, Work
from caladan.program import Column
from caladan.program.diagnostics import CaladanError
from caladan.program.events import Event, Listener, sendable, to_plain
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram, needed_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Batches: TypeAlias = Iterable[pa.RecordBatch]
Mapped: TypeAlias = Callable[[Batches], Iterator[pa.RecordBatch]]

_ROWS: Final = "number int, stream binary"
_NONE: Final = -1  # the number of a row that has nothing to say
_TOLD: Final = -1  # that of the row that says how it went; below are relations with few facts
_FEW_BYTES: Final = 1 << 20  # of a relation that travels with the function


def single(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate all cliques of a program in one task."""
    work, names, source = _sent(program, store, context)
    if work.options.timeout is not None:
        context.stopping.ask = lambda: None  # it looks at the clock itself: give it a while
    answer = checkpointed(source.mapInArrow(evaluator(work, names), _ROWS), HELD)
    try:
        rows: Any = cast("Any", answer).where(f"number <= {_TOLD}").toArrow()
    except PySparkException as problem:
        raise lost(problem) from None
    finally:
        context.stopping.ask = None
    streams: dict[int, list[bytes]] = {}
    for row in rows.to_pylist():
        streams.setdefault(row["number"], []).append(row["stream"])
    told = json.loads(streams[_TOLD][0])
    events = Single(context.events)
    for event in heard(told):
        events.tell(event)
    if told["status"] in ("failed", "cannot"):
        diagnostics = unpacked(told["diagnostics"], program)
        if told["status"] == "cannot":
            raise CannotServe(diagnostics[0].message)
        raise CaladanError(*diagnostics)
    found: dict[str, SparkTable] = {}
    for number, (name, count, is_kept) in enumerate(told["outputs"]):
        columns = program.relations[name].columns
        few = streams.get(_TOLD - 1 - number, [])
        if not columns:
            nothing = pa.table({"": pa.nulls(count)}).select([])
            found[name] = held((), nothing, context.workspace)
        elif few or not count:
            found[name] = held(columns, received(few, columns), context.workspace)
        else:
            again = replace(work, program=needed_by(program, name), options=Options())
            reader = unpacker(number) if is_kept else lister(again, names, name)
            frame = _reading(answer if is_kept else source, reader, columns)
            found[name] = SparkTable(columns, frame, count=count)
    if told["status"] == "stopped":
        raise EngineStopped(unpacked(told["diagnostics"], program)[0], found)
    return found


def _sent(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> tuple[Work, tuple[str, ...], DataFrame]:
    """The work, the rows that its task is given, and which relations those are of, by number."""
    session = context.workspace.session
    inputs: dict[str, Shipment] = {}
    names: list[str] = []
    none = f"{_NONE} AS number", "CAST(NULL AS BINARY) AS stream"
    frames: list[DataFrame] = [session.range(0, 1, 1, 1).selectExpr(*none)]
    for name, table in store.items():
        context.workspace.check()
        if not table.columns:
            inputs[name] = EmptyShipment(table.count())
        elif table.held is not None and cast("Any", table.held.given).nbytes <= _FEW_BYTES:
            facts = cast("Any", table.held.given).cast(arrow_schema(table.columns))
            inputs[name] = InlineShipment(stream_of(facts))
        else:
            frames.append(cast("Any", table.frame).mapInArrow(packer(len(names)), _ROWS))
            names.append(name)
    work = Work(program, inputs, context.limits(), Retention(None))
    return work, tuple(names), union(frames).coalesce(1)


def _reading(
    frame: DataFrame, reader: Mapped, columns: tuple[Column, ...]
) -> Callable[[], DataFrame]:
    return lambda: cast("Any", frame).mapInArrow(reader, schema(columns))


# ── What the server runs ─────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ReceivedShipment:
    """Facts of a relation that came to a task as rows."""

    streams: Sequence[bytes]
    columns: tuple[Column, ...]
    files: tuple[str, ...] = ()

    def read(self) -> pa.Table:
        return received(self.streams, self.columns)

    def lend(self) -> None:
        """They are the task's own."""

    def close(self) -> None:
        """They are the task's own."""


class Collected(Listener):
    """Keeps what a task tells."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(self, event: Event) -> None:
        if not isinstance(event, OF_THE_DRIVER):
            self.events.append(event)


def received(streams: Sequence[bytes], columns: tuple[Column, ...]) -> pa.Table:
    """The facts in some streams of an engine's frame, in the Arrow types of the columns."""
    fields = physical_schema(columns)
    tables: list[pa.Table] = [pa.Table.from_batches([], schema=fields)]
    tables += [cast("Any", pa.ipc.open_stream(each).read_all()).cast(fields) for each in streams]
    wanted = arrow_schema(columns)
    whole: Any = pa.concat_tables(tables)
    return whole.rename_columns(wanted.names).cast(wanted)


def packed_row(number: int, stream: bytes) -> pa.RecordBatch:
    """A row of Arrow streams."""
    return pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int32()), pa.array([stream], pa.binary())], ["number", "stream"]
    )


def packer(number: int) -> Mapped:
    """The function that makes rows of streams of a frame's rows."""

    def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield packed_row(number, stream_of(pa.Table.from_batches([batch])))

    return rows


def unpacker(number: int) -> Mapped:
    """The function that makes a frame's rows of those rows of streams that have a number."""

    def facts(batches: Batches) -> Iterator[pa.RecordBatch]:
        for row in (row for batch in batches for row in batch.to_pylist()):
            if row["number"] == number:
                yield from pa.ipc.open_stream(row["stream"])

    return facts


def evaluator(work: Work, names: tuple[str, ...]) -> Mapped:
    """The function that evaluates a program, whose data comes in rows of streams."""

    def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        from caladan.engines.spark.tasks.output import batches as blocks, is_slow, is_small
        from caladan.engines.spark.tasks.task import evaluation

        events = Collected()
        found = evaluation(supplied(work, names, batches), 0, events)
        is_final, outputs = found.status == "done", list[tuple[str, int, bool]]()
        for number, (name, table) in enumerate(found.tables.items()):
            is_few = is_small(table, work.keeping)
            is_kept = not is_final or is_slow(table, work.keeping, found.seconds)
            outputs.append((name, table.count(), is_kept))
            if table.columns and table.count() and (is_few or is_kept):
                place = _TOLD - 1 - number if is_few else number
                for block in blocks(table):
                    yield packed_row(place, stream_of(pa.Table.from_batches([block])))
        told = {
            "status": found.status,
            "outputs": outputs,
            "diagnostics": found.diagnostics,
            "events": [to_plain(event) for event in events.events],
        }
        yield packed_row(_TOLD, json.dumps(told, default=sendable).encode())

    return rows


def lister(work: Work, names: tuple[str, ...], relation: str) -> Mapped:
    """The function that derives a relation again."""

    def facts(batches: Batches) -> Iterator[pa.RecordBatch]:
        from caladan.engines.spark.tasks.task import listed

        yield from listed(supplied(work, names, batches), relation, 0, 1)

    return facts


def supplied(work: Work, names: tuple[str, ...], batches: Batches) -> Work:
    """The work with the data that came in rows of streams."""
    streams: dict[str, list[bytes]] = {name: [] for name in names}
    for row in (row for batch in batches for row in batch.to_pylist()):
        if row["number"] != _NONE:
            streams[names[row["number"]]].append(row["stream"])
    relations = work.program.relations
    rows = {
        n: ReceivedShipment(s, relations[n].columns) for n, s in streams.items() if n in relations
    }
    inputs = {n: s for n, s in {**work.inputs, **rows}.items() if n in relations}
    return replace(work, inputs=inputs)
