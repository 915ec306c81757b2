"""Fixtures and settings that every test may use.

`spark` is one Spark session for the whole run, since starting one takes seconds; tests must not
stop it or change its settings. `data_dir` is the folder of larger inputs; tests that need it are
skipped where it is absent. Every run draws the same examples in the same order, wherever it runs: a
test must not fail for what nobody changed. `make fuzz` draws new ones; CALADAN_HYPOTHESIS=thorough
makes property tests try more.
"""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).parent.parent

# Facts are looked at wherever some are added (columns/invariants.py): here, in the processes that
# tests start, and in Spark's tasks. CALADAN_CHECK=0 does without.
os.environ.setdefault("CALADAN_CHECK", "1")

# A shell starts what it puts into the background with Ctrl-C ignored; tests of it send it anyway.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No deadline: a first call may compile a kernel or start Spark, which says nothing about the code.
settings.register_profile("fixed", max_examples=50, deadline=None, derandomize=True, database=None)
settings.register_profile(
    "thorough",
    max_examples=2000,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("CALADAN_HYPOTHESIS", "fixed"))

SEED = 1


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Shuffle tests, and seed `random`, in the same way in every run; --randomly-seed=N differs."""
    if getattr(config.option, "randomly_seed", None) == "default":
        config.option.randomly_seed = SEED


SHORT_LIVED = (
    # Thousands of small plans, each run once: compiling them thoroughly costs more than it saves,
    # and halves the speed of the tests.
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC "
    # What plans leave behind is short-lived: with room for the young, a fifth of the collections.
    "-Xms1500m -Xmn700m "
    # Spark's classes, 20,000 of them, were verified by whoever built them.
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""How a JVM runs whose work is many small things."""


@pytest.fixture(scope="session")
def spark() -> Iterator["SparkSession"]:
    """One Spark session on two local cores, started the way Caladan starts its own."""
    from tests.spark.jdbc.databases import jars

    from caladan.engines.spark.session.session import start

    conf = {
        "spark.driver.memory": "2g",
        "spark.driver.extraJavaOptions": SHORT_LIVED,
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    if drivers := jars():  # of databases, for tests that read and write their tables
        conf["spark.jars"] = ",".join(map(str, drivers.values()))
    session = start(master="local[2]", conf=conf)
    yield session
    session.stop()


@pytest.fixture
def tuned() -> Iterator[Callable[..., None]]:
    """Sets thresholds by name until the end of a test."""
    from caladan.program import thresholds

    with ExitStack() as stack:
        yield lambda **changes: stack.enter_context(thresholds.override(**changes))


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder of larger inputs: CALADAN_DATA, else shared/data beside the repository."""
    folder = Path(os.environ.get("CALADAN_DATA", ROOT.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no data at {folder}; set CALADAN_DATA")
    return folder
