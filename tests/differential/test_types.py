"""Dates, decimals and binary data in the place of texts, in the same order, change no answer."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from tests.differential.running import FEW, check_same, run
from tests.strategies.random_programs import RandomProgram, random_programs

from caladan.program import Column, Constant, Type

MEANINGS: dict[Type, dict[str, Any]] = {
    Type.DATE: {"a": dt.date(1, 1, 1), "b": dt.date(1999, 12, 31), "c": dt.date(9999, 12, 31)},
    # As doubles, the second and the third would be one. All have as many digits, as a column that
    # rules derive has those of its values.
    Type.DECIMAL: {
        "a": Decimal("-12345678901234567.51"),
        "b": Decimal("12345678901234567.89"),
        "c": Decimal("12345678901234567.91"),
    },
    Type.BINARY: {"a": b"", "b": b"\x00", "c": b"\x00\xff"},
}


def mapped(node: Any, type: Type, values: Mapping[str, Any]) -> Any:
    """A part of a program with columns of another type, and other constants."""
    match node:
        case Constant(str() as text):
            return Constant(values[text])
        case Column(_, Type.STRING):
            return replace(node, type=type)
        case Type():  # a row of the table, one of its kind
            return node
        case tuple():
            return tuple(mapped(part, type, values) for part in node)
        case _ if is_dataclass(node):
            parts = {f.name: mapped(getattr(node, f.name), type, values) for f in fields(node)}
            return replace(node, **parts)  # type: ignore[type-var]
        case _:
            return node


def check(engine: Any, given: RandomProgram, type: Type) -> None:
    """Run a program with texts, and with values of another type; the answers must correspond."""
    values = MEANINGS[type]
    facts = {
        name: [tuple(values.get(cell, cell) for cell in row) for row in rows]
        for name, rows in given.facts.items()
    }
    wanted = [
        [tuple(values[cell] if isinstance(cell, str) else cell for cell in row) for row in rows]
        for rows in run("reference", given.program, given.facts)  # type: ignore[arg-type]
    ]
    found = run(engine, mapped(given.program, type, values), facts)
    check_same(found, wanted, given)


@pytest.mark.parametrize("type", MEANINGS, ids=str)
@given(given=random_programs())
def test_other_types_for_texts(type: Type, given: RandomProgram) -> None:
    check("embedded", given, type)


@pytest.mark.parametrize("type", MEANINGS, ids=str)
@FEW
@given(given=random_programs())
def test_other_types_for_texts_on_spark(spark: Any, type: Type, given: RandomProgram) -> None:
    check(spark, given, type)
