"""Data that is already in memory: lists of rows, dicts of columns, data frames, Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from caladan.data import problems
from caladan.data.convert import assemble
from caladan.data.problems import BadRow
from caladan.data.schema import match_columns, table_of
from caladan.program import Column
from caladan.program.diagnostics import error
from caladan.program.objects import Objects

if TYPE_CHECKING:
    from caladan.data.convert import Values

Snapshot: TypeAlias = "pa.Table | dict[str, object] | list[object]"

_UNFIT: Final = (pa.ArrowInvalid, pa.ArrowTypeError, UnicodeEncodeError)  # for a column of Arrow


def snapshot(data: object) -> Snapshot:
    """What was given, copied, as a table, columns by name, or rows: later changes do not count."""
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, Mapping) and not isinstance(data, Set):  # edges of networkx are both
        given = cast("Mapping[object, object]", data)
        return _by_name([str(name) for name in given], [_column(v) for v in given.values()])
    if type(data).__module__.startswith("pandas."):
        return _from_pandas(data)
    if isinstance(data, np.ndarray):
        return _from_numpy(cast("Any", data))
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(cast("Any", data)).read_all()
    return list(cast("Iterable[object]", data))


def read(
    relation: str,
    data: Snapshot,
    columns: Sequence[Column],
    bad: list[BadRow],
    *,
    file: str | None = None,
    objects: Objects | None = None,
) -> pa.Table:
    """The rows of a snapshot that fit the columns of a relation; the others are noted in `bad`."""
    if isinstance(data, pa.Table):
        table = cast("Any", data)
        places = match_columns(relation, file, table.column_names, columns)
        by_place = [table.column(i) for i in places]
        return assemble(relation, columns, by_place, bad, file=file, objects=objects)
    if isinstance(data, dict):
        places = match_columns(relation, file, list(data), columns)
        by_column = [cast("Values", list(data.values())[i]) for i in places]
        _check_lengths(relation, columns, by_column)
        return assemble(relation, columns, by_column, bad, objects=objects)
    return _read_rows(relation, data, columns, bad, objects)


def _read_rows(
    relation: str,
    rows: Sequence[object],
    columns: Sequence[Column],
    bad: list[BadRow],
    objects: Objects | None,
) -> pa.Table:
    if set(map(type, rows)) <= {tuple} and set(map(len, cast("list[Any]", rows))) <= {len(columns)}:
        if not columns:  # nothing but how many there are
            return table_of(cast("list[Any]", rows), columns)
        whole = _transpose(cast("list[Any]", rows), columns)
        return assemble(relation, columns, whole, bad, objects=objects)
    good: list[tuple[object, ...]] = []
    lines: list[int] = []
    wrong: list[BadRow] = []
    for line, row in enumerate(rows, 1):
        cells = _cells(relation, line, row, columns)
        if isinstance(cells, BadRow):
            wrong.append(cells)
        else:
            good.append(cells)
            lines.append(line)
    whole = _transpose(good, columns)
    table = (
        assemble(relation, columns, whole, wrong, lines=lines, objects=objects)
        if columns
        else table_of([() for _ in good], columns)
    )
    bad.extend(sorted(wrong, key=lambda row: row.line or 0))
    return table


def _transpose(rows: Sequence[tuple[object, ...]], columns: Sequence[Column]) -> list[list[object]]:
    return [list(map(itemgetter(i), rows)) for i in range(len(columns))]


def _cells(
    relation: str, line: int, row: object, columns: Sequence[Column]
) -> tuple[object, ...] | BadRow:
    """A row as a tuple of the right width: from a tuple or list, a dict, or one bare value."""
    if isinstance(row, Mapping):
        named = cast("Mapping[str, object]", row)
        if columns and not any(column.name in named for column in columns):
            return problems.missing_value(relation, None, line, None, columns[0], map(str, named))
        return tuple(named.get(column.name) for column in columns)
    is_row = isinstance(row, tuple | list)
    cells = tuple(cast("Sequence[object]", row)) if is_row else (row,)
    if len(cells) == len(columns):
        return cells
    return problems.wrong_width(relation, None, line, str(row), len(cells), columns)


def _check_lengths(relation: str, columns: Sequence[Column], data: Sequence[Values]) -> None:
    for column, values in zip(columns, data, strict=True):
        if len(values) != len(data[0]):
            raise error(
                "C031",
                f"column {column.name} of {relation} has {len(values)} values, "
                f"{columns[0].name} has {len(data[0])}",
            )


def _column(values: object) -> object:
    """A column of a dict: Arrow for arrays of any library, else a list of Python values.

    Arrow would take tuples in an array apart; they stay as they are.
    """
    if isinstance(values, list | tuple):
        return list(cast("Sequence[object]", values))
    if isinstance(values, str | bytes) or not np.iterable(values):
        raise error(
            "C050", f"a {type(values).__name__} is not a column",
            help="a dict has a list of values for each column, a list of dicts one for each row",
        )  # fmt: skip
    if isinstance(values, pa.ChunkedArray):
        return values
    if isinstance(values, pa.Array):
        return cast("object", pa.chunked_array([values]))
    if hasattr(values, "__arrow_c_stream__"):
        return cast("object", pa.chunked_array(cast("Any", values)))
    if hasattr(values, "__array__") or hasattr(values, "__arrow_c_array__"):
        try:
            array = pa.array(cast("Any", values))
        except (*_UNFIT, pa.ArrowNotImplementedError):
            return list(cast("Iterable[object]", values))
        if not pa.types.is_nested(array.type):
            return cast("object", pa.chunked_array([array]))
    return list(cast("Iterable[object]", values))


def _from_pandas(frame: Any) -> pa.Table | dict[str, object]:
    """A data frame; columns that mix types, or hold tuples, stay Python values."""
    names = [str(name) for name in frame.columns]
    # Arrow refuses names that come twice, and so would a dict: such columns go by their places.
    numbered = frame if frame.columns.is_unique else frame.set_axis(range(len(names)), axis=1)
    try:
        table = pa.Table.from_pandas(numbered, preserve_index=False).replace_schema_metadata(None)
    except _UNFIT:
        return _by_name(names, [frame.iloc[:, i].tolist() for i in range(len(names))])
    table = table.rename_columns(names)
    kept: dict[int, object] = {
        i: frame.iloc[:, i].tolist()
        for i, field in enumerate(table.schema)
        if pa.types.is_nested(field.type) and frame.iloc[:, i].dtype == object
    }
    if not kept:
        return table
    return _by_name(names, [kept.get(i, table.column(i)) for i in range(len(names))])


def _from_numpy(array: Any) -> dict[str, object]:
    """An array of two dimensions, of one (a column), or with names for its columns."""
    if array.dtype.names is not None:
        return _by_name(array.dtype.names, [_column(array[name]) for name in array.dtype.names])
    if array.ndim not in (1, 2):
        raise error(
            "C050", f"an array of {array.ndim} dimensions is not a relation",
            help="a relation has two: rows and columns",
        )  # fmt: skip
    columns = array.T if array.ndim == 2 else [array]
    return {f"c{i}": _column(column) for i, column in enumerate(columns, 1)}


def _by_name(names: Sequence[str], columns: Sequence[object]) -> dict[str, object]:
    """Columns by their names; C031 if two have the same."""
    found = dict(zip(names, columns, strict=True))
    if len(found) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise error(
            "C031", f"{names.count(twice)} columns named {twice} in the data",
            help="give every column a name of its own",
        )  # fmt: skip
    return found
