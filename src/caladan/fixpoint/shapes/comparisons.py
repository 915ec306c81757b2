"""Comparisons that read two sides, told apart: a number of each, and how these compare.

    Z - X < 9             sums of integers: X > Z - 9
    X * Z > 100           a product, if a factor of it has one sign: Z > 100 / X
    (X + Z) mod 7 = 2     the rest of a sum: Z mod 7 = (2 - X) mod 7

Nothing of it is done where a number might leave 64 bits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from caladan.columns.layout import Counts
from caladan.join.expressions import Evaluator
from caladan.join.frontier import Bindings
from caladan.plan.literals import TURNED
from caladan.program import (
    Arithmetic,
    Comparison,
    Constant,
    Expression,
    Negative,
    names,
    variables,
)
from caladan.program.kinds import Kind

_FAR: Final = 1 << 62


def told_apart(
    comparison: Comparison, evaluator: Evaluator, first: Bindings, second: Bindings
) -> tuple[str, Counts, Counts] | None:
    """A comparison of two batches: the operator, and numbers of each; None if it cannot be told."""
    left, right = (_sides(e, first, second) for e in (comparison.left, comparison.right))
    if left <= {0} and right <= {1}:
        ranks = evaluator.ranks(comparison, first, second)
        return None if ranks is None else (comparison.operator, *ranks)
    if left <= {1} and right <= {0}:
        ranks = evaluator.ranks(comparison, second, first)
        return None if ranks is None else (TURNED[comparison.operator], ranks[1], ranks[0])
    if (rest := _rest(comparison)) is not None:
        expression, divisor, left_over = rest
        sums = _sums([*summands(expression, 1)], evaluator, first, second)
        if sums is None or int(sums[0].min(initial=0)) + int(sums[1].min(initial=0)) < 0:
            return None
        wanted = (left_over - sums[0]) % divisor if 0 <= left_over < divisor else sums[0] * 0 - 1
        return comparison.operator, wanted, sums[1] % divisor
    terms = [*summands(comparison.left, 1), *summands(comparison.right, -1)]
    mixed = [each for each in terms if len(_sides(each[1], first, second)) > 1]
    sums = _sums([each for each in terms if each not in mixed], evaluator, first, second)
    if sums is None or len(mixed) > 1:
        return None
    if mixed:
        return _divide(comparison.operator, *mixed[0], sums, evaluator, first, second)
    return comparison.operator, sums[0], -sums[1]


def _sums(
    terms: Sequence[tuple[int, Expression]],
    evaluator: Evaluator,
    first: Bindings,
    second: Bindings,
) -> tuple[Counts, Counts] | None:
    """What terms of one side each add up to, by side; None if that cannot be told."""
    sums: list[Counts] = [np.zeros(batch.rows, np.int64) for batch in (first, second)]
    most = 0
    for sign, term in terms:
        sides = _sides(term, first, second)
        values = _integers(term, evaluator, first, second)
        if values is None:
            return None
        most += _largest(values)
        if most >= _FAR:
            return None
        sums[min(sides, default=0)] += sign * values
    return sums[0], sums[1]


def _integers(
    term: Expression, evaluator: Evaluator, first: Bindings, second: Bindings
) -> Counts | None:
    """The integers that a term comes to; None if it reads both sides, or is no integer."""
    sides = _sides(term, first, second)
    if len(sides) > 1 or any(map(evaluator.is_text, (v.name for v in variables(term)))):
        return None
    values = evaluator.values(term, (first, second)[min(sides, default=0)], None)
    return values.data if values.kind is Kind.INTEGER else None


def _largest(values: Counts) -> int:
    return max(abs(int(values.min(initial=0))), abs(int(values.max(initial=0))))


def _rest(comparison: Comparison) -> tuple[Expression, int, int] | None:
    """Of E mod 7 = 0, and of E mod 7 ~= 0: E, and the two numbers."""
    for one, other in (
        (comparison.left, comparison.right),
        (comparison.right, comparison.left),
    ):
        if (
            comparison.operator in ("=", "~=")
            and isinstance(one, Arithmetic)
            and one.operator == "mod"
            and isinstance(one.right, Constant)
            and isinstance(other, Constant)
            and isinstance(divisor := one.right.value, int)
            and isinstance(left_over := other.value, int)
            and 0 < divisor < _FAR
        ):
            return one.left, divisor, left_over
    return None


def _divide(
    operator: str,
    sign: int,
    term: Expression,
    sums: tuple[Counts, Counts],
    evaluator: Evaluator,
    first: Bindings,
    second: Bindings,
) -> tuple[str, Counts, Counts] | None:
    """A product of both sides and a sum of one, compared with nothing: X * Z > 100.

    Divided by the factor of the side that has the sum it is a comparison of two numbers, if that
    factor has one sign for all. Where it is nothing, the other number is far away.
    """
    parts: list[Counts] = [np.ones(batch.rows, np.int64) for batch in (first, second)]
    for factor in factors(term):
        values = _integers(factor, evaluator, first, second)
        if values is None:
            return None
        side = min(_sides(factor, first, second), default=0)
        if _largest(parts[side]) * max(_largest(values), 1) >= _FAR:
            return None
        parts[side] *= values
    if _largest(parts[0]) * _largest(parts[1]) + _largest(sums[0]) + _largest(sums[1]) >= _FAR:
        return None
    mine = 1 if sums[1].any() else 0  # which side divides
    by, other, rest = sign * parts[mine], parts[1 - mine], -sums[mine]
    if sums[1 - mine].any() or (by.min(initial=0) < 0 < by.max(initial=0)):
        return None
    if by.min(initial=0) < 0:
        by, rest, operator = -by, -rest, TURNED[operator]
    # by * other (operator) rest
    divisor = np.maximum(by, 1)
    quotient = rest // divisor
    exact = quotient * divisor == rest
    if operator in ("=", "~="):
        if ((by == 0) & (rest == 0)).any():  # nothing times anything is nothing
            return None
        bound = np.where((by > 0) & exact, quotient, -_FAR)
    else:
        is_least = operator in ("<", ">=")  # rounded up: q < 2.5 is q < 3
        bound = np.where(exact, quotient, quotient + is_least)
        holds = {"<": rest > 0, "<=": rest >= 0, ">": rest < 0, ">=": rest <= 0}[operator]
        always = _FAR if operator in ("<", "<=") else -_FAR
        bound = np.where(by > 0, bound, np.where(holds, always, -always))
    if mine == 0:
        return TURNED[operator], bound, other
    return operator, other, bound


def _sides(expression: Expression, first: Bindings, second: Bindings) -> set[int]:
    """Which of two batches have variables of an expression."""
    read = names(expression)
    return {i for i, batch in enumerate((first, second)) if read & batch.columns.keys()}


def summands(expression: Expression, sign: int) -> Iterator[tuple[int, Expression]]:
    """What is added up, and what is taken away."""
    match expression:
        case Arithmetic(operator="+"):
            yield from summands(expression.left, sign)
            yield from summands(expression.right, sign)
        case Arithmetic(operator="-"):
            yield from summands(expression.left, sign)
            yield from summands(expression.right, -sign)
        case Negative():
            yield from summands(expression.operand, -sign)
        case _:
            yield sign, expression


def factors(expression: Expression) -> Iterator[Expression]:
    """What is multiplied."""
    if isinstance(expression, Arithmetic) and expression.operator == "*":
        yield from factors(expression.left)
        yield from factors(expression.right)
    else:
        yield expression
