"""What `caladan run` of a small program costs on Spark, beside a bare PySpark script.

    python -m bench.small_files [PAIRS]

The script starts a session, reads the same five small files and counts their rows; the program
reads them and counts the pairs that are connected. Both are whole processes, run in turns; printed
are the seconds of each pair, and the ratio of the medians.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = 5
ROWS = 200

SCRIPT = """
import sys
from pyspark.sql import SparkSession

session = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
for path in sys.argv[1:]:
    print(session.read.csv(path, schema="A int, B int").count())
session.stop()
"""


def program() -> str:
    """Declarations of all relations, their union, and its closure."""
    names = [f"r{i}" for i in range(FILES)]
    declared = ", ".join(f"{name}(A: integer, B: integer)" for name in names)
    union = "\n".join(f"arc(A, B) <- {name}(A, B)." for name in names)
    return f"""database({{{declared}}}).
{union}
tc(A, B) <- arc(A, B).
tc(A, C) <- tc(A, B), arc(B, C).
pairs(count<_>) <- tc(A, B).
query pairs(N)."""


def seconds(*command: str) -> float:
    """How long a process takes."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def main(pairs: int) -> None:
    """Measure and print."""
    folder = Path(tempfile.mkdtemp(prefix="small-files-"))
    try:
        paths = [folder / f"r{i}.csv" for i in range(FILES)]
        for i, path in enumerate(paths):
            path.write_text("".join(f"{a},{(a * 7 + i) % ROWS}\n" for a in range(ROWS)))
        (folder / "program.dl").write_text(program())
        run = (sys.executable, "-m", "caladan", "run", str(folder / "program.dl"))
        bare: list[float] = []
        ours: list[float] = []
        for _ in range(pairs):
            bare.append(seconds(sys.executable, "-c", SCRIPT, *map(str, paths)))
            ours.append(seconds(*run, "--facts", str(folder), "--engine", "spark"))
            print(f"bare PySpark {bare[-1]:5.1f} s, caladan run {ours[-1]:5.1f} s", flush=True)
        ratio = statistics.median(ours) / statistics.median(bare)
        print(f"caladan run takes {ratio:.2f} times the bare script (medians of {pairs})")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
