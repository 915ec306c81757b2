"""Kernels in their other modes: as the plain Python they are, and with every index checked.

The tests of kernels run once more in a process of their own, a few of them for each mode.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent

SMALL = """
import sys
from caladan.cli import main
assert main(["run", "steps.dl", "--engine", "embedded"]) == 0
assert {wanted} == ({loaded!r} in sys.modules)
assert {loaded!r} == "numba" or "numba" not in sys.modules
"""

READING = """
import os, sys, threading
from caladan.columns.warmup import load_ahead
from caladan.columns.kernels import probe
load_ahead(["missing.csv", "arc.csv"])
loading = [t for t in threading.enumerate() if t.name == "caladan-kernels"]
assert bool(loading) == {wanted}, loading
if (child := os.fork()) == 0:  # not before the modules are whole
    os._exit(int({wanted} != ("llvmlite" in sys.modules)))
assert os.waitpid(child, 0)[1] == 0
assert not any(each.is_alive() for each in loading)
assert {wanted} != hasattr(probe.ranges, "function")
"""
SEARCH = """
import sys, caladan
db = caladan.connect("embedded")
db.add("e", [(-5, -7), (-7, 3), (3, -5), (3, 4)])
triangles = list(db.find("a b c", "e(a, b), e(b, c), e(c, a)"))
assert sorted(triangles) == [(-7, 3, -5), (-5, -7, 3), (3, -5, -7)], triangles
assert "numba" not in sys.modules
"""


def run(*command: str, cwd: Path = ROOT, **environment: str) -> str:
    outside = {
        k: v
        for k, v in os.environ.items()
        if k not in ("CALADAN_BOUNDS", "CALADAN_INTERPRET", "CALADAN_NATIVE")
    }
    done = subprocess.run(
        [sys.executable, *command],
        cwd=cwd,
        env={**outside, **environment},
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("mode", "tests"),
    [
        ("CALADAN_INTERPRET=1", "intern or sums or merge"),
        ("CALADAN_BOUNDS=1", "lookups"),
        ("CALADAN_NATIVE=0", "lookups"),
    ],
)
def test_kernels_keep_their_promises(mode: str, tests: str) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-k", tests)
    variable, _, value = mode.partition("=")
    out = run("-m", "pytest", *options, "tests/columns/test_kernels.py", **{variable: value})
    assert " passed" in out


@pytest.mark.parametrize(("numbers", "wanted"), [(20, False), (3_000, True)])
def test_numba_is_loaded_when_it_pays(numbers: int, wanted: bool, tmp_path: Path) -> None:
    text = f"n(1). n(Y) <- n(X), Y = X + 1, Y <= {numbers}. query n(X)."
    (tmp_path / "steps.dl").write_text(text)
    # The tiny-delta machine takes long to compile, and does nothing for this.
    environment = {"CALADAN_THRESHOLDS": "small_rounds=1000000"}
    script = SMALL.format(wanted=wanted, loaded="numba")
    found = run("-c", script, cwd=tmp_path, CALADAN_NATIVE="0", **environment)
    assert f"{numbers:,} facts" in found
    store = ("-m", "caladan", "run", "steps.dl", "--engine", "embedded")
    run(*store, cwd=tmp_path, **environment)
    script = SMALL.format(wanted=wanted, loaded="llvmlite")
    assert f"{numbers:,} facts" in run("-c", script, cwd=tmp_path, **environment)


@pytest.mark.parametrize(("rows", "wanted"), [(20, False), (20_000, True)])
def test_kernels_are_loaded_while_large_files_are_read(
    rows: int, wanted: bool, tmp_path: Path
) -> None:
    (tmp_path / "arc.csv").write_text("".join(f"{i},{i + 1}\n" for i in range(rows)))
    run("-c", READING.format(wanted=wanted), cwd=tmp_path, CALADAN_THREADS="2")


def test_a_small_search_of_negative_numbers_goes_without_numba() -> None:
    run("-c", SEARCH)


PRELOADED = """
import sys
from caladan.engines.spark.session import daemon
from caladan.columns import warmup
daemon.preload()
assert "numba" not in sys.modules  # nothing is compiled yet, and nothing will be for this
from caladan.columns.kernels import bits, sorted as ordered
ordered.dedup.compiled()
"""
AGAIN = """
import sys
from caladan.columns import kernels, warmup
assert warmup.preload() == 1
from caladan.columns.kernels import bits, sorted as ordered
assert not isinstance(ordered.dedup, kernels.Kernel)
assert isinstance(bits.column_bits, kernels.Kernel)
assert "numba" not in sys.modules
"""


def test_workers_are_forked_with_what_was_compiled_before(tmp_path: Path) -> None:
    """To compile all kernels takes minutes: the first run on Spark after `pip install` must not."""
    for script in (PRELOADED, AGAIN):
        run("-c", script, NUMBA_CACHE_DIR=str(tmp_path))
