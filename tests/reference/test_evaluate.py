"""Expressions of the reference engine: arithmetic, comparisons, solving."""

import math

import pytest
from hypothesis import given, strategies as st

from caladan.engines.reference.body import (
    LONG_MAX,
    LONG_MIN,
    NAN,
    can_solve,
    canonical,
    evaluate,
    holds,
    less,
    same,
    solve,
)
from caladan.program import (
    Arithmetic,
    ArithmeticOperator,
    Comparison,
    ComparisonOperator,
    Conditional,
    Constant,
    Negative,
    Value,
    Variable,
)

X = Variable("X")
longs = st.integers(LONG_MIN, LONG_MAX)
small = st.integers(-100, 100)
doubles = st.floats()


def compute(operator: ArithmeticOperator, left: Value, right: Value) -> Value:
    return evaluate(Arithmetic(operator, Constant(left), Constant(right)), {})


def compare(operator: ComparisonOperator, left: Value, right: Value) -> bool:
    return holds(Comparison(operator, Constant(left), Constant(right)), {})


@pytest.mark.parametrize(
    ("left", "right", "quotient", "remainder"),
    [(7, 2, 3, 1), (-7, 2, -3, -1), (7, -2, -3, 1), (-7, -2, 3, -1), (6, 3, 2, 0), (0, 5, 0, 0)],
)
def test_div_and_mod_round_toward_zero(
    left: int, right: int, quotient: int, remainder: int
) -> None:
    assert compute("div", left, right) == quotient
    assert compute("mod", left, right) == remainder


@given(longs, longs.filter(bool))
def test_div_and_mod_belong_together(left: int, right: int) -> None:
    if (left, right) == (LONG_MIN, -1):
        with pytest.raises(OverflowError):
            compute("div", left, right)
        return
    quotient, remainder = compute("div", left, right), compute("mod", left, right)
    assert isinstance(quotient, int)
    assert isinstance(remainder, int)
    assert quotient * right + remainder == left
    assert abs(remainder) < abs(right)
    assert remainder == 0 or (remainder < 0) == (left < 0)


@pytest.mark.parametrize("operator", ["/", "div", "mod"])
@pytest.mark.parametrize("zero", [0, 0.0])
def test_division_by_zero(operator: ArithmeticOperator, zero: float) -> None:
    with pytest.raises(ZeroDivisionError):
        compute(operator, 1, zero)


@pytest.mark.parametrize(
    ("operator", "left", "right"),
    [("+", LONG_MAX, 1), ("-", LONG_MIN, 1), ("*", 2**32, 2**31), ("div", LONG_MIN, -1)],
)
def test_overflow(operator: ArithmeticOperator, left: int, right: int) -> None:
    with pytest.raises(OverflowError):
        compute(operator, left, right)
    with pytest.raises(OverflowError):
        evaluate(Negative(Constant(LONG_MIN)), {})


def test_division_gives_a_double() -> None:
    assert compute("/", 6, 3) == 2.0
    assert isinstance(compute("/", 6, 3), float)
    assert isinstance(compute("+", 1, 0.5), float)


def test_only_the_chosen_branch_is_computed() -> None:
    divided = Arithmetic("/", Constant(1), X)
    guarded = Conditional((Comparison("=", X, Constant(0)),), Constant(0), divided)
    assert evaluate(guarded, {"X": 0}) == 0.0
    assert isinstance(evaluate(guarded, {"X": 0}), float)
    assert evaluate(guarded, {"X": 4}) == 0.25


def test_nan_is_one_value_and_the_greatest() -> None:
    assert compare("=", math.nan, -math.nan)
    assert not compare("~=", math.nan, math.nan)
    assert compare("<", math.inf, math.nan)
    assert compare(">=", math.nan, 10**18)
    assert {(canonical(float("nan")),), (canonical(-math.nan),)} == {(NAN,)}


def test_negative_zero_is_zero() -> None:
    assert repr(evaluate(Constant(-0.0), {})) == "0.0"
    assert repr(compute("*", 0.0, -1.0)) == "0.0"
    assert compare("=", -0.0, 0)


def test_an_integer_meets_a_double_as_a_double() -> None:
    assert compare("=", 2**53 + 1, 2.0**53)
    assert not compare("=", 2**53 + 1, 2**53)


@given(st.lists(doubles | longs, min_size=3, max_size=3))
def test_comparison_is_an_order(values: list[float]) -> None:
    a, b, c = (float(v) for v in values)
    assert less(a, b) + less(b, a) + same(a, b) == 1
    if less(a, b) and less(b, c):
        assert less(a, c)


@given(small, small, small, st.sampled_from("+-"), st.booleans())
def test_solving_undoes_arithmetic(
    x: int, known: int, more: int, operator: ArithmeticOperator, x_is_left: bool
) -> None:
    y = Constant(known)
    inner = Arithmetic(operator, X, y) if x_is_left else Arithmetic(operator, y, X)
    expression = Negative(Arithmetic("-", Constant(more), inner))
    result = Constant(evaluate(expression, {"X": x}))
    for equality in (Comparison("=", result, expression), Comparison("=", expression, result)):
        assert can_solve(equality, "X")
        assert solve(equality, "X", {}) == x


def test_what_cannot_be_solved() -> None:
    twice = Comparison("=", Constant(4), Arithmetic("+", X, X))
    product = Comparison("=", Constant(4), Arithmetic("*", X, Constant(2)))
    below = Comparison("<", X, Constant(2))
    assert not any(can_solve(comparison, "X") for comparison in (twice, product, below))
