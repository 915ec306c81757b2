"""Types of expressions, and the check behind `types`: what disagrees is a C012 with both sides.

Whole numbers are evaluated with 64 bits, so arithmetic on them gives `long`; `/` always gives
`double`. Whole numbers widen to `double` where they meet one in arithmetic, in a comparison or in a
head column; variables of two atoms must agree without widening, for a join compares exactly.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.program import (
    NULL,
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Null,
    Object,
    Parameter,
    Type,
    Value,
    Variable,
    operations,
)
from caladan.program.aggregates import Takes, row_of
from caladan.program.diagnostics import Diagnostics, RelatedSpan, Span
from caladan.program.functions import Mismatch, call_type, find, resolve
from caladan.program.nested import Packed
from caladan.program.notation import width_of
from caladan.program.types import (
    DECIMAL_PATTERN,
    MOST_DIGITS,
    decimal,
    nested_union,
    wider,
)
from caladan.program.values import parse

_NUMBER: Final = re.compile(DECIMAL_PATTERN)


def partial_type(node: Expression, types: Mapping[str, Type]) -> Type | None:
    """The type of an expression, or None while a variable's type is not known."""
    match node:
        case Variable():
            return types.get(node.name)
        case Constant():
            return None if node.value is NULL else constant_type(node.value)
        case Parameter():
            return None
        case Arithmetic():
            left, right = operand_types(node, types)
            if left is None or right is None:
                return None
            found = operations.find(node.operator, left, right)
            if found is not None:
                return found[1]
            if node.operator in ("div", "mod"):
                return Type.LONG
            is_whole = node.operator != "/" and left.is_integral and right.is_integral
            return Type.LONG if is_whole else Type.DOUBLE
        case Negative():
            operand = partial_type(node.operand, types)
            if operand is None:
                return None
            found = operations.find("-", operand)
            return _type_of_arithmetic(operand) if found is None else found[1]
        case Conditional():
            then = partial_type(node.then, types)
            otherwise = partial_type(node.otherwise, types)
            if then is None or otherwise is None:
                return then or otherwise
            one, other = (
                _beside(node.then, then, otherwise) or then,
                _beside(node.otherwise, otherwise, then) or otherwise,
            )
            return widen(one, other) or one
        case Function():
            return node.returns
        case Call():
            return call_type(node, lambda each: partial_type(each, types))
        case Aggregate():
            return _aggregate_type(node, types)


def operand_types(node: Arithmetic, types: Mapping[str, Type]) -> tuple[Type | None, Type | None]:
    """The types of both sides; literals have the types of what they stand beside.

    A number beside a decimal is a decimal, digit by digit; a text beside a time is one.
    """
    left, right = partial_type(node.left, types), partial_type(node.right, types)
    return _beside(node.left, left, right), _beside(node.right, right, left)


def _beside(node: Expression, own: Type | None, other: Type | None) -> Type | None:
    if own is None or other is None or not isinstance(node, Constant):
        return own
    if own is Type.STRING and other.kind in operations.TIMES:
        return _time_type(node.value) or own
    value = as_decimal(node) if other.is_decimal else None
    return own if value is None else decimal(*width_of(value))


def _time_type(value: Value) -> Type | None:
    """What a text beside a time stands for: an interval, a date or a moment."""
    for type in (Type.INTERVAL, Type.DATE, Type.DATETIME):
        try:
            parse(str(value), type)
        except ValueError:
            continue
        return type
    return None


def as_decimal(node: Constant) -> Decimal | None:
    """A number of the program with all its digits, as a decimal; None if it has too many.

    >>> as_decimal(Constant(2)), as_decimal(Constant(0.5))
    (Decimal('2'), Decimal('0.5'))
    """
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        return None
    written = as_written(node.value, node.span)
    value = Decimal(written if isinstance(written, str) else repr(node.value))
    digits, scale = width_of(value) if value.is_finite() else (MOST_DIGITS + 1, 0)
    return value if digits <= MOST_DIGITS and scale <= MOST_DIGITS else None


def argument_type(node: Call, position: int) -> Type | None:
    """What a function takes there, if it takes one type; of functions of Python nobody knows."""
    if isinstance(node, Function):
        return None
    return find(node.function).wanted(position, len(node.arguments))


def _aggregate_type(node: Aggregate, types: Mapping[str, Type]) -> Type | None:
    if not node.terms:
        return Type.LONG  # solutions are counted
    row = row_of(node)
    return row.result_type(
        partial_type(node.terms[row.value_term if row.is_gathered else -1], types)
    )


def _type_of_arithmetic(type: Type) -> Type:
    return Type.LONG if type.is_integral else Type.DOUBLE


def constant_type(value: Value) -> Type:
    """The type a literal has on its own."""
    match value:
        case bool():
            return Type.BOOLEAN
        case int():
            return Type.INTEGER if -(2**31) <= value < 2**31 else Type.LONG
        case float():
            return Type.DOUBLE
        case str():
            return Type.STRING
        case dt.datetime():
            return Type.DATETIME
        case dt.date():
            return Type.DATE
        case dt.timedelta():
            return Type.INTERVAL
        case Decimal():
            return decimal(*width_of(value))
        case Packed():
            return value.type
        case bytes():
            return Type.BINARY
        case Object():
            return Type.OBJECT
        case Null():
            raise TypeError("null has no type of its own")


def widen(one: Type, other: Type) -> Type | None:
    """The type that holds both, or None: equal types, or the wider of two numeric ones."""
    if one == other:
        return one
    if one.is_integral and other.is_integral and one.is_unsigned != other.is_unsigned:
        signed, unsigned = (other, one) if one.is_unsigned else (one, other)
        bits = max(signed.order, min(2 * unsigned.order, Type.LONG.order))
        return next(t for t in (Type.BYTE, Type.SHORT, Type.INTEGER, Type.LONG) if t.order == bits)
    if one.is_numeric and other.is_numeric:
        widest = max(one, other, key=lambda type: type.order)
        # A float has fewer exact whole numbers than an integer: only a double holds both.
        return (
            Type.DOUBLE if widest is Type.FLOAT and one.is_integral != other.is_integral else widest
        )
    if {one, other} == {Type.DATE, Type.DATETIME}:
        return Type.DATETIME
    if one.kind is other.kind and one.is_nested:
        return nested_union(one, other)
    if one.is_decimal or other.is_decimal:
        if one.is_floating or other.is_floating:
            return Type.DOUBLE
        if all(type.is_decimal or type.is_integral for type in (one, other)):
            return decimal(*wider(operations.digits_of(one), operations.digits_of(other)))
    return None


def stands_for(literal: Type, type: Type) -> bool:
    """Whether a literal may be written where a value of another type is meant.

    So a date is written as text, and a decimal as a number; any value is an object.
    """
    if type is Type.OBJECT:
        return True
    if literal.is_nested:
        return literal.kind is type.kind and type not in (Type.LIST, Type.STRUCT)
    if literal is Type.STRING:
        return type.from_text
    if literal is Type.DATE:
        return type is Type.DATETIME
    if literal.is_decimal:
        return type.is_numeric or type.is_decimal
    return literal.is_numeric and type.is_decimal


def as_written(value: Value, span: Span | None) -> Value:
    """A number with all its digits, of which a double has no more than 17."""
    return span.text if span is not None and _NUMBER.fullmatch(span.text) else value


def joinable(one: Type, other: Type) -> bool:
    """Whether one variable may stand in columns of both types."""
    if one.kind is other.kind and one.is_nested:
        return widen(one, other) is not None
    return one is other or (one.kind is other.kind and (one.is_numeric or one.is_decimal))


def article(type: Type) -> str:
    """A type with its article."""
    return f"an {type}" if str(type)[0] in "aeio" else f"a {type}"


@dataclass(frozen=True, slots=True)
class TypeOrigin:
    """A type, and where it came from in words a user can follow."""

    type: Type
    span: Span | None
    where: str


def check_rule(
    rule: CoreRule,
    environment: Mapping[str, TypeOrigin],
    columns: Mapping[str, list[TypeOrigin | None]],
    found: Diagnostics,
) -> None:
    """Report every place of a rule where types disagree."""
    checker = _Checker(rule, environment, found)
    for atom in rule.atoms:
        checker.atom(atom, columns.get(atom.relation, []))
    for comparison in rule.comparisons:
        checker.comparison(comparison)
    for argument, column in zip(rule.arguments, columns[rule.head], strict=False):
        checker.head(argument, column)
    for key in rule.order:
        checker.ordered(key.variable, "sort", key.span)


class _Checker:
    def __init__(
        self, rule: CoreRule, environment: Mapping[str, TypeOrigin], found: Diagnostics
    ) -> None:
        self._rule = rule
        self._environment = environment
        self._known = {name: origin.type for name, origin in environment.items()}
        self._found = found

    def atom(self, atom: CoreAtom, columns: Iterable[TypeOrigin | None]) -> None:
        for argument, column in zip(atom.arguments, columns, strict=False):
            if column is None:
                continue
            if isinstance(argument, Constant):
                self._constant(argument, column, atom)
            elif argument.name in self._environment:
                known = self._environment[argument.name]
                if not joinable(known.type, column.type):
                    self._conflict(
                        f"`{argument.name}` is {column.type} in `{atom.relation}` "
                        f"but {known.type} elsewhere in the rule",
                        argument.span or atom.span,
                        [known, column],
                        _WIDEN
                        if known.type.is_numeric and column.type.is_numeric
                        else _declare(known.type, column.type),
                    )

    def _constant(self, argument: Constant, column: TypeOrigin, atom: CoreAtom) -> None:
        own = constant_type(argument.value)
        fits = (
            own == column.type
            or (own.is_integral and column.type.is_numeric)
            or (own.is_floating and column.type.is_floating)
            or stands_for(own, column.type)
        )
        if not fits:
            self._conflict(
                f"`{atom.relation}` has {article(column.type)} here, not {article(own)}",
                argument.span or atom.span,
                [column],
                _capital(argument),
            )

    def comparison(self, node: Comparison) -> None:
        left, right = self.expression(node.left), self.expression(node.right)
        if node.operator not in ("=", "~="):
            for side in (node.left, node.right):
                if self.ordered(side, node.operator, node.span):
                    return
        if left is None or right is None or widen(left, right) is not None:
            return
        for side, own, other in ((node.left, left, right), (node.right, right, left)):
            if isinstance(side, Constant) and stands_for(own, other):
                return
        self._conflict(
            f"{article(left)} cannot be compared with {article(right)}",
            node.span or self._rule.span,
            [*self._origins(node.left), *self._origins(node.right)],
            _capital(node.left) or _capital(node.right) or _declare(left, right),
        )

    def head(self, argument: Expression, column: TypeOrigin | None) -> None:
        type = self.expression(argument)
        if type is None or column is None or widen(type, column.type) is not None:
            return
        if isinstance(argument, Constant) and stands_for(type, column.type):
            return
        self._conflict(
            f"`{self._rule.head}` gets {article(type)} here, but the column is {column.type}",
            argument.span or self._rule.span,
            [*self._origins(argument), column],
            _declare(type, column.type),
        )

    def expression(self, node: Expression) -> Type | None:
        """The type of an expression, after a look inside it."""
        match node:
            case Arithmetic():
                for side in (node.left, node.right):
                    self.expression(side)
                left, right = operand_types(node, self._known)
                if left and right and not operations.find(node.operator, left, right):
                    whole = node.operator in ("div", "mod")
                    for side in (node.left, node.right):
                        self._operand(side, node.operator, whole)
            case Negative():
                type = self.expression(node.operand)
                if type is not None and not operations.find("-", type):
                    self._operand(node.operand, "-", False)
            case Conditional():
                for comparison in node.condition:
                    self.comparison(comparison)
                then, otherwise = self.expression(node.then), self.expression(node.otherwise)
                if then is not None and otherwise is not None and widen(then, otherwise) is None:
                    self._conflict(
                        f"the branches of `if` are {then} and {otherwise}",
                        node.span or self._rule.span,
                        [*self._origins(node.then), *self._origins(node.otherwise)],
                    )
            case Call():
                self._call(node)
            case Aggregate():
                for term in node.terms:
                    self.expression(term)
                row = row_of(node)
                takes = (row.takes, *row.also)
                terms = node.terms if row.is_gathered else node.terms[-1:]
                for term, wanted in zip(terms, takes, strict=False):
                    self._aggregated(term, wanted, node)
            case _:
                pass
        return partial_type(node, self._known)

    def _aggregated(self, term: Expression, wanted: Takes, node: Aggregate) -> None:
        """Report a term of an aggregate that is not what the aggregate takes."""
        type = partial_type(term, self._known)
        match wanted:
            case "number" if type is not None and type.is_decimal and row_of(node).is_gathered:
                self._conflict(
                    f"`{node.function}` takes no decimals",
                    term.span or node.span or self._rule.span,
                    self._origins(term),
                    f"`{node.function}<cast(X, double)>` takes them as doubles",
                )
            case "number" if type is Type.INTERVAL and row_of(node).is_total:
                pass
            case "number":
                self._operand(term, node.function, False)
            case "ordered":
                self.ordered(term, node.function, node.span)
            case "text" | "boolean" if type is not None:
                word = "text" if wanted == "text" else "a boolean"
                if type is not (Type.STRING if wanted == "text" else Type.BOOLEAN):
                    self._conflict(
                        f"`{node.function}` needs {word}, not {article(type)}",
                        term.span or node.span or self._rule.span,
                        self._origins(term),
                        row_of(node).usage,
                    )
            case "size":
                value = term.value if isinstance(term, Constant) else None
                if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                    self._conflict(
                        f"`{node.function}` needs a whole number from 1 that is written out",
                        term.span or node.span or self._rule.span,
                        [],
                        row_of(node).usage,
                    )
            case "fraction":
                value = term.value if isinstance(term, Constant) else None
                if not isinstance(value, int | float) or not 0 <= value <= 1:
                    self._conflict(
                        f"`{node.function}` needs a number from 0 to 1 that is written out",
                        term.span or node.span or self._rule.span,
                        [],
                        row_of(node).usage,
                    )
            case _:
                pass

    def ordered(self, node: Expression, wanting: str, span: Span | None) -> bool:
        """Report a value without an order where one is needed; True if so."""
        type = partial_type(node, self._known)
        if type is None or type.has_order:
            return False
        self._conflict(
            f"`{wanting}` needs values that have an order, not {article(type)}",
            node.span or span or self._rule.span,
            self._origins(node),
            _declare(type),
        )
        return True

    def _operand(self, node: Expression, operator: str, whole: bool) -> None:
        type = self.expression(node)
        if type is None or (type.is_integral if whole else type.is_numeric or type.is_decimal):
            return
        wanted = "whole numbers" if whole else "numbers"
        self._conflict(
            f"`{operator}` needs {wanted}, not {article(type)}",
            node.span or self._rule.span,
            self._origins(node),
            "`/` divides fractions" if whole and type.is_floating else _declare(type),
        )

    def _call(self, node: Call) -> None:
        for argument in node.arguments:
            self.expression(argument)
        if isinstance(node, Function):
            return
        found = resolve(find(node.function), node, lambda each: partial_type(each, self._known))
        if not isinstance(found, Mismatch):
            return
        argument = node.arguments[found.position]
        span = argument.span or node.span or self._rule.span
        if any(each.place == span for each in self._found.errors):
            return  # of the test before a call that may have no value
        type = partial_type(argument, self._known)
        self._conflict(
            f"`{node.function}` needs {found.wanted} here"
            + ("" if type is None else f", not {article(type)}"),
            argument.span or node.span or self._rule.span,
            self._origins(argument),
            _convert(argument, found.wanted),
        )

    def _origins(self, node: Expression) -> list[TypeOrigin]:
        if isinstance(node, Variable) and node.name in self._environment:
            return [self._environment[node.name]]
        return []

    def _conflict(
        self, message: str, span: Span | None, sides: list[TypeOrigin], help: str | None = None
    ) -> None:
        related = [RelatedSpan(s.where, s.span) for s in sides if s.span and s.span != span]
        self._found.add("C012", message, span, related=related, help=help)


_WIDEN = "a join compares exactly; make it a double first: `D = N * 1.0`"


_CONVERTING: Final = {"text": "to_string", "a number": "to_number", "numbers": "to_number"}
"""What is wanted somewhere, and the function that makes it of other values."""


def _convert(node: Expression, wanted: str) -> str | None:
    """Help for an argument of another type than its function takes."""
    function = _CONVERTING.get(wanted)
    if function is None or node.span is None:
        return None
    return f"convert it: `{function}({node.span.text})`"


def _capital(node: Expression) -> str | None:
    """Help for a text that was written without quotes: it may have been meant as a variable."""
    if not (isinstance(node, Constant) and isinstance(node.value, str) and node.span):
        return None
    word = node.value
    if node.span.text != word or not word.isidentifier():
        return None
    return f"`{word}` is a text; a variable begins with a capital: `{word.capitalize()}`"


def _declare(*types: Type) -> str | None:
    """What to do about types that are kept and compared, but not computed with or widened."""
    if any(type.is_decimal for type in types):
        return "decimals compute and compare with numbers; a join compares exactly"
    if {Type.DATE, Type.DATETIME} == set(types):
        return "declare the column of dates as datetime: its data may stay as it is"
    if Type.OBJECT in types and len(types) > 1:
        return "objects only meet objects: declare the other column as object too"
    if Type.OBJECT in types:
        return (
            "objects are compared by = and ~=, counted, and grouped by; for more, add a column "
            "with a number or a text for each"
        )
    return None
