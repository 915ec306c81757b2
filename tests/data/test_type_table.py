"""Every row of the table of types is known to Arrow, Spark, DuckDB and the languages."""

from __future__ import annotations

import pickle

import duckdb
import pytest

from caladan.data.schema import ARROW, column_type, spark_type
from caladan.engines.spark.columns.types import OUTSIDE
from caladan.language import parse
from caladan.program import Type
from caladan.program.diagnostics import CaladanError
from caladan.program.types import NAMES, TYPES, decimal, fitting, type_named

KEPT = [type for type in (*TYPES, decimal(10, 2), decimal(38, 0)) if type is not Type.OBJECT]


@pytest.mark.parametrize("type", KEPT, ids=str)
def test_a_type_is_known_everywhere(type: Type) -> None:
    assert column_type(ARROW[type]) is type
    assert spark_type(type.spark) is type
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
    assert fitting(39, 18) == (38, 17)
    assert fitting(77, 36) == (38, 6)
    assert fitting(41, 2) == (38, 2)
