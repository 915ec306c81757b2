"""Spark SQL as the SQL engine.

Queries run in a session of their own beside the user's, so that neither its settings nor its views
are touched. Frames are temporary views there while a script runs, under names that nobody else has.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as sf

from caladan.data.frames import first_line
from caladan.data.nested import all_inward
from caladan.data.schema import outer_type, spark_type
from caladan.data.source import Source, source
from caladan.engines.interface import Table
from caladan.engines.spark.columns.nested import outward
from caladan.engines.spark.session.connect import is_connect, when_unused
from caladan.engines.spark.session.failures import quietly, said
from caladan.engines.spark.session.session import beside, create_frame, move_frame
from caladan.language.rasql.script import Hint
from caladan.program import Column, Type
from caladan.program.diagnostics import SourceText
from caladan.sql.engine import Frame, FrameColumn, apart, generate, key_of, no_type, refuse

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

T = TypeVar("T")


_HANDED_OUT: Final[dict[str, str]] = {
    "timestamp": "timestamp_ntz",
    "void": "string",
}

_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

_CHILDREN: Final[WeakKeyDictionary[SparkSession, SparkSession]] = WeakKeyDictionary()
"""Of each session, the one beside it: to Connect one more is a Python more, for an hour."""

_HINTS: Final[dict[Hint, str]] = {"broadcast": "broadcast", "shuffle": "shuffle_merge"}


class SparkSQL:
    """Answers SQL on Spark."""

    def __init__(self, session: SparkSession, written: SourceText) -> None:
        self.session = session
        self._written = written
        self.child = _child(session)
        self._stem = f"caladan_{uuid.uuid4().hex}"
        self._count = 0

    def table(self, data: pa.Table | DataFrame) -> Frame:
        """An Arrow table, or a DataFrame of any session."""
        if isinstance(data, DataFrame):
            frame = move_frame(data, self.child)
        else:
            frame = create_frame(self.child, data)
        return self._frame(frame)

    def held(self, table: Table) -> Frame:
        return self.table(outward(table.spark(self.session), table.columns))

    def query(self, tree: exp.Query, frames: Mapping[str, Frame]) -> Frame:
        """A DataFrame of a query, analysed but not evaluated."""
        names: list[str] = []

        def name(table: exp.Table) -> str:
            self._count += 1  # never a name again: with Connect an earlier query may yet read it
            names.append(f"{self._stem}_{self._count}")
            frames[key_of(table)].handle.createOrReplaceTempView(names[-1])
            return names[-1]

        text, found = generate(tree, name, "spark"), None
        try:
            with quietly():
                found = self.child.sql(text.sql, args=dict(text.values) or None)
                return self._frame(found, tree)
        except (PySparkException, Py4JError) as problem:
            raise refuse(_message(problem), tree, self._written) from None
        finally:
            drop = partial(_drop, self.child, tuple(names))
            if found is not None and is_connect(self.child):  # a query is text until it runs
                when_unused(found, drop)
            else:
                drop()

    def nulls(self, frame: Frame) -> list[str]:
        """The columns in which there is a NULL; a job of its own."""
        handle = cast("DataFrame", frame.handle)
        open_ = [i for i, column in enumerate(frame.columns) if column.nullable]
        if not open_:
            return []
        numbered = handle.toDF(*(f"c{i}" for i in range(len(frame.columns))))
        tests = [sf.max(sf.col(f"c{i}").isNull()).alias(f"c{i}") for i in open_]
        try:
            with quietly():
                row = numbered.agg(*tests).collect()[0]
        except (PySparkException, Py4JError) as problem:
            raise refuse(_message(problem), frame.tree, self._written) from None
        return [frame.columns[i].name for i in open_ if row[f"c{i}"]]

    def source(self, frame: Frame, hint: Hint | None) -> Source:
        """The rows as data, with the hint for the joins that they take part in."""
        handed = self._handed_out(frame)
        if hint is not None:
            handed = handed.hint(_HINTS[hint])
        return source(self._stem, handed)

    def result(self, frame: Frame, *, is_ordered: bool) -> Table:
        """The rows as a table; evaluated when somebody looks."""
        columns = tuple(Column(c.name, c.type) for c in frame.columns if c.type)
        return SqlTable(columns, self._handed_out(frame), frame.tree, self._written)

    def close(self) -> None:
        """Views are dropped after each query, or with it; nothing is left."""

    def _handed_out(self, frame: Frame) -> DataFrame:
        """Columns of types that relations have; names as they are."""
        handle = cast("DataFrame", frame.handle)
        numbered = handle.toDF(*(f"c{i}" for i in range(len(frame.columns))))
        columns: list[Any] = []
        for i, column in enumerate(frame.columns):
            if column.type is None:
                raise no_type(column.name, column.spelled, frame.tree, self._written)
            wanted = _HANDED_OUT.get(column.spelled)
            value = sf.col(f"c{i}")
            columns.append(value.cast(wanted) if wanted else value)
        chosen = numbered.select(*columns) if columns else numbered
        return chosen.toDF(*(column.name for column in frame.columns))

    def _frame(self, frame: DataFrame, tree: exp.Query | None = None) -> Frame:
        names = apart(frame.columns)
        renamed = frame.toDF(*names)
        return Frame(
            tuple(
                FrameColumn(field.name, _type(spelled), spelled, field.nullable)
                for field in renamed.schema
                for spelled in [field.dataType.simpleString()]
            ),
            renamed,
            tree,
        )


@dataclass(frozen=True, slots=True)
class SqlTable:
    """The result of a query on Spark."""

    columns: tuple[Column, ...]
    frame: DataFrame
    tree: exp.Query | None
    written: SourceText

    def count(self) -> int:
        return self._attempt(self.frame.count)

    def arrow(self, limit: int | None = None) -> pa.Table:
        import pyarrow as pa

        frame = self.frame if limit is None else self.frame.limit(limit)
        found = self._attempt(lambda: cast("Any", frame).toArrow())
        types = [outer_type(column.type) for column in self.columns]
        columns = [c.cast(t) for c, t in zip(found.columns, types, strict=True)]
        whole = pa.table(columns, names=[column.name for column in self.columns])
        return all_inward(whole, self.columns)

    def spark(self, session: Any) -> DataFrame:
        """The rows as a DataFrame of a session."""
        return move_frame(self.frame, session)

    def close(self) -> None:
        """There is nothing to let go of."""

    def _attempt(self, work: Callable[[], T]) -> T:
        try:
            with quietly():
                return work()
        except (PySparkException, Py4JError) as problem:
            raise refuse(_message(problem), self.tree, self.written) from None


def _child(session: SparkSession) -> SparkSession:
    """The session beside one, in which its queries run."""
    if session not in _CHILDREN:
        made = beside(session)
        for key, value in _SETTINGS.items():
            made.conf.set(key, value)
        _CHILDREN[session] = made
    return _CHILDREN[session]


def _drop(session: SparkSession, views: tuple[str, ...]) -> None:
    for each in views:
        session.catalog.dropTempView(each)


def _message(problem: BaseException) -> str:
    return first_line(said(problem))


def _type(spelled: str) -> Type | None:
    return Type.STRING if spelled == "void" else spark_type(spelled)
