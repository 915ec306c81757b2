"""The table of operations: what `+`, `-`, `*`, `/`, `div` and `mod` do with decimals and times.

Plain numbers are computed by every engine on its own. Values of other types have rows here: an
operator, the kinds it stands between, the type it gives, its value in Python, over whole columns,
and in Spark. Once types are known, the analysis puts an `Operation` in the place of the arithmetic;
no engine knows more of it than its row.

    find("+", decimal(10, 2), Type.LONG)   the row, and the types it takes and gives
    operation(node, takes, returns)        the node for it

Decimals follow Spark's rules for digits, and are rounded half up to what these leave after the
point. A result with more digits is `OutOfRange`, never something else.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import reduce
from typing import Any, Final, TypeAlias, cast

from caladan.program.program import (
    Arithmetic,
    ArithmeticOperator,
    Expression,
    Function,
    Negative,
)
from caladan.program.types import MOST_DIGITS, Kind, Type, Width, decimal, fit_width

_EXACT: Final = Context(prec=4 * MOST_DIGITS, rounding=ROUND_HALF_UP)
_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 20}  # by bits, as Spark counts them
_LEAST_QUOTIENT: Final = 6  # digits after the point of a quotient
_QUOTIENT: Final = MOST_DIGITS + 1  # digits after the point at which Spark rounds a quotient first


class OutOfRange(OverflowError):
    """A value that its type does not hold; `of` says which diagnostic is to be given."""

    def __init__(self, of: str) -> None:
        super().__init__(of)
        self.of = of


Scalar: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class OperationRow:
    """An operator between values of some kinds.

    `gives` has the type of the result for the types of the arguments. `python` takes the type of
    the result and the arguments. `spark` takes pyspark's functions, the type of the result and
    columns; where there is no result the column is null. `rises` says for each argument whether the
    result rises (+), falls (-) or neither (empty) with it. `ranks` computes the
    result of whole columns from ranks: days, or microseconds.
    """

    name: str
    operator: str
    kinds: tuple[Kind, ...]
    gives: Callable[..., Type]
    python: Scalar
    spark: Callable[..., Any]
    rises: tuple[str, ...] = ("", "")
    divides: bool = False
    of: str = "decimal"
    ranks: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True)
class Operation(Function):
    """`A + B` for values that are no plain numbers, by a row of the table of operations."""

    takes: tuple[Type, ...] = field(default=(), compare=False)

    @property
    def row(self) -> OperationRow:
        """Its row in the table."""
        return ROWS[self.function]

    @property
    def written(self) -> Expression:
        """The expression as a user writes it."""
        match self.row.operator, self.arguments:
            case "cast", (operand,):
                return operand
            case "-", (operand,):
                return Negative(operand, self.span)
            case operator, (left, right):
                return Arithmetic(cast("ArithmeticOperator", operator), left, right, self.span)
            case _:
                raise AssertionError(self)


def find(operator: str, *types: Type) -> tuple[OperationRow, Type] | None:
    """The row of an operator between values of these types, and the type that it gives.

    >>> found = find("*", decimal(10, 2), Type.INTEGER)
    >>> found[0].name, found[1]
    ('decimal *', <decimal(21,2)>)
    """
    for row in ROWS.values():
        if row.operator == operator and len(row.kinds) == len(types):
            pairs = zip(row.kinds, types, strict=True)
            if all(kind is type.kind or _widens(type, kind) for kind, type in pairs) and any(
                not type.is_numeric for type in types
            ):
                return row, row.gives(*types)
    return None


def operation(
    node: Arithmetic | Negative, row: OperationRow, arguments: Sequence[Expression],
    takes: Sequence[Type], returns: Type,
) -> Operation:  # fmt: skip
    """The node that stands for some arithmetic, once the types are known."""
    return Operation(
        row.name, tuple(arguments), node.span, code=OperationValue(row.name, returns),
        returns=returns, takes=tuple(takes),
    )  # fmt: skip


def convert(node: Expression, own: Type, wanted: Type) -> Expression:
    """A value as one of another type, where numbers of several kinds meet, or dates and moments.

    What engines widen on their own is left as it is.
    """
    if wanted.is_decimal and own.is_integral:
        row, returns = ROWS["to decimal"], wanted
    elif wanted.is_floating and own.is_decimal:
        row, returns = ROWS["to double"], Type.DOUBLE
    elif wanted is Type.DATETIME and own is Type.DATE:
        row, returns = ROWS["to datetime"], wanted
    else:
        return node
    code = OperationValue(row.name, returns)
    return Operation(row.name, (node,), node.span, code=code, returns=returns, takes=(own,))


def outcomes(operation: Operation, columns: Sequence[Sequence[Any]]) -> list[Any]:
    """What an operation gives in each row; ZeroDivisionError, or OutOfRange."""
    return list(map(operation.code, *columns))


@dataclass(frozen=True, slots=True)
class OperationValue:
    """The value of an operation, from Python values; ZeroDivisionError, or OutOfRange."""

    name: str
    returns: Type

    def __call__(self, *values: Any) -> Any:
        return ROWS[self.name].python(self.returns, *values)


def _widens(type: Type, kind: Kind) -> bool:
    """True if values of a type are taken where a kind is wanted: integers among decimals."""
    return kind is Kind.DECIMAL and type.is_integral


# ── Decimals ─────────────────────────────────────────────────────────────────────────────────────


def digits_of(type: Type) -> Width:
    """The width of a number: of an integer, as Spark counts its digits.

    >>> digits_of(Type.LONG), digits_of(decimal(10, 2))
    ((20, 0), (10, 2))
    """
    return (_INTEGER_DIGITS[type.order], 0) if type.is_integral else type.width


def _sum(one: Type, other: Type) -> Type:
    (p, s), (q, t) = digits_of(one), digits_of(other)
    scale = max(s, t)
    return decimal(*fit_width(max(p - s, q - t) + scale + 1, scale))


def _product(one: Type, other: Type) -> Type:
    (p, s), (q, t) = digits_of(one), digits_of(other)
    return decimal(*fit_width(p + q + 1, s + t))


def _quotient(one: Type, other: Type) -> Type:
    (p, s), (q, t) = digits_of(one), digits_of(other)
    scale = max(_LEAST_QUOTIENT, s + q + 1)
    return decimal(*fit_width(p - s + t + scale, scale))


def _remainder(one: Type, other: Type) -> Type:
    (p, s), (q, t) = digits_of(one), digits_of(other)
    scale = max(s, t)
    return decimal(*fit_width(min(p - s, q - t) + scale, scale))


def sum_type(type: Type) -> Type:
    """The type of a sum of decimals: ten digits more, as in Spark.

    >>> sum_type(decimal(10, 2)), sum_type(decimal(38, 18))
    (<decimal(20,2)>, <decimal>)
    """
    digits, scale = type.width
    return decimal(min(digits + 10, MOST_DIGITS), scale)


def mean_type(type: Type) -> Type:
    """The type of a mean of decimals: four digits more, all after the point, as in Spark.

    >>> mean_type(decimal(10, 2)), mean_type(decimal(38, 18))
    (<decimal(14,6)>, <decimal(38,22)>)
    """
    digits, scale = type.width
    return decimal(min(digits + 4, MOST_DIGITS), min(scale + 4, MOST_DIGITS))


def total_type(mean: Type) -> Type:
    """The type of the total behind a mean, from the type of the mean."""
    digits, scale = mean.width
    all_digits = MOST_DIGITS if digits == MOST_DIGITS else min(digits + 6, MOST_DIGITS)
    return decimal(all_digits, scale if scale == MOST_DIGITS else max(scale - 4, 0))


def add_up(numbers: Iterable[Any]) -> Decimal:
    """The sum of decimals, with all their digits."""
    return reduce(lambda a, b: _EXACT.add(a, Decimal(b)), numbers, Decimal(0))


def mean(total: Decimal, count: int, type: Type) -> Decimal:
    """The mean of `count` decimals that add up to `total`, as a type holds it.

    OutOfRange if the total has more than 38 digits.

    >>> mean(Decimal("1.00"), 3, mean_type(decimal(3, 2)))
    Decimal('0.333333')
    """
    summed = total_type(type)
    return round_decimal(
        _divide(_quotient(summed, Type.LONG), round_decimal(total, summed), count), type
    )


def round_decimal(number: Decimal, type: Type) -> Decimal:
    """A number with the digits after the point that its type has; OutOfRange if there are too many.

    >>> rounded(Decimal("1.235"), decimal(10, 2))
    Decimal('1.24')
    """
    digits, scale = type.width
    if number and number.adjusted() >= MOST_DIGITS:
        raise OutOfRange("decimal")
    made = number.quantize(Decimal(1).scaleb(-scale), context=_EXACT)
    if made and made.adjusted() >= digits - scale:
        raise OutOfRange("decimal")
    return made if made else abs(made)  # -0 is 0


def _divide(type: Type, one: Any, other: Any) -> Decimal:
    if not other:
        raise ZeroDivisionError
    unit = Decimal(1).scaleb(-_QUOTIENT)
    quotient = _EXACT.divide(Decimal(one), Decimal(other)).quantize(unit, context=_EXACT)
    return round_decimal(quotient, type)


def _whole(_: Type, one: Any, other: Any) -> int:
    if not other:
        raise ZeroDivisionError
    quotient = int(_EXACT.divide_int(Decimal(one), Decimal(other)))
    if not -(2**63) <= quotient < 2**63:
        raise OutOfRange("long")
    return quotient


def _rest(type: Type, one: Any, other: Any) -> Decimal:
    if not other:
        raise ZeroDivisionError
    return round_decimal(_EXACT.remainder(Decimal(one), Decimal(other)), type)


_TWO: Final = (Kind.DECIMAL, Kind.DECIMAL)


# ── Times ────────────────────────────────────────────────────────────────────────────────────────

TIMES: Final = (Kind.DATE, Kind.DATETIME, Kind.INTERVAL)
DAY: Final = 86_400_000_000  # microseconds
_BOUNDS: Final[dict[Type, tuple[int, int]]] = {
    Type.DATE: (-719_162, 2_932_896),
    Type.DATETIME: (-719_162 * DAY, 2_932_897 * DAY - 1),
    Type.INTERVAL: (-999_999_999 * DAY, 999_999_999 * DAY),
    Type.LONG: (-(2**63), 2**63 - 1),
}
"""The ranks that values of a type may have: days, or microseconds."""


def bounds(type: Type) -> tuple[int, int]:
    """The least and the greatest rank of a type of times."""
    return _BOUNDS[type]


def _moment(value: dt.date) -> dt.datetime:
    if isinstance(value, dt.datetime):
        return value
    return dt.datetime(value.year, value.month, value.day)


def _in_time(compute: Callable[..., Any]) -> Scalar:
    """Python's arithmetic of times, whose failures are ours."""

    def computed(type: Type, *values: Any) -> Any:
        try:
            return compute(*values)
        except OverflowError:
            raise OutOfRange("interval" if type is Type.INTERVAL else "datetime") from None

    return computed


def _time(
    operator: str, kinds: tuple[Kind, ...], gives: Type, python: Callable[..., Any],
    spark: Callable[..., Any], ranks: Callable[..., Any] | None, rises: tuple[str, ...],
) -> OperationRow:  # fmt: skip
    name = f"{kinds[0].value} {operator} {' '.join(kind.value for kind in kinds[1:])}".strip()
    of = "interval" if gives is Type.INTERVAL else "datetime"
    return OperationRow(
        name, operator, kinds, lambda *_: gives, _in_time(python), spark, rises, of=of, ranks=ranks
    )


def _ntz(column: Any) -> Any:
    return column.cast("timestamp_ntz")


def _micros(sf: Any, column: Any) -> Any:
    return sf.unix_micros(sf.lit(0).cast("timestamp") + column)


_D, _T, _I, _N = Kind.DATE, Kind.DATETIME, Kind.INTERVAL, Kind.INTEGER
_TIME_ROWS: Final = (
    _time("-", (_D, _D), Type.LONG, lambda a, b: (a - b).days,
          lambda sf, _, a, b: sf.datediff(a, b), lambda a, b: a - b, ("+", "-")),
    _time("+", (_D, _N), Type.DATE, lambda a, b: a + dt.timedelta(b),
          lambda sf, _, a, b: sf.when(sf.abs(b) < 4_000_000, sf.date_add(a, b.cast("int"))),
          lambda a, b: a + b, ("+", "+")),
    _time("+", (_N, _D), Type.DATE, lambda a, b: b + dt.timedelta(a),
          lambda sf, _, a, b: sf.when(sf.abs(a) < 4_000_000, sf.date_add(b, a.cast("int"))),
          lambda a, b: a + b, ("+", "+")),
    _time("-", (_D, _N), Type.DATE, lambda a, b: a - dt.timedelta(b),
          lambda sf, _, a, b: sf.when(sf.abs(b) < 4_000_000, sf.date_sub(a, b.cast("int"))),
          lambda a, b: a - b, ("+", "-")),
    _time("+", (_D, _I), Type.DATETIME, lambda a, b: _moment(a) + b,
          lambda sf, _, a, b: sf.try_add(_ntz(a), b), lambda a, b: a * DAY + b, ("+", "+")),
    _time("-", (_D, _I), Type.DATETIME, lambda a, b: _moment(a) - b,
          lambda sf, _, a, b: sf.try_subtract(_ntz(a), b), lambda a, b: a * DAY - b, ("+", "-")),
    _time("+", (_T, _I), Type.DATETIME, lambda a, b: a + b,
          lambda sf, _, a, b: sf.try_add(a, b), lambda a, b: a + b, ("+", "+")),
    _time("+", (_I, _T), Type.DATETIME, lambda a, b: b + a,
          lambda sf, _, a, b: sf.try_add(b, a), lambda a, b: a + b, ("+", "+")),
    _time("-", (_T, _I), Type.DATETIME, lambda a, b: a - b,
          lambda sf, _, a, b: sf.try_subtract(a, b), lambda a, b: a - b, ("+", "-")),
    _time("-", (_T, _T), Type.INTERVAL, lambda a, b: a - b,
          lambda _, __, a, b: a - b, lambda a, b: a - b, ("+", "-")),
    _time("-", (_T, _D), Type.INTERVAL, lambda a, b: a - _moment(b),
          lambda _, __, a, b: a - _ntz(b), lambda a, b: a - b * DAY, ("+", "-")),
    _time("-", (_D, _T), Type.INTERVAL, lambda a, b: _moment(a) - b,
          lambda _, __, a, b: _ntz(a) - b, lambda a, b: a * DAY - b, ("+", "-")),
    _time("+", (_I, _I), Type.INTERVAL, lambda a, b: a + b,
          lambda sf, _, a, b: sf.try_add(a, b), lambda a, b: a + b, ("+", "+")),
    _time("-", (_I, _I), Type.INTERVAL, lambda a, b: a - b,
          lambda sf, _, a, b: sf.try_subtract(a, b), lambda a, b: a - b, ("+", "-")),
    _time("*", (_I, _N), Type.INTERVAL, lambda a, b: a * b,
          lambda sf, _, a, b: sf.try_multiply(a, b), lambda a, b: a * b, ("", "")),
    _time("*", (_N, _I), Type.INTERVAL, lambda a, b: b * a,
          lambda sf, _, a, b: sf.try_multiply(b, a), lambda a, b: a * b, ("", "")),
    _time("-", (_I,), Type.INTERVAL, lambda a: -a,
          lambda sf, _, a: sf.negative(a), lambda a: -a, ("-",)),
    OperationRow(
        "interval / interval", "/", (_I, _I), lambda *_: Type.DOUBLE, lambda _, a, b: a / b,
        lambda sf, _, a, b: sf.try_divide(
            _micros(sf, a).cast("double"), _micros(sf, b).cast("double")
        ),
        divides=True,
    ),
)  # fmt: skip

ROWS: Final[dict[str, OperationRow]] = {
    row.name: row
    for row in (
        *_TIME_ROWS,
        OperationRow(
            "decimal +", "+", _TWO, _sum,
            lambda type, a, b: round_decimal(_EXACT.add(Decimal(a), Decimal(b)), type),
            lambda sf, _, a, b: sf.try_add(a, b), ("+", "+"),
        ),
        OperationRow(
            "decimal -", "-", _TWO, _sum,
            lambda type, a, b: round_decimal(_EXACT.subtract(Decimal(a), Decimal(b)), type),
            lambda sf, _, a, b: sf.try_subtract(a, b), ("+", "-"),
        ),
        OperationRow(
            "decimal *", "*", _TWO, _product,
            lambda type, a, b: round_decimal(_EXACT.multiply(Decimal(a), Decimal(b)), type),
            lambda sf, _, a, b: sf.try_multiply(a, b),
        ),
        OperationRow(
            "decimal /", "/", _TWO, _quotient, _divide,
            lambda sf, _, a, b: sf.try_divide(a, b), divides=True,
        ),
        OperationRow(
            "decimal mod", "mod", _TWO, _remainder, _rest,
            lambda sf, _, a, b: sf.try_mod(a, b), divides=True,
        ),
        OperationRow(
            "decimal div", "div", _TWO, lambda *_: Type.LONG, _whole,
            lambda sf, _, a, b: sf.when(
                sf.abs(sf.try_divide(a.cast("double"), b.cast("double"))) < sf.lit(float(2**63)),
                sf.call_function("div", a, b),
            ),
            divides=True, of="long",
        ),
        OperationRow(
            "decimal negative", "-", (Kind.DECIMAL,), lambda type: type,
            lambda type, a: round_decimal(-a, type), lambda sf, _, a: sf.negative(a), ("-",),
        ),
        OperationRow(
            "to decimal", "cast", (Kind.INTEGER,), lambda type: decimal(*digits_of(type)),
            lambda type, a: round_decimal(Decimal(a), type),
            lambda _, type, a: a.try_cast(type.spark), ("+",),
        ),
        OperationRow(
            "to datetime", "cast", (Kind.DATE,), lambda _: Type.DATETIME, lambda _, a: _moment(a),
            lambda _, __, a: _ntz(a), ("+",), ranks=lambda a: a * DAY,
        ),
        OperationRow(
            "to double", "cast", (Kind.DECIMAL,), lambda _: Type.DOUBLE,
            lambda _, a: float(a), lambda _, __, a: a.cast("double"), ("+",),
        ),
    )
}  # fmt: skip
