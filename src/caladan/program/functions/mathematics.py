"""Functions of numbers. Whole numbers have 64 bits; what does not fit is an error (C041).

A double that becomes infinite where no argument is, as `exp(1000.0)`, is an error too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import partial
from typing import Any, Final

from caladan.program.functions.row import FunctionRow

_LEAST: Final = -(2**63)
_EXACTLY: Final = Context(prec=400, rounding=ROUND_HALF_UP)


def _is_array(value: Any) -> bool:
    return getattr(value, "ndim", 0) > 0


def _partial(function: Callable[..., float]) -> Callable[..., float]:
    """A function of Python's that gives NaN where it is not defined, as Java's do."""

    def evaluate(*values: float) -> float:
        if any(math.isnan(value) for value in values):
            return math.nan
        try:
            return function(*values)
        except ValueError:
            return math.nan

    return evaluate


def _numpy(name: str) -> Callable[..., Any]:
    def evaluate(np: Any, *values: Any) -> Any:
        with np.errstate(all="ignore"):
            return getattr(np, name)(*values)

    return evaluate


def _double(name: str, spark: str | None = None, **options: Any) -> FunctionRow:
    """A row of a function of Python's `math` that is defined everywhere, or gives NaN."""
    options.setdefault("duckdb", name)
    options.setdefault("grows", True)
    return _math(
        name=name, signature="(double) -> double", scalar=_partial(getattr(math, name)),
        spark=spark or name, **options,
    )  # fmt: skip


def _abs(np: Any, number: Any) -> Any:
    if number.dtype == np.int64 and np.any(number == _LEAST):
        return None
    return np.abs(number)


def _log(function: Callable[[float], float]) -> Callable[[float], float]:
    def evaluate(number: float) -> float:
        if number <= 0:
            raise ValueError(f"there is no logarithm of {number}")
        return function(number)

    return evaluate


def _numpy_log(name: str) -> Callable[..., Any]:
    def evaluate(np: Any, number: Any) -> Any:
        return None if np.any(number <= 0) else getattr(np, name)(number)

    return evaluate


def _pow(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.inf if base == 0 else math.nan
    except OverflowError:
        return math.inf


def _check_overflow(function: Callable[[float], float]) -> Callable[[float], float]:
    def evaluate(number: float) -> float:
        try:
            return function(number)
        except OverflowError:
            return math.inf

    return evaluate


def _whole(function: Callable[[float], int]) -> Callable[[Any], int]:
    def evaluate(number: float) -> int:
        if not math.isfinite(number):
            raise OverflowError(f"{number} is not an integer")
        return function(number)

    return evaluate


def _numpy_whole(name: str) -> Callable[..., Any]:
    def evaluate(np: Any, number: Any) -> Any:
        if number.dtype == np.int64:
            return number
        found = getattr(np, name)(number)
        fits = np.all((found >= -(2.0**63)) & (found < 2.0**63))
        return found.astype(np.int64) if fits else None

    return evaluate


def _spark_whole(name: str) -> Callable[..., Any]:
    def evaluate(sf: Any, number: Any) -> Any:
        found = getattr(sf, name)(number).cast("double")
        return sf.when((found >= -(2.0**63)) & (found < 2.0**63), found.cast("long"))

    return evaluate


def _round(number: Any, places: int = 0) -> Any:
    if isinstance(number, float):
        if not math.isfinite(number) or places > 330:
            return number
        return float(_round_decimal(Decimal(repr(number)), places))
    if isinstance(number, Decimal):
        return _round_decimal(number, places)
    return number if places >= 0 else int(_round_decimal(Decimal(number), places))


def _round_decimal(number: Decimal, places: int) -> Decimal:
    if places < -400:
        return Decimal(0)
    return number.quantize(Decimal(1).scaleb(-places), context=_EXACTLY)


def _numpy_round(np: Any, number: Any, places: Any = 0) -> Any:
    """Away from zero at a half; what is too near to one in binary is left to decimals."""
    if _is_array(places) or number.dtype != np.float64 or not 0 <= places <= 15:
        return None
    scaled = np.abs(number) * 10.0**places
    whole = np.floor(scaled)
    rest = scaled - whole
    near = np.abs(rest - 0.5) < 1e-6 if places else np.zeros(len(scaled), bool)
    if np.any(scaled >= 2.0**52) or np.count_nonzero(near) * 20 > len(near):
        return None
    found = np.copysign((whole + (rest >= 0.5)) / 10.0**places, number)
    for place in np.flatnonzero(near):
        found[place] = _round(float(number[place]), int(places))
    return np.where(np.isnan(number), np.nan, found)


def _greatest(*values: Any) -> Any:
    """NaN is greater than every number."""
    if any(isinstance(value, float) and math.isnan(value) for value in values):
        return math.nan
    return max(values)


def _least(*values: Any) -> Any:
    others = [v for v in values if not (isinstance(v, float) and math.isnan(v))]
    return min(others) if others else math.nan


def _numpy_greatest(np: Any, *values: Any) -> Any:
    found = values[0]
    for value in values[1:]:
        found = np.maximum(found, value)
    return found


def _numpy_least(np: Any, *values: Any) -> Any:
    found = values[0]
    for value in values[1:]:
        found = np.fmin(found, value)
    return found


def _clamp(value: Any, least: Any, most: Any) -> Any:
    if _least(least, most) != least:
        raise ValueError(f"the least value {least} is more than the most, {most}")
    return _least(_greatest(value, least), most)


def _numpy_clamp(np: Any, value: Any, least: Any, most: Any) -> Any:
    if np.any(least > most):
        return None
    return np.fmin(np.maximum(value, least), most)


def _pmod(number: Any, divisor: Any) -> Any:
    if divisor == 0:
        raise ZeroDivisionError
    rest = math.fmod(number, divisor) if isinstance(number, float) else _remainder(number, divisor)
    if rest >= 0:
        return rest
    rest += divisor
    return math.fmod(rest, divisor) if isinstance(rest, float) else _remainder(rest, divisor)


def _remainder(number: int, divisor: int) -> int:
    rest = abs(number) % abs(divisor)
    return rest if number >= 0 else -rest


def _numpy_pmod(np: Any, number: Any, divisor: Any) -> Any:
    if np.any(divisor == 0) or np.any(np.asarray(divisor) < 0) or number.dtype != np.int64:
        return None
    return np.mod(number, divisor)


def _shift_left(number: int, count: int) -> int:
    found = (number << (count & 63)) & 0xFFFFFFFFFFFFFFFF
    return found - (1 << 64) if found >> 63 else found


def _shift_right_unsigned(number: int, count: int) -> int:
    found = (number & 0xFFFFFFFFFFFFFFFF) >> (count & 63)
    return found - (1 << 64) if found >> 63 else found


def _factorial(number: int) -> int:
    if not 0 <= number <= 20:
        raise ValueError(f"the factorial of {number} is not a whole number of 64 bits")
    return math.factorial(number)


def _int32(sf: Any, column: Any) -> Any:
    return sf.call_function("pmod", column, sf.lit(64)).cast("int")


def _sign(value: Any) -> float:
    return value if value != value else float((value > 0) - (value < 0))


def _overflowing_odd(function: Callable[[float], float]) -> Callable[[float], float]:
    def evaluate(number: float) -> float:
        try:
            return function(number)
        except OverflowError:
            return math.copysign(math.inf, number)

    return evaluate


def _log1p(number: float) -> float:
    if number <= -1:
        raise ValueError(f"there is no logarithm of {number} + 1")
    return math.log1p(number)


def _spark_floor(sf: Any, number: Any) -> Any:
    """The floor of a double as a double; Spark's own goes through whole numbers of 64 bits."""
    return sf.when(sf.abs(number) < 2.0**53, sf.floor(number).cast("double")).otherwise(number)


def _numpy_gcd(np: Any, one: Any, other: Any) -> Any:
    return None if np.any(one == _LEAST) or np.any(other == _LEAST) else np.gcd(one, other)


_math = partial(FunctionRow, family="Math")
_NO_ARROW: Final = {"arrow": "NumPy has none; it is called once for each distinct value"}

_NUMBER: Final = "(long) -> long | (double) -> double | (decimal) -> decimal"

ROWS: Final = (
    _math(
        name="abs", signature=_NUMBER, summary="The absolute value.",
        example=("abs(-5)", 5), scalar=abs, numpy=_abs, fails=True,
        spark=lambda sf, n: sf.when(n != _LEAST, sf.abs(n)), duckdb="abs",
    ),
    _math(
        name="sign", aliases=("signum",), signature="(double) -> double",
        summary="1.0 for a positive number, -1.0 for a negative one, 0.0 for 0.",
        example=("sign(-2.5)", -1.0), scalar=_sign, numpy=_numpy("sign"), spark="sign",
        duckdb="CAST(sign({0}) AS DOUBLE)", moves="+",
    ),
    _math(
        name="round", signature="(long, long?) -> long | (double, long?) -> double",
        summary="Rounds to n places after the point, or before it if n is negative; a half goes "
        "away from zero.",
        example=("round(2.345, 2)", 2.35), scalar=_round, numpy=_numpy_round, fails=True,
        duckdb="round({0}, CAST({1} AS INTEGER))", moves="+?",
        lacks={"spark": "Spark needs a literal number of places",
               "duckdb": "it rounds the binary number, so 2.345 may become 2.34"},
    ),
    _math(
        name="floor", signature="(long) -> long | (double) -> long",
        summary="Rounds down to an integer.", example=("floor(-2.5)", -3),
        scalar=_whole(math.floor), numpy=_numpy_whole("floor"), spark=_spark_whole("floor"),
        duckdb="CAST(floor({0}) AS BIGINT)", fails=True, moves="+",
    ),
    _math(
        name="ceil", aliases=("ceiling",), signature="(long) -> long | (double) -> long",
        summary="Rounds up to an integer.", example=("ceil(2.1)", 3),
        scalar=_whole(math.ceil), numpy=_numpy_whole("ceil"), spark=_spark_whole("ceil"),
        duckdb="CAST(ceil({0}) AS BIGINT)", fails=True, moves="+",
    ),
    _math(
        name="truncate", signature="(double) -> double",
        summary="A number without its fraction.", example=("truncate(-2.7)", -2.0),
        scalar=lambda number: number if not math.isfinite(number) else float(math.trunc(number)),
        numpy=_numpy("trunc"), duckdb="trunc", moves="+",
        spark=lambda sf, n: sf.when(n >= 0, _spark_floor(sf, n)).otherwise(
            -_spark_floor(sf, -n)),
    ),
    _double("sqrt", summary="The square root; NaN for a negative number.",
            example=("sqrt(2.25)", 1.5), numpy=_numpy("sqrt"), moves="+",
            lacks={"duckdb": "of a number below 0 it is an error"}),
    _double("cbrt", summary="The cube root.", example=("cbrt(27.0)", 3.0),
            numpy=_numpy("cbrt"), moves="+"),
    _math(
        name="pow", aliases=("power",), signature="(double, double) -> double",
        summary="The first number to the power of the second.", example=("pow(2, 10)", 1024.0),
        scalar=_partial(_pow), numpy=_numpy("power"), spark="pow", duckdb="pow", grows=True,
    ),
    _math(
        name="exp", signature="(double) -> double", summary="e to the power of a number.",
        example=("exp(0)", 1.0), scalar=_check_overflow(math.exp), numpy=_numpy("exp"), spark="exp",
        duckdb="exp", grows=True, moves="+",
    ),
    _math(
        name="ln", grows=True, signature="(double) -> double", sql=("log",),
        summary="The natural logarithm; an error for 0 and below.", example=("ln(1)", 0.0),
        scalar=_log(math.log), numpy=_numpy_log("log"), spark="ln", duckdb="ln", fails=True,
        moves="+",
    ),
    _math(
        name="log10", grows=True, signature="(double) -> double",
        summary="The logarithm to base 10; an error for 0 and below.", example=("log10(1000)", 3.0),
        scalar=_log(math.log10), numpy=_numpy_log("log10"), spark="log10", duckdb="log10",
        fails=True, moves="+",
    ),
    _math(
        name="log2", grows=True, signature="(double) -> double",
        summary="The logarithm to base 2; an error for 0 and below.", example=("log2(8)", 3.0),
        scalar=_log(math.log2), numpy=_numpy_log("log2"), spark="log2", duckdb="log2",
        fails=True, moves="+",
    ),
    _double("sin", summary="The sine of an angle in radians.", example=("sin(0)", 0.0),
            numpy=_numpy("sin")),
    _double("cos", summary="The cosine of an angle in radians.", example=("cos(0)", 1.0),
            numpy=_numpy("cos")),
    _double("tan", summary="The tangent of an angle in radians.", example=("tan(0)", 0.0),
            numpy=_numpy("tan")),
    _double("asin", summary="The arc sine; NaN outside -1 to 1.", example=("asin(0)", 0.0),
            numpy=_numpy("arcsin"), moves="+",
            lacks={"duckdb": "of what is no sine it is an error"}),
    _double("acos", summary="The arc cosine; NaN outside -1 to 1.",
            example=("acos(1)", 0.0), numpy=_numpy("arccos"), moves="-",
            lacks={"duckdb": "of what is no cosine it is an error"}),
    _double("atan", summary="The arc tangent.", example=("atan(0)", 0.0),
            numpy=_numpy("arctan"), moves="+"),
    _math(
        name="atan2", grows=True, signature="(double, double) -> double",
        summary="The angle of the point with coordinates Y and X.",
        example=("atan2(0, 1)", 0.0), scalar=_partial(math.atan2), numpy=_numpy("arctan2"),
        spark="atan2", duckdb="atan2",
    ),
    _math(
        name="sinh", signature="(double) -> double", summary="The hyperbolic sine.",
        example=("sinh(0)", 0.0), scalar=_overflowing_odd(math.sinh), numpy=_numpy("sinh"),
        spark="sinh", duckdb="sinh", moves="+", grows=True,
    ),
    _math(
        name="cosh", signature="(double) -> double", summary="The hyperbolic cosine.",
        example=("cosh(0)", 1.0), scalar=_check_overflow(math.cosh), numpy=_numpy("cosh"),
        spark="cosh", duckdb="cosh", grows=True,
    ),
    _double("tanh", summary="The hyperbolic tangent.", example=("tanh(0)", 0.0),
            numpy=_numpy("tanh"), moves="+"),
    _double("degrees", summary="Converts radians to degrees.", example=("degrees(pi())", 180.0),
            numpy=_numpy("degrees"), moves="+"),
    _double("radians", summary="Converts degrees to radians.", example=("radians(180)", math.pi),
            numpy=_numpy("radians"), moves="+"),
    _math(
        name="expm1", signature="(double) -> double",
        summary="e to the power of a number, minus 1: exact for numbers near 0.",
        example=("expm1(0)", 0.0), scalar=_check_overflow(math.expm1), numpy=_numpy("expm1"),
        spark="expm1", duckdb="exp({0}) - 1", grows=True, moves="+",
    ),
    _math(
        name="log1p", signature="(double) -> double",
        summary="The natural logarithm of a number plus 1; an error for -1 and below.",
        example=("log1p(0)", 0.0), scalar=_log1p,
        numpy=lambda np, x: None if np.any(x <= -1) else np.log1p(x),
        spark="log1p", duckdb="ln({0} + 1)", grows=True, fails=True,
        moves="+",
    ),
    _math(
        name="cot", signature="(double) -> double", summary="The cotangent of an angle in radians.",
        example=("cot(radians(45))", 1.0000000000000002),
        scalar=lambda angle: math.nan if not math.isfinite(angle) else math.inf if angle == 0
        else 1 / math.tan(angle), spark="cot", duckdb="cot", grows=True, lacks=_NO_ARROW,
    ),
    _double("asinh", summary="The inverse hyperbolic sine.", example=("asinh(0)", 0.0),
            numpy=_numpy("arcsinh"), moves="+"),
    _double("acosh", summary="The inverse hyperbolic cosine; NaN below 1.",
            example=("acosh(1)", 0.0), numpy=_numpy("arccosh"), moves="+"),
    _math(
        name="atanh", signature="(double) -> double", grows=True, moves="+",
        summary="The inverse hyperbolic tangent; NaN outside -1 to 1.",
        example=("atanh(0)", 0.0), scalar=lambda number: math.copysign(math.inf, number)
        if abs(number) == 1 else _partial(math.atanh)(number), numpy=_numpy("arctanh"),
        spark="atanh", duckdb="atanh", lacks={"duckdb": "of what is none it is an error"},
    ),
    _math(
        name="rint", signature="(double) -> double", moves="+",
        summary="Rounds to the nearest integer, as a double; a half goes to the even one.",
        example=("rint(2.5)", 2.0), scalar=lambda number: float(round(number))
        if math.isfinite(number) else number, numpy=_numpy("rint"), spark="rint",
        duckdb="round_even({0}, 0)",
    ),
    _math(
        name="pi", signature="() -> double", summary="The number pi.", example=("pi()", math.pi),
        scalar=lambda: math.pi, spark="pi", duckdb="pi()", lacks=_NO_ARROW,
    ),
    _math(
        name="hypot", signature="(double, double) -> double",
        summary="The length of the hypotenuse.", example=("hypot(3, 4)", 5.0),
        scalar=math.hypot, numpy=_numpy("hypot"), spark="hypot",
        duckdb="sqrt({0} * {0} + {1} * {1})", grows=True,
    ),
    _math(
        name="greatest", signature="(T, T...) -> T",
        summary="The greatest of several values; NaN is greater than every number.",
        example=("greatest(3, 7, 5)", 7), scalar=_greatest, numpy=_numpy_greatest,
        spark="greatest", duckdb="greatest", moves="+", picks=1,
    ),
    _math(
        name="least", signature="(T, T...) -> T", summary="The least of several values.",
        example=("least(3, 7, 5)", 3), scalar=_least, numpy=_numpy_least, spark="least",
        duckdb="least", moves="+", picks=-1,
    ),
    _math(
        name="clamp", signature="(T, T, T) -> T",
        summary="A value limited to the range from the second to the third.",
        example=("clamp(12, 0, 10)", 10), scalar=_clamp, numpy=_numpy_clamp, fails=True,
        spark=lambda sf, v, least, most: sf.when(
            least <= most, sf.least(sf.greatest(v, least), most)),
        duckdb="least(greatest({0}, {1}), {2})", moves="+",
    ),
    _math(
        name="gcd", signature="(long, long) -> long",
        summary="The greatest common divisor.", example=("gcd(12, 18)", 6),
        scalar=math.gcd, numpy=_numpy_gcd, duckdb="gcd", fails=True,
        lacks={"spark": "it has none"},
    ),
    _math(
        name="lcm", signature="(long, long) -> long",
        summary="The least common multiple.", example=("lcm(4, 6)", 12),
        scalar=math.lcm, duckdb="lcm", fails=True, grows=True,
        lacks={**_NO_ARROW, "spark": "it has none"},
    ),
    _math(
        name="factorial", signature="(long) -> long",
        summary="The factorial of a number up to 20.",
        example=("factorial(5)", 120), scalar=_factorial, fails=True, grows=True, moves="+",
        spark=lambda sf, n: sf.when((n >= 0) & (n <= 20), sf.factorial(n.cast("int"))),
        duckdb="CAST(factorial(CAST({0} AS INTEGER)) AS BIGINT)", lacks=_NO_ARROW,
    ),
    _math(
        name="pmod", signature="(long, long) -> long | (double, double) -> double",
        summary="The remainder of a division, non-negative for a positive divisor.",
        example=("pmod(-7, 3)", 2), scalar=_pmod, numpy=_numpy_pmod, fails=True,
        spark=lambda sf, n, d: sf.when(d != 0, sf.pmod(n, d)),
        duckdb="((({0}) % ({1})) + ({1})) % ({1})",
    ),
    _math(
        name="band", signature="(long, long) -> long",
        summary="Bitwise and.", example=("band(12, 10)", 8),
        scalar=lambda a, b: a & b, numpy=lambda _np, a, b: a & b,
        spark=lambda _sf, a, b: a.bitwiseAND(b), duckdb="({0}) & ({1})",
    ),
    _math(
        name="bor", signature="(long, long) -> long",
        summary="Bitwise or.", example=("bor(12, 10)", 14),
        scalar=lambda a, b: a | b, numpy=lambda _np, a, b: a | b,
        spark=lambda _sf, a, b: a.bitwiseOR(b), duckdb="({0}) | ({1})",
    ),
    _math(
        name="bxor", signature="(long, long) -> long",
        summary="Bitwise exclusive or.", example=("bxor(12, 10)", 6),
        scalar=lambda a, b: a ^ b, numpy=lambda _np, a, b: a ^ b,
        spark=lambda _sf, a, b: a.bitwiseXOR(b), duckdb="xor({0}, {1})",
    ),
    _math(
        name="bnot", signature="(long) -> long", summary="All 64 bits inverted.",
        example=("bnot(5)", -6), scalar=lambda a: ~a, numpy=lambda _np, a: ~a,
        spark=lambda sf, a: sf.bitwise_not(a), duckdb="~({0})", inverse={0: "bnot"}, moves="-",
    ),
    _math(
        name="shiftleft", aliases=("bshl",), signature="(long, long) -> long",
        summary="The 64 bits of a number moved to the left; of the count, the last six bits count.",
        example=("shiftleft(3, 2)", 12), scalar=_shift_left,
        numpy=lambda np, a, n: np.left_shift(a, n & 63), grows=True,
        spark=lambda sf, a, n: sf.call_function("shiftleft", a, _int32(sf, n)),
        duckdb="({0}) << ({1})", lacks={"duckdb": "it is an error if bits get lost"},
    ),
    _math(
        name="shiftright", aliases=("bshr",), signature="(long, long) -> long",
        summary="The 64 bits of a number moved to the right; the sign stays.",
        example=("shiftright(-12, 2)", -3), scalar=lambda a, n: a >> (n & 63),
        numpy=lambda np, a, n: np.right_shift(a, n & 63), moves="+?",
        spark=lambda sf, a, n: sf.call_function("shiftright", a, _int32(sf, n)),
        duckdb="({0}) >> ({1})",
    ),
    _math(
        name="shiftrightunsigned", aliases=("bshru",), signature="(long, long) -> long",
        summary="The 64 bits of a number moved to the right; zeros come in.",
        example=("shiftrightunsigned(-1, 60)", 15), scalar=_shift_right_unsigned,
        numpy=lambda np, a, n: (a.view(np.uint64) >> np.asarray(n & 63).astype(np.uint64)).view(
            np.int64) if _is_array(a) else None,
        spark=lambda sf, a, n: sf.call_function("shiftrightunsigned", a, _int32(sf, n)),
        lacks={"duckdb": "it has none"},
    ),
    _math(
        name="bit_count", signature="(long) -> long", summary="The number of bits that are 1.",
        example=("bit_count(7)", 3), scalar=lambda a: (a & 0xFFFFFFFFFFFFFFFF).bit_count(),
        spark="bit_count", duckdb="CAST(bit_count({0}) AS BIGINT)", lacks=_NO_ARROW,
    ),
    _math(
        name="is_nan", sql=("isnan",), signature="(double) -> boolean",
        summary="True if a number is NaN.", example=("is_nan(sqrt(-1))", True),
        scalar=math.isnan, numpy=_numpy("isnan"), spark="isnan", duckdb="isnan",
    ),
)  # fmt: skip
