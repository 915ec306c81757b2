"""Every row of the table of types is known to Arrow, Spark, DuckDB and the languages."""

from __future__ import annotations

import datetime as dt
import pickle

import duckdb
import pyarrow as pa
import pytest

import caladan
from caladan.data.schema import ARROW, column_type, outer_type, spark_type
from caladan.engines.spark.columns.nested import outer_type as spark_outer_type
from caladan.engines.spark.columns.types import OUTSIDE
from caladan.language import parse
from caladan.program import Type
from caladan.program.diagnostics import CaladanError
from caladan.program.types import (
    NAMES,
    TYPES,
    decimal,
    fit_width,
    list_of,
    struct_of,
    type_named,
)
from caladan.program.values import parse as parse_value, write_value

KEPT = [type for type in (*TYPES, decimal(10, 2), decimal(38, 0)) if type is not Type.OBJECT]
PLAIN = [type for type in KEPT if not type.is_nested]
NESTED = [
    list_of(Type.STRING),
    list_of(list_of(decimal(10, 2))),
    struct_of(("a", Type.DATE), ("b", list_of(Type.LONG))),
]


@pytest.mark.parametrize("type", NESTED, ids=str)
def test_a_nested_type_is_known_everywhere(type: Type) -> None:
    assert column_type(outer_type(type)) is type
    assert spark_type(spark_outer_type(type).simpleString()) is type
    assert type_named(str(type)) is type
    assert pickle.loads(pickle.dumps(type)) is type
    declared = parse(f"database({{p(x: {type})}}).").relations[0].columns[0].type
    assert declared is type


@pytest.mark.parametrize("type", PLAIN, ids=str)
def test_a_type_is_known_everywhere(type: Type) -> None:
    assert column_type(ARROW[type]) is type
    assert spark_type(type.spark) is type or type.is_unsigned
    assert OUTSIDE[type].simpleString() == type.spark
    assert type_named(str(type)) is type
    assert str(duckdb.sql(f"SELECT CAST(NULL AS {type.duck}) AS c").types[0]) == type.duck
    assert pickle.loads(pickle.dumps(type)) is type
    declared = parse(f"database({{p(x: {type})}}).").relations[0].columns[0].type
    assert declared is type


@pytest.mark.parametrize("word", NAMES)
def test_words_stand_for_one_type(word: str) -> None:
    assert type_named(word.upper()) is NAMES[word]


@pytest.mark.parametrize("width", ["(0)", "(39, 2)", "(4, 5)", "(1, 2, 3)"])
def test_a_decimal_has_up_to_38_digits(width: str) -> None:
    with pytest.raises(CaladanError) as caught:
        parse(f"database({{p(x: decimal{width})}}).")
    assert caught.value.diagnostics[0].code == "C004"


def test_digits_after_the_point_go_first() -> None:
    assert fit_width(39, 18) == (38, 17)
    assert fit_width(77, 36) == (38, 6)
    assert fit_width(41, 2) == (38, 2)


@pytest.mark.parametrize("type", [Type.UBYTE, Type.USHORT, Type.UINTEGER, Type.ULONG], ids=str)
@pytest.mark.parametrize("engine", ["embedded", "reference"])
def test_unsigned_integers_come_back_as_they_went_in(engine: str, type: Type) -> None:
    assert type.range is not None
    values = [0, 7, type.range[1]]
    db = caladan.connect(engine)
    db.add("p", pa.table({"x": pa.array(values, ARROW[type])}))
    db.add("n", [(7,), (-1,)])
    assert db.run("q(X) <- p(X).")["q"].arrow().schema.field(0).type == ARROW[type]
    assert sorted(db.run("q(X) <- p(X).")["q"].rows()) == [(value,) for value in values]
    assert db.run("q(X) <- p(X), n(X).")["q"].rows() == [(7,)]
    both = db.run("q(X) <- p(X). q(X) <- n(X).")["q"]
    assert (-1,) in both.rows()
    assert db.run("q(Y) <- p(X), X = 7, Y = X - 8.")["q"].rows() == [(-1,)]


def test_what_64_bits_do_not_hold_is_refused() -> None:
    db = caladan.connect("embedded")
    db.add("p", pa.table({"x": pa.array([2**63], pa.uint64())}))
    with pytest.raises(CaladanError) as caught:
        db.run("q(X) <- p(X).")
    assert caught.value.diagnostics[0].code == "C032"


def test_intervals_are_written_and_read() -> None:
    for text, value in {
        "90 minutes": dt.timedelta(minutes=90),
        "1 day 02:30:00.5": dt.timedelta(1, 9000, 500000),
        "-2 hours": dt.timedelta(hours=-2),
        "2 weeks 1 microsecond": dt.timedelta(weeks=2, microseconds=1),
        "00:00:00": dt.timedelta(0),
    }.items():
        assert parse_value(text, Type.INTERVAL) == value
        assert parse_value(write_value(value), Type.INTERVAL) == value
    for text in ("", "-", "1", "day", "1 month", "1:2", "999999999999 days"):
        with pytest.raises(ValueError):
            parse_value(text, Type.INTERVAL)
