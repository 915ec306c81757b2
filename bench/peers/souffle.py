"""Soufflé, compiled: souffle.dl of the program. Compiling is not measured, reading facts is."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from pyarrow import csv

from bench.cases import Case
from bench.contestants import Measured
from bench.generate import Tables


def prepare(case: Case, tables: Tables, threads: int) -> Callable[[], Measured]:
    """Facts as files, the program as a binary; both in a folder that goes when the process ends."""
    folder = tempfile.TemporaryDirectory(prefix="caladan-bench-")
    home = Path(folder.name)
    for name, table in tables.items():
        options = csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
        csv.write_csv(table, home / f"{name}.facts", options)
    text = case.text("souffle.dl")
    assert text is not None
    (home / "program.dl").write_text(text, encoding="utf-8")
    build = ["souffle", f"-j{threads}", "-o", str(home / "program"), str(home / "program.dl")]
    subprocess.run(build, check=True, capture_output=True)

    def run() -> Measured:
        measured = Measured(detail="reads its facts")
        command = [str(home / "program"), "-F", folder.name, "-D", folder.name, f"-j{threads}"]
        with measured.timed():
            done = subprocess.run(command, check=True, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            name, _, count = line.partition("\t")
            if count.strip().isdigit():
                measured.counts[name] = int(count)
        return measured

    return run
