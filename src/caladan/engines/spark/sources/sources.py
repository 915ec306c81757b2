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
from typing import Any, Final, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions as sf

from caladan.data import memory
from caladan.data.convert import check_kind
from caladan.data.infer import from_spark
from caladan.data.missing import values
from caladan.data.problems import BadRow
from caladan.data.schema import match_columns
from caladan.engines.spark.choice import ENOUGH_FOR_ONE
from caladan.engines.spark.session import internals
from caladan.engines.spark.session.connect import estimate_bytes, is_connect
from caladan.engines.spark.session.failures import is_bad_row, said
from caladan.engines.spark.session.session import move_frame
from caladan.engines.spark.session.workspace import Workspace
from caladan.engines.spark.sources import files
from caladan.engines.spark.sources.external import unreadable
from caladan.engines.spark.sources.fields import from_column
from caladan.engines.spark.sources.validity import (
    CheckedRows,
    Reading,
    ReadTable,
    from_arrow,
    from_process,
    table,
)
from caladan.program import Column
from caladan.program.diagnostics import error

_ROW: Final = 16  # bytes of a row, for guessing how many there are
_PACKED: Final = 8  # times more rows may take than Spark believes
_VALUE: Final = 16  # bytes of a value, which may be text
_COPIES: Final = 16  # times what is taken that a driver's heap must have
_OFF: Final = 64  # times more that a guess of Spark's must be to be taken for none
_FEW_BYTES: Final = 8 << 20  # of a frame of Spark Connect that is brought here
_TOO_LARGE: Final = "spark.driver.maxResultSize"
_KNOWN: Final = "_caladan_room"  # where a SparkContext keeps how much is taken
_EXAMPLES: Final = (
    1000  # wrong rows of a frame that are brought here to say what is wrong with them
)


def load(reading: Reading) -> ReadTable:
    """The facts of a source, each once, and, if permissive, the rows set aside."""
    if reading.source.kind == "path":
        return files.load(reading)
    return _from_frame(reading) if reading.source.kind == "spark" else reading.in_process()


def _from_frame(reading: Reading) -> ReadTable:
    relation, workspace, both = reading.relation, reading.workspace, reading.columns
    columns = values(both)
    given = cast("DataFrame", reading.source.data)
    if is_connect(given) != is_connect(workspace.session):
        kinds = ("a Spark driver", "Spark Connect")
        theirs, ours = kinds[is_connect(given)], kinds[is_connect(workspace.session)]
        raise error("C050", f"the data of {relation} is of {theirs}, the session of {ours}")
    places = match_columns(relation, None, given.columns, columns)
    types = [given.schema.fields[place].dataType.simpleString() for place in places]
    names = given.columns
    # As it is, where nothing is left out: Spark has planned it if it was read before.
    is_whole = len(places) == len(names) == len({*names}) == len({*places})
    chosen = given if is_whole else _choose_columns(given, places)
    from_spark(relation, [(c.name, t) for c, t in zip(columns, types, strict=True)])
    try:
        chosen, arrow = _take_rows(chosen, workspace)
    except (PySparkException, Py4JError) as problem:
        raise _unreadable(reading, problem) from None
    if arrow is not None:
        found, bad = _read(relation, arrow.select([*places]) if is_whole else arrow, columns)
        rejected = reading.judged(bad)
        return from_process(found, both, workspace), rejected
    chosen = _choose_columns(chosen, places) if is_whole else chosen
    frame = move_frame(chosen, workspace.session)
    fields = [
        from_column(relation, None, f"g{i}", spelled, column).unless(
            sf.col(f"g{i}").isNull(), column
        )
        for i, (spelled, column) in enumerate(zip(types, columns, strict=True))
    ]
    rows = CheckedRows.of(frame.select("*", sf.lit(None).cast("string").alias("file")), fields)
    try:
        return table(rows.strict(), both, workspace), None
    except (PySparkException, Py4JError) as problem:
        if not is_bad_row(problem):
            raise _unreadable(reading, problem) from None
    wrong = frame.where(~rows.ok)
    total = wrong.count()
    shown: Any = wrong if reading.permissive else wrong.limit(_EXAMPLES)
    taken, bad = _read(relation, shown.toArrow(), columns)
    rejected = reading.judged(bad, total - taken.num_rows)
    facts = rows.good().union(from_arrow(taken, columns, workspace))
    return table(facts, both, workspace), rejected


def _choose_columns(given: DataFrame, places: Sequence[int]) -> DataFrame:
    """Some columns of a frame, whose names may be equal, as g0 …"""
    frame = given.toDF(*(f"f{i}" for i in range(len(given.columns))))
    return frame.select(*(sf.col(f"f{place}").alias(f"g{i}") for i, place in enumerate(places)))


def _take_rows(frame: DataFrame, workspace: Workspace) -> tuple[DataFrame, Any]:
    """A frame, and all its rows, evaluated as its own session would; None if they are too many.

    Spark's guess may be far off: files are packed, and a join is taken for a product. So unless it
    is small, rows are counted first, and computed for that but once: a driver that is sent more
    than it has room for may never answer.
    """
    if is_connect(frame):  # it may be far away: only what is sent back in no time comes here
        size = estimate_bytes(frame)
        few = size is not None and size <= _FEW_BYTES
        return frame, cast("Any", frame).toArrow() if few else None
    most, size = _most(workspace), internals.estimated_bytes(frame)
    if size is None or most < size <= most * _OFF:
        return frame, None
    workspace.check()
    if size * _PACKED > most:
        if frame.storageLevel.useMemory or frame.storageLevel.useDisk:
            rows = frame.count()
        else:
            run = workspace.materialise(frame)
            frame, rows = run.frame, run.count
        if rows * len(frame.columns) * _VALUE > most:
            return frame, None
    try:
        return frame, cast("Any", frame).toArrow()
    except (PySparkException, Py4JError) as problem:
        if _TOO_LARGE in said(problem):
            return frame, None
        raise


def _most(workspace: Workspace) -> int:
    """Bytes up to which rows are taken: a part of what a driver collects, and has room for.

    Rows are in its heap several times, as batches, as the result of a task, and on their way here.
    """
    context: Any = workspace.session.sparkContext
    if _KNOWN not in context.__dict__:  # a dozen questions to the JVM, for every relation
        allowed = internals.size_setting(context, _TOO_LARGE, "1g")
        heap = internals.heap(context)
        most = min(ENOUGH_FOR_ONE * _ROW, allowed // 2 if allowed else heap, heap // _COPIES)
        context.__dict__[_KNOWN] = most
    return context.__dict__[_KNOWN]


def _unreadable(reading: Reading, problem: Exception) -> Exception:
    place = reading.source.place
    return problem if place is None else unreadable(reading.relation, place, problem)


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
