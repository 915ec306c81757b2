"""The spark engine: cliques by five strategies, on Spark's tasks or as DataFrames.

    session     a SparkSession to work in, started or adopted, and a child of it with our settings
    connect     what is otherwise where the session is one of Spark Connect
    attend      work on a thread of its own, with a deadline and Ctrl-C watched over
    sources     data of every kind as tables ─► files, delimited, objects, columnar
    choice      which strategy a clique gets, and why; needs no Spark
    cliques     a run: one clique after another, each by its strategy
    strategies  what a strategy is
    tasks/      single and pivoted: the embedded engine inside Spark's Python workers
    cube/       cubed: cyclic bodies in cells, a task each
    mesh/       meshed: tasks that exchange what is new
    control     the line between the driver and its tasks
    staging     where tasks leave large results
    daemon      the process that Python workers are forked from
    frame       the fixpoint of a clique as DataFrames, round by round, with
                  types, expressions, operators   a rule's operator tree as DataFrame operations
                  cube/       cyclic bodies in cells here, too, in one exchange
                  aggregates  what aggregates make of a bag of rows
                  runs        frames computed once, their lineage cut, let go when nobody needs them
                  plain, grouped, summed          what a clique knows of a relation, round by round
                  layout      how relations are spread over partitions; needs no Spark
    table       what is handed out: facts held here, staged, framed, or derived again when asked for
    failures    Spark's exceptions as diagnostics

Only this folder imports pyspark, and only once an engine is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from caladan.engines.spark.engine import SparkEngine as SparkEngine

__all__ = ["SparkEngine"]


def __getattr__(name: str) -> object:
    if name == "SparkEngine":
        from caladan.engines.spark.engine import SparkEngine

        return SparkEngine
    raise AttributeError(name)
