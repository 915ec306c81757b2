"""The order in which facts are shown: the same on every engine.

A sorted relation comes in its order, and ties, like all other relations, by the columns from the
left, ascending. NaN is greater than every other number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from caladan.data.schema import compute


def in_order(table: pa.Table, order: Sequence[tuple[int, bool]] = ()) -> pa.Table:
    """The table sorted by (column, descending), then by its columns from the left."""
    if table.num_rows < 2 or not table.num_columns:
        return table
    keys: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for column, descending in (*order, *((i, False) for i in range(table.num_columns))):
        values = table.column(column)
        if descending and pa.types.is_floating(values.type):
            _add(keys, directions, compute.is_nan(values), descending=True)
        _add(keys, directions, values, descending=descending)
    return table.take(compute.sort_indices(pa.table(keys), sort_keys=directions))


def first_in_order(table: pa.Table, rows: int) -> pa.Table:
    """The first rows of `in_order(table)`, without sorting the others."""
    fractions = any(pa.types.is_floating(column.type) for column in table.columns)
    if table.num_rows <= 2 * rows or not rows or not table.num_columns or fractions:
        return in_order(table).slice(0, rows)  # and NaN keeps its place
    keys = {f"k{i}": column for i, column in enumerate(table.columns)}
    directions = [(name, "ascending") for name in keys]
    return table.take(compute.select_k_unstable(pa.table(keys), rows, directions))


def _add(
    keys: dict[str, Any], directions: list[tuple[str, str]], values: Any, *, descending: bool
) -> None:
    name = f"k{len(keys)}"
    keys[name] = values
    directions.append((name, "descending" if descending else "ascending"))
