"""GALEN-EL as a whole process: from compressed files to counts, imports and kernels included.

python -m bench.galen [TIMES]
"""

from __future__ import annotations

import subprocess
import sys
import time

from bench.cases import PROGRAMS
from bench.data import FOLDER

SCRIPT = """
import sys
import caladan
program, folder = sys.argv[1:]
db = caladan.connect("embedded")
for name in ("isMainClass", "isSubClass", "subClassOf", "subProp", "conj", "exists"):
    db.add(name, f"{folder}/{name}.csv.gz")
out = db.run(open(program).read())
counts = [out[name].count() for name in ("sub", "main_sub", "ex")]
assert counts == [1091144, 455126, 309713], counts
"""


def main() -> None:
    """Print the wall seconds of each process."""
    arguments = (str(PROGRAMS / "galen" / "deals.dl"), str(FOLDER / "galen-el"))
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", SCRIPT, *arguments], check=True)
        print(f"{time.perf_counter() - started:.2f} s", flush=True)


if __name__ == "__main__":
    main()
