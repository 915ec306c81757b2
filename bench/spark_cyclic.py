"""Triangles on Spark: Spark SQL's own plan, HyperCube (strategy cubed), and a single task.

    python -m bench.spark_cyclic [--times N] [FILE or CASE…]

One session on local[2], warm; all run in turn. Spark SQL twice: with the settings a session has
when nobody sets any, on the edges cached as a user would; and tuned to two shuffle partitions and
no adaptive execution, on edges that were checkpointed. Two questions about the triangles A → B → C,
A → C of a directed graph: how many there are, and all of them, written to Spark's `noop` sink.
Every contestant consumes the same: the number, or all rows as a DataFrame.

A time is the best wall time, with the mean CPU time of all processes together in brackets.

Names of bench/cases.py (`cycles-hub-1M`) have cycles A → B → C → A, and no Spark SQL: the binary
joins of that graph have 2.5 × 10¹¹ rows.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import caladan
from bench.cases import find
from bench.data import graph
from bench.processes import Taken, in_turn
from caladan.engines.spark.session.session import start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bench.generate import Tables

DEFAULT = ("wiki-Vote.tsv", "ego-Facebook.tsv", "cycles-hub-1M")

HEADS = {
    "count": "t(count<C>) <- {body}. query t(N).",
    "list": "t(A, B, C) <- {body}. query t(A, B, C).",
}
BODIES = {"triangle": "arc(A, B), arc(B, C), arc(A, C)", "cycle": "arc(A, B), arc(B, C), arc(C, A)"}
COLUMNS = {"count": "count(*)", "list": "x.A, x.B, y.B AS C"}
JOINS = "FROM arc x JOIN arc y ON x.B = y.A JOIN arc z ON z.A = x.A AND z.B = y.B"

ORDINARY = {"spark.sql.adaptive.enabled": "true", "spark.sql.shuffle.partitions": "200"}
TUNED = {"spark.sql.adaptive.enabled": "false", "spark.sql.shuffle.partitions": "2"}


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("graphs", nargs="*", default=DEFAULT)
    given = parser.parse_args()
    session = start(master="local[2]")
    print(
        "| graph | what | rows | SQL | SQL, tuned | cubed | single | SQL / cubed | tuned / cubed |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in given.graphs:
        is_file = "." in name
        tables = (graph(name) if is_file else find([name])[0].data).tables()
        for what in ("count", "list"):
            print(row(name, what, tables, session, given.times, is_file), flush=True)
    print(f"\nLoad average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    session.stop()


def row(
    name: str, what: str, tables: Tables, session: SparkSession, times: int, with_sql: bool
) -> str:
    """A line of the table."""
    body = BODIES["triangle" if with_sql else "cycle"]
    text = f"database({{arc(A: integer, B: integer)}}).\n{HEADS[what].format(body=body)}"
    with caladan.connect(session) as db:
        db.add("arc", tables["arc"])

        def rules(strategy: str) -> int | None:
            with db.run(text, strategy=strategy) as out:
                assert out.stats.strategy == strategy
                if what == "count":
                    return out.answer.rows()[0][0]
                consume(out.answer.spark())
                return out.answer.count()

        ways: dict[str, Callable[[], int | None]] = {
            "cubed": lambda: rules("cubed"),
            "single": lambda: rules("single"),
        }
        if with_sql:
            ways["sql"] = by_sql(session, ORDINARY, what, tables)
            ways["tuned"] = by_sql(session, TUNED, what, tables)
        counts = {count for way in ways.values() if (count := way()) is not None}
        assert len(counts) == 1, counts
        taken = in_turn(dict(ways), times=times)
    sql, tuned = taken.get("sql"), taken.get("tuned")
    cells = [name, what, f"{counts.pop():,}", sql or "", tuned or "", taken["cubed"]]
    cells += [taken["single"], ratio(sql, taken["cubed"]), ratio(tuned, taken["cubed"])]
    return f"| {' | '.join(map(str, cells))} |"


def by_sql(
    session: SparkSession, settings: dict[str, str], what: str, tables: Tables
) -> Callable[[], int | None]:
    """The question in SQL, in a session of these settings."""
    own = session.newSession()
    for key, value in settings.items():
        own.conf.set(key, value)
    edges = own.createDataFrame(tables["arc"].to_pandas())
    edges = edges.distinct().localCheckpoint() if settings is TUNED else edges.cache()
    edges.count()
    edges.createOrReplaceTempView("arc")

    def ask() -> int | None:
        found = own.sql(f"SELECT {COLUMNS[what]} {JOINS}")
        if what == "count":
            return found.collect()[0][0]
        consume(found)
        return None

    return ask


def consume(frame: DataFrame) -> None:
    """Have all rows made, and thrown away."""
    frame.write.format("noop").mode("overwrite").save()


def ratio(one: Taken | None, other: Taken) -> str:
    """How many times as long the first took, by wall and by CPU time."""
    return "" if one is None else f"{one.wall / other.wall:.1f} ({one.cpu / other.cpu:.1f})"


if __name__ == "__main__":
    main()
