"""A permissive run of SQL sets bad rows aside and shows them, in plain and in recursive SQL."""

from pathlib import Path
from typing import Any

import pytest

import caladan as cal
from caladan.cli import main

TABLE = "CREATE TABLE arc(A integer, B integer);\n"
PLAIN = TABLE + "SELECT A, B FROM arc ORDER BY A, B"
CLOSURE = TABLE + (
    "WITH recursive tc(A, B) AS (SELECT A, B FROM arc) UNION "
    "(SELECT tc.A, arc.B FROM tc, arc WHERE tc.B = arc.A) "
    "SELECT tc.A, tc.B FROM tc ORDER BY tc.A, tc.B"
)
BOTH = CLOSURE.replace("FROM tc ORDER", "FROM tc, arc WHERE tc.B = arc.A ORDER")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "arc.csv"
    path.write_text("1,2\nx,3\n2,3\n4\n")
    return path


def check(engine: Any, data: Path) -> None:
    db = cal.connect(engine)
    db.add("arc", data)
    for query, rows in (
        (PLAIN, [(1, 2), (2, 3)]),
        (CLOSURE, [(1, 2), (1, 3), (2, 3)]),
        (BOTH, [(1, 2)]),
    ):
        out = db.run(query, permissive=True)
        assert out.answer.rows() == rows
        assert "_rejected" in list(out)
        assert sorted(row[2] for row in out["_rejected"].rows()) == [2, 4]
        with pytest.raises(cal.CaladanError, match=r"error\[C03[12]\]"):
            db.run(query)


@pytest.mark.parametrize("engine", ["embedded", "reference"])
def test_bad_rows_are_set_aside(engine: str, data: Path) -> None:
    check(engine, data)


def test_bad_rows_are_set_aside_on_spark(spark: Any, data: Path) -> None:
    check(spark, data)


def test_without_bad_rows_there_is_nothing_to_show(tmp_path: Path) -> None:
    path = tmp_path / "arc.csv"
    path.write_text("1,2\n")
    db = cal.connect("embedded")
    db.add("arc", path)
    assert "_rejected" not in list(db.run(CLOSURE, permissive=True))


def test_the_command_line_says_how_many(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, query in (("plain.sql", PLAIN), ("closure.sql", CLOSURE)):
        (tmp_path / name).write_text(query)
        arguments = ["run", str(tmp_path / name), "--data", f"arc={data}", "--engine", "reference"]
        assert main([*arguments, "--permissive"]) == 0
        assert "2 rows of the data of" in capsys.readouterr().err
