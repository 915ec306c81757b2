"""Results: every way out, and back in again."""

from __future__ import annotations

import datetime as dt
import json
import math
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import caladan as cal
from caladan.data.infer import infer
from caladan.data.load import load
from caladan.data.schema import ARROW, wrap
from caladan.data.source import source
from caladan.session.display import first_in_order, in_order
from caladan.session.result import Relation, Result

NOON = dt.datetime(2024, 1, 31, 12)
PEOPLE = pa.table(
    {
        "name": ["paul", 'alia, the "knife"', "leto\nII"],
        "age": pa.array([15, 4, 9], pa.int32()),
        "weight": [61.5, math.inf, 40.0],
        "noble": [True, True, False],
        "born": pa.array([NOON, dt.datetime(2024, 2, 1), NOON], pa.timestamp("us")),
    }
)


@pytest.fixture
def people() -> Relation:
    return Relation("people", wrap(PEOPLE))


def test_ways_out(people: Relation) -> None:
    assert people.count() == len(people) == 3
    assert people.columns == ("name", "age", "weight", "noble", "born")
    assert people.types == ("string", "integer", "double", "boolean", "datetime")
    assert [row[0] for row in people] == ['alia, the "knife"', "leto\nII", "paul"]
    assert people.rows()[2] == ("paul", 15, 61.5, True, NOON)
    assert people.arrow().equals(PEOPLE)
    assert people.pandas()["age"].tolist() == [15, 4, 9]
    assert people.to_pandas().equals(people.pandas())
    assert people.to_arrow().equals(people.arrow())
    assert people.to_polars().equals(people.polars())
    assert people.polars()["age"].to_list() == [15, 4, 9]
    assert pl.DataFrame(people).height == 3
    assert pa.table(people).num_rows == 3


def test_sorted_relations_come_in_their_order() -> None:
    table = wrap(pa.table({"a": [1, 2, 3, 4], "b": [0.5, math.nan, 0.5, 2.0]}))
    relation = Relation("r", table, order=((1, True),))
    assert [row[0] for row in relation.rows()] == [2, 4, 1, 3]
    assert relation.arrow().column("a").to_pylist() == [2, 4, 1, 3]
    assert relation.head(2) == relation.rows()[:2] or math.isnan(relation.head(2)[0][1])
    assert [row[0] for row in Relation("r", table, order=((1, False),)).rows()] == [1, 3, 4, 2]


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.text(max_size=2), st.booleans()), max_size=8),
    st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=2),
)
def test_order_is_the_order_of_python(
    rows: list[tuple[int, str, bool]], order: list[tuple[int, bool]]
) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string()), ("c", pa.bool_())])
    arrays = [pa.array([row[i] for row in rows], schema.types[i]) for i in range(3)]
    expected = sorted(rows)
    for column, descending in reversed(order):
        expected.sort(key=lambda row: row[column], reverse=descending)
    table = pa.Table.from_arrays(arrays, schema=schema)
    found = in_order(table, order)
    assert [tuple(row.values()) for row in found.to_pylist()] == expected
    for n in range(4):
        assert first_in_order(table, n).equals(in_order(table).slice(0, n))


@pytest.mark.parametrize("type", [*ARROW.values()], ids=str)
def test_the_first_of_every_type(type: pa.DataType) -> None:
    numbers = pa.array([5, 3, 1, 4, 2, 0, 9, 8])
    is_text = pa.types.is_string(type) or pa.types.is_binary(type)
    column = numbers.cast(pa.string()) if is_text else numbers
    if pa.types.is_boolean(type):
        column = pa.array([n > 4 for n in numbers.to_pylist()])
    elif pa.types.is_date32(type):
        column = numbers.cast(pa.int32())
    table = pa.table({"a": column.cast(type), "b": numbers})
    assert first_in_order(table, 3).equals(in_order(table).slice(0, 3))


def test_repr_is_short_and_counts_only_what_it_knows(people: Relation) -> None:
    assert repr(people).startswith("<people (name: string, age: integer, ")
    assert "facts" not in repr(people)
    people.count()
    assert repr(people).endswith("), 3 facts>")


def test_show_says_what_it_leaves_out(people: Relation, capsys: pytest.CaptureFixture[str]) -> None:
    people.show(2)
    shown = capsys.readouterr().out
    assert "leto" in shown
    assert "paul" not in shown
    assert shown.endswith("… and 1 more\n")


def test_html_is_escaped_and_capped() -> None:
    many = Relation("m", wrap(pa.table({"x": ["<b>"] + [f"{i:03}" for i in range(99)]})))
    page = many._repr_html_()
    assert "m: 100 facts" in page
    assert "<p>… and 80 more</p>" in page
    assert "<b>" not in Relation("m", wrap(pa.table({"x": ["<b>"]})))._repr_html_()


# ── Files ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "name",
    ["p.csv", "p.csv.gz", "p.json", "p.jsonl", "p.ndjson", "p.jsonl.gz", "p.parquet", "folder"],
)
def test_what_is_written_can_be_read(people: Relation, tmp_path: Path, name: str) -> None:
    people.write(tmp_path / name)
    columns = infer("people", source("people", PEOPLE))
    table, _ = load("people", source("people", tmp_path / name), columns)
    assert in_order(table).to_pylist() == in_order(PEOPLE).to_pylist()


def test_tsv_has_no_quotes(tmp_path: Path) -> None:
    Relation("r", wrap(pa.table({"a": [1], "b": ['say "x"']}))).write(tmp_path / "r.tsv")
    assert (tmp_path / "r.tsv").read_text() == '1\tsay "x"\n'


def test_csv_text(people: Relation, tmp_path: Path) -> None:
    people.write(tmp_path / "p.csv", header=True)
    assert (tmp_path / "p.csv").read_text() == (
        "name,age,weight,noble,born\n"
        '"alia, the ""knife""",4,Infinity,true,2024-02-01\n'
        '"leto\nII",9,40.0,false,2024-01-31T12:00:00\n'
        "paul,15,61.5,true,2024-01-31T12:00:00\n"
    )


def test_json_text(tmp_path: Path) -> None:
    relation = Relation("r", wrap(pa.table({"a": [2, 1], "t": [NOON, NOON]})))
    relation.write(tmp_path / "r.json")
    assert json.loads((tmp_path / "r.json").read_text()) == [
        {"a": 1, "t": "2024-01-31T12:00:00"},
        {"a": 2, "t": "2024-01-31T12:00:00"},
    ]


@pytest.mark.parametrize("name", ["r.csv", "r.tsv", "r.jsonl", "folder"])
def test_modes(tmp_path: Path, name: str) -> None:
    relation = Relation("r", wrap(pa.table({"a": [1]})))
    path = tmp_path / name

    def count() -> int:
        columns = infer("r", source("r", {"a": [1]}))
        return load("r", source("r", path), columns)[0].num_rows

    relation.write(path)
    with pytest.raises(cal.CaladanError, match=r"error\[C037\]: cannot write: it exists already"):
        relation.write(path)
    relation.write(path, mode="append")
    assert count() == 2
    relation.write(path, mode="overwrite")
    assert count() == 1


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("r.xls", {}, "C037]: cannot write: its name does not tell the format"),
        ("r.csv", {"format": "xls"}, "C050]: unknown format 'xls'"),
        ("r.csv", {"mode": "replace"}, "C050]: unknown mode 'replace'"),
        ("file/r.csv", {}, "C037]: cannot write: "),
        ("there.parquet", {"mode": "append"}, "C037]: cannot write: a parquet file cannot be"),
        ("s3://bucket/r", {}, "C037]: cannot write: only the spark engine writes remote files"),
        ("home", {"mode": "overwrite"}, "C037]: cannot write: the folder holds 'thesis.doc'"),
    ],
)
def test_what_cannot_be_written(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    options: dict[str, str],
    expected: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("")
    Path("home").mkdir()
    Path("home/thesis.doc").write_text("")
    relation = Relation("r", wrap(pa.table({"a": [1]})))
    relation.write("there.parquet")
    with pytest.raises(cal.CaladanError) as caught:
        relation.write(name, **options)
    assert expected in str(caught.value)
    assert Path("home/thesis.doc").exists()


def test_text_with_tabs_needs_csv(tmp_path: Path) -> None:
    with pytest.raises(cal.CaladanError, match="C037"):
        Relation("r", wrap(pa.table({"a": ["x\ty"]}))).write(tmp_path / "r.tsv")
    assert list(tmp_path.iterdir()) == []  # not even half a file


# ── The result as a mapping ──────────────────────────────────────────────────────────────────────


def test_a_result_maps_names_in_order() -> None:
    tables = {"b": wrap(pa.table({"x": [1]})), "a": wrap(pa.table({"x": [1, 2]}))}
    with Result(["b", "a", "b"], lambda name: Relation(name, tables[name])) as out:
        assert list(out) == list(out.keys()) == ["b", "a"]
        assert len(out) == 2
        assert "a" in out
        assert "c" not in out
        assert {name: relation.count() for name, relation in out.items()} == {"b": 1, "a": 2}
        assert out["a"] is out["a"]
        assert repr(out) == "<Result: b, a>"
