"""A RaSQL text as a list of statements, read but not yet understood.

    Script ── TableDeclaration   CREATE TABLE edge(Src integer, Dst integer)
           ├─ Statement          CREATE VIEW name(columns) AS query      (has a name)
           └─ Statement          query                                   (has none)

A statement's query is a syntax tree of sqlglot. Which of its views are recursive, and what becomes
of them, is for others to say: it takes the columns of tables, which a text alone does not tell.

`span_of` says where a node of a syntax tree was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from caladan.program import Declaration
from caladan.program.diagnostics import SourceText, Span

Hint: TypeAlias = Literal["broadcast", "shuffle"]

HINTS: Final[tuple[Hint, ...]] = ("broadcast", "shuffle")


@dataclass(frozen=True, slots=True)
class TableDeclaration:
    """A table that gets its data from outside."""

    relation: Declaration

    @property
    def name(self) -> str:
        """The table's name."""
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
        """The tables it declares."""
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
