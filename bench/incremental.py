"""Incremental relations: a change of one fact beside evaluating the program anew, in one run.

    python -m bench.incremental [CASE…]

CPU seconds of `db.insert` or `db.delete` while the program is watched, the median of several facts,
beside `db.run` of the same program over the same data in the same session (its data is encoded, its
kernels are loaded). `listed` is `db.run` with the answer as columns: what somebody needs who looks
for changes by comparing.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import caladan

Edges = list[tuple[int, int]]

LINEAR: Final = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B)."
NON_LINEAR: Final = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B)."
COUNTED: Final = f"{LINEAR} reach(A, count<B>) <- tc(A, B)."
NEGATED: Final = f"{LINEAR} far(A, B) <- node(A), node(B), ~tc(A, B)."
CONDITION: Final = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B), A ~= B."
JOIN: Final = "both(A, C) <- left(A, B), right(B, C)."
DISTANCES: Final = "d(A, B, mmin<1>) <- arc(A, B). d(A, B, mmin<D + 1>) <- d(A, C, D), arc(C, B)."


@dataclass(frozen=True, slots=True)
class Case:
    """A program over some data, the relation that changes, and facts to come and go."""

    name: str
    program: str
    asked: str
    data: Callable[[], dict[str, Edges]]
    changed: str = "arc"
    few: bool = False


def grid(n: int) -> Edges:
    """A grid with edges to the right and down."""
    right = [(i * n + j, i * n + j + 1) for i in range(n) for j in range(n - 1)]
    return right + [(i * n + j, i * n + j + n) for i in range(n - 1) for j in range(n)]


def scattered(n: int, degree: int) -> Edges:
    """A random graph, most of which is one strong component."""
    chosen = random.Random(7)
    return sorted({(a, chosen.randrange(n)) for a in range(n) for _ in range(degree)})


def layers(wide: int, deep: int, degree: int) -> Edges:
    """A graph of layers, each leading to the next."""
    chosen = random.Random(7)
    return sorted(
        {
            (layer * wide + i, (layer + 1) * wide + chosen.randrange(wide))
            for layer in range(deep)
            for i in range(wide)
            for _ in range(degree)
        }
    )


def _arc(edges: Edges) -> dict[str, Edges]:
    return {"arc": edges}


def _small() -> dict[str, Edges]:
    edges = scattered(1050, 3)
    return {"arc": edges, "node": [(a,) for a in range(1050)]}  # pyright: ignore[reportReturnType]


def _sides() -> dict[str, Edges]:
    left = [(i, i) for i in range(20_000)]
    return {"left": left, "right": [(i + 19_999, i) for i in range(20_000)]}


CASES: Final = (
    Case("random graph, 10 M", LINEAR, "tc", lambda: _arc(scattered(3300, 3))),
    Case("layers, 10 M", LINEAR, "tc", lambda: _arc(layers(1300, 8, 3))),
    Case("grid 80 x 80, 10 M", LINEAR, "tc", lambda: _arc(grid(80))),
    Case("non-linear, 1 M", NON_LINEAR, "tc", _small),
    Case("condition, 1 M", CONDITION, "tc", _small),
    Case("counted, 1 M", COUNTED, "reach", _small),
    Case("negated, 1 M", NEGATED, "far", _small),
    Case("distances, 1 M", DISTANCES, "d", _small, few=True),
    Case("join 20,000 x 20,000", JOIN, "both", _sides, changed="right"),
)


def main(names: Sequence[str] | None = None) -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*")
    asked = parser.parse_args(names).cases
    print(
        f"{'case':<22}{'facts':>12}{'watch':>8}{'run':>9}{'listed':>8}"
        f"{'insert':>10}{'run':>6}{'listed':>7}{'delete':>10}{'run':>6}{'listed':>7}{'anew':>6}"
    )
    for case in CASES:
        if not asked or any(word in case.name for word in asked):
            _measure(case)


def _measure(case: Case) -> None:
    db = caladan.connect("embedded")
    data = case.data()
    for name, rows in data.items():
        db.add(name, rows)

    def count() -> int:
        return db.run(case.program)[case.asked].count()

    run = min(_seconds(count) for _ in range(4))
    listed = _seconds(lambda: db.run(case.program)[case.asked].arrow().num_rows)
    started = time.process_time()
    live = db.watch(case.program)
    watch = time.process_time() - started
    facts = live[case.asked].count()
    chosen = random.Random(11)
    edges = data[case.changed]
    picked = [edges[0] if case.changed == "right" else chosen.choice(edges) for _ in range(9)]
    deletes: list[float] = []
    inserts: list[float] = []
    for edge in picked[:3] if case.few else picked:
        deletes.append(_seconds(lambda e=edge: db.delete(case.changed, [e])))
        inserts.append(_seconds(lambda e=edge: db.insert(case.changed, [e])))
        live.changes(case.asked)
    assert live[case.asked].count() == facts
    # The first change makes what the others find there.
    insert, delete = statistics.median(inserts[1:]), statistics.median(deletes[1:])
    anew = sum(each.recomputed for each in live.stats.cliques)
    print(
        f"{case.name:<22}{facts:>12,}{watch:>8.2f}{run:>9.4f}{listed:>8.3f}"
        f"{insert:>10.5f}{run / insert:>6.0f}{listed / insert:>7.0f}"
        f"{delete:>10.5f}{run / delete:>6.1f}{listed / delete:>7.1f}{anew:>6}",
        flush=True,
    )
    live.close()


def _seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


if __name__ == "__main__":
    main()
