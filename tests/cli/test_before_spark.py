"""`caladan run` on Spark: what is wrong is told before a JVM is started, or PySpark imported."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from caladan.cli import main

CLOSURE = """\
database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B).
tc(A, B) <- tc(A, C), arc(C, B).
query tc($from, B).
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tc.dl").write_text(CLOSURE)
    Path("typo.dl").write_text(CLOSURE.replace("arc(C, B)", "ark(C, B)"))
    Path("syntax.dl").write_text("p(X <- q(X).")
    Path("syntax.sql").write_text("SELECT FROM WHERE")
    Path("arc.csv").write_text("1,2\n2,3\n")


GOOD = ("tc.dl", "--param", "from=1", "--data", "arc=arc.csv")

MISTAKES = [
    (("typo.dl", "--param", "from=1"), 1, "C010"),
    (("syntax.dl",), 1, "C001"),
    (("syntax.sql",), 1, "C001"),
    (("tc.dl",), 1, "C020"),
    (("tc.dl", "--param", "from=1"), 1, "C034"),
    (("tc.dl", "--param", "from=1", "--data", "arc=none.csv"), 1, "C030"),
    (("tc.dl", "--param", "from=1", "--facts", "nowhere"), 1, "C030"),
    (("tc.dl", "--param", "from=x", "--data", "arc=arc.csv"), 1, "C012"),
    (("tc.dl", "--param", "from=1", "--data", "arc=arc.csv", "--strategy", "none"), 2, "C050"),
    (("tc.dl", "--param", "from=1", "--data", "arc=arc.csv", "--timeout", "-1"), 2, "C050"),
    (("missing.dl",), 1, "C030"),
]


@pytest.mark.parametrize(("arguments", "status", "code"), MISTAKES)
def test_mistakes_are_told_before(
    arguments: tuple[str, ...],
    status: int,
    code: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def start(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr("caladan.cli.run.engine_for", start)
    assert main(("run", *arguments, "--engine", "spark")) == status
    assert f"error[{code}]" in capsys.readouterr().err


def test_what_is_right_starts_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or the test above would prove nothing."""

    def start(*_: object) -> None:
        raise RuntimeError("Spark was started")

    monkeypatch.setattr("caladan.cli.run.engine_for", start)
    assert main(("run", *GOOD, "--engine", "spark")) == 1
    assert "Spark was started" in capsys.readouterr().err


@pytest.mark.parametrize("asks", [("--master", "local[1]"), ("--conf", "spark.ui.port=1")])
def test_settings_of_spark_ask_for_it(
    asks: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(engine: str, *_: object) -> None:
        raise RuntimeError(f"{engine} was started")

    monkeypatch.setattr("caladan.cli.run.engine_for", start)
    assert main(("run", *GOOD, *asks)) == 1
    assert "spark was started" in capsys.readouterr().err


def test_a_small_program_runs_in_this_process_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("caladan.cli.run.finds_spark", lambda: False)
    assert main(("run", *GOOD)) == 0
    assert "on embedded" in (out := capsys.readouterr().out)
    assert "--engine spark runs it on Spark" in out
    assert main(("run", *GOOD, "--format", "csv")) == 0
    out, err = capsys.readouterr()
    assert out == "1,2\n1,3\n"
    assert err.count("\n") == 1
    assert "--engine spark runs it on Spark" in err
    assert main(("run", *GOOD, "--format", "csv", "--quiet")) == 0
    assert capsys.readouterr().err == ""


def test_pyspark_is_not_even_imported() -> None:
    script = (
        "import sys; from caladan.cli import main; "
        "given = ['--param', 'from=1', '--data', 'arc=arc.csv', '--engine', 'spark']; "
        "status = main(['run', 'typo.dl', *given]); "
        "print(status, *({'pyspark', 'py4j', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["1"]
    assert "error[C010]" in done.stderr
