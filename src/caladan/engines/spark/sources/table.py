"""A relation as the spark engine holds it.

A `SparkTable` is a frame with the runs behind it; or, if the facts are few, an Arrow table in this
process (`held`), of which a frame is made when somebody asks for one; or a frame that will be made
from what tasks left behind. Counting, and looking at facts that are held, takes no Spark job.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as sf
from pyspark.sql.types import StructField, StructType

from caladan.analysis.core import CoreGoal
from caladan.columns.ranks import arrow_of, numpy_of
from caladan.data.frames import check_running, spark_stopped
from caladan.data.missing import find_lacking, merge_pairs, values
from caladan.data.schema import arrow_schema, compute, first_rows
from caladan.engines.spark.choice import SMALL
from caladan.engines.spark.columns.physical import arrow_table, stored_schema
from caladan.engines.spark.columns.types import cast_frame, file_schema, literal, outside, schema
from caladan.engines.spark.session import internals
from caladan.engines.spark.session.connect import is_connect
from caladan.engines.spark.session.failures import SparkSaid, diagnose
from caladan.engines.spark.session.session import create_frame, move_frame
from caladan.engines.spark.session.staging import Staging, drop, remove, write_facts
from caladan.engines.spark.session.workspace import (
    FrameRows,
    FrameRun,
    Workspace,
    abandon,
    release,
)
from caladan.engines.spark.sources.shipment import in_streams, unpacker
from caladan.program import Column, Type

if TYPE_CHECKING:
    from caladan.data.formats import Look
    from caladan.engines.spark.sources.shipment import Shipment
    from caladan.program.notation import Widths

TableShape: TypeAlias = Literal["inside", "stored"]
"""The types of a frame's columns c0 …: those of evaluation, or those that were declared."""

LazyFrame: TypeAlias = "DataFrame | Callable[[TableShape], DataFrame]"
"""A frame in the types of evaluation, or what makes one in either."""

_MANY_BYTES: Final = 1 << 20
_WORD: Final = 64


class LocalRows:
    """Rows in this process; `is_loose` if some may be the same, which shows when somebody asks."""

    def __init__(self, given: pa.Table, *, is_loose: bool = False) -> None:
        self.given = given
        self._is_loose = is_loose

    @property
    def facts(self) -> pa.Table:
        """The rows, each once."""
        if self._is_loose:
            self.given, self._is_loose = distinct(self.given), False
        return self.given


class HeldFacts(Protocol):
    """Facts of several relations in Spark's block storage."""

    def lend(self) -> None:
        """Leave it to Spark when they go."""
        ...

    def release(self, name: str) -> None:
        """Nobody reads a relation by its table any more."""
        ...


class SparkTable:
    """A relation. `count` is asked of Spark once, if it is not known.

    `frame` may be a function that makes it; `held` has the facts in the Arrow types of the
    columns. `files` and `blocks` are what the frame reads, `of` the table whose storage this one
    has a share of, and `goal` what it takes of that; `later` derives a table whose facts these are,
    when somebody wants them. Of facts that are `at_most` so many, which of them are the same shows
    when somebody wants a frame; `loose` has them as they are. `nbytes` is what the facts take in
    Arrow, if it is known; `buckets` is (n, c) if partition i, or file i, has those whose column c
    Spark's hash sends to i of n; `is_told` if a frame says all that by itself. Columns in `lacks`
    have nulls: it `merges` what says so in the table that it is of, for users. All of it goes when
    the table is closed or collected, or once nobody can read what was lent of it.
    """

    def __init__(
        self,
        columns: tuple[Column, ...],
        frame: LazyFrame | None = None,
        runs: Sequence[FrameRun] = (),
        count: int | None = None,
        *,
        held: LocalRows | None = None,
        files: list[str] | None = None,
        staging: Staging | None = None,
        of: SparkTable | None = None,
        goal: CoreGoal | None = None,
        nbytes: int | None = None,
        buckets: tuple[int, int] | None = None,
        is_told: bool = False,
        blocks: tuple[HeldFacts, str] | None = None,
        later: Callable[[], SparkTable] | None = None,
        at_most: int | None = None,
        loose: DataFrame | None = None,
        lacks: Collection[int] = (),
        merges: bool = False,
    ) -> None:
        self._columns = columns
        self._lacks = frozenset(lacks)
        self._merges = merges
        self.rows_given = at_most
        self._context: Any = cast("Any", SparkContext)._active_spark_context  # None with Connect
        self._frame = frame
        self._count = count
        self.files = [] if files is None else files
        self._staging = staging
        self._of = of
        self._goal = goal
        self._nbytes = nbytes
        self._buckets = buckets
        self._is_told = is_told
        self._blocks = blocks
        self._later = later
        self._own: SparkTable | None = None
        self._frames: dict[TableShape, DataFrame] = {}
        self._at_most = at_most
        self.loose = loose
        self._is_lent = False
        if files is not None:
            weakref.finalize(self, drop, files).atexit = False
        self.runs = list(runs)
        self._collected = weakref.finalize(self, abandon, self.runs)
        self._collected.atexit = False
        self.held = held
        self.shipped: Shipment | None = None
        """The facts where tasks can read them, once they have been brought there."""
        self.reading: float | None = None
        """Seconds it took to read this from outside, until somebody has been told."""

    @property
    def data(self) -> pa.Table | None:
        """The facts, each once, if they are in this process."""
        return None if self.held is None else self.held.facts

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and types."""
        return self._columns

    @cached_property
    def frame(self) -> DataFrame:
        """The facts as a frame of the engine's session, in columns c0 …, of evaluation's types."""
        if self._at_most is None or self._of is not None:
            return self._made("inside")
        assert self._frame is not None
        frame = self._frame if isinstance(self._frame, DataFrame) else self._frame("inside")
        run = Workspace(frame.sparkSession).materialise(frame)
        self.runs[:], self._count = [run], run.count
        return run.frame

    def _made(self, shape: TableShape) -> DataFrame:
        """The facts as a frame of either shape, of which Spark knows what is known of them."""
        if shape not in self._frames:
            self._frames[shape] = self._make(shape)
        return self._frames[shape]

    def _make(self, shape: TableShape) -> DataFrame:
        if self._later is not None:
            self._of = self._own = self._later()
            self._later = None
        if self._of is not None:
            frame = self._of._made(shape)
            for condition in () if self._goal is None else _conditions(self._of, self._goal):
                frame = frame.where(condition)
            return self._of._merged_frame(frame) if self._merges else frame
        assert self._frame is not None
        if self._at_most is not None:
            made = self.frame  # each fact once
        elif isinstance(self._frame, DataFrame):
            made = self._frame
        else:
            made = self._frame(shape)
        if shape == "inside" or is_connect(made) or self._is_told:  # inside, sizes are ours to know
            return made
        rows = self._count if self.held is None else self.count()
        if rows is None:
            return made
        size = rows * internals.row_size(made.schema)
        if self._nbytes is not None:
            size = self._nbytes + 8 * rows  # as of Spark's rows
        buckets = None if self._buckets is None else (self._buckets[0], (f"c{self._buckets[1]}",))
        nullable = (False,) * len(made.columns)
        known = internals.Description("facts", rows, size, nullable, buckets)
        return internals.describe_frame(made, known)

    @property
    def fact_files(self) -> tuple[str, ...]:
        """The files that hold all facts in columns c0 …, for tasks to read; none if there are none.

        Facts that came with a task's result are put into one first.
        """
        if not self.files or self._is_told:
            return ()
        if self._at_most is None:
            self._made("inside")
        return tuple(self.files)

    @property
    def size(self) -> int:
        """How many facts there are, or at most: what is known of them without more ado."""
        if self.held is not None:
            return self.held.given.num_rows
        return self.count() if self._count is not None or not self._at_most else self._at_most

    @cached_property
    def rows(self) -> FrameRows:
        """The table as an input of a rule."""
        count = self.count()
        if self.held is not None and not self.runs:
            # A rule may read this in every round: bring it to Spark once.
            frame = self.frame.coalesce(1) if count <= SMALL else self.frame
            run = Workspace(frame.sparkSession).materialise(frame)
            self.runs[:], self.frame = [run], run.frame
        if count > SMALL:
            return FrameRows(self.frame, count, lone=False)
        if all(run.partitions == 1 for run in self.runs) and len(self.runs) == 1:
            return FrameRows(self.frame, count, lone=True)
        return FrameRows(self.frame.coalesce(1), count, lone=True)

    def count(self) -> int:
        """How many facts."""
        if self._count is None and self.held is not None:
            self._count = self.held.facts.num_rows
        elif self._count is None:
            with self._asking():
                frame = self.frame
                self._count = frame.count() if self._count is None else self._count
        return self._count

    def arrow(self, limit: int | None = None) -> pa.Table:
        """The facts, or any `limit` of them, as Arrow."""
        if (data := self.data) is not None:
            return data if limit is None else first_rows(data, limit)
        with self._asking():
            frame = self._outside()
            if limit is not None:
                frame = frame.limit(limit)
            table = cast("Any", frame).toArrow()
        if not self._columns:
            # Arrow tables know their length by their columns; this one needs another way.
            return pa.table({"": pa.nulls(table.num_rows)}).select([])
        wanted = self._schema()
        return table.rename_columns([c.name for c in self._columns]).cast(wanted)

    def spark(self, session: SparkSession) -> DataFrame:
        """The facts as a DataFrame of a session, with the names and types that users know."""
        return self.framed(session)

    def framed(
        self, session: SparkSession, widths: Widths = (), looks: Sequence[Look] = ()
    ) -> DataFrame:
        """The same, with columns as wide as they came in, and of the same looks."""
        check_running(session)
        self._hand_out()
        data = self.data
        if data is not None and is_connect(session) and data.num_rows > SMALL:
            data = None  # rows in its plan would take the server longer than a stream of them
        if data is not None and _is_plain(data, self._columns):
            fields_ = outside(self._columns, looks=looks, lacks=self._lacks)
            given = zip(self._columns, fields_, strict=True)
            fields = [StructField(c.name, field.dataType, field.nullable) for c, field in given]
            return _in_one(create_frame(session, data, StructType(fields)))
        with self._asking():
            frame = move_frame(self._outside(widths, looks), session)
        return frame.toDF(*(c.name for c in self._columns)) if self._columns else frame.select()

    def answering(self, goal: CoreGoal) -> SparkTable:
        """The facts that match a goal, under its names; the answer owns nothing."""
        if (data := self.data) is not None:
            data = _match_goal(data, goal)
            renamed = data.rename_columns([c.name for c in goal.columns]) if goal.columns else data
            return SparkTable(goal.columns, self._made, held=LocalRows(renamed), of=self, goal=goal)
        count = None if _conditions(self, goal) else self._count
        return SparkTable(goal.columns, count=count, of=self, goal=goal)

    def merged(self) -> SparkTable:
        """The facts as users see them: with nulls, and without columns that tell of them."""
        data = self.data
        rows = None if data is None else LocalRows(merge_pairs(data, self._columns))
        own = values(self._columns)
        lacking_names = find_lacking(self._columns)
        lacks = [i for i, column in enumerate(own) if column.name in lacking_names]
        return SparkTable(own, count=self._count, held=rows, of=self, lacks=lacks, merges=True)

    def _merged_frame(self, frame: DataFrame) -> DataFrame:
        """A frame of this table's columns as one with nulls."""
        found: list[Any] = []
        flag: Any = None
        for i, column in enumerate(self._columns):
            if column.role == "present":
                flag = sf.col(f"c{i}")
                continue
            if column.role == "value":
                value = sf.col(f"c{i}")
                value = value if flag is None else sf.when(flag, value)
                found.append(value.alias(f"c{len(found)}"))
            flag = None
        return frame.select(*found)

    @contextmanager
    def _asking(self) -> Generator[None]:
        """What fails inside Spark becomes a diagnostic; C050 where it was stopped since."""
        if self._context is not None and internals.is_stopped(self._context):
            raise spark_stopped()
        try:
            yield
        except (PySparkException, Py4JError, ConnectionError) as problem:
            raise diagnose(problem) from SparkSaid(problem)

    def _hand_out(self) -> None:
        """Leave it to Spark when blocks go that nobody closes: frames outside may read them."""
        self._collected.detach()
        if self._of is not None:
            self._of._hand_out()

    def lend(self) -> None:
        """Keep what frames of this table read for as long as Spark knows of one.

        Spark itself lets go of what it holds in memory once no plan has it.
        """
        if self._of is not None:
            self._of.lend()
        self._is_lent = True
        self._hand_out()
        if self._blocks is not None:
            self._blocks[0].lend()
        if self.files and self._staging is not None:
            self._staging.hold(self.files, self._made("stored"))

    def close(self) -> None:
        """Give back the storage, but for what was lent."""
        self._collected.detach()
        if not self._is_lent:
            for run in self.runs:
                release(run)
        if self.shipped is not None:
            self.shipped.close()
            self.shipped = None
        if self._blocks is not None:
            self._blocks[0].release(self._blocks[1])
        if self._own is not None:
            self._own.close()
        for held in ("frame", "rows"):  # nobody asks any more; Spark may forget the plans
            self.__dict__.pop(held, None)
        self._frames.clear()
        remove(self.files)

    def _outside(self, widths: Widths = (), looks: Sequence[Look] = ()) -> DataFrame:
        """Columns of the declared types; names stay positions, for users' may be equal."""
        if not self._columns:
            return self.frame
        return cast_frame(self._made("stored"), outside(self._columns, widths, looks, self._lacks))

    def _schema(self) -> pa.Schema:
        fields = arrow_schema(self._columns)
        return pa.schema([f.with_nullable(i in self._lacks) for i, f in enumerate(fields)])


def held(
    columns: tuple[Column, ...], data: pa.Table, workspace: Workspace, *, is_loose: bool = False
) -> SparkTable:
    """A table of facts that stay in this process; `is_loose` if some may be there twice.

    A frame of few has them in its plan. Of many that would be slow, for a plan is copied, analysed
    and sent to tasks: they are written to the staging folder, if tasks see it.
    """
    session, staging = workspace.session, workspace.staging
    files: list[str] = []
    rows = LocalRows(data, is_loose=is_loose)

    def make(shape: TableShape) -> DataFrame:
        is_stored = shape == "stored"
        wanted = file_schema(columns) if is_stored else schema(columns)
        facts = arrow_table(rows.facts, columns, stored_schema(columns) if is_stored else None)
        folder = staging.folder if staging.is_on_every_disk else None
        if facts.num_rows > SMALL and is_connect(session):
            streams: Any = in_streams(session, facts)
            return streams.mapInArrow(unpacker(), wanted)
        if folder is None or facts.nbytes < _MANY_BYTES:
            frame = create_frame(session, facts, wanted)
            return _in_one(frame) if facts.nbytes < _MANY_BYTES else frame
        if not files:
            saved = arrow_table(rows.facts, columns, stored_schema(columns))
            files.append(write_facts(saved.to_batches(), saved.schema, folder))
        return session.read.schema(wanted).parquet(files[-1])

    return SparkTable(columns, make, held=rows, files=files, staging=staging)


def _in_one(frame: DataFrame) -> DataFrame:
    """A frame of few rows in one partition; Spark would cut it for all tasks, and shuffle it."""
    return frame.coalesce(1)


def _is_plain(data: pa.Table, columns: Sequence[Column]) -> bool:
    """Whether facts are few, and of the types of a user's frame: Spark has nothing to do for that.

    Names must be told apart, too.
    """
    names = {column.name.lower() for column in columns}
    is_as_it_was = not any(
        column.type.is_decimal or column.type is Type.DATETIME for column in columns
    )
    is_few = cast("Any", data).nbytes < _MANY_BYTES
    return is_few and is_as_it_was and 0 < len(names) == len(columns)


def distinct(data: pa.Table) -> pa.Table:
    """The rows of an Arrow table, each once."""
    if not data.num_columns:
        return first_rows(data, 1)
    packed = _pack_rows(data)
    if packed is not None:
        keys, fields = packed
        keys.sort()
        is_first = np.append(True, keys[1:] != keys[:-1])  # far quicker than to group rows
        return data if is_first.all() else _unpack_rows(keys[is_first], fields, data.schema)
    # Positions for names: users' may be equal, and Arrow wants to tell them apart.
    places = [str(i) for i in range(data.num_columns)]
    rows = cast("Any", data).rename_columns(places).group_by(places, use_threads=False)
    return rows.aggregate([]).select(places).rename_columns(data.column_names)


def _pack_rows(data: pa.Table) -> tuple[NDArray[np.uint64], list[tuple[int, int]]] | None:
    """Each row of whole numbers as one number, and where columns are in it: bits, least value.

    None if 64 bits are too few.
    """
    columns: list[Any] = data.columns
    if not data.num_rows or not all(pa.types.is_signed_integer(each.type) for each in columns):
        return None
    keys, fields = np.zeros(data.num_rows, np.uint64), list[tuple[int, int]]()
    for column in columns:
        numbers = numpy_of(column)
        low, high = int(numbers.min()), int(numbers.max())
        bits = (high - low).bit_length()
        fields.append((bits, low))
        if sum(bits for bits, _ in fields) > _WORD:
            return None
        if bits:
            keys <<= np.uint64(bits % _WORD)
            keys |= numbers.astype(np.int64).view(np.uint64) - np.uint64(low % (1 << _WORD))
    return keys, fields


def _unpack_rows(
    keys: NDArray[np.uint64], fields: Sequence[tuple[int, int]], schema: pa.Schema
) -> pa.Table:
    """The rows behind such numbers."""
    columns: list[Any] = []
    for (bits, low), field in zip(reversed(fields), reversed(list(schema)), strict=True):
        numbers = (keys & np.uint64((1 << bits) - 1)) + np.uint64(low % (1 << _WORD))
        keys = keys >> np.uint64(bits) if bits < _WORD else np.zeros_like(keys)
        columns.append(arrow_of(numbers.view(np.int64)).cast(field.type))
    return pa.Table.from_arrays(columns[::-1], schema=schema)


def _conditions(table: SparkTable, goal: CoreGoal) -> list[Any]:
    """What a goal's constants and repeated variables ask of a frame."""
    found: list[Any] = []
    for i, value in goal.constants:
        found.append(sf.col(f"c{i}") == literal(value, table.columns[i].type))
    return found + [sf.col(f"c{i}") == sf.col(f"c{j}") for i, j in goal.repeated]


def _match_goal(data: pa.Table, goal: CoreGoal) -> pa.Table:
    """What a goal's constants and repeated variables leave of an Arrow table."""
    table: Any = data
    for i, value in goal.constants:
        column = table.column(i)
        if isinstance(value, float) and math.isnan(value):
            table = table.filter(compute.is_nan(column))
        else:
            wide = column.cast(_wide(column.type))
            table = table.filter(compute.equal(wide, pa.scalar(value, wide.type)))
    for i, j in goal.repeated:
        one, other = table.column(i), table.column(j)
        same = compute.equal(one, other)
        if pa.types.is_floating(one.type) and pa.types.is_floating(other.type):
            same = compute.or_(same, compute.and_(compute.is_nan(one), compute.is_nan(other)))
        table = table.filter(same)
    return table


def _wide(type: pa.DataType) -> pa.DataType:
    """The type in which values are compared: the widest of their kind."""
    if pa.types.is_integer(type):
        return pa.int64()
    return pa.float64() if pa.types.is_floating(type) else type
