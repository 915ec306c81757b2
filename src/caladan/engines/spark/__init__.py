"""The spark engine: DataFrames, round by round.

    session     a SparkSession to work in, started or adopted, and a child of it with our settings
    attend      work on a thread of its own, with a deadline and Ctrl-C watched over
    sources     data of every kind as frames of typed columns ─► delimited, objects, columnar
    types, expressions, operators      a rule's operator tree as DataFrame operations
    aggregates  what aggregates make of a bag of rows
    runs        frames computed once, their lineage cut, and let go when nobody needs them
    plain, grouped, contributions      what a clique knows of a relation, from round to round
    frame       the fixpoint of a clique
    layout      how relations are spread over partitions; needs no Spark
    table       what is handed out
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
