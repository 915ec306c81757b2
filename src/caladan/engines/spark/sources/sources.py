"""Data of every kind as tables of the engine.

A DataFrame that one task may want whole is taken by one collect of Arrow columns, and checked here,
in columns: Spark would need several jobs for that, and the task another one.

Rows of what is larger are checked by Spark as they are read. At the first that it will not take,
reading stops, and `caladan.data` has a closer look at the rows or files in question, in this
process: its reader knows every oddity, and says what is wrong in the same words on every engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions as sf

from caladan.data import load as in_process, memory
from caladan.data.convert import check_kind
from caladan.data.infer import from_spark
from caladan.data.problems import BadRow, rejected_table, report
from caladan.data.schema import match_columns
from caladan.data.source import Source
from caladan.engines.spark.choice import ENOUGH_FOR_ONE
from caladan.engines.spark.session.connect import is_connect
from caladan.engines.spark.session.failures import is_bad_row, said
from caladan.engines.spark.session.session import moved
from caladan.engines.spark.session.workspace import Workspace
from caladan.engines.spark.sources import files
from caladan.engines.spark.sources.external import unreadable
from caladan.engines.spark.sources.fields import from_column
from caladan.engines.spark.sources.table import SparkTable
from caladan.engines.spark.sources.validity import CheckedRows, from_arrow, from_process, table
from caladan.program import Column
from caladan.program.diagnostics import error

Found: TypeAlias = "tuple[SparkTable, pa.Table | None]"

_ROW: Final = 16  # bytes of a row, for guessing how many there are
_UNKNOWN: Final = 1 << 50  # what Spark calls a frame of which it knows nothing, or less
_TOO_LARGE: Final = "spark.driver.maxResultSize"
_EXAMPLES: Final = (
    1000  # wrong rows of a frame that are brought here to say what is wrong with them
)


def load(
    relation: str,
    source: Source,
    columns: tuple[Column, ...],
    workspace: Workspace,
    *,
    permissive: bool,
) -> Found:
    """The facts of a source, each once, and, if permissive, the rows set aside."""
    if source.kind == "path":
        return files.load(relation, source, columns, workspace, permissive=permissive)
    if source.kind == "spark":
        return _from_frame(relation, source, columns, workspace, permissive=permissive)
    found, rejected = in_process.load(relation, source, columns, permissive=permissive)
    return from_process(found, columns, workspace), rejected


def _from_frame(
    relation: str,
    source: Source,
    columns: tuple[Column, ...],
    workspace: Workspace,
    *,
    permissive: bool,
) -> Found:
    given = cast("DataFrame", source.data)
    if is_connect(given) != is_connect(workspace.session):
        kinds = ("a Spark driver", "Spark Connect")
        theirs, ours = kinds[is_connect(given)], kinds[is_connect(workspace.session)]
        raise error("C050", f"the data of {relation} is of {theirs}, the session of {ours}")
    places = match_columns(relation, None, given.columns, columns)
    types = [given.schema.fields[place].dataType.simpleString() for place in places]
    names = given.columns
    # As it is, where nothing is left out: Spark has planned it if it was read before.
    is_whole = len(places) == len(names) == len({*names}) == len({*places})
    if not is_connect(given):
        from_spark(relation, [(c.name, t) for c, t in zip(columns, types, strict=True)])
        taken_of = given if is_whole else _chosen(given, places)
        arrow: Any = _taken(relation, source, taken_of, workspace)
        if arrow is not None:
            found, bad = _read(relation, arrow.select([*places]) if is_whole else arrow, columns)
            if bad and not permissive:
                raise report(bad)
            return from_process(found, columns, workspace), rejected_table(bad) if bad else None
    frame = moved(_chosen(given, places), workspace.session)
    fields = [
        from_column(relation, None, f"g{i}", spelled, column)
        for i, (spelled, column) in enumerate(zip(types, columns, strict=True))
    ]
    rows = CheckedRows.of(frame.select("*", sf.lit(None).cast("string").alias("file")), fields)
    try:
        return table(rows.strict(), columns, workspace), None
    except (PySparkException, Py4JError) as problem:
        if not is_bad_row(problem):
            raise _unreadable(relation, source, problem) from None
    wrong = frame.where(~rows.ok)
    total = wrong.count()
    shown = wrong if permissive else wrong.limit(_EXAMPLES)
    taken, bad = _closer_look(relation, shown, columns)
    if bad and not permissive:
        raise report(bad, total - taken.num_rows)
    facts = rows.good().union(from_arrow(taken, columns, workspace))
    return table(facts, columns, workspace), rejected_table(bad) if bad else None


def _chosen(given: DataFrame, places: Sequence[int]) -> DataFrame:
    """Some columns of a frame, whose names may be equal, as g0 …"""
    frame = given.toDF(*(f"f{i}" for i in range(len(given.columns))))
    return frame.select(*(sf.col(f"f{place}").alias(f"g{i}") for i, place in enumerate(places)))


def _taken(
    relation: str, source: Source, frame: DataFrame, workspace: Workspace
) -> pa.Table | None:
    """All rows of a frame, evaluated as its own session would; None if they are too many.

    Where Spark does not know how many there are, it ends the job that would collect too much.
    """
    guess = _guess(frame)
    most = _most(workspace)
    if guess is None or guess > most:
        return None
    workspace.check()
    try:
        return cast("Any", frame).toArrow()
    except (PySparkException, Py4JError) as problem:
        if _TOO_LARGE in said(problem):
            return None
        raise _unreadable(relation, source, problem) from None


def _guess(frame: DataFrame) -> int | None:
    """How many bytes Spark takes a frame to have, 0 if it does not know; None if it won't tell."""
    try:
        size = int(cast("Any", frame)._jdf.queryExecution().optimizedPlan().stats().sizeInBytes())
    except (AttributeError, TypeError, Py4JError):  # no public interface
        return None
    return size if size < _UNKNOWN else 0


def _most(workspace: Workspace) -> int:
    """Bytes up to which rows are taken: a part of what Spark lets a driver collect."""
    conf = cast("Any", workspace.session.sparkContext)._jsc.sc().conf()
    allowed = int(conf.getSizeAsBytes(_TOO_LARGE, "1g"))
    return min(ENOUGH_FOR_ONE * _ROW, allowed // 2 if allowed else 1 << 62)


def _unreadable(relation: str, source: Source, problem: Exception) -> Exception:
    return problem if source.place is None else unreadable(relation, source.place, problem)


def _closer_look(
    relation: str, wrong: DataFrame, columns: Sequence[Column]
) -> tuple[pa.Table, list[BadRow]]:
    """Rows that Spark did not take: those that are right after all, and what is wrong."""
    return _read(relation, cast("Any", wrong).toArrow(), columns)


def _read(
    relation: str, arrow: pa.Table, columns: Sequence[Column]
) -> tuple[pa.Table, list[BadRow]]:
    """The rows of a frame that fit, and what is wrong with the others."""
    bad: list[BadRow] = []
    named = cast("Any", arrow).rename_columns([column.name for column in columns])
    for column, data in zip(columns, named.columns, strict=True):
        check_kind(relation, None, column, data.type)
    taken = memory.read(relation, named, columns, bad)
    # Rows of a frame have no order, so their numbers here would mean nothing.
    return taken, [replace(row, line=None) for row in bad]
