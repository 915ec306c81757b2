"""Data in memory: every kind of it, and what is said about rows that do not fit."""

from __future__ import annotations

import datetime as dt
from collections import namedtuple
from collections.abc import Iterator, Mapping, Set

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import caladan as cal
from caladan.data.infer import from_spark, infer
from caladan.data.load import load
from caladan.data.source import source
from caladan.program import Column, Type
from caladan.program.diagnostics import CaladanError
from caladan.program.types import decimal

ARC = (Column("A", Type.INTEGER), Column("B", Type.DOUBLE))
NAME = (Column("Name", Type.STRING),)
TABLE = pa.table({"A": [1, 2], "B": [0.5, 1.0]})
Edge = namedtuple("Edge", "A B")

SAME = [
    [(1, 0.5), (2, 1)],
    [[1, 0.5], [2, 1.0]],
    ((1, 0.5), (2, 1.0)),
    [Edge(1, 0.5), Edge(2, 1.0)],
    [{"A": 1, "B": 0.5}, {"B": 1.0, "A": 2}],
    ((a, a / 2) for a in (1, 2)),
    {"A": [1, 2], "B": [0.5, 1]},
    {"src": np.array([1, 2]), "dst": pl.Series([0.5, 1.0])},
    {"B": pa.array([0.5, 1.0]), "A": pd.Series([1, 2])},
    pd.DataFrame({"A": [1, 2], "B": [0.5, 1.0]}, index=[7, 8]),
    pd.DataFrame({"A": pd.array([1, 2], dtype="Int64"), "B": [0.5, 1.0]}),
    pl.DataFrame({"A": [1, 2], "B": [0.5, 1.0]}),
    TABLE,
    TABLE.to_batches()[0],
    TABLE.to_reader(),
    pa.table({"a": pa.array([1, 2], pa.uint64()), "b": pa.array([0.5, 1], pa.float32())}),
    pa.table({"A": pa.array([1, 2]).dictionary_encode(), "B": [0.5, 1.0]}),
]


def rows(data: object, columns: tuple[Column, ...] = ARC) -> list[tuple[object, ...]]:
    table, rejected = load("arc", source("arc", data), columns)
    assert rejected is None
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("data", SAME, ids=lambda data: type(data).__name__)
def test_every_kind_of_data(data: object) -> None:
    given = source("arc", data)
    for _ in range(2):  # a source may be read again and again
        table, _none = load("arc", given, ARC)
        assert table.to_pylist() == [{"A": 1, "B": 0.5}, {"A": 2, "B": 1.0}]
        assert table.schema.types == [pa.int32(), pa.float64()]


class EdgeView(Set, Mapping):  # type: ignore[type-arg]
    """As networkx has it: a set of edges, which maps each to its attributes."""

    def __init__(self, edges: list[tuple[int, int]]) -> None:
        self._edges = edges

    def __contains__(self, edge: object) -> bool:
        return edge in self._edges

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return iter(self._edges)

    def __len__(self) -> int:
        return len(self._edges)

    def __getitem__(self, edge: tuple[int, int]) -> dict[str, object]:
        return {"weight": 1}


def test_a_set_that_is_a_mapping_is_a_set() -> None:
    db = cal.connect("embedded")
    db.add("arc", EdgeView([(1, 2), (2, 3)]))
    assert db.query("arc(X, Y)").rows() == [(1, 2), (2, 3)]


def test_nothing_is_data_too() -> None:
    assert rows([]) == rows({"A": [], "B": []}) == rows(pd.DataFrame({"A": [], "B": []})) == []


def test_bare_values_are_rows_of_one_column() -> None:
    assert rows(["a", "b"], NAME) == rows([("a",), ("b",)], NAME) == [("a",), ("b",)]


def test_datetimes() -> None:
    columns = (Column("T", Type.DATETIME),)
    noon = dt.datetime(2024, 1, 31, 12)
    zoned = pa.array([noon], pa.timestamp("ns", "UTC"))
    for data in (
        [noon],
        ["2024-01-31T12:00:00"],
        {"T": zoned},
        pd.DataFrame({"T": [pd.Timestamp(noon)]}),
    ):
        assert rows(data, columns) == [(noon,)]
    assert rows([dt.date(2024, 1, 31)], columns) == [(dt.datetime(2024, 1, 31),)]


def test_later_changes_do_not_count() -> None:
    data = [(1, 0.5)]
    given = source("arc", data)
    data.append((2, 1.0))
    assert load("arc", given, ARC)[0].num_rows == 1


def test_negative_zero_is_zero() -> None:
    for data in ([(1, -0.0)], pa.table({"A": [1], "B": [-0.0]})):
        assert str(rows(data)[0][1]) == "0.0"


COMPLAINTS = [
    (
        [(1, 2), (3, "x")],
        (
            "error[C032]: 'x' is not a number (column B of arc) (row 2 of the data of arc)\n"
            "  help: `B` is declared as double"
        ),
    ),
    (
        [(1, 2), (3,)],
        "error[C031]: 1 column where arc has 2 (A, B) (row 2 of the data of arc)",
    ),
    (
        [(1, 2), 3],
        "error[C031]: 1 column where arc has 2 (A, B) (row 2 of the data of arc)",
    ),
    (
        pd.DataFrame({"A": [1, "x"], "B": [0.5, 1]}),
        (
            "error[C032]: 'x' is not an integer (column A of arc) (row 2 of the data of arc)\n"
            "  help: `A` is declared as integer"
        ),
    ),
    (
        pl.DataFrame({"A": [2**40], "B": [0.5]}),
        (
            "error[C032]: 1099511627776 does not fit in integer (-2147483648 to 2147483647) "
            "(column A of arc) (row 1 of the data of arc)\n  help: `A` is declared as integer"
        ),
    ),
    (
        pa.table({"A": [0.5], "B": [0.5]}),
        "error[C032]: column A of arc is integer, but the data has double",
    ),
    (
        pa.table({"A": [[1]], "B": [0.5]}),
        "error[C032]: column A of arc is integer, but the data has list<long>",
    ),
    (
        pa.table({"A": [1], "C": [0.5]}),
        "error[C031]: no column B in the data of arc; it has A, C",
    ),
    (
        pa.table({"x": [1], "y": [1], "z": [0.5]}),
        "error[C031]: 3 columns (x, y, z) where arc has 2 (A, B)",
    ),
    (
        {"A": [1, 2], "B": [0.5]},
        "error[C031]: column B of arc has 1 values, A has 2",
    ),
    (
        5,
        (
            "error[C050]: arc was given a int, which is not data\n"
            "  help: give a list of tuples, a dict of columns, a data frame, or a path"
        ),
    ),
]


@pytest.mark.parametrize(("data", "expected"), COMPLAINTS)
def test_complaints(data: object, expected: str) -> None:
    with pytest.raises(CaladanError) as caught:
        load("arc", source("arc", data), ARC)
    assert str(caught.value) == expected


def test_permissive_sets_rows_aside() -> None:
    data = [(1, 1.0), (2,), ("x", 1.0), (4, 1.0)]
    table, rejected = load("arc", source("arc", data), ARC, permissive=True)
    assert table.column("A").to_pylist() == [1, 4]
    assert rejected is not None
    assert rejected.column("line").to_pylist() == [2, 3]


def test_files_have_options_and_lists_have_none() -> None:
    with pytest.raises(CaladanError, match="C050"):
        source("arc", [(1, 2)], delimiter=";")


INFERRED = [
    ([(1, "a", True, 0.5)], "c1 long, c2 string, c3 boolean, c4 double"),
    ([{"id": 1, "name": "a"}], "id long, name string"),
    (["a"], "c1 string"),
    ([((2, 3), 1), ("x", 2)], "c1 object, c2 long"),
    ({"x": [1], "t": pa.array([dt.datetime(2024, 1, 1)])}, "x long, t datetime"),
    (pd.DataFrame({"x": np.array([1], "int32"), "y": ["a"]}), "x integer, y string"),
    (pl.DataFrame({"x": [1.5], "y": [dt.date(2024, 1, 1)]}), "x double, y date"),
    (pa.table({"x": pa.array([1], pa.uint8())}), "x ubyte"),
]


@pytest.mark.parametrize(("data", "expected"), INFERRED)
def test_columns_are_inferred(data: object, expected: str) -> None:
    assert ", ".join(f"{c.name} {c.type}" for c in infer("r", source("r", data))) == expected


TEXTS = [
    ("a.csv", "1,2.5,true,x\n2,3,false,7\n", {}, "c1 long, c2 double, c3 boolean, c4 string"),
    ("a.tsv", "id\tname\n1\tx\n", {"header": True}, "id long, name string"),
    ("a.tsv", "id\tname\n1\tx\n", {"header": False}, "c1 string, c2 string"),
    ("a.jsonl", '{"id": 1, "name": "x"}\n', {}, "id long, name string"),
    ("a.json", "[[1, 2.5]]", {}, "c1 long, c2 double"),
]


@pytest.mark.parametrize(("name", "content", "options", "expected"), TEXTS)
def test_columns_of_files_are_inferred(tmp_path, name, content, options, expected) -> None:
    (tmp_path / name).write_text(content)
    columns = infer("r", source("r", tmp_path / name, **options))
    assert ", ".join(f"{c.name} {c.type}" for c in columns) == expected


MAP = pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ([], "an empty list does not tell its columns"),
        ([(1,), ("x",)], "column c1 mixes values of different types"),
        (pa.table({"x": MAP}), "column x is map<string, int64>, which no column type holds"),
    ],
)
def test_what_cannot_be_inferred(data: object, expected: str) -> None:
    with pytest.raises(CaladanError, match="C035") as caught:
        infer("r", source("r", data))
    assert expected in str(caught.value)


def test_a_column_that_no_type_holds_can_be_left_out() -> None:
    table = pa.table({"id": [1], "tags": MAP})
    with cal.connect("embedded") as db:
        db.add("r", table)
        with pytest.raises(
            CaladanError, match=r"declare the columns to read, without it: database"
        ):
            db.run("p(X) <- r(X, _). query p(X).")
        found = db.run("database({r(id: long)}). p(X) <- r(X). query p(X).")
        assert found.answer.rows() == [(1,)]


def test_files_have_no_objects(tmp_path) -> None:
    (tmp_path / "a.json").write_text('[{"x": [1, "a"]}]')
    with pytest.raises(CaladanError, match=r"C035.*column x is nested values"):
        infer("r", source("r", tmp_path / "a.json"))


def test_columns_of_spark_frames() -> None:
    found = from_spark("r", [("a", "int"), ("b", "decimal(10,2)"), ("c", "timestamp_ntz")])
    assert [c.type for c in found] == [Type.INTEGER, decimal(10, 2), Type.DATETIME]
    with pytest.raises(CaladanError, match="map<int,int>"):
        from_spark("r", [("a", "map<int,int>")])


@pytest.mark.parametrize("engine", ["embedded", "reference"])
def test_facts_without_columns(engine: str) -> None:
    """All there is to know is whether there is one; Arrow makes rows up, or loses them."""
    text = "database({e()}). q() <- e(). query q(). z() <- ~e(). query z()."
    db = cal.connect(engine)
    for act, facts, q, z in (
        (db.add, [], [], [()]),
        (db.insert, [()], [()], []),
        (db.insert, [(), ()], [()], []),
        (db.delete, [()], [], [()]),
        (db.add, [()], [()], []),
        (db.delete, [], [()], []),
    ):
        act("e", facts)
        answers = db.run(text).answers
        assert [each.rows() for each in answers] == [q, z]
        assert [each.head(20) for each in answers] == [q, z]


def test_facts_without_columns_that_are_watched() -> None:
    db = cal.connect("embedded")
    db.add("e", [])
    live = db.watch("database({e()}). z() <- ~e().")
    db.insert("e", [()])
    assert (live["e"].head(5), live["z"].head(5)) == ([()], [])
    assert live.changes("z").removed.rows() == [()]


def test_facts_without_columns_for_spark() -> None:
    from caladan.data.schema import table_of
    from caladan.engines.spark.sources.table import distinct

    assert [distinct(table_of([()] * n, ())).num_rows for n in (0, 1, 3)] == [0, 1, 1]
