"""Tables that a recursive view is joined with: only what they ask of it is needed.

    SELECT tc.Dst FROM tc JOIN town ON tc.Src = town.N WHERE town.Name = 'Arrakeen'

reads no row of `tc` whose `Src` is not the number of such a town. `semijoins` finds, for each table
of data beside a view, the columns that must be equal, whole numbers or texts, and the query for
their values. SQL still joins: how often a row of a table comes is for it to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlglot import exp

from caladan.program import Type
from caladan.sql.engine import Frame
from caladan.sql.filters import conjuncts
from caladan.sql.mentions import Mention

FrameOf: TypeAlias = "Callable[[exp.Table], Frame | None]"
"""The frame of a table that is data, None for what is computed."""

_PLAIN: Final = frozenset(
    (
        exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.And, exp.Or, exp.Not, exp.Is,
        exp.In, exp.Between, exp.Paren, exp.Neg, exp.Null, exp.Boolean, exp.Literal, exp.Column,
        exp.Identifier,
    )
)  # fmt: skip
"""What a condition may be made of to be asked twice."""


@dataclass(frozen=True, slots=True)
class JoinedKeys:
    """Columns of a view that must have values which a query has, in the order of its columns."""

    columns: tuple[int, ...]
    query: exp.Query
    stem: str


def semijoins(read: Mention, frame: FrameOf) -> Iterator[JoinedKeys]:
    """What the tables beside a view ask of it."""
    joins = list[exp.Join](read.select.args.get("joins") or [])
    if read.is_outer or read.parts:
        return
    where = read.select.args.get("where")
    conditions = [c for join in joins if (on := join.args.get("on")) for c in conjuncts(on)]
    conditions += conjuncts(where.this) if where is not None else ()
    for table in (read.select.args["from_"].this, *(join.this for join in joins)):
        if table is read.table or not isinstance(table, exp.Table):
            continue
        data = frame(table)
        if data is not None and (found := _semijoin(read, table, data, conditions)) is not None:
            yield found


def _semijoin(
    read: Mention, table: exp.Table, data: Frame, conditions: Sequence[exp.Expr]
) -> JoinedKeys | None:
    """The columns of a view that must equal those of a table; None if there are none."""
    types = {column.name.lower(): column.type for column in data.columns}
    alias = table.alias_or_name.lower()

    def is_of(column: exp.Column) -> bool:
        return column.table.lower() == alias and column.name.lower() in types

    equal: dict[int, exp.Column] = {}
    kept: list[exp.Expr] = []
    for node in conditions:
        sides = (node.this, node.expression) if isinstance(node, exp.EQ) else ()
        for one, other in (sides, sides[::-1]) if sides else ():
            place = read.own(one)
            if place is None or not isinstance(other, exp.Column) or not is_of(other):
                continue
            if _is_same(read.known.columns[place].type, types[other.name.lower()]):
                equal.setdefault(place, other)
        columns = list(node.find_all(exp.Column))
        if columns and all(map(is_of, columns)) and all(type(n) in _PLAIN for n in node.walk()):
            kept.append(node.copy())
    if not equal:
        return None
    present = [exp.Is(this=c.copy(), expression=exp.Null()).not_() for c in equal.values()]
    selected = [exp.alias_(c.copy(), f"c{i + 1}") for i, c in enumerate(equal.values())]
    query = exp.select(*selected).distinct().from_(table.copy()).where(*kept, *present)
    return JoinedKeys(tuple(equal), query, f"{table.name}_keys")


def _is_same(one: Type | None, other: Type | None) -> bool:
    if one is None or other is None:
        return False
    return (one.is_integral and other.is_integral) or one is other is Type.STRING
