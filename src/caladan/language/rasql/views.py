"""The views of a statement's WITH: which of them are recursive, and in which order to take them.

`views(statement)` lists them; `groups(views)` puts those that depend on each other together, each
group after what it reads; `branches(view)` takes the UNION of a recursive view apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from sqlglot import exp

from caladan.language.rasql.dialect import AGGREGATES
from caladan.language.rasql.script import Statement, span_of
from caladan.program.diagnostics import SourceText, Span, error


@dataclass(frozen=True, slots=True)
class View:
    """A view of a WITH. `aggregates` has a function or None for each column it names."""

    name: str
    columns: tuple[str, ...]
    aggregates: tuple[str | None, ...]
    query: exp.Query
    reads: frozenset[str]
    source: SourceText = field(compare=False, repr=False)
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def key(self) -> str:
        """The name as it is compared: upper and lower case alike."""
        return self.name.lower()

    @property
    def sums(self) -> bool:
        """Whether a column adds up, so that it counts how often a row is derived."""
        return any(f in ("sum", "count") for f in self.aggregates)


@dataclass(frozen=True, slots=True)
class Group:
    """Views that depend on each other, or one that stays SQL."""

    views: tuple[View, ...]
    is_recursive: bool


def views(statement: Statement) -> tuple[View, ...]:
    """The views of a statement's WITH, in order."""
    clause = statement.query.args.get("with_")
    if clause is None:
        return ()
    is_recursive = bool(clause.args.get("recursive"))
    source = statement.source
    names = [cte.alias.lower() for cte in clause.expressions]
    found: list[View] = []
    for i, cte in enumerate(clause.expressions):
        aggregates = cte.meta.get(AGGREGATES, ())
        span = span_of(cte.args["alias"], source)
        if names[i] in names[:i]:
            raise error("C017", f"the view `{cte.alias}` is defined twice", span)
        if aggregates and not is_recursive:
            raise error(
                "C060",
                f"`{cte.alias}` aggregates a column, but is not recursive",
                span,
                help="write WITH recursive, or aggregate in its SELECT, with GROUP BY",
            )
        visible = frozenset(names if is_recursive else names[:i])
        columns = tuple(column.name for column in cte.args["alias"].columns)
        query = cast("exp.Query", cte.this)
        reads = tables_of(query) & visible
        found.append(View(cte.alias, columns, aggregates, query, reads, source, span))
    _check_nested(statement, clause)
    return tuple(found)


def _check_nested(statement: Statement, clause: exp.Expr) -> None:
    for nested in statement.query.find_all(exp.With):
        if nested is not clause and nested.args.get("recursive"):
            raise error(
                "C060",
                "WITH recursive stands inside another query",
                span_of(nested, statement.source),
                help="move it to the front of the statement, or into a CREATE VIEW",
            )


def body(statement: Statement) -> exp.Query:
    """The statement's query without its WITH."""
    copy = statement.query.copy()
    copy.set("with_", None)
    return copy


def tables_of(node: exp.Expr) -> frozenset[str]:
    """The names of the tables that a query reads, in lower case, without those it defines."""
    defined = {cte.alias.lower() for cte in node.find_all(exp.CTE)}
    return frozenset(
        table.name.lower()
        for table in node.find_all(exp.Table)
        if not table.db and table.name.lower() not in defined
    )


def groups(found: Sequence[View]) -> list[Group]:
    """Strongly connected views together, each group after those that it reads."""
    by_name = {view.key: view for view in found}
    reach = {key: _reachable(key, by_name) for key in by_name}
    order: list[Group] = []
    done: set[str] = set()

    def visit(key: str) -> None:
        together = [
            v for v in found if v.key == key or (v.key in reach[key] and key in reach[v.key])
        ]
        done.update(v.key for v in together)
        for view in together:
            for read in sorted(view.reads - done):
                visit(read)
        is_recursive = key in reach[key] or any(v.aggregates for v in together)
        order.append(Group(tuple(together), is_recursive))

    for view in found:
        if view.key not in done:
            visit(view.key)
    return order


def _reachable(key: str, by_name: Mapping[str, View]) -> set[str]:
    seen: set[str] = set()
    waiting = list(by_name[key].reads)
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(by_name[name].reads)
    return seen


def branches(view: View) -> list[exp.Query]:
    """The queries between the UNIONs of a recursive view."""
    return list(_branches(view.query, view))


def _branches(query: exp.Expr, view: View) -> Iterator[exp.Query]:
    if isinstance(query, exp.Subquery) and not query.alias and _is_bare(query):
        yield from _branches(query.this, view)
    elif isinstance(query, exp.Union) and _is_bare(query):
        if not query.args.get("distinct"):
            raise error(
                "C060",
                f"UNION ALL in the recursive view `{view.name}`: recursion works with sets",
                view.span,
                help="write UNION; to count how often a row is derived, add a column sum() AS n",
            )
        yield from _branches(query.this, view)
        yield from _branches(query.expression, view)
    else:
        yield cast("exp.Query", query)


def _is_bare(query: exp.Expr) -> bool:
    """Whether no ORDER BY, LIMIT or WITH hangs on parentheses or a UNION."""
    return not any(query.args.get(part) for part in ("with_", "order", "limit", "offset"))
