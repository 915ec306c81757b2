"""What users are told, word for word: every code has a case, and no case shows a stack trace."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from tests.errors.cases import CASES, Case

from caladan.cli import main
from caladan.program.diagnostics import CODES, Diagnostic, SourceText, Span

TOLD = Path(__file__).resolve().with_name("told.txt")
RULE = "─" * 8

# Codes whose cause a command line cannot show in a test; where each is tested instead.
ELSEWHERE = {
    "C043": "tests/session and tests/spark: interrupted runs",
    "C044": "tests/spark: failures of Spark itself",
    "C045": "tests/project/test_java.py",
    "C070": "tests/ticks/test_diagnostics.py",
    "C071": "tests/ticks/test_diagnostics.py",
    "C072": "tests/ticks/test_diagnostics.py",
    "C073": "tests/ticks/test_diagnostics.py",
    "C090": "tests/cli: an internal error",
}


def command(case: Case, engine: str) -> list[str]:
    if case.arguments[:1] == ("check",):
        return ["check", "program.dl"]
    if case.arguments[:1] == ("test",):
        return ["test", "program.dl", "--engine", engine]
    if case.arguments[:1] == ("explain",):
        return ["explain", "program.dl", *case.arguments[1:]]
    if case.arguments[:1] == ("no.dl",):
        return ["run", "no.dl", "--engine", engine]
    return ["run", "program.dl", "--engine", engine, *case.arguments]


def place(case: Case, folder: Path) -> None:
    (folder / "program.dl").write_text(case.program)
    for name, content in case.data.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


def told(case: Case, engine: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    place(case, folder)
    before = Path.cwd()
    os.chdir(folder)
    try:
        status = main(command(case, engine))
    finally:
        os.chdir(before)
    assert status == (0 if case.code.startswith("W") else Diagnostic(case.code, "").exit_code)
    return capsys.readouterr().err.strip()


def expected() -> dict[str, str]:
    parts = TOLD.read_text().split(f"{RULE} ")[1:]
    return {name: text.strip() for name, _, text in (p.partition("\n") for p in parts)}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_told(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(case, "reference", tmp_path, capsys)
    assert text == expected()[case.name]
    assert f"[{case.code}]" in text
    assert "Traceback" not in text


EVERYWHERE = [case for case in CASES if case.every_engine]


@pytest.mark.parametrize("case", EVERYWHERE, ids=lambda c: c.name)
def test_embedded_says_the_same(
    case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told(case, "embedded", tmp_path, capsys) == expected()[case.name]


@pytest.mark.parametrize("strategy", ["frame", "single"])
@pytest.mark.parametrize("case", EVERYWHERE, ids=lambda c: c.name)
def test_spark_says_the_same(
    case: Case,
    strategy: str,
    spark: object,  # adopted by the command
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    on_spark = replace(case, arguments=(*case.arguments, "--strategy", strategy))
    assert told(on_spark, "spark", tmp_path, capsys) == expected()[case.name]


def test_every_code_has_a_case() -> None:
    shown = {case.code for case in CASES}
    assert shown | ELSEWHERE.keys() == CODES.keys()
    assert not shown & ELSEWHERE.keys()


def write_told() -> None:
    """Rewrite told.txt from what is said now; read it through before committing."""
    import contextlib
    import io
    import tempfile

    out = io.StringIO()
    for case in CASES:
        with tempfile.TemporaryDirectory() as folder:
            place(case, Path(folder))
            os.chdir(folder)
            err = io.StringIO()
            with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
                main(command(case, "reference"))
            os.chdir("/")
        out.write(f"{RULE} {case.name}\n{err.getvalue().strip()}\n\n")
    TOLD.write_text(out.getvalue())


if __name__ == "__main__":
    write_told()


@pytest.mark.parametrize("at", [0, 100, 5000, 9999])
def test_of_a_long_line_the_part_around_a_mistake_is_shown(at: int) -> None:
    text = "." * at + "?!" + "." * (9998 - at)
    span = Span(SourceText("x", text), at, at + 2)
    first, line, caret = Diagnostic("C001", "oops", span).render().split("\n")
    assert first == f"x:1:{at + 1}: error[C001]: oops"
    assert len(line) < 260
    place = caret.index("^")
    assert line[place : place + 2] == text[at : at + 2]
    assert len(caret) <= len(line)
