"""What splitting frequent values does for tasks of strategy *meshed*.

    python -m bench.skew [--tasks N] [--only CASE…]

Graphs with hubs, by tasks that are plain processes over loopback, without Spark. *Busiest* is the
share of the busiest task as a multiple of the mean, of solutions found and of CPU seconds; 1 is
best, the number of tasks is worst. CPU seconds are those of the busiest task: it is they that
everybody waits for, where each task has a core.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from bench.scale import Measured, processes
from caladan.engines.spark.mesh.links import Links
from caladan.engines.spark.mesh.skew import SkewLimits
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.rules.program import DeltaProgram

ARC = "database({arc(A: integer, B: integer)}).\n"
CLOSURE = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."
LABELS = ARC + (
    "cc(A, mmin<C>) <- arc(A, _), C = A. cc(B, mmin<C>) <- cc(A, C), arc(A, B). query cc(A, C)."
)

PAIRS = ARC + (
    "pair(A, B) <- arc(A, B). in(A, K) <- pair(A, B), K = B - B.\n"
    "pair(A, B) <- in(A, K), in(B, K). query pair(A, B)."
)
REACHED = ARC + (
    "from(A, B) <- arc(A, B), A = 0. from(A, B) <- from(A, C), arc(C, B). query from(A, B)."
)


def star(spokes: int) -> list[tuple[int, int]]:
    """As many arcs to a node as from it."""
    there = [(i, 0) for i in range(1, spokes + 1)]
    return there + [(0, i) for i in range(spokes + 1, 2 * spokes + 1)]


def burst(hubs: int, spokes: int) -> list[tuple[int, int]]:
    """A few nodes in a row, each with very many arcs of its own."""
    row = [(i, i + 1) for i in range(hubs)]
    return row + [(i, hubs + 1 + i * spokes + j) for i in range(hubs) for j in range(spokes)]


def layers(nodes: int, arcs: int, seed: int) -> list[tuple[int, int]]:
    """Four layers; ends of arcs are drawn by Zipf's law, so a few nodes have most of them."""
    chance = np.random.default_rng(seed)
    found = [
        np.add(np.minimum(chance.zipf(1.3, (arcs, 2)), nodes), [at * nodes, (at + 1) * nodes])
        for at in range(3)
    ]
    return [(int(a), int(b)) for a, b in np.unique(np.concatenate(found), axis=0)]


def chain(nodes: int, shortcuts: int, seed: int) -> list[tuple[int, int]]:
    """Nodes in a row, and shortcuts by which all of them are soon reached."""
    ends = np.random.default_rng(seed).integers(0, nodes, (shortcuts, 2))
    return [(i, i + 1) for i in range(nodes)] + [(int(a), int(b)) for a, b in ends]


CASES = {
    "closure of a star": (CLOSURE, star(3000)),
    "closure, Zipf": (CLOSURE, layers(3000, 9000, 8)),
    "labels, 3 hubs in a row": (LABELS, burst(3, 1_000_000)),
    "pairs in a derived block": (PAIRS, [(i, 10_000 + i) for i in range(3000)]),
    "all that one node reaches": (REACHED, chain(1_000_000, 1_000_000, 8)),
}
SPLITTING = {
    "nothing": SkewLimits(0),
    "from the inputs": SkewLimits(moving=1e18),
    "also derived": SkewLimits(),
}


def main() -> None:
    """Print three lines for each case: nothing split, what the inputs show, what comes up too."""
    parser = argparse.ArgumentParser(prog="python -m bench.skew", description=__doc__)
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--only", nargs="*", choices=CASES)
    options = parser.parse_args()
    print("| case | facts | split | values | MB sent | busiest, solutions | busiest, CPU | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name, (text, arcs) in CASES.items():
        if options.only and name not in options.only:
            continue
        for line in _lines(name, text, arcs, options.tasks):
            print(line, flush=True)


def _lines(name: str, text: str, arcs: Sequence[tuple[int, int]], tasks: int) -> Iterator[str]:
    program = compile_program(parse(text), {}, {}, demand=False).delta
    columns = zip(*arcs, strict=True)
    tables = {"arc": pa.table([pa.array(column, pa.int32()) for column in columns], ["A", "B"])}
    facts: set[int] = set()
    for what, splitting in SPLITTING.items():
        runs = [processes(tasks, _evaluate, program, tables, splitting) for _ in range(2)]
        best = min(runs, key=lambda run: max(done.cpu for done, _ in run))
        done, heavy = [each for each, _ in best], best[0][1]
        facts.add(sum(each.facts for each in done))
        assert len(facts) == 1, "the answers differ"
        sent = sum(each.bytes for each in done) / 1e6
        yield (
            f"| {name} | {max(facts):,} | {what} | {heavy} | {sent:.1f} "
            f"| {_busiest([each.solutions for each in done]):.2f} "
            f"| {_busiest([each.cpu for each in done]):.2f} "
            f"| {max(each.cpu for each in done):.2f} |"
        )


def _evaluate(
    me: int,
    links: Links,
    program: DeltaProgram,
    tables: Mapping[str, pa.Table],
    splitting: SkewLimits,
) -> tuple[Measured, int]:
    from bench.scale import evaluated
    from caladan.engines.spark.mesh.shard import Shard
    from caladan.fixpoint.limits import Limits
    from caladan.program.options import Options

    part = Shard(program, tables, me, links.tasks, Limits(Options()), splitting)
    return evaluated(part, links), part.heavy


def _busiest(shares: Sequence[Any]) -> float:
    return max(shares) * len(shares) / sum(shares)


if __name__ == "__main__":
    main()
