"""Spark as its users have it: cached DataFrames in, a DataFrame out, beside other ways.

    python -m bench.spark_users [--rows 50000,500000] [--loop] [CASE…]

One session on local[2], all contestants in turn, after warming up; CPU seconds of all processes
(this one, the JVM, Python workers), with loading the data and reading the answer:

    ours        connect(spark), add the frames, run, count the answer's DataFrame
    embedded    toArrow, the embedded engine, the answer as a DataFrame, counted
    loop        the DataFrame loop that people write (bench/frame_loop.py), where it is short enough

and, after all of them, what 100 runs in the session left behind: RDDs, files, threads.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import caladan
from bench.frame_loop import fixpoint
from bench.processes import in_turn
from caladan.engines.spark.session.session import start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Frames = dict[str, DataFrame]

Columns = dict[str, np.ndarray]


@dataclass(frozen=True)
class UserCase:
    """A program, its data for a number of rows, and the loop that a user would write instead."""

    program: str
    data: Callable[[int, np.random.Generator], dict[str, Columns]]
    loop: Callable[[Frames], object] | None = None


def graph(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """Arcs among two thirds as many vertices."""
    ends = random.integers(0, max(rows * 2 // 3, 2), (2, rows), dtype=np.int64)
    return {"arc": {"A": ends[0], "B": ends[1]}}


def seeded(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """The same, and 100 vertices to start from."""
    starts = random.integers(0, max(rows * 2 // 3, 2), 100, dtype=np.int64)
    return {**graph(rows, random), "start": {"A": np.unique(starts)}}


def forest(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """Every vertex but the roots has a parent, at most twenty generations up."""
    number = np.arange(rows, dtype=np.int64)
    parents = (number * random.uniform(0.4, 0.6, rows)).astype(np.int64)
    keep = number > rows // 50
    return {"par": {"A": parents[keep], "B": number[keep]}}


def labelled(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """Arcs of four kinds, and 100 vertices to start from."""
    data = seeded(rows, random)
    kinds = np.array(["calls", "reads", "writes", "owns"])[random.integers(0, 4, rows)]
    return {**data, "arc": {**data["arc"], "L": kinds}}


def pointers(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """Statements of a program: half of them assignments, the rest takes, loads and stores."""
    names = max(rows // 2, 2)
    shares = {"addr": 0.3, "assign": 0.5, "load": 0.1, "store": 0.1}
    found: dict[str, Columns] = {}
    for name, share in shares.items():
        ends = random.integers(0, names, (2, int(rows * share)), dtype=np.int64)
        found[name] = {"A": ends[0], "B": ends[1]}
    return found


def owners(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """Shares of companies in others, in parts of a hundred."""
    companies = max(rows // 3, 2)
    ends = random.integers(0, companies, (2, rows), dtype=np.int64)
    return {"owns": {"A": ends[0], "B": ends[1], "P": random.integers(1, 60, rows)}}


def reach_loop(frames: Frames) -> object:
    """Reach, as a loop."""
    arc, start = frames["arc"], frames["start"]

    def step(new: DataFrame) -> DataFrame:
        return new.join(arc, "A").select(arc.B.alias("A"))

    return fixpoint(start, step, 2)[0]


def components_loop(frames: Frames) -> object:
    """Connected components, as a loop over least labels."""
    from pyspark.sql import functions as sf

    arc = frames["arc"]
    both = arc.union(arc.select("B", "A").toDF("A", "B")).localCheckpoint()
    labels = both.groupBy("A").agg(sf.min("A").alias("L")).localCheckpoint()
    while True:
        sent = both.join(labels, "A").groupBy("B").agg(sf.min("L").alias("M"))
        joined = labels.join(sent.withColumnRenamed("B", "A"), "A", "left")
        better = joined.select("A", sf.least("L", "M").alias("N"), "L").localCheckpoint()
        changed = better.where("N < L").count()
        labels = better.select("A", sf.col("N").alias("L"))
        if not changed:
            return labels.select("L").distinct().count()


CASES: dict[str, UserCase] = {
    "components": UserCase(
        """edge(A, B) <- arc(A, B). edge(B, A) <- arc(A, B).
        cc(X, mmin<X>) <- edge(X, _). cc(Y, mmin<Z>) <- cc(X, Z), edge(X, Y). query cc(X, Z).""",
        graph,
        components_loop,
    ),
    "reach": UserCase(
        "reach(A) <- start(A). reach(B) <- reach(A), arc(A, B). query reach(A).",
        seeded,
        reach_loop,
    ),
    "generation": UserCase(
        """sg(X, Y) <- par(P, X), par(P, Y), X ~= Y.
        sg(X, Y) <- par(A, X), sg(A, B), par(B, Y). far(X) <- sg(X, _). query far(X).""",
        forest,
    ),
    "labelled": UserCase(
        """way(A) <- start(A). way(B) <- way(A), arc(A, B, 'calls').
        way(B) <- way(A), arc(A, C, 'reads'), arc(B, C, 'writes'). query way(A).""",
        labelled,
    ),
    "andersen": UserCase(
        """pt(Y, X) <- addr(Y, X). pt(Y, X) <- assign(Y, Z), pt(Z, X).
        pt(Y, W) <- load(Y, X), pt(X, Z), pt(Z, W).
        pt(Z, W) <- store(Y, X), pt(Y, Z), pt(X, W). query pt(Y, X).""",
        pointers,
    ),
    "triangles": UserCase(
        "t(A, count<_>) <- arc(A, B), arc(B, C), arc(C, A). query t(A, N).", graph
    ),
    "control": UserCase(
        """share(X, Y, msum<(Z, P)>) <- held(X, Y, Z, P).
        held(X, Y, X, P) <- owns(X, Y, P). held(X, Y, Z, P) <- control(X, Z), owns(Z, Y, P).
        control(X, Y) <- share(X, Y, P), P > 50. query control(X, Y).""",
        owners,
    ),
}


def main() -> None:
    """Run cases at every size, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="50000,500000")
    parser.add_argument("--loop", action="store_true", help="the loop, too, once")
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument(
        "--runs", type=int, default=0, help="runs after which leftovers are counted"
    )
    parser.add_argument("cases", nargs="*", default=list(CASES))
    given = parser.parse_args()
    warnings.simplefilter("ignore", caladan.CaladanWarning)
    session = start(master="local[2]", conf={"spark.driver.memory": "4g"})
    print("| case | rows | facts | ours: wall s (CPU) | embedded | ratio of CPU | loop | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name in given.cases:
        for rows in map(int, given.rows.split(",")):
            print(row(name, rows, session, given), flush=True)
    if given.runs:
        print(f"\n{left_behind(session, given.runs)}")
    print(f"\nLoad average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    session.stop()


def row(name: str, rows: int, session: SparkSession, given: argparse.Namespace) -> str:
    """A line of the table."""
    case = CASES[name]
    frames = cached(case, rows, session)
    facts: dict[str, int] = {}

    def ours() -> None:
        with caladan.connect(session) as db:
            for relation, frame in frames.items():
                db.add(relation, frame)
            with db.run(case.program) as out:
                facts["ours"] = out.answer.spark().count()

    def embedded() -> None:
        with caladan.connect("embedded") as db:
            for relation, frame in frames.items():
                db.add(relation, frame.toArrow())
            out = db.run(case.program)
            facts["embedded"] = session.createDataFrame(out.answer.arrow()).count()

    taken = in_turn({"ours": ours, "embedded": embedded}, warm=2, times=given.times)
    assert facts["ours"] == facts["embedded"], facts
    cells = [name, f"{rows:,}", f"{facts['ours']:,}", str(taken["ours"]), str(taken["embedded"])]
    cells.append(f"{taken['ours'].cpu / taken['embedded'].cpu:.2f}")
    if given.loop and case.loop is not None:
        loop = case.loop
        looped = in_turn({"loop": lambda: loop(frames)}, warm=0, times=1)["loop"]
        cells += [str(looped), f"{looped.cpu / taken['ours'].cpu:.1f}"]
    else:
        cells += ["", ""]
    for frame in frames.values():
        frame.unpersist()
    return f"| {' | '.join(cells)} |"


def cached(case: UserCase, rows: int, session: SparkSession) -> Frames:
    """The data of a case as cached DataFrames."""
    found: Frames = {}
    for relation, columns in case.data(rows, np.random.default_rng(7)).items():
        made: Any = session.createDataFrame(pa.table(columns))
        found[relation] = made.repartition(2).cache()
        found[relation].count()
    return found


def left_behind(session: SparkSession, runs: int) -> str:
    """What so many runs leave in the session."""
    case = CASES["components"]
    context: Any = session.sparkContext

    def counts() -> tuple[int, int, int]:
        gc.collect()
        context._jvm.java.lang.System.gc()
        files = len(list(Path(tempfile.gettempdir()).glob("caladan-*/*")))
        return len(context._jsc.getPersistentRDDs()), files, threading.active_count()

    frames = cached(case, 200_000, session)
    with caladan.connect(session) as db:
        before = after = (0, 0, 0)
        for number in range(runs):
            db.add("arc", frames["arc"].where(f"A % 100 != {number % 100}"))
            db.run(case.program).answer.spark().count()
            if number == 4:
                before = counts()
        after = counts()
    return f"RDDs, files, threads after 5 runs: {before}; after {runs}: {after}"


if __name__ == "__main__":
    main()
