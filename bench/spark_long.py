"""Work of ten seconds and more: the spark engine beside the embedded one, on the same cores.

    python -m bench.spark_long [--times N] [CASE…]

One session on local[2], whose start does not count; the embedded engine in this process has the
same two cores. Both run a case in turn, after one small run each to warm up, and count the answer;
the spark engine chooses its strategy. A time is the best wall time, with the mean CPU time of all
processes in brackets: on a busy machine the ratio of those is the one to look at.
"""

from __future__ import annotations

import argparse
import os
import warnings

import caladan
from bench.cases import Case
from bench.data import Made, graph
from bench.processes import in_turn
from caladan.engines.spark.session.session import start

CASES = {
    "apsp-wiki-Vote": Case("apsp-wiki-Vote", "apsp", graph("wiki-Vote.tsv"), {"path": 11_947_132}),
    **{
        name: Case(name, "andersen", Made("andersen", {"functions": n}), {"points_to": None})
        for name, n in (("andersen-1M", 2_000), ("andersen-10M", 20_000), ("andersen-20M", 40_000))
    },
}
DEFAULT = ("apsp-wiki-Vote", "andersen-10M", "andersen-20M")
WARM = "andersen-1M"


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("cases", nargs="*", default=DEFAULT)
    given = parser.parse_args()
    warnings.simplefilter("ignore", caladan.CaladanWarning)
    session = start(master="local[2]")
    row(CASES[WARM], session, 1)
    print("| case | facts | embedded | spark | strategy | spark / embedded |")
    print("|---|---|---|---|---|---|")
    for name in given.cases:
        print(row(CASES[name], session, given.times), flush=True)
    print(f"\nLoad average: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    session.stop()


def row(case: Case, session: object, times: int) -> str:
    """A line of the table."""
    tables = case.data.tables()
    text = case.text("deals.dl")
    assert text is not None
    counts: set[int] = set()
    used: dict[str, str] = {}
    with caladan.connect("embedded") as embedded, caladan.connect(session) as spark:
        for relation, table in tables.items():
            embedded.add(relation, table)
            spark.add(relation, table)
        for db in (embedded, spark):  # data is read when it is first asked for
            loaded = "\n".join(f"has_{name}(count<A>) <- {name}(A, _)." for name in tables)
            db.run(f"{text.partition('.')[0]}.\n{loaded}").close()

        def once(name: str, db: caladan.Session) -> None:
            with db.run(text, case.params) as out:
                counts.add(sum(out[each].count() for each in case.counts))
                used[name] = out.stats.strategy

        ways = {
            "embedded": lambda: once("embedded", embedded),
            "spark": lambda: once("spark", spark),
        }
        taken = in_turn(ways, warm=0, times=times)
    assert len(counts) == 1, counts
    one, other = taken["spark"], taken["embedded"]
    ratio = f"{one.wall / other.wall:.2f} ({one.cpu / other.cpu:.2f})"
    return f"| {case.name} | {counts.pop():,} | {other} | {one} | {used['spark']} | {ratio} |"


if __name__ == "__main__":
    main()
