"""Eager aggregation: what of an aggregate can be taken of a part of a body, before it is joined.

    s(A, sum<V * W>) <- e(A, B, V), f(B, W)

For each B the facts of `f` have a sum of W, whichever A they come with; a fact of `e` gives V times
that. So `f` is solved once for each B, and no pair of facts is ever listed. Counts multiply, sums
are weighed by the counts of the others, the least and the most are taken of each part's own:

    parted(…)   the amounts of a part, and what becomes of those of the rest with them
    amounts(…)  what the aggregates of a head ask for
    is_exact(…) whether no solution could leave 64 bits, which taking apart would not notice

Sums of doubles depend on what is added to what, so they are left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import product
from typing import Final, TypeAlias

import numpy as np

from caladan.analysis.type_check import partial_type
from caladan.columns.domains import Domain, OffsetDomain, SortedDomain
from caladan.columns.ranks import magnitude, rank_floats
from caladan.join.access import Amount
from caladan.program import (
    Arithmetic,
    Constant,
    Expression,
    Function,
    Negative,
    Type,
    Variable,
    names,
    thresholds,
)
from caladan.program.kinds import Kind
from caladan.program.transform import walk
from caladan.rules.body import Body

ONE: Final = Constant(1)
_FAR: Final = 1 << 62

Products: TypeAlias = "list[tuple[Expression, ...]]"  # products that are added up, as their factors


def amounts(body: Body) -> tuple[Amount, ...] | None:
    """What a head asks of its body's solutions, and behind that, for means, how many there are.

    None where they have to be seen one by one.
    """
    found: list[Amount] = []
    for function, expression in zip(body.functions, body.columns, strict=False):
        type = partial_type(expression, body.types)
        if any(isinstance(node, Function) for node in walk(expression)):
            return None  # of the user's: it is called for solutions, and for nothing else
        match () if function is None else function.parts:
            case ("count",):
                found.append(Amount("count", ONE))
            case ("sum", *_) if type is not None and type.is_integral:
                found.append(Amount("sum", expression))
            case ("min" | "max" as best,) if _has_order(expression, type):
                found.append(Amount(best, expression))
            case _ if function is not None:
                return None
            case _:
                pass
    if not found:
        return None
    has_mean = any(row is not None and row.is_mean for row in body.functions)
    return (*found, Amount("count", ONE)) if has_mean else tuple(found)


def _has_order(expression: Expression, type: Type | None) -> bool:
    """Whether words tell the best value; those of texts that rules make are in no order."""
    if isinstance(expression, Variable):
        return type is not Type.STRING
    return type is not None and (type.is_integral or type.is_floating)


def find_group(body: Body) -> frozenset[str]:
    """The variables that tell groups apart."""
    pairs = zip(body.functions, body.columns, strict=False)
    return names(*(expression for function, expression in pairs if function is None))


def split_amounts(
    asked: Sequence[Amount], inside: frozenset[str], shared: frozenset[str], mark: str
) -> tuple[tuple[Amount, ...], tuple[Amount, ...]] | None:
    """The amounts of a part of a body with variables of its own, and those of the rest with them.

    None if one of them cannot be told apart: something is computed from both sides.

    >>> b, w = Variable("V"), Variable("W")
    >>> parted([Amount("sum", Arithmetic("*", b, w))], frozenset("W"), frozenset("B"), "#1#")
    ... # doctest: +NORMALIZE_WHITESPACE
    ((Amount(function='sum', expression=Variable(name='W')),),
     (Amount(function='sum', expression=Arithmetic(operator='*', left=Variable(name='V'),
                                                   right=Variable(name='#1#0'))),))
    """
    found: dict[Amount, int] = {}

    def bound(amount: Amount) -> Expression:
        return Variable(f"{mark}{found.setdefault(amount, len(found))}")

    def total(expression: Expression) -> Expression | None:
        """The sum of an expression, by what the part adds up."""
        reads = names(expression)
        if reads.isdisjoint(inside):
            count = bound(Amount("count", ONE))
            return count if expression == ONE else Arithmetic("*", expression, count)
        if reads <= inside | shared:
            return bound(Amount("sum", expression))
        sums: list[Expression] = []
        for factors in _products(expression) or ():
            mine = [each for each in factors if not names(each).isdisjoint(inside)]
            if not names(*mine) <= inside | shared:
                return None
            others = [each for each in factors if names(each).isdisjoint(inside)]
            own = Amount("sum", _multiply(mine)) if mine else Amount("count", ONE)
            sums.append(_multiply([*others, bound(own)]))
        return reduce(lambda one, other: Arithmetic("+", one, other), sums) if sums else None

    def best(expression: Expression, function: str) -> Expression | None:
        """The least or the most of an expression, by that of the part."""
        reads = names(expression)
        if reads.isdisjoint(inside):
            return expression
        if reads <= inside | shared:
            return bound(Amount("min" if function == "min" else "max", expression))
        opposite = "max" if function == "min" else "min"
        match expression:
            case Arithmetic("+" | "-" as operator, left, right):
                both = names(left) & inside and names(right) & inside
                one = best(left, function)
                other = best(right, function if operator == "+" else opposite)
                if one is None or other is None or both:
                    return None
                return Arithmetic(operator, one, other)
            case Negative(operand):
                one = best(operand, opposite)
                return None if one is None else Negative(one)
            case _:
                return None

    outer: list[Amount] = []
    for each in asked:
        is_best = each.function in ("min", "max")
        value = best(each.expression, each.function) if is_best else total(each.expression)
        if value is None:
            return None
        outer.append(Amount(each.function, value))
    return tuple(found), tuple(outer)


def _products(expression: Expression) -> Products | None:
    """An expression as a sum of products; None if there are too many."""
    match expression:
        case Arithmetic("+", left, right):
            return _add(_products(left), _products(right))
        case Arithmetic("-", left, right):
            return _add(_products(left), _products(Negative(right)))
        case Negative(operand):
            found = _products(operand)
            return None if found is None else [(Constant(-1), *each) for each in found]
        case Arithmetic("*", left, right):
            one, other = _products(left), _products(right)
            if (
                one is None
                or other is None
                or len(one) * len(other) > thresholds.now.rollup_products
            ):
                return None
            return [(*first, *second) for first, second in product(one, other)]
        case _:
            return [(expression,)]


def _add(one: Products | None, other: Products | None) -> Products | None:
    if one is None or other is None or len(one) + len(other) > thresholds.now.rollup_products:
        return None
    return [*one, *other]


def _multiply(factors: Sequence[Expression]) -> Expression:
    return reduce(lambda one, other: Arithmetic("*", one, other), factors)


# ── With data ────────────────────────────────────────────────────────────────────────────────────


def is_exact(asked: Sequence[Amount], domains: Mapping[str, Domain]) -> bool:
    """Whether amounts of parts are those of solutions: none of these leaves 64 bits.

    What is not computed cannot.
    """
    for each in asked:
        if not isinstance(each.expression, Variable | Constant):
            most = _most(each.expression, lambda name: _extent(domains[name]))
            if most is None or not most < _FAR:
                return False
    return True


def _most(expression: Expression, extent: Callable[[str], float | None]) -> float | None:
    """No value of an expression, nor of a part of it, is further from 0; None if nobody knows."""
    match expression:
        case Variable(name):
            return extent(name)
        case Constant(value) if isinstance(value, int | float):
            return abs(value)
        case Negative(operand):
            return _most(operand, extent)
        case Arithmetic("+" | "-" | "*" as operator, left, right):
            one, other = _most(left, extent), _most(right, extent)
            if one is None or other is None:
                return None
            return max(one, other, one * other if operator == "*" else one + other)
        case _:
            return None


def _extent(domain: Domain) -> float | None:
    """How far from 0 the values of a domain may be."""
    if domain.kind not in (Kind.INTEGER, Kind.FLOAT):
        return None
    if isinstance(domain, OffsetDomain) and domain.is_near:
        return max(abs(domain.base), abs(domain.base + domain.size))
    if isinstance(domain, SortedDomain) and domain.has_values:
        ranks = domain.ranks(np.array([0, domain.size - 1], np.uint32))
        ends = rank_floats(ranks) if domain.kind is Kind.FLOAT else ranks.astype(np.float64)
        return magnitude(ends) if np.all(np.isfinite(ends)) else None
    return None
