"""What names stand for: the tables of a FROM, and their columns.

A `KnownTable` is a table as the translation sees it: the relation it is in the Program, its
columns, and which of them may hold NULL. An `Item` is one table of a FROM under the name it has
there. A `ItemColumn` is a column of an item; a `Scope` finds the place that a column's name stands
for, among its own items or those of the query around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn, Protocol

from sqlglot import exp

from caladan.language.rasql.script import span_of
from caladan.program import Type
from caladan.program.diagnostics import (
    CaladanError,
    Diagnostic,
    SourceText,
    Span,
    did_you_mean,
    error,
)


@dataclass(frozen=True, slots=True)
class KnownColumn:
    """A column; its type is None while it is a recursive view's and not known yet."""

    name: str
    type: Type | None
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class KnownTable:
    """A table or view. `relation` is its name in the Program, if it is one there already.

    What is not `is_relation` must be read through a query; `relation` is then a name to begin with.
    """

    relation: str
    columns: tuple[KnownColumn, ...]
    is_recursive: bool = False
    is_relation: bool = True

    @property
    def has_nulls(self) -> bool:
        """Whether some column may hold NULL."""
        return any(column.nullable for column in self.columns)


class TableLookup(Protocol):
    """Where the translation looks tables up, and has SQL evaluated for it."""

    def find(self, table: exp.Table) -> KnownTable:
        """The table or recursive view of a name; C010 if there is none."""
        ...

    def reads_recursion(self, node: exp.Expr) -> bool:
        """Whether a query reads one of the recursive views."""
        ...

    def describe(self, node: exp.Expr, span: Span | None) -> KnownTable:
        """The columns of a subquery in a FROM, which is not evaluated yet."""
        ...

    def evaluate(self, query: exp.Query, stem: str, span: Span | None) -> KnownTable:
        """The result of a query that a SQL engine runs, as a relation of the Program."""
        ...


@dataclass(eq=False, slots=True)
class Item:
    """A table in a FROM."""

    alias: str
    known: KnownTable
    node: exp.Expr


@dataclass(frozen=True, slots=True)
class ItemColumn:
    """A column of an item."""

    item: Item
    index: int

    @property
    def column(self) -> KnownColumn:
        """What is known of the column."""
        return self.item.known.columns[self.index]


class Unsupported(CaladanError):
    """Something that a recursive view cannot say; where nothing is recursive, SQL can."""


def refuse(message: str, span: Span | None, help: str) -> NoReturn:
    """Refuse a construct in a recursive view, and say what to write instead."""
    raise Unsupported(Diagnostic("C060", message, span, help=help))


BOUND = "bound"
"""The key of a column's meta under which its place is noted before it moves to another query."""


@dataclass(slots=True)
class Scope:
    """The items of a FROM, and the scope around it."""

    items: Sequence[Item]
    source: SourceText
    outer: Scope | None = None
    tables: dict[str, Item] = field(default_factory=dict[str, Item])

    def __post_init__(self) -> None:
        for item in self.items:
            if item.alias.lower() in self.tables:
                raise error(
                    "C063",
                    f"two tables are named `{item.alias}` here",
                    span_of(item.node, self.source),
                    help="give one of them another name: `edge AS e`",
                )
            self.tables[item.alias.lower()] = item

    def place(self, column: exp.Column) -> ItemColumn:
        """The place that a column's name stands for; C063 if there is none, or several."""
        bound = column.meta.get(BOUND)
        if bound is not None:
            return bound
        scope: Scope | None = self
        while scope is not None:
            found = scope.own(column)
            if found is not None:
                return found
            scope = scope.outer
        raise self._unknown(column)

    def own(self, column: exp.Column) -> ItemColumn | None:
        """The same among the scope's own items, or None."""
        name = column.name.lower()
        items = list(self.items)
        if column.table:
            items = [i for i in items if i.alias.lower() == column.table.lower()]
        places = [
            ItemColumn(item, index)
            for item in items
            for index, known in enumerate(item.known.columns)
            if known.name.lower() == name
        ]
        if len(places) > 1:
            options = " or ".join(f"`{p.item.alias}.{p.column.name}`" for p in places)
            raise error(
                "C063",
                f"`{column.name}` is ambiguous",
                span_of(column, self.source),
                help=f"write {options}",
            )
        return places[0] if places else None

    def is_own(self, place: ItemColumn) -> bool:
        """Whether a place belongs to one of the scope's own items."""
        return any(place.item is item for item in self.items)

    def places(self, node: exp.Expr) -> Iterator[ItemColumn]:
        """The places of all columns in a node."""
        for column in node.find_all(exp.Column):
            yield self.place(column)

    def _unknown(self, column: exp.Column) -> CaladanError:
        span = span_of(column, self.source)
        if column.table and column.table.lower() not in self.tables:
            return error(
                "C063",
                f"there is no table `{column.table}` here",
                span,
                help=did_you_mean(column.table, (i.alias for i in self.items)),
            )
        items = [self.tables[column.table.lower()]] if column.table else self.items
        names = [c.name for item in items for c in item.known.columns]
        return error(
            "C063",
            f"there is no column `{column.name}` here",
            span,
            help=did_you_mean(column.name, names)
            or f"the columns are {', '.join(dict.fromkeys(names)) or 'none: there is no FROM'}",
        )
