"""The spark engine: cliques by five strategies, on Spark's tasks or as DataFrames.

    engine        what the session calls
    run           one clique after another, each by its strategy
    choice        which strategy a clique gets, and why; needs no Spark
    strategy      what a strategy is
    cancellation  work on a thread of its own, with a deadline and Ctrl-C watched over
    session       a SparkSession to work in, the workers it forks, the folder where tasks leave much
    sources       data of every kind as tables, and the tables that are handed out
    columns       types, expressions and aggregates as columns of Spark
    tasks         single and pivoted: the embedded engine inside Spark's Python workers
    cube          cubed: cyclic bodies in cells, a task each
    mesh          meshed: tasks that exchange what is new
    frame         frame: the fixpoint of a clique as DataFrames, round by round

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
