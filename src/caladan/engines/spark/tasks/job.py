"""The driver's side of a job: start it, listen to it, make tables of what its tasks hand out."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, BinaryType, LongType, StructField, StructType

from caladan.analysis.core import RelationInfo
from caladan.engines.interface import EngineStopped
from caladan.engines.spark.choice import is_local
from caladan.engines.spark.columns.physical import arrow_table, stored_schema
from caladan.engines.spark.columns.types import cast_frame, file_schema, schema
from caladan.engines.spark.session import internals, staging, workers
from caladan.engines.spark.session.failures import said
from caladan.engines.spark.session.session import create_frame
from caladan.engines.spark.sources.shipment import pieces_of, ship, unpacker
from caladan.engines.spark.sources.table import SparkTable, TableShape, held
from caladan.engines.spark.strategy import CannotServe, Context
from caladan.engines.spark.tasks import folded
from caladan.engines.spark.tasks.buckets import is_sparks_hash
from caladan.engines.spark.tasks.control import Control, Message, Peer
from caladan.engines.spark.tasks.exchange import Pieces, looked_at, samples, sent
from caladan.engines.spark.tasks.folded import ROW, table_lister
from caladan.engines.spark.tasks.relay import heard, unpack_diagnostics
from caladan.engines.spark.tasks.work import (
    TOO_LITTLE_MEMORY,
    Output,
    Retention,
    TaskOutcome,
    Work,
    outcomes as outcomes_of,
    streams,
    task,
)
from caladan.program import Column
from caladan.program.diagnostics import CaladanError, error
from caladan.program.events import CliqueStarted, Event, Listener, TaskLost
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram, needed_by

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import DataFrame

    from caladan.engines.spark.session.workspace import Workspace
    from caladan.engines.spark.tasks.cells import ByCell, Samples
    from caladan.engines.spark.tasks.shard import ByPivot

Listen: TypeAlias = "Callable[[int], Listener]"
InputCut: TypeAlias = "ByPivot | ByCell"

_WORD: Final = 8  # bytes of a value
_MEMORY: Final = re.compile(
    r"\b\w*MemoryError\b|\bOutOfMemoryError\b|\bbad_alloc\b|Cannot allocate memory|"
    r"exceeding (?:physical |virtual )?memory limits|exit (?:code|status)[: ]+137\b|"
    r"can't start new thread|unknown encoding: idna|failed to map segment"
)
"""What Python, Arrow, numpy, the JVM, the C++ library and cluster managers say of memory.

A worker that has no addresses left cannot start threads, nor load a module: Python says so then.
"""
_MISSING: Final = re.compile(r"No module named '([\w.]+)'")
_HOST: Final = re.compile(r"\(TID \d+\) \(([^ )]+)")
_LOST: Final = {
    "PYTHON_VERSION_MISMATCH": "the executors' Python is of another version than the driver's",
    "Cannot run program": "the executors have no such Python as the driver's: set PYSPARK_PYTHON",
    "Python worker exited unexpectedly": "the process of a task died, perhaps for lack of memory",
    "Python worker failed to connect back": "the executors could not start a Python worker",
}


def work_on(
    program: DeltaProgram,
    store: Mapping[str, SparkTable],
    context: Context,
    cut: InputCut | None = None,
) -> Work:
    """The work of tasks that evaluate a program: its inputs shipped, what is cut in pieces."""
    workspace = context.workspace
    given = [name for name, info in program.relations.items() if info.takes_data]
    whole = [name for name in given if cut is None or name in cut.whole]
    if reason := why_not_by_driver([store[name] for name in given], context):
        raise CannotServe(reason)
    inputs = {name: ship(store[name], workspace) for name in whole}
    keeping = Retention(workspace.staging.folder, context.asked, workspace.parallelism)
    found = {} if cut is None else cut_pieces(store, context, cut.sources)
    return Work(program, inputs, context.options, keeping, cut, pieces=found)


def cut_pieces(store: Mapping[str, SparkTable], context: Context, names: Collection[str]) -> Pieces:
    """Relations in pieces, for tasks to read and cut; what a program has of them it brings."""
    return {name: pieces_of(store[name], context.workspace) for name in names if name in store}


def why_not_by_driver(tables: Sequence[SparkTable], context: Context) -> str | None:
    """Why tables cannot come to tasks by way of the driver, if they have to; None if they can."""
    workspace = context.workspace
    spark: Any = workspace.session.sparkContext
    sizes = [table.size * len(table.columns) * _WORD for table in tables]
    if workspace.staging.folder is None:
        allowed = internals.size_setting(spark, "spark.driver.maxResultSize", "1g")
        given = zip(tables, sizes, strict=True)
        most = max((size for table, size in given if table.held is None), default=0)
        if allowed and most > allowed:
            return (
                f"an input has {_shown(most)}, and spark.driver.maxResultSize keeps what is over "
                f"{_shown(allowed)} from the driver: set spark.caladan.staging"
            )
        heap = internals.heap(spark)
        if most > heap // 4:
            return (
                f"an input has {_shown(most)}, too much for a driver that has {_shown(heap)}: "
                "set spark.caladan.staging"
            )
    return None


def _shown(size: int) -> str:
    return f"{size / 2**30:.1f} GB"


@dataclass(frozen=True, slots=True)
class JobResult:
    """What came of each task; `blocks` has the facts that Spark's block storage keeps of them."""

    outcomes: Sequence[TaskOutcome]
    blocks: Blocks | None = None

    @staticmethod
    def of(made: Any, work: Work) -> JobResult:
        """Run a job whose tasks hand out outcomes and, where there is no folder, blocks."""
        if work.keeping.folder is not None:
            return JobResult(list(outcomes_of(made.collect())))
        kept = made.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            found = kept.mapPartitions(outcomes_of).collect()
        except BaseException:
            kept.unpersist()
            raise
        names = {o.name for outcome in found for o in outcome.outputs if o.is_in_blocks}
        if not names:
            kept.unpersist()
        return JobResult(found, Blocks(kept, names) if names else None)


class Blocks:
    """Facts of some relations in Spark's block storage: in memory or on disk, where tasks ran.

    They go once all tables that read them are closed, unless frames of them were handed out: then
    Spark forgets them when no plan has them.
    """

    def __init__(self, kept: Any, names: set[str]) -> None:
        self._kept = kept
        self._names = names
        self._is_lent = False

    def frame(self, session: Any, name: str, columns: tuple[Column, ...]) -> DataFrame:
        """The facts of a relation, in columns c0 … of the declared types."""
        context = session.sparkContext

        def make() -> DataFrame:
            rows = self._kept.mapPartitions(partial(streams, name))
            given: Any = create_frame(
                session, rows, StructType([StructField("stream", BinaryType())])
            )
            return given.mapInArrow(unpacker(), file_schema(columns))

        return workers.with_python(context, make)

    def lend(self) -> None:
        """Leave it to Spark when they go."""
        self._is_lent = True

    def release(self, name: str) -> None:
        """Nobody reads a relation by its table any more."""
        self._names.discard(name)
        if not self._names and not self._is_lent:
            self.close()

    def close(self) -> None:
        """Give back the storage."""
        with suppress(Py4JError, OSError):  # the session has ended, and its storage with it
            self._kept.unpersist()


def run(work: Work, listen: Listen, context: Context) -> JobResult:
    """What comes of each task; the events of a part go to the listener that `listen` makes."""
    spark = context.workspace.session.sparkContext
    attempts = _Attempts(listen)
    with control_tasks(context, attempts.hear) as control:
        found = _collect(replace(work, address=control.address, options=context.limits()), spark)
        control.drain()
    if control.failure is not None:
        raise control.failure
    attempts.settle(found.outcomes)
    return found


def _collect(work: Work, spark: Any) -> JobResult:
    try:
        return JobResult.of(workers.with_python(spark, lambda: _map_tasks(work, spark)), work)
    except (PySparkException, Py4JError) as problem:
        raise lost(problem) from None


def _map_tasks(work: Work, spark: Any) -> Any:
    """An RDD with what comes of each task."""
    given = _spread(work.pieces, spark)
    if work.cut is None or given is None:
        alone = replace(work, pieces={})
        return _numbers(spark, work.parts).mapPartitionsWithIndex(partial(task, alone))
    shares = given.mapPartitions(partial(sent, work.cut)).partitionBy(work.parts)
    own = replace(work, pieces=dict.fromkeys(work.pieces, ()))
    return shares.mapPartitionsWithIndex(partial(task, own))


def _spread(pieces: Pieces, spark: Any) -> Any:
    """An RDD of pieces, one in each partition; None if there are none."""
    every = [(name, piece) for name, some in pieces.items() for piece in some]
    return spark.parallelize(every, len(every)) if every else None


def samples_of(
    pieces: Pieces, columns: Collection[tuple[str, int]], steps: Mapping[str, int], spark: Any
) -> Samples:
    """Samples of columns, of every so many facts of each relation, taken where pieces are."""
    wanted = {name for name, _ in columns}
    given = _spread({name: some for name, some in pieces.items() if name in wanted}, spark)
    if given is None:
        return {}
    try:
        look = partial(looked_at, columns, steps)
        made = workers.with_python(spark, lambda: given.mapPartitions(look))
        return samples(made.collect(), steps)
    except (PySparkException, Py4JError) as problem:
        raise lost(problem) from None


def lost(problem: Exception) -> Exception:
    """Why tasks cannot be run here, if that is what an exception of Spark's means."""
    text = said(problem)
    if _MEMORY.search(text):
        return CannotServe(TOO_LITTLE_MEMORY)
    for sign, reason in _LOST.items():
        if sign in text:
            return CannotServe(reason)
    if missing := _MISSING.search(text):
        host = _HOST.search(text)
        found = {"?" if host is None else host[1]: (missing[1].partition(".")[0],)}
        return CannotServe(str(workers.said(found)))
    return problem


class _Attempts:
    """What tasks tell. A task that is tried again tells its story anew, from the start.

    The first attempt is heard as it goes; what a later one tells is kept until it is known to be
    the one whose results count: it is that one's story that counts, too.
    """

    def __init__(self, listen: Listen) -> None:
        self._listen = listen
        self._listeners: dict[int, Listener] = {}
        self._later: dict[tuple[int, int], list[Event]] = {}

    def hear(self, peer: Peer, message: Message) -> None:
        """A message of a task."""
        part, attempt = int(peer.hello["part"]), int(peer.hello["attempt"])
        if attempt:
            self._later.setdefault((part, attempt), []).extend(heard(message))
            return
        if part not in self._listeners:
            self._listeners[part] = self._listen(part)
        for event in heard(message):
            self._listeners[part].tell(event)

    def settle(self, outcomes: Sequence[TaskOutcome]) -> None:
        """Tell the stories of tasks that were lost once more, as those who finished have them."""
        for part, outcome in enumerate(outcomes):
            told = self._later.get((part, outcome.attempt), [])
            if outcome.attempt and told:
                cliques = [e.relations for e in told if isinstance(e, CliqueStarted)]
                listener = self._listen(part)
                for event in (TaskLost(tuple(map(tuple, cliques))), *told):
                    listener.tell(event)


def _numbers(spark: Any, count: int) -> Any:
    """An RDD with so many partitions; what is in it nobody looks at, so a context has it once."""
    made: dict[int, Any] = spark.__dict__.setdefault("_caladan_numbers", {})
    if count not in made:
        made[count] = spark.parallelize(range(count), count)
    return made[count]


@contextmanager
def control_tasks(context: Context, hear: Callable[[Peer, Message], None]) -> Generator[Control]:
    """A line to the tasks of the job that is run meanwhile; the user's wish to stop goes there."""
    spark: Any = context.workspace.session.sparkContext
    host, bind = "127.0.0.1", None
    if not is_local(spark.master):
        conf = spark.getConf()
        host = conf.get("spark.driver.host")
        bind = conf.get("spark.driver.bindAddress", host)
    with Control(host, hear, bind=bind) as control:
        context.stopping.ask = control.stop
        if context.stopping.is_set:
            control.stop()
        try:
            yield control
        finally:
            context.stopping.ask = None


# ── Tables ───────────────────────────────────────────────────────────────────────────────────────


def tables(work: Work, result: JobResult, context: Context) -> dict[str, SparkTable]:
    """A table for each relation, of what all tasks derived of it; or the diagnostics of a task."""
    for outcome in result.outcomes:
        if outcome.status in ("failed", "cannot"):
            _discard(result)
            diagnostics = unpack_diagnostics(outcome.diagnostics, work.program)
            if outcome.status == "cannot":
                raise CannotServe(diagnostics[0].message)
            raise CaladanError(*diagnostics)
    found: dict[str, SparkTable] = {}
    relations = work.program.relations
    for name in (name for clique in work.program.cliques for name in clique.relations):
        outputs = [each for o in result.outcomes for each in o.outputs if each.name == name]
        found[name] = _table(work, relations[name], outputs, result.blocks, context.workspace)
    for outcome in result.outcomes:
        if outcome.status == "stopped":
            raise EngineStopped(unpack_diagnostics(outcome.diagnostics, work.program)[0], found)
    return found


def _table(
    work: Work,
    info: RelationInfo,
    outputs: Sequence[Output],
    blocks: Blocks | None,
    workspace: Workspace,
) -> SparkTable:
    count = sum(each.count for each in outputs)
    if not info.columns:
        # A fact without columns may have been derived by several tasks, and is still one.
        return held((), pa.table({"": pa.nulls(min(count, 1))}).select([]), workspace)
    if sum(each.count for each in outputs if each.stream is not None) == count:
        return _held(info, outputs, workspace)
    nbytes = sum(each.nbytes for each in outputs)
    if any(each.is_only_counted for each in outputs):
        staging.remove(file for each in outputs for file in each.files)
        return _derived_later(work, info, count, workspace)
    files = [file for each in outputs for file in each.files]
    if any(each.folded is not None for each in outputs):
        return _unfold(info, outputs, files, workspace)
    if blocks is not None and any(each.is_in_blocks for each in outputs):
        return _in_blocks(info, outputs, blocks, workspace)
    make = partial(_of_files, work, info, [o for o in outputs if o.stream], files, workspace)
    listed = sum(each.count for each in outputs if each.file is not None)
    return SparkTable(
        info.columns, make, count=count, files=files, staging=workspace.staging,
        nbytes=nbytes * count // max(listed, 1), buckets=_buckets(work, info),
    )  # fmt: skip


def _of_files(
    work: Work,
    info: RelationInfo,
    few: list[Output],
    files: list[str],
    workspace: Workspace,
    shape: TableShape,
) -> DataFrame:
    """A frame of files; what came with a task's result becomes one: a union is read later."""
    fields = stored_schema(info.columns)
    while few:
        output = few.pop()
        facts = arrow_table(_stream(output), info.columns, fields)
        if facts.num_rows:
            bucket = None if _buckets(work, info) is None else output.bucket
            folder = cast("str", work.keeping.folder)
            files.append(staging.write_facts(facts.to_batches(), fields, folder, bucket))
    wanted = file_schema(info.columns) if shape == "stored" else schema(info.columns)
    return workspace.session.read.schema(wanted).parquet(*files)


def _in_blocks(
    info: RelationInfo, outputs: Sequence[Output], blocks: Blocks, workspace: Workspace
) -> SparkTable:
    """A table of facts in Spark's block storage; the few that came with results beside them."""
    few = [each for each in outputs if each.stream]

    def make(shape: TableShape) -> DataFrame:
        frame = blocks.frame(workspace.session, info.name, info.columns)
        if few:
            fields = stored_schema(info.columns)
            tables = [arrow_table(_stream(each), info.columns, fields) for each in few]
            beside = create_frame(
                workspace.session, pa.concat_tables(tables), file_schema(info.columns)
            )
            frame = frame.union(beside)
        return frame if shape == "stored" else cast_frame(frame, schema(info.columns).fields)

    count = sum(each.count for each in outputs)
    return SparkTable(info.columns, make, count=count, blocks=(blocks, info.name))


def _unfold(
    info: RelationInfo,
    outputs: Sequence[Output],
    files: list[str],
    workspace: Workspace,
) -> SparkTable:
    """A table of matrices that tasks left: a frame reads their keys, and lists what it keeps."""
    session: Any = workspace.session
    count = sum(each.count for each in outputs)
    found = [(part, each.folded) for part, each in enumerate(outputs) if each.folded is not None]
    keys = found[0][1].keys
    if any(each.keys != keys for _, each in found):
        raise AssertionError("tasks of one program fold a relation in one way")
    uris = [""] * len(outputs)
    for part, each in found:
        uris[part] = each.matrix
    few = [each for each in outputs if each.stream and each.count]
    listed = [each.file for each in outputs if each.file is not None]
    fields = file_schema(info.columns)

    def make(shape: TableShape) -> DataFrame:
        wanted = StructType([*(fields[i] for i in keys), StructField(ROW, LongType(), False)])
        read = session.read.schema(wanted).parquet(*(f for _, each in found for f in each.files))
        size = count * internals.row_size(wanted)
        known = internals.Description("facts", count, size, (False,) * len(wanted))
        read = internals.describe_frame(read, known)
        frame = workers.with_python(
            session.sparkContext, partial(_with_lists, read, uris, info.columns, keys)
        )
        if few:
            stored_as = stored_schema(info.columns)
            tables = [arrow_table(_stream(each), info.columns, stored_as) for each in few]
            frame = frame.union(create_frame(session, pa.concat_tables(tables), fields))
        if listed:
            frame = frame.union(session.read.schema(fields).parquet(*listed))
        return frame if shape == "stored" else cast_frame(frame, schema(info.columns).fields)

    return SparkTable(
        info.columns, make, count=count, files=files, staging=workspace.staging, is_told=True
    )


def _with_lists(
    keys: Any, uris: Sequence[str], columns: tuple[Column, ...], key: Sequence[int]
) -> DataFrame:
    """Keys, each with the facts that a matrix has for it."""
    fields = file_schema(columns)
    of_arrow = getattr(sf, "arrow_udf", None)
    if of_arrow is None:  # before Spark 4.1; filters do not reach the keys there
        return keys.mapInArrow(table_lister(uris, columns), fields)
    listed = ArrayType(StructType([f for i, f in enumerate(fields) if i not in key]), False)
    function = of_arrow(folded.lister(uris), listed)
    names = [f"c{i}" for i in key]
    frame = keys.select(*names, sf.inline(function(ROW)))
    return frame.select(*(f"c{i}" for i in range(len(columns))))


def _buckets(work: Work, info: RelationInfo) -> tuple[int, int] | None:
    """How many parts there are, and by which column Spark's hash tells them apart, if it does."""
    from caladan.engines.spark.tasks.shard import ByPivot

    if not isinstance(work.cut, ByPivot):
        return None
    (clique,) = work.program.cliques
    column = cast("Mapping[str, int]", clique.pivot)[info.name]
    if not is_sparks_hash(work.program.relations, clique, column, info):
        return None
    return work.parts, column


def _held(info: RelationInfo, outputs: Sequence[Output], workspace: Workspace) -> SparkTable:
    from caladan.data.schema import empty_table

    found = [_stream(each) for each in outputs if each.stream]
    data = pa.concat_tables(found) if found else empty_table(info.columns)
    return held(info.columns, data, workspace)


def _stream(output: Output) -> pa.Table:
    return pa.ipc.open_stream(cast("bytes", output.stream)).read_all()


def _derived_later(work: Work, info: RelationInfo, count: int, workspace: Workspace) -> SparkTable:
    """A table of a relation that nobody had asked for: who does has it derived, and kept."""
    needed = needed_by(work.program, info.name)
    inputs = {n: shipment for n, shipment in work.inputs.items() if n in needed.relations}
    keeping = replace(work.keeping, asked=None)
    again = replace(
        work, program=needed, inputs=inputs, options=Options(), address=None, keeping=keeping
    )

    def derive() -> SparkTable:
        try:
            result = _collect(again, workspace.session.sparkContext)
        except CannotServe as cannot:
            raise error("C044", f"`{info.name}` cannot be derived again: {cannot.reason}") from None
        outputs = [each for o in result.outcomes for each in o.outputs if each.name == info.name]
        for outcome in result.outcomes:
            if outcome.status != "done":
                _discard(result)
                raise CaladanError(*unpack_diagnostics(outcome.diagnostics, work.program))
        return _table(again, info, outputs, result.blocks, workspace)

    return SparkTable(info.columns, later=derive, count=count)


def _discard(result: JobResult) -> None:
    staging.remove(f for outcome in result.outcomes for o in outcome.outputs for f in o.files)
    if result.blocks is not None:
        result.blocks.close()
