"""The examples run as their headers say."""

import json
import re
import runpy
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

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


# ── Five kinds of users ──────────────────────────────────────────────────────────────────────────

USERS = {
    "data_engineer": ["a1        3    30.0", "b1        1     7.0", "[(30.0,)]"],
    "program_analyst": [
        "calls: [('line 9', 'A.run')] dead: [('B.run',)]",
        "calls: [('line 9', 'A.run'), ('line 9', 'B.run')] dead: []",
        "y points to ['A@1', 'B@2']",
    ],
    "knowledge_graph": [
        "ancestors of paul: ['jessica', 'leto', 'mohiam']",
        "paul is a ['duke', 'noble', 'person']",
        "persons: ['jessica', 'paul']",
    ],
    "bloom": [
        "b votes for c: leader []",
        "c votes for c: leader [('c',)]",
        "b takes it back: leader []",
    ],
}


def test_every_script_is_run() -> None:
    scripts = {path.stem for path in (ROOT / "examples" / "users").iterdir() if path.is_file()}
    assert scripts == {*USERS, "notebook"}


@pytest.mark.parametrize("name", USERS)
def test_script(name: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    path = ROOT / "examples" / "users" / f"{name}.py"
    monkeypatch.setattr("sys.argv", [str(path)])
    runpy.run_path(str(path), run_name="__main__")
    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert [line for line in printed if line in USERS[name]] == USERS[name]


def test_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    from IPython.core.interactiveshell import InteractiveShell
    from IPython.utils.capture import capture_output

    cells = json.loads((ROOT / "examples" / "users" / "notebook.ipynb").read_text("utf-8"))["cells"]
    monkeypatch.setattr(sys, "displayhook", sys.displayhook)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    shell = InteractiveShell()
    results = []
    for cell in cells:
        if cell["cell_type"] == "code":
            with capture_output():
                done = shell.run_cell("".join(cell["source"]))
            done.raise_error()
            results.append(done.result)
    assert results[3] == ["cork", "nice", "oslo"]
    assert results[4].count() == 3
