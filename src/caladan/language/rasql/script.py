"""A RaSQL text as a list of statements, read but not yet understood.

    Script ── Declaration   CREATE TABLE edge(Src integer, Dst integer)
           ├─ Statement     CREATE VIEW name(columns) AS query      (has a name)
           └─ Statement     query                                   (has none)

A statement's query is a syntax tree of sqlglot. Which of its views are recursive, and what becomes
of them, is for others to say: it takes the columns of tables, which a text alone does not tell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sqlglot import exp

from caladan.errors import Source, Span
from caladan.program import Relation

Hint: TypeAlias = Literal["broadcast", "shuffle"]

HINTS: Final[tuple[Hint, ...]] = ("broadcast", "shuffle")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A table that gets its data from outside."""

    relation: Relation

    @property
    def name(self) -> str:
        """The table's name."""
        return self.relation.name


@dataclass(frozen=True, slots=True)
class Statement:
    """A query, or a view if it has a name. `columns` renames what the query gives."""

    query: exp.Query
    source: Source
    name: str | None = None
    columns: tuple[str, ...] = ()
    hint: Hint | None = None
    span: Span | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """The statements of a text, in order."""

    source: Source
    statements: tuple[Declaration | Statement, ...]

    @property
    def declarations(self) -> tuple[Declaration, ...]:
        """The tables it declares."""
        return tuple(s for s in self.statements if isinstance(s, Declaration))

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
