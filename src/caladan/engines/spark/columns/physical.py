"""Columns as they are inside the engine's frames: named by position, in the types of evaluation.

Whole numbers are long, fractions double; on the way out a column gets its declared type. Columns
are c0, c1 …; the names that users gave stay outside. Needs no Spark, for workers read this too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from caladan.data.schema import ARROW
from caladan.program import Column, Type


def evaluation_type(type: Type) -> Type:
    """The type in which values of a type are evaluated."""
    if type.is_integral:
        return Type.LONG
    return Type.DOUBLE if type.is_floating else type


def shown(columns: Sequence[Column]) -> tuple[Type, ...]:
    """The types of a relation's columns inside; one without columns has a constant one."""
    return tuple(evaluation_type(c.type) for c in columns) or (Type.BOOLEAN,)


def names(columns: Sequence[Column]) -> list[str]:
    """The names of a relation's columns inside."""
    return [f"c{i}" for i in range(len(shown(columns)))]


def slots(types: Sequence[Type]) -> list[str]:
    """For columns of some types, where they are in a frame that has rows of several relations.

    Such a frame has as many slots of each type as the relation with the most.
    """
    return [f"{_word(type)}{types[:i].count(type)}" for i, type in enumerate(types)]


def _word(type: Type) -> str:
    """A type as part of the name of a column.

    >>> _word(decimal(10, 2))
    'decimal_10_2_'
    """
    return re.sub(r"\W+", "_", type.name)


def physical_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of a relation inside."""
    pairs = zip(names(columns), shown(columns), strict=True)
    return pa.schema([pa.field(name, ARROW[type]) for name, type in pairs])


def stored_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of a relation in files: names as inside, the types that were declared.

    Spark's reader widens columns as they are read, and so a frame of either kind is a plain scan.
    """
    types = [c.type for c in columns] or [Type.BOOLEAN]
    return pa.schema([pa.field(f"c{i}", ARROW[type]) for i, type in enumerate(types)])


def arrow_table(
    table: pa.Table, columns: Sequence[Column], fields: pa.Schema | None = None
) -> pa.Table:
    """An Arrow table of declared types as one of the types inside, or of other `fields`."""
    given: Any = table
    if fields is None:
        fields = physical_schema(columns)
    wanted: Any = fields
    if not columns:
        data: list[Any] = [pa.array([True] * given.num_rows, pa.bool_())]
        return pa.Table.from_arrays(data, schema=wanted)
    return given.rename_columns(wanted.names).cast(wanted)
