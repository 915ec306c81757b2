"""What aggregates make of a bag of rows.

Sums of integers are exact whatever the order: the high and the low halves are added up apart, and
put together with a check at the end. `combine` makes one row of each group of a relation that is
not recursive; `total` and `best` are also what cliques combine with.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.engines.spark.columns.expressions import is_infinite, raise_error_column
from caladan.engines.spark.columns.types import inside, zero_made_positive
from caladan.engines.spark.session.failures import called_in_vain, mark_failure
from caladan.engines.spark.session.workers import with_own_python
from caladan.program import Type
from caladan.program.aggregates import AggregateFunction, evaluate, has_empty_value
from caladan.program.functions import CallFailed
from caladan.program.operations import total_type
from caladan.rules.program import Contributors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_LOW: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Bag:
    """The rows that one rule, or the data, gives a relation with aggregates."""

    frame: DataFrame
    contributors: tuple[Contributors, ...] = ()


def find_rule_to_blame(info: RelationInfo, rules: Sequence[CoreRule]) -> CoreRule | None:
    """The rule to name if a sum of a relation overflows."""
    heads = [rule for rule in rules if rule.head == info.name]
    return next((rule for rule in heads if rule.has_aggregates), next(iter(heads), None))


def best(row: AggregateFunction, column: Column, type: Type) -> Column:
    """The best value of a column, or what a function of the user's makes of all of it."""
    if row.spark is not None:
        return row.spark(sf, column)
    return fold_values(row, sf.collect_list(column), type)


def fold_values(row: AggregateFunction, values: Column, type: Type) -> Column:
    """What a function of the user's makes of an array of values, null of none."""
    assert row.code is not None, row
    code = row.code

    def over(values: Sequence[Any]) -> Any:
        given = [value for value in values if value is not None]
        try:
            return reduce(code.one, given) if given else None
        except CallFailed as failed:
            raise RuntimeError(called_in_vain(0, failed)) from None

    called: Any = sf.udf(over, inside(type), useArrow=False)
    return with_own_python(lambda: called(values))


def total(column: Column, type: Type, rule: CoreRule | None) -> Column:
    """The sum of a column, 0 of nothing; an error that names the rule where it overflows."""
    if type.is_floating:
        return _finite(sf.coalesce(sf.sum(column), sf.lit(0.0)), column, rule)
    if type.is_decimal or type is Type.INTERVAL:
        zero = sf.lit(dt.timedelta(0) if type is Type.INTERVAL else 0).cast(inside(type))
        made = sf.try_sum(column).try_cast(inside(type))
        return _within(sf.when(sf.count(column) == 0, zero), made, rule, type.kind.value)
    low = sf.coalesce(sf.sum(column.bitwiseAND(sf.lit(_LOW))), sf.lit(0).cast("long"))
    high = sf.coalesce(sf.sum(sf.shiftright(column, 32)), sf.lit(0).cast("long"))
    carried = high + sf.shiftright(low, 32)
    whole = sf.try_multiply(carried, sf.lit(1 << 32).cast("long"))
    added = sf.try_add(whole, low.bitwiseAND(sf.lit(_LOW)))
    text = "caladan: overflow" if rule is None else mark_failure("C041", rule.number)
    return sf.coalesce(added, raise_error_column(text))


def _within(empty: Column, made: Column, rule: CoreRule | None, of: str = "decimal") -> Column:
    """A sum or mean; an error where its type does not hold it."""
    text = "caladan: overflow" if rule is None else mark_failure("C041", rule.number, of=of)
    return empty.when(made.isNotNull(), made).otherwise(raise_error_column(text))


def _mean(column: Column, type: Type, rule: CoreRule | None) -> Column:
    if not type.is_decimal:
        return _finite(sf.avg(column), column, rule)
    total = sf.try_sum(column.cast(inside(total_type(type))))
    made = sf.try_divide(total, sf.count(column)).try_cast(inside(type))
    return _within(sf.when(sf.count(column) == 0, sf.lit(None)), made, rule)


def _finite(result: Column, column: Column, rule: CoreRule | None) -> Column:
    """A sum or mean of doubles; an error where it is infinity and none of them is."""
    text = "caladan: overflow" if rule is None else mark_failure("C041", rule.number, double=True)
    given = sf.coalesce(sf.bool_or(is_infinite(column)), sf.lit(False))
    return sf.when(is_infinite(result) & ~given, raise_error_column(text).cast("double")).otherwise(
        zero_made_positive(result)
    )


def combine(info: RelationInfo, bags: Sequence[Bag], rule: CoreRule | None) -> DataFrame:
    """One row for each group; a count or sum over nothing that has no group columns is 0."""
    group = [f"c{i}" for i in info.group]
    rows = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), _parts(info, bags))
    made: list[Column] = [sf.count(sf.lit(1)).alias("rows")]
    for i, function in enumerate(info.aggregates):
        column = sf.col(f"c{i}")
        if function is None:
            continue
        match function.kernel:
            case "total":
                value = total(column, info.types[i], rule)
            case "mean":
                value = _mean(column, info.types[i], rule)
            case "least" | "greatest":
                value = best(function, column, info.types[i])
            case "folded":
                value = best(function, column, info.types[i])
                if function.identity is not None:
                    value = sf.coalesce(value, sf.lit(function.identity))
            case "gathered":
                value = _of_all(function, _terms(i, bags), info.types[i], rule)
        made.append(value.alias(f"c{i}"))
    grouped = rows.groupBy(*group).agg(*made)
    if not group and not has_empty_value(info.aggregates):
        grouped = grouped.where(sf.col("rows") > 0)
    return grouped.select(
        *(sf.col(f"c{i}").cast(inside(type)).alias(f"c{i}") for i, type in enumerate(info.types))
    )


def _terms(column: int, bags: Sequence[Bag]) -> list[str]:
    """The names of the columns that hold the terms of an aggregate which looks at all of them."""
    width = next(e.width for bag in bags for e in bag.contributors if e.column == column)
    return [f"t{column}_{n}" for n in range(width)]


def _of_all(
    row: AggregateFunction, terms: Sequence[str], type: Type, rule: CoreRule | None
) -> Column:
    """What an aggregate makes of all solutions of a group, as Spark has it or as Python does."""
    columns = [sf.col(name) for name in terms]
    if row.spark is not None:
        return row.spark(sf, *columns)
    number = None if rule is None else rule.number

    def over(solutions: Sequence[Any]) -> Any:
        rows = [tuple(each) for each in solutions if None not in tuple(each)]
        try:
            return evaluate(row, rows)
        except CallFailed as failed:
            raise RuntimeError(called_in_vain(number or 0, failed)) from None

    called: Any = sf.udf(over, inside(type), useArrow=False)
    given = sf.collect_list(sf.struct(*columns))
    return with_own_python(lambda: called(given))


def _parts(info: RelationInfo, bags: Sequence[Bag]) -> list[DataFrame]:
    """The rows of all bags, and, apart from them, columns in which each key counts once."""
    names = [f"c{i}" for i in range(info.arity)]
    group = [sf.col(f"c{i}") for i in info.group]
    parts: list[DataFrame] = []
    keyed: dict[str, list[tuple[Contributors, DataFrame]]] = {}
    for bag in bags:
        apart = {each.column for each in bag.contributors}
        terms: list[Column] = []
        for each in bag.contributors:
            row = info.aggregates[each.column]
            if row is not None and row.is_gathered:
                own = enumerate(range(each.start, each.end))
                terms += [sf.col(f"k{j}").alias(f"t{each.column}_{n}") for n, j in own]
            else:
                keyed.setdefault(each.place, []).append((each, bag.frame))
        parts.append(
            bag.frame.select(
                *(sf.lit(None).cast(inside(info.types[i])).alias(n) if i in apart else sf.col(n)
                  for i, n in enumerate(names)),
                *terms,
            )
        )  # fmt: skip
    for uses in keyed.values():
        column = uses[0][0].column
        width = uses[0][0].end - uses[0][0].start
        rows = reduce(
            lambda a, b: a.unionByName(b), (_sum_contributors(u, f, group) for u, f in uses)
        )
        keys = [f"p{j}" for j in range(width)]
        single = rows.groupBy(*(f"c{i}" for i in info.group), *keys).agg(sf.max("value").alias("c"))
        parts.append(
            single.select(
                *group,
                *(
                    (sf.col("c") if i == column else sf.lit(None))
                    .cast(inside(info.types[i]))
                    .alias(f"c{i}")
                    for i in range(info.arity)
                    if info.aggregates[i] is not None
                ),
            )
        )
    return parts


def _sum_contributors(use: Contributors, frame: DataFrame, group: Sequence[Column]) -> DataFrame:
    keys = [sf.col(f"k{j}").alias(f"p{n}") for n, j in enumerate(range(use.start, use.end))]
    return frame.select(*group, *keys, sf.col(f"c{use.column}").alias("value"))
