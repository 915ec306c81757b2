"""The table of functions that rules and SQL call: one row for each, and nothing else knows names.

    row           FunctionRow: what a row has; the language of signatures
    conversion, mathematics, text, matching, time, several, missing    the rows, by family
    python        functions of users, the rows of a session's own table

`find` gives the row of a name; a name that no row has raises. `call` evaluates a row for Python
values, `call_rows` for many of them.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from time import monotonic
from types import MappingProxyType
from typing import Any, Final

from caladan.program.clock import look
from caladan.program.functions import (
    conversion,
    lists,
    matching,
    mathematics,
    missing,
    several,
    text,
    time,
)
from caladan.program.functions.lists import NestedCall, Unpacking
from caladan.program.functions.python import (
    RETURNED,
    Definition,
    Vectorized,
    outcomes,
)
from caladan.program.functions.row import (
    CallFailed,
    FunctionRow,
    Mismatch,
    Resolved,
    computed_type,
    resolve,
    type_word,
)
from caladan.program.nested import Packed
from caladan.program.program import Call, Expression, Value
from caladan.program.types import NAMES, Kind, Type
from caladan.program.values import fit, parse

__all__ = [
    "FUNCTIONS",
    "IN_SQL",
    "NO_FUNCTIONS",
    "RETURNED",
    "CallFailed",
    "Definition",
    "FunctionRow",
    "Mismatch",
    "NestedCall",
    "Resolved",
    "TooLarge",
    "Unpacking",
    "Vectorized",
    "call",
    "call_rows",
    "call_type",
    "computed_type",
    "find",
    "outcomes",
    "read_argument",
    "resolve",
    "type_of_value",
    "type_word",
]

ROWS: Final[tuple[FunctionRow, ...]] = (
    *conversion.ROWS,
    *mathematics.ROWS,
    *text.ROWS,
    *matching.ROWS,
    *time.ROWS,
    *several.ROWS,
    *lists.ROWS,
    *missing.ROWS,
)
"""Every function, by family."""

FUNCTIONS: Final[Mapping[str, FunctionRow]] = MappingProxyType(
    {name: row for row in ROWS for name in (row.name, *row.aliases)}
)
"""The rows by the names that rules call them by."""

IN_SQL: Final[Mapping[str, FunctionRow]] = MappingProxyType(
    {name: row for row in ROWS for name in row.names}
)
"""The rows by the names that SQL calls them by, in lower case."""

NO_FUNCTIONS: Final[Mapping[str, str]] = MappingProxyType({
    **dict.fromkeys(
        ("now", "today", "current_date", "current_timestamp", "localtimestamp"),
        "a rule gives the same for the same facts: pass the time as a parameter, `{now}`",
    ),
    **dict.fromkeys(
        ("rand", "random", "randn", "uuid"),
        "a rule gives the same for the same facts: add a relation of random numbers",
    ),
})  # fmt: skip
"""Names that people expect to be functions, with the reason why they are none."""

_LONG: Final = 1 << 63


def find(name: str) -> FunctionRow:
    """The row of a function that rules call.

    >>> find("upper").summary
    'Letters in upper case.'
    """
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise LookupError(f"there is no function `{name}`") from None


def call_type(node: Call, type_of: Callable[[Expression], Type | None]) -> Type | None:
    """The type of what a call gives, None while that is not known, or where it is a mistake."""
    found = resolve(find(node.function), node, type_of)
    return found.returns if isinstance(found, Resolved) else None


def call(function: str, values: Sequence[Value]) -> Value:
    """The value of a call.

    >>> call("substring", ["caladan", 2, 3])
    'ala'
    """
    row = find(function)
    types = tuple(map(type_of_value, values))
    texts = [each if isinstance(each, str) else None for each in values]
    found = row.resolve(types, (True,) * len(types), type_word(row, values), texts)
    if not isinstance(found, Resolved):
        wanted = found.wanted if isinstance(found, Mismatch) else "other values"
        raise CallFailed(row.name, f"it needs {wanted}")
    return call_rows(row, found, [[value] for value in values], 1)[0]


def call_rows(
    row: FunctionRow, found: Resolved, columns: Sequence[Sequence[Any]], count: int
) -> list[Any]:
    """The values of calls with columns of arguments; missing where an argument is.

    Raises CallFailed, ZeroDivisionError or OverflowError for the first row without a value.
    """
    given = [_adapt(each, type) for each, type in zip(columns, found.takes, strict=True)]
    scalar = row.scalar
    try:
        if not given:
            return [scalar()] * count
        has_gaps = not row.takes_missing and any(None in column for column in given)
        made = _call_each(_skip_missing(scalar) if has_gaps else scalar, given, count)
    except ValueError as problem:
        raise CallFailed(row.name, str(problem)) from None
    if found.returns is Type.DOUBLE and math.inf in map(abs, (m for m in made if m is not None)):
        _check_finite(made, given)
    elif found.returns.is_integral and made:
        numbers = [each for each in made if each is not None]
        if numbers and not -_LONG <= min(numbers) <= max(numbers) < _LONG:
            raise OverflowError("an integer of more than 64 bits")
    return made


def _skip_missing(scalar: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *each: None if None in each else scalar(*each)


def _call_each(scalar: Callable[..., Any], given: Sequence[Sequence[Any]], count: int) -> list[Any]:
    """The value of each row, with a look at the clock after every twentieth of a second or so."""
    made: list[Any] = []
    size = 8
    while len(made) < count:
        look()
        began, start = monotonic(), len(made)
        made += map(scalar, *(column[start : start + size] for column in given))
        size = 2 * size if monotonic() - began < _GLANCE else max(size // 2, 1)
    return made


_GLANCE: Final = 0.05  # seconds between two looks at the clock


def _check_finite(made: Sequence[Any], given: Sequence[Sequence[Any]]) -> None:
    for value, *row in zip(made, *given, strict=True):
        infinite = [each for each in row if isinstance(each, float) and math.isinf(each)]
        if value is not None and math.isinf(value) and not infinite:
            raise TooLarge


class TooLarge(OverflowError):
    """A number became too large for a double."""


def type_of_value(value: object) -> Type | None:
    """The type in which a Python value is computed with; None for one that is missing."""
    if isinstance(value, Packed):
        return value.type
    for kind, type in _TYPES:
        if isinstance(value, kind):
            return type
    return None if value is None else Type.OBJECT


_TYPES: Final = (
    (bool, Type.BOOLEAN), (int, Type.LONG), (float, Type.DOUBLE), (str, Type.STRING),
    (dt.datetime, Type.DATETIME), (dt.date, Type.DATE), (Decimal, Type.DECIMAL),
    (dt.timedelta, Type.INTERVAL), (bytes, Type.BINARY),
)  # fmt: skip


def read_argument(text: str | None, word: str) -> Any:
    """An argument from its text, as Spark writes it, and the word of its parameter."""
    type = NAMES.get(word)
    if text is None or type is None:
        return text
    return float(text) if type is Type.DOUBLE else parse(text, type)


def _adapt(column: Sequence[Any], type: Type | None) -> Sequence[Any]:
    """Arguments as a function takes them: whole numbers as doubles, dates as datetimes."""
    if type is None or type.kind not in _ADAPTED:
        return column
    wanted = type.python
    if all(each.__class__ is wanted or each is None for each in column):
        return column
    if type.is_floating:
        return [None if each is None else float(each) for each in column]
    return [None if each is None else fit(each, type) for each in column]


_ADAPTED: Final = (Kind.FLOAT, Kind.DATE, Kind.DATETIME, Kind.DECIMAL)
