"""What is known beforehand of the sums of a clique: whether growing ones can be told for sure.

A round makes new sums of the old ones. If every amount is a multiple of one sum and something more
that does not change (`is_linear`), the differences of one round make those of the next by a product
with one matrix, once no new facts come. With n sums, such differences are gone after n rounds or
never: the matrix is nilpotent where they start, or it is not. So whole numbers that still change
after more rounds than there are sums change for ever, and that is exact (`is_exact`); engines/
growth.py has what is done about doubles, and about witnesses that count the largest of several.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from caladan.analysis.core import Clique, CoreRule, RelationInfo
from caladan.program import (
    Aggregate,
    Arithmetic,
    Constant,
    Expression,
    Negative,
    Variable,
    variables,
)
from caladan.rules.contributors import changing_witness, steady
from caladan.rules.program import Totals

_TOTALS = ("sum", "msum", "count", "mcount", "countd")


def totals(clique: Clique, relations: Mapping[str, RelationInfo]) -> Totals | None:
    """What is known of the sums of a clique; None if nothing in it is summed."""
    functions = [relations[name].aggregates for name in clique.relations]
    width = max(sum(f in _TOTALS for f in each) for each in functions)
    if not clique.is_recursive or not width:
        return None
    is_linear = all(f is None or f in _TOTALS for each in functions for f in each) and all(
        _is_linear(rule, clique, relations) for rule in clique.recursive_rules
    )
    whole = not any(
        relations[name].types[i].is_floating
        for name in clique.relations
        for i, function in enumerate(relations[name].aggregates)
        if function in _TOTALS
    )
    is_exact = is_linear and whole and not changing_witness(clique, relations)
    return Totals(width, is_linear, is_exact)


def _is_linear(rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]) -> bool:
    """Whether amounts are linear in sums of the clique, and sums are of no other use."""
    fixed = steady(rule, clique, relations)
    degrees: dict[str, float] = dict.fromkeys(fixed, 0)
    for atom in rule.atoms:
        functions = relations[atom.relation].aggregates
        for argument, function in zip(atom.arguments, functions, strict=True):
            if function is None or atom.relation not in clique.relations:
                continue
            if not isinstance(argument, Variable) or atom.negated or argument.name in degrees:
                return False  # it is compared
            if not argument.is_anonymous:
                degrees[argument.name] = 1
    for comparison in rule.comparisons:
        if {v.name for v in variables(comparison)} <= fixed:
            continue
        made, of = comparison.left, comparison.right
        if not isinstance(made, Variable):
            made, of = of, made
        if comparison.operator != "=" or not isinstance(made, Variable) or made.name in degrees:
            return False
        degrees[made.name] = _degree(of, degrees)
    return rule.limit is None and all(
        _degree(term, degrees) <= (1 if amount else 0)
        for argument, function in zip(rule.arguments, relations[rule.head].aggregates, strict=True)
        for term, amount in _terms(argument, function in _TOTALS)
    )


def _terms(argument: Expression, is_summed: bool) -> list[tuple[Expression, bool]]:
    """The terms of a head's argument, and whether each is an amount."""
    if not isinstance(argument, Aggregate):
        return [(argument, is_summed)]
    if argument.function in ("count", "countd") or len(argument.terms) == 0:
        return []
    *witness, amount = argument.terms
    return [*((term, False) for term in witness), (amount, True)]


def _degree(node: Expression, degrees: Mapping[str, float]) -> float:
    """How many sums are multiplied with each other, at most; infinity for what is no polynomial."""
    match node:
        case Constant():
            return 0
        case Variable():
            return degrees.get(node.name, inf)
        case Negative():
            return _degree(node.operand, degrees)
        case Arithmetic():
            left, right = _degree(node.left, degrees), _degree(node.right, degrees)
            match node.operator:
                case "+" | "-":
                    return max(left, right)
                case "*":
                    return left + right
                case "/" if not right:
                    return left
                case _:
                    return inf if left or right else 0
        case _:
            return 0 if all(not degrees.get(v.name, inf) for v in variables(node)) else inf
