"""The package is light to import, and its parts import each other one way only."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "caladan"

# Rooms are the files and folders directly under src/caladan, in the order in which a program flows
# through them. A file may import from its own row and from the rows above it, never from below:
# that is what lets the compiler be read, tested and reused without an engine, and an engine
# without the session. A new room must be given its place here.
ROWS = (
    ("program",),  # what everybody speaks of: programs, values, diagnostics, options, events
    ("language",),  # text and Python into programs, and back
    ("analysis",),  # types, safety, strata
    ("plan",),  # what recursive rules compute
    ("rules",),  # bodies, delta rules, guards, pivots: what engines read
    ("pipeline",),  # all of the above as one list of passes; pure
    ("data",),  # files and frames into typed rows; the compiler above does no I/O
    ("columns",),  # words, runs, layouts, kernels
    ("join",),  # bodies over columns
    ("fixpoint",),  # rounds, relations and groups, shapes
    ("incremental",),  # relations that follow their data: wiring, deletions, aggregates
    ("engines",),  # embedded, spark, reference
    ("sql",),  # what of a RaSQL script is SQL, and who runs it
    ("explain",),
    ("session",),  # what users hold
    ("ticks",),  # Bloom programs, wired and run
    ("bloom",),  # the names of Bloom that users import
    ("cli",),
)
LEVEL = {room: level for level, row in enumerate(ROWS) for room in row}

# The same inside of engines: the rooms of the spark engine, in the order in which they build on
# each other. The reference engine shares nothing with the others, so that it can be believed.
SPARK = (
    "choice",  # which strategy, how many partitions; pure
    "session",  # Spark itself: Java, sessions, frames in storage, staging
    "columns",  # types, expressions, aggregates
    "sources",  # data as tables, on its way in and to the tasks
    "strategy",  # what a strategy is
    "tasks",
    "cube",
    "frame",
    "mesh",
    "run",
    "cancellation",
    "engine",
)

# `import caladan` offers all public names, loaded on first use; it is above every room but cli.
LEVEL["__init__"] = LEVEL["bloom"]
# `python -m caladan` is the command line.
LEVEL["__main__"] = LEVEL["cli"]

HEAVY = ("duckdb", "numba", "numpy", "pandas", "polars", "pyarrow", "pyspark", "rich", "sqlglot")


def test_import_loads_nothing_heavy() -> None:
    loaded = run("import sys, caladan; print(*{name.partition('.')[0] for name in sys.modules})")
    assert set(loaded.split()) & set(HEAVY) == set()


def test_import_loads_no_room() -> None:
    """What users name is loaded when they name it, so importing takes no time."""
    loaded = run("import sys, caladan; print(*(n for n in sys.modules if n.startswith('caladan')))")
    assert loaded.split() == ["caladan"]


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_go_one_way(path: Path) -> None:
    room = room_of(path)
    assert room in LEVEL, f"the room {room!r} has no place in ROWS yet"
    for line, imported in imported_rooms(path):
        assert imported in LEVEL, f"line {line}: the room {imported!r} has no place in ROWS yet"
        assert LEVEL[imported] <= LEVEL[room], f"line {line}: {room} must not import {imported}"


@pytest.mark.parametrize(
    "path",
    sorted(PACKAGE.rglob("engines/*/**/*.py")),
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_imports_inside_of_engines_go_one_way(path: Path) -> None:
    engine, room = path.relative_to(PACKAGE / "engines").with_suffix("").parts[:2]
    for line, module in imported(path):
        if module[:2] != ("caladan", "engines") or len(module) < 4 or room == "__init__":
            continue
        shared = ("interface", "embedded") if engine == "spark" else ("interface",)
        assert module[2] in (engine, *shared), f"line {line}: {engine}, {module[2]}"
        if engine == module[2] == "spark" and module[3] != room:
            assert SPARK.index(module[3]) < SPARK.index(room), f"line {line}: {room}, {module[3]}"


REWRITES = ("normalize", "witnesses", "alternatives", "ways", "demand", "delta", "pcg", "direction")


def test_the_oracle_knows_no_rewrite() -> None:
    """The reference engine, and what it reads, import nothing that rewrites rules."""
    waiting = [*(PACKAGE / "engines" / "reference").glob("*.py")]
    assert len(waiting) > 3
    read: set[Path] = set()
    while waiting:
        path = waiting.pop()
        read.add(path)
        for line, module in imported(path):
            assert not set(module) & set(REWRITES), f"{path}, line {line}: {module}"
            if module[:2] == ("caladan", "analysis"):
                found = PACKAGE.joinpath(*module[1:3]).with_suffix(".py")
                waiting += [found] if found not in read else []


@pytest.mark.parametrize(
    ("source", "rooms"),
    [
        ("import caladan.cli", ["cli"]),
        ("from caladan import session, errors", ["session", "errors"]),
        ("from caladan import connect", ["__init__"]),
        ("import caladan", ["__init__"]),
        ("from caladan.engines.spark import java", ["engines"]),
        ("def f():\n    from caladan.explain.text import tree", ["explain"]),
        ("from . import other", ["engines"]),
        ("from .spark import java", ["engines"]),
        ("from .. import session", ["session"]),
        ("from ..cli import main", ["cli"]),
        ("import os, caladans\nfrom collections import abc", []),
    ],
)
def test_the_test_sees_every_form_of_import(
    source: str, rooms: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("engines", "cli", "session", "errors"):
        (tmp_path / folder).mkdir()
    path = tmp_path / "engines" / "file.py"
    path.write_text(source)
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path)
    assert [room for _, room in imported_rooms(path)] == rooms


def imported_rooms(path: Path) -> Iterator[tuple[int, str]]:
    """Line and room of everything that *path* imports from caladan, wherever the import stands."""
    for line, module in imported(path):
        if module[0] == "caladan":
            yield line, room_named(module[1] if len(module) > 1 else "__init__")


def imported(path: Path) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Line and full name of everything that *path* imports."""
    here = ("caladan", *path.relative_to(PACKAGE).parent.parts)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import():
                modules = [tuple(alias.name.split(".")) for alias in node.names]
            case ast.ImportFrom():
                base = here[: len(here) + 1 - node.level] if node.level else ()
                base += tuple(node.module.split(".")) if node.module else ()
                modules = [(*base, alias.name) for alias in node.names]
            case _:
                continue
        yield from ((node.lineno, module) for module in modules)


def room_named(name: str) -> str:
    """The room called *name*; whatever else the package offers comes from `__init__`."""
    here = (PACKAGE / name).is_dir() or (PACKAGE / f"{name}.py").is_file()
    return name if here or name in LEVEL else "__init__"


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def run(script: str) -> str:
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
