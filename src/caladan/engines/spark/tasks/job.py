"""The driver's side of a job: start it, listen to it, make tables of what its tasks hand out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from caladan.analysis.core import RelationInfo
from caladan.engines.interface import EngineStopped
from caladan.engines.spark.columns.physical import arrow_table, physical_schema, stored_schema
from caladan.engines.spark.columns.types import schema, stored
from caladan.engines.spark.session import internals, staging, workers
from caladan.engines.spark.session.failures import said
from caladan.engines.spark.session.session import machine_memory
from caladan.engines.spark.sources.shipment import ship
from caladan.engines.spark.sources.table import Shape, SparkTable, held
from caladan.engines.spark.strategy import CannotServe, Context
from caladan.engines.spark.tasks.buckets import is_sparks_hash
from caladan.engines.spark.tasks.control import Control, Message, Peer
from caladan.engines.spark.tasks.relay import heard, unpacked
from caladan.engines.spark.tasks.work import (
    TOO_LITTLE_MEMORY,
    Output,
    Retention,
    TaskOutcome,
    Work,
    lister,
    task,
)
from caladan.program.diagnostics import CaladanError
from caladan.program.events import CliqueStarted, Event, Listener, TaskLost
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram, needed_by

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import DataFrame

Listen: TypeAlias = "Callable[[int], Listener]"

_WORD: Final = 8  # bytes of a value
_COPIES: Final = 3  # of an input in a task: as it came, as words, and in one more order
_MEMORY: Final = re.compile(
    r"\b\w*MemoryError\b|\bOutOfMemoryError\b|\bbad_alloc\b|Cannot allocate memory|"
    r"exceeding (?:physical |virtual )?memory limits|exit (?:code|status)[: ]+137\b"
)
"""What Python, Arrow, numpy, the JVM, the C++ library and cluster managers say of memory."""
_MISSING: Final = re.compile(r"No module named '([\w.]+)'")
_HOST: Final = re.compile(r"\(TID \d+\) \(([^ )]+)")
_LOST: Final = {
    "PYTHON_VERSION_MISMATCH": "the executors' Python is of another version than the driver's",
    "Cannot run program": "the executors have no such Python as the driver's: set PYSPARK_PYTHON",
    "Python worker exited unexpectedly": "the process of a task died, perhaps for want of memory",
    "Python worker failed to connect back": "the executors could not start a Python worker",
}


def work_on(
    program: DeltaProgram, store: Mapping[str, SparkTable], context: Context, parts: int | None
) -> Work:
    """The work of tasks that evaluate a program, its inputs shipped."""
    workspace = context.workspace
    if reason := why_too_much(list(store.values()), context, parts):
        raise CannotServe(reason)
    inputs = {
        name: ship(store[name], workspace)
        for name, info in program.relations.items()
        if info.takes_data
    }
    keeping = Retention(workspace.staging.folder, context.asked)
    return Work(program, inputs, context.options, keeping, parts)


def why_too_much(tables: Sequence[SparkTable], context: Context, parts: int | None) -> str | None:
    """Why tasks cannot have some tables as inputs, as far as anybody knows; None if they can."""
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
    memory = machine_memory() if spark.master.startswith("local") else None
    tasks = min(parts or 1, context.parts)
    needed = sum(sizes) * _COPIES * tasks
    if memory is not None and needed > memory:
        return (
            f"inputs take some {_shown(needed // tasks)} in each task, of which {tasks} run at "
            f"once, and this machine has {_shown(memory)}"
        )
    return None


def _shown(size: int) -> str:
    return f"{size / 2**30:.1f} GB"


def run(work: Work, tasks: int, listen: Listen, context: Context) -> list[TaskOutcome]:
    """What comes of each task; the events of a part go to the listener that `listen` makes."""
    spark = context.workspace.session.sparkContext
    attempts = _Attempts(listen)
    with controlled(context, attempts.hear) as control:
        work = replace(work, address=control.address, options=context.limits())
        try:
            mapped = partial(_numbers(spark, tasks).mapPartitionsWithIndex, partial(task, work))
            found = workers.with_python(spark, mapped).collect()
        except (PySparkException, Py4JError) as problem:
            raise lost(problem) from None
        control.drain()
    if control.failure is not None:
        raise control.failure
    outcomes = cast("list[TaskOutcome]", found)
    attempts.settle(outcomes)
    return outcomes


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
def controlled(context: Context, hear: Callable[[Peer, Message], None]) -> Generator[Control]:
    """A line to the tasks of the job that is run meanwhile; the user's wish to stop goes there."""
    spark: Any = context.workspace.session.sparkContext
    host, bind = "127.0.0.1", None
    if not spark.master.startswith("local"):
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


def tables(work: Work, outcomes: Sequence[TaskOutcome], context: Context) -> dict[str, SparkTable]:
    """A table for each relation, of what all tasks derived of it; or the diagnostics of a task."""
    for outcome in outcomes:
        if outcome.status in ("failed", "cannot"):
            _discard(outcomes)
            diagnostics = unpacked(outcome.diagnostics, work.program)
            if outcome.status == "cannot":
                raise CannotServe(diagnostics[0].message)
            raise CaladanError(*diagnostics)
    found: dict[str, SparkTable] = {}
    relations = work.program.relations
    for name in (name for clique in work.program.cliques for name in clique.relations):
        outputs = [each for o in outcomes for each in o.outputs if each.name == name]
        found[name] = _table(work, relations[name], outputs, context)
    for outcome in outcomes:
        if outcome.status == "stopped":
            raise EngineStopped(unpacked(outcome.diagnostics, work.program)[0], found)
    return found


def _table(
    work: Work, info: RelationInfo, outputs: Sequence[Output], context: Context
) -> SparkTable:
    session = context.workspace.session
    count = sum(each.count for each in outputs)
    if not info.columns:
        # A fact without columns may have been derived by several tasks, and is still one.
        return held((), pa.table({"": pa.nulls(min(count, 1))}).select([]), context.workspace)
    files = [each.file for each in outputs if each.file is not None]
    streams = [o for o in outputs if o.stream is not None]
    kept = sum(each.count for each in streams)
    if kept == count:
        return _held(info, streams, context)
    buckets = _buckets(work, info)
    if len(files) + len(streams) == len(outputs):
        sizes = [each.nbytes for each in outputs]

        def read(shape: Shape) -> DataFrame:
            while streams:  # one frame of files is read sooner than a union
                few = streams.pop()
                assert few.stream is not None
                facts = arrow_table(pa.ipc.open_stream(few.stream).read_all(), info.columns, fields)
                folder = cast("str", work.keeping.folder)
                if facts.num_rows:
                    bucket = None if buckets is None else few.bucket
                    files.append(staging.written(facts.to_batches(), fields, folder, bucket))
                    sizes.append(facts.nbytes)
            wanted = stored(info.columns) if shape == "stored" else schema(info.columns)
            return session.read.schema(wanted).parquet(*files)

        fields = stored_schema(info.columns)
        nbytes = sum(sizes) * count // max(count - kept, 1)
        return SparkTable(
            info.columns, read, count=count, files=files, staging=context.workspace.staging,
            nbytes=nbytes, buckets=buckets,
        )  # fmt: skip
    staging.remove(files)
    return _listed_again(work, info, count, context)


def _buckets(work: Work, info: RelationInfo) -> tuple[int, int] | None:
    """How many parts there are, and by which column Spark's hash tells them apart, if it does."""
    (clique, *others) = work.program.cliques
    if not work.is_pivoted or others or clique.pivot is None:
        return None
    column = clique.pivot[info.name]
    if not is_sparks_hash(work.program.relations, clique, column, info):
        return None
    return cast("int", work.parts), column


def _held(info: RelationInfo, outputs: Sequence[Output], context: Context) -> SparkTable:
    from caladan.data.schema import empty_table

    streams = [pa.ipc.open_stream(each.stream).read_all() for each in outputs if each.stream]
    data = pa.concat_tables(streams) if streams else empty_table(info.columns)
    return held(info.columns, data, context.workspace)


def _listed_again(work: Work, info: RelationInfo, count: int, context: Context) -> SparkTable:
    """A table whose frame derives the relation again, each time somebody reads it."""
    needed = needed_by(work.program, info.name)
    inputs = {n: work.inputs[n] for n, i in needed.relations.items() if i.takes_data}
    again = replace(work, program=needed, inputs=inputs, options=Options(), address=None)
    workspace = context.workspace
    parts = workspace.parallelism if work.parts is None else work.parts

    def make(shape: Shape) -> DataFrame:
        is_stored = shape == "stored"
        fields = stored_schema(info.columns) if is_stored else physical_schema(info.columns)
        numbers: Any = workspace.session.range(0, parts, 1, parts)
        listed = lister(again, info.name, parts, fields)
        wanted = stored(info.columns) if is_stored else schema(info.columns)
        made = partial(numbers.mapInArrow, listed, wanted)
        return workers.with_python(workspace.session.sparkContext, made)

    read = tuple(inputs.values())
    return SparkTable(
        info.columns, make, count=count, reads=read, staging=workspace.staging,
        buckets=_buckets(work, info),
    )  # fmt: skip


def _discard(outcomes: Sequence[TaskOutcome]) -> None:
    staging.remove(o.file for outcome in outcomes for o in outcome.outputs if o.file is not None)
