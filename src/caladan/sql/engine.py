"""What a SQL engine is: it holds frames, and makes new ones from queries over them.

    generate          a syntax tree as text for an engine
    refused, no_type  what an engine said of it, as a diagnostic

A `Frame` is a table or the result of a query, known by a name that the engine gave it. Making one
from a query checks the query; whether that already evaluates it is the engine's affair.

The text is made from the tree alone: tables are called by names made here, users' names stand in
quotes. A number with a point is a double, as in rules, not a decimal; on Spark, text that needs
escapes travels beside the query, as a parameter. Since the engine sees text that we made, its own
positions mean nothing to users. The names that it quotes do: the place of an error is the first
name in the user's text that the engine's message mentions, or else the statement.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal as OneOf, Protocol, TypeAlias

from sqlglot import exp

from caladan.engines.interface import Table
from caladan.language.rasql.script import span_of, tables_of
from caladan.language.rasql.translate import AS_SET
from caladan.program import Column, Type
from caladan.program.diagnostics import CaladanError, SourceText, Span, error, too_deep
from caladan.program.transform import fresh

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


def name_columns(tree: exp.Query) -> exp.Query:
    """The query with a name for every column it selects, the same on every engine."""
    copy = tree.copy()
    select = copy
    while isinstance(select, exp.SetOperation):
        select = select.this
    if not isinstance(select, exp.Select):
        return copy
    select.set("expressions", [_name_column(node) for node in select.expressions])
    return copy


def _name_column(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Alias | exp.Column) or node.is_star:
        return node
    return exp.alias_(node, node.sql(normalize_functions="lower"), quoted=True)


def list_names(tree: exp.Query, found: list[str]) -> list[str]:
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
    return [fresh(name, taken, str.lower) for name in names]


Dialect: TypeAlias = OneOf["duckdb", "spark"]


@dataclass(frozen=True, slots=True)
class Text:
    """A query as text, with the values that travel beside it."""

    sql: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])


def generate(tree: exp.Query, name: Callable[[exp.Table], str], dialect: Dialect) -> Text:
    """The text of a query; `name` says what a table is called in the engine."""
    copy = tree.copy()
    outside = tables_of(copy)
    for table in list(copy.find_all(exp.Table)):
        if isinstance(table.this, exp.Identifier) and (table.db or table.name.lower() in outside):
            table.replace(_rename(table, name(table)))
    values: dict[str, Any] = {}
    for node in reversed(list(copy.walk())):  # from the inside out, so that parts come first
        adapted = _adapt(node, dialect, values)
        if adapted is not node:
            node.replace(adapted)
    for column in copy.find_all(exp.Identifier):
        column.set("quoted", True)
    return Text(copy.sql(dialect=dialect, comments=False), values)


def _rename(table: exp.Table, name: str) -> exp.Expr:
    alias = table.args.get("alias") or exp.TableAlias(this=exp.to_identifier(table.name))
    renamed = exp.Table(this=exp.to_identifier(name, quoted=True))
    if table.meta.get(AS_SET):
        distinct = exp.select("*").distinct().from_(renamed)
        return exp.Subquery(this=distinct, alias=alias.copy())
    copy = table.copy()
    for part in ("db", "catalog"):
        copy.set(part, None)
    copy.set("this", renamed.this)
    copy.set("alias", alias.copy())
    return copy


def _adapt(node: exp.Expr, dialect: Dialect, values: dict[str, Any]) -> exp.Expr:
    match node:
        case exp.Literal() if not node.is_string and not str(node.this).isdigit():
            if isinstance(node.parent, exp.Cast):
                return node
            return exp.Cast(this=node.copy(), to=exp.DataType.build("double"))
        case exp.Literal() if node.is_string and dialect == "spark" and _needs_escapes(node.this):
            key = f"text_{len(values)}"
            values[key] = node.this
            return exp.Placeholder(this=key)
        case exp.Div() if dialect == "spark":
            node.set("safe", True)
            return node
        case _:
            return node


def _needs_escapes(text: str) -> bool:
    return any(c in "\\'\"" or not c.isprintable() for c in text)


_QUOTED: Final = re.compile(r"""["'`]([^"'`\n]+)["'`]""")
_KIND: Final = re.compile(r"^(?:[A-Z]\w*(?: [A-Z]\w*)* Error|\[[A-Z_.0-9]+\]):?\s*")
_CLASS: Final = re.compile(r"[A-Z]\w*[A-Z]")  # of an exception in a function of the user's
_MACRO: Final = re.compile(r"^macro spark_(\w+?)(?:_\d+)?\(\) does not support")
_NOISE: Final = re.compile(r"\s*(?:SQLSTATE: \w+\.?|;?\s*line \d+ pos \d+.*)$")


def refuse(message: str, tree: exp.Query | None, source: SourceText) -> CaladanError:
    """C062 with the place that an engine's message is about; C040 for a division by zero.

    C001 for a query that nests more deeply than the engine goes.
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    said = _NOISE.sub("", _KIND.sub("", lines[0] if lines else "no reason given")).rstrip(".;")
    said, _, _ = said.partition(". ")  # what follows is advice about another SQL
    if not _CLASS.match(said):
        said = said[:1].lower() + said[1:]
    if found := _MACRO.match(said):
        said = f"`{found[1]}` does not take such arguments on embedded"
    if said.startswith("max expression depth"):
        return too_deep("the query", _place("", tree, source))
    code = "C040" if " by zero" in said else "C062"
    return error(code, f"the SQL engine says: {said}", _place(said, tree, source))


def no_type(name: str, spelled: str, tree: exp.Query | None, source: SourceText) -> CaladanError:
    """C065 for a column of a type that relations do not have."""
    selected = [] if tree is None else [s for s in tree.selects if s.alias_or_name == name]
    return error(
        "C065",
        f"column {name} is {spelled.lower()}, which a relation cannot hold",
        span_of(selected[0] if selected else tree, source),
        help="cast it, or unpack it in the query",
    )


def no_objects(name: str, column: Column, place: Span | None = None) -> CaladanError:
    """C065 for a table with Python's objects in it."""
    return error(
        "C065",
        f"column {column.name} of `{name}` holds objects, which SQL cannot",
        place,
        help="ask for it with rules, in DeALS",
    )


def _place(said: str, tree: exp.Query | None, source: SourceText) -> Span | None:
    if tree is None:
        return None
    if " by zero" in said:
        divided = tree.find(exp.Div, exp.IntDiv, exp.Mod)
        return span_of(divided or tree, source)
    words = set(re.findall(r"\w+", said.lower()))
    names = {part.lower() for quoted in _QUOTED.findall(said) for part in quoted.split(".")}
    for node in tree.find_all(exp.Identifier, exp.Anonymous, exp.AnonymousAggFunc):
        known = names if isinstance(node, exp.Identifier) else words
        if node.name.lower() in known:
            return span_of(node, source)
    return span_of(tree, source)
