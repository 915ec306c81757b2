"""What saving and going on cost a task of strategy *meshed*.

    python -m bench.checkpoint [--only NAME…]

One part that holds all facts of a case is evaluated, saved, read and put back, without Spark. CPU
seconds count, so that a busy machine does not matter.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from bench.meshed import CASES
from caladan.engines.spark.mesh.checkpoint import CheckpointFiles, CheckpointState, SavePoint
from caladan.engines.spark.mesh.exchange import MeshExchange
from caladan.engines.spark.mesh.shard import Shard
from caladan.fixpoint.fixpoint import run
from caladan.fixpoint.limits import Limits
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.program.options import Options

SAVED = SavePoint(1, "0" * 16, 1)


class Nobody:
    """The connections of a task that has no peers."""

    def exchange(self, messages: Sequence[Sequence[Any] | None]) -> list[bytearray | None]:
        """Nothing comes."""
        return [None] * len(messages)


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(prog="python -m bench.checkpoint", description=__doc__)
    parser.add_argument("--only", nargs="*", default=["sg-grid150", "cspa-10k"], choices=CASES)
    print("| case | facts | MB | evaluate | fingerprint | save | read | put back |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for name in parser.parse_args().only:
        print(line(name), flush=True)


def line(name: str) -> str:
    """A case."""
    case, _ = CASES[name]
    program = compile_program(parse(case.text("deals.dl")), {}, {}, demand=False).delta
    tables = dict(case.data.tables())
    part, again = (Shard(program, tables, 0, 1, Limits(Options())) for _ in range(2))
    digest, _ = timed(part.fingerprint)
    evaluate, _ = timed(
        lambda: run(part, MeshExchange(part, Nobody()), part.limits, lambda *_: None)
    )
    with tempfile.TemporaryDirectory() as folder:
        files = CheckpointFiles(folder, lambda: None)
        state = CheckpointState(part.facts, part.events.solutions)
        save = min(timed(lambda: files.write(SAVED, 0, state, part.saved()))[0] for _ in range(3))
        size = sum(path.stat().st_size for path in Path(folder).iterdir())
        read, (_, data, at) = timed(lambda: files.read(SAVED, 0))
    back, _ = timed(lambda: again.go_on(1, {0: (data, at)}, [], Nobody(), lambda: None))
    assert again.facts == part.facts
    seconds = " | ".join(f"{each:.3f}" for each in (evaluate, digest, save, read, back))
    return f"| {name} | {part.facts:,} | {size / 1e6:.1f} | {seconds} |"


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """The CPU seconds that something takes, and what comes of it."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


if __name__ == "__main__":
    main()
