"""The command line: what is printed where, and which code it ends with."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from caladan.cli import main
from caladan.cli.arguments import STAGES as NAMES
from caladan.pipeline import SCRIPT_STAGES, STAGES

CLOSURE = """\
database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B).
tc(A, B) <- tc(A, C), arc(C, B).
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tc.dl").write_text(CLOSURE + "query tc(1, B).\n")
    Path("two.dl").write_text(CLOSURE + "query tc(1, B).\nquery tc(X, 3).\n")
    Path("bare.dl").write_text(CLOSURE + "end(B) <- tc(_, B), ~arc(B, _).\n")
    Path("export.dl").write_text(CLOSURE + "export tc(A, B).\n")
    Path("long.dl").write_text(
        " ".join(f"d({i})." for i in range(10))
        + "n(X) <- d(A), d(B), d(C), X = 100 * A + 10 * B + C. query n(X).\n"
    )
    Path("steps.dl").write_text("n(1). n(Y) <- n(X), Y = X + 1, Y <= 50. query n(X).\n")
    Path("facts").mkdir()
    Path("facts/arc.csv").write_text("1,2\n2,3\n")
    Path("bad.csv").write_text("1,2\nx,3\n")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]):
    """Call the command line: its exit code, stdout and stderr."""

    def run(*argv: str) -> tuple[int, str, str]:
        if argv[0] == "run" and "--engine" not in argv:
            argv = (*argv, "--engine", "reference")
        try:
            code = main(argv)
        except SystemExit as ended:
            code = int(ended.code or 0)
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


# ── Answers ──────────────────────────────────────────────────────────────────────────────────────


def test_a_table_for_people(call) -> None:
    code, out, err = call("run", "tc.dl", "--data", "arc=facts/arc.csv")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "tc(1, B)"
    assert [line.split() for line in lines[3:5]] == [["1", "2"], ["1", "3"]]
    assert "2 facts" in lines
    assert lines[-1].endswith("on reference, 3 rounds")


def test_long_tables_say_how_much_is_left_out(call) -> None:
    _, out, _ = call("run", "long.dl")
    assert "… and 980 more\n" in out
    assert "1,000 facts\n" in out


def test_without_goals_every_relation_is_shown(call) -> None:
    _, out, _ = call("run", "bare.dl", "--facts", "facts")
    assert [line for line in out.splitlines() if line in ("tc", "end")] == ["tc", "end"]
    assert "3 facts" in out
    assert "1 fact\n" in out


def test_quiet_prints_the_answer_alone(call) -> None:
    _, out, err = call("run", "tc.dl", "--facts", "facts", "--quiet")
    assert "facts" not in out
    assert "on reference" not in out
    assert err == ""


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["tc.dl", "--format", "csv"], "1,2\n1,3\n"),
        (["tc.dl", "--format", "csv", "--query", "tc(X, Y)"], "1,2\n1,3\n2,3\n"),
        (["tc.dl", "--format", "csv", "--query", "tc(9, Y)"], ""),
        (["export.dl", "--format", "csv"], "1,2\n1,3\n2,3\n"),
        (["tc.dl", "--format", "json"], '[\n{"A": 1, "B": 2},\n{"A": 1, "B": 3}\n]\n'),
        (["tc.dl", "--format", "json", "--query", "tc(9, Y)"], "[]\n"),
    ],
)
def test_machines_get_nothing_else(call, argv: list[str], expected: str) -> None:
    assert call("run", *argv, "--facts", "facts") == (0, expected, "")


def test_several_answers_are_one_object(call) -> None:
    _, out, _ = call("run", "two.dl", "--facts", "facts", "--format", "json")
    assert json.loads(out) == {
        "tc(1, B)": [{"A": 1, "B": 2}, {"A": 1, "B": 3}],
        "tc(X, 3)": [{"X": 1, "B": 3}, {"X": 2, "B": 3}],
    }


def test_files(call) -> None:
    code, out, err = call("run", "two.dl", "--facts", "facts", "--out", "out")
    assert (code, out) == (0, "")
    assert err == "tc(1, B), 2 facts: out/tc.csv\ntc(X, 3), 2 facts: out/tc_2.csv\n"
    assert Path("out/tc.csv").read_text() == "1,2\n1,3\n"
    call("run", "bare.dl", "--facts", "facts", "--out", "out", "--format", "parquet", "--quiet")
    assert pq.read_table("out/tc.parquet").num_rows == 3
    assert pq.read_table("out/end.parquet").to_pylist() == [{"B": 3}]
    call("run", "two.dl", "--facts", "facts", "--out", "out")  # again, over what is there


@pytest.mark.parametrize("engine", ["reference", "embedded"])
def test_stats(call, engine: str) -> None:
    Path("tc.dl").write_text(CLOSURE + "query tc(A, B).\n")
    call("run", "tc.dl", "--facts", "facts", "--stats", "stats.json", "--engine", engine)
    stats = json.loads(Path("stats.json").read_text())
    assert stats["engine"] == engine
    assert stats["rounds"] > 0


def test_parameters_are_values(call) -> None:
    Path("p.dl").write_text("p(1, 'x'). p(2, '2'). query p({n}, {s}).")
    argv = ["run", "p.dl", "--format", "csv", "--param", "n=2"]
    assert call(*argv, "--param", "s='2'")[1] == "2,2\n"
    assert call(*argv, "--param", "s=x")[1] == ""


def test_data_folders_may_be_compressed_or_folders(call) -> None:
    Path("f").mkdir()
    Path("f/arc").mkdir()
    Path("f/arc/1.tsv").write_text("1\t2\n")
    Path("f/README").write_text("")
    assert call("run", "tc.dl", "--facts", "f", "--format", "csv")[1] == "1,2\n"


# ── Mistakes ─────────────────────────────────────────────────────────────────────────────────────

MISTAKES = [
    (["run", "none.dl"], 1, "none.dl: error[C030]: no such program file"),
    (["run", "tc.dl"], 1, "tc.dl:1:11: error[C034]: no data for arc(A, B)"),
    (
        ["run", "tc.dl", "--data", "arc=none.csv"],
        1,
        "none.csv: error[C030]: no such file or folder",
    ),
    (["run", "tc.dl", "--facts", "none"], 1, "none: error[C030]: no such folder"),
    (
        ["run", "tc.dl", "--data", "arc=bad.csv"],
        1,
        "bad.csv:2:1: error[C032]: 'x' is not an integer",
    ),
    (["run", "tc.dl", "--facts", "facts", "--query", "tcc(X, Y)"], 1, "--query:1:1: error[C021]:"),
    (["run", "tc.dl", "--facts", "facts", "--query", "tc(X"], 1, "--query:1:5: error[C001]:"),
    (["run", "tc.dl", "--facts", "facts", "--format", "parquet"], 2, "error[C050]: parquet cannot"),
    (["run", "two.dl", "--facts", "facts", "--format", "csv"], 2, "error[C050]: csv prints one"),
    (["run", "bare.dl", "--facts", "facts", "--format", "csv"], 2, "error[C050]: csv prints one"),
    (["run", "tc.dl", "--out", "o", "--format", "table"], 2, "error[C050]: a table can be printed"),
    (
        ["run", "tc.dl", "--facts", "facts", "--out", "tc.dl"],
        1,
        "tc.dl/tc.csv: error[C037]: cannot",
    ),
    (["run", "tc.dl", "--engine", "sparc"], 2, "error[C050]: --engine: 'sparc' is none of auto"),
    (["run", "tc.dl", "--max-rounds", "0", "--facts", "facts"], 2, "error[C050]: max_rounds must"),
    (["run", "tc.dl", "--language", "rasql"], 1, "tc.dl:1:14: error[C001]:"),
    (["run", "tc.dl", "--data", "arc"], 2, "error[C050]: --data: it is not of the form NAME=VALUE"),
    (["run", "tc.dl", "--data", "ark=x.csv"], 2, "error[C050]: --data ark=…: the program has no"),
    (["run", "tc.dl", "--param", "ark=1"], 2, "error[C050]: --param ark=…: the program has no"),
    (["check", "tc.dl", "--data", "ark=x.csv"], 2, "error[C050]: --data ark=…: the program has no"),
    (["run", "tc.dl", "--format", "xls"], 2, "error[C050]: --format: 'xls' is none of table, csv"),
    (["run", "two.dl", "--out", "o.csv"], 2, "error[C050]: o.csv is one file, but the program has"),
    (
        ["run", "tc.dl", "--out", "o.csv", "--format", "json"],
        2,
        "error[C050]: --out o.csv is not a",
    ),
    (["run"], 2, "error[C050]: the following arguments are required: PROGRAM"),
    ([""], 2, "error[C050]: COMMAND: "),
    (["explain", "tc.dl", "--stage", "pgc"], 2, "error[C050]: there is no stage `pgc`"),
    (["bench", "tc"], 2, "error[C051]: `caladan bench` is not available yet"),
]


@pytest.mark.parametrize(("argv", "code", "message"), MISTAKES)
def test_mistakes(call, argv: list[str], code: int, message: str) -> None:
    found, out, err = call(*argv)
    assert err.startswith(message)
    assert (found, out) == (code, "")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "near"),
    [
        (["run", "tc.dl", "--quite"], "there is no option `--quite`; did you mean `--quiet`?"),
        (["run", "tc.dl", "--fromat=csv"], "there is no option `--fromat`; did you mean `--form"),
        (["run", "tc.dl", "--strategy", "meshd"], "is none of single, cubed, pivoted, meshed, fr"),
        (["run", "tc.dl", "--engine", "sparc"], "reference; did you mean `spark`?"),
    ],
)
def test_a_wrong_flag_takes_one_line(call, argv: list[str], near: str) -> None:
    code, out, err = call(*argv)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert near in err


def test_names_that_nothing_reads_come_with_a_suggestion(call) -> None:
    for argv in (["--data", "ark=facts/arc.csv"], ["--facts", "facts", "--param", "a=1"]):
        code, _, err = call("run", "tc.dl", *argv)
        assert code == 2
        assert "help: did you mean `arc`?" in err or "help: it has none" in err
    Path("q.sql").write_text("SELECT * FROM arc WHERE c1 = :start")
    _, _, err = call("run", "q.sql", "--data", "ark=facts/arc.csv")
    assert "the program has no relation `ark`" in err
    data = ("--data", "ARC=facts/arc.csv", "--format", "csv")
    assert call("run", "q.sql", *data, "--param", "start=1") == (0, "1,2\n", "")
    _, _, err = call("run", "q.sql", *data, "--param", "star=1")
    assert "error[C020]: no value was given for the parameter `start` (given: `star`)" in err
    _, _, err = call("run", "q.sql", *data, "--param", "start=1", "--param", "sart=1")
    assert "did you mean `start`?" in err


def test_caladan_alone_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("usage: caladan")


def test_help_lists_the_values_of_an_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "--help"])
    out = capsys.readouterr().out
    for values in ("{single,cubed,pivoted,meshed,frame}", "{jessica,paul,ghanima,leto,rows,"):
        assert values in out


def test_tabs(call) -> None:
    facts = ("--facts", "facts", "--query", "arc(X, Y)")
    code, out, _ = call("run", "tc.dl", *facts, "--format", "tsv")
    assert code == 0
    assert out.splitlines()[0] == "1\t2"
    call("run", "tc.dl", *facts, "--format", "tsv", "--out", "o")
    assert Path("o/arc.tsv").read_text() == out


def test_a_name_with_a_suffix_is_one_file(call) -> None:
    code, out, err = call("run", "tc.dl", "--facts", "facts", "--out", "one/tc.csv")
    assert (code, out) == (0, "")
    assert err.endswith("one/tc.csv\n")
    assert Path("one/tc.csv").is_file()
    Path("folder.csv").mkdir()
    call("run", "tc.dl", "--facts", "facts", "--out", "folder.csv")
    assert Path("folder.csv/tc.csv").read_text() == Path("one/tc.csv").read_text()
    call("run", "tc.dl", "--data", "arc=bad.csv", "--permissive", "--out", "one/tc.json")
    assert Path("one/_rejected.json").is_file()


def test_two_files_for_a_relation(call) -> None:
    Path("facts/arc.tsv").write_text("1\t2\n")
    code, _, err = call("run", "tc.dl", "--facts", "facts")
    assert code == 2
    assert "facts has several files for arc: arc.csv, arc.tsv" in err
    assert call("run", "tc.dl", "--facts", "facts", "--data", "arc=facts/arc.tsv")[0] == 2


def test_permissive(call) -> None:
    argv = ["run", "tc.dl", "--data", "arc=bad.csv", "--permissive"]
    code, out, err = call(*argv, "--format", "csv")
    assert (code, out) == (0, "1,2\n")
    assert err.startswith("warning[W108]: 1 row of the data of arc was set aside\n")
    _, _, err = call(*argv, "--out", "out")
    assert err.endswith("the rows that were set aside are in _rejected in out\n")
    assert "bad.csv,2,1,x" in Path("out/_rejected.csv").read_text()


def test_a_limit_ends_with_3_and_what_was_found(call) -> None:
    code, out, err = call("run", "steps.dl", "--max-rounds", "5", "--format", "csv")
    assert code == 3
    assert out.startswith("1\n2\n")
    assert err.startswith("error[C042]: 5 rounds were not enough to finish `n`")


def test_warnings_are_drawn(call) -> None:
    Path("grow.dl").write_text("n(1). n(Y) <- n(X), Y = X + 1. query n(X).")
    _, _, err = call("run", "grow.dl", "--max-facts", "5")
    assert err.startswith("grow.dl:1:9: warning[W101]: ")


def test_interrupted(call, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("caladan.cli.run.run", interrupt)
    assert call("run", "tc.dl") == (130, "", "error[C043]: interrupted\n")


def test_our_own_mistakes_are_admitted(call, monkeypatch: pytest.MonkeyPatch) -> None:
    def break_down(*_: object) -> int:
        raise ZeroDivisionError("oops\nmore")

    monkeypatch.setattr("caladan.cli.run.run", break_down)
    code, _, err = call("run", "tc.dl")
    assert code == 1
    assert err.splitlines()[0] == "error[C090]: internal error: ZeroDivisionError: oops"
    with pytest.raises(ZeroDivisionError):
        call("run", "tc.dl", "--debug")


# ── The other commands ───────────────────────────────────────────────────────────────────────────


def test_check(call) -> None:
    assert call("check", "tc.dl") == (0, "tc.dl: ok, 2 rules, 1 goal\n", "")
    Path("wrong.dl").write_text("p(X) <- q(X).\nr(X, Y) <- p(X).\n")
    code, out, err = call("check", "wrong.dl")
    assert (code, out) == (1, "")
    assert "error[C010]: unknown relation `q`" in err


def test_explain(call) -> None:
    _, out, _ = call("explain", "tc.dl", "--stage", "operators")
    assert out.startswith("== Operator Program ==")
    _, out, err = call("explain", "tc.dl", "--html", "plan.html")
    assert out.count("== ") == len(STAGES)
    assert err == "wrote plan.html\n"
    assert "tc.dl" in Path("plan.html").read_text()
    assert ("all", *(stage.name for stage in (*STAGES, *SCRIPT_STAGES))) == NAMES
    code, out, err = call("explain", "tc.dl", "--stage", "aggregates")
    assert (code, out) == (2, "")
    assert "error[C050]: only scripts of SQL have a stage `aggregates`" in err


@pytest.mark.parametrize(
    ("engine", "without", "with_data"),
    [
        ("embedded", "strategy, decided by the facts:", "strategy: rounds (its rules read fewer"),
        ("spark", "strategy: pivoted (every", "strategy: single (2 facts: at most"),
        ("reference", "Naive evaluation", "Naive evaluation"),
    ],
)
def test_explain_for_an_engine(call, engine: str, without: str, with_data: str) -> None:
    _, out, _ = call("explain", "tc.dl", "--stage", "plan", "--engine", engine)
    assert without in out
    Path("two.csv").write_text("1,2\n2,3\n")
    data = ("--data", "arc=two.csv")
    _, out, _ = call("explain", "tc.dl", "--stage", "plan", "--engine", engine, *data)
    assert with_data in out


def test_explain_for_a_master(call) -> None:
    asked = ("explain", "tc.dl", "--stage", "plan", "--master")
    assert "hashpartitioning(A#6, 5)" in call(*asked, "local[5]")[1]
    assert "hashpartitioning(A#6, 6)" in call(*asked, "local-cluster[2,3,1024]")[1]
    assert "hashpartitioning(A#6, n)" in call(*asked, "spark://host:7077")[1]
    assert "(Driver) [tc_bf][1,0]\n" in call(*asked, "local", "--strategy", "frame")[1]


def test_help_and_version(call) -> None:
    assert call("--version")[1].startswith("caladan ")
    assert "--max-rounds N" in call("run", "--help")[1]


def test_headers(call) -> None:
    Path("bare.csv").write_text("1,2\n")
    Path("named.csv").write_text("to,from\n2,1\n")
    Path("pairs.dl").write_text(
        "database({e(from: integer, to: integer), f(A: integer, B: integer)}).\n"
        "p(X, Y) <- e(X, Y). p(X, Y) <- f(Y, X). query p(X, Y).\n"
    )
    data = ("run", "pairs.dl", "--format", "csv", "--data", "e=named.csv")
    bare = ("--data", "f=bare.csv")
    assert call(*data, "--data", "f=named.csv", "--header")[:2] == (0, "1,2\n")
    assert call(*data, *bare, "--header-of", "e")[:2] == (0, "1,2\n2,1\n")
    assert call(*data, *bare, "--header", "--no-header-of", "f")[:2] == (0, "1,2\n2,1\n")
    for options in ((), ("--no-header",)):
        code, _, err = call(*data, *bare, *options)
        assert code == 1
        assert "error[C032]" in err or "error[C035]" in err


def test_another_delimiter(call) -> None:
    Path("semi.csv").write_text("1;2\n2;3\n")
    Path("tabs.csv").write_text("1\t2\n2\t3\n")
    run = ("run", "tc.dl", "--format", "csv", "--data")
    for name, written in (("semi", ";"), ("tabs", r"\t")):
        code, _, err = call(*run, f"arc={name}.csv")
        assert code == 1
        assert f'`--delimiter "{written}"` on the command line' in err
        assert call(*run, f"arc={name}.csv", "--delimiter", written)[:2] == (0, "1,2\n1,3\n")
    assert call(*run, "arc=semi.csv", "--delimiter", "::")[0] == 2


def test_data_is_given_once(call) -> None:
    code, _, err = call("run", "tc.dl", "--data", "arc=a.csv", "--data", "arc=b.csv")
    assert (code, err.splitlines()[0]) == (2, "error[C050]: `arc` is given data twice")


# ── As a process ─────────────────────────────────────────────────────────────────────────────────


def process(*argv: str, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "caladan", *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)


def test_a_process_keeps_stdout_pure() -> None:
    done = process("run", "tc.dl", "--facts", "facts", "--engine", "reference", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == [{"A": 1, "B": 2}, {"A": 1, "B": 3}]
    done = process("run", "tc.dl", "--engine", "reference")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize(("query", "code"), [("SELECT 1 AS A", 0), ("SELECT 1 / 0 AS A", 1)])
def test_a_process_ends_quietly_after_sql(query: str, code: int) -> None:
    Path("query.sql").write_text(query)
    done = process("run", "query.sql", "--engine", "embedded", "--format", "csv")
    assert done.returncode == code
    assert "nanobind" not in done.stderr
    assert done.stderr == "" or code


def test_a_process_that_is_interrupted_shows_what_it_has() -> None:
    Path("long.dl").write_text("n(1). n(Y) <- n(X), Y = X + 1, Y > 0. query n(X).\n")
    command = [sys.executable, "-m", "caladan", "run", "long.dl", "--engine", "reference"]
    ours, theirs = os.openpty()  # stderr is a terminal, so that rounds are told
    with Path("out.csv").open("w") as out:
        running = subprocess.Popen(
            [*command, "--format", "csv", "--timeout", "120"],
            stdout=out,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm"},
        )
    os.close(theirs)
    told = b""
    is_interrupted = False
    while piece := _read(ours):
        told += piece
        if not is_interrupted and re.search(rb"round ([3-9]|\d[\d,]+),", told):
            running.send_signal(signal.SIGINT)
            is_interrupted = True
    os.close(ours)
    assert running.wait() == 130, told
    assert Path("out.csv").read_text().startswith("1\n2\n3\n")
    assert b"error[C043]: interrupted while evaluating `n`" in told
    assert b"Traceback" not in told


def _read(terminal: int) -> bytes:
    """What was written to a terminal next; nothing once no process has it open."""
    try:
        return os.read(terminal, 4096)
    except OSError:  # what Linux says then
        return b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    "argv",
    [
        ("run", "tc.dl", "--facts", "facts", "--engine", "reference"),
        ("run", "tc.dl", "--facts", "facts", "--engine", "reference", "--format", "csv"),
        ("explain", "tc.dl"),
        ("check", "tc.dl"),
    ],
)
def test_a_full_device(argv: tuple[str, ...], unbuffered: str) -> None:
    command = [sys.executable, "-m", "caladan", *argv]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment
        )
    told = "error[C037]: cannot write to stdout: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, told)


@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        ("run long.dl --format csv | head -1", 0, "0\n", ""),
        ("run long.dl | true", 0, "", ""),
        ("run long.dl >&-", 1, "", "error[C037]: cannot write to stdout: Bad file descriptor\n"),
        ("run nowhere.dl 2>&-", 1, "", ""),
    ],
)
def test_streams_that_are_closed(command: str, code: int, out: str, err: str) -> None:
    command = f"'{sys.executable}' -m caladan {command.replace('.dl', '.dl --engine reference')}"
    done = subprocess.run(
        ["bash", "-c", f"{command}; exit ${{PIPESTATUS[0]}}"],
        capture_output=True, text=True, check=False, env=dict(os.environ),
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, out, err)
