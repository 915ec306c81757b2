"""python -m bench: see the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from bench.cases import CASES, Case, find
from bench.contestants import NAMES, can_run
from bench.data import ROOT
from bench.report import Outcome, disagreements, line, markdown


def main() -> int:
    """Run cases, print each outcome as it comes, and write the table if asked to."""
    options = _options()
    if options.list:
        for case in CASES:
            able = [n for n in NAMES if can_run(n, case)]
            print(f"{case.name:<22} {', '.join(able)}")
        return 0
    outcomes: list[Outcome] = []
    for case in find(options.names):
        for who in options.contestants:
            if can_run(who, case):
                outcome = _outcome(case, who, options)
                outcomes.append(outcome)
                print(line(outcome), flush=True)
    wrong = disagreements(outcomes)
    for each in wrong:
        print(f"WRONG  {each}", file=sys.stderr)
    if options.write:
        options.write.write_text(
            markdown(outcomes, options.threads) + _sections(options.write), encoding="utf-8"
        )
        print(f"written to {options.write}")
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Run benchmarks.")
    parser.add_argument("names", nargs="*", help="cases, or groups such as tc; all if none")
    parser.add_argument(
        "--contestants",
        type=lambda text: text.split(","),
        default=["embedded", "duckdb", "polars", "souffle"],
        help=f"comma separated, of {', '.join(NAMES)}; those not at hand are passed by",
    )
    parser.add_argument(
        "--timeout", type=int, default=60, help="CPU seconds for each contestant and thread"
    )
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--repeats", type=int, default=3, help="runs of a quick case")
    parser.add_argument("--write", type=Path, help="the Markdown file for the table")
    parser.add_argument("--list", action="store_true", help="show the cases and who can run them")
    return parser.parse_args()


def _outcome(case: Case, who: str, options: argparse.Namespace) -> Outcome:
    numbers = (options.threads, options.repeats, options.timeout)
    arguments = [case.name, who, *map(str, numbers)]
    late = Outcome(case, who, {"seconds": options.timeout}, f"> {options.timeout} s")
    try:
        done = subprocess.run(
            [sys.executable, "-m", "bench.one", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60 + 10 * options.timeout,  # for whoever waits instead of working
            check=False,
        )
    except subprocess.TimeoutExpired:
        return late
    lines = [each for each in done.stdout.splitlines() if each.startswith("{")]
    was_late = done.returncode == -signal.SIGXCPU
    if was_late and not lines:
        return late
    if (done.returncode and not was_late) or not lines:
        return Outcome(case, who, failure=_reason(done))
    return Outcome(case, who, json.loads(lines[-1]))


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    if done.returncode == -signal.SIGKILL:
        return "out of memory"
    last = [each for each in done.stderr.strip().splitlines() if each.strip()]
    return f"failed: {last[-1][:120]}" if last else f"failed with {done.returncode}"


def _sections(page: Path) -> str:
    """What a page has below its table: sections, which other benchmarks are written up in."""
    text = page.read_text(encoding="utf-8") if page.exists() else ""
    _, heading, rest = text.partition("\n## ")
    return heading + rest


if __name__ == "__main__":
    sys.exit(main())
