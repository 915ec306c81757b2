"""Every program of the corpus, on every engine, against what must come out and against SQL."""

import csv
import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

import duckdb
import pytest
from tests.programs.answers import answered, followed
from tests.programs.compare import difference
from tests.programs.corpus import Folder, folders
from tests.spark.mesh.engine import SPLITTING, PartsEngine

import caladan
from caladan.program import Declaration, Type, thresholds
from caladan.session.session import Session

ENGINES = ("embedded", "reference", "spark")

FOLDERS = folders(sql=True)

SQL_TYPES = {
    Type.BYTE: "TINYINT",
    Type.SHORT: "SMALLINT",
    Type.INTEGER: "INTEGER",
    Type.LONG: "BIGINT",
    Type.FLOAT: "FLOAT",
    Type.DOUBLE: "DOUBLE",
    Type.STRING: "VARCHAR",
    Type.BOOLEAN: "BOOLEAN",
    Type.DATETIME: "TIMESTAMP",
    Type.DATE: "DATE",
    Type.DECIMAL: "DECIMAL(38, 18)",
    Type.BINARY: "BLOB",
}


def cases() -> list[Any]:
    """Each engine with each folder; what is known to fail must fail."""
    return [
        pytest.param(
            engine,
            folder,
            id=f"{folder.name}-{engine}",
            marks=[pytest.mark.xfail(reason=folder.meta["xfail"][engine], strict=True)]
            if engine in folder.meta.get("xfail", {})
            else [],
        )
        for folder in FOLDERS
        for engine in ENGINES
    ]


@pytest.mark.parametrize(("engine", "folder"), cases())
def test_program(engine: str, folder: Folder, request: pytest.FixtureRequest) -> None:
    db = caladan.connect(request.getfixturevalue("spark") if engine == "spark" else engine)
    # Facts are few here: left to itself, the spark engine would hand them to the embedded one.
    # So it does with queries in RaSQL: frames evaluate the same rules for the twin in DeALS.
    strategy = "frame" if engine == "spark" and "twin" not in folder.meta else None
    # Those whose rounds as frames take long go so in a target of their own: `make frame-test`.
    if folder.meta.get("frame") == "long" and not os.environ.get("CALADAN_FRAME"):
        strategy = None
    out = answered(db, folder, strategy=strategy)
    assert [warning.code for warning in out.warnings] == folder.meta.get("warnings", [])


@pytest.mark.parametrize("folder", [f for f in FOLDERS if f.replay], ids=lambda folder: folder.name)
def test_what_once_failed(folder: Folder, request: pytest.FixtureRequest) -> None:
    """As fuzzing found it: with these thresholds, threads, grade and strategy."""
    replay = folder.replay
    strategy = replay.get("strategy")
    if "tasks" in replay:
        db = Session(PartsEngine(replay["tasks"], splitting=SPLITTING[replay["splitting"]]))
    else:
        db = caladan.connect("embedded" if strategy is None else request.getfixturevalue("spark"))
    threads = {"CALADAN_THREADS": str(replay["threads"])} if "threads" in replay else {}
    with patch.dict(os.environ, threads), thresholds.override(**replay.get("thresholds", {})):
        if (folder.path / "changes.json").exists():
            followed(db, folder)
            return
        search, is_ours = replay.get("search"), "tasks" not in replay
        answered(db, folder, is_explained=is_ours, strategy=strategy, search=search)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_folder_is_complete(folder: Folder) -> None:
    """A description, and an expected file for each goal and for nothing else."""
    assert folder.meta["description"]
    stems = {path.stem for path in folder.data.glob("expected/*")}
    asked = {*folder.queries(), *folder.exports().values()}
    assert asked <= stems if "twin" in folder.meta else asked == stems
    assert set(folder.oracles) <= stems


@pytest.mark.parametrize(
    ("folder", "stem"),
    [
        pytest.param(folder, stem, id=f"{folder.name}-{stem}")
        for folder in FOLDERS
        for stem in folder.oracles
    ],
)
def test_expected_agrees_with_sql(folder: Folder, stem: str) -> None:
    database = duckdb.connect()
    declared = {relation.name: relation for relation in folder.program.relations}
    for name, path in folder.facts.items():
        fill(database, declared[name], path)
    rows = database.execute(folder.oracles[stem]).fetchall()
    different = difference(rows, folder.expected(stem).rows, ordered=folder.is_ordered)
    assert different is None, different


def fill(database: duckdb.DuckDBPyConnection, relation: Declaration, path: Path) -> None:
    """A table with the facts of a file, read without any of our own code."""
    columns = ", ".join(f'"{column.name}" {SQL_TYPES[column.type]}' for column in relation.columns)
    database.execute(f'CREATE TABLE "{relation.name}" ({columns})')
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
    if rows:
        marks = ", ".join("?" for _ in relation.columns)
        database.executemany(f'INSERT INTO "{relation.name}" VALUES ({marks})', rows)


def test_the_corpus_is_there() -> None:
    """Losing folders, or not finding them, must be noticed."""
    assert len(FOLDERS) >= 90
