"""What a query asks of a recursive view: constants of its WHERE drive evaluation.

    WITH recursive tc(Src, Dst) AS … SELECT Dst FROM tc WHERE Src = 1

needs what can be reached from 1, and no more. `asked(query, view)` finds the constants that every
mention of the view is compared with; `with_goals` puts them into the goals of its rules, and the
rest is done by analysis/demand.py. The query keeps its WHERE: whatever is derived besides is left
out there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from typing import Final, TypeAlias

from sqlglot import exp

from caladan.language.rasql.script import View
from caladan.language.rasql.translate import column_names
from caladan.program import Column, Constant, Goal, Program, Type, Value
from caladan.program.values import fit
from caladan.sql.engine import key_of

ViewBindings: TypeAlias = Mapping[int, Sequence[Value]]
"""For columns, by number, the values that are asked for."""

_MOST: Final = 1_000  # goals of a view


def find_asked(query: exp.Query, view: View) -> list[ViewBindings]:
    """For each mention of a view what it is compared with, the same columns in each; or nothing."""
    if any(cte.alias.lower() == view.key for cte in query.find_all(exp.CTE)):
        return []
    mentions = [table for table in query.find_all(exp.Table) if key_of(table) == view.key]
    names = [name.lower() for name in column_names(view)]
    found = [_bindings(table, names) for table in mentions]
    if not found:
        return []
    common = set(found[0]).intersection(*found)
    return [{i: values for i, values in each.items() if i in common} for each in found if common]


def _bindings(table: exp.Table, names: Sequence[str]) -> dict[int, list[Value]]:
    """The columns of a table that the WHERE of its SELECT compares with constants.

    Whatever joins there are: a row without the value would not pass that WHERE.
    """
    clause, select = table.parent, table.parent_select
    alias = table.args.get("alias")
    if not isinstance(clause, exp.From | exp.Join) or clause.parent is not select or select is None:
        return {}
    if isinstance(alias, exp.TableAlias) and alias.columns:
        return {}
    where = select.args.get("where")
    is_alone = not select.args.get("joins") and not select.args.get("laterals")
    found: dict[int, list[Value]] = {}
    for column, values in _find_compared(where.this) if isinstance(where, exp.Where) else ():
        own = column.table.lower() == table.alias_or_name.lower() if column.table else is_alone
        if own and names.count(column.name.lower()) == 1:
            found.setdefault(names.index(column.name.lower()), values)
    return found


def _find_compared(node: exp.Expr) -> Iterator[tuple[exp.Column, list[Value]]]:
    """The columns that must have one of some values for a condition to hold."""
    match node.unnest():
        case exp.And() as both:
            yield from _find_compared(both.left)
            yield from _find_compared(both.right)
        case exp.EQ() as equal:
            for column, value in ((equal.left, equal.right), (equal.right, equal.left)):
                if isinstance(column, exp.Column) and (found := _constant(value)) is not None:
                    yield column, [found]
        case exp.In() as within if isinstance(within.this, exp.Column) and within.expressions:
            values = [_constant(each) for each in within.expressions]
            if None not in values:
                yield within.this, [value for value in values if value is not None]
        case _:
            pass


def _constant(node: exp.Expr) -> Value | None:
    """A whole number, a text or a truth value that is written out."""
    match node.unnest():
        case exp.Literal() as literal if literal.is_string:
            return str(literal.this)
        case exp.Literal() as literal:
            return int(literal.this) if str(literal.this).isdecimal() else None
        case exp.Neg() as negative:
            value = _constant(negative.this)
            return -value if isinstance(value, int) and not isinstance(value, bool) else None
        case exp.Boolean() as truth:
            return bool(truth.this)
        case _:
            return None


def with_goals(
    program: Program,
    demands: Mapping[str, Sequence[ViewBindings] | None],
    columns: Mapping[str, tuple[Column, ...]],
) -> Program:
    """The program with goals for what is asked of its relations; None is not asked for at all."""
    goals: list[Goal] = []
    for goal in program.goals:
        demand = demands.get(goal.atom.relation, ())
        if demand is not None:
            goals += _goals(goal, demand, columns[goal.atom.relation]) or [goal]
    return replace(program, goals=tuple(goals))


def _goals(goal: Goal, demand: Sequence[ViewBindings], columns: tuple[Column, ...]) -> list[Goal]:
    """A goal for each combination of values; none if they are too many, or of other types."""
    found: dict[tuple[tuple[int, Value], ...], None] = {}
    if sum(prod(map(len, each.values())) for each in demand) > _MOST:
        return []
    usable = [i for i in (demand[0] if demand else ()) if _fits(demand, i, columns[i].type)]
    for each in demand:
        for values in product(*(each[i] for i in usable)):
            found[tuple(zip(usable, values, strict=True))] = None
    return [_bound(goal, dict(values)) for values in found if values]


def _fits(demand: Sequence[ViewBindings], column: int, type: Type) -> bool:
    """Whether all values are of a column's own type: SQL converts others, rules do not."""
    kind = str if type is Type.STRING else bool if type is Type.BOOLEAN else int
    if kind is int and not type.is_integral:
        return False
    try:
        return all(
            isinstance(value, kind)
            and isinstance(value, bool) == (kind is bool)
            and fit(value, type) == value
            for each in demand
            for value in each[column]
        )
    except ValueError:
        return False


def _bound(goal: Goal, values: Mapping[int, Value]) -> Goal:
    arguments = tuple(
        Constant(values[i]) if i in values else argument
        for i, argument in enumerate(goal.atom.arguments)
    )
    return replace(goal, atom=replace(goal.atom, arguments=arguments))
