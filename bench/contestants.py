"""Who takes part: a contestant runs a case, as often as it is asked to, and is measured."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.cases import Case
from bench.generate import Tables

ENGINES = ("embedded", "spark", "reference")


@dataclass
class Measured:
    """One run. Loading data into the contestant's own tables is not part of it.

    `evaluation` is what the contestant itself calls evaluation, where it tells.
    """

    counts: dict[str, int] = field(default_factory=dict)
    wall: float = 0.0
    cpu: float = 0.0
    evaluation: float | None = None
    detail: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Measure this process and those it has started."""
        wall, cpu = time.perf_counter(), _cpu()
        yield
        self.wall, self.cpu = time.perf_counter() - wall, _cpu() - cpu


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used) + _cpu_of_living()


def _cpu_of_living() -> float:
    """The CPU seconds of all processes below this one that still run: Spark's, for one."""
    parents: dict[int, tuple[int, float]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:  # it ended while we looked
            continue
        ticks = sum(map(int, fields[11:13]))
        parents[int(path.parent.name)] = int(fields[1]), ticks / os.sysconf("SC_CLK_TCK")
    below = {os.getpid()}
    grown = True
    while grown:
        new = {pid for pid, (parent, _) in parents.items() if parent in below} - below
        below |= new
        grown = bool(new)
    return sum(parents[pid][1] for pid in below - {os.getpid()})


class Contestant(Protocol):
    """How a case is run: set up once, then run any number of times."""

    def __call__(self, case: Case, tables: Tables, threads: int) -> Callable[[], Measured]: ...


def can_run(name: str, case: Case) -> bool:
    """Whether a contestant is at hand and knows the program."""
    if name in ENGINES:
        return True
    if name == "duckdb":
        return (
            importlib.util.find_spec("duckdb") is not None and case.text("duckdb.sql") is not None
        )
    if name == "polars":
        from bench.peers.polars_loop import PROGRAMS

        return importlib.util.find_spec("polars") is not None and case.program in PROGRAMS
    if name == "souffle":
        return shutil.which("souffle") is not None and case.text("souffle.dl") is not None
    if name == "frames":
        from bench.frame_loop import PROGRAMS as LOOPS

        return case.program in LOOPS
    raise SystemExit(f"no contestant is called {name}; there are {', '.join(NAMES)}")


NAMES = (*ENGINES, "duckdb", "polars", "souffle", "frames")


def contestant(name: str) -> Contestant:
    """The contestant of a name."""
    if name in ENGINES:
        return lambda case, tables, threads: _engine(name, case, tables, threads)
    if name == "duckdb":
        from bench.peers import duckdb_sql

        return duckdb_sql.prepare
    if name == "polars":
        from bench.peers import polars_loop

        return polars_loop.prepare
    if name == "souffle":
        from bench.peers import souffle

        return souffle.prepare
    from bench import frame_loop

    return frame_loop.prepare


def _engine(engine: str, case: Case, tables: Tables, threads: int) -> Callable[[], Measured]:
    """Caladan, through what users call."""
    import caladan

    if engine == "spark":
        db = caladan.connect("spark", master=f"local[{threads}]")
    else:
        db = caladan.connect(engine)
    for name, table in tables.items():
        db.add(name, table)
    text = case.text("deals.dl")
    assert text is not None, f"{case.program} has no deals.dl"

    def run() -> Measured:
        measured = Measured()
        with measured.timed():
            out = db.run(text, params=dict(case.params))
            for name in case.counts:
                answer = out.answer if name == "answer" else out[name]
                measured.counts[name] = answer.count()
        measured.evaluation = sum(clique.seconds for clique in out.stats.cliques)
        rounds = out.stats.rounds
        measured.detail = f"{out.stats.strategy}, {rounds:,} round{'s' * (rounds != 1)}"
        return measured

    return run


def agree(expected: Mapping[str, int | None], found: Mapping[str, int]) -> bool:
    """Whether all known counts came out."""
    return all(count is None or found.get(name, count) == count for name, count in expected.items())
