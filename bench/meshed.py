"""Strategy *meshed* beside *frame*, in one session; and whether all strategies agree.

    python -m bench.meshed [--only NAME…] [--frame SECONDS] [--saved SECONDS] [--write FILE]

Needs the graphs of bench.data. *frame* is stopped after `--frame` seconds, and then counts as at
least that long. Answers are compared by their number and by a checksum over all facts. With
`--saved` there is *meshed* with a checkpoint instead of *frame*, written so many seconds apart.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import caladan
from bench.cases import Case, find
from bench.data import graph
from caladan.engines.spark.mesh.job import APART
from caladan.program.events import Event, Listener, RoundDone
from caladan.session.result import Stopped

STRATEGIES = ("meshed", "frame")
SAVED = "meshed, saved"
ALL = ("meshed", "pivoted", "frame")
CASES: dict[str, tuple[Case, tuple[str, ...]]] = {
    case.name: (case, strategies)
    for case, strategies in (
        (Case("sg-OL", "sg", graph("OL.cedge.tsv"), {"sg": None}), STRATEGIES),
        (Case("sg-grid150", "sg", graph("grid150.csv"), {"sg": None}), STRATEGIES),
        (find(["cspa-10k"])[0], STRATEGIES),
        (Case("cc-wiki-Vote", "cc", graph("wiki-Vote.tsv"), {"cc": None}), STRATEGIES),
        (Case("cc-CA-HepTh", "cc", graph("CA-HepTh.tsv"), {"cc": None}), STRATEGIES),
        (Case("apsp-wiki-Vote", "apsp", graph("wiki-Vote.tsv"), {"path": None}), ALL),
        (Case("apsp-CA-HepTh", "apsp", graph("CA-HepTh.tsv"), {"path": None}), ALL),
    )
}


@dataclass(frozen=True)
class Done:
    """How a run went; `answers` is None if it was stopped."""

    seconds: float
    rounds: int
    strategy: str
    answers: list[tuple[int, int]] | None
    median: float


class Rounds(Listener):
    """Notes how long each round took."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def tell(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            self.seconds.append(event.seconds)


def main() -> None:
    """Run the cases and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m bench.meshed", description=__doc__)
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--frame", type=float, default=120, help="seconds that frame may take")
    parser.add_argument("--saved", type=float, help="seconds between rounds that are saved")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    listener = Rounds()
    lines: list[str] = []
    conf = {} if options.saved is None else {APART: str(options.saved)}
    with caladan.connect("spark", master=options.master, conf=conf, listeners=[listener]) as db:
        for name in options.only:
            case, strategies = CASES[name]
            strategies = strategies if options.saved is None else ("meshed", SAVED)
            for line in _lines(case, strategies, db, listener, options.frame):
                lines.append(line)
                print(line, flush=True)
    if options.write:
        head = [
            "| case | facts | strategy | rounds | s | median round ms | times *meshed* | equal |",
            "| --- | --- | --- | --- | --- | --- | --- | --- |",
        ]
        options.write.write_text("\n".join(head + lines) + "\n", encoding="utf-8")


def _lines(
    case: Case, strategies: Iterable[str], db: Any, listener: Rounds, patience: float
) -> Iterable[str]:
    for name, table in case.data.tables().items():
        db.add(name, table)
    best: Done | None = None
    for strategy in strategies:
        repeats = 1 if strategy == "frame" else 3
        timeout = patience if strategy == "frame" else None
        runs = [_run(case, strategy, db, listener, timeout) for _ in range(repeats)]
        done = min(runs, key=lambda each: each.seconds)
        best = best or done
        yield _line(case, done, best)


def _run(case: Case, strategy: str, db: Any, listener: Rounds, timeout: float | None) -> Done:
    listener.seconds.clear()
    started = time.perf_counter()
    folder = tempfile.TemporaryDirectory() if strategy == SAVED else None
    saved = {} if folder is None else {"checkpoint": folder.name}
    try:
        forced = "meshed" if strategy == SAVED else strategy
        out = db.run(case.text("deals.dl"), strategy=forced, timeout=timeout, **saved)
        counts = [out[name].count() for name in case.counts]
        seconds = time.perf_counter() - started
        sums = [_checksum(out[name], db) for name in case.counts]
        used = ", ".join(dict.fromkeys(c.strategy for c in out.stats.cliques if c.recursive))
        used = strategy if strategy == SAVED else used
        done = Done(
            seconds, out.stats.rounds, used, list(zip(counts, sums, strict=True)), _median(listener)
        )
        out.close()
        return done
    except Stopped:
        seconds = time.perf_counter() - started
        return Done(seconds, len(listener.seconds), strategy, None, _median(listener))


def _line(case: Case, done: Done, best: Done) -> str:
    facts = "" if done.answers is None else ", ".join(f"{count:,}" for count, _ in done.answers)
    sign = "> " if done.answers is None else ""
    equal = "" if done.answers is None else "yes" if done.answers == best.answers else "NO"
    return (
        f"| {case.name} | {facts} | {done.strategy} | {done.rounds} | {sign}{done.seconds:.2f} "
        f"| {done.median * 1000:.2f} | {sign}{done.seconds / best.seconds:.1f} | {equal} |"
    )


def _median(listener: Rounds) -> float:
    seconds = sorted(listener.seconds)
    return seconds[len(seconds) // 2] if seconds else 0.0


def _checksum(answer: Any, db: Any) -> int:
    """A number that depends on every fact and on no order."""
    from pyspark.sql import functions as sf

    frame = answer.spark(db._engine.session)
    row = frame.select(sf.bit_xor(sf.xxhash64(*frame.columns))).first()
    return int(row[0] or 0)


if __name__ == "__main__":
    main()
