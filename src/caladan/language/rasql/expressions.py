"""Values: a SQL expression as an Expression of the Program.

Arithmetic, CASE, casts between numbers, and the functions of the table have a counterpart.
Everything else is refused here; a caller that finds the expression to be about one table that is
not recursive has SQL compute it instead.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sqlglot import exp

from caladan.language.rasql.conditions import Leaf, alternatives
from caladan.language.rasql.scope import Unsupported, refuse
from caladan.language.rasql.script import span_of
from caladan.program import (
    OPPOSITE,
    Arithmetic,
    ArithmeticOperator,
    Call,
    Comparison,
    ComparisonOperator,
    Conditional,
    Constant,
    Expression,
    Negative,
    Type,
    Value,
)
from caladan.program.diagnostics import SourceText, Span, error
from caladan.program.functions import IN_SQL
from caladan.program.values import parse

_ARITHMETIC: Final[dict[type[exp.Expr], ArithmeticOperator]] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "div",
    exp.Mod: "mod",
}

COMPARISONS: Final[dict[type[exp.Expr], ComparisonOperator]] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "=",
    exp.NEQ: "~=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}

WHOLE: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
FRACTIONS: Final = ("FLOAT", "DOUBLE")

_AGGREGATES_HELP: Final = (
    "aggregate in the view's head, v(…, sum() AS total), or in a query after the recursion"
)


@dataclass(frozen=True, slots=True)
class ValueTranslator:
    """Translates values.

    `column` gives what stands for a column; `computed` a stand-in for what SQL can compute
    beforehand, or None.
    """

    source: SourceText
    column: Callable[[exp.Column], Expression]
    computed: Callable[[exp.Expr], Expression | None]

    def value(self, node: exp.Expr) -> Expression:
        """The expression of a node; `Unsupported` where there is none."""
        try:
            return self._value(node, span_of(node, self.source))
        except Unsupported:
            stand_in = self.computed(node)
            if stand_in is None:
                raise
            return stand_in

    def _value(self, node: exp.Expr, span: Span | None) -> Expression:
        match node:
            case exp.Paren() | exp.Alias():
                return self.value(node.this)
            case exp.Column():
                return self.column(node)
            case exp.Literal() | exp.Boolean() | exp.Null():
                return Constant(_literal(node, span), span)
            case exp.Neg():
                return _negative(self.value(node.this), span)
            case exp.Case() | exp.If():
                return self._case(node, span)
            case exp.Cast():
                return self._cast(node, span)
            case exp.AggFunc():
                refuse("an aggregate in a recursive query", span, _AGGREGATES_HELP)
            case _ if type(node) in _ARITHMETIC:
                left, right = self.value(node.this), self.value(node.expression)
                return _fold(Arithmetic(_ARITHMETIC[type(node)], left, right, span))
            case _:
                return self._call(node, span)

    def comparison(self, leaf: Leaf) -> Comparison | None:
        """A comparison, or None if the leaf is none."""
        operator = COMPARISONS.get(type(leaf.node))
        if operator is None:
            return None
        left, right = self.value(leaf.node.this), self.value(leaf.node.expression)
        operator = OPPOSITE[operator] if leaf.negated else operator
        return Comparison(operator, left, right, span_of(leaf.node, self.source))

    def _case(self, node: exp.Expr, span: Span | None) -> Expression:
        subject = node.this if isinstance(node, exp.Case) else None
        default = node.args.get("default") if isinstance(node, exp.Case) else node.args.get("false")
        branches = node.args["ifs"] if isinstance(node, exp.Case) else [node]
        if default is None:
            refuse("CASE without ELSE gives NULL", span, "add an ELSE")
        result = self.value(default)
        for branch in reversed(branches):
            condition = branch.this
            if subject is not None:
                condition = exp.EQ(this=subject, expression=condition)
            then = self.value(branch.args["true"])
            ways = alternatives(condition, span, disjoint=False, nullable=lambda _: False)
            for way in reversed(ways):
                result = Conditional(self._tests(way, span), then, result, span)
        return result

    def _tests(self, way: list[Leaf], span: Span | None) -> tuple[Comparison, ...]:
        found: list[Comparison] = []
        for leaf in way:
            comparison = self.comparison(leaf)
            if comparison is None and isinstance(leaf.node, exp.Column):
                comparison = Comparison(
                    "=", self.value(leaf.node), Constant(not leaf.negated), span
                )
            if comparison is None:
                refuse(
                    "this condition inside CASE",
                    span_of(leaf.node, self.source) or span,
                    "use comparisons, or evaluate the CASE in a view",
                )
            found.append(comparison)
        return tuple(found)

    def _cast(self, node: exp.Cast, span: Span | None) -> Expression:
        kind = node.to.this.name
        operand = self.value(node.this)
        if isinstance(operand, Constant) and isinstance(operand.value, str):
            if kind == "DATE":
                return Constant(_datetime(operand.value, span).date(), span)
            if kind in ("TIMESTAMPNTZ", "TIMESTAMP", "DATETIME"):
                return Constant(_datetime(operand.value, span), span)
            if kind == "DECIMAL":
                return Constant(_decimal(operand.value, span), span)
            if kind in ("TEXT", "VARCHAR"):
                return operand
        if kind in FRACTIONS:
            return _fold(Arithmetic("*", operand, Constant(1.0, span), span))
        if kind in WHOLE and _is_whole(operand):
            return operand
        refuse(
            f"CAST to {node.to.sql().lower()} of a column of the recursion",
            span,
            "cast in a view before the recursion, or in the query after it",
        )

    def _call(self, node: exp.Expr, span: Span | None) -> Expression:
        if isinstance(node, exp.Window):
            refuse("a window function in a recursive query", span, "use it in the query after it")
        if isinstance(node, exp.Subquery | exp.Select):
            refuse(
                "a subquery that depends on the recursion, as a value in a recursive query",
                span,
                "name it with CREATE VIEW, and join the view",
            )
        stand_in = self.computed(node)
        if stand_in is not None:
            return stand_in
        name, nodes = _function(node)
        row = IN_SQL.get(name)
        if row is not None and row.complaint(len(nodes)) is None:
            return Call(row.name, tuple(self.value(each) for each in nodes), span)
        refuse(
            f"`{_spell(node)}` on a column of the recursion",
            span,
            "compute it in a view before the recursion, or in the query after it",
        )


def _function(node: exp.Expr) -> tuple[str, list[exp.Expr]]:
    """The name of a function, in lower case, and its arguments, in the order of SQL's commas."""
    match node:
        case exp.Trim():
            sides = {"LEADING": "ltrim", "TRAILING": "rtrim"}
            name = sides.get(node.args.get("position") or "", "trim")
            return name, [node.this, *([node.expression] if node.expression else [])]
        case exp.Anonymous():
            return node.name.lower(), list(node.expressions)
        case _ if type(node) in _ORDER:
            name, keys = _ORDER[type(node)]
            return name, [node.args[key] for key in keys if node.args.get(key)]
        case exp.Func():
            first = [node.this] if isinstance(node.this, exp.Expr) else []
            return node.sql_name().lower(), [*first, *node.expressions]
        case _:
            return node.key, []


_ORDER: Final[dict[type[exp.Expr], tuple[str, tuple[str, ...]]]] = {
    exp.DPipe: ("concat", ("this", "expression")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Overlay: ("overlay", ("this", "expression", "from_", "for_")),
    exp.StrPosition: ("instr", ("this", "substr")),
    exp.BitwiseAnd: ("band", ("this", "expression")),
    exp.BitwiseOr: ("bor", ("this", "expression")),
    exp.BitwiseXor: ("bxor", ("this", "expression")),
    exp.BitwiseNot: ("bnot", ("this",)),
}
"""Functions that have a syntax of their own, or whose arguments sqlglot keeps by name."""


def _spell(node: exp.Expr) -> str:
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    return node.sql_name() if isinstance(node, exp.Func) else node.key.upper()


def _literal(node: exp.Expr, span: Span | None) -> Value:
    if isinstance(node, exp.Null):
        refuse("NULL in a recursive query", span, "recursion has no NULL: use another value")
    if isinstance(node, exp.Boolean):
        return bool(node.this)
    if node.is_string:
        return str(node.this)
    text = str(node.this)
    if not text.isdigit():
        return float(text)
    if int(text) >= 2**63:
        raise error("C003", f"{text} does not fit in 64 bits", span)
    return int(text)


def _datetime(text: str, span: Span | None) -> dt.datetime:
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        raise error("C018", f"'{text}' is not a date", span) from None


def _decimal(text: str, span: Span | None) -> Value:
    try:
        return parse(text, Type.DECIMAL)
    except ValueError as reason:
        raise error("C018", str(reason), span) from None


def _negative(operand: Expression, span: Span | None) -> Expression:
    if isinstance(operand, Constant) and type(operand.value) in (int, float):
        return Constant(-operand.value, span)  # pyright: ignore[reportOperatorIssue]
    return Negative(operand, span)


def _is_whole(node: Expression) -> bool:
    return isinstance(node, Constant) and type(node.value) is int


def _fold(node: Arithmetic) -> Expression:
    """Arithmetic on two literals as its result, so that `SELECT 1, 1.0 / 4` is a fact."""
    match node:
        case Arithmetic(operator, Constant(left), Constant(right)) if type(left) in (
            int,
            float,
        ) and type(right) in (int, float):
            one, other = left, right
            assert isinstance(one, int | float) and isinstance(other, int | float)
            if operator == "/" and other != 0:
                return Constant(one / other, node.span)
            result = {"+": lambda: one + other, "-": lambda: one - other, "*": lambda: one * other}
            if operator in result:
                return Constant(result[operator](), node.span)
            return node
        case _:
            return node
