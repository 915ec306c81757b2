"""What the solutions of rules make of a relation with aggregates, one row for each group.

    staff(D, count<_>, avg<S>) <- emp(D, N, S).
    near(Y, mmin<C + W, X>)    <- near(X, C, _), arc(X, Y, W).

`find_grouping` reads the function of each column from the heads of a relation's rules: above, none,
`count`, `avg`, and none, `mmin`, with one witness behind it. A solution is an `Addend`: the values
of the group, and an `AggregatePart` for each aggregate, that is an amount and, where each witness
counts once, the witness. `count` has the amount 1 everywhere; the tuple of a `countd` is a witness
of the amount 1. A plain value in an aggregate column, from a fact or from a rule, is an amount
without witness. `combine` collects the addends by group and makes one row of each group.

The witness of a best value is no such part: of the solutions that have the best value the least
witness is kept (`improve`).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import reduce
from typing import cast

from caladan.analysis.written import WrittenRule, witness_count
from caladan.engines.reference.body import (
    InfiniteValue,
    Row,
    Solution,
    canonical,
    evaluate,
    less,
    row_key,
    widen_value,
)
from caladan.program import NULL, Aggregate, Constant, Expression, Type, Value, Variable
from caladan.program.aggregates import (
    AggregateFunction,
    counts_solutions,
    evaluate as of_solutions,
    has_empty_value,
    row_of,
)
from caladan.program.operations import add_up, mean, mean_type, round_decimal
from caladan.program.transform import replace_in, walk
from caladan.program.types import MOST_DIGITS, decimal


@dataclass(frozen=True, slots=True)
class Grouping:
    """The function of each column of a relation, None for a column of the group.

    The `witnesses` columns behind that of a best value have none, and are no group columns.
    """

    functions: tuple[AggregateFunction | None, ...]
    witnesses: tuple[int, ...] = ()

    @property
    def has_aggregates(self) -> bool:
        """True if some column is computed by an aggregate."""
        return any(self.functions)

    @property
    def adds_up(self) -> bool:
        """True if some column is a sum or a count."""
        return any(function is not None and function.is_total for function in self.functions)

    @property
    def group(self) -> tuple[int, ...]:
        """The columns of the group."""
        plain = (i for i, function in enumerate(self.functions) if function is None)
        return tuple(i for i in plain if i not in self.witnesses)


@dataclass(frozen=True, slots=True)
class AggregatePart:
    """What one solution gives to one aggregate column."""

    amount: Value
    witness: Row | None = None


@dataclass(frozen=True, slots=True)
class Addend:
    """What one solution gives to a relation: the group, and a part for each aggregate column."""

    group: Row
    parts: tuple[AggregatePart, ...]


def find_grouping(rules: Iterable[WrittenRule], arity: int) -> Grouping:
    """The functions of a relation's columns; rules that `stands_alone` is true of have none."""
    functions: list[AggregateFunction | None] = [None] * arity
    witnesses: set[int] = set()
    for rule in rules:
        column = 0
        for argument in () if stands_alone(rule) else rule.arguments:
            if isinstance(argument, Aggregate):
                functions[column] = row_of(argument)
            more = witness_count(argument)
            witnesses.update(range(column + 1, column + 1 + more))
            column += 1 + more
    return Grouping(tuple(functions), tuple(sorted(witnesses)))


def stands_alone(rule: WrittenRule) -> bool:
    """True if a rule computes with its aggregates, sorts by them or cuts them.

    It then groups its own solutions, and what it computes are plain rows of its relation.
    """
    if not any(map(_aggregates, rule.arguments)):
        return False
    is_mixed = any(_aggregates(a) and not isinstance(a, Aggregate) for a in rule.arguments)
    return is_mixed or bool(rule.order) or rule.limit is not None


def _aggregates(argument: Expression) -> list[Aggregate]:
    return [part for part in walk(argument) if isinstance(part, Aggregate)]


def contribution(
    grouping: Grouping, types: Sequence[Type], rule: WrittenRule, binding: Solution
) -> Addend:
    """What a solution of a rule gives."""
    group: list[Value] = []
    parts: list[AggregatePart] = []
    for argument, type, function in zip(rule.arguments, types, grouping.functions, strict=True):
        if isinstance(argument, Aggregate):
            parts.append(_part(argument, type, binding))
        else:
            value = widen_value(evaluate(argument, binding), type)
            group.append(value) if function is None else parts.append(AggregatePart(value))
    return Addend(tuple(group), tuple(parts))


def amounts(grouping: Grouping, row: Row) -> Addend:
    """What a plain row gives."""
    parts = (
        AggregatePart(v) for v, f in zip(row, grouping.functions, strict=True) if f is not None
    )
    return Addend(tuple(row[i] for i in grouping.group), tuple(parts))


def combine(grouping: Grouping, types: Sequence[Type], given: Iterable[Addend]) -> set[Row]:
    """One row for each group; a count or sum over nothing that has no group columns is 0."""
    functions = [f for f in grouping.functions if f is not None]
    columns = [t for t, f in zip(types, grouping.functions, strict=True) if f is not None]
    found: set[Row] = set()
    for group, members in _groups(given, functions, bool(grouping.group)).items():
        values = iter(group)
        made = iter(
            [
                widen_value(value_of(f, [each.parts[i] for each in members], type), type)
                for i, (f, type) in enumerate(zip(functions, columns, strict=True))
            ]
        )
        found.add(tuple(next(values if f is None else made) for f in grouping.functions))
    return found


def _groups(
    given: Iterable[Addend], functions: Sequence[AggregateFunction], has_columns: bool
) -> dict[Row, list[Addend]]:
    groups: dict[Row, list[Addend]] = {}
    for each in given:
        groups.setdefault(each.group, []).append(each)
    if not groups and not has_columns and has_empty_value(functions):
        groups[()] = []
    return groups


def compute_alone(
    rule: WrittenRule, types: Sequence[Type], solutions: Iterable[Solution]
) -> list[tuple[Row, Row]]:
    """The rows of a rule that stands alone, with what it sorts them by."""
    plain = [a for a in rule.arguments if not _aggregates(a)]
    aggregates = list(dict.fromkeys(part for a in rule.arguments for part in _aggregates(a)))
    members: dict[Row, Solution] = {}
    given: list[Addend] = []
    for binding in solutions:
        group = tuple(evaluate(argument, binding) for argument in plain)
        members.setdefault(group, binding)
        given.append(Addend(group, tuple(_part(each, None, binding) for each in aggregates)))
    found: list[tuple[Row, Row]] = []
    functions = [row_of(each) for each in aggregates]
    for group, addends in _groups(given, functions, bool(plain)).items():
        values = {
            each: Constant(value_of(row_of(each), [addend.parts[i] for addend in addends]))
            for i, each in enumerate(aggregates)
        }
        binding = members.get(group, {})
        row = tuple(
            widen_value(_with(values, argument, binding), type)
            for argument, type in zip(rule.arguments, types, strict=True)
        )
        keys = (_sorted_by(rule, key.variable) for key in rule.order)
        found.append((row, tuple(_with(values, key, binding) for key in keys)))
    return found


def _with(values: Mapping[Aggregate, Constant], argument: Expression, binding: Solution) -> Value:
    def change(node: object) -> Constant | None:
        return values[node] if isinstance(node, Aggregate) else None

    return evaluate(replace_in(argument, change), binding)


def _sorted_by(rule: WrittenRule, key: Expression) -> Expression:
    """A column of the group, else the last aggregate that ranges over the variable."""
    over = [a for a in rule.arguments if isinstance(a, Aggregate) and key in a.terms]
    return key if key in rule.arguments else over[-1]


def kept(grouping: Grouping, old: set[Row], new: set[Row]) -> set[Row]:
    """A round's rows in the place of those before: `mmin` and `mmax` never give up a better value.

    A group that is not derived any more stays.
    """
    by_group = {tuple(row[i] for i in grouping.group): row for row in old}
    for row in new:
        group = tuple(row[i] for i in grouping.group)
        before = by_group.get(group, row)
        by_group[group] = tuple(
            _better(function, was, now)
            for function, was, now in zip(grouping.functions, before, row, strict=True)
        )
    return set(by_group.values())


# ── Best values with a witness ───────────────────────────────────────────────────────────────────


def with_witness(types: Sequence[Type], rule: WrittenRule, binding: Solution) -> Row:
    """The row of a solution: `mmin<C + W, X>` stands for two columns."""
    terms: list[Expression] = []
    for argument in rule.arguments:
        terms += argument.terms if isinstance(argument, Aggregate) else [argument]
    return tuple(
        widen_value(evaluate(term, binding), type) for term, type in zip(terms, types, strict=True)
    )


def improve(
    grouping: Grouping, step: int, rows: Iterable[Row], old: Mapping[Row, Row]
) -> dict[Row, Row]:
    """The row of each group that is best in one column: step 0 the value, 1 the first witness, …

    One that has a row stays with it unless another is better.
    """
    (column,) = (i for i, function in enumerate(grouping.functions) if function is not None)
    function = grouping.functions[column]
    is_least = step > 0 or (function is not None and function.is_least)
    column += step
    found = dict(old)
    for row in rows:
        group = tuple(row[i] for i in grouping.group)
        other = found.setdefault(group, row)
        if row[column] is NULL or other[column] is NULL:
            found[group] = other if row[column] is NULL else row
            continue
        one, two = (row, other) if is_least else (other, row)
        if less(one[column], two[column]):
            found[group] = row
    return found


def agrees(grouping: Grouping, step: int, row: Row, other: Row) -> bool:
    """True if two rows of a group have the same value, and the same witnesses before a step."""
    (column,) = (i for i, function in enumerate(grouping.functions) if function is not None)
    return row_key(row[column : column + step]) == row_key(other[column : column + step])


# ── Values ───────────────────────────────────────────────────────────────────────────────────────


def _part(aggregate: Aggregate, type: Type | None, binding: Solution) -> AggregatePart:
    """What a solution gives; nothing that counts where a value is missing."""
    named = [t for t in aggregate.terms if not (isinstance(t, Variable) and t.is_anonymous)]
    if any(evaluate(term, binding) is NULL for term in named):
        return AggregatePart(NULL)
    if row_of(aggregate).counts == "terms" or row_of(aggregate).is_gathered:
        return AggregatePart(1, tuple(evaluate(term, binding) for term in aggregate.terms))
    if counts_solutions(aggregate):
        return AggregatePart(1)
    *witness, amount = (evaluate(term, binding) for term in aggregate.terms)
    return AggregatePart(
        amount if type is None else widen_value(amount, type), tuple(witness) or None
    )


def value_of(
    function: AggregateFunction, parts: Sequence[AggregatePart], type: Type | None = None
) -> Value:
    """What an aggregate makes of its parts, for a column of a type if that is known.

    It passes over what is missing.
    """
    if parts and all(part.amount is NULL for part in parts):
        return NULL if function.counts is None or function.identity is None else function.identity
    parts = [part for part in parts if part.amount is not NULL]
    if function.is_gathered:
        return canonical(of_solutions(function, [part.witness or () for part in parts]))
    given = [part.amount for part in parts if part.witness is None]
    witnessed: dict[Row, Value] = {}
    for part in parts:
        if part.witness is not None:
            best = witnessed.get(part.witness, part.amount)
            witnessed[part.witness] = part.amount if less(best, part.amount) else best
    given += witnessed.values()
    match function.kernel:
        case "least" | "greatest" | "folded":
            if not given:
                assert function.identity is not None, function
                return function.identity
            return canonical(reduce(function.combine, given))
        case "mean" | "total" if _are_decimals(given, type):
            total, scale = add_up(given), max((_scale(each) for each in given), default=0)
            if function.is_mean:
                wanted = mean_type(decimal(MOST_DIGITS - 8, scale)) if type is None else type
                return mean(total, len(given), wanted)
            return total if type is None else round_decimal(total, type)
        case "total" if type is Type.INTERVAL or any(isinstance(v, dt.timedelta) for v in given):
            return sum(cast("list[dt.timedelta]", given), dt.timedelta(0))
        case "mean":
            return canonical(_total(float(cast("float", each)) for each in given) / len(given))
        case "total":
            return canonical(_total(given))
        case "gathered":
            raise AssertionError("done above")


def _are_decimals(given: Sequence[Value], type: Type | None) -> bool:
    if type is not None:
        return type.is_decimal
    return any(isinstance(each, Decimal) for each in given)


def _scale(value: Value) -> int:
    exponent = value.as_tuple().exponent if isinstance(value, Decimal) else 0
    return -exponent if isinstance(exponent, int) else 0


def _total(given: Iterable[Value]) -> float:
    """The sum of numbers, rounded once if one of them is a double, whatever their order."""
    numbers = [number for number in given if isinstance(number, int | float)]
    if not any(isinstance(number, float) for number in numbers):
        return sum(numbers)
    try:
        return math.fsum(numbers)
    except ValueError:  # infinities of both signs
        return sum(numbers)
    except OverflowError:
        raise InfiniteValue from None


def _better(function: AggregateFunction | None, was: Value, now: Value) -> Value:
    return function.combine(was, now) if function is not None and function.is_improved else now
