"""What was measured, as tables: on the terminal, and as bench/RESULTS.md."""

from __future__ import annotations

import datetime as dt
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from math import exp, log
from pathlib import Path
from typing import Any

from bench.cases import Case
from bench.contestants import ENGINES, agree


@dataclass(frozen=True)
class Outcome:
    """How one contestant did on one case: a report of one.py, or why there is none."""

    case: Case
    who: str
    report: dict[str, Any] = field(default_factory=dict)
    failure: str = ""

    @property
    def is_right(self) -> bool:
        """Whether it ended with the counts that are known."""
        return not self.failure and agree(self.case.counts, self.report["counts"])

    @property
    def cpu(self) -> float:
        return self.report["cpu"]

    def cell(self) -> str:
        """For a table: CPU seconds, wall seconds, peak memory."""
        if self.failure:
            return self.failure
        memory = self.report["peak"] / 2**20
        mark = "" if self.is_right else " WRONG"
        return f"{self.cpu:.3f} ({self.report['wall']:.3f}) {memory:,.0f} MB{mark}"


def line(outcome: Outcome) -> str:
    """One outcome, for the terminal."""
    counts = ", ".join(f"{n} {c:,}" for n, c in outcome.report.get("counts", {}).items())
    detail = outcome.report.get("detail", "")
    cells = f"{outcome.case.name:<22} {outcome.who:<10} {outcome.cell():<34}"
    return f"{cells} {counts}  {detail}".rstrip()


def disagreements(outcomes: Sequence[Outcome]) -> list[str]:
    """Counts that are wrong, or not known and not the same for all contestants."""
    found: list[str] = []
    seen: dict[tuple[str, str], tuple[int, str]] = {}
    for outcome in outcomes:
        if outcome.failure:
            continue
        if not outcome.is_right:
            found.append(f"{outcome.case.name}: {outcome.who} found {outcome.report['counts']}")
        for name, count in outcome.report["counts"].items():
            other, who = seen.setdefault((outcome.case.name, name), (count, outcome.who))
            if other != count:
                found.append(f"{outcome.case.name}: {who} {other:,}, {outcome.who} {count:,}")
    return found


def markdown(outcomes: Sequence[Outcome], threads: int) -> str:
    """RESULTS.md."""
    names = list(dict.fromkeys(o.who for o in outcomes))
    ours = next((n for n in names if n in ENGINES), names[0])
    peers = [n for n in names if n != ours]
    by_case: dict[str, dict[str, Outcome]] = {}
    for outcome in outcomes:
        by_case.setdefault(outcome.case.name, {})[outcome.who] = outcome
    head = ["case", "facts", f"{ours}: CPU s (wall) peak", "evaluation s", "how"]
    for peer in peers:
        head += [f"{peer}: CPU s (wall) peak", "ratio"]
    lines = [_row(head), _row(["---"] * len(head))]
    ratios: dict[str, list[float]] = {peer: [] for peer in peers}
    for name, row in by_case.items():
        lines.append(_row([name, *_ours(row.get(ours)), *_theirs(row, ours, peers, ratios)]))
    means = [
        f"- {peer}: {exp(sum(map(log, values)) / len(values)):.1f} times the CPU time of {ours} "
        f"(geometric mean over {len(values)} cases that both finished)"
        for peer, values in ratios.items()
        if values
    ]
    return "\n".join([*_preface(names, threads), "", *lines, "", *means, ""])


def _preface(names: Sequence[str], threads: int) -> list[str]:
    command = " ".join(["python -m bench", *map(shlex.quote, sys.argv[1:])])
    versions = ", ".join(f"{n} {v}" for n in (*names, "numpy", "numba") if (v := _version(n)))
    return [
        "# Benchmark results",
        "",
        f"Measured {dt.date.today().isoformat()} with `{command}`,",
        f"{threads} thread(s) for peers, on {_processor()}, {os.cpu_count()} cores, {_memory()},",
        f"{platform.system()}.",
        f"Python {platform.python_version()}, {versions}. Load average when written: "
        + ", ".join(f"{load:.1f}" for load in os.getloadavg())
        + ".",
        "",
        "Every case runs in a process of its own with its data in the contestant's own tables; the",
        "best of a few runs counts if they are quick. A ratio says how many times the CPU time of",
        "the first contestant a peer took, or at least took before its time was over. Time limits",
        "are of CPU time, for each run. The embedded engine takes its threads from the machine. On",
        "a busy machine CPU times are too high and wall times mean little.",
    ]


def _ours(outcome: Outcome | None) -> list[str]:
    if outcome is None:
        return ["", "", "", ""]
    if outcome.failure:
        return ["", outcome.failure, "", ""]
    report = outcome.report
    facts = ", ".join(f"{count:,}" for count in report["counts"].values())
    evaluation = "" if report["evaluation"] is None else f"{report['evaluation']:.3f}"
    return [facts, outcome.cell(), evaluation, report["detail"]]


def _theirs(
    row: dict[str, Outcome], ours: str, peers: Sequence[str], ratios: dict[str, list[float]]
) -> list[str]:
    cells: list[str] = []
    mine = row.get(ours)
    for peer in peers:
        outcome = row.get(peer)
        ratio = ""
        if outcome and mine and not mine.failure and not outcome.failure:
            value = outcome.cpu / max(mine.cpu, 1e-3)
            ratios[peer].append(max(value, 1e-3))
            ratio = f"{value:.1f}"
        elif outcome and mine and not mine.failure and "seconds" in outcome.report:
            ratio = f"> {outcome.report['seconds'] / max(mine.cpu, 1e-3):.0f}"
        cells += [outcome.cell() if outcome else "", ratio]
    return cells


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _version(name: str) -> str:
    try:
        return version({"embedded": "caladan", "spark": "pyspark"}.get(name, name))
    except PackageNotFoundError:
        return ""


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    if path.is_file():
        for entry in path.read_text().splitlines():
            if entry.startswith("model name"):
                return entry.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory() -> str:
    return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
