"""Kinds of SELECTs: with nothing unusual, of rows that count once, with columns that others see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

_CLAUSES: Final = frozenset(
    ("expressions", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
     "distinct")
)  # fmt: skip
_UNUSUAL: Final = (exp.Window, exp.Anonymous, exp.AnonymousAggFunc, exp.UDTF, exp.Lambda)


def is_plain(table: exp.Table, select: exp.Select) -> bool:
    """Whether a table is one of a FROM, in a SELECT with nothing unusual."""
    clause, alias = table.parent, table.args.get("alias")
    distinct = select.args.get("distinct")
    joins = list[exp.Join](select.args.get("joins") or [])
    return (
        isinstance(clause, exp.From | exp.Join)
        and clause.parent is select
        and list_parts(table) <= {"this", "alias"}
        and not (alias and alias.columns)
        and list_parts(select) <= _CLAUSES
        and not (isinstance(distinct, exp.Distinct) and distinct.args.get("on"))
        and all(list_parts(join) <= {"this", "on", "using", "side", "kind"} for join in joins)
        and all(join.kind in ("", "INNER", "OUTER", "CROSS") for join in joins)
        and not any(isinstance(node, _UNUSUAL) for node in own(select))
    )


def list_parts(node: exp.Expr) -> set[str]:
    """The parts that a node has."""
    return {key for key, value in node.args.items() if value}


def own(select: exp.Select) -> Iterator[exp.Expr]:
    """The nodes of a SELECT without those of queries in it."""
    return select.walk(prune=lambda node: node is not select and isinstance(node, exp.Query))


def is_set(select: exp.Select) -> bool:
    """Whether it does not matter how often a SELECT gives a row."""
    if select.args.get("distinct"):
        return True
    if select.args.get("limit") or select.args.get("offset"):
        return False
    around: exp.Expr = select
    while isinstance(around.parent, exp.Subquery | exp.Paren):
        around = around.parent
    match around.parent:
        case exp.SetOperation() as both:
            return bool(both.args.get("distinct")) and around is select
        case exp.In() as within:
            return within.args.get("query") is around
        case _:
            return isinstance(around.parent, exp.Exists)


def is_seen(select: exp.Select) -> bool:
    """Whether others know the columns of a SELECT by their names."""
    around: exp.Expr | None = select.parent
    while isinstance(around, exp.SetOperation):
        around = around.parent
    return isinstance(around, exp.CTE) or (
        isinstance(around, exp.Subquery) and isinstance(around.parent, exp.From | exp.Join)
    )


def has_name(node: exp.Expr) -> bool:
    """Whether what is selected has a name of its own."""
    return isinstance(node, exp.Alias | exp.Column | exp.Star)
