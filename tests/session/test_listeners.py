"""Events as lines of JSON."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import caladan as cal
from caladan.program.events import KernelCompiled, KernelCompiling, RunDone
from caladan.session.listeners import CompileNotice

CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."""


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_file_has_a_line_for_each_event(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    with cal.connect("embedded", listeners=[cal.EventLog(path)]) as db:
        db.add("arc", [(i, i + 1) for i in range(5)])
        db.run(CLOSURE)
        db.run(CLOSURE)
    told = lines(path.read_text())
    assert {line["run"] for line in told} == {1, 2}
    assert next(line["event"] for line in told if line["run"] == 2) == "RunStarted"
    (done,) = [line for line in told if (line["run"], line["event"]) == (2, "CliqueDone")]
    assert (done["relations"], done["facts"]) == (["tc"], 15)
    assert done["time"].endswith("+00:00")


@pytest.mark.filterwarnings("ignore:events are no longer logged")
def test_a_log_that_cannot_be_written_does_not_end_the_run(tmp_path: Path) -> None:
    closed = io.StringIO()
    closed.close()
    for out in (tmp_path / "no" / "such" / "folder", closed):
        with cal.connect("embedded", listeners=[cal.EventLog(out)]) as db:
            db.add("arc", [(1, 2)])
            assert db.run(CLOSURE).answer.rows() == [(1, 2)]


def test_a_stream_of_text(capsys: pytest.CaptureFixture[str]) -> None:
    class Rounds(cal.Listener):
        """What users write for their own metrics."""

        number = 0

        def tell(self, event: Any) -> None:
            self.number += type(event).__name__ == "RunDone"

    out, mine = io.StringIO(), Rounds()
    with cal.connect("reference", listeners=[cal.EventLog(out), mine]) as db:
        db.add("arc", [(1, 2)])
        db.run(CLOSURE)
    assert lines(out.getvalue())[-1]["event"] == "RunDone"
    assert mine.number == 1


@pytest.mark.parametrize("engine", ["embedded", "reference"])
def test_a_run_that_fails_tells_so(engine: str, tmp_path: Path) -> None:
    (tmp_path / "no.csv").write_text("1,one\n")
    out = io.StringIO()
    with cal.connect(engine, listeners=[cal.EventLog(out)]) as db:
        db.add("arc", [(1, 2), (2, 3)])
        db.run(CLOSURE)
        with pytest.raises(cal.CaladanError):
            db.run("q(A) <- arc(A, B), 1 / (A - 1) >= 0. query q(A).")
        with pytest.raises(cal.Stopped):
            db.run(CLOSURE, max_facts=1)
        db.add("no", tmp_path / "no.csv", header=False)
        with pytest.raises(cal.CaladanError):
            db.run("database({no(A: integer, B: integer)}). q(A) <- no(A, B). query q(A).")
        db.run(CLOSURE)
    ends = [line for line in lines(out.getvalue()) if line["event"].startswith(("RunD", "RunF"))]
    assert [(line["run"], line["event"], line.get("code")) for line in ends] == [
        (1, "RunDone", None),
        (2, "RunFailed", "C040"),
        (3, "RunFailed", "C042"),
        (4, "RunFailed", "C032"),
        (5, "RunDone", None),
    ]
    assert "division by zero" in ends[1]["message"]


def test_an_error_of_a_listener_ends_the_run_and_is_told_to_others() -> None:
    class Broken(cal.Listener):
        def tell(self, event: Any) -> None:
            raise ZeroDivisionError(type(event).__name__)

    out = io.StringIO()
    with cal.connect("embedded", listeners=[cal.EventLog(out), Broken()]) as db:
        db.add("arc", [(1, 2)])
        with pytest.raises(ZeroDivisionError):
            db.run(CLOSURE)
    assert lines(out.getvalue())[-1]["message"] == "ZeroDivisionError"


@pytest.mark.parametrize("is_terminal", [False, True])
def test_the_wait_for_kernels_is_announced_once_with_its_reason(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stream(io.StringIO):
        def isatty(self) -> bool:
            return is_terminal

    monkeypatch.setattr("sys.stderr", stream := Stream())
    notice = CompileNotice()
    for kernel in ("sorted.merge", "sorted.dedup"):
        notice.tell(KernelCompiling(kernel))
        notice.tell(KernelCompiled(kernel, 1.0))
    notice.tell(RunDone(2.0))
    said = " ".join(stream.getvalue().split())
    assert said.count("caladan: compiling kernels for this processor, once") == 1
    assert ("2 kernels" in said) is is_terminal
    notice.tell(RunDone(2.0))  # of a run that compiled nothing
    assert " ".join(stream.getvalue().split()) == said


def test_a_run_without_compiled_kernels_announces_the_wait(tmp_path: Path) -> None:
    script = (
        "import caladan as cal; from caladan.columns.kernels import sorted, compilations; "
        "from caladan.session.listeners import CompileNotice\n"
        "with compilations(CompileNotice()): sorted.dedup.compiled()"
    )
    environ = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environ, capture_output=True, text=True, check=True, timeout=280,
    )  # fmt: skip
    assert done.stderr.startswith("caladan: compiling kernels for this processor, once")
    assert done.stderr.count("\n") == 1
