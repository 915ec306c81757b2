"""Values: what fits which type, what text means, and what is said about the rest."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st

from caladan.program import Type, Value
from caladan.program.types import TYPES
from caladan.program.values import Missing, fit, guess, iso, parse

NOON = dt.datetime(2024, 1, 31, 12, 0)
PARIS = dt.timezone(dt.timedelta(hours=1))

FITS: list[tuple[object, Type, Value]] = [
    (127, Type.BYTE, 127),
    (-(2**63), Type.LONG, -(2**63)),
    (np.int32(7), Type.INTEGER, 7),
    (Decimal(7), Type.LONG, 7),
    (1, Type.DOUBLE, 1.0),
    (0.1, Type.FLOAT, 0.10000000149011612),
    (np.float32(0.5), Type.DOUBLE, 0.5),
    ("spice", Type.STRING, "spice"),
    (np.str_("spice"), Type.STRING, "spice"),
    (True, Type.BOOLEAN, True),
    (np.bool_(False), Type.BOOLEAN, False),
    (NOON, Type.DATETIME, NOON),
    (dt.date(2024, 1, 31), Type.DATETIME, dt.datetime(2024, 1, 31)),
    ("2024-01-31 12:00", Type.DATETIME, NOON),
    (dt.datetime(2024, 1, 31, 13, 0, tzinfo=PARIS), Type.DATETIME, NOON),
    (pd.Timestamp("2024-01-31 12:00"), Type.DATETIME, NOON),
    (np.datetime64("2024-01-31T12:00", "ns"), Type.DATETIME, NOON),
]

DOES_NOT_FIT: list[tuple[object, Type, str]] = [
    (300, Type.BYTE, "300 does not fit in byte (-128 to 127)"),
    (2**31, Type.INTEGER, "2147483648 does not fit in integer (-2147483648 to 2147483647)"),
    ("x", Type.INTEGER, "'x' is not an integer"),
    (True, Type.INTEGER, "True is not an integer"),
    (1.0, Type.INTEGER, "1.0 is not an integer"),
    (False, Type.DOUBLE, "False is not a number"),
    (1e300, Type.FLOAT, "1e+300 does not fit in float"),
    (10**400, Type.DOUBLE, f"1{'0' * 49}…0 does not fit in double"),
    (5, Type.STRING, "5 is not a string"),
    ("\ud800", Type.STRING, r"'\ud800' has characters that are not Unicode text"),
    (1, Type.BOOLEAN, "1 is not a boolean (true or false)"),
    (
        "soon",
        Type.DATETIME,
        "'soon' is not a datetime (such as 2024-01-31 or 2024-01-31T12:30:00)",
    ),
    (None, Type.STRING, "there is no value"),
]

PARSES: list[tuple[str, Type, Value]] = [
    ("5", Type.INTEGER, 5),
    ("+5", Type.INTEGER, 5),
    (" -007\t", Type.INTEGER, -7),
    ("1e3", Type.DOUBLE, 1000.0),
    (".5", Type.DOUBLE, 0.5),
    ("5.", Type.DOUBLE, 5.0),
    ("-Infinity", Type.DOUBLE, -math.inf),
    ("inf", Type.FLOAT, math.inf),
    ("-0.0", Type.DOUBLE, 0.0),
    (" x ", Type.STRING, " x "),
    ("", Type.STRING, ""),
    ("TRUE", Type.BOOLEAN, True),
    ("0", Type.BOOLEAN, False),
    ("2024-01-31", Type.DATETIME, dt.datetime(2024, 1, 31)),
    ("2024-01-31T12:00:00.000001", Type.DATETIME, NOON.replace(microsecond=1)),
    ("2024-01-31 13:00:00+01:00", Type.DATETIME, NOON),
    ("2024-01-31T12:00:00Z", Type.DATETIME, NOON),
]

DOES_NOT_PARSE: list[tuple[str, Type, str]] = [
    ("x7", Type.INTEGER, "'x7' is not an integer"),
    ("", Type.INTEGER, "'' is not an integer"),
    ("1_000", Type.INTEGER, "'1_000' is not an integer"),
    ("0x1F", Type.INTEGER, "'0x1F' is not an integer"),
    ("٣", Type.INTEGER, "'٣' is not an integer"),
    ("5.0", Type.LONG, "'5.0' is not an integer"),
    ("9" * 5000, Type.LONG, f"'{'9' * 49}…' does not fit in long ({-(2**63)} to {2**63 - 1})"),
    ("1e999", Type.DOUBLE, "1e999 does not fit in double"),
    ("1d", Type.DOUBLE, "'1d' is not a number"),
    ("yes", Type.BOOLEAN, "'yes' is not a boolean (true or false)"),
    ("2024-02-30", Type.DATETIME, "'2024-02-30' is not a datetime (day is out of range for month)"),
]


@pytest.mark.parametrize(("value", "type", "expected"), FITS)
def test_fit(value: object, type: Type, expected: Value) -> None:
    assert fit(value, type) == expected
    assert fit(value, type).__class__ is expected.__class__


@pytest.mark.parametrize(("value", "type", "reason"), DOES_NOT_FIT)
def test_fit_refuses(value: object, type: Type, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        fit(value, type)
    assert str(caught.value) == reason


@pytest.mark.parametrize("nothing", [None, pd.NaT, pd.NA])
def test_missing_values_have_their_own_error(nothing: object) -> None:
    with pytest.raises(Missing):
        fit(nothing, Type.DATETIME)


@pytest.mark.parametrize(("text", "type", "expected"), PARSES)
def test_parse(text: str, type: Type, expected: Value) -> None:
    assert parse(text, type) == expected
    assert math.copysign(1, parse("-0.0", Type.DOUBLE)) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "type", "reason"), DOES_NOT_PARSE)
def test_parse_refuses(text: str, type: Type, reason: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse(text, type)
    assert str(caught.value) == reason


@pytest.mark.parametrize("spelling", ["NaN", "nan", "NAN", " nan "])
def test_nan(spelling: str) -> None:
    assert math.isnan(parse(spelling, Type.DOUBLE))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("0.5", 0.5),
        ("5.", 5.0),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("'5'", "5"),
        ('"true"', "true"),
        ("caladan", "caladan"),
        ("nan", "nan"),
        ("2024-01-31", "2024-01-31"),
        ("", ""),
        ("99999999999999999999", 99999999999999999999),
    ],
)
def test_guess(word: str, value: Value) -> None:
    assert guess(word) == value
    assert guess(word).__class__ is value.__class__


@given(st.datetimes())
def test_datetimes_survive_being_written(value: dt.datetime) -> None:
    assert parse(iso(value), Type.DATETIME) == value


@given(st.integers(), st.sampled_from([t for t in TYPES if t.range]))
def test_integers_fit_exactly_when_in_range(value: int, type: Type) -> None:
    low, high = type.range
    for convert in (lambda: fit(value, type), lambda: parse(str(value), type)):
        if low <= value <= high:
            assert convert() == value
        else:
            with pytest.raises(ValueError, match="does not fit"):
                convert()


@given(st.floats(allow_nan=False))
def test_doubles_survive_being_written(value: float) -> None:
    assert parse(repr(value), Type.DOUBLE) == value
