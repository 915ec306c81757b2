"""What is known of recursive views before their rules are made: their columns.

`outline(views, tables)` finds the names and types of the columns from what the branches select.
Types only serve to tell whole numbers from doubles, which a join must not mix; what cannot be told
stays open. It also notes which `count()` columns add numbers up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sqlglot import exp

from caladan.language.rasql.branches import Translation
from caladan.language.rasql.scope import KnownColumn, KnownTable, Scope, TableLookup
from caladan.language.rasql.views import View, branches, tables_of
from caladan.program import Type
from caladan.program.diagnostics import CaladanError, Span, error

_CASTS: Final[dict[str, Type]] = {
    "TINYINT": Type.LONG,
    "SMALLINT": Type.LONG,
    "INT": Type.LONG,
    "BIGINT": Type.LONG,
    "FLOAT": Type.DOUBLE,
    "DOUBLE": Type.DOUBLE,
    "DECIMAL": Type.DECIMAL,
    "TEXT": Type.STRING,
}

_PASSES: Final = 3  # a type may have to travel through a few views


@dataclass(slots=True)
class Within:
    """The tables that the branches of recursive views see: themselves, and all others."""

    views: dict[str, KnownTable]
    others: TableLookup

    def find(self, table: exp.Table) -> KnownTable:
        """A recursive view, or another table."""
        if not table.db and table.name.lower() in self.views:
            return self.views[table.name.lower()]
        return self.others.find(table)

    def reads_recursion(self, node: exp.Expr) -> bool:
        """Whether a query reads one of the views."""
        return bool(tables_of(node) & self.views.keys())

    def describe(self, node: exp.Expr, span: Span | None) -> KnownTable:
        """The columns of a subquery."""
        return self.others.describe(node, span)

    def evaluate(self, query: exp.Query, stem: str, span: Span | None) -> KnownTable:
        """The rows of a query, by SQL."""
        return self.others.evaluate(query, stem, span)


@dataclass(slots=True)
class Outline:
    """The columns of recursive views, and what their counts add up."""

    tables: Within
    adding: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])
    totals: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])

    @property
    def names(self) -> frozenset[str]:
        """The views' names, in lower case."""
        return frozenset(self.tables.views)

    def known(self, view: View) -> KnownTable:
        """What is known of a view."""
        return self.tables.views[view.key]

    def counts(self, view: View, column: int) -> bool:
        """Whether a column is a `count()` that every solution adds 1 to."""
        is_count = bool(view.aggregates) and view.aggregates[column] == "count"
        return is_count and (view.key, column) not in self.adding

    def add_numbers(self, view: View) -> None:
        """Every `count()` of a view adds numbers up."""
        self.adding.update((view.key, i) for i, f in enumerate(view.aggregates) if f == "count")

    def is_number(self, node: exp.Expr, scope: Scope) -> bool:
        """Whether a value of a `count()` column counts for itself: a total, or a literal."""
        if is_number(node):
            return True
        relations = {known.relation: key for key, known in self.tables.views.items()}
        return any(
            (relations.get(place.item.known.relation), place.index) in self.totals
            for place in scope.places(node)
        )


def is_number(node: exp.Expr | None) -> bool:
    """Whether a value is a number that is written out, or an aggregate of SQL's."""
    value = None if node is None else node.unalias().unnest()
    if isinstance(value, exp.Neg):
        value = value.this
    if value is None:
        return False
    return (isinstance(value, exp.Literal) and not value.is_string) or (
        value.find(exp.AggFunc) is not None
    )


def outline(views: Sequence[View], tables: TableLookup, names: Mapping[str, str]) -> Outline:
    """The columns of views that depend on each other."""
    known = {
        view.key: KnownTable(
            names[view.key],
            tuple(KnownColumn(name, None) for name in column_names(view)),
            is_recursive=True,
        )
        for view in views
    }
    found = Outline(Within(known, tables))
    for view in views:
        for i, function in enumerate(view.aggregates):
            if function in ("sum", "count"):
                found.totals.add((view.key, i))
    for _ in range(_PASSES):
        for view in views:
            for selected, scope in _selections(view, found.tables):
                _learn(view, selected, scope, found)
    return found


def _learn(view: View, selected: Sequence[exp.Expr], scope: Scope, found: Outline) -> None:
    known = found.known(view)
    columns = list(known.columns)
    for i, node in enumerate(selected[: len(columns)]):
        if view.aggregates and view.aggregates[i] == "count":
            columns[i] = KnownColumn(columns[i].name, Type.LONG)
            if found.is_number(node, scope):
                found.adding.add((view.key, i))
            continue
        type, before = _type(node, scope), columns[i].type
        if type is not None and (before is None or (type.is_floating and before.is_integral)):
            columns[i] = KnownColumn(columns[i].name, type)
    found.tables.views[view.key] = KnownTable(known.relation, tuple(columns), is_recursive=True)


def _selections(view: View, tables: TableLookup) -> Iterator[tuple[Sequence[exp.Expr], Scope]]:
    """What each branch selects, and from where; a branch that SQL must evaluate tells nothing."""
    for branch in branches(view):
        try:
            yield Translation(tables, view.source, str).selection(branch, sums=False)
        except CaladanError:
            continue  # whoever makes the rules reports it


def column_names(view: View) -> tuple[str, ...]:
    """The names of a recursive view's columns: those in its head, or what its base selects."""
    if view.columns:
        return view.columns
    names = [node.alias_or_name for node in selects(branches(view)[0])]
    if not all(names) or "*" in names:
        raise error(
            "C063",
            f"the columns of the recursive view `{view.name}` have no names",
            view.span,
            help=f"name them: {view.name}(A, B, …) AS …",
        )
    return tuple(names)


def selects(query: exp.Query) -> list[exp.Expr]:
    """What a query selects, perhaps inside parentheses."""
    inner = query.unnest()
    return inner.selects if isinstance(inner, exp.Query) else []


def written(query: exp.Query, column: int) -> exp.Expr | None:
    """What a query selects as one of its columns, unless `*` hides which that is."""
    found = selects(query)
    return None if any(node.is_star for node in found) else found[column]


def _type(node: exp.Expr, scope: Scope) -> Type | None:
    match node:
        case exp.Paren() | exp.Alias() | exp.Neg():
            return _type(node.this, scope)
        case exp.Column():
            return scope.place(node).column.type
        case exp.Literal():
            if node.is_string:
                return Type.STRING
            return Type.LONG if str(node.this).isdigit() else Type.DOUBLE
        case exp.Div():
            return Type.DOUBLE
        case exp.Add() | exp.Sub() | exp.Mul():
            sides = {_type(side, scope) for side in (node.this, node.expression)}
            if any(side is not None and side.is_floating for side in sides):
                return Type.DOUBLE
            return Type.LONG if None not in sides else None
        case exp.Cast():
            return _CASTS.get(node.to.this.name)
        case exp.Case():
            return _type(node.args["ifs"][0].args["true"], scope)
        case _:
            return None
