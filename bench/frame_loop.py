"""The semi-naive loop over Spark DataFrames that people write by hand, written well.

What is known is kept partitioned by its key and cached; each round joins the newest rows, takes
distinct ones, removes what is known with an anti-join, and cuts the lineage with a local
checkpoint, without which plans grow until the driver gives up. Old caches are let go. Adaptive
execution is off: its re-planning costs more than a small round. A table that fits is broadcast.

    python -m bench tc-tree11 --contestants frames,spark
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from bench.cases import Case
from bench.contestants import Measured
from bench.generate import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Frames = dict[str, DataFrame]
    Step = Callable[[DataFrame], DataFrame]


class TooLong(Exception):
    """The loop was given up; the argument is how many rounds it had done."""


def fixpoint(
    exits: DataFrame,
    step: Step,
    partitions: int,
    until: float = math.inf,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[int, int]:
    """The number of rows of the fixpoint, and of rounds; TooLong past `until` by a clock."""
    keys = exits.columns
    known = exits.distinct().repartition(partitions, *keys).localCheckpoint()
    new, total, rounds = known, known.count(), 1
    parts = [known]
    while True:
        derived = step(new).distinct().repartition(partitions, *keys)
        fresh = derived.join(known, keys, "left_anti").localCheckpoint()
        count = fresh.count()
        if not count:
            break
        rounds += 1
        total += count
        parts.append(fresh)
        known = known.union(fresh)
        if rounds % 10 == 0:
            # A union of many parts has many partitions; put them together now and then.
            known = known.coalesce(partitions).localCheckpoint()
            for part in parts:
                part.unpersist()
            parts = [known]
        new = fresh
        if clock() > until:
            raise TooLong(rounds)
    return total, rounds


def tc(frames: Frames, partitions: int, until: float = math.inf) -> tuple[dict[str, int], int]:
    """Transitive closure."""
    from pyspark.sql import functions as f

    arc = frames["arc"]
    step = f.broadcast(arc.select(f.col("A").alias("B"), f.col("B").alias("C")))
    count, rounds = fixpoint(
        arc,
        lambda new: new.join(step, "B").select("A", f.col("C").alias("B")),
        partitions,
        until,
    )
    return {"tc": count}, rounds


def sg(frames: Frames, partitions: int, until: float = math.inf) -> tuple[dict[str, int], int]:
    """Same generation."""
    from pyspark.sql import functions as f

    arc = frames["arc"]
    left = f.broadcast(arc.select(f.col("A").alias("X"), f.col("B").alias("C")))
    right = f.broadcast(arc.select(f.col("A").alias("Y"), f.col("B").alias("D")))
    exits = (
        arc.select("A", f.col("B").alias("X"))
        .join(arc.select("A", f.col("B").alias("Y")), "A")
        .where("X <> Y")
        .select("X", "Y")
    )
    count, rounds = fixpoint(
        exits,
        lambda new: (
            new.join(left, "X")
            .join(right, "Y")
            .select(f.col("C").alias("X"), f.col("D").alias("Y"))
        ),
        partitions,
        until,
    )
    return {"sg": count}, rounds


PROGRAMS: dict[str, Callable[..., tuple[dict[str, int], int]]] = {"tc": tc, "sg": sg}


def prepare(case: Case, tables: Tables, threads: int) -> Callable[[], Measured]:
    """A session of its own, started before the clock is."""
    frames = loaded(session(threads), tables)

    def run() -> Measured:
        measured = Measured()
        with measured.timed():
            measured.counts, rounds = PROGRAMS[case.program](frames, threads)
        measured.detail = f"{rounds:,} rounds"
        return measured

    return run


def loaded(spark: SparkSession, tables: Tables) -> Frames:
    """The data as frames that have been computed."""
    frames = {
        name: spark.createDataFrame(table.to_pandas()).distinct().localCheckpoint()
        for name, table in tables.items()
    }
    for frame in frames.values():
        frame.count()
    return frames


def session(threads: int) -> SparkSession:
    """A session with the settings that suit the loop."""
    from caladan.engines.spark.session.session import start

    conf = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": str(threads),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.enabled": "false",
    }
    return start(master=f"local[{threads}]", conf=conf)
