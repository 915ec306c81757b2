"""What is to be read; rows that were, with whether they can be taken; and what becomes of them.

`CheckedRows.strict` raises at the first row that cannot, in the middle of a job; so data that is
right, as most is, takes one job. `good` leaves such rows out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql import functions as sf
from pyspark.sql.types import StructField, StructType

from caladan.data import load as in_process
from caladan.data.missing import complete_table as complete_rows, pair_columns, values
from caladan.data.problems import BadRow, rejected_table, report
from caladan.data.schema import empty_table
from caladan.data.source import Source
from caladan.engines.spark.choice import partitions
from caladan.engines.spark.columns.expressions import raise_error_column
from caladan.engines.spark.columns.physical import arrow_table, names
from caladan.engines.spark.columns.types import schema, stand_in
from caladan.engines.spark.session.connect import is_connect
from caladan.engines.spark.session.failures import BAD_ROW
from caladan.engines.spark.session.internals import read_observed
from caladan.engines.spark.session.staging import gather_files, nulls_of, remove, rows_of
from caladan.engines.spark.session.workspace import FrameRun, Workspace, release
from caladan.engines.spark.sources.fields import Field
from caladan.engines.spark.sources.table import SparkTable, TableShape, distinct, held
from caladan.program import Column

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column as SparkColumn, DataFrame

ReadTable: TypeAlias = "tuple[SparkTable, pa.Table | None]"
"""Facts, each once, and, if permissive, the rows set aside."""

_LACKING: Final = "lacking"

MANY: Final = 100_000
"""Rows in this process that are not compared before they have to be."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What is to be read: a source, for a relation of such columns.

    If permissive, rows that cannot be taken are set aside; else they are an error.
    """

    relation: str
    source: Source
    columns: tuple[Column, ...]
    workspace: Workspace
    permissive: bool

    @property
    def own(self) -> tuple[Column, ...]:
        """The columns that the source has."""
        return values(self.columns)

    def in_process(self) -> ReadTable:
        """What `caladan.data` reads of it here."""
        found, rejected = self.looked_at(self.source)
        return from_process(found, self.columns, self.workspace), rejected

    def looked_at(self, source: Source) -> tuple[pa.Table, pa.Table | None]:
        """The same of another source, as rows."""
        return in_process.load(self.relation, source, self.columns, permissive=self.permissive)

    def judged(self, bad: list[BadRow], total: int | None = None) -> pa.Table | None:
        """The rows set aside, if there are any; an error of `total` rows unless permissive."""
        if bad and not self.permissive:
            raise report(bad, total)
        return rejected_table(bad) if bad else None


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """A frame with a column `file`; how its rows become facts, and whether they can."""

    frame: DataFrame
    values: tuple[SparkColumn, ...]
    ok: SparkColumn

    @staticmethod
    def of(
        frame: DataFrame, fields: Sequence[Field], and_ok: SparkColumn | None = None
    ) -> CheckedRows:
        """Rows that can be taken if all fields are right, and another condition holds."""
        conditions = [field.ok for field in fields]
        if and_ok is not None:
            conditions.insert(0, and_ok)
        ok = reduce(lambda a, b: a & b, conditions, sf.lit(True))
        values = tuple(field.value for field in fields) or (sf.lit(True),)
        return CheckedRows(frame, values, sf.coalesce(ok, sf.lit(False)))

    def strict(self) -> DataFrame:
        """Facts c0 …; an error where a row cannot be taken."""
        first, *others = self.values
        guarded = sf.when(self.ok, first).otherwise(raise_error_column(BAD_ROW))
        return self._facts(self.frame, (guarded, *others))

    def good(self, *, but_of: Sequence[str] = ()) -> DataFrame:
        """Facts of the rows that can be taken, but not of some files."""
        frame = self.frame.where(self.ok)
        if but_of:
            frame = frame.where(~sf.col("file").isin(*but_of))
        return self._facts(frame, self.values)

    def wrong_files(self) -> list[str]:
        """The files with rows that cannot be taken."""
        rows = self.frame.where(~self.ok).select("file").distinct().collect()
        return [row[0] for row in rows]

    def _facts(self, frame: DataFrame, values: Sequence[SparkColumn]) -> DataFrame:
        return frame.select(*(value.alias(f"c{i}") for i, value in enumerate(values)))


def table(
    facts: DataFrame,
    columns: tuple[Column, ...],
    workspace: Workspace,
    rows: int | None = None,
    verify: Callable[[DataFrame], None] | None = None,
) -> SparkTable:
    """A table of facts, each once; `rows` is how many there may be, if that is known.

    `verify` is shown the frame once it has been computed; nobody sees one that is left in files.
    """
    if len(values(columns)) < len(columns):
        facts = complete_frame(facts, columns)
    if verify is None and columns and is_connect(workspace.session):
        run = workspace.materialise(facts)
        if lacks := _find_lacking(run.frame, columns):
            return _again(run, columns, lacks, workspace)
        once = _once(run.frame, run.count, columns, workspace)
        return SparkTable(columns, once, [run], at_most=run.count, loose=run.frame)
    if verify is None and columns and workspace.staging.folder is not None:
        return _left(facts, columns, workspace)
    most = workspace.parallelism
    count = most if rows is None else partitions(rows, most)
    workspace.spread(count)
    frame = (facts.coalesce(1) if count == 1 else facts).distinct()
    is_observed = bool(columns) and not is_connect(workspace.session)
    if is_observed:
        frame = frame.observe(_LACKING, *_gaps(columns))
    run = workspace.materialise(frame)
    if verify is not None:
        verify(frame)
    if is_observed:
        found = read_observed(frame, _LACKING, len(columns))
        lacks = [i for i, number in enumerate(found) if number]
    else:
        lacks = _find_lacking(run.frame, columns)
    if lacks:
        return _again(run, columns, lacks, workspace)
    return SparkTable(columns, run.frame, [run], run.count)


def _find_lacking(frame: DataFrame, columns: Sequence[Column]) -> list[int]:
    """The columns in which values are missing."""
    if not columns:
        return []
    found = frame.agg(*_gaps(columns)).head()
    return [i for i, number in enumerate(found or ()) if number]


def _gaps(columns: Sequence[Column]) -> list[SparkColumn]:
    """How many values of each column are missing."""
    return [sf.count_if(sf.col(name).isNull()).alias(name) for name in names(columns)]


def _again(
    run: FrameRun, columns: tuple[Column, ...], lacks: Sequence[int], workspace: Workspace
) -> SparkTable:
    """A table of facts that turned out to lack values, without nulls."""
    both = pair_columns(columns, lacks)
    whole = workspace.materialise(complete_frame(run.frame, both))
    release(run)
    return SparkTable(both, whole.frame, [whole], whole.count)


def complete_frame(frame: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """A frame of values with the columns that say which of them are there."""
    found: list[SparkColumn] = []
    place = 0
    for column, type in zip(columns, schema(columns), strict=True):
        value = sf.col(f"c{place}")
        if column.role != "value":
            is_row = column.role == "row"
            found.append(sf.monotonically_increasing_id() if is_row else value.isNotNull())
            continue
        place += 1
        is_paired = bool(found) and columns[len(found) - 1].role == "present"
        found.append(sf.coalesce(value, stand_in(type.dataType)) if is_paired else value)
    return frame.select(*(each.alias(f"c{i}") for i, each in enumerate(found)))


def _left(facts: DataFrame, columns: tuple[Column, ...], workspace: Workspace) -> SparkTable:
    """A table of facts that executors leave in the staging folder, for tasks to read.

    To have each once Spark would shuffle all of them, and hold them; tasks sort them in any case.
    """
    session, staging = workspace.session, workspace.staging
    uri = staging.file("input", "parquet")
    workspace.check()
    facts.write.parquet(uri)
    files = [*gather_files(uri)]
    rows = sum(map(rows_of, files))
    if lacks := sorted({i for file in files for i in nulls_of(file)}):
        both = pair_columns(columns, lacks)
        there = session.read.schema(_nullable(schema(columns))).parquet(*files)
        whole = _left(complete_frame(there, both), both, workspace)
        remove(files)
        return whole

    def make(_: TableShape) -> DataFrame:
        frame = session.read.schema(schema(columns)).parquet(*files)
        return _once(frame, rows, columns, workspace)

    if not rows:
        remove(files)
        return empty(columns, workspace)
    return SparkTable(columns, make, files=files, staging=staging, at_most=rows)


def _once(
    frame: DataFrame, rows: int, columns: tuple[Column, ...], workspace: Workspace
) -> DataFrame:
    """So many rows, each once."""
    parts = partitions(rows, workspace.parallelism)
    return frame.repartition(parts, *names(columns)).distinct()


def from_process(found: pa.Table, columns: tuple[Column, ...], workspace: Workspace) -> SparkTable:
    """A table of rows that are in this process: they stay here until somebody wants a frame.

    To make a frame of them takes Spark far longer than to read them took. Of many it shows later
    which are the same: tasks sort them in any case.
    """
    found, columns = complete_rows(found, columns)
    is_loose = found.num_rows > MANY
    made = held(columns, found if is_loose else distinct(found), workspace, is_loose=is_loose)
    made.rows_given = found.num_rows
    return made


def empty(columns: tuple[Column, ...], workspace: Workspace) -> SparkTable:
    """A table without facts."""
    return held(columns, empty_table(columns), workspace)


def from_arrow(found: pa.Table, columns: tuple[Column, ...], workspace: Workspace) -> DataFrame:
    """An Arrow table of the declared types as facts, perhaps with nulls."""
    own = values(columns)
    return workspace.local(arrow_table(found, own), _nullable(schema(own)))


def _nullable(fields: StructType) -> StructType:
    return StructType([StructField(each.name, each.dataType) for each in fields])
