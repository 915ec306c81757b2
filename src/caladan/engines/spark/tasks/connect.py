"""A task with Spark Connect: there are no RDDs there, but `mapInArrow` runs functions of ours.

One task evaluates everything, as *single* does elsewhere. Few facts travel with the function, more
of this process as rows that are Arrow streams each; what the server holds goes to the task as it
is, all relations in one partition. The task answers with rows of streams: how it went, and few
facts, are fetched at once; many stay with the server until somebody reads them; and what is derived
sooner than written is derived again.

There is no line to such a task: events come with its answer, and it keeps its limits by itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast
from weakref import WeakKeyDictionary

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from caladan.data.schema import arrow_schema, compute
from caladan.engines.interface import EngineStopped
from caladan.engines.spark.choice import SMALL, partitions
from caladan.engines.spark.columns.physical import (
    arrow_table,
    names as column_names,
    physical_schema,
    shown,
    slots,
)
from caladan.engines.spark.columns.types import fill_slots, schema
from caladan.engines.spark.session.connect import checkpoint
from caladan.engines.spark.session.workspace import HELD, Workspace, union
from caladan.engines.spark.sources.shipment import (
    EmptyShipment,
    InlineShipment,
    ReceivedShipment,
    Shipment,
    declare_columns,
    in_streams,
    stream_of,
    unpacker,
)
from caladan.engines.spark.sources.table import LocalRows, SparkTable, TableShape, held
from caladan.engines.spark.strategy import CannotServe, Context
from caladan.engines.spark.tasks.job import lost
from caladan.engines.spark.tasks.relay import OF_THE_DRIVER, heard, unpack_diagnostics
from caladan.engines.spark.tasks.strategies import Single
from caladan.engines.spark.tasks.work import Retention, Work
from caladan.program import Column, Type
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
_STREAMS: Final[WeakKeyDictionary[SparkTable, DataFrame]] = WeakKeyDictionary()
"""Of tables whose facts are in this process, what was sent to the server of them."""


def single(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> dict[str, SparkTable]:
    """Evaluate all cliques of a program in one task."""
    work, names, source = _sent(program, store, context)
    if work.options.timeout is not None:
        context.stopping.ask = lambda: None  # it looks at the clock itself: give it a while
    answer = checkpoint(source.mapInArrow(evaluator(work, names), _ROWS), HELD)
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
        diagnostics = unpack_diagnostics(told["diagnostics"], program)
        if told["status"] == "cannot":
            raise CannotServe(diagnostics[0].message)
        raise CaladanError(*diagnostics)
    found: dict[str, SparkTable] = {}
    for number, (name, count, is_kept) in enumerate(told["outputs"]):
        columns, place = program.relations[name].columns, _TOLD - 1 - number
        if not columns:
            nothing = pa.table({"": pa.nulls(count)}).select([])
            found[name] = held((), nothing, context.workspace)
        elif place in streams or not count:
            few = declare_columns(_read(streams.get(place, []), columns), columns)
            found[name] = held(columns, few, context.workspace)
            if few.num_rows > SMALL:  # the server has it, too
                there = _read_answer(answer, place, columns, 1)
                found[name] = SparkTable(columns, there, held=LocalRows(few))
        elif is_kept:
            parts = partitions(count, context.workspace.parallelism)
            found[name] = SparkTable(
                columns, _read_answer(answer, number, columns, parts), count=count
            )
        else:
            again = replace(work, program=needed_by(program, name), options=Options())
            listed = source.mapInArrow(lister(again, names, name), schema(columns))
            found[name] = SparkTable(columns, listed, count=count)
    if told["status"] == "stopped":
        raise EngineStopped(unpack_diagnostics(told["diagnostics"], program)[0], found)
    return found


def _sent(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
) -> tuple[Work, tuple[str, ...], Any]:
    """The work, the rows that its task is given, and which relations those are of, by number."""
    inputs: dict[str, Shipment] = {}
    sent: dict[str, tuple[DataFrame, dict[str, str]]] = {}
    everything: dict[str, Type] = {}
    for name, table in store.items():
        context.workspace.check()
        types = shown(table.columns)
        if not table.columns:
            inputs[name] = EmptyShipment(table.count())
        elif table.held is None:
            own = slots(types)
            everything.update(zip(own, types, strict=True))
            frame = table.frame if table.loose is None else table.loose
            sent[name] = frame, dict(zip(own, column_names(table.columns), strict=True))
        elif cast("Any", table.held.given).nbytes <= _FEW_BYTES:
            facts = cast("Any", table.held.given).cast(arrow_schema(table.columns))
            inputs[name] = InlineShipment(stream_of(facts))
        else:
            sent[name] = _streams(table, context.workspace), {}
    session, none = context.workspace.session, sf.lit(None).cast("binary").alias("stream")
    frames = [(session.range(0, 1, 1, 1), _NONE, none, {})]
    for number, (frame, columns) in enumerate(sent.values()):
        frames.append((frame, number, none if columns else sf.col("stream"), columns))
    rows = [
        frame.select(sf.lit(number).alias("number"), stream, *fill_slots(columns, everything))
        for frame, number, stream, columns in frames
    ]
    work = Work(program, inputs, context.limits(), Retention(None, context.asked))
    return work, tuple(sent), union(rows).coalesce(1)


def _streams(table: SparkTable, workspace: Workspace) -> DataFrame:
    """Facts of this process, sent to the server once."""
    if table not in _STREAMS:
        facts = arrow_table(cast("LocalRows", table.held).given, table.columns)
        _STREAMS[table] = in_streams(workspace.session, facts)
    return _STREAMS[table]


def _read_answer(
    answer: Any, number: int, columns: tuple[Column, ...], parts: int
) -> Callable[[TableShape], DataFrame]:
    def make(_: TableShape) -> DataFrame:
        rows = answer.where(sf.col("number") == number).select("stream")
        rows = rows if parts == 1 else rows.repartition(parts)
        return rows.mapInArrow(unpacker(), schema(columns))

    return make


def _read(streams: Iterable[Any], columns: tuple[Column, ...]) -> pa.Table:
    """The facts in some streams, in the columns of the engine's frames."""
    fields = physical_schema(columns)
    tables: list[pa.Table] = [pa.Table.from_batches([], schema=fields)]
    tables += [cast("Any", pa.ipc.open_stream(each).read_all()).cast(fields) for each in streams]
    return pa.concat_tables(tables)


# ── What the server runs ─────────────────────────────────────────────────────────────────────────


class Collected(Listener):
    """Keeps what a task tells."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def tell(self, event: Event) -> None:
        if not isinstance(event, OF_THE_DRIVER):
            self.events.append(event)


def packed_row(number: int, stream: bytes) -> pa.RecordBatch:
    """A row of Arrow streams."""
    return pa.RecordBatch.from_arrays(
        [pa.array([number], pa.int32()), pa.array([stream], pa.binary())], ["number", "stream"]
    )


def evaluator(work: Work, names: tuple[str, ...]) -> Mapped:
    """The function that evaluates a program, whose data comes in rows of streams."""

    def rows(batches: Batches) -> Iterator[pa.RecordBatch]:
        from caladan.engines.spark.session.daemon import settle
        from caladan.engines.spark.tasks.output import batches as blocks, is_slow, is_small
        from caladan.engines.spark.tasks.task import evaluation

        settle()
        events = Collected()
        found = evaluation(supply_data(work, names, batches), 0, events)
        is_final, outputs = found.status == "done", list[tuple[str, int, bool]]()
        for number, (name, table) in enumerate(found.tables.items()):
            keeping = work.keeping.of(name)
            is_few = is_small(table, keeping)
            is_kept = not is_final or is_slow(table, keeping, found.seconds)
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
        from caladan.engines.spark.tasks.task import list_facts

        yield from list_facts(supply_data(work, names, batches), relation)

    return facts


def supply_data(work: Work, names: tuple[str, ...], batches: Batches) -> Work:
    """The work with the data that came in rows."""
    rows: Any = pa.Table.from_batches(list(batches))
    relations, inputs = work.program.relations, dict(work.inputs)
    for number, name in enumerate(names):
        if name not in relations:
            continue
        columns = relations[name].columns
        mine = rows.filter(compute.equal(rows.column("number"), number))
        streams = [each.as_buffer() for each in mine.column("stream") if each.is_valid]
        if streams or not mine.num_rows:
            facts = _read(streams, columns)
        else:
            fields = physical_schema(columns)
            facts = mine.select(slots(shown(columns))).rename_columns(fields.names).cast(fields)
        inputs[name] = ReceivedShipment(facts, columns)
    return replace(work, inputs={n: s for n, s in inputs.items() if n in relations})
