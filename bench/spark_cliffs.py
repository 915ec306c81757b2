"""Near misses on Spark: the cases of `bench.cliffs`, by strategy, beside the embedded engine.

    python -m bench.spark_cliffs [--strategies NAMES] [--seconds N] [CASE…]

One session on local[2], whose start does not count, and the embedded engine in this process. Every
way runs a case twice in turn, and the second run counts: CPU seconds of all processes, loading and
counting the answer included. A way that is not done after so many seconds on the wall is given up.
Ratios are to the embedded engine; where its work is less than 2 s, a job of Spark's is most of it.
"""

from __future__ import annotations

import argparse
import os
import warnings
from typing import TYPE_CHECKING, Any

import caladan
from bench.cliffs import NearMiss, cases, tables
from bench.processes import cpu_seconds
from caladan.engines.spark.session.session import start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULT = ("plain", "A ~= B", "count<B> on top", "distances", "same generation")


def main() -> None:
    """Run cases by every strategy, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--strategies", default="single,meshed")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("cases", nargs="*", default=DEFAULT)
    given = parser.parse_args()
    warnings.simplefilter("ignore", caladan.CaladanWarning)
    strategies = given.strategies.split(",")
    session = start(master="local[2]", conf={"spark.driver.memory": "2g"})
    print(f"| case | facts | embedded | {' | '.join(strategies)} |")
    print(f"|---|---|---|{'---|' * len(strategies)}")
    for name in given.cases:
        print(row(name, cases()[name], session, strategies, given.seconds), flush=True)
    print(f"\nLoad average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    session.stop()


def row(
    name: str, case: NearMiss, session: SparkSession, strategies: list[str], seconds: float
) -> str:
    """A line of the table."""
    facts: set[int] = set()
    base, cells = 0.0, list[str]()
    for strategy in (None, *strategies):
        try:
            for _ in range(2):
                before = cpu_seconds()
                facts.add(once(case, session, strategy, seconds))
                used = cpu_seconds() - before
        except caladan.Stopped:
            used = cpu_seconds() - before
            cells.append(f"> {used:.2f} s ({used / base:.1f})" if base else f"> {used:.2f} s")
            continue
        base = base or used
        cells.append(f"{used:.2f} s" + (f" ({used / base:.2f})" if strategy else ""))
    assert len(facts) == 1, facts
    return f"| {name} | {facts.pop():,} | {' | '.join(cells)} |"


def once(case: NearMiss, session: Any, strategy: str | None, seconds: float) -> int:
    """How many facts a case comes to, on the embedded engine or by a strategy."""
    with caladan.connect("embedded" if strategy is None else session) as db:
        for relation, table in tables(case.group).items():
            if f"{relation}(" in case.program.split("}")[0]:
                db.add(relation, table)
        asked: Any = {"timeout": seconds, **case.options}
        with db.run(case.program, strategy=strategy, **asked) as out:
            return out.answer.count()


if __name__ == "__main__":
    main()
