"""The prompt: what is typed is kept or answered, what is wrong is told and ends nothing."""

import fcntl
import io
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from caladan.cli import main
from caladan.cli.editor import colour, completions, history_file, reader
from caladan.cli.repl import _is_whole

Typed = Callable[..., tuple[int, str, str]]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """What comes of lines that come in through a pipe: exit code, stdout, stderr."""

    def run(text: str, *argv: str) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(text))
        code = main(["repl", "--quiet", *argv])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def rows(out: str) -> list[list[str]]:
    """The words of every line that is no line of a table's frame."""
    return [line.split() for line in out.splitlines() if line.strip() and "─" not in line]


RULES = "arc(1, 2). arc(2,\n  3). tc(X, Y) <- arc(X, Y).\ntc(X, Z) <- tc(X, Y),\n  arc(Y, Z).\n"


def test_facts_and_rules_are_kept_and_goals_answered(typed: Typed) -> None:
    code, out, err = typed(RULES + "query tc(1, B).\ntc(X, Y)?\n")
    assert (code, err) == (0, "")
    assert rows(out) == [
        ["tc(1,", "B)"], ["X", "B"], ["1", "2"], ["1", "3"],
        ["tc(X,", "Y)"], ["X", "Y"], ["1", "2"], ["1", "3"], ["2", "3"],
    ]  # fmt: skip


def test_what_has_no_variables_is_true_or_false(typed: Typed) -> None:
    text = RULES + "tc(1, 3)? tc(3, 1)?\nany() <- tc(_, 3).\nany()?\n"
    assert typed(text) == (0, "true\nfalse\ntrue\n", "")


def test_a_question_may_be_a_body(typed: Typed) -> None:
    _, out, _ = typed(RULES + "tc(X, Y), ~arc(X, Y), W = X + Y?\n")
    assert rows(out) == [["answer(X,", "Y,", "W)"], ["X", "Y", "W"], ["1", "3", "4"]]


def test_mistakes_are_told_and_not_kept(typed: Typed) -> None:
    text = RULES + "bad(X, Y) <- arc(X).\n'open\ntc(1.5, X)?\nnone(1)?\n)(.\n:lisst\ntc(1, 3)?\n"
    code, out, err = typed(text)
    assert (code, out) == (1, "true\n")
    codes = [line.partition("[")[2][:4] for line in err.splitlines() if "error[" in line]
    assert codes == ["C011", "C002", "C012", "C021", "C001", "C050"]
    assert "did you mean `:list`?" in err


def test_what_a_rule_reads_may_come_later(typed: Typed) -> None:
    text = "late(X) <- soon(X). other(1). other(1)?\nlate(X)?\nsoon('a.b?'). late('a.b?')?\n"
    code, out, err = typed(text)
    assert (code, out) == (1, "true\ntrue\n")
    assert err.count("error[C010]: unknown relation `soon`") == 1


def test_declared_relations_are_empty_until_there_is_data(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("1,x\n2,y\n")
    text = (
        "database({w(A: integer, B: string)}).\nw(1, x)?\n/* two\nlines. */ "
        f":data w nowhere.csv\n.\n:data w {tmp_path / 'w.csv'}\nw(1, x)?\nw(3, z). w(3, z)?\n"
    )
    code, out, _ = typed(text)
    assert (code, out) == (1, "false\ntrue\ntrue\n")


def test_files_folders_and_parameters(typed: Typed, tmp_path: Path) -> None:
    (tmp_path / "arc.csv").write_text("1,2\n2,3\n")
    file = tmp_path / "tc.dl"
    file.write_text("database({arc(A: integer, B: integer)}).\n" + RULES.partition("tc")[2].join(
        ["tc", "to(B) <- tc($start, B). query to(B).\n"]
    ))  # fmt: skip
    given = ["--facts", str(tmp_path), "--param", "start=1"]
    for argv, text in (([*given, str(file)], ""), (given, f":load {file}\n")):
        code, out, err = typed(text + "to(3)?\n:list\n", *argv)
        assert (code, err) == (0, "")
        assert rows(out)[:5] == [["to(B)"], ["B"], ["2"], ["3"], ["true"]]
        assert "database" in out


def test_explain_and_help(typed: Typed) -> None:
    _, out, _ = typed(RULES + ":help\ntc(1, X)?\n:explain pcg\n:quit\nnone(X)?\n")
    assert ":explain" in out
    assert "== PCG Tree ==" in out
    assert "tc_bf" in out


def test_explain_has_what_the_last_question_proposed(typed: Typed) -> None:
    """Until another rule comes: then it would be of other rules."""
    facts = "e(1, 2). e(2, 3). e(3, 1). t(X, Y, Z) <- e(X, Y), e(Y, Z), e(Z, X).\n"
    text = facts + "t(X, Y, Z)?\n:explain plan\nu(X) <- e(X, _).\n:explain plan\n"
    _, out, err = typed(text, "--search", "paul")
    assert err == ""
    first, second = out.split("== Physical Plan ==")[1:]
    assert "confirmed      wasted" in first
    assert "confirmed" not in second


def test_limits_end_a_question_and_nothing_else(typed: Typed) -> None:
    text = "n(0). n(Y) <- n(X), Y = X + 1.\nn(X)?\nm(1). m(1)?\n"
    code, out, err = typed(text, "--max-facts", "1000")
    assert (code, out) == (1, "true\n")
    assert "raise `max_facts` to continue" in err


STORE = """
table state(key => value). input put(request, key, value).
input get(request, key).   output reply(request => value).
@upsert state(K, V) <- put(_, K, V).
reply(R, V) <- get(R, K), state(K, V).
"""


def test_ticks(typed: Typed) -> None:
    text = STORE + "put(1, spice, 10).\n:tick\n:tick\nget(2, spice).\n:tick\nreply(R, V)?\n"
    code, out, err = typed(text + "state(spice, 10)?\nstate(water, V)?\n")
    assert (code, err) == (0, "")
    assert rows(out) == [
        ["tick", "1"], ["+", "put(1,", "spice,", "10)"],
        ["tick", "2"], ["+", "state(spice,", "10)"], ["-", "put(1,", "spice,", "10)"],
        ["tick", "3"], ["+", "get(2,", "spice)"], ["+", "reply(2,", "10)"],
        ["reply"], ["request", "value"], ["2", "10"], ["true"], ["state"], ["key", "value"],
    ]  # fmt: skip


def test_rules_that_come_between_ticks(typed: Typed) -> None:
    """Tables stay, and so does what waits for the next tick."""
    text = (
        STORE + "put(1, spice, 10).\n:tick\nscratch dear(key). dear(K) <- state(K, V), V > 5.\n"
        "state(_, _)?\n:tick\ndear(spice)?\n@delete state(spice, 10).\nlmax top. "
        "top(V) <- state(_, V).\n:tick\ndear(spice)?\n"
    )
    code, out, err = typed(text)
    assert (code, err) == (0, "")
    assert [line for line in out.splitlines() if line in ("true", "false")] == ["true", "false"]
    assert "tick 3\n  - state(spice, 10)\n" in out


def test_mistakes_between_ticks(typed: Typed) -> None:
    text = STORE + (
        "state(a, 1). reply(1, 2).\nx(K) <- reply(K, _).\nnone(X)?\nstate(K)?\n"
        "state(K, V), V > 1?\n:tick\nstate(a, 2).\n:tick\nstate(a, 1)?\n:tick x\n:explain calm\n"
    )
    code, out, err = typed(text)
    assert code == 1
    codes = [line.partition("[")[2][:4] for line in err.splitlines() if "error[" in line]
    assert codes == ["C071", "C072", "C010", "C011", "C050", "C070", "C050"]
    assert out.startswith("tick 1\n  + state(a, 1)\ntrue\n")


def test_at_a_terminal(tmp_path: Path) -> None:
    """With prompts, a history, and a Ctrl-C that ends only what is half typed."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "caladan", "repl", "--quiet"],
        stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True,
        env={**os.environ, "HOME": str(tmp_path), "TERM": "dumb"}, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    )  # fmt: skip
    os.close(theirs)
    seen = ""

    def until(text: str, again: bytes = b"") -> None:
        """Read so far; a key that is pressed too early, before somebody listens, once more."""
        nonlocal seen
        end = time.monotonic() + 120
        while text not in seen:
            assert time.monotonic() < end, f"{text!r} does not come after {seen!r}"
            if select.select([ours], [], [], 5)[0]:
                seen += os.read(ours, 4096).decode()
            elif again:
                os.write(ours, again)
        seen = seen.partition(text)[2]

    try:
        until("caladan> ")
        os.write(ours, b"p(1). p(\n")
        until("...> ")
        os.write(ours, b"\x03")
        until("caladan> ", b"\x03")
        os.write(ours, b"p(1)?\n")
        until("true")
        until("caladan> ")
        os.write(ours, b"\x04")
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    assert "p(1)?" in (tmp_path / ".caladan_history").read_text()


def test_files_have_headers_and_delimiters_and_what_is_declared_alone_has_none(
    typed: Typed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("arc.csv").write_text("B;A\n1;2\n")
    text = "database({arc(A: integer, B: integer), none(A: integer)}).\n:data arc arc.csv\n"
    text += "arc(2, 1)? none(1)?\n"
    assert typed(text, "--header", "--delimiter", ";") == (0, "true\nfalse\n", "")


def test_a_question_gets_the_help_that_a_rule_gets(typed: Typed) -> None:
    code, _, err = typed(RULES + "arc(X, Y), not arc(Y, X)?\narc(X, Y), X != 3?\ntc(1, X).\n")
    assert code == 1
    lines = err.splitlines()
    assert lines[0].startswith("<repl>:1:12: error[C001]: ")
    assert lines[1:3] == ["  1 | arc(X, Y), not arc(Y, X)", "    |            ^^^"]
    assert "for negation write `~`" in err
    assert "for not equal write `~=`" in err
    assert "to ask, end with `?`: `tc(1, X)?`" in err


def test_statements_are_taken_back(typed: Typed) -> None:
    text = (
        RULES
        + "tc(2, 3)?\n:delete arc(2, 3)\ntc(2, 3)?\narc(5, 6).\narc(5, 6)?\n:undo\narc(5, 6)?\n"
    )
    code, out, err = typed(text + ":list\n")
    assert (code, err) == (0, "")
    said = ["true", "deleted 1 statement", "false", "true", "removed the last statement", "false"]
    kept = ["arc(1, 2).", "tc(X, Y) <- arc(X, Y).", "tc(X, Z) <- tc(X, Y),", "arc(Y, Z)."]
    assert [line.strip() for line in out.splitlines()] == [*said, *kept]


def test_a_relation_that_was_taken_back_is_gone(typed: Typed) -> None:
    code, out, err = typed(
        RULES + "tc(1, 3)?\n:delete arc\ntc(1, 3)?\n:delete arc\n:undo\n:undo\n:undo\n"
    )
    assert (code, out.splitlines()[:2]) == (1, ["true", "deleted 2 statements"])
    codes = [line.partition("[")[2][:4] for line in err.splitlines() if "error[" in line]
    assert set(codes) == {"C010", "C050"}
    assert "no statement is about `arc` here" in err
    assert "there is nothing to undo" in err


def test_save_and_load(typed: Typed, tmp_path: Path) -> None:
    path = tmp_path / "saved.dl"
    assert typed(f"{RULES}:save {path}\n") == (0, f"wrote {path}\n", "")
    assert typed(f":load {path}\ntc(1, 3)?\n") == (0, "true\n", "")


def test_sql_reads_what_rules_derive(typed: Typed) -> None:
    code, out, err = typed(RULES + ":sql SELECT count(*) AS n FROM tc\n:sql SELEC\n")
    assert rows(out) == [["answer"], ["n"], ["3"]]
    assert code == 1
    assert "error[C060]" in err


def test_words_without_a_colon(typed: Typed) -> None:
    code, out, err = typed("help\nquit\np(1).\n")
    assert (code, err) == (0, "")
    assert ":undo" in out


def test_lines_of_prompt_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enter ends a statement that is whole, and begins a line in one that is not."""
    from prompt_toolkit.application import create_app_session
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TERM", "xterm")
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        read = reader(lambda: ["reaches", ":help"], _is_whole)
        keys.send_text("p(X) <-\rq(X).\r")
        assert read("caladan> ") == "p(X) <-\nq(X)."
        keys.send_text(":help\r")
        assert read("caladan> ") == ":help"
        keys.send_text("\x04")
        with pytest.raises(EOFError):
            read("caladan> ")
    assert history_file().read_text().splitlines() == ["p(X) <- q(X).", ":help"]


def test_completions() -> None:
    assert completions("p(X) <- rea", ["reaches", "read", "arc"]) == ("rea", ["reaches", "read"])
    assert completions(":he", ["head", ":help"]) == (":he", [":help"])
    assert completions("p(", ["reaches"]) == ("", [])


def test_colours_lose_nothing() -> None:
    line = "p(X, 'it') <- ~q(X, 1.5), $N > 2. % why"
    assert "".join(text for _, text in colour(line)) == line
    assert ("ansigreen", "'it'") in colour(line)
    assert ("ansibrightblack", " % why") in colour(line)
