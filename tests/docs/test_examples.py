"""The examples run as their headers say."""

import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

from caladan.cli import main

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(p for p in (ROOT / "examples").rglob("*") if p.suffix in (".dl", ".sql"))


def commands() -> list[str]:
    """The `caladan run` lines in the headers of the programs."""
    return [
        line
        for program in PROGRAMS
        for line in re.findall(r"^(?:%|--)   caladan (run .+)$", program.read_text("utf-8"), re.M)
    ]


def test_there_are_examples() -> None:
    assert len(PROGRAMS) > 5
    assert len(commands()) > 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the examples, with the data that is made at first use."""
    here = tmp_path_factory.mktemp("examples")
    shutil.copytree(ROOT / "examples", here / "examples", ignore=shutil.ignore_patterns("data"))
    made = here / "examples" / "supply_chain" / "data"
    module = runpy.run_path(str(ROOT / "examples" / "supply_chain" / "generate.py"))
    module["main"](made)
    assert {path.stem for path in made.iterdir()} == set(module["RELATIONS"])
    return here


@pytest.mark.parametrize("command", commands())
def test_command(
    command: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    assert main([*shlex.split(command), "--engine", "reference"]) == 0
    printed = capsys.readouterr().out
    assert re.search(r"[1-9]\d* facts?", printed)


def test_the_made_data_is_always_the_same(folder: Path, tmp_path: Path) -> None:
    module = runpy.run_path(str(ROOT / "examples" / "supply_chain" / "generate.py"))
    module["main"](tmp_path)
    for path in tmp_path.iterdir():
        again = folder / "examples" / "supply_chain" / "data" / path.name
        assert path.read_bytes() == again.read_bytes()
