"""Spark's SQL said for DuckDB: a query that means there what it means on Spark.

`said(tree, frames, source)` gives the query, and the macros it needs. Every node of the tree is one
that is known to agree, or it is translated, or it is refused with C062: nothing reaches DuckDB by
accident. Functions become macros (`meaning.py`); aggregates, which macros cannot be, those of
DuckDB under other names; arithmetic on decimals and floats gets Spark's types (`widths.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sqlglot import exp

from caladan.program.diagnostics import SourceText
from caladan.sql.aggregates import AGGREGATES, DOUBLES, INSTEAD, PLACES, RANKS, Aggregates
from caladan.sql.calls import ALIASES, LENGTHS
from caladan.sql.digits import SqlType, words
from caladan.sql.engine import Frame
from caladan.sql.meaning import (
    MACROS,
    as_type,
    call,
    decimal_type,
    is_nonzero,
    is_number,
    needs,
    times,
)
from caladan.sql.widths import QueryTypes, arguments_of, read_name

# What agrees as it is.
_AGREES: Final = (
    exp.Select, exp.From, exp.Join, exp.Where, exp.Group, exp.Having, exp.Order, exp.Ordered,
    exp.Limit, exp.Offset, exp.Distinct, exp.With, exp.CTE, exp.TableAlias, exp.Table, exp.Subquery,
    exp.SetOperation, exp.Values, exp.Tuple, exp.Alias, exp.Column, exp.Identifier, exp.Star,
    exp.Literal, exp.Boolean, exp.Null, exp.Paren, exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ,
    exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.In, exp.Exists,
    exp.Between, exp.Neg, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor, exp.BitwiseNot, exp.Mul,
    exp.Interval, exp.Var, exp.DataType, exp.DataTypeParam, exp.Window, exp.WindowSpec, exp.Filter,
    exp.IgnoreNulls, exp.RespectNulls, exp.Escape, exp.Cube, exp.Rollup, exp.GroupingSets, exp.Hint,
    exp.Parameter, exp.Placeholder,
)  # fmt: skip

_CASTS: Final = {
    "TINYINT": "tinyint", "SMALLINT": "smallint", "INT": "int", "BIGINT": "bigint",
    "FLOAT": "float", "DOUBLE": "double", "BOOLEAN": "boolean", "TEXT": "string",
    "VARCHAR": "string", "DATE": "date", "TIMESTAMPNTZ": "timestamp_ntz",
    "TIMESTAMP": "timestamp_ntz", "BINARY": "binary",
}  # fmt: skip

_HIDDEN: Final = frozenset(
    words(
        "text_of_number scientific date_of_text timestamp_of_text divisor integral minus "
        "later earlier round_tens within_month months whole_months slice begin isodow "
        "yearofweek seconds from_seconds parsed formatted today moment unscaled quotient "
        "joined matched unbroken sha256 like ilike round div pmod timestamp_ntz"
    )
)

_NUMBERS: Final = ("byte", "short", "integer", "long", "float", "double", "decimal")

_MOST_PLACES: Final = 28  # of an exact product, so that DuckDB has ten digits before the point
_DATED: Final = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY")


def said(
    tree: exp.Query, frames: Mapping[str, Frame], source: SourceText
) -> tuple[exp.Query, tuple[str, ...]]:
    """The query for DuckDB, and the macros that it needs, each after those that it uses."""
    translation = _Translation(QueryTypes(frames), source, QueryTypes(frames).are_around(tree))
    copy = tree.copy()
    pairs = list(zip(tree.walk(bfs=False), copy.walk(bfs=False), strict=True))
    for node, new in reversed(pairs):
        parent, key, index = new.parent, new.arg_key, new.index
        result = translation.node(node, new)
        translation.stands_for(result, node)
        if result is not new and parent is not None and key is not None:
            parent.set(key, result, index)
    return copy, tuple(dict.fromkeys(m for name in translation.used for m in needs(name)))


class _Translation(Aggregates):
    """Translates node by node, what is inside first."""

    def node(self, node: exp.Expr, new: exp.Expr) -> exp.Expr:
        """What a node becomes."""
        match node:
            case exp.Literal() if not node.is_string:
                return _whole_number(node, new)
            case exp.Select():
                new.set("hint", None)
                return new
            case exp.Interval():
                return self._interval(node, new)
            case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod() | exp.IntDiv():
                return self._arithmetic(node, new)
            case exp.Cast():
                return self._cast(node, new)
            case exp.Case() | exp.If() | exp.Coalesce() | exp.Greatest() | exp.Least():
                return self._choice(node, new)
            case exp.Like() | exp.ILike():
                return self._like(node, new)
            case exp.RegexpLike():
                return self._matched(node, self._text(node.this, new.this), node.expression)
            case exp.DPipe():
                sides = ((node.this, new.this), (node.expression, new.expression))
                return exp.DPipe(
                    **dict(
                        zip(("this", "expression"), (self._text(*s) for s in sides), strict=True)
                    )
                )
            case exp.WithinGroup():
                return self._within_group(node, new)
            case exp.Window() | exp.Filter():
                return self._outer(node, new)
            case exp.Func() if not isinstance(node, exp.Connector | exp.Exists):
                return self._function(node, new)
            case _ if isinstance(node, _AGREES):
                return new
            case _:
                self._refuse(node, _name(node))

    # ── Numbers ──────────────────────────────────────────────────────────────────────────────────

    def _arithmetic(self, node: exp.Expr, new: exp.Expr) -> exp.Expr:
        intervals = [
            side for side in (node.this, node.expression) if isinstance(side, exp.Interval)
        ]
        if intervals:
            return self._later(node, new, intervals[0])
        if self._is_typed:
            one, other = self._widths.type(node.this), self._widths.type(node.expression)
            if one is None or other is None:
                self._refuse(node, "arithmetic of an unknown type", "CAST both sides")
            if one.is_decimal or other.is_decimal:
                if not {one.kind, other.kind} & {"double", "float", "string", "null"}:
                    return self._decimals(node, new, one, other)
            elif "float" in (one.kind, other.kind) and self._widths.type(node) == SqlType("double"):
                new.set("this", as_type(new.this, "DOUBLE"))
        if isinstance(node, exp.Div | exp.Mod) and not is_nonzero(node.expression):
            new.set("expression", self._macro("divisor", new.expression))
        match node:
            case exp.Div():
                new.set("safe", False)
                return new
            case exp.IntDiv():
                return self._macro(
                    "div",
                    self._macro("integral", new.this),
                    self._macro("integral", new.expression),
                )
            case exp.Sub() if not (is_number(node.this) or is_number(node.expression)):
                if self._kind(new.this) in _NUMBERS or self._kind(new.expression) in _NUMBERS:
                    return new
                return self._macro("minus", new.this, new.expression)
            case _:
                return new

    def _decimals(self, node: exp.Expr, new: exp.Expr, one: SqlType, other: SqlType) -> exp.Expr:
        result = self._widths.type(node)
        left = as_type(new.this, decimal_type(one))
        right = as_type(new.expression, decimal_type(other))
        if isinstance(node, exp.IntDiv):
            scale = max(one.scale, other.scale)
            sides = [
                times(self._macro("unscaled", value), scale - width.scale)
                for value, width in ((left, one), (right, other))
            ]
            return self._macro("div", *sides)
        assert result is not None
        if isinstance(node, exp.Div):
            return self._quotient(left, right, one.scale, other.scale, result)
        if isinstance(node, exp.Mul) and one.scale + other.scale > _MOST_PLACES:
            self._refuse(
                node,
                "the product of decimals with so many digits",
                "CAST one of them to fewer digits, DECIMAL(18, 4), or to DOUBLE",
            )
        if isinstance(node, exp.Mod):
            right = self._macro("divisor", right)
        plain = type(node)(this=exp.Paren(this=left), expression=exp.Paren(this=right))
        return as_type(exp.Paren(this=plain), decimal_type(result))

    def _later(self, node: exp.Expr, new: exp.Expr, interval: exp.Interval) -> exp.Expr:
        if isinstance(node.this, exp.Interval) and isinstance(node.expression, exp.Interval):
            self._refuse(node, "arithmetic of intervals", "add them one after the other")
        if not isinstance(node, exp.Add | exp.Sub):
            self._refuse(node, "arithmetic of intervals")
        value, step = new.this, new.expression
        if isinstance(node.this, exp.Interval):
            if isinstance(node, exp.Sub):
                self._refuse(node, "arithmetic of intervals")
            value, step = step, value
        if isinstance(node, exp.Sub):
            step = exp.Paren(this=exp.Neg(this=step))
        unit = interval.args["unit"].name.upper()
        if unit.rstrip("S") not in _DATED:
            return exp.Paren(
                this=exp.Add(this=self._macro("timestamp_ntz", value), expression=step)
            )
        return self._macro("later", value, step)

    def _interval(self, node: exp.Interval, new: exp.Expr) -> exp.Expr:
        unit = node.args.get("unit")
        amount = node.this
        is_plain = isinstance(amount, exp.Literal) and str(amount.this).lstrip("-").isdigit()
        if not isinstance(unit, exp.Var) or not is_plain:
            self._refuse(node, "this INTERVAL", "write a whole number and one unit: INTERVAL 2 DAY")
        if unit.name.upper().rstrip("S") not in LENGTHS:
            self._refuse(node, f"INTERVAL in {unit.name.lower()}")
        if not isinstance(node.parent, exp.Add | exp.Sub):
            self._refuse(node, "an INTERVAL by itself", "add it to a date or a timestamp")
        return exp.Interval(this=exp.Literal.string(str(amount.this)), unit=unit.copy())

    # ── Casts, choices, text ─────────────────────────────────────────────────────────────────────

    def _cast(self, node: exp.Cast, new: exp.Expr) -> exp.Expr:
        kind = node.to.this.name
        value, target = new.this, node.to
        if kind == "DECIMAL":
            found: exp.Expr = self._to_decimal(node.this, value, target)
        elif kind in ("TEXT", "VARCHAR"):
            found = self._text(node.this, value)
        elif kind in _CASTS:
            tried = "try_" if isinstance(node, exp.TryCast) else ""
            found = self._macro(tried + _CASTS[kind], value)
        else:
            self._refuse(node, f"CAST to {target.sql(dialect='spark').lower()}")
        return call("TRY", found) if isinstance(node, exp.TryCast) else found

    def _to_decimal(self, node: exp.Expr, value: exp.Expr, target: exp.Expr) -> exp.Expr:
        width = target.sql(dialect="duckdb") if target.expressions else "DECIMAL(10, 0)"
        if isinstance(node, exp.Literal):
            return as_type(exp.Literal.string(str(node.this)), width)
        kind = self._widths.type(node)
        if kind is None:
            self._refuse(node, "CAST to decimal of an unknown type", "CAST to double or text first")
        if kind.kind in ("double", "float"):
            value = as_type(value, "VARCHAR")
        elif kind.kind not in ("string", "decimal", "boolean", "null") and not kind.is_whole:
            self._refuse(node, f"CAST of {kind.kind} to decimal")
        return as_type(value, width)

    def _choice(self, node: exp.Expr, new: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.If) and isinstance(node.parent, exp.Case):
            return new
        if not self._is_typed:
            return new
        width = self._widths.type(node)
        if width is not None and width.is_decimal:
            return as_type(new, decimal_type(width))
        if width is not None and width.kind == "double":
            return as_type(new, "DOUBLE")
        return new

    def _like(self, node: exp.Expr, new: exp.Expr) -> exp.Expr:
        if isinstance(node.parent, exp.Escape):
            return new
        if isinstance(node.expression, exp.Any | exp.All):
            self._refuse(node, "LIKE ANY and LIKE ALL", "combine several LIKE with OR or AND")
        if isinstance(node.expression, exp.Literal) and "\\" not in str(node.expression.this):
            new.set("this", self._text(node.this, new.this))
            return new
        name = "like" if isinstance(node, exp.Like) else "ilike"
        return self._macro(name, self._text(node.this, new.this), new.expression)

    # ── Functions ────────────────────────────────────────────────────────────────────────────────

    def _function(self, node: exp.Func, new: exp.Expr) -> exp.Expr:
        name = ALIASES.get(read_name(node), read_name(node))
        given = list(zip(arguments_of(node), arguments_of(new), strict=True))
        if name in AGGREGATES or name in DOUBLES or name in ("percentile", "median"):
            return self._aggregate(node, new, name)
        if name in RANKS or name in PLACES:
            return self._ranking(node, new, name)
        if isinstance(node, exp.Trim):
            return self._trim(node, new)
        if type(node) in _ORDER:
            name, keys = _ORDER[type(node)]
            given = [(node.args[key], new.args[key]) for key in keys if node.args.get(key)]
        special: Callable[..., exp.Expr] | None = getattr(self, f"_{name}_call", None)
        if special is not None:
            return special(node, given)
        if isinstance(node, exp.Extract):
            return self._part(node, node.this.name, node.expression, new.expression)
        if name not in MACROS or name in _HIDDEN:
            self._refuse(node, f"`{read_name(node)}`", INSTEAD.get(name))
        return self._macro(name, *self._coerced(name, given))


_ORDER: Final[dict[type[exp.Expr], tuple[str, tuple[str, ...]]]] = {
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Overlay: ("overlay", ("this", "expression", "from_", "for_")),
    exp.StrPosition: ("instr", ("this", "substr")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
}


def _whole_number(node: exp.Literal, new: exp.Expr) -> exp.Expr:
    """A whole number with the type that Spark gives it, where that decides the type of a result."""
    text = str(node.this)
    parent = node.parent
    if (
        not text.isdigit()
        or int(text) >= 2**63
        or (isinstance(parent, exp.Neg) and int(text) == 2**31)
    ):
        return new
    if isinstance(
        parent, exp.Binary | exp.Alias | exp.Neg | exp.Func | exp.Paren | exp.If
    ) and not (isinstance(parent, exp.Predicate | exp.Cast)):
        return as_type(new.copy(), "INTEGER" if int(text) < 2**31 else "BIGINT")
    return new


def _name(node: exp.Expr) -> str:
    return f"`{node.key.upper()}`"
