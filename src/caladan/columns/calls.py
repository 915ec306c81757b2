"""Functions over columns: the rows of the table of functions, evaluated with Arrow and NumPy.

`call_columns` takes a column for each argument, or its value where that is a constant. What a row
cannot do with whole columns, or does not dare to, its scalar evaluation does value by value; so
that is also what says which value is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from caladan.columns.ranks import arrow_of, numpy_of
from caladan.data.schema import ARROW, array_of, compute as pc
from caladan.program import Type
from caladan.program.functions import FunctionRow, Resolved, call_rows, computed_type

_SURPRISES: Final = (pa.ArrowException, OverflowError, ValueError, TypeError, ZeroDivisionError)
_NUMBERS: Final = (Type.LONG, Type.DOUBLE)


def call_columns(row: FunctionRow, found: Resolved, given: Sequence[Any], rows: int) -> pa.Array:
    """The values of a function in every row.

    >>> from caladan.program.functions import find
    >>> row = find("length")
    >>> call_columns(row, row.resolve([Type.STRING]), [pa.array(["Chani", ""])], 2).to_pylist()
    [5, 0]
    """
    type = ARROW[computed_type(found.returns)]
    if not any(isinstance(each, pa.Array) for each in given):
        value = call_rows(row, found, [[each] for each in given], 1)[0]
        return pa.repeat(pa.scalar(value, type), rows)
    gaps = [each for each in given if isinstance(each, pa.Array) and each.null_count]
    if gaps and not row.takes_missing:
        return _around_gaps(row, found, given, gaps, type)
    if row.is_vectorized:
        try:
            made = _call_vectorized(row, found, given)
        except _SURPRISES:
            made = None
        if made is not None:
            return made if made.type == type else pc.cast(made, type)
    columns = [each.to_pylist() if isinstance(each, pa.Array) else [each] * rows for each in given]
    return array_of(call_rows(row, found, columns, rows), type)


def _around_gaps(
    row: FunctionRow,
    found: Resolved,
    given: Sequence[Any],
    gaps: Sequence[pa.Array],
    type: pa.DataType,
) -> pa.Array:
    """Missing where an argument is; the function sees the other rows."""
    present = np.ones(len(gaps[0]), np.bool_)
    for each in gaps:
        present &= numpy_of(each.is_valid().cast(pa.uint8())).view(np.bool_)
    places = np.flatnonzero(present)
    some = [each.take(arrow_of(places)) if isinstance(each, pa.Array) else each for each in given]
    made = call_columns(row, found, some, len(places))
    indices = pa.array(np.cumsum(present) - 1, mask=~present)
    return made.take(indices) if len(made) else pa.nulls(len(present), type)


def _call_vectorized(row: FunctionRow, found: Resolved, given: Sequence[Any]) -> pa.Array | None:
    takes = found.takes
    if row.numpy is not None and all(type in _NUMBERS for type in takes):
        return _numbers(row, found, [_number(e, t) for e, t in zip(given, takes, strict=True)])
    if row.arrow is None:
        return None
    columns = [
        pc.cast(each, ARROW[type])
        if isinstance(each, pa.Array) and type is not None and each.type != ARROW[type]
        else each
        for each, type in zip(given, takes, strict=True)
    ]
    return row.arrow(pc, *columns)


def _number(value: Any, type: Type | None) -> Any:
    wanted: Any = np.float64 if type is Type.DOUBLE else np.int64
    if isinstance(value, pa.Array):
        return numpy_of(value).astype(wanted, copy=False)
    return wanted(value)


def _numbers(row: FunctionRow, found: Resolved, given: Sequence[Any]) -> pa.Array | None:
    assert row.numpy is not None
    made = row.numpy(np, *given)
    if made is None:
        return None
    if found.returns is Type.DOUBLE and np.isinf(made).any():
        infinite = np.isinf(made)
        for each in given:
            infinite &= ~np.isinf(each)
        if infinite.any():
            return None
    if made.dtype == np.bool_:
        return arrow_of(made.view(np.uint8)).cast(pa.bool_())
    return arrow_of(made)
