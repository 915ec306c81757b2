"""What Spark's own WITH RECURSIVE does not do, shown on Spark itself.

    python examples/sql/spark_with_recursive.py

Each question is asked of Spark, then of Caladan on the same session.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

import caladan as cal

CLOSURE = """
WITH RECURSIVE tc(Src, Dst) AS (
  SELECT Src, Dst FROM {table} UNION {all} {step}
) SELECT count(*) FROM (SELECT DISTINCT Src, Dst FROM tc)
"""
LINEAR = "SELECT tc.Src, e.Dst FROM tc, {table} e WHERE tc.Dst = e.Src"
HALVES = "SELECT a.Src, b.Dst FROM tc a, tc b WHERE a.Dst = b.Src"

QUESTIONS = (
    ("a ring of 3: UNION inside recursion", "ring", "", LINEAR),
    ("a ring of 3: it goes round for ever", "ring", "ALL", LINEAR),
    ("a chain of 110: more than 100 levels", "chain", "ALL", LINEAR),
    ("a chain of 10: two halves make a path", "short", "ALL", HALVES),
)


def main() -> None:
    """Print what both say to each question."""
    with cal.connect("spark") as db:
        spark = SparkSession.getActiveSession()  # the one that `connect` found, or started
        graphs = {
            "ring": [(1, 2), (2, 3), (3, 1)],
            "chain": [(i, i + 1) for i in range(110)],
            "short": [(i, i + 1) for i in range(10)],
        }
        for name, edges in graphs.items():
            frame = spark.createDataFrame(edges, ["Src", "Dst"])
            frame.createOrReplaceTempView(name)
            db.add(name, frame)
        for title, table, all_, step in QUESTIONS:
            print(title)
            asked = CLOSURE.format(table=table, all=all_, step=step.format(table=table))
            print("  Spark:  ", by_spark(spark, asked))
            ours = CLOSURE.format(table=table, all="", step=step.format(table=table))
            print("  Caladan:", db.sql(ours).rows()[0][0])


def by_spark(spark: Any, query: str) -> object:
    """Spark's answer, or what it says instead."""
    try:
        return spark.sql(query).collect()[0][0]
    except Exception as problem:
        said = [line for line in str(problem).splitlines() if "[" in line]
        return "no answer: " + (said[0] if said else "it failed")[:120]


if __name__ == "__main__":
    main()
