"""`caladan` with several programs, with stdin, with json lines; and `caladan test`."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from caladan.cli import main
from caladan.program.diagnostics import CaladanError

TC = "tc(A, B) <- arc(A, B).\ntc(A, B) <- tc(A, C), arc(C, B).\n"
ARC = "database({arc(A: integer, B: integer)}).\n"
SQL = "CREATE TABLE arc(A integer, B integer); SELECT A, B FROM arc WHERE A = 1"
HERE = ("--engine", "embedded")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("arc.csv").write_text("1,2\n2,3\n")
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def given(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(data)))


# ── Several programs, and stdin ──────────────────────────────────────────────────────────────────


def test_several_programs_are_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("rules.dl").write_text(ARC + TC)
    Path("ask.dl").write_text(ARC + "query tc(1, X).")
    run = ("rules.dl", "ask.dl", "--data", "arc=arc.csv")
    code, out, _ = said(capsys, "run", *run, *HERE, "--format", "csv")
    assert (code, out) == (0, "1,2\n1,3\n")
    assert said(capsys, "check", *run)[:2] == (0, "rules.dl ask.dl: ok, 2 rules, 1 goal\n")
    assert "tc(A, B) <- arc(A, B)" in said(capsys, "explain", *run, "--stage", "rules")[1]


def test_declarations_must_agree(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.dl").write_text(ARC + "query arc(A, B).")
    Path("b.dl").write_text("database({arc(A: integer, B: string)}).")
    code, _, err = said(capsys, "run", "a.dl", "b.dl", *HERE)
    assert code == 1
    assert "b.dl:1:11: error[C017]" in err
    assert "a.dl:1:11" in err


def test_scripts_of_sql_are_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.sql").write_text("SELECT 1 AS n;")
    Path("b.dl").write_text(TC)
    code, _, err = said(capsys, "run", "a.sql", "b.dl", *HERE)
    assert code == 2
    assert "a.sql: error[C050]: a script of SQL runs alone" in err


@pytest.mark.parametrize("text", [f"{ARC}{TC}query tc(1, X).", SQL])
def test_a_program_from_stdin(
    text: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, text.encode())
    code, out, _ = said(capsys, "run", "-", "--data", "arc=arc.csv", *HERE, "--format", "csv")
    assert code == 0
    assert out.startswith("1,2\n")


def test_mistakes_on_stdin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given(monkeypatch, b"p(X Y).")
    assert "<stdin>:1:5: error[C001]" in said(capsys, "check", "-", "--language", "deals")[2]
    given(monkeypatch, b"p(1).\n\xff")
    assert "<stdin>:2:1: error[C033]" in said(capsys, "run", "-", *HERE)[2]
    given(monkeypatch, b"p(1).")
    code, _, err = said(capsys, "run", "-", "-", *HERE)
    assert (code, "`-` can appear once" in err) == (2, True)


def test_stdin_goes_together_with_files_and_includes() -> None:
    Path("rules.dl").write_text(TC)
    text = f"{ARC}include 'rules.dl'.\nquery tc(1, X)."
    done = subprocess.run(
        [sys.executable, "-m", "caladan", "run", "-", "--data", "arc=arc.csv", *HERE,
         "--format", "jsonl"],
        input=text, text=True, capture_output=True, check=True, env=os.environ,
    )  # fmt: skip
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"A": 1, "X": 2},
        {"A": 1, "X": 3},
    ]


# ── Json lines ───────────────────────────────────────────────────────────────────────────────────


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.dl").write_text("p(1, 'a\nb'). p(2, é). query p(N, Text).".replace("\n", "\\n"))
    code, out, _ = said(capsys, "run", "p.dl", *HERE, "--format", "jsonl")
    assert code == 0
    assert [json.loads(line) for line in out.splitlines()] == [
        {"N": 1, "Text": "a\nb"},
        {"N": 2, "Text": "é"},
    ]
    assert said(capsys, "run", "p.dl", *HERE, "--query", "p(3, X)", "--format", "jsonl")[1] == ""
    assert said(capsys, "run", "p.dl", *HERE, "--out", "o", "--format", "jsonl")[0] == 0
    assert len(Path("o/p.jsonl").read_text().splitlines()) == 2


def test_json_lines_are_of_one_relation(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.dl").write_text("p(1). query p(X). query p(1).")
    code, out, err = said(capsys, "run", "p.dl", *HERE, "--format", "jsonl")
    assert (code, out) == (2, "")
    assert "jsonl prints one relation, but the program has 2 goals" in err


# ── Expectations ─────────────────────────────────────────────────────────────────────────────────

GOOD = f"""{ARC}include 'rules.dl'.
arc(1, 2). arc(2, 3).
third(A, A / 3) <- arc(A, _).
empty(A) <- arc(A, _), A > 9.
ready() <- arc(1, 2).

expect tc(1, 3).
expect tc(1, _).
expect no tc(3, _).
expect tc(X, Y) = {{(1, 2), (1, 3), (2, 3)}}.
expect tc(1, X) = {{(1, 2), (1, 3)}}.
expect third(X, Y) = {{(1, 0.3333333333), (2, 0.66666666667)}}.
expect empty(X) = {{}}.
expect no empty(_).
expect ready().
expect ready() = {{()}}.
"""


@pytest.fixture
def rules() -> None:
    Path("rules.dl").write_text(TC + "query tc(A, B).\nexpect tc(9, 9).\n")


@pytest.mark.parametrize("engine", ["embedded", "reference"])
def test_expectations_that_hold(
    engine: str, rules: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Those of an included file speak of that file alone."""
    Path("good.dl").write_text(GOOD)
    code, out, err = said(capsys, "test", "good.dl", "--engine", engine)
    assert (code, out, err) == (0, "good.dl: 10 expectations hold\n", "")
    assert said(capsys, "test", "good.dl", "--quiet") == (0, "", "")


@pytest.mark.parametrize(
    ("wrong", "diff"),
    [
        ("expect tc(3, 1).", ["- tc(3, 1)"]),
        ("expect tc(X, X).", ["- tc(X, X)"]),
        ("expect no tc(1, _).", ["+ tc(1, 2)", "+ tc(1, 3)"]),
        ("expect tc(1, X) = {(1, 2), (1, 7), (1, 3)}.", ["- tc(1, 7)"]),
        ("expect tc(1, X) = {(1, 3)}.", ["+ tc(1, 2)"]),
        ("expect tc(1, X) = {(2, 3)}.", ["- tc(2, 3)", "+ tc(1, 2)", "+ tc(1, 3)"]),
        ("expect third(1, X) = {(1, 0.334)}.", ["- third(1, 0.334)", "+ third(1, 0.333333333333"]),
        ("expect empty(X) = {3}.", ["- empty(3)"]),
    ],
)
def test_expectations_that_do_not(
    wrong: str, diff: list[str], rules: None, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.dl").write_text(f"{GOOD}{wrong}\n")
    code, out, err = said(capsys, "test", "bad.dl")
    assert (code, out) == (1, "bad.dl: 1 of 11 expectations does not hold\n")
    line = GOOD.count("\n") + 1
    assert err.startswith(f"bad.dl:{line}:1: error[C046]")
    shown = [each.strip() for each in err.splitlines() if each.startswith(("  -", "  +"))]
    assert len(shown) == len(diff)
    assert all(a.startswith(b) for a, b in zip(shown, diff, strict=True))


def test_a_long_diff_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    Path("long.dl").write_text(f"{' '.join(f'p({i}).' for i in range(50))} expect no p(X).")
    err = said(capsys, "test", "long.dl")[2]
    assert err.count("\n  + ") == 21
    assert "+ and 30 more" in err


def test_folders(
    rules: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CALADAN_INCLUDE", ".")  # rules that stand above a test
    Path("deep/er").mkdir(parents=True)
    Path("deep/er/good.dl").write_text(GOOD.replace("rules.dl", "../../rules.dl"))
    Path("deep/bad.dl").write_text("p(1). expect p(2).")
    Path("deep/wrong.dl").write_text("p(X Y). expect p(2).")
    Path("deep/plain.dl").write_text("p(1). query p(X).")
    code, out, err = said(capsys, "test", "deep", "deep/bad.dl")
    assert code == 1
    assert out.splitlines() == [
        "deep/bad.dl: 1 of 1 expectation does not hold",
        "deep/er/good.dl: 10 expectations hold",
        "deep/wrong.dl: cannot be run",
        "3 files: cannot be run, 1 of 11 expectations does not hold",
    ]
    assert "deep/bad.dl:1:7: error[C046]" in err
    assert "deep/wrong.dl:1:5: error[C001]" in err


def test_data_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.dl").write_text(f"{ARC}{TC}expect tc({{from}}, X) = {{({{from}}, 2), ($from, 3)}}.")
    good = ("test", "p.dl", "--data", "arc=arc.csv", "--param", "from=1")
    assert said(capsys, *good)[0] == 0
    assert said(capsys, *good[:-1], "from=2")[0] == 1
    assert "C020" in said(capsys, *good[:-2])[2]


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("p(1). expect q(1).", 1, "C021"),
        ("p(1). expect p(1, 2).", 1, "C011"),
        ("p(1). expect p(X) = {(1, 2)}.", 1, "C011"),
        ("p(1). expect p(X) = {a}.", 1, "C018"),
        ("p(1). expect p(X) = {X}.", 1, "constants only"),
        ("p(1). expect p(X) = {1 + 1}.", 1, "constants only"),
        ("p(1). expect p(X) = 1.", 1, "expected `{` and the facts"),
        ("p(1). expect ~p(2).", 1, "write `expect no …`"),
        ("p(1). expect no p(1) = {}.", 1, "expected `.` after an expectation"),
        ("p(1).", 1, "this file has no `expect`"),
        ("n(1). n(Y) <- n(X), Y = X + 1. expect n(0).", 1, "C042"),
    ],
)
def test_mistakes_in_tests(
    text: str, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p.dl").write_text(text)
    found, out, err = said(capsys, "test", "p.dl", "--timeout", "3")
    assert (found, out) == (code, "p.dl: cannot be run\n")
    assert message in err


def test_expectations_on_stdin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for text, code, told in (
        ("p(1). expect p(1).", 0, "<stdin>: 1 expectation holds\n"),
        ("p(1). expect p(2).", 1, "<stdin>: 1 of 1 expectation does not hold\n"),
        ("p(1).", 1, "<stdin>: cannot be run\n"),
    ):
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        assert said(capsys, "test", "-")[:2] == (code, told)


def test_nothing_to_test(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = said(capsys, "test", ".")
    assert (code, "no file has an `expect`" in err) == (2, True)
    code, _, err = said(capsys, "test", "no.dl")
    assert (code, "no.dl: error[C030]" in err) == (1, True)


def test_a_run_pays_no_heed_to_expectations(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.dl").write_text("p(1). expect p(2). query p(X).")
    assert said(capsys, "run", "p.dl", *HERE, "--format", "csv")[:2] == (0, "1\n")


def test_debug_shows_where_it_comes_from() -> None:
    Path("p.dl").write_text("p(1). expect p(2).")
    assert main(["test", "p.dl", "--debug"]) == 1
    with pytest.raises(CaladanError):
        main(["test", "no.dl", "--debug"])
