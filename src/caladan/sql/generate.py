"""A syntax tree as text for a SQL engine.

The text is made from the tree alone: tables are called by names made here, users' names stand in
quotes. A number with a point is a double, as in rules, not a decimal; on Spark, text that needs
escapes travels beside the query, as a parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal as OneOf, TypeAlias

from sqlglot import exp

from caladan.language.rasql.dialect import RaSQL
from caladan.language.rasql.translate import AS_SET
from caladan.language.rasql.views import tables_of

Dialect: TypeAlias = OneOf["duckdb", "spark"]

_SOURCE: Final = RaSQL()


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
            table.replace(_renamed(table, name(table)))
    values: dict[str, Any] = {}
    for node in reversed(list(copy.walk())):  # from the inside out, so that parts come first
        adapted = _adapted(node, dialect, values)
        if adapted is not node:
            node.replace(adapted)
    for column in copy.find_all(exp.Identifier):
        column.set("quoted", True)
    return Text(copy.sql(dialect=dialect, comments=False), values)


def _renamed(table: exp.Table, name: str) -> exp.Expr:
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


def _adapted(node: exp.Expr, dialect: Dialect, values: dict[str, Any]) -> exp.Expr:
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
