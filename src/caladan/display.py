"""How relations look: a table in a terminal, HTML in a notebook; both say what they leave out."""

from __future__ import annotations

import datetime as dt
import html
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from caladan.values import iso, written

if TYPE_CHECKING:
    from rich.table import Table

    from caladan.result import Relation


_TO_THE_LEFT: Final = ("string", "boolean", "datetime", "date", "binary", "object")


def cell(value: object) -> str:
    """A value as people read it."""
    match value:
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return iso(value)
        case Decimal() | bytes():
            return written(value)
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


def notebook(relation: Relation, rows: Sequence[tuple[object, ...]], count: int) -> str:
    """Some rows of a relation as an HTML table."""
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
        f"<table><caption>{caption}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{lines}</tbody></table>" + (f"<p>{more}</p>" if more else "")
    )
