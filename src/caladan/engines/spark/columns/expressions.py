"""Expressions and comparisons as columns of Spark.

Arithmetic is checked here, whatever the session's ANSI setting says: what overflows or divides by
zero raises an error that names the rule. Such an expression is made to look non-deterministic, so
that Spark neither evaluates it for rows that a later join or selection drops, nor moves it there.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
from pyspark.sql import functions as sf

from caladan.analysis.core import CoreRule
from caladan.analysis.type_check import constant_type
from caladan.data.schema import ARROW
from caladan.engines.spark.columns.physical import evaluation_type
from caladan.engines.spark.columns.types import inside, literal, zero_made_positive
from caladan.engines.spark.session.failures import (
    CALL_ENDS,
    called_in_vain,
    called_with,
    mark_failure,
)
from caladan.engines.spark.session.workers import with_own_python
from caladan.program import (
    Aggregate,
    Arithmetic,
    ArithmeticOperator,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Parameter,
    Type,
    Value,
    Variable,
)
from caladan.program.functions import (
    CallFailed,
    FunctionRow,
    Resolved,
    TooLarge,
    call_rows,
    find,
    outcomes,
    type_word,
)
from caladan.program.operations import Operation
from caladan.program.types import Kind, decimal, nested_union, wider

if TYPE_CHECKING:
    from pyspark.sql import Column

_LEAST: Final = -(2**63)
_ENDS: Final = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")


@dataclass(frozen=True, slots=True)
class ComputedColumn:
    """A column of Spark, the type it is evaluated in, and whether it may raise an error."""

    column: Column
    type: Type
    may_fail: bool = False

    def as_type(self, type: Type) -> ComputedColumn:
        """The same values in another type; integers become doubles."""
        wanted = evaluation_type(type)
        if wanted is self.type:
            return self
        return ComputedColumn(self.column.cast(inside(wanted)), wanted, self.may_fail)


@dataclass(frozen=True, slots=True)
class Expressions:
    """Translates what a rule computes; `bound` has the columns of its variables.

    A `solved` expression is not as the user wrote it (`Y = X - 1` for `X = Y + 1`): where it leaves
    64 bits there is no solution, and it is null there.
    """

    rule: CoreRule
    solved: bool = False

    def compute(
        self, expression: Expression, bound: Mapping[str, ComputedColumn]
    ) -> ComputedColumn:
        """An expression as a column."""
        match expression:
            case Variable():
                return bound[expression.name]
            case Constant():
                type = _type_of(expression.value)
                return ComputedColumn(literal(expression.value, type), type)
            case Negative():
                return self._negative(self.compute(expression.operand, bound))
            case Arithmetic():
                left = self.compute(expression.left, bound)
                right = self.compute(expression.right, bound)
                return self._arithmetic(expression.operator, left, right)
            case Conditional():
                return self._conditional(expression, bound)
            case Operation():
                return self._operation(
                    expression, [self.compute(each, bound) for each in expression.arguments]
                )
            case Function():
                return self._outcome(
                    expression, [self.compute(each, bound) for each in expression.arguments]
                )
            case Call():
                arguments = [self.compute(argument, bound) for argument in expression.arguments]
                return self._called(expression, arguments)
            case Parameter() | Aggregate():
                raise AssertionError(f"{expression} is no expression of a plan")

    def holds(self, comparison: Comparison, bound: Mapping[str, ComputedColumn]) -> ComputedColumn:
        """A comparison as a boolean column."""
        left, right = _alike(
            self.compute(comparison.left, bound), self.compute(comparison.right, bound)
        )
        one, other = left.column, right.column
        match comparison.operator:
            case "=":
                column = one == other
            case "~=":
                column = one != other
            case "<":
                column = one < other
            case "<=":
                column = one <= other
            case ">":
                column = one > other
            case ">=":
                column = one >= other
        return ComputedColumn(column, Type.BOOLEAN, left.may_fail or right.may_fail)

    def _operation(self, node: Operation, arguments: list[ComputedColumn]) -> ComputedColumn:
        """What a row of the table of operations says; null where an argument is."""
        row, pairs = node.row, zip(arguments, node.takes, strict=True)
        columns = [given.as_type(type).column for given, type in pairs]
        type = evaluation_type(node.returns)
        made = row.spark(sf, type, *columns).cast(inside(type))
        if type in (Type.DATE, Type.DATETIME):
            first, last = (sf.lit(each).cast(inside(type)) for each in _ENDS)
            made = sf.when((made >= first) & (made <= last), made)
        if type is Type.DOUBLE and not row.divides:
            return ComputedColumn(zero_made_positive(made), type, arguments[0].may_fail)
        failed = (
            sf.lit(None)
            if self.solved
            else raise_error_column(mark_failure("C041", self.rule.number, of=row.of))
        )
        is_missing = reduce(lambda a, b: a | b, (column.isNull() for column in columns))
        checked = sf.when(made.isNotNull() | is_missing, made)
        if row.divides:
            zero = sf.lit(0) if node.takes[1].kind is not Kind.INTERVAL else sf.lit(dt.timedelta(0))
            checked = sf.when(columns[1] == zero, self._raised("C040").cast(inside(type))).when(
                made.isNotNull() | is_missing, made
            )
        return ComputedColumn(checked.otherwise(failed.cast(inside(type))), type, may_fail=True)

    def _called(self, call: Call, arguments: list[ComputedColumn]) -> ComputedColumn:
        """A function of the table: as its row says it for Spark, else called by a Python worker.

        Where a row's column is null for arguments that are not, it failed: the error has the
        arguments, for which the driver finds out what is wrong.
        """
        row = find(call.function)
        word = type_word(row, call.arguments)
        literal = [isinstance(each, Constant) for each in call.arguments]
        found = row.resolve([each.type for each in arguments], literal, word)
        assert isinstance(found, Resolved), f"the analysis let {call} pass"
        type = evaluation_type(found.returns)
        given = [
            each if type is None else each.as_type(type)
            for each, type in zip(arguments, found.takes, strict=True)
        ]
        if row.spark is None:
            return self._by_workers(row, found, given)
        columns = [each.column for each in given]
        if isinstance(row.spark, str):
            made = sf.call_function(row.spark, *columns)
        else:
            given_as = [*columns[:-1], word, given[0].type] if row.takes_type else columns
            made = row.spark(sf, *given_as)
        made = made.cast(inside(type))
        may_fail = any(each.may_fail for each in given)
        if type is Type.DOUBLE:
            made, may_fail = self._kept_finite(made, given), True
        if not row.fails:
            return ComputedColumn(made, type, may_fail)
        said = sf.to_json(sf.array(*(_as_text(each) for each in given)))
        mark = sf.concat(sf.lit(called_with(self.rule, row.name)), said, sf.lit(CALL_ENDS))
        failure = raised_by(mark).cast(inside(type))
        missing = reduce(lambda a, b: a | b, (column.isNull() for column in columns), sf.lit(False))
        column = sf.when(made.isNotNull() | missing, made).otherwise(failure)
        return ComputedColumn(column, type, may_fail=True)

    def _kept_finite(self, made: Column, given: list[ComputedColumn]) -> Column:
        """A double, or an error where it is infinite and no argument is."""
        infinite = is_infinite(made)
        for each in given:
            if each.type is Type.DOUBLE:
                infinite = infinite & ~is_infinite(each.column)
        failure = raise_error_column(mark_failure("C041", self.rule.number, double=True)).cast(
            "double"
        )
        return sf.when(infinite, failure).otherwise(zero_made_positive(made))

    def _by_workers(
        self, row: FunctionRow, found: Resolved, arguments: list[ComputedColumn]
    ) -> ComputedColumn:
        """A function that Spark has not, or not with the same values."""
        number, type, name = self.rule.number, evaluation_type(found.returns), row.name

        def given(columns: Sequence[Sequence[Any]], count: int) -> list[Value]:
            try:
                return call_rows(find(name), found, columns, count)
            except CallFailed as failed:
                raise RuntimeError(called_in_vain(number, failed)) from None
            except ZeroDivisionError:
                raise RuntimeError(mark_failure("C040", number)) from None
            except OverflowError as problem:
                double = isinstance(problem, TooLarge)
                raise RuntimeError(mark_failure("C041", number, double=double)) from None

        return self._by_python(given, arguments, type)

    def _outcome(self, function: Function, arguments: list[ComputedColumn]) -> ComputedColumn:
        """What a Python function gives: a worker of Spark's calls it, batch by batch."""
        number, type = self.rule.number, evaluation_type(function.returns)

        def given(columns: Sequence[Sequence[Any]], count: int) -> list[Value]:
            try:
                return outcomes(function, columns, count)
            except CallFailed as failed:
                raise RuntimeError(called_in_vain(number, failed)) from None

        return self._by_python(given, arguments, type)

    def _by_python(
        self,
        given: Callable[[Sequence[Sequence[Any]], int], list[Value]],
        arguments: list[ComputedColumn],
        type: Type,
    ) -> ComputedColumn:
        def give(*row: Any) -> Value:
            return given([[value] for value in row], 1)[0]

        def give_all(*columns: pa.Array) -> pa.Array:  # which tells Spark that it takes columns
            made = given([column.to_pylist() for column in columns], len(columns[0]))
            return pa.array(made, ARROW[type])

        called: Any
        if arguments and hasattr(sf, "arrow_udf"):  # Spark 4.1
            called = cast("Any", sf).arrow_udf(give_all, inside(type))
        else:
            called = sf.udf(give, inside(type), useArrow=True)
        column = with_own_python(lambda: called(*(each.column for each in arguments)))
        return ComputedColumn(column, type, may_fail=True)

    def _conditional(
        self, expression: Conditional, bound: Mapping[str, ComputedColumn]
    ) -> ComputedColumn:
        conditions = [self.holds(comparison, bound) for comparison in expression.condition]
        then, otherwise = _alike(
            self.compute(expression.then, bound), self.compute(expression.otherwise, bound)
        )
        condition = reduce(lambda a, b: a & b, (c.column for c in conditions))
        may_fail = any(each.may_fail for each in (*conditions, then, otherwise))
        column = sf.when(condition, then.column).otherwise(otherwise.column)
        return ComputedColumn(column, then.type, may_fail)

    def _negative(self, operand: ComputedColumn) -> ComputedColumn:
        if operand.type is Type.DOUBLE:
            return ComputedColumn(
                zero_made_positive(-operand.column), Type.DOUBLE, operand.may_fail
            )
        return self._checked(sf.try_subtract(sf.lit(0).cast("long"), operand.column), "C041")

    def _arithmetic(
        self, operator: ArithmeticOperator, left: ComputedColumn, right: ComputedColumn
    ) -> ComputedColumn:
        if operator == "/":
            left, right = left.as_type(Type.DOUBLE), right.as_type(Type.DOUBLE)
        left, right = _alike(left, right)
        one, other = left.column, right.column
        if left.type is Type.DOUBLE and operator in ("+", "-", "*"):
            column = {"+": one + other, "-": one - other, "*": one * other}[operator]
            return self._finite(column, one, other)
        match operator:
            case "+":
                return self._checked(sf.try_add(one, other), "C041")
            case "-":
                return self._checked(sf.try_subtract(one, other), "C041")
            case "*":
                return self._checked(sf.try_multiply(one, other), "C041")
            case "/":
                divided = self._checked(sf.try_divide(one, other), "C040", Type.DOUBLE)
                return self._finite(divided.column, one, other)
            case "mod":
                return self._checked(sf.try_mod(one, other), "C040")
            case "div":
                # The least integer divided by -1 is the one quotient that does not fit.
                column = (
                    sf.when(other == 0, self._raised("C040"))
                    .when(
                        (other == -1) & (one == _LEAST),
                        None if self.solved else self._raised("C041"),
                    )
                    .otherwise(sf.call_function("div", one, other))
                )
                return ComputedColumn(column, Type.LONG, may_fail=True)

    def _checked(self, tried: Column, code: str, type: Type = Type.LONG) -> ComputedColumn:
        """What a `try_` function gives, or an error where it gives none."""
        if self.solved and code == "C041":
            return ComputedColumn(tried, type)
        return ComputedColumn(sf.coalesce(tried, self._raised(code)), type, may_fail=True)

    def _finite(self, result: Column, one: Column, other: Column) -> ComputedColumn:
        """A double, or an error where it is infinity and neither side is; null if `solved`."""
        made = is_infinite(result) & ~is_infinite(one) & ~is_infinite(other)
        failure = (
            sf.lit(None)
            if self.solved
            else raise_error_column(mark_failure("C041", self.rule.number, double=True))
        )
        column = sf.when(made, failure.cast("double")).otherwise(zero_made_positive(result))
        return ComputedColumn(column, Type.DOUBLE, may_fail=True)

    def _raised(self, code: str) -> Column:
        return raise_error_column(mark_failure(code, self.rule.number))


def is_infinite(column: Column) -> Column:
    """Whether a double is infinity, of either sign."""
    return sf.abs(column) == sf.lit(float("inf"))


def raise_error_column(text: str) -> Column:
    """A column that raises an error wherever it is evaluated.

    The random number makes it non-deterministic in Spark's eyes, so that it stays in its place.
    """
    return raised_by(sf.lit(text))


def raised_by(text: Column) -> Column:
    """As `raise_error_column`, with a text that depends on the row."""
    return sf.raise_error(sf.concat(text, sf.rand(0).cast("string")))


def _as_text(value: ComputedColumn) -> Column:
    """A value as text that the driver reads back."""
    if value.type is Type.BINARY:
        return sf.hex(value.column)
    return value.column.cast("string")


def _alike(left: ComputedColumn, right: ComputedColumn) -> tuple[ComputedColumn, ComputedColumn]:
    """Both sides in one type: an integer that meets a double becomes one, `[]` a list of longs."""
    if left.type == right.type:
        return left, right
    if left.type.is_nested and right.type.is_nested:  # bytes say by themselves what is in them
        either = nested_union(left.type, right.type) or left.type
        return replace(left, type=either), replace(right, type=either)
    if left.type.is_decimal and right.type.is_decimal:
        both = decimal(*wider(left.type.width, right.type.width))
        return left.as_type(both), right.as_type(both)
    return left.as_type(Type.DOUBLE), right.as_type(Type.DOUBLE)


def _type_of(value: Value) -> Type:
    match value:
        case bool():
            return Type.BOOLEAN
        case int():
            return Type.LONG
        case float():
            return Type.DOUBLE
        case _:
            return constant_type(value)
