"""Programs over streams: each micro-batch is one change to the derived relations.

    stream = cal.stream(
        spark,
        "ring(A, C) <- pay(A, B), pay(B, C), pay(C, A).",
        sources={"pay": spark.readStream.schema("A long, B long").parquet("incoming")},
        sinks={"ring": "rings"},
        checkpoint="state",
    )

A *source* is a streaming DataFrame. Its rows are facts that are added; with a column `_change_type`
(insert, delete, update_preimage, update_postimage, as in Delta's change data feed) they say what
became of a fact. A DataFrame that does not stream, or anything else that `add` takes, is data that
stays as it is. All streams are read by one query of Structured Streaming, so that a batch has one
number.

A *sink* gets what a batch changed in a relation: a path gets the changes, one folder for a batch
(`batch=12`), with `_change_type`; `(path, "complete")` gets the whole relation, each time; a
function gets a DataFrame of changes and the number of the batch, for MERGE and the like. If nothing
changed a path is left as it is, and a function is not called.

*State*: the facts that came in and what follows from them are in the driver, in the incremental
engine that `watch` uses. The facts of each batch are saved beside Spark's own checkpoint, batch by
batch; what follows is derived anew when a stream starts again.

*Exactly once*: a batch goes to the sinks, is saved, and is committed by Spark, in this order.
Killed before it was saved, it comes again with the same number and the same rows, and finds the
state that it found: paths get the same files under the same names, and a function the same changes.
Killed after that, Spark brings it again, and it is skipped.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa

from caladan.data.schema import arrow_schema
from caladan.program.diagnostics import CaladanError, did_you_mean, error
from caladan.session.live import CHANGE, Live, RelationChange

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from caladan.program import Column
    from caladan.session.session import Session

StreamSink: TypeAlias = (
    "str | os.PathLike[str] | tuple[str | os.PathLike[str], str] | Callable[[Any, int], object]"
)

_SOURCE: Final = "_source"
_VERSION: Final = "_commit_version"
_OF_DELTA: Final = (CHANGE, _VERSION, "_commit_timestamp")
_GONE: Final = ("delete", "update_preimage")
_CHANGES: Final = (*_GONE, "insert", "update_postimage")
_STEPS: Final = 100  # batches that are saved by themselves before all facts are saved as one


def stream(
    spark: SparkSession,
    program: str | os.PathLike[str],
    sources: Mapping[str, object],
    sinks: Mapping[str, StreamSink],
    checkpoint: str | os.PathLike[str],
    *,
    params: Mapping[str, object] | None = None,
    trigger: Mapping[str, Any] | None = None,
) -> RunningStream:
    """Run a program over streams; `trigger` is that of `DataStreamWriter.trigger`."""
    from caladan.engines.interface import engine_for
    from caladan.session.session import Session

    if type(spark).__module__.startswith("pyspark.sql.connect."):
        raise error(
            "C051", "`stream` keeps its state in the driver, so it does not support Spark Connect",
            help="run it in the driver's process",
        )  # fmt: skip
    streams = {n: cast("Any", f) for n, f in sources.items() if getattr(f, "isStreaming", False)}
    if not streams:
        raise error(
            "C050", "none of the sources is a stream",
            help="create one with spark.readStream; use db.run for static data",
        )  # fmt: skip
    db = Session(engine_for("embedded", None, None))
    try:
        for name, data in sources.items():
            if name not in streams:
                db.add(name, data)
        return _start(spark, db, program, streams, sinks, os.fspath(checkpoint), params, trigger)
    except BaseException:
        db.close()
        raise


def _start(
    spark: SparkSession,
    db: Session,
    program: str | os.PathLike[str],
    streams: Mapping[str, Any],
    sinks: Mapping[str, StreamSink],
    checkpoint: str,
    params: Mapping[str, object] | None,
    trigger: Mapping[str, Any] | None,
) -> RunningStream:
    for name, frame in streams.items():  # its columns are known, its facts come later
        given = [f for f in frame.schema.fields if f.name not in _OF_DELTA]
        db.add(name, _empty(given))
    with db.watch(program, params) as trial:
        for name in streams:
            if trial.columns(name) is None:
                raise error(
                    "C010", f"the program reads no relation `{name}`, which has a source",
                    help=did_you_mean(name, list(trial)),
                )  # fmt: skip
        for name in sinks:
            trial[name]  # C010 if there is none
        columns = {name: trial.columns(name) for name in streams}
    text = json.dumps([_text(program), sorted(streams), repr(sorted((params or {}).items()))])
    state = StreamState.opened(f"{checkpoint.rstrip('/')}/caladan", text, columns)
    for name, facts in state.facts.items():
        db.add(name, facts)
    live = db.watch(program, params)
    live.session = spark
    made = RunningStream(db, live, state, {n: _sink(n, each) for n, each in sinks.items()})
    writer: Any = _together(streams).writeStream.foreachBatch(made.follow)
    writer = writer.option("checkpointLocation", f"{checkpoint.rstrip('/')}/spark")
    if trigger is not None:
        writer = writer.trigger(**trigger)
    made.query = writer.start()
    return made


def _text(program: str | os.PathLike[str]) -> str:
    if isinstance(program, os.PathLike):
        with open(program, encoding="utf-8") as file:  # noqa: PTH123
            return file.read()
    return program


def _empty(fields: Sequence[Any]) -> pa.Table:
    """A table without rows, in the columns of a stream."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    return to_arrow_schema(StructType(list(fields))).empty_table()


def _together(streams: Mapping[str, Any]) -> Any:
    """All streams as one: a row has the name of its source, and a struct with its columns."""
    from pyspark.sql import functions as sf

    parts: list[Any] = []
    for name, frame in streams.items():
        own = sf.struct(*(sf.col(f"`{column}`") for column in frame.columns))
        others = [
            (own if each == name else sf.lit(None).cast(streams[each].schema)).alias(each)
            for each in streams
        ]
        parts.append(frame.select(sf.lit(name).alias(_SOURCE), *others))
    found = parts[0]
    for part in parts[1:]:
        found = found.unionByName(part)
    return found


# ── A batch ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class RunningStream:
    """A running program over streams. `caladan.stream` makes it; it is a context manager.

    `live` has its current relations; `query` is Spark's StreamingQuery.
    """

    _db: Session
    live: Live
    _state: StreamState
    _sinks: Mapping[str, Callable[[Live, RelationChange, int], None]]
    query: Any = None
    _lock: Any = field(default_factory=threading.Lock)
    _failure: BaseException | None = None

    def follow(self, batch: DataFrame, number: int) -> None:
        """Apply a batch, unless it was applied before. Spark calls this for each batch."""
        with self._lock:
            try:
                if number > self._state.last:
                    self._take(batch, number)
            except BaseException as problem:
                self._failure = problem
                raise

    def _take(self, batch: DataFrame, number: int) -> None:
        rows: Any = cast("Any", batch).toArrow()
        changes = {
            n: _split_changes(n, rows, columns) for n, columns in self._state.columns.items()
        }
        is_first = self._state.last < 0
        for name, (inserted, deleted) in changes.items():
            if inserted.num_rows or deleted.num_rows:
                self.live.follow(name, inserted, deleted)
        for name, sink in self._sinks.items():
            change = self.live.changes(name)
            if is_first:  # what follows from data that stays is new, too
                whole = self.live[name]
                change = RelationChange(whole, change.removed)
            if change:
                sink(self.live, change, number)
        self._state.save(number, changes, self.live)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until the stream ends, or for some seconds; True if it ended."""
        return bool(self._asked(lambda: self.query.awaitTermination(seconds)))

    def process_all_available(self) -> None:
        """Wait until all available rows have been applied."""
        self._asked(self.query.processAllAvailable)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        from pyspark.errors import StreamingQueryException

        try:
            return ask()
        except StreamingQueryException as problem:
            if isinstance(self._failure, CaladanError):
                raise self._failure from None
            from caladan.data.frames import spark_failed

            raise spark_failed(problem, str(problem)) from problem

    def stop(self) -> None:
        """Stop the stream. A new stream with the same checkpoint resumes it."""
        self.query.stop()
        self._db.close()

    def __enter__(self) -> RunningStream:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()


def _split_changes(name: str, rows: Any, columns: tuple[Column, ...]) -> tuple[Any, Any]:
    """What a batch adds to a relation and takes from it: the last change of each fact counts.

    Of changes without a version, one that adds a fact beats one that takes it away.
    """
    import pyarrow.compute

    from caladan.data.load import load
    from caladan.data.source import source

    compute: Any = pyarrow.compute
    mine = rows.filter(compute.equal(rows.column(_SOURCE), name)).select([name])
    table: Any = mine.flatten().rename_columns([f.name for f in mine.schema.field(name).type])
    plain = table.select([n for n in table.column_names if n not in _OF_DELTA])
    facts: Any = load(name, source(name, plain), columns)[0]
    if CHANGE not in table.column_names:
        return facts, facts.slice(0, 0)
    kinds = table.column(CHANGE)
    for kind in compute.unique(kinds).to_pylist():
        if kind not in _CHANGES:
            raise error("C050", f"`{name}` has the {CHANGE} {kind!r}; there are {_CHANGES}")
    is_there = compute.invert(compute.is_in(kinds, pa.array(_GONE)))
    version = table.column(_VERSION) if _VERSION in table.column_names else None
    order = compute.add(
        compute.multiply(compute.cast(version, pa.int64()), 2) if version is not None
        else pa.array([0] * len(kinds), pa.int64()),
        compute.cast(is_there, pa.int64()),
    )  # fmt: skip
    places = [str(i) for i in range(facts.num_columns)]
    keyed = facts.rename_columns(places).append_column("order", order)
    last = keyed.group_by(places).aggregate([("order", "max")])
    lasting = compute.equal(compute.bit_wise_and(last.column("order_max"), 1), 1)
    found = last.select(places).rename_columns(facts.column_names).cast(facts.schema)
    return found.filter(lasting), found.filter(compute.invert(lasting))


# ── Sinks ────────────────────────────────────────────────────────────────────────────────────────


def _sink(name: str, given: StreamSink) -> Callable[[Live, RelationChange, int], None]:
    """What brings a change to a sink."""
    if callable(given):
        function = given

        def call(_: Live, change: RelationChange, number: int) -> None:
            function(change.spark(), number)

        return call
    path, mode = given if isinstance(given, tuple) else (given, "append")
    folder = os.fspath(path).rstrip("/")

    def append(_: Live, change: RelationChange, number: int) -> None:
        _write(change.arrow(), f"{folder}/batch={number}/changes.parquet")

    def complete(live: Live, _: RelationChange, __: int) -> None:
        _write(live[name].arrow(), f"{folder}/facts.parquet")

    modes = {"append": append, "complete": complete}
    if mode not in modes:
        raise error("C050", f"the sink of `{name}` has the mode {mode!r}; there are {list(modes)}")
    return modes[mode]


def _write(table: pa.Table, uri: str) -> None:
    """Write a Parquet file in the place of any that was there, whole or not at all."""
    import pyarrow.parquet as pq

    sink: Any = pa.BufferOutputStream()
    pq.write_table(table, sink)
    _put(uri, sink.getvalue().to_pybytes())


def _put(uri: str, data: bytes) -> None:
    system, path = _open(uri)
    folder, _, name = path.rpartition("/")
    system.create_dir(folder, recursive=True)
    draft = f"{folder}/.{uuid.uuid4().hex}-{name}"
    with system.open_output_stream(draft) as file:
        file.write(data)
    system.move(draft, path)


def _open(uri: str) -> tuple[Any, str]:
    from pyarrow import fs

    if "://" in uri:
        return fs.FileSystem.from_uri(uri)
    return fs.LocalFileSystem(), os.path.abspath(uri)  # noqa: PTH100


# ── State ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class StreamState:
    """The facts that came in, in a folder: all of them up to a batch, then one file for a batch.

    `last` is the last batch that is in it, -1 if none is.
    """

    folder: str
    columns: Mapping[str, tuple[Column, ...]]
    facts: dict[str, pa.Table]
    last: int = -1
    _steps: list[int] = field(default_factory=list[int])

    @staticmethod
    def opened(folder: str, text: str, columns: Mapping[str, tuple[Column, ...]]) -> StreamState:
        """The state that a folder has for a program; C050 if it is another program's."""
        from pyarrow import fs

        from caladan.data.load import apply_steps

        digest = hashlib.sha256(text.encode()).hexdigest()
        system, path = _open(folder)
        empty = {name: arrow_schema(each).empty_table() for name, each in columns.items()}
        state = StreamState(folder, columns, empty)
        if system.get_file_info(path).type == fs.FileType.NotFound:
            _put(f"{folder}/program", digest.encode())
            return state
        with system.open_input_stream(f"{path}/program") as file:
            if file.read().decode() != digest:
                raise error(
                    "C050", f"the checkpoint {folder} belongs to another program",
                    help="give each program, with its parameters and sources, a folder of its own",
                )  # fmt: skip
        names = [each.base_name for each in system.get_file_info(fs.FileSelector(path))]
        whole = max((int(n[6:]) for n in names if n.startswith("whole-")), default=-1)
        steps = sorted(int(n[6:]) for n in names if n.startswith("batch-"))
        state._steps = [each for each in steps if each > whole]
        changes = {name: [(True, facts)] for name, facts in empty.items()}
        for name in ([f"whole-{whole:012d}"] if whole >= 0 else []) + [
            f"batch-{each:012d}" for each in state._steps
        ]:
            with system.open_input_stream(f"{path}/{name}") as file:
                for relation, (inserted, deleted) in _unpack(file.read()).items():
                    changes[relation] += [(False, deleted), (True, inserted)]
        state.facts = {name: apply_steps(steps) for name, steps in changes.items()}
        state.last = max([whole, *state._steps])
        return state

    def save(self, number: int, changes: Mapping[str, tuple[Any, Any]], live: Live) -> None:
        """Save what a batch changed; now and then all facts, in the place of what was saved."""
        self._steps.append(number)
        if len(self._steps) <= _STEPS:
            _put(f"{self.folder}/batch-{number:012d}", _pack(changes))
        else:
            given = {name: live.given(name) for name in self.columns}
            whole = {name: (facts, facts.slice(0, 0)) for name, facts in given.items()}
            _put(f"{self.folder}/whole-{number:012d}", _pack(whole))
            self._sweep(number)
            self._steps = []
        self.last = number
        self.facts = {}

    def _sweep(self, number: int) -> None:
        """Remove what the last file of all facts stands for."""
        from pyarrow import fs

        system, path = _open(self.folder)
        for each in system.get_file_info(fs.FileSelector(path)):
            kind, _, at = each.base_name.partition("-")
            if kind in ("batch", "whole") and (int(at), kind) < (number, "whole"):
                system.delete_file(each.path)


def _pack(changes: Mapping[str, tuple[Any, Any]]) -> bytes:
    """Changes of relations as bytes: names and sizes, then Arrow streams."""
    parts: list[tuple[str, bytes]] = []
    for name, pair in changes.items():
        for table in pair:
            sink: Any = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
            parts.append((name, sink.getvalue().to_pybytes()))
    head = json.dumps([[name, len(data)] for name, data in parts]).encode()
    return b"\n".join([head, b"".join(data for _, data in parts)])


def _unpack(data: bytes) -> dict[str, tuple[Any, Any]]:
    stream = io.BytesIO(data)
    found: dict[str, list[Any]] = {}
    for name, size in json.loads(stream.readline()):
        found.setdefault(name, []).append(pa.ipc.open_stream(stream.read(size)).read_all())
    return {name: (each[0], each[1]) for name, each in found.items()}
