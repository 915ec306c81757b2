"""Functions over columns give what they give value by value: with Arrow, with NumPy, with gaps."""

import datetime as dt
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from caladan.columns.calls import call_columns
from caladan.data.schema import ARROW
from caladan.program import Type
from caladan.program.functions import ROWS, CallFailed, FunctionRow, Resolved, call_rows
from caladan.program.functions.row import Overload
from caladan.program.types import NAMES

WORDS: dict[str, st.SearchStrategy[Any]] = {
    "string": st.text(st.sampled_from("abAZ ß İé,.0-%\U0001d11e\u0301"), max_size=6),
    "long": st.integers(-9, 9) | st.sampled_from([2**63 - 1, -(2**63), 64, 300, 1 << 40]),
    "double": st.floats() | st.sampled_from([0.5, 2.5, -2.5, 2.345, 1.005, 0.0, 1e300, -7.0]),
    "boolean": st.booleans(),
    "date": st.dates(dt.date(1583, 1, 1), dt.date(2999, 12, 31)),
    "datetime": st.datetimes(dt.datetime(1583, 1, 1), dt.datetime(2999, 12, 31)),
    "decimal": st.decimals(-(10**9), 10**9, places=3),
    "binary": st.binary(max_size=5),
}
GENERIC = ("string", "long", "double", "date")
CASES = [
    (row, overload, word)
    for row in ROWS
    for overload in row.overloads
    if row.is_vectorized
    and overload.parameters
    and not row.takes_type
    and "list" not in overload.parameters  # engines have those as bytes: test_functions.py
    for word in (GENERIC if "T" in overload.parameters else ("long",))
]


def columns(overload: Overload, word: str) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    words = [*overload.parameters, *([overload.parameters[-1]] if overload.repeats else [])]
    kinds = [WORDS[word if each in ("T", "any") else each] for each in words]
    return st.lists(st.tuples(*kinds), min_size=1, max_size=6)


def types_of(overload: Overload, word: str, count: int) -> list[Type]:
    words = [overload.parameter(i) for i in range(count)]
    return [NAMES[word if each in ("T", "any") else each] for each in words]


def outcome(evaluate: Any) -> Any:
    try:
        return [shown(each) for each in evaluate()]
    except (CallFailed, ZeroDivisionError, OverflowError) as problem:
        return type(problem), str(problem)


def shown(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def near(one: Any, other: Any) -> bool:
    """NumPy's functions may differ from C's in the last bit."""
    if not isinstance(one, list) or not isinstance(other, list):
        return bool(one == other)
    pairs = zip(one, other, strict=True)
    return all(
        a == b or (isinstance(a, float) and isinstance(b, float) and math.isclose(a, b))
        for a, b in pairs
    )


@pytest.mark.parametrize(
    ("row", "overload", "word"), CASES, ids=[f"{r.name}{o}{w}" for r, o, w in CASES]
)
@settings(max_examples=20)
@given(data=st.data())
def test_columns_are_rows(row: FunctionRow, overload: Overload, word: str, data: Any) -> None:
    rows = data.draw(columns(overload, word))
    constant = data.draw(st.booleans())
    if constant:
        rows = [(each[0], *rows[0][1:]) for each in rows]
    values = [list(column) for column in zip(*rows, strict=True)]
    types = types_of(overload, word, len(values))
    found = row.resolve(types)
    assert isinstance(found, Resolved)
    arrays = [pa.array(column, ARROW[type]) for column, type in zip(values, types, strict=True)]
    given = [arrays[0], *(column[0] for column in values[1:])] if constant else arrays
    wanted = outcome(lambda: call_rows(row, found, values, len(rows)))
    made = outcome(lambda: call_columns(row, found, given, len(rows)).to_pylist())
    assert near(made, wanted)
    gap = [pa.array([None, *values[0]], arrays[0].type)]
    rest = [pa.concat_arrays([each.slice(0, 1), each]) for each in arrays[1:]]
    with_gap = outcome(lambda: call_columns(row, found, gap + rest, len(rows) + 1).to_pylist())
    assert near(with_gap, [None, *wanted] if isinstance(wanted, list) else wanted)
