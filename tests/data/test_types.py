"""Decimals, dates and binary data keep every digit, day and byte, wherever they come from."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import caladan
from caladan.data.load import load
from caladan.data.source import source
from caladan.program import Column, Type
from caladan.program.diagnostics import CaladanError
from caladan.program.values import fit, parse, write_value

DIGITS = Decimal("12345678901234567.123456789012345678")  # more than a double has
DAY = dt.date(2024, 2, 29)
BYTES = b"\x00\xff"

decimals = st.decimals(allow_nan=False, allow_infinity=False, places=18).filter(
    lambda number: abs(number) < 10**20
)


@pytest.fixture
def db() -> caladan.Session:
    return caladan.connect("embedded")


def taken(data: object, type: Type) -> list[Any]:
    """The values that a column of a type takes from some data."""
    table, _ = load("p", source("p", data), (Column("x", type),))
    return table.column(0).to_pylist()


@given(decimals)
def test_a_decimal_is_read_as_it_is_written(number: Decimal) -> None:
    assert parse(write_value(number), Type.DECIMAL) == number


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_fits_exactly_or_not_at_all(number: Decimal) -> None:
    with localcontext(prec=5000):
        _, _, exponent = number.normalize().as_tuple()
        assert isinstance(exponent, int)
        fits = exponent >= -18 and abs(number) < 10**20
    try:
        assert fit(number, Type.DECIMAL) == number
        assert fits
    except ValueError:
        assert not fits


@given(st.lists(decimals), st.integers(18, 30))
def test_arrow_decimals_of_any_width(numbers: list[Decimal], scale: int) -> None:
    column = pa.array(numbers, pa.decimal256(20 + scale, scale))
    assert taken({"x": column}, Type.DECIMAL) == numbers


@pytest.mark.parametrize(
    ("number", "type"),
    [
        ("123456789012345678901", pa.decimal128(38, 0)),
        ("-123456789012345678901234567890", pa.decimal128(38, 0)),
        ("0.1234567890123456789", pa.decimal128(38, 19)),
    ],
)
def test_digits_that_do_not_fit_are_an_error(number: str, type: pa.DataType) -> None:
    column = pa.array([Decimal(1), Decimal(number)], type)
    with pytest.raises(CaladanError, match=r"C032.*does not fit in decimal"):
        taken({"x": column}, Type.DECIMAL)


@pytest.mark.parametrize("text", ["100000000000000000000", "1e20", "0.0000000000000000001", "1,5"])
def test_text_that_is_no_decimal(text: str, tmp_path: Path) -> None:
    path = tmp_path / "p.tsv"
    path.write_text(f"1.5\n{text}\n")
    with pytest.raises(CaladanError, match=r"p.tsv:2:1: error\[C032\]"):
        taken(path, Type.DECIMAL)


@pytest.mark.parametrize(
    ("data", "type", "expected"),
    [
        ([DIGITS, 5, 0.1, "2.50"], Type.DECIMAL, [DIGITS, 5, Decimal("0.1"), Decimal("2.5")]),
        ({"x": pa.array([2**64 - 1], pa.uint64())}, Type.DECIMAL, [Decimal(2**64 - 1)]),
        ({"x": pa.array(["1.5", " 2"])}, Type.DECIMAL, [Decimal("1.5"), Decimal(2)]),
        ({"x": pa.array([DIGITS])}, Type.DOUBLE, [float(DIGITS)]),
        ([DAY, dt.datetime(2024, 1, 1), "2024-02-29"], Type.DATE, [DAY, dt.date(2024, 1, 1), DAY]),
        (pd.DataFrame({"x": [pd.Timestamp("2024-02-29")]}), Type.DATE, [DAY]),
        (pl.DataFrame({"x": [DAY]}), Type.DATETIME, [dt.datetime(2024, 2, 29)]),
        ([BYTES, bytearray(BYTES), "00FF"], Type.BINARY, [BYTES] * 3),
        ({"x": pa.array([BYTES], pa.binary(2))}, Type.BINARY, [BYTES]),
        ({"x": pa.array(["00ff"])}, Type.BINARY, [BYTES]),
    ],
)
def test_what_a_column_takes(data: object, type: Type, expected: list[Any]) -> None:
    assert taken(data, type) == expected


@pytest.mark.parametrize(
    ("data", "type", "complaint"),
    [
        ([dt.datetime(2024, 1, 1, 5)], Type.DATE, "has a time of day"),
        ({"x": pa.array([dt.datetime(2024, 1, 1, 5)])}, Type.DATE, "has a time of day"),
        (["2024-02-30"], Type.DATE, "is not a date"),
        ({"x": pa.array([0.1])}, Type.DECIMAL, "is decimal, but the data has double"),
        ([float("nan")], Type.DECIMAL, "is not a decimal number"),
        ([True], Type.DECIMAL, "is not a decimal number"),
        (["caf"], Type.BINARY, "pairs of hexadecimal digits"),
        ([DAY], Type.BINARY, "is not binary data"),
    ],
)
def test_what_a_column_does_not_take(data: object, type: Type, complaint: str) -> None:
    with pytest.raises(CaladanError, match=complaint):
        taken(data, type)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "json", "jsonl", "parquet"])
def test_what_is_written_is_read_back(suffix: str, tmp_path: Path, db: caladan.Session) -> None:
    given = [(DIGITS, DAY, BYTES), (Decimal("-0.5"), dt.date(1, 1, 1), b"")]
    db.add("p", pa.table(dict(zip("xyz", map(list, zip(*given, strict=True)), strict=True))))
    path = tmp_path / f"p.{suffix}"
    db.run("q(X, Y, Z) <- p(X, Y, Z).")["q"].write(path)
    db.add("p", path)
    declared = "database({p(x: decimal, y: date, z: binary)}). r(X, Y, Z) <- p(X, Y, Z)."
    assert sorted(db.run(declared)["r"].rows()) == sorted(given)


@pytest.mark.parametrize(
    "frame",
    [
        pa.table({"x": [DIGITS], "y": [DAY], "z": [BYTES]}),
        pd.DataFrame({"x": [DIGITS], "y": [DAY], "z": [BYTES]}),
        pl.DataFrame({"x": [DIGITS], "y": [DAY], "z": [BYTES]}),
    ],
    ids=["arrow", "pandas", "polars"],
)
def test_types_are_inferred(frame: object, db: caladan.Session) -> None:
    db.add("p", frame)
    found = db.run("q(X, Y, Z) <- p(X, Y, Z).")["q"]
    assert found.types[0].startswith("decimal")
    assert found.types[1:] == ("date", "binary")
    assert found.rows() == [(DIGITS, DAY, BYTES)]


def test_parameters(db: caladan.Session) -> None:
    db.add("p", [(DIGITS, DAY, BYTES), (Decimal(1), dt.date(2000, 1, 1), b"")])
    program = (
        "database({p(x: decimal, y: date, z: binary)}). q(X) <- p(X, {day}, {key}), X > {low}."
    )
    found = db.run(program, params={"day": DAY, "key": BYTES, "low": Decimal("0.1")})
    assert found["q"].rows() == [(DIGITS,)]


def test_arithmetic_says_what_to_do(db: caladan.Session) -> None:
    with pytest.raises(CaladanError) as caught:
        db.run("database({p(x: binary)}). q(Y) <- p(X), Y = X * 2.")
    assert "`*` needs numbers, not a binary" in str(caught.value)


def test_dates_and_datetimes_do_not_meet(db: caladan.Session) -> None:
    with pytest.raises(CaladanError) as caught:
        db.run("database({p(x: date), r(x: datetime)}). q(X) <- p(X), r(X).")
    assert "declare the column of dates as datetime" in str(caught.value)
