"""The sums of a clique: who contributes to one, and what is known of them before a run.

    contributors  who contributes to a sum, so that a value derived again replaces the old one
    totals        what is known beforehand of the sums of a clique: whether growing ones can be told
                  for sure

With a witness, the witness contributes, once in a group whatever derives it. Without one, inside
recursion, it is the solution: all body variables, except those that hold a value the recursion
itself still changes (an aggregate column of the clique, and what is computed from one); a plain
value in a summed column is an amount of its solution as well. `countd` counts its terms, so they
are its contributors; what keeps all solutions (`median`) has its terms there, too. Other aggregates
need none.

A witness counts with the largest amount of its solutions. Where the recursion changes amounts, one
that was the largest may fall: then a witness needs to know the current amount of every solution,
and these have a table of their own.

A round makes new sums of the old ones. If every amount is a multiple of one sum and something more
that does not change (`is_linear`), the differences of one round make those of the next by a product
with one matrix, once no new facts come. With n sums, such differences are gone after n rounds or
never: the matrix is nilpotent where they start, or it is not. So whole numbers that still change
after more rounds than there are sums change for ever, and that is exact (`is_exact`);
rules/support.py has what is done about doubles, and about witnesses that count the largest of
several.
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
    names,
    variables,
)
from caladan.program.aggregates import row_of
from caladan.rules.program import Contributors, Totals


def contributors(
    rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]
) -> tuple[tuple[Expression, ...], tuple[Contributors, ...]]:
    """The key columns a rule hands on behind its head columns, and what they are keys of."""
    keys: list[Expression] = []
    places: list[Contributors] = []

    def add(
        column: int,
        place: str,
        key: tuple[Expression, ...],
        within: tuple[Expression, ...] = (),
        solutions: str | None = None,
        *,
        latest: bool = False,
    ) -> None:
        end = len(keys) + len(key)
        stop = end + len(within)
        places.append(Contributors(column, place, len(keys), end, stop, solutions, latest))
        keys.extend((*key, *within))

    own_key = solution(rule, clique, relations)
    # Contributors are told apart within their group: what its columns have goes without saying.
    info = relations[rule.head]
    grouped = [v for v in own_key if any(_is_column(rule, info, i, v) for i in info.group)]
    own_key = tuple(v for v in own_key if v not in grouped) or own_key
    # Alternatives of a rule, from an `if`, have its number; what tells solutions apart may differ.
    number = f"rule {rule.number} by {', '.join(each.name for each in own_key)}"
    for column, argument in enumerate(rule.arguments):
        own = f"{column}: {number}"
        if not isinstance(argument, Aggregate):
            row = relations[rule.head].aggregates[column]
            if row is not None and row.is_total and clique.is_recursive_rule(rule):
                add(column, own, own_key, latest=True)
        elif row_of(argument).counts == "terms" or row_of(argument).is_gathered:
            add(column, f"{column}: values", argument.terms)
        elif row_of(argument).is_total and len(argument.terms) > 1:
            *witness, _ = argument.terms
            place = f"{column}: witness of {len(witness)}"
            if _changes(rule, column, clique, relations):
                within = f"{place}, {number}"
                add(column, place, tuple(witness), own_key, within, latest=True)
            elif _falls(rule.head, column, len(argument.terms), clique, relations):
                add(column, place, tuple(witness), (), f"{place}, fixed")
            else:
                add(column, place, tuple(witness))
        elif row_of(argument).is_total and clique.is_recursive:
            add(column, own, own_key, latest=True)
    return tuple(keys), tuple(places)


def _is_column(rule: CoreRule, info: RelationInfo, column: int, variable: Variable) -> bool:
    """Whether a column of the head has the values of a variable, as they are."""
    same = info.columns[column].type is rule.types[variable.name]
    return same and rule.arguments[column] == variable


def changing_witness(clique: Clique, relations: Mapping[str, RelationInfo]) -> bool:
    """Whether the recursion changes what some witness counts with."""
    return any(
        isinstance(argument, Aggregate)
        and row_of(argument).is_total
        and row_of(argument).counts != "terms"
        and len(argument.terms) > 1
        and _changes(rule, column, clique, relations)
        for rule in clique.recursive_rules
        for column, argument in enumerate(rule.arguments)
    )


def _falls(
    head: str, column: int, terms: int, clique: Clique, relations: Mapping[str, RelationInfo]
) -> bool:
    """Whether some rule changes the amounts of witnesses of so many terms."""
    return any(
        rule.head == head
        and isinstance(argument := rule.arguments[column], Aggregate)
        and len(argument.terms) == terms
        and _changes(rule, column, clique, relations)
        for rule in clique.recursive_rules
    )


def _changes(
    rule: CoreRule, column: int, clique: Clique, relations: Mapping[str, RelationInfo]
) -> bool:
    """Whether the recursion changes what a solution of a rule contributes to a column."""
    if not clique.is_recursive_rule(rule):
        return False
    argument = rule.arguments[column]
    amount = argument.terms[-1] if isinstance(argument, Aggregate) else argument
    return not names(amount) <= steady(rule, clique, relations)


def steady(rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]) -> frozenset[str]:
    """The variables of a rule whose values the recursion does not change."""
    known = {variable.name for variable in solution(rule, clique, relations)}
    equalities = [c for c in rule.comparisons if c.operator == "="]
    for _ in equalities:
        for equality in equalities:
            for one, other in (equality.left, equality.right), (equality.right, equality.left):
                if isinstance(one, Variable) and names(other) <= known:
                    known.add(one.name)
    return frozenset(known)


def solution(
    rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]
) -> tuple[Variable, ...]:
    """The variables that tell the solutions of a rule apart, whatever values the recursion has."""
    # What equalities compute follows from the rest of the solution, so the atoms' variables tell
    # solutions apart; one that an atom outside the recursion binds too is fixed by that atom.
    steady: dict[str, None] = {}
    for atom in rule.positive:
        functions = relations[atom.relation].aggregates
        for argument, function in zip(atom.arguments, functions, strict=True):
            if isinstance(argument, Variable) and (
                function is None or atom.relation not in clique.relations
            ):
                steady[argument.name] = None
    return tuple(Variable(name) for name in steady)


def totals(clique: Clique, relations: Mapping[str, RelationInfo]) -> Totals | None:
    """What is known of the sums of a clique; None if nothing in it is summed."""
    functions = [relations[name].aggregates for name in clique.relations]
    width = max(sum(f is not None and f.is_total for f in each) for each in functions)
    if not clique.is_recursive or not width:
        return None
    is_linear = all(f is None or f.is_total for each in functions for f in each) and all(
        _is_linear(rule, clique, relations) for rule in clique.recursive_rules
    )
    is_whole = not any(
        relations[name].types[i].is_floating
        for name in clique.relations
        for i, function in enumerate(relations[name].aggregates)
        if function is not None and function.is_total
    )
    return Totals(width, is_linear, not changing_witness(clique, relations), is_whole)


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
        if names(comparison) <= fixed:
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
        for term, amount in _terms(argument, function is not None and function.is_total)
    )


def _terms(argument: Expression, is_summed: bool) -> list[tuple[Expression, bool]]:
    """The terms of a head's argument, and whether each is an amount."""
    if not isinstance(argument, Aggregate):
        return [(argument, is_summed)]
    if not argument.terms or (row_of(argument).counts and row_of(argument).witness is None):
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
