"""Triangles on Spark: Spark SQL's own plan, cells (HyperCube), and a single task.

    python -m bench.spark_cyclic [FILE…]

One session on local[2]; the edges are cached. Each contestant runs once to warm up, then three
times in turn; the best counts. All count the triangles A → B → C, A → C of a directed graph.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

import caladan
from bench import frame_loop
from bench.data import graph
from caladan.engines.spark.cube import spread

DEFAULT = ("wiki-Vote.tsv", "ego-Facebook.tsv")

PROGRAM = """database({arc(A: integer, B: integer)}).
triangles(count<C>) <- arc(A, B), arc(B, C), arc(A, C).
query triangles(N)."""

SQL = """SELECT count(*) FROM arc x JOIN arc y ON x.B = y.A JOIN arc z ON z.A = x.A AND z.B = y.B"""


def main(files: list[str]) -> None:
    """Measure and print a table."""
    spread.WORTH_IT = 0  # cells, however few the edges
    session = frame_loop.session(2)
    print("| graph | triangles | Spark SQL | cells | single | SQL / cells | SQL / single |")
    print("|---|---|---|---|---|---|---|")
    for file in files:
        tables = graph(file).tables()
        frame_loop.loaded(session, tables)["arc"].createOrReplaceTempView("arc")
        with caladan.connect(session) as db:
            db.add("arc", tables["arc"])

            def rules(strategy: str, db: caladan.Session = db) -> int:
                with db.run(PROGRAM, strategy=strategy) as out:
                    return out.answer.rows()[0][0]

            ways: dict[str, Callable[[], int]] = {
                "sql": lambda: session.sql(SQL).collect()[0][0],
                "cells": lambda: rules("frame"),
                "single": lambda: rules("single"),
            }
            counts = {way() for way in ways.values()}
            assert len(counts) == 1, counts
            best = dict.fromkeys(ways, float("inf"))
            for _ in range(3):
                for name, way in ways.items():
                    started = time.perf_counter()
                    way()
                    best[name] = min(best[name], time.perf_counter() - started)
        sql, cells, single = best["sql"], best["cells"], best["single"]
        print(
            f"| {file} | {counts.pop():,} | {sql:.2f} s | {cells:.2f} s | {single:.2f} s "
            f"| {sql / cells:.1f} | {sql / single:.1f} |",
            flush=True,
        )
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1:] or list(DEFAULT))
