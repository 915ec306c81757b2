"""Data of every kind as tables of the engine.

Rows are checked by Spark as they are read. At the first that it will not take, reading stops, and
`caladan.data` has a closer look at the rows or files in question, in this process: its reader knows
every oddity, and says what is wrong in the same words on every engine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions as sf

from caladan.data import load as in_process, memory
from caladan.data.problems import BadRow, rejected_table, report
from caladan.data.schema import match_columns
from caladan.data.source import Source
from caladan.engines.spark.session.connect import is_connect
from caladan.engines.spark.session.failures import is_bad_row
from caladan.engines.spark.session.session import moved
from caladan.engines.spark.session.workspace import Workspace
from caladan.engines.spark.sources import files
from caladan.engines.spark.sources.checked import CheckedRows, from_arrow, from_process, table
from caladan.engines.spark.sources.external import unreadable
from caladan.engines.spark.sources.fields import from_column
from caladan.engines.spark.sources.table import SparkTable
from caladan.program import Column
from caladan.program.diagnostics import error

Found: TypeAlias = "tuple[SparkTable, pa.Table | None]"

_EXAMPLES = 1000  # wrong rows of a frame that are brought here to say what is wrong with them


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
    chosen = given.toDF(*(f"f{i}" for i in range(len(given.columns))))
    chosen = chosen.select(*(sf.col(f"f{place}").alias(f"g{i}") for i, place in enumerate(places)))
    frame = moved(chosen, workspace.session)
    types = [field.dataType.simpleString() for field in chosen.schema]
    fields = [
        from_column(relation, None, f"g{i}", spelled, column)
        for i, (spelled, column) in enumerate(zip(types, columns, strict=True))
    ]
    rows = CheckedRows.of(frame.select("*", sf.lit(None).cast("string").alias("file")), fields)
    try:
        return table(rows.strict(), columns, workspace), None
    except (PySparkException, Py4JError) as problem:
        if not is_bad_row(problem):
            if source.place is None:
                raise
            raise unreadable(relation, source.place, problem) from None
    wrong = frame.where(~rows.ok)
    total = wrong.count()
    shown = wrong if permissive else wrong.limit(_EXAMPLES)
    taken, bad = _closer_look(relation, shown, columns)
    if bad and not permissive:
        raise report(bad, total - taken.num_rows)
    facts = rows.good().union(from_arrow(taken, columns, workspace))
    return table(facts, columns, workspace), rejected_table(bad) if bad else None


def _closer_look(
    relation: str, wrong: DataFrame, columns: Sequence[Column]
) -> tuple[pa.Table, list[BadRow]]:
    """Rows that Spark did not take: those that are right after all, and what is wrong."""
    bad: list[BadRow] = []
    arrow = cast("Any", wrong).toArrow().rename_columns([column.name for column in columns])
    taken = memory.read(relation, arrow, columns, bad)
    # Rows of a frame have no order, so their numbers here would mean nothing.
    return taken, [replace(row, line=None) for row in bad]
