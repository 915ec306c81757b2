"""DuckDB: recursive CTEs and joins, from duckdb.sql of the program."""

from __future__ import annotations

from collections.abc import Callable

import duckdb

from bench.cases import Case
from bench.contestants import Measured
from bench.generate import Tables


def prepare(case: Case, tables: Tables, threads: int) -> Callable[[], Measured]:
    """Data goes into DuckDB's own tables first."""
    connection = duckdb.connect(config={"threads": threads})
    for name, table in tables.items():
        connection.register("given", table)
        # Names are ours, from cases.py.
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
        connection.unregister("given")
    text = case.text("duckdb.sql")
    assert text is not None

    def run() -> Measured:
        measured = Measured()
        with measured.timed():
            rows = connection.execute(text, dict(case.params) or None).fetchall()
        measured.counts = dict(rows)
        return measured

    return run
