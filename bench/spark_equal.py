"""Whether strategies of the spark engine agree on whole answers: paths, closures and components.

    python -m bench.spark_equal [--strategies NAMES] [--rounds] [--memory 8g] [CASE[:VERTICES]…]

One session on local[2]; every strategy runs a case once. Answers are compared by their number and
by a sum over hashes of all facts, both computed by Spark from the answer as a DataFrame; both are
printed, so that strategies can also be run apart. A case may be cut down to the arcs among its
first vertices (`apsp-CA-HepTh:3000`); `--rounds` tells of every round as it is done, with its CPU
seconds in brackets, `--memory` is the heap. Times are of one run on the way there, not a benchmark.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from typing import TYPE_CHECKING

import pyarrow.compute

import caladan
from bench.cases import PROGRAMS
from bench.data import graph
from bench.processes import cpu_seconds
from caladan.engines.spark.session.session import start
from caladan.program.events import Event, Listener, RoundDone

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

DEFAULT = ("cc-wiki-Vote", "cc-CA-HepTh", "apsp-wiki-Vote:2000", "apsp-CA-HepTh:2000")
STRATEGIES = "pivoted,meshed,frame"
ANSWERS = {"cc": "cc", "apsp": "path", "tc": "tc"}


class Rounds(Listener):
    """Tells of rounds as they go by."""

    def __init__(self) -> None:
        self._used = cpu_seconds()

    def tell(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            before, self._used = self._used, cpu_seconds()
            grown = f"{event.new:,} new, {event.total:,} in all"
            took = f"{event.seconds:.1f} s ({self._used - before:.1f})"
            print(f"  {event.number}: {grown}, {took}", file=sys.stderr)


def main() -> None:
    """Run every case by every strategy, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--strategies", default=STRATEGIES)
    parser.add_argument("--rounds", action="store_true")
    parser.add_argument("--memory")
    parser.add_argument("cases", nargs="*", default=DEFAULT)
    given = parser.parse_args()
    warnings.simplefilter("ignore", caladan.CaladanWarning)
    strategies = given.strategies.split(",")
    listeners = [Rounds()] if given.rounds else []
    conf = {"spark.driver.memory": given.memory} if given.memory else {}
    session = start("local[2]", conf)
    print(f"| case | facts | sum of hashes | {' | '.join(strategies)} | equal |")
    print(f"|---|---|---|{'---|' * len(strategies)}---|")
    for case in given.cases:
        print(row(case, strategies, session, listeners), flush=True)
    print(f"\nLoad average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    session.stop()


def row(case: str, strategies: list[str], session: SparkSession, listeners: list[Rounds]) -> str:
    """A line of the table."""
    name, _, vertices = case.partition(":")
    program, _, file = name.partition("-")
    text = (PROGRAMS / program / "deals.dl").read_text(encoding="utf-8")
    arcs = graph(f"{file}.tsv").tables()["arc"]
    if vertices:
        arcs = among_first(arcs, int(vertices))
    found: set[tuple[int, int]] = set()
    cells: list[str] = []
    for strategy in strategies:
        with caladan.connect(session, listeners=listeners) as db:
            db.add("arc", arcs)
            started = time.perf_counter()
            with db.run(text, strategy=strategy) as out:
                found.add(checksum(out[ANSWERS[program]].spark()))
                (used,) = {clique.strategy for clique in out.stats.cliques if clique.recursive}
                instead = "" if used == strategy else f", by {used}"
                cells.append(f"{time.perf_counter() - started:.1f} s{instead}")
    facts = ", ".join(f"{count:,}" for count, _ in found)
    sums = ", ".join(str(total) for _, total in found)
    equal = "yes" if len(found) == 1 else "NO"
    return f"| {case} | {facts} | {sums} | {' | '.join(cells)} | {equal} |"


def among_first(arcs: pa.Table, vertices: int) -> pa.Table:
    """The arcs among the vertices with the smallest numbers."""
    compute = pyarrow.compute
    ends = pyarrow.concat_arrays([c for name in ("A", "B") for c in arcs.column(name).chunks])
    last = sorted(compute.unique(ends).to_pylist())[:vertices][-1]
    inside = compute.and_(
        compute.less_equal(arcs.column("A"), last), compute.less_equal(arcs.column("B"), last)
    )
    return arcs.filter(inside)


def checksum(answer: DataFrame) -> tuple[int, int]:
    """How many facts, and the sum of their hashes."""
    from pyspark.sql import functions as sf

    hashed = sf.xxhash64(*(sf.col(f"`{name}`") for name in answer.columns))
    count, total = answer.agg(sf.count(sf.lit(1)), sf.sum(hashed.cast("decimal(38,0)"))).head()
    return count, int(total)


if __name__ == "__main__":
    main()
