"""Lists and structs: from data of every kind, through rules, and out again."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import caladan as cal
from caladan.data.schema import column_type, outer_type
from caladan.program.nested import Struct, pack, plain, python, unpack
from caladan.program.types import Type, decimal, list_of, struct_of, type_named
from caladan.program.values import fit, parse, write_value

PEOPLE = [
    {"name": "Ann", "tags": ["a", "b"], "home": {"city": "Rome", "zip": 1}},
    {"name": "Bob", "tags": ["b", None], "home": {"city": "Oslo", "zip": None}},
    {"name": "Cy", "tags": None, "home": None},
]
ROWS = [
    ("Ann", ("a", "b"), ("Rome", 1)),
    ("Bob", ("b", None), ("Oslo", None)),
    ("Cy", None, None),
]
RULES = """
    tagged(N, T) <- person(name: N, tags: L), T in L.
    first(N, L[0], L[5]) <- person(name: N, tags: L).
    lives(N, H.city, H.zip) <- person(name: N, home: H).
    made([N, C], {n: N, z: Z}) <- person(name: N, home: H), C = H.city, Z = H.zip.
    query tagged(A, B). query first(A, B, C). query lives(A, B, C). query made(A, B).
"""
ANSWERS = [
    [("Ann", "a"), ("Ann", "b"), ("Bob", "b")],
    [("Ann", "a", None), ("Bob", "b", None), ("Cy", None, None)],
    [("Ann", "Rome", 1), ("Bob", "Oslo", None), ("Cy", None, None)],
    [(("Ann", "Rome"), ("Ann", 1)), (("Bob", "Oslo"), ("Bob", None)), (("Cy", None), ("Cy", None))],
]

VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.LONG: st.integers(-(2**63), 2**63 - 1),
    Type.DOUBLE: st.floats(allow_nan=False).map(lambda x: x + 0.0),
    Type.STRING: st.text(st.characters(codec="utf-8"), max_size=4),
    Type.BOOLEAN: st.booleans(),
    Type.DATE: st.dates(),
    Type.DATETIME: st.datetimes(),
    Type.BINARY: st.binary(max_size=4),
    decimal(10, 2): st.decimals(-1000, 1000, places=2),
}


def nested(type: Type) -> st.SearchStrategy[Any]:
    assert type.element is not None
    inner = VALUES[type.element] if type.element in VALUES else nested(type.element)
    return st.lists(inner, max_size=3).map(tuple)


@given(st.sampled_from([*VALUES, *map(list_of, VALUES)]), st.data())
def test_bytes_are_equal_and_in_order_where_values_are(element: Type, data: st.DataObject) -> None:
    type = list_of(element)
    one, other = data.draw(nested(type)), data.draw(nested(type))
    first, second = pack(one, type), pack(other, type)
    assert python(unpack(first), type) == one
    assert (first == second) == (one == other)
    assert (first < second) == (one < other)
    assert parse(write_value(first), type) == first
    assert fit(plain(one), type) == first


@given(st.sampled_from(list(VALUES)))
def test_types_are_read_back(element: Type) -> None:
    type = struct_of(("a", element), ("b", list_of(list_of(element))))
    assert type_named(str(type)) is type
    assert column_type(outer_type(type)) is type


@pytest.fixture
def person(tmp_path: Path, request: pytest.FixtureRequest) -> Any:
    table = pa.Table.from_pylist(PEOPLE)
    match request.param:
        case "rows":
            return PEOPLE
        case "columns":
            return {name: [row[name] for row in PEOPLE] for name in PEOPLE[0]}
        case "arrow":
            return table
        case "pandas":
            return table.to_pandas()
        case "polars":
            return pytest.importorskip("polars").from_arrow(table)
        case "parquet":
            pq.write_table(table, tmp_path / "person.parquet")
            return str(tmp_path / "person.parquet")
        case "jsonl":
            lines = (json.dumps(row) for row in PEOPLE)
            (tmp_path / "person.jsonl").write_text("\n".join(lines))
            return str(tmp_path / "person.jsonl")
        case _:
            raise AssertionError(request.param)


KINDS = ["rows", "columns", "arrow", "pandas", "polars", "parquet", "jsonl"]


@pytest.mark.parametrize("person", KINDS, indirect=True)
@pytest.mark.parametrize("engine", ["embedded", "reference"])
def test_data_of_every_kind(engine: str, person: Any) -> None:
    with cal.connect(engine) as db:
        db.add("person", person)
        assert db.run("query person(A, B, C).").answer.rows() == ROWS
        assert [answer.rows() for answer in db.run(RULES).answers] == ANSWERS


def test_on_spark(spark: Any, tmp_path: Path) -> None:
    table = pa.Table.from_pylist(PEOPLE)
    with cal.connect(spark) as db:
        db.add("person", spark.createDataFrame(table))
        out = db.run(RULES)
        assert [answer.rows() for answer in out.answers] == ANSWERS
        frame = out["made"].spark()
        assert [field.dataType.simpleString() for field in frame.schema] == [
            "array<string>", "struct<n:string,z:bigint>",
        ]  # fmt: skip
        assert sorted(row[0][0] for row in frame.collect()) == ["Ann", "Bob", "Cy"]


@pytest.mark.filterwarnings("ignore::caladan.CaladanWarning")
@pytest.mark.parametrize("strategy", ["single", "pivoted", "meshed", "frame"])
def test_paths_by_every_strategy(spark: Any, strategy: Any) -> None:
    program = """
        path(A, B, [A, B]) <- arc(A, B).
        path(A, C, append(P, C)) <- path(A, B, P), arc(B, C), ~contains(P, C).
        query path(A, B, P).
    """
    arcs = [(1, 2), (2, 3), (3, 1), (3, 4)]
    with cal.connect("embedded") as db:
        db.add("arc", arcs)
        wanted = db.run(program).answer.rows()
    with cal.connect(spark) as db:
        db.add("arc", arcs)
        assert db.run(program, strategy=strategy).answer.rows() == wanted


@pytest.mark.parametrize("name", ["p.parquet", "p.jsonl", "p.json", "p.csv", "p.orc"])
def test_files_are_read_back(tmp_path: Path, name: str) -> None:
    declared = "database({p(A: list<long>, B: struct<day: date, price: decimal(10, 2)>)}). "
    fact = "p([1, 2], {day: '2024-01-31', price: 1.5})."
    wanted = [((1, 2), (dt.date(2024, 1, 31), Decimal("1.50")))]
    with cal.connect("embedded") as db:
        out = db.run(f"{declared} {fact} query p(A, B).")
        assert out.answer.rows() == wanted
        out.answer.write(tmp_path / name)
    with cal.connect("embedded") as db:
        db.add("p", str(tmp_path / name))
        assert db.run(f"{declared} query p(A, B).").answer.rows() == wanted


def test_what_does_not_fit_names_its_row() -> None:
    with cal.connect("embedded") as db:
        db.add("p", [([1],), (["x"],)])
        with pytest.raises(cal.CaladanError, match="row 2 of the data of p"):
            db.run("database({p(A: list<long>)}). query p(A).")


def test_slips_are_diagnosed() -> None:
    with cal.connect("embedded") as db:
        db.add("person", PEOPLE)
        for rule, said in [
            ("q(L.a) <- person(_, L, _).", "needs a struct here, not a list<string>"),
            ("q(H.town) <- person(_, _, H).", "needs one of the fields city, zip here"),
            ("q(X) <- person(N, _, _), X in N.", "needs a list here, not a string"),
            ("q([1, 'a']) <- person(_, _, _).", "needs a value like the others of the list"),
            ("q(L + 1) <- person(_, L, _).", "needs numbers, not a list<string>"),
        ]:
            with pytest.raises(cal.CaladanError, match=said):
                db.run(f"{rule} query q(X).")


def test_parameters_may_be_lists() -> None:
    with cal.connect("embedded") as db:
        db.add("p", [(1,), (2,), (3,)])
        rows = db.run("q(X) <- p(X), X in $Ids. query q(X).", {"Ids": [3, 1, 9]}).answer.rows()
        assert rows == [(1,), (3,)]
        found = db.run("q(S.a) <- S = $S. query q(X).", {"S": {"a": "x", "b": 1}}).answer.rows()
        assert found == [("x",)]


def test_a_struct_is_a_tuple_with_names() -> None:
    city = Struct(("name", "zip"), ("Arrakeen", 10191))
    assert (city.name, city["zip"], city[1]) == ("Arrakeen", 10191, 10191)
    assert city == ("Arrakeen", 10191)
    assert city.asdict() == {"name": "Arrakeen", "zip": 10191}
    with pytest.raises(AttributeError):
        _ = city.town


def test_functions_of_python_take_and_give_them() -> None:
    with cal.connect("embedded") as db:
        db.add("person", PEOPLE[:1])
        db.define("twice", lambda items: [*items, *items], returns="list<string>")
        db.define("town", lambda home: home.city, returns="string")
        out = db.run("q(twice(L), town(H)) <- person(_, L, H). query q(X, Y).")
        assert out.answer.rows() == [(("a", "b", "a", "b"), "Rome")]


def test_sql_reads_them() -> None:
    with cal.connect("embedded") as db:
        db.add("person", PEOPLE)
        assert sorted(map(str, db.sql("select name, tags, home from person").rows())) == [
            "('Ann', ('a', 'b'), {'city': 'Rome', 'zip': 1})",
            "('Bob', ('b', None), {'city': 'Oslo', 'zip': None})",
            "('Cy', None, None)",
        ]


@pytest.mark.parametrize("engine", ["embedded", "reference"])
def test_what_may_fail_is_missing_where_it_is_tried(engine: str) -> None:
    rules = """
        q(X, try_cast(X, long), try_cast(X, "list<long>")) <- p(X).
        s(sum<Y>) <- p(X), Y = try_cast(X, double).
        query q(X, Y, Z). query s(X).
    """
    with cal.connect(engine) as db:
        db.add("p", [("12",), ("1.5",), ("[1, 2]",), ("x",)])
        out = db.run(rules)
        assert out.answers[0].rows() == [
            ("1.5", None, None), ("12", 12, None), ("[1, 2]", None, (1, 2)), ("x", None, None),
        ]  # fmt: skip
        assert out.answers[1].rows() == [(13.5,)]
