"""Rules that keep the least or largest of what adds up along steps.

    d(X, Z, mmin<D>) <- d(X, Y, E), step(Y, Z, W), D = E + W          a sum
    d(X, Z, mmax<D>) <- …, D = if(E < W then E else W)                the narrowest step of a path
    d(X, Z, mmin<D>) <- d(X, Y, E), d(Y, Z, F), D = E + F             steps by exit facts
    d(Z, mmax<D>) <- d(Y, E), step(Y, Z, W), D = E + W                nothing is carried
    l(Y, mmin<E>) <- l(X, E), step(X, Y)                              a label, as it is

Literals on what is carried, or on that and one end of a step, are those of any step (steps.py).
`E < 50` and `D <= 50` say how far sums may go: what is better than a value that may go on may go
on too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
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
from caladan.program.aggregates import AggregateFunction, is_recursive_best
from caladan.program.functions import find
from caladan.program.kinds import EXACT, Kind, kind_of, kind_of_expression
from caladan.rules.shapes.forms import (
    Distances,
    Labels,
    LabelStep,
    Sides,
    Step,
    WeightedStep,
)
from caladan.rules.shapes.literals import (
    TURNED,
    Literal,
    are_apart,
    body_rule,
    literal_names,
    named,
    without,
)
from caladan.rules.shapes.steps import divided, step_of


def weighted(info: RelationInfo, rules: list[CoreRule]) -> Distances | Labels | None:
    """The shape of a relation with one aggregate, whose rules add up along steps."""
    best = [i for i, function in enumerate(info.aggregates) if function is not None]
    if len(best) != 1 or not is_recursive_best(row := info.aggregates[best[0]]):
        return None
    (column,) = best
    if (labels := _labels(info, rules, column)) is not None:
        return labels
    type = info.columns[column].type
    if kind_of(type) is not Kind.INTEGER and type is not Type.DOUBLE:
        return None
    group = frozenset(info.group)
    shared = group.intersection(*(_carried(rule, info.name) for rule in rules))
    # A column that a step reads cannot be carried, even if it stays the same: it steps along.
    for kept in (shared, *(shared - {each} for each in sorted(shared))):
        sides = Sides(tuple(sorted(kept)), tuple(c for c in info.group if c not in kept))
        found = [_step(rule, info, sides, column) for rule in rules]
        steps = tuple(step for step in found if step is not None)
        if len(steps) > 1 and any(_is_doubled(rule, info.name) for rule in rules):
            # What a fact that steps was made of must be open to all, and add up wherever it is cut.
            steps = tuple(each for each in steps if each.is_unconditional)
        if not sides.carried and not _is_longest(row, steps):
            continue
        if sides.stepping and len(steps) == len(rules):
            return Distances(info.name, sides, column, row.is_least, steps)
    return None


def _is_least(info: RelationInfo, column: int) -> bool:
    row = info.aggregates[column]
    return row is not None and row.is_least


def _is_longest(row: AggregateFunction, steps: tuple[WeightedStep, ...]) -> bool:
    """Whether the largest sums are looked for, and nothing is a condition on what is carried.

    In rounds they are found path by path, and improved as often as there are lengths of these: that
    is why even a single source is worth an order of the nodes. The least ones settle soon.
    """
    sums = any(not each.is_widest for each in steps)
    return not row.is_least and sums and all(each.step.is_open for each in steps)


def _labels(info: RelationInfo, rules: list[CoreRule], column: int) -> Labels | None:
    """The shape of rules that hand a label on as it is, and carry nothing else."""
    steps = [_label_step(rule, info, column) for rule in rules]
    found = tuple(step for step in steps if step is not None)
    kind = kind_of(info.columns[column].type)
    row = info.aggregates[column]
    if not info.group or len(found) < len(steps) or kind is Kind.OBJECT:
        return None
    if row is None or "first" not in row.distributes_over:
        return None
    if kind not in (Kind.INTEGER, Kind.FLOAT) and any(s.most is not None for s in found):
        return None
    return Labels(info.name, info.group, column, row.is_least, found)


def _label_step(rule: CoreRule, info: RelationInfo, column: int) -> LabelStep | None:
    """A rule that reads a label for nothing but to hand it on, or to see whether it may."""
    (atom, *_) = (a for a in rule.atoms if a.relation == info.name)
    value, argument = atom.arguments[column], rule.arguments[column]
    if not isinstance(value, Variable) or not isinstance(argument, Aggregate):
        return None
    if argument.terms != (value,):
        return None
    smallest = _is_least(info, column)
    limited = [
        c for c in rule.comparisons if _bound(c, value, value, smallest=smallest) is not None
    ]
    rest = replace(rule, comparisons=tuple(without(rule.comparisons, limited)))
    others = [a for i, a in enumerate(atom.arguments) if i != column]
    if value.name in literal_names(*without(rest.atoms, [atom]), *rest.comparisons):
        return None
    if value in others or value in variables(*(rule.arguments[i] for i in info.group)):
        return None
    step = step_of(rest, {info.name: Sides((), info.group)})
    return None if step is None else LabelStep(step, _least(limited, value, smallest=smallest))


def _carried(rule: CoreRule, relation: str) -> frozenset[int]:
    """The columns that the first recursive atom of a rule hands on as they are."""
    atom = next(a for a in rule.atoms if a.relation == relation)
    return frozenset(i for i, t in enumerate(atom.arguments) if rule.arguments[i] == t)


def _step(rule: CoreRule, info: RelationInfo, sides: Sides, column: int) -> WeightedStep | None:
    """A rule that adds to a value as it steps, and reads it for nothing else."""
    (atom, *others) = (a for a in rule.atoms if a.relation == info.name)
    argument, value = rule.arguments[column], atom.arguments[column]
    row = info.aggregates[column]
    if not isinstance(argument, Aggregate) or not isinstance(value, Variable) or row is None:
        return None
    smallest = row.is_least
    if atom.negated or len(argument.terms) != 1:
        return None
    (made,) = argument.terms
    carried = tuple(atom.arguments[i] for i in sides.carried)
    pattern = tuple(atom.arguments[i] for i in sides.stepping)
    head = tuple(rule.arguments[i] for i in sides.stepping)
    before, after = named(pattern), named(head)
    if len(before) < len(pattern) or len(after) < len(head) or value in (*carried, *pattern):
        return None
    weight = _weight(made, value, row)
    literals = without([*rule.atoms, *rule.comparisons], [atom])
    bounds = [each for each in literals if _bound(each, value, made, smallest=smallest) is not None]
    literals = without(literals, bounds)
    parts = divided(literals, named(carried), before, after, after)
    if weight is None or parts is None or parts.along or value.name in literal_names(*literals):
        return None
    read = tuple(dict.fromkeys(v.name for v in variables(weight.added)))
    pairs = body_rule(rule, parts.rest, (*before, *after, *read))
    is_whole = info.columns[column].type is not Type.DOUBLE
    kind = kind_of_expression(weight.added, rule.types)
    if pairs is None or kind not in (Kind.INTEGER, *(() if is_whole else (Kind.FLOAT,))):
        return None
    if not is_whole and weight.terms > 1:  # sums of doubles depend on their order
        return None
    step = Step(
        rule, info.name, info.name, pattern, head, before, after, (),
        carried, parts.condition, parts.leaving, parts.arriving, looked=parts.looked,
    )  # fmt: skip
    if others and not _doubles(step, others, parts.rest, bounds, weight, column, sides):
        return None
    limits = (_least(bounds, of, smallest=smallest) for of in (value, made))
    return WeightedStep(step, pairs, weight.added, read, weight.is_widest, *limits)


def _is_doubled(rule: CoreRule, relation: str) -> bool:
    return sum(atom.relation == relation for atom in rule.atoms) > 1


def _doubles(
    step: Step,
    others: list[CoreAtom],
    rest: list[Literal],
    bounds: list[Literal],
    weight: _Weight,
    column: int,
    sides: Sides,
) -> bool:
    """d(X, Z, mmin<E + F>) <- d(X, Y, E), d(Y, Z, F), and besides X ~= Z at most.

    What a path of exit facts adds up to is the same wherever it is cut, and the least never comes
    back to where it began.
    """
    (other, *more) = others
    names = named((*step.carried, *step.head))
    return (
        not (more or bounds or weight.is_widest or step.condition or step.leaving)
        and not without(rest, [other])
        and len(rest) == 1
        and other.arguments[column] == weight.added
        and tuple(other.arguments[i] for i in sides.stepping) == step.head
        and all(len(names) == 2 and are_apart(each, *names) for each in step.arriving)
    )


# ── Values ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Weight:
    """What is added to a value, as so many terms; or if that is `widest`, what takes its place."""

    added: Expression
    terms: int
    is_widest: bool = False


def _weight(made: Expression, value: Variable, row: AggregateFunction) -> _Weight | None:
    """What is made of a value along a step, if that can be told."""
    if isinstance(made, Conditional):
        return _widest(made, value, row)
    if isinstance(made, Call):
        return _picked(made, value, row)
    terms = _summands(made)
    if "+" not in row.distributes_over or terms is None or terms.count(value) != 1:
        return None
    weights = [term for term in terms if term != value]
    if value in variables(*weights):
        return None
    added = weights[0] if weights else Constant(0)
    for term in weights[1:]:
        added = Arithmetic("+", added, term)
    return _Weight(added, len(weights))


def _widest(made: Conditional, value: Variable, row: AggregateFunction) -> _Weight | None:
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
    if test.operator not in ("<", "<=", ">", ">=") or is_larger is not row.is_least:
        return None
    if ("max" if is_larger else "min") not in row.distributes_over:
        return None
    return _Weight(others[0], 1, is_widest=True)


def _picked(made: Call, value: Variable, row: AggregateFunction) -> _Weight | None:
    """greatest(E, W) for the least, least(E, W) for the largest."""
    picks = 0 if isinstance(made, Function) else find(made.function).picks
    if picks != (1 if row.is_least else -1):
        return None
    if ("max" if picks > 0 else "min") not in row.distributes_over:
        return None
    others = [each for each in made.arguments if each != value]
    if len(made.arguments) != 2 or len(others) != 1 or value in variables(others[0]):
        return None
    return _Weight(others[0], 1, is_widest=True)


def _bound(
    literal: Literal, value: Expression, made: Expression, *, smallest: bool
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


def _least(bounds: Sequence[Literal], of: Expression, *, smallest: bool) -> float | None:
    found = [_bound(each, of, of, smallest=smallest) for each in bounds]
    return min((each for each in found if each is not None), default=None)


def _summands(expression: Expression) -> list[Expression] | None:
    """What is added up to a sum, with numbers taken away as numbers below 0; None if it is none."""
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
