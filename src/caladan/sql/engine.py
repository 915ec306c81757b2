"""What a SQL engine is: it holds frames, and makes new ones from queries over them.

A `Frame` is a table or the result of a query, known by a name that the engine gave it. Making one
from a query checks the query; whether that already evaluates it is the engine's affair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from caladan.engines.interface import Table
from caladan.program import Type

if TYPE_CHECKING:
    from caladan.data.source import Source
    from caladan.language.rasql.script import Hint


@dataclass(frozen=True, slots=True)
class FrameColumn:
    """A column; `type` is None where rules have no such type, `spelled` is SQL's word for it."""

    name: str
    type: Type | None
    spelled: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Frame:
    """A table inside a SQL engine; `handle` is what the engine knows it by.

    `tree` is the query it came from, if it did.
    """

    columns: tuple[FrameColumn, ...]
    handle: Any
    tree: exp.Query | None = None


class SqlEngine(Protocol):
    """An engine that answers SQL."""

    def table(self, data: Any) -> Frame:
        """A frame of data that is there: an Arrow table, or what the engine calls its own."""
        ...

    def held(self, table: Table) -> Frame:
        """A frame of a relation that rules derived."""
        ...

    def query(self, tree: exp.Query, frames: Mapping[str, Frame]) -> Frame:
        """The result of a query over frames, by the names of its tables in lower case."""
        ...

    def nulls(self, frame: Frame) -> list[str]:
        """The columns in which there is a NULL."""
        ...

    def source(self, frame: Frame, hint: Hint | None) -> Source:
        """A frame as data for a relation."""
        ...

    def result(self, frame: Frame, *, is_ordered: bool) -> Table:
        """A frame as a table for users."""
        ...

    def close(self) -> None:
        """Let go of the frames; tables that were handed out stay."""
        ...


def key_of(table: exp.Table) -> str:
    """How a table of a query is found among frames."""
    return ".".join(part.lower() for part in (table.catalog, table.db, table.name) if part)


def named(tree: exp.Query) -> exp.Query:
    """The query with a name for every column it selects, the same on every engine."""
    copy = tree.copy()
    select = copy
    while isinstance(select, exp.SetOperation):
        select = select.this
    if not isinstance(select, exp.Select):
        return copy
    select.set("expressions", [_named(node) for node in select.expressions])
    return copy


def _named(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Alias | exp.Column) or node.is_star:
        return node
    return exp.alias_(node, node.sql(normalize_functions="lower"), quoted=True)


def written(tree: exp.Query, found: list[str]) -> list[str]:
    """The names of a query's columns as its text has them, where an engine has its own spelling."""
    selected = tree.selects
    if any(node.is_star for node in selected) or len(selected) != len(found):
        return found
    return [node.alias_or_name or name for node, name in zip(selected, found, strict=True)]


def apart(names: list[str]) -> list[str]:
    """Names of which no two are equal, upper and lower case alike.

    >>> apart(["x", "X", "y"])
    ['x', 'X_2', 'y']
    """
    taken: set[str] = set()
    found: list[str] = []
    for name in names:
        candidate, i = name, 2
        while candidate.lower() in taken:
            candidate, i = f"{name}_{i}", i + 1
        taken.add(candidate.lower())
        found.append(candidate)
    return found
