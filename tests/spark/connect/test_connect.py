"""Spark Connect, in a process of its own: once PySpark speaks it, the whole process does."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from caladan.engines.spark.session import connect
from caladan.engines.spark.session.session import start
from caladan.program.diagnostics import CaladanError

NEEDED = ("grpc", "grpc_status", "google.rpc")
ROOT = Path(__file__).parents[3]


def is_here(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ImportError:  # not even the package that it would be in
        return False


IS_HERE = all(map(is_here, NEEDED))


def test_without_its_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "find_spec", lambda _: None)
    with pytest.raises(CaladanError, match=r"C050.*not installed") as caught:
        start("sc://127.0.0.1:1")
    assert 'pip install "caladan[connect]"' in str(caught.value)


@pytest.mark.timeout(600)
@pytest.mark.skipif(not IS_HERE, reason="needs caladan[connect]")
def test_with_connect() -> None:
    """What is in `in_connect.py`."""
    tests = ["tests/spark/connect/in_connect.py", "-q", "-p", "no:randomly", "-p", "no:xdist"]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *tests],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    print(ran.stdout)
    assert ran.returncode == 0, ran.stderr
