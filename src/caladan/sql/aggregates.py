"""Aggregates and window functions of Spark under DuckDB's names, with Spark's types."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from caladan.sql.calls import ALIASES, Calls
from caladan.sql.digits import MOST_DIGITS, SqlType, words
from caladan.sql.meaning import as_type, decimal_type, place_point, times
from caladan.sql.widths import arguments_of, read_name

# Aggregates by the name that DuckDB has; those in DOUBLES see doubles.
AGGREGATES: Final = {
    "count": "count", "sum": "sum", "avg": "avg", "min": "min", "max": "max",
    "count_if": "count_if",
    "bool_and": "bool_and", "bool_or": "bool_or", "bit_and": "bit_and", "bit_or": "bit_or",
    "bit_xor": "bit_xor", "max_by": "arg_max_null", "min_by": "arg_min_null",
}  # fmt: skip
DOUBLES: Final = frozenset(
    words(
        "stddev_samp stddev_pop var_samp var_pop covar_pop covar_samp corr regr_slope "
        "regr_intercept regr_r2 regr_avgx regr_avgy regr_sxx regr_sxy regr_syy regr_count"
    )
)
RANKS: Final = frozenset(["row_number", "rank", "dense_rank", "ntile"])
PLACES: Final = frozenset(words("percent_rank cume_dist lag lead first_value last_value nth_value"))

INSTEAD: Final = {
    **dict.fromkeys(
        ("first_value", "last_value", "any_value"),
        "which row is meant depends on the order of rows: use min, max, min_by or max_by",
    ),
    **dict.fromkeys(
        ("listagg", "string_agg", "collect_list", "collect_set", "array_agg"),
        "a list depends on the order of rows",
    ),
    **dict.fromkeys(
        ("approx_percentile", "percentile_approx"), "use percentile, which is exact"
    ),
    "approx_count_distinct": "use count(DISTINCT …), which is exact",
    "mode": "group by the value, and take the one with the greatest count",
    "bround": "use round, which rounds half up",
    "decode": "use CASE",
    "hash": "use md5 or sha2",
    "xxhash64": "use md5 or sha2",
    "crc32": "use md5 or sha2",
    "months_between": "use timestampdiff(MONTH, a, b) or datediff(a, b)",
    "unix_seconds": "use unix_timestamp",
    "timestamp_seconds": "use to_timestamp(from_unixtime(n))",
    "any": "use bool_or",
}  # fmt: skip
"""What to write instead of functions that are refused."""


class Aggregates(Calls):
    """Calls of aggregates, alone and with FILTER, OVER and WITHIN GROUP."""

    def _aggregate(self, node: exp.Expr, new: exp.Expr, name: str) -> exp.Expr:
        """An aggregate under DuckDB's name; what stands around it is dealt with by `_outer`."""
        arguments = list(arguments_of(new))
        distinct = any(isinstance(each, exp.Distinct) for each in (new.this, *new.expressions))
        if name == "count" and len(arguments) > 1:
            self._refuse(node, "count of several columns", "count a subquery with SELECT DISTINCT")
        if name in ("percentile", "median"):
            places = [exp.Literal.number("0.5")] if name == "median" else arguments[1:]
            if len(places) != 1 or not isinstance(places[0], exp.Literal | exp.Cast):
                self._refuse(
                    node, "percentile of anything but a number", "write percentile(x, 0.5)"
                )
            arguments, name = [arguments[0], *places], "quantile_cont"
            arguments[0] = self._macro("double", arguments[0])
        elif name in DOUBLES:
            arguments = [self._macro("double", each) for each in arguments]
        function = AGGREGATES.get(name, name)
        inner = [exp.Distinct(expressions=arguments)] if distinct else arguments
        found = exp.AnonymousAggFunc(this=function, expressions=inner)
        if isinstance(node.parent, exp.Filter | exp.Window | exp.WithinGroup | exp.IgnoreNulls):
            return found
        return self._finished(node, found)

    def _outer(self, node: exp.Expr, new: exp.Expr) -> exp.Expr:
        """A FILTER or OVER: what its aggregate gives gets Spark's type."""
        if isinstance(node.parent, exp.Window):
            return new
        inner = node.this
        while isinstance(inner, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
            inner = inner.this
        return self._finished(inner, new)

    def _finished(self, node: exp.Expr, found: exp.Expr) -> exp.Expr:
        name = ALIASES.get(read_name(node), read_name(node))
        width = self._widths.type(node) if self._is_typed else None
        if self._is_typed and name in ("sum", "avg"):
            if width is None:
                self._refuse(node, f"`{name}` of an unknown type", "CAST what it is about")
            if width.is_decimal:
                return self._decimal_aggregate(node, found, name, width)
        if name in RANKS:
            return as_type(found, "INTEGER")
        if name == "sum":
            summed = self._widths.type(node)
            return as_type(found, "BIGINT") if summed is not None and summed.is_whole else found
        if name in ("count_if", "regr_count"):
            return as_type(found, "BIGINT")
        if name in ("corr", "regr_slope"):
            return exp.func("nullif", found, as_type(exp.Literal.string("NaN"), "DOUBLE"))
        return found

    def _decimal_aggregate(
        self, node: exp.Expr, found: exp.Expr, name: str, width: SqlType
    ) -> exp.Expr:
        if name == "sum":
            return as_type(found, decimal_type(width))
        summed = self._widths.type(next(arguments_of(node)))
        assert summed is not None
        parts: list[exp.Expr] = []
        for function in ("sum", "count"):
            part = found.copy()
            aggregate = (
                part if isinstance(part, exp.AnonymousAggFunc) else part.find(exp.AnonymousAggFunc)
            )
            assert aggregate is not None
            aggregate.set("this", function)
            parts.append(part)
        total = as_type(parts[0], f"DECIMAL({MOST_DIGITS}, {summed.scale})")
        rows = exp.func("nullif", parts[1], exp.Literal.number(0))
        return self._quotient(total, rows, summed.scale, 0, width)

    def _ranking(self, node: exp.Expr, new: exp.Expr, name: str) -> exp.Expr:
        around = node.parent
        while isinstance(around, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            around = around.parent
        arguments = list(arguments_of(new))
        if not isinstance(around, exp.Window) or (
            name in ("first_value", "last_value") and len(arguments) > 1
        ):
            self._refuse(node, f"`{read_name(node)}` without OVER", INSTEAD.get(name))
        return exp.AnonymousAggFunc(this=name, expressions=arguments)

    def _within_group(self, node: exp.WithinGroup, new: exp.Expr) -> exp.Expr:
        name = read_name(node.this)
        order = node.expression.expressions
        if name not in ("percentile_cont", "percentile_disc") or order[0].args.get("desc"):
            self._refuse(node, f"`{name}` within this group")
        values = new.expression.expressions[0].this
        function = "quantile_cont" if name == "percentile_cont" else "quantile_disc"
        arguments = [self._macro("double", values), *arguments_of(new.this)]
        return exp.AnonymousAggFunc(this=function, expressions=arguments)

    def _quotient(
        self, left: exp.Expr, right: exp.Expr, above: int, below: int, result: SqlType
    ) -> exp.Expr:
        """A quotient of decimals, exact until it is rounded half up."""
        more = result.scale + below - above
        one, other = self._macro("unscaled", left), self._macro("unscaled", right)
        whole = self._macro("quotient", times(one, max(more, 0)), times(other, max(-more, 0)))
        return place_point(whole, result)
