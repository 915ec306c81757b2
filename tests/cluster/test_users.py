"""A cluster as its users have it: executors without this package, much data, ways to submit.

Each test is a process of its own with a driver of its own; the first cluster is taken by the
session of the other tests, so there is a second one.
"""

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import textwrap
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from tests.cluster.standalone import SETTINGS, WORKERS, Cluster, cluster

import caladan

PACKAGES = Path(sysconfig.get_path("purelib"))
SOURCE = Path(caladan.__file__).parents[1]
PATIENCE = 280

CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."""

PROGRAM = """
import json, sys
from pyspark.sql import SparkSession
import caladan as cal
spark = SparkSession.builder.getOrCreate()
with cal.connect(spark, **{arguments!r}) as db:
    db.add("arc", spark.range(50).selectExpr("int(id) A", "int(id + 1) B"))
    out = db.run({closure!r}, timeout=200)
    declined = [each.reason for clique in out.stats.cliques for each in clique.declined]
    told = {{"count": out.answer.spark().count(), "strategy": out.stats.strategy}}
    print("TOLD " + json.dumps({{**told, "declined": declined}}))
spark.stop()
"""


@pytest.fixture(scope="module")
def other() -> Iterator[Cluster]:
    with cluster(WORKERS) as started:
        yield started


def environment(folder: Path, *, without: tuple[str, ...] = (), ours: bool = False) -> Path:
    """A virtual environment with the packages of this one but some, and us only if asked for.

    What this one adds to its path by files, such as a package that is installed in place, is not
    looked at; packages come as links.
    """
    venv.create(folder, symlinks=True)
    site = next(folder.glob("lib/python*/site-packages"))
    packages = folder / "packages"
    packages.mkdir()
    for each in PACKAGES.iterdir():
        if not each.name.startswith((*without, "_caladan", "caladan", "__pycache__")):
            (packages / each.name).symlink_to(each)
    (site / "more.pth").write_text("\n".join([str(packages), *([str(SOURCE)] if ours else [])]))
    return folder


def submitted(
    master: str, folder: Path, python: str, *more: str, **arguments: object
) -> dict[str, Any]:
    """What a program says that spark-submit runs, with a Python for executors."""
    program = folder / "program.py"
    program.write_text(PROGRAM.format(closure=CLOSURE, arguments=arguments))
    settings = {k: v for k, v in SETTINGS.items() if "daemon" not in k}
    settings |= {"spark.executorEnv.PYTHONPATH": "", "spark.ui.enabled": "false"}
    conf = [part for k, v in settings.items() for part in ("--conf", f"{k}={v}")]
    command = [str(Path(pyspark.__path__[0]) / "bin" / "spark-submit"), "--master", master]
    return told([*command, *conf, *more, str(program)], folder, python)


def told(command: list[str], folder: Path, python: str) -> dict[str, Any]:
    """What a process says in a line of its own."""
    path = os.pathsep.join([str(SOURCE), os.environ.get("PYTHONPATH", "")])
    here = {**os.environ, "PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"}
    here |= {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        command, cwd=folder, env=here, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("TOLD ")]
    assert lines, done.stderr[-3000:]
    return json.loads(lines[-1].removeprefix("TOLD "))


def test_executors_without_the_package_are_sent_it(other: Cluster, tmp_path: Path) -> None:
    python = environment(tmp_path / "env") / "bin" / "python"
    said = submitted(other.master, tmp_path, str(python))
    assert said == {"count": 1275, "strategy": "single", "declined": said["declined"]}
    said = submitted(other.master, tmp_path, str(python), ship=False)
    assert (said["count"], said["strategy"]) == (1275, "frame")
    assert "lacks caladan (on " in said["declined"][0]


def test_executors_without_numba_leave_it_to_frames(other: Cluster, tmp_path: Path) -> None:
    python = environment(tmp_path / "env", without=("numba", "llvmlite")) / "bin" / "python"
    said = submitted(other.master, tmp_path, str(python))
    assert (said["count"], said["strategy"]) == (1275, "frame")
    assert "the executors' Python lacks numba (on " in said["declined"][0]


def test_an_archive_with_an_environment(other: Cluster, tmp_path: Path) -> None:
    """As venv-pack makes one, but for packages that are links."""
    packed = tmp_path / "work.tar.gz"
    with tarfile.open(packed, "w:gz") as made:
        made.add(environment(tmp_path / "env", ours=True), arcname=".")
    archive = ("--archives", f"{packed}#environment")
    said = submitted(other.master, tmp_path, "./environment/bin/python", *archive, ship=False)
    assert (said["count"], said["strategy"]) == (1275, "single")


def test_caladan_run_with_a_master(other: Cluster, tmp_path: Path) -> None:
    (tmp_path / "tc.dl").write_text(CLOSURE)
    (tmp_path / "arc.csv").write_text("".join(f"{i},{i + 1}\n" for i in range(50)))
    conf = [part for k, v in SETTINGS.items() for part in ("--conf", f"{k}={v}")]
    run = ["run", "tc.dl", "--data", "arc=arc.csv", "--master", other.master, *conf]
    done = subprocess.run(
        [sys.executable, "-m", "caladan", *run, "--format", "csv", "--stats", "stats.json"],
        cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1275
    assert json.loads((tmp_path / "stats.json").read_text())["strategy"] == "single"


@pytest.mark.timeout(900)
def test_thirty_million_arcs(other: Cluster, tmp_path: Path) -> None:
    """They reach tasks without the driver, which could not hold them."""
    program = tmp_path / "program.py"
    conf = {**SETTINGS, "spark.caladan.staging": (tmp_path / "staged").as_uri()}
    conf |= {"spark.executor.memory": "800m", "spark.driver.maxResultSize": "64m"}
    (tmp_path / "staged").mkdir()
    program.write_text(
        textwrap.dedent(f"""
        import json
        import caladan as cal
        with cal.connect("spark", master={other.master!r}, conf={conf!r}) as db:
            spark = db._engine.session
            db.add("arc", spark.range(30_000_000).selectExpr("id A", "id + 1 + 10000 * (id % 7) B"))
            db.add("start", [(0,), (5,)])
            rules = "reach(A) <- start(A). reach(B) <- reach(A), arc(A, B). query reach(A)."
            out = db.run(rules, timeout=600)
            strategies = [clique.strategy for clique in out.stats.cliques]
            print("TOLD " + json.dumps({{"count": out.answer.count(), "strategies": strategies}}))
        """)
    )
    said = told([sys.executable, str(program)], tmp_path, sys.executable)
    assert said["strategies"] == ["single"]
    assert said["count"] == 1728
