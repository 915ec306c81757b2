"""Rows that are computed once and held in columns.

As objects a row of two numbers takes a hundred bytes of a JVM's heap, in Spark's columns ten or
less. `in_columns` has Spark hold a checkpointed frame as it holds one that a user caches. What is
held does not know what it was computed from: to later plans it is a leaf, however many rounds
there were before, and the files of their exchanges are let go.

None of this is a public interface; where Spark has it otherwise rows are held as rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark import StorageLevel
from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class HeldColumns:
    """A frame that reads them, and the RDD that has them once it is computed."""

    frame: DataFrame
    batches: Any


def in_columns(checkpointed: DataFrame, level: StorageLevel) -> HeldColumns | None:
    """A checkpointed frame, of which nothing is computed yet, held in columns; None if it cannot.

    What such a frame is made of is an RDD. Spark names what it holds by what it came from, and
    that again by what it came from: so it is best if there is no plan behind.
    """
    session: Any = checkpointed.sparkSession
    try:
        jvm, sql = session._jvm, session._jvm.org.apache.spark.sql
        query = cast("Any", checkpointed)._jdf.queryExecution()
        module = getattr(getattr(sql.execution.columnar, "InMemoryRelation$"), "MODULE$")
        held = session.sparkContext._getJavaStorageLevel(level)
        relation = module.apply(held, query, jvm.scala.Option.apply("caladan"))
        batches = relation.cacheBuilder().cachedColumnBuffers().localCheckpoint()
        made = sql.classic.Dataset.ofRows(session._jsparkSession, relation)
    except (AttributeError, TypeError, Py4JError):
        return None
    return HeldColumns(DataFrame(made, session), batches)
