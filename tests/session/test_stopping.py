"""One deadline for a whole run, and Ctrl-C at any time: while reading and compiling too."""

from __future__ import annotations

import _thread
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import caladan as cal
from caladan.cli import main
from caladan.fixpoint.limits import run_stoppable
from caladan.program import clock
from caladan.session.result import Stopped

CLOSURE = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."

PHASES = [
    ("caladan.session.inputs.program", "reading the program"),
    ("caladan.session.course.compile_again", "compiling the program"),
    ("caladan.data.load.load", "reading `arc`"),
]


@pytest.mark.parametrize("engine", ["embedded", "reference"])
@pytest.mark.parametrize("recursion", ["tc(A, C), tc(C, B)", "arc(A, C), tc(C, B)"])
@pytest.mark.parametrize("limit", [{"max_rounds": 3}, {"max_facts": 5}])
def test_limits_name_what_the_user_wrote(
    engine: str, recursion: str, limit: dict[str, int]
) -> None:
    """Not what the compiler made of it for a goal with a constant."""
    db = cal.connect(engine)
    db.add("arc", [(i, i + 1) for i in range(40)])
    text = f"tc(A, B) <- arc(A, B). tc(A, B) <- {recursion}, A < B. query tc(1, B)."
    with pytest.raises(Stopped, match=r"(finish|evaluating) `tc`\n"):
        db.run("database({arc(A: integer, B: integer)}). " + text, **limit)


def test_an_exit_waits_for_work_that_is_late() -> None:
    """Python is not torn down around a thread that is still in a library."""
    script = (
        "import time, threading\n"
        "from caladan.program import clock\n"
        "def work():\n"
        "    time.sleep(0.5)\n"
        "    print('came back', flush=True)\n"
        "try:\n"
        "    with clock.run_clock(0.05):\n"
        "        clock.wait_for(work)\n"
        "except clock.TimeOver:\n"
        "    print('late', flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n")[:2] == ["late", "came back"]


@pytest.fixture(autouse=True, scope="module")
def _imported() -> None:
    """Whatever is imported by a run has been."""
    db = cal.connect("embedded")
    db.add("arc", [(1, 2)])
    db.run(CLOSURE)


def slow(work: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """Work that takes long in one piece, as inside a library."""

    def wait(*given: Any, **named: Any) -> Any:
        time.sleep(seconds)
        return work(*given, **named)

    return wait


def patched(monkeypatch: pytest.MonkeyPatch, name: str, seconds: float) -> None:
    module, _, attribute = name.rpartition(".")
    __import__(module)
    monkeypatch.setattr(name, slow(getattr(sys.modules[module], attribute), seconds))


@pytest.mark.parametrize(("slow_part", "doing"), PHASES)
def test_the_time_covers_what_comes_before_evaluation(
    slow_part: str, doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = cal.connect("embedded")
    db.add("arc", [(1, 2)])
    patched(monkeypatch, slow_part, 20)
    started = time.monotonic()
    with pytest.raises(cal.Stopped) as stopped:
        db.run(CLOSURE, timeout=1)
    assert time.monotonic() - started < 10
    (told,) = stopped.value.diagnostics
    assert told.code == "C042"
    assert told.message == f"1 second was not enough: the time limit ended while {doing}"
    assert sum(relation.count() for relation in stopped.value.result.values()) == 0
    assert stopped.value.exit_code == 3


def test_the_time_is_that_of_all_phases_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """What compiling took is not there for evaluating."""
    db = cal.connect("embedded")
    db.add("arc", [(1, 2)])
    db.run(CLOSURE)
    patched(monkeypatch, "caladan.session.course.compile_program", 3)
    endless = "n(1). n(Y) <- n(X), Y = X + 1. query n(X)."
    started = time.monotonic()
    with pytest.warns(cal.CaladanWarning), pytest.raises(cal.Stopped, match="4 seconds were not"):
        db.run(endless, timeout=4)
    assert time.monotonic() - started < 6.5


def test_a_session_goes_on_after_its_time_was_over(monkeypatch: pytest.MonkeyPatch) -> None:
    db = cal.connect("embedded")
    db.add("arc", [(1, 2), (2, 3)])
    with monkeypatch.context() as patch:
        patched(patch, "caladan.data.load.load", 0.5)
        with pytest.raises(cal.Stopped):
            db.run(CLOSURE, timeout=0.1)
    assert db.run(CLOSURE, timeout=60).answer.rows() == [(1, 2), (1, 3), (2, 3)]


@pytest.mark.parametrize("timeout", [None, 60])
@pytest.mark.parametrize(("slow_part", "doing"), PHASES)
def test_ctrl_c_before_evaluation(
    slow_part: str, doing: str, timeout: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = cal.connect("embedded")
    db.add("arc", [(1, 2)])
    patched(monkeypatch, slow_part, 20)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(cal.Stopped) as stopped:
            db.run(CLOSURE, timeout=timeout)
    finally:
        timer.cancel()
    (told,) = stopped.value.diagnostics
    assert str(told) == f"error[C043]: interrupted while {doing}"
    assert stopped.value.exit_code == 130


@pytest.mark.parametrize("call", ["prepare", "explain", "check"])
def test_ctrl_c_in_other_calls(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python raises Ctrl-C once, maybe where somebody swallows it: then it is raised again."""
    db = cal.connect("embedded")
    db.add("arc", [(1, 2)])

    def interrupted(*_: object) -> None:
        with contextlib.suppress(KeyboardInterrupt):
            _thread.interrupt_main()
            time.sleep(0.1)
        clock.heed()

    monkeypatch.setattr("caladan.session.course.compile_again", interrupted)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # Spark has one of its own
    try:
        with pytest.raises(cal.Stopped, match="interrupted while compiling the program"):
            getattr(db, call)(CLOSURE)
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_an_engine_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("caladan.session.session.engine_for", lambda *_: _thread.interrupt_main())
    with pytest.raises(cal.Stopped, match=r"error\[C043\]: interrupted while starting the engine"):
        cal.connect("embedded")


def test_the_command_line_says_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "p.dl").write_text("database({arc(A: integer, B: integer)}).\n" + CLOSURE)
    (tmp_path / "arc.csv").write_text("1,2\n")
    patched(monkeypatch, "caladan.data.load.load", 20)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    arguments = (str(tmp_path / "p.dl"), "--facts", str(tmp_path), "--engine", "embedded")
    for format in ("table", "csv", "json"):
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        assert main(("run", *arguments, "--format", format)) == 130
        timer.cancel()
        told = capsys.readouterr()
        assert (told.out, told.err) == ("", "error[C043]: interrupted while reading `arc`\n")


def test_ctrl_c_while_the_command_line_imports(tmp_path: Path) -> None:
    """Wherever it comes, once the interpreter runs: one line, and 130 for a shell."""
    program = tmp_path / "p.dl"
    program.write_text("n(1). n(Y) <- n(X), Y = X + 1. query n(X).")
    interrupting = (
        "import sys, threading, signal, os, time; from caladan import cli\n"
        "begun = threading.Event(); begin = cli._main\n"
        "cli._main = lambda argv: begun.set() or begin(argv)\n"
        "def interrupt():\n"
        "    begun.wait(); time.sleep(delay); os.kill(os.getpid(), signal.SIGINT)\n"
        "delay = float(sys.argv.pop(1)); threading.Thread(target=interrupt).start()\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    for delay in ("0", "0.02", "0.1", "0.3", "0.6"):
        done = subprocess.run(
            [sys.executable, "-c", interrupting, delay, "run", program, "--engine", "embedded"],
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip
        # Where Python was interrupted within text that it ran, it dies of the signal at the end.
        assert done.returncode in (130, -signal.SIGINT), done.stderr
        said = [line for line in done.stderr.splitlines() if "C043" in line]
        assert len(said) == 1
        assert "Traceback" not in done.stderr


def test_ctrl_c_before_the_command_line_has_begun() -> None:
    code = """if True:
        import os, signal, sys
        from caladan import cli
        def hook(event, arguments):
            if event == "import" and arguments[0] == "caladan.program.program":
                os.kill(os.getpid(), signal.SIGINT)
        sys.addaudithook(hook)
        sys.argv[1:] = ["check", "no.dl"]
        sys.exit(cli.main())
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "error[C043]: interrupted\n")


def test_ctrl_c_while_python_imports_what_connects() -> None:
    """The signal comes once the import has begun, and counts when it is over."""
    code = """if True:
        import os, signal, sys
        import caladan
        def hook(event, arguments):
            if event == "import" and arguments[0] == "caladan.session.store":
                os.kill(os.getpid(), signal.SIGINT)
        sys.addaudithook(hook)
        try:
            caladan.connect("embedded")
        except caladan.Stopped as stopped:
            print(stopped.diagnostics[0].code)
        print(caladan.connect("reference"))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "C043\n<Session on reference: no data yet>\n"


def test_work_that_is_given_up_ends_when_it_looks() -> None:
    ended = threading.Event()

    def work() -> None:
        try:
            while True:
                time.sleep(0.02)
                clock.look()
        finally:
            ended.set()

    with clock.run_clock(0.1), pytest.raises(clock.TimeOver):
        clock.wait_for(work)
    assert ended.wait(5)


def test_ctrl_c_that_a_library_swallowed() -> None:
    """C code may clear the exception; whoever waits for a kernel raises it again, once."""
    stop = np.zeros(1, np.int64)

    def kernel() -> None:
        while not stop[0]:
            time.sleep(0.01)

    # PySpark has a handler of its own, if another test has a session in this process.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with clock.run_clock(None):
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            with pytest.raises(KeyboardInterrupt):
                run_stoppable(kernel, stop, None)
            clock.heed()
    finally:
        signal.signal(signal.SIGINT, before)


def test_work_that_is_given_up_leaves_the_depth_of_calls_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That limit is the process's: a thread that ends late must not set it back for others."""
    before, ended = sys.getrecursionlimit(), threading.Event()

    def slow(*_: object, **__: object) -> None:
        time.sleep(0.5)
        ended.set()

    monkeypatch.setattr("caladan.session.inputs.parse", slow)
    with pytest.raises(cal.Stopped):
        cal.connect("embedded").run("p(1). query p(X).", timeout=0.1)
    assert sys.getrecursionlimit() == before
    sys.setrecursionlimit(before + 7)
    try:
        assert ended.wait(10)
        time.sleep(0.05)
        assert sys.getrecursionlimit() == before + 7
    finally:
        sys.setrecursionlimit(before)
