"""A RaSQL text as a list of statements, read but not yet understood, and the views of their WITH.

    Script ── TableDeclaration   CREATE TABLE edge(Src integer, Dst integer)
           ├─ Statement          CREATE VIEW name(columns) AS query      (has a name)
           └─ Statement          query                                   (has none)

A statement's query is a syntax tree of sqlglot; `span_of` says where a node of it was written.
`views(statement)` lists its views; `groups(views)` puts those that depend on each other together,
each group after what it reads; `branches(view)` takes the UNION of a recursive view apart. What
becomes of them is for others to say: it takes the columns of tables, which a text alone does not
tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, cast

from sqlglot import exp

from caladan.language.rasql.dialect import AGGREGATES
from caladan.program import Declaration
from caladan.program.aggregates import recursive
from caladan.program.diagnostics import SourceText, Span, error
from caladan.program.transform import reachable

Hint: TypeAlias = Literal["broadcast", "shuffle"]

HINTS: Final[tuple[Hint, ...]] = ("broadcast", "shuffle")


@dataclass(frozen=True, slots=True)
class TableDeclaration:
    """A table that gets its data from outside."""

    relation: Declaration

    @property
    def name(self) -> str:
        return self.relation.name


@dataclass(frozen=True, slots=True)
class Statement:
    """A query, or a view if it has a name. `columns` renames what the query gives."""

    query: exp.Query
    source: SourceText
    name: str | None = None
    columns: tuple[str, ...] = ()
    hint: Hint | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """The statements of a text, in order."""

    source: SourceText
    statements: tuple[TableDeclaration | Statement, ...]

    @property
    def declarations(self) -> tuple[TableDeclaration, ...]:
        return tuple(s for s in self.statements if isinstance(s, TableDeclaration))

    @property
    def tables(self) -> frozenset[str]:
        """The names that it declares or reads, in lower case."""
        read = {
            table.name.lower()
            for statement in self.statements
            if isinstance(statement, Statement)
            for table in statement.query.find_all(exp.Table)
        }
        return frozenset(read | {declared.name.lower() for declared in self.declarations})

    @property
    def parameters(self) -> frozenset[str]:
        """The names of the parameters that it needs values for."""
        return frozenset(
            node.name
            for statement in self.statements
            if isinstance(statement, Statement)
            for node in statement.query.find_all(exp.Placeholder, exp.Parameter)
        )

    @property
    def queries(self) -> tuple[Statement, ...]:
        """The statements that ask something."""
        return tuple(s for s in self.statements if isinstance(s, Statement) and s.name is None)


def span_of(node: exp.Expr | None, source: SourceText) -> Span | None:
    """From the first to the last character of the names and values in a node, if any has a place.

    Names and literals know their places; a node reaches from its first to its last.
    """
    if node is None:
        return None
    places = [
        (part.meta["start"], part.meta["end"] + 1) for part in node.walk() if "start" in part.meta
    ]
    if not places:
        return None
    return Span(source, min(start for start, _ in places), max(end for _, end in places))


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
        return any(f is not None and recursive(f).is_total for f in self.aggregates)


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
                "WITH recursive is inside another query",
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
    reach = {
        key: reachable(view.reads, lambda name: by_name[name].reads)
        for key, view in by_name.items()
    }
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
