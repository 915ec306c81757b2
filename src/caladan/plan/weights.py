"""How a rule makes the new value of the old one: V = V' ⊗ W along an edge, and how far V may go.

    D = E + W, D = 1 + E - 2         + of a weight            for mmin and mmax
    if(E > W then E else W)          max, the widest edge     for mmin; greatest(E, W) is the same
    D = E                            first: a label is handed on as it is
    E < 50, D <= 50                  limits: what is better than a value that may go on may, too

`take_weight` takes that out of a rule. The row of the aggregate says which ⊗ it distributes over;
what is no semiring is refused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.plan.literals import TURNED, CoreLiteral, literal_names, without
from caladan.program import (
    Aggregate,
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Type,
    Variable,
    variables,
)
from caladan.program.aggregates import AggregateFunction, Product, is_recursive_best
from caladan.program.functions import find
from caladan.program.kinds import EXACT, Kind, kind_of, kind_of_expression


class Refused(Exception):
    """Why a clique is no closure, in one sentence."""


@dataclass(frozen=True, slots=True)
class Weight:
    """V = V' ⊗ W: the operation, W as an expression of the variables `read`.

    An edge leaves values no worse than `leaves` and arrives with none worse than `arrives`, with
    the sign that makes the best the least; None: any.
    """

    product: Product
    added: Expression
    leaves: float | None = None
    arrives: float | None = None

    @property
    def read(self) -> tuple[str, ...]:
        """The variables of W."""
        return tuple(dict.fromkeys(v.name for v in variables(self.added)))

    @property
    def is_widest(self) -> bool:
        """Whether W takes the place of the value if it is worse."""
        return self.product in ("min", "max")

    @property
    def is_limited(self) -> bool:
        """Whether values may be too bad to go along."""
        return self.leaves is not None or self.arrives is not None


def value_column(info: RelationInfo) -> int | None:
    """The column of a relation's best value; None if it has no aggregate."""
    best = [i for i, function in enumerate(info.aggregates) if function is not None]
    if not best:
        return None
    if len(best) > 1 or not is_recursive_best(info.aggregates[best[0]]):
        raise Refused("its aggregates keep no single best value")
    return best[0]


def take_weight(rule: CoreRule, atom: CoreAtom, info: RelationInfo) -> tuple[CoreRule, Weight]:
    """The rule without the comparisons of its value, and what it makes of the value of an atom."""
    column = value_column(info)
    assert column is not None
    row, argument, value = info.aggregates[column], rule.arguments[column], atom.arguments[column]
    if not isinstance(argument, Aggregate) or len(argument.terms) != 1 or row is None:
        raise Refused("its aggregates take more than a value")
    (made,) = argument.terms
    others = [t for i, t in enumerate(atom.arguments) if i != column]
    read = variables(*(rule.arguments[i] for i in info.group))
    if not isinstance(value, Variable) or value in others or value in read:
        raise Refused("a value is read as a node")
    is_text = kind_of(info.columns[column].type) not in (Kind.INTEGER, Kind.FLOAT)
    bounds = [
        c for c in rule.comparisons if _bound(c, value, made, smallest=row.is_least) is not None
    ]
    rest = replace(rule, comparisons=tuple(without(rule.comparisons, bounds)))
    literals = [*without(rest.atoms, [atom]), *rest.comparisons]
    if value.name in literal_names(*literals):
        raise Refused("something else reads the value")
    weight = _read_weight(made, value, row)
    if weight is None or (is_text and (weight.product != "first" or bounds)):
        raise Refused("its new value is no ⊗ of the old one and a weight")
    if weight.product != "first":
        _require_exact(made, weight, info.columns[column].type, rule)
    limits = (_least(bounds, of, smallest=row.is_least) for of in (value, made))
    return rest, Weight(weight.product, weight.added, *limits)


def _require_exact(made: Expression, weight: Weight, type: Type, rule: CoreRule) -> None:
    """Refuse sums of other types than integers and doubles, and those that depend on an order."""
    is_whole = type is not Type.DOUBLE
    if is_whole and kind_of(type) is not Kind.INTEGER:
        raise Refused("sums of its type are not exact")
    kind = kind_of_expression(weight.added, rule.types)
    if kind not in (Kind.INTEGER, *(() if is_whole else (Kind.FLOAT,))):
        raise Refused("sums of its type are not exact")
    summands = _summands(made) or []
    if not is_whole and not weight.is_widest and len(summands) > 2:
        raise Refused("sums of doubles depend on their order")


def _read_weight(made: Expression, value: Variable, row: AggregateFunction) -> Weight | None:
    if made == value:
        return Weight("first", Constant(0)) if "first" in row.distributes_over else None
    if isinstance(made, Conditional):
        return _read_conditional(made, value, row)
    if isinstance(made, Call):
        return _read_call(made, value, row)
    terms = _summands(made)
    if "+" not in row.distributes_over or terms is None or terms.count(value) != 1:
        return None
    weights = [term for term in terms if term != value]
    if value in variables(*weights):
        return None
    added = weights[0]
    for term in weights[1:]:
        added = Arithmetic("+", added, term)
    return Weight("+", added)


def _read_conditional(made: Conditional, value: Variable, row: AggregateFunction) -> Weight | None:
    """if(E > W then E else W) for the least, if(E < W then E else W) for the largest."""
    if len(made.condition) != 1:
        return None
    (test,) = made.condition
    sides, branches = (test.left, test.right), (made.then, made.otherwise)
    others = [each for each in sides if each != value]
    if len(others) != 1 or value in variables(others[0]):
        return None
    takes_left = branches == sides
    if not takes_left and branches != sides[::-1]:
        return None
    is_larger = (test.operator in (">", ">=")) == takes_left
    if test.operator not in ("<", "<=", ">", ">="):
        return None
    return _read_widest(others[0], row, is_larger=is_larger)


def _read_call(made: Call, value: Variable, row: AggregateFunction) -> Weight | None:
    """greatest(E, W) for the least, least(E, W) for the largest."""
    picks = 0 if isinstance(made, Function) else find(made.function).picks
    others = [each for each in made.arguments if each != value]
    if not picks or len(made.arguments) != 2 or len(others) != 1 or value in variables(others[0]):
        return None
    return _read_widest(others[0], row, is_larger=picks > 0)


def _read_widest(other: Expression, row: AggregateFunction, *, is_larger: bool) -> Weight | None:
    product: Product = "max" if is_larger else "min"
    if is_larger is not row.is_least or product not in row.distributes_over:
        return None
    return Weight(product, other)


def _bound(
    literal: CoreLiteral, value: Expression, made: Expression, *, smallest: bool
) -> float | None:
    """How far a literal lets a value go, with the sign that makes it the least."""
    if not isinstance(literal, Comparison):
        return None
    left, right, operator = literal.left, literal.right, literal.operator
    if isinstance(left, Constant):
        left, right, operator = right, left, TURNED[operator]
    if not isinstance(right, Constant) or left not in (value, made):
        return None
    number = right.value
    if isinstance(number, bool) or not isinstance(number, int | float) or not abs(number) < EXACT:
        return None
    if operator not in (("<", "<=") if smallest else (">", ">=")):
        return None
    limit = float(number if smallest else -number)
    return limit if operator.endswith("=") else math.nextafter(limit, -math.inf)


def _least(bounds: Sequence[CoreLiteral], of: Expression, *, smallest: bool) -> float | None:
    found = [_bound(each, of, of, smallest=smallest) for each in bounds]
    return min((each for each in found if each is not None), default=None)


def _summands(expression: Expression) -> list[Expression] | None:
    """The terms of a sum, with numbers taken away as numbers below 0; None if it is none."""
    match expression:
        case Arithmetic(operator="+"):
            left, right = _summands(expression.left), _summands(expression.right)
            return None if left is None or right is None else left + right
        case Arithmetic(operator="-", right=Constant(value=int() as number)):
            left = _summands(expression.left)
            return None if left is None else [*left, Constant(-number)]
        case Variable() | Constant() | Arithmetic(operator="*"):
            return [expression]
        case _:
            return None
