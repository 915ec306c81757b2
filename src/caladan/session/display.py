"""How relations look: a table in a terminal, HTML in a notebook; both say what they leave out.

The order in which facts are shown: the same on every engine.

A sorted relation comes in its order, and ties, like all other relations, by the columns from the
left, ascending. NaN is greater than every other number, and what is missing comes before all.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from caladan.data.schema import compute, first_rows
from caladan.program.nested import json_text
from caladan.program.values import iso, write_value

if TYPE_CHECKING:
    from rich.table import Table

    from caladan.session.result import Relation


def in_order(table: pa.Table, order: Sequence[tuple[int, bool]] = ()) -> pa.Table:
    """The table sorted by (column, descending), then by its columns from the left."""
    if table.num_rows < 2 or not table.num_columns:
        return table
    keys: dict[str, Any] = {}
    directions: list[tuple[str, str]] = []
    for column, descending in (*order, *((i, False) for i in range(table.num_columns))):
        values = table.column(column)
        if values.null_count:
            _add(keys, directions, compute.is_valid(values), descending=descending)
        if descending and pa.types.is_floating(values.type):
            _add(keys, directions, compute.is_nan(values), descending=True)
        _add(keys, directions, values, descending=descending)
    return table.take(compute.sort_indices(pa.table(keys), sort_keys=directions))


def first_in_order(table: pa.Table, rows: int) -> pa.Table:
    """The first rows of `in_order(table)`, without sorting the others."""
    fractions = any(
        pa.types.is_floating(column.type) or column.null_count for column in table.columns
    )
    if table.num_rows <= 2 * rows or not rows or not table.num_columns or fractions:
        return first_rows(in_order(table), rows)  # and NaN keeps its place
    keys = {f"k{i}": column for i, column in enumerate(table.columns)}
    directions = [(name, "ascending") for name in keys]
    return table.take(compute.select_k_unstable(pa.table(keys), rows, directions))


def _add(
    keys: dict[str, Any], directions: list[tuple[str, str]], values: Any, *, descending: bool
) -> None:
    name = f"k{len(keys)}"
    keys[name] = values
    directions.append((name, "descending" if descending else "ascending"))


_TO_THE_LEFT: Final = ("string", "boolean", "datetime", "date", "interval", "binary", "object")


def cell(value: object) -> str:
    """A value as people read it."""
    match value:
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return iso(value)
        case Decimal() | bytes() | dt.timedelta():
            return write_value(value)
        case tuple():
            return json_text(value, cell)  # pyright: ignore[reportUnknownArgumentType]
        case None:
            return "NULL"
        case _:
            return str(value)


def terminal(relation: Relation, rows: Sequence[tuple[object, ...]]) -> Table:
    """Some rows of a relation as a rich table; numbers stand to the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name, type in zip(relation.columns, relation.types, strict=True):
        justify = "left" if type in _TO_THE_LEFT else "right"
        table.add_column(Text(name), justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell(value)) for value in row))
    return table


def remainder(shown: int, count: int) -> str:
    """What is said below a table that does not show everything."""
    return f"… and {count - shown:,} more" if count > shown else ""


class PlanText(str):
    """What `explain` gives: text that a notebook shows with its lines, a fold for each stage."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        import html

        parts = re.split(r"^(== .* ==)$", self, flags=re.MULTILINE)
        folds = [
            f"<details open><summary>{html.escape(title.strip('= '))}</summary>{html_text(text)}"
            "</details>"
            for title, text in zip(parts[1::2], parts[2::2], strict=True)
        ]
        return "".join([html_text(parts[0]), *folds])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """How IPython prints it in a terminal."""
        printer.text(str(self))


def html_text(text: str) -> str:
    """Text as a notebook shows it, with its lines and columns."""
    import html

    style = "text-align: left; white-space: pre; overflow-x: auto"
    return f'<pre style="{style}">{html.escape(text.strip())}</pre>' if text.strip() else ""


_CAPTION: Final = "white-space: nowrap; text-align: left; caption-side: top"


def html_table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A small table as HTML."""
    import html

    head = "".join(f"<th>{html.escape(each)}</th>" for each in heads)
    lines = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    return (
        f'<table><caption style="{_CAPTION}">{html.escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    )


def notebook(relation: Relation, rows: Sequence[tuple[object, ...]], count: int) -> str:
    """Some rows of a relation as an HTML table."""
    import html  # for notebooks

    heads = "".join(
        f"<th>{html.escape(name)}<br><small>{type}</small></th>"
        for name, type in zip(relation.columns, relation.types, strict=True)
    )
    lines = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    more = remainder(len(rows), count)
    caption = f"{html.escape(relation.name)}: {count:,} facts"
    return (
        f'<table><caption style="{_CAPTION}">{caption}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{lines}</tbody></table>" + (f"<p>{more}</p>" if more else "")
    )
