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
    assert main(("run", *arguments)) == status
    assert f"error[{code}]" in capsys.readouterr().err


def test_what_is_right_starts_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Or the test above would prove nothing."""

    def start(*_: object) -> None:
        raise RuntimeError("Spark was started")

    monkeypatch.setattr("caladan.cli.run.engine_for", start)
    assert main(("run", "tc.dl", "--param", "from=1", "--data", "arc=arc.csv")) == 1
    assert "Spark was started" in capsys.readouterr().err


def test_pyspark_is_not_even_imported() -> None:
    script = (
        "import sys; from caladan.cli import main; "
        "status = main(['run', 'typo.dl', '--param', 'from=1', '--data', 'arc=arc.csv']); "
        "print(status, *({'pyspark', 'py4j', 'numba'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.split() == ["1"]
    assert "error[C010]" in done.stderr
