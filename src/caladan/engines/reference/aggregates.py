"""What aggregates make of the solutions of all rules of a relation.

A solution gives every aggregate column a `Part`: an amount and, where each witness counts once, the
witness. `count` has the amount 1 everywhere; the tuple of a `countd` is a witness of the amount 1.
A plain value in an aggregate column, from a fact or from a rule, is an amount without witness.
`combined` collects the parts by group and makes one row of each group.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.engines.reference.evaluate import (
    Binding,
    InfiniteValue,
    Row,
    canonical,
    evaluate,
    less,
    sort_key,
    widened,
)
from caladan.program import Aggregate, AggregateFunction, Type, Value

TOTALS: Final = ("sum", "msum", "count", "mcount", "countd")


@dataclass(frozen=True, slots=True)
class Part:
    """What one solution gives to one aggregate column."""

    amount: Value
    witness: Row | None = None


@dataclass(frozen=True, slots=True)
class Addend:
    """What one solution gives to a relation: the group, and a part for each aggregate column."""

    group: Row
    parts: tuple[Part, ...]


def contribution(info: RelationInfo, rule: CoreRule, binding: Binding) -> Addend:
    """What a solution of a rule gives."""
    group: list[Value] = []
    parts: list[Part] = []
    for argument, column, function in zip(
        rule.arguments, info.columns, info.aggregates, strict=True
    ):
        if isinstance(argument, Aggregate):
            parts.append(_part(argument, column.type, binding))
        else:
            value = widened(evaluate(argument, binding), column.type)
            group.append(value) if function is None else parts.append(Part(value))
    return Addend(tuple(group), tuple(parts))


def fact(info: RelationInfo, row: Row) -> Addend:
    """What a fact gives."""
    return Addend(
        tuple(value for value, f in zip(row, info.aggregates, strict=True) if f is None),
        tuple(Part(value) for value, f in zip(row, info.aggregates, strict=True) if f is not None),
    )


def combined(info: RelationInfo, given: Iterable[Addend]) -> set[Row]:
    """One row for each group; a count or sum over nothing that has no group columns is 0."""
    groups: dict[Row, list[Addend]] = {}
    for each in given:
        groups.setdefault(each.group, []).append(each)
    if not groups and not info.group and all(f in TOTALS for f in info.aggregates):
        groups[()] = []
    return {_row(info, group, members) for group, members in groups.items()}


def kept(info: RelationInfo, old: set[Row], new: set[Row]) -> set[Row]:
    """A round's rows in the place of those before: `mmin` and `mmax` never give up a better value.

    A group that is not derived any more stays.
    """
    by_group = {_group(info, row): row for row in old}
    for row in new:
        before = by_group.get(_group(info, row), row)
        by_group[_group(info, row)] = tuple(
            _better(function, was, now)
            for function, was, now in zip(info.aggregates, before, row, strict=True)
        )
    return set(by_group.values())


def _part(aggregate: Aggregate, type: Type, binding: Binding) -> Part:
    function, terms = aggregate.function, aggregate.terms
    if function == "countd":
        return Part(1, tuple(evaluate(term, binding) for term in terms))
    if function == "count" or (function == "mcount" and len(terms) < 2):
        return Part(1)
    *witness, amount = (evaluate(term, binding) for term in terms)
    return Part(widened(amount, type), tuple(witness) or None)


def _row(info: RelationInfo, group: Row, members: list[Addend]) -> Row:
    values = iter(group)
    columns = iter(zip(*(each.parts for each in members), strict=True))
    return tuple(
        next(values) if function is None else _combine(function, next(columns, ()), column.type)
        for function, column in zip(info.aggregates, info.columns, strict=True)
    )


def _combine(function: AggregateFunction, parts: Iterable[Part], type: Type) -> Value:
    amounts = [part.amount for part in parts if part.witness is None]
    witnessed: dict[Row, Value] = {}
    for part in parts:
        if part.witness is not None:
            best = witnessed.get(part.witness, part.amount)
            witnessed[part.witness] = part.amount if less(best, part.amount) else best
    amounts += witnessed.values()
    match function:
        case "min" | "mmin":
            return min(amounts, key=sort_key)
        case "max" | "mmax":
            return max(amounts, key=sort_key)
        case "avg":
            return canonical(_total(amounts, type) / len(amounts))
        case _:
            return canonical(widened(_total(amounts, type), type))


def _total(amounts: list[Value], type: Type) -> float:
    """The sum of numbers, rounded once if they are doubles, whatever their order."""
    numbers = [number for number in amounts if isinstance(number, int | float)]
    if not type.is_floating:
        return sum(numbers)
    try:
        return math.fsum(numbers)
    except ValueError:  # infinities of both signs
        return sum(numbers)
    except OverflowError:
        raise InfiniteValue from None


def _better(function: AggregateFunction | None, was: Value, now: Value) -> Value:
    if function == "mmin":
        return was if less(was, now) else now
    if function == "mmax":
        return now if less(was, now) else was
    return now


def _group(info: RelationInfo, row: Row) -> Row:
    return tuple(row[i] for i in info.group)
