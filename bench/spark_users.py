"""Spark as its users have it: cached DataFrames in, a DataFrame out, beside other ways.

    python -m bench.spark_users [--rows 50000,500000] [--loop SECONDS]
        [--strategy frame] [--runs 100] [CASE…]

One session on local[2], all contestants in turn, after warming up; CPU seconds of all processes
(this one, the JVM, Python workers), with loading the data and reading the answer:

    ours        connect(spark), add the frames, run (by a strategy, if one is named), count the
                answer's DataFrame
    embedded    toArrow, the embedded engine, the answer as a DataFrame, counted
    loop        the DataFrame loop or SQL that people write, once, given up after CPU seconds

and, after all of them, what 100 runs in the session left behind: RDDs, files, threads, heap.
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import caladan
from bench.frame_loop import TooLong, fixpoint
from bench.generate import andersen
from bench.processes import cpu_seconds, in_turn
from caladan.columns.ranks import numpy_of
from caladan.engines.spark.session.session import start

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    Frames = dict[str, DataFrame]

Columns = dict[str, np.ndarray]
_STATEMENTS = 84  # of a function


@dataclass(frozen=True)
class UserCase:
    """A program, its data for a number of rows, and the loop that a user would write instead."""

    program: str
    data: Callable[[int, np.random.Generator], dict[str, Columns]]
    loop: Callable[[Frames, float], object]


def graph(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """Arcs among two thirds as many vertices."""
    ends = random.integers(0, max(rows * 2 // 3, 2), (2, rows), dtype=np.int64)
    return {"arc": {"A": ends[0], "B": ends[1]}}


def seeded(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """The same, and 100 vertices to start from."""
    starts = random.integers(0, max(rows * 2 // 3, 2), 100, dtype=np.int64)
    return {**graph(rows, random), "start": {"A": np.unique(starts)}}


def forest(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """Families of a hundred: everybody but the first has a parent, some seven generations."""
    base, number = np.divmod(np.arange(rows, dtype=np.int64), 100)
    parents = (number * random.uniform(0.4, 0.6, rows)).astype(np.int64)
    later = number > 0
    return {"par": {"A": (100 * base + parents)[later], "B": (100 * base + number)[later]}}


def labelled(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """Arcs of four kinds, and 100 vertices to start from."""
    data = seeded(rows, random)
    kinds = np.array(["calls", "reads", "writes", "owns"])[random.integers(0, 4, rows)]
    return {**data, "arc": {**data["arc"], "L": kinds}}


def pointers(rows: int, _: np.random.Generator) -> dict[str, Columns]:
    """The statements of a program, most of them assignments."""
    named = {"address_of": "addr", "assign": "assign", "load": "load", "store": "store"}
    made = andersen(max(rows // _STATEMENTS, 2))
    return {
        short: {c: numpy_of(made[name].column(c)) for c in ("A", "B")}
        for name, short in named.items()
    }


def owners(rows: int, random: np.random.Generator) -> dict[str, Columns]:
    """Shares of companies in others, in parts of a hundred."""
    companies = max(rows // 3, 2)
    ends = random.integers(0, companies, (2, rows), dtype=np.int64)
    return {"owns": {"A": ends[0], "B": ends[1], "P": random.integers(1, 60, rows)}}


def reach_loop(frames: Frames, until: float) -> object:
    """Reach, as a loop."""
    arc, start = frames["arc"], frames["start"]

    def step(new: DataFrame) -> DataFrame:
        return new.join(arc, "A").select(arc.B.alias("A"))

    return fixpoint(start, step, 2, until, cpu_seconds)


def components_loop(frames: Frames, until: float) -> object:
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
        give_up(until)


def generation_loop(frames: Frames, until: float) -> object:
    """Same generation, as a loop."""
    par = frames["par"]
    left, right = par.toDF("X", "C"), par.toDF("Y", "D")
    exits = par.toDF("P", "X").join(par.toDF("P", "Y"), "P").where("X <> Y").select("X", "Y")

    def step(new: DataFrame) -> DataFrame:
        return new.join(left, "X").join(right, "Y").select("C", "D").toDF("X", "Y")

    return fixpoint(exits, step, 2, until, cpu_seconds)


def labelled_loop(frames: Frames, until: float) -> object:
    """Labelled paths, as a loop."""
    arc = frames["arc"]
    calls = arc.where("L = 'calls'").select("A", "B")
    reads = arc.where("L = 'reads'").select("A", "B").toDF("A", "C")
    writes = arc.where("L = 'writes'").select("A", "B").toDF("W", "C")

    def step(new: DataFrame) -> DataFrame:
        by_data = new.join(reads, "A").join(writes, "C").select("W")
        return new.join(calls, "A").select("B").union(by_data).toDF("A")

    return fixpoint(frames["start"], step, 2, until, cpu_seconds)


def naive(first: DataFrame, step: Callable[[DataFrame], DataFrame], until: float) -> int:
    """All facts joined in every round, as loops of rules that are not linear are written."""
    known = first.distinct().localCheckpoint()
    count = known.count()
    while True:
        known = known.union(step(known)).distinct().localCheckpoint()
        before, count = count, known.count()
        if count == before:
            return count
        give_up(until)


def pointers_loop(frames: Frames, until: float) -> object:
    """Andersen's analysis, as a loop."""
    assign = frames["assign"].toDF("Y", "Z")
    load, store = frames["load"].toDF("Y", "X"), frames["store"].toDF("Y", "X")

    def step(pt: DataFrame) -> DataFrame:
        to = pt.toDF("X", "Z")
        copied = assign.join(pt.toDF("Z", "V"), "Z").select("Y", "V")
        loaded = load.join(to, "X").join(pt.toDF("Z", "W"), "Z").select("Y", "W")
        stored = store.join(pt.toDF("Y", "Z"), "Y").join(pt.toDF("X", "W"), "X").select("Z", "W")
        return copied.union(loaded).union(stored).toDF(*pt.columns)

    return naive(frames["addr"], step, until)


def triangles_loop(frames: Frames, _: float) -> object:
    """Triangles per vertex, as SQL."""
    arc = frames["arc"].distinct()
    two = arc.toDF("A", "B").join(arc.toDF("B", "C"), "B")
    return two.join(arc.toDF("C", "A"), ["C", "A"]).groupBy("A").count().count()


def control_loop(frames: Frames, until: float) -> object:
    """Company control, as a loop."""
    owns = frames["owns"]
    direct = owns.toDF("X", "Y", "P").selectExpr("X", "Y", "X as Z", "P")
    first = direct.groupBy("X", "Y").agg({"P": "sum"}).where("`sum(P)` > 50").select("X", "Y")

    def step(control: DataFrame) -> DataFrame:
        through = control.toDF("X", "Z").join(owns.toDF("Z", "Y", "P"), "Z")
        held = direct.union(through.select("X", "Y", "Z", "P")).distinct()
        shares = held.groupBy("X", "Y").agg({"P": "sum"})
        return shares.where("`sum(P)` > 50").select("X", "Y")

    return naive(first, step, until)


def give_up(until: float) -> None:
    """TooLong past so many CPU seconds."""
    if cpu_seconds() > until:
        raise TooLong


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
        generation_loop,
    ),
    "labelled": UserCase(
        """way(A) <- start(A). way(B) <- way(A), arc(A, B, 'calls').
        way(B) <- way(A), arc(A, C, 'reads'), arc(B, C, 'writes'). query way(A).""",
        labelled,
        labelled_loop,
    ),
    "andersen": UserCase(
        """pt(Y, X) <- addr(Y, X). pt(Y, X) <- assign(Y, Z), pt(Z, X).
        pt(Y, W) <- load(Y, X), pt(X, Z), pt(Z, W).
        pt(Z, W) <- store(Y, X), pt(Y, Z), pt(X, W). query pt(Y, X).""",
        pointers,
        pointers_loop,
    ),
    "triangles": UserCase(
        "t(A, count<_>) <- arc(A, B), arc(B, C), arc(C, A). query t(A, N).",
        graph,
        triangles_loop,
    ),
    "control": UserCase(
        """share(X, Y, msum<(Z, P)>) <- held(X, Y, Z, P).
        held(X, Y, X, P) <- owns(X, Y, P). held(X, Y, Z, P) <- control(X, Z), owns(Z, Y, P).
        control(X, Y) <- share(X, Y, P), P > 50. query control(X, Y).""",
        owners,
        control_loop,
    ),
}


def main() -> None:
    """Run cases at every size, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", default="50000,500000")
    parser.add_argument("--loop", type=float, default=0, help="CPU seconds for the loop, too")
    parser.add_argument("--strategy", default=None)
    parser.add_argument("--warm", type=int, default=4)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument(
        "--runs", type=int, default=0, help="runs after which leftovers are counted"
    )
    parser.add_argument("cases", nargs="*", default=list(CASES))
    given = parser.parse_args()
    warnings.simplefilter("ignore", caladan.CaladanWarning)
    session = start(master="local[2]", conf={"spark.driver.memory": "4g"})
    print(
        "| case | rows | facts | ours: wall s (CPU) | embedded | ratio of CPU | loop: CPU | ratio |"
    )
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
            with db.run(case.program, strategy=given.strategy) as out:
                facts["ours"] = out.answer.spark().count()

    def embedded() -> None:
        with caladan.connect("embedded") as db:
            for relation, frame in frames.items():
                db.add(relation, frame.toArrow())
            out = db.run(case.program)
            facts["embedded"] = session.createDataFrame(out.answer.arrow()).count()

    taken = in_turn({"ours": ours, "embedded": embedded}, warm=given.warm, times=given.times)
    assert facts["ours"] == facts["embedded"], facts
    cells = [name, f"{rows:,}", f"{facts['ours']:,}", str(taken["ours"]), str(taken["embedded"])]
    cells.append(f"{taken['ours'].cpu / taken['embedded'].cpu:.2f}")
    if given.loop:
        started, is_over = cpu_seconds(), False
        try:
            case.loop(frames, started + given.loop)
        except TooLong:
            is_over = True
        looped = cpu_seconds() - started
        sign = "> " if is_over else ""
        cells += [f"{sign}{looped:.1f} s", f"{sign}{looped / taken['ours'].cpu:.1f}"]
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

    def counts() -> tuple[int, int, int, str]:
        for _ in range(4):  # Python lets go of what it has in the JVM on a thread of its own
            gc.collect()
            context._jvm.java.lang.System.gc()
            time.sleep(0.5)
            engine._staging.sweep()
        files = len(list(Path(folder).iterdir()))
        runtime = context._jvm.java.lang.Runtime.getRuntime()
        heap = (runtime.totalMemory() - runtime.freeMemory()) >> 20
        rdds = len(context._jsc.getPersistentRDDs())
        return rdds, files, threading.active_count(), f"{heap} MB"

    frames = cached(case, 200_000, session)
    with caladan.connect(session) as db:
        engine: Any = db._engine
        folder = engine._staging.folder
        before = after = (0, 0, 0, "")
        for number in range(runs):
            db.add("arc", frames["arc"].where(f"A % 100 != {number % 100}"))
            db.run(case.program).answer.spark().count()
            if number == 4:
                before = counts()
        after = counts()
    is_there = Path(folder).exists()
    return (
        f"RDDs, files, threads, heap after 5 runs: {before}; after {runs}: {after}; "
        f"closed: {'files stay' if is_there else 'no files'}"
    )


if __name__ == "__main__":
    main()
