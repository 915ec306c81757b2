"""Who contributes to a sum, so that a value derived again replaces the old one.

With a witness, the witness contributes, once in a group whatever derives it. Without one, inside
recursion, it is the solution: all body variables, except those that hold a value the recursion
itself still changes (an aggregate column of the clique, and what is computed from one); a plain
value in a summed column is an amount of its solution as well. `countd` counts its terms, so they
are its contributors. Other aggregates need none.

A witness counts with the largest amount of its solutions. Where the recursion changes amounts, one
that was the largest may fall: then a witness needs to know the current amount of every solution,
and these have a table of their own.
"""

from __future__ import annotations

from collections.abc import Mapping

from caladan.analysis.core import Clique, CoreRule, RelationInfo
from caladan.program import Aggregate, Expression, Variable, names
from caladan.rules.program import Contributors

_SUMMED = ("sum", "count", "msum", "mcount")


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
    # Alternatives of a rule, from an `if`, have its number; what tells solutions apart may differ.
    number = f"rule {rule.number} by {', '.join(each.name for each in own_key)}"
    for column, argument in enumerate(rule.arguments):
        own = f"{column}: {number}"
        if not isinstance(argument, Aggregate):
            summed = relations[rule.head].aggregates[column] in (*_SUMMED, "countd")
            if summed and clique.is_recursive_rule(rule):
                add(column, own, own_key, latest=True)
        elif argument.function == "countd":
            add(column, f"{column}: values", argument.terms)
        elif argument.function in _SUMMED and len(argument.terms) > 1:
            *witness, _ = argument.terms
            place = f"{column}: witness of {len(witness)}"
            if _changes(rule, column, clique, relations):
                within = f"{place}, {number}"
                add(column, place, tuple(witness), own_key, within, latest=True)
            elif _falls(rule.head, column, len(argument.terms), clique, relations):
                add(column, place, tuple(witness), (), f"{place}, fixed")
            else:
                add(column, place, tuple(witness))
        elif argument.function in _SUMMED and clique.is_recursive:
            add(column, own, own_key, latest=True)
    return tuple(keys), tuple(places)


def changing_witness(clique: Clique, relations: Mapping[str, RelationInfo]) -> bool:
    """Whether the recursion changes what some witness counts with."""
    return any(
        isinstance(argument, Aggregate)
        and argument.function in _SUMMED
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
