"""Every row of the table of aggregates: its example on every engine, and on DuckDB."""

from typing import Any

import duckdb
import pytest
from tests.programs.compare import difference

import caladan as cal
from caladan.program.aggregates import TABLE, AggregateFunction

ROWS = [row for row in TABLE.values() if "deals" in row.names and row.form == "plain"]
ENGINES = ("reference", "embedded", "spark", "frame")


def example(row: AggregateFunction) -> list[tuple[Any, ...]]:
    """The solutions of an example, numbered: relations are sets."""
    assert row.example is not None, f"{row} has no example"
    given = [value if isinstance(value, tuple) else (value, 0) for value in row.example.values]
    return [(i, *terms) for i, terms in enumerate(given)]


def answers(engine: Any, strategy: str | None = None) -> dict[str, list[tuple[Any, ...]]]:
    """The value of each row, by each of its names."""
    rules: list[str] = []
    with cal.connect(engine) as db:
        for row in ROWS:
            db.add(f"v_{row}", example(row))
            assert row.example is not None
            rules += [
                f"r_{name}({name}<{row.example.terms}>) <- v_{row}(I, X, Y)."
                for name in row.names["deals"]
            ]
        goals = [f"query r_{name}(V)." for row in ROWS for name in row.names["deals"]]
        out = db.run("\n".join((*rules, *goals)), strategy=strategy)
        return {name: list(out[f"r_{name}"].rows()) for row in ROWS for name in row.names["deals"]}


@pytest.mark.parametrize("engine", ENGINES)
def test_examples_on_every_engine(engine: str, request: pytest.FixtureRequest) -> None:
    is_spark = engine in ("spark", "frame")
    found = answers(
        request.getfixturevalue("spark") if is_spark else engine,
        "frame" if engine == "frame" else None,
    )
    for row in ROWS:
        assert row.example is not None
        for name in row.names["deals"]:
            assert difference(found[name], [(row.example.gives,)]) is None, name


@pytest.mark.parametrize("row", [row for row in ROWS if row.duckdb], ids=str)
def test_examples_on_duckdb(row: AggregateFunction) -> None:
    assert row.example is not None
    assert row.duckdb is not None
    values = ", ".join(repr(terms) for terms in example(row))
    terms = [each.strip() for each in row.example.terms.split(", ", 1)]
    terms = [each.replace('"', "'") for each in terms]
    sql = f"SELECT {row.duckdb.format(*terms)} FROM (VALUES {values}) AS v(I, X, Y)"
    found = duckdb.sql(sql).fetchall()
    assert difference([tuple(map(_plain, found[0]))], [(row.example.gives,)]) is None


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def test_what_has_no_counterpart_on_duckdb_is_known() -> None:
    assert [row.name for row in ROWS if row.duckdb is None] == ["arg_max", "top", "bottom"]
