"""Strategies on Spark beside the loop over DataFrames that people write, and beside embedded.

    python -m bench.spark_strategies [--patience SECONDS] [CASE…]

One session on local[2]. Every contestant runs a case once to warm up and then three times, in turn;
the best counts. The loop (bench/frame_loop.py) runs twice, and is given up after `--patience`
seconds: then its time is a lower bound. Reading the data and starting the session do not count;
counting the answer does. `python -m bench.small_files` measures a whole `caladan run`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import caladan
from bench import frame_loop
from bench.cases import CASES, Case
from bench.generate import Tables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT = ("tc-tree11", "tc-cal", "tc-grid150", "andersen-5M", "galen-el")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--patience", type=float, default=120.0)
    parser.add_argument("cases", nargs="*", default=DEFAULT)
    given = parser.parse_args()
    warnings.simplefilter("ignore", caladan.CaladanWarning)
    known = {case.name: case for case in CASES}
    session = frame_loop.session(2)
    print("| case | facts | embedded | single | pivoted | DataFrame loop | loop / single |")
    print("|---|---|---|---|---|---|---|")
    for name in given.cases:
        print(row(known[name], session, given.patience), flush=True)
    session.stop()


def row(case: Case, session: SparkSession, patience: float) -> str:
    """A line of the table."""
    tables = case.data.tables()
    text = case.text("deals.dl")
    assert text is not None
    counts: set[int] = set()
    cells: list[str] = []
    best: dict[str, float] = {}
    for name, engine in (("embedded", "embedded"), ("single", session), ("pivoted", session)):
        with caladan.connect(engine) as db:
            for relation, table in tables.items():
                db.add(relation, table)

            def once(db: caladan.Session = db, name: str = name) -> tuple[int, str]:
                strategy = None if name == "embedded" else name
                with db.run(text, case.params, strategy=strategy) as out:
                    return sum(out[each].count() for each in case.counts), out.stats.strategy

            counts.add(once()[0])
            taken, used = timed(once, 3)
            if name == "pivoted" and "pivoted" not in used:
                cells.append("no pivot")
            else:
                best[name] = taken
                cells.append(f"{taken:.2f} s")
    loop = "–"
    ratio = ""
    if case.program in frame_loop.PROGRAMS:
        seconds, rounds, complete = looped(case, tables, session, patience)
        more = "" if complete else "> "
        loop = f"{more}{seconds:.1f} s, {rounds:,} rounds"
        ratio = f"{more}{seconds / best['single']:.0f}"
    assert len(counts) == 1, counts
    return f"| {case.name} | {counts.pop():,} | {' | '.join(cells)} | {loop} | {ratio} |"


def timed(once: Callable[[], tuple[int, str]], times: int) -> tuple[float, str]:
    """The best of several times, and the strategy that was used."""
    best, used = float("inf"), ""
    for _ in range(times):
        started = time.perf_counter()
        used = once()[1]
        best = min(best, time.perf_counter() - started)
    return best, used


def looped(
    case: Case, tables: Tables, session: SparkSession, patience: float
) -> tuple[float, int, bool]:
    """The loop's better time of two, its rounds, and whether it came to its end."""
    frames = frame_loop.loaded(session, tables)
    program = frame_loop.PROGRAMS[case.program]
    found: list[tuple[float, int]] = []
    for _ in range(2):
        started = time.perf_counter()
        try:
            _, rounds = program(frames, 2, started + patience)
        except frame_loop.TooLong as given_up:
            return time.perf_counter() - started, given_up.args[0], False
        found.append((time.perf_counter() - started, rounds))
    return *min(found), True


if __name__ == "__main__":
    main()
