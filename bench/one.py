"""One case with one contestant, in this process: prints a line of JSON.

    python -m bench.one CASE CONTESTANT THREADS REPEATS SECONDS

A run that uses more than SECONDS of CPU time for each thread ends the process: unlike the time on
the wall that says the same thing on a busy machine. Each run has a limit of its own, and its line
is printed before the next, so a repetition that is cut off costs nothing.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time

ENOUGH = 3.0  # seconds after which a case is not repeated


def main(name: str, who: str, threads: int, repeats: int, seconds: int) -> None:
    """Run, several times if it is quick, and report the run with the least CPU time."""
    for variable in ("POLARS_MAX_THREADS", "OMP_NUM_THREADS"):
        os.environ[variable] = str(threads)
    from bench.cases import find
    from bench.contestants import Measured, contestant

    (case,) = (c for c in find([name]) if c.name == name)
    tables = case.data.tables()
    run = contestant(who)(case, tables, threads)
    started = time.perf_counter()
    best: Measured | None = None
    first = 0.0
    done = 0
    # The first run may load kernels, so there is a second one unless that takes very long.
    while done < repeats and (
        not done or time.perf_counter() - started < (ENOUGH if done > 1 else 3 * ENOUGH)
    ):
        _limit(seconds * threads)
        measured = run()
        first = first or measured.wall
        done += 1
        if best is None or measured.cpu < best.cpu:
            best = measured
        used = [resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        report = {
            **best.to_dict(),
            "first": first,
            "runs": done,
            "facts_in": sum(table.num_rows for table in tables.values()),
            "peak": max(u.ru_maxrss for u in used) * 1024,
            "process_cpu": sum(u.ru_utime + u.ru_stime for u in used),
        }
        print("\n" + json.dumps(report), flush=True)
    os._exit(0)  # some contestants keep threads that are slow to end


def _limit(seconds: int) -> None:
    """Let this process use so much more CPU time; then it is ended by a signal."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    most = int(used.ru_utime + used.ru_stime) + 1 + seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (most, hard))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6]))
