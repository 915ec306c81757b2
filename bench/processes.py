"""CPU seconds of this process and of all that it started: the JVM of Spark, and Python workers.

On a busy machine wall times say how busy it is; CPU times say what the work took. Linux only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Taken:
    """What something took."""

    wall: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.wall:.2f} s ({self.cpu:.2f})"


def cpu_seconds() -> float:
    """CPU seconds so far; those of processes that have ended are missing."""
    ticks = os.sysconf("SC_CLK_TCK")
    children: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            children.setdefault(int(fields[1]), []).append(int(folder.name))
            used[int(folder.name)] = (int(fields[11]) + int(fields[12])) / ticks
    waiting, total = [os.getpid()], 0.0
    while waiting:
        process = waiting.pop()
        total += used.get(process, 0.0)
        waiting += children.get(process, [])
    return total


def in_turn(
    ways: dict[str, Callable[[], object]], warm: int = 3, times: int = 5
) -> dict[str, Taken]:
    """The best wall time and the mean CPU time of each way, all running in turn, after warming up.

    CPU time is counted in hundredths, and a JVM compiles when it likes: hence the mean.
    """
    wall = dict.fromkeys(ways, float("inf"))
    cpu = dict.fromkeys(ways, 0.0)
    for number in range(warm + times):
        for name, way in ways.items():
            started, before = time.perf_counter(), cpu_seconds()
            way()
            seconds, used = time.perf_counter() - started, cpu_seconds() - before
            if number >= warm:
                wall[name] = min(wall[name], seconds)
                cpu[name] += used / times
    return {name: Taken(wall[name], cpu[name]) for name in ways}
