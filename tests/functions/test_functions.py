"""Every row of the table of functions: its example on each engine, and what it says of itself."""

import datetime as dt
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import duckdb
import pytest

import caladan as cal
from caladan.language import parse
from caladan.program import Call, Constant, Expression, Generator, Negative, Type, thresholds
from caladan.program.functions import (
    FUNCTIONS,
    IN_SQL,
    ROWS,
    FunctionRow,
    Resolved,
    call,
    find,
    type_of_value,
    type_word,
)
from caladan.program.functions.row import ENGINES, WORDS
from caladan.program.nested import Packed, Struct, plain, unpack
from caladan.program.values import fit

IDS = [row.name for row in ROWS]
each_row = pytest.mark.parametrize("row", ROWS, ids=IDS)
VALUES = [row for row in ROWS if row.rows is None]
each_value = pytest.mark.parametrize("row", VALUES, ids=[row.name for row in VALUES])


def example(row: FunctionRow) -> Call:
    """The call of a row's example."""
    if row.rows is not None:
        (found,) = parse(f"p(X) <- X in {row.example[0]}.").rules[0].body
        assert isinstance(found, Generator)
        return Call(found.relation, found.arguments[:-1])
    found = parse(f"p({row.example[0]}).").rules[0].head.arguments[0]
    assert isinstance(found, Call)
    return found


def value_of(node: Expression) -> Any:
    """The value of an argument of an example."""
    match node:
        case Constant():
            return node.value
        case Negative():
            return -value_of(node.operand)
        case Call():
            return call(node.function, [value_of(each) for each in node.arguments])
        case _:
            raise AssertionError(f"{node} in an example")


def arguments(row: FunctionRow) -> list[Any]:
    """The arguments of a row's example: a date that is written as text is a date."""
    given = [value_of(each) for each in example(row).arguments]
    found = resolved_with(row, given)
    return [
        fit(each, type) if type in (Type.DATE, Type.DATETIME) else each
        for each, type in zip(given, found.takes, strict=True)
    ]


def resolved_with(row: FunctionRow, given: list[Any]) -> Resolved:
    """What a call with these arguments takes and gives."""
    types = [type_of_value(each) for each in given]
    texts = [each if isinstance(each, str) else None for each in given]
    found = row.resolve(types, [True] * len(given), type_word(row, given), texts)
    assert isinstance(found, Resolved)
    return found


def as_data(value: Any) -> Any:
    """A value as users have it in their data."""
    return plain(unpack(value)) if isinstance(value, Packed) else value


def has_names(row: FunctionRow) -> bool:
    """Whether its texts are names of fields, which are written out."""
    results = {"struct", "field"}
    return any("name" in o.parameters or o.result in results for o in row.overloads) or (
        row.name == "has_path"
    )


def same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return (
            one == other
            or math.isclose(one, other, rel_tol=1e-12)
            or (one != one and other != other)
        )
    return type(one) is type(other) and one == other


def relation(row: FunctionRow) -> tuple[str, str]:
    """A rule that calls a row with variables, and the fact that these come from."""
    given = arguments(row)
    count = len(given) - row.takes_type
    names = [f"A{i}" for i in range(count)]
    called = [*names, *map(str, given[count:])]
    if has_names(row):
        is_name = [isinstance(each, str) for each in given]
        if row.name == "struct":
            is_name = [i % 2 == 0 for i in range(count)]
        called = [
            written(each) if name else called[i]
            for i, (each, name) in enumerate(zip(given, is_name, strict=True))
        ]
    expression = f"{row.name}({', '.join(called)})"
    return expression, f"d_{row.name}({', '.join(['0', *names])})"


@each_row
def test_a_row_is_whole(row: FunctionRow) -> None:
    assert row.summary.endswith("."), "a summary is a sentence"
    assert row.overloads, f"{row.signature} has no overload"
    for overload in row.overloads:
        assert {*overload.parameters, overload.result} <= WORDS.keys()
    own = {"arrow": row.is_vectorized, "spark": row.spark, "duckdb": row.duckdb}
    assert own.keys() == set(ENGINES) and row.lacks.keys() <= own.keys()
    for engine, has in own.items():
        assert has or row.lacks.get(engine), f"`{row.name}` lacks {engine} without a reason"
    for inverse in row.inverse.values():
        assert inverse in FUNCTIONS


def test_a_name_stands_for_one_row() -> None:
    names = [name for row in ROWS for name in row.names]
    assert sorted(names) == sorted(set(names))
    assert len(IN_SQL) == len(names)


def test_unknown_names_raise() -> None:
    with pytest.raises(LookupError, match="no function `uper`"):
        find("uper")
    with pytest.raises(cal.CaladanError, match="did you mean `upper`"):
        cal.connect("embedded").run('p(uper("a")). query p(X).')


@each_value
@pytest.mark.parametrize("engine", ["reference", "embedded"])
def test_examples(engine: str, row: FunctionRow) -> None:
    text, wanted = row.example
    ((found,),) = cal.connect(engine).run(f"p({text}). query p(X).").answer.rows()
    assert same(found, wanted), f"{text} gives {found!r}"


@each_value
@pytest.mark.parametrize("grouping", [1, 10**9])
def test_examples_over_columns(row: FunctionRow, grouping: int) -> None:
    """With Arrow or NumPy, and value by value; all arguments columns, and the first alone."""
    given = arguments(row)
    if len(given) - row.takes_type == 0:
        return
    call_text, atom = relation(row)
    count = len(given) - row.takes_type
    with cal.connect("embedded") as db, thresholds.override(grouping=grouping):
        db.add(f"d_{row.name}", [(i, *map(as_data, given[:count])) for i in (0, 1)])
        ((found,),) = db.run(
            f"p(X) <- {atom.replace('(0', '(_', 1)}, X = {call_text}. query p(X)."
        ).answer.rows()
        assert same(found, row.example[1]), f"{call_text} gives {found!r}"
        is_plain = all(isinstance(each, (str, int, float)) for each in given)
        if count > 1 and is_plain and not has_names(row):
            rest = ", ".join(map(written, given[1:]))
            text = f"p(X) <- {atom.replace('(0', '(_', 1)}, X = {row.name}(A0, {rest}). query p(X)."
            ((found,),) = db.run(text).answer.rows()
            assert same(found, row.example[1]), f"{text} gives {found!r}"


def written(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return repr(value)


def in_duckdb(row: FunctionRow) -> Any:
    """What DuckDB gives for the example."""
    assert row.duckdb is not None
    given = arguments(row)
    places = [f"${i + 1}" for i in range(len(given))]
    is_name = row.duckdb.replace("_", "").isalnum()
    sql = f"{row.duckdb}({', '.join(places)})" if is_name else row.duckdb.format(*places)
    used = [(f"${i + 1}", value) for i, value in enumerate(given) if f"${i + 1}" in sql]
    for place, value in reversed(used):
        sql = sql.replace(place, sql_literal(value))
    ((found,),) = duckdb.connect().execute(f"SELECT {sql}").fetchall()
    wanted = row.example[1]
    if isinstance(found, dict):
        return Struct(list(found), found.values())
    return tuple(found) if isinstance(wanted, tuple) and isinstance(found, list) else found


def sql_literal(value: Any) -> str:
    match value:
        case bool():
            return str(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case int():
            return f"CAST({value} AS BIGINT)"
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case dt.datetime():
            return f"TIMESTAMP '{value}'"
        case dt.date():
            return f"DATE '{value}'"
        case Packed():
            return sql_literal(plain(unpack(value)))
        case list():
            return f"[{', '.join(map(sql_literal, value))}]"
        case dict():
            return (
                f"{{{', '.join(f'{sql_literal(k)}: {sql_literal(v)}' for k, v in value.items())}}}"
            )
        case bytes():
            return f"unhex('{value.hex()}')"
        case Decimal():
            return f"CAST('{value}' AS DECIMAL(38, 18))"
        case _:
            raise AssertionError(value)


@pytest.mark.parametrize("row", [row for row in ROWS if row.duckdb], ids=lambda row: row.name)
def test_examples_in_duckdb(row: FunctionRow) -> None:
    found = in_duckdb(row)
    assert same(found, row.example[1]), f"DuckDB gives {found!r}"


def programs() -> Iterator[tuple[str, list[FunctionRow], str]]:
    """For each type of results a program that has every row which gives it, over columns."""
    by_type: dict[str, list[FunctionRow]] = {}
    for row in VALUES:
        kind = type(row.example[1]).__name__
        if kind in ("tuple", "Struct"):
            kind = str(resolved_with(row, arguments(row)).returns)
        by_type.setdefault(kind, []).append(row)
    for kind, rows in by_type.items():
        lines: list[str] = []
        for row in rows:
            call_text, atom = relation(row)
            body = f"{atom}, " if len(arguments(row)) > row.takes_type else ""
            lines.append(f"p({row.name!r}, X) <- {body}X = {call_text}.")
        yield kind, rows, "\n".join([*lines, "query p(N, X)."])


@pytest.mark.parametrize("strategy", ["frame", "single"])
def test_examples_on_spark(spark: Any, strategy: Any) -> None:
    wrong: list[str] = []
    with cal.connect(spark) as db:
        for row in VALUES:
            given = arguments(row)
            if len(given) > row.takes_type:
                db.add(f"d_{row.name}", [(0, *map(as_data, given[: len(given) - row.takes_type]))])
        for _, rows, text in programs():
            found = dict(db.run(text, strategy=strategy).answer.rows())
            wrong += [
                f"{row.example[0]}: {found.get(row.name)!r}, not {row.example[1]!r}"
                for row in rows
                if not same(found.get(row.name), row.example[1])
            ]
    assert not wrong, "\n".join(wrong)
