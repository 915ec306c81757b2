"""Who contributes to a sum, so that a value derived again replaces the old one.

With a witness, the witness contributes, once in a group whatever derives it. Without one, inside
recursion, it is the solution: all body variables, except those that hold a value the recursion
itself still changes (an aggregate column of the clique, and what is computed from one). `countd`
counts its terms, so they are its contributors. Other aggregates need none.
"""

from __future__ import annotations

from collections.abc import Mapping

from caladan.analysis.core import Clique, CoreRule, RelationInfo
from caladan.delta.program import Contributors
from caladan.program import Aggregate, Expression, Variable

_SUMMED = ("sum", "count", "msum", "mcount")


def contributors(
    rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]
) -> tuple[tuple[Expression, ...], tuple[Contributors, ...]]:
    """The key columns a rule hands on behind its head columns, and what they are keys of."""
    keys: list[Expression] = []
    places: list[Contributors] = []
    for column, argument in enumerate(rule.arguments):
        if not isinstance(argument, Aggregate):
            continue
        if argument.function == "countd":
            key, place = argument.terms, f"{column}: values"
        elif argument.function in _SUMMED and len(argument.terms) > 1:
            key, place = argument.terms[:-1], f"{column}: witness of {len(argument.terms) - 1}"
        elif argument.function in _SUMMED and clique.is_recursive:
            key, place = _solution(rule, clique, relations), f"{column}: rule {rule.number}"
        else:
            continue
        places.append(Contributors(column, place, len(keys), len(keys) + len(key)))
        keys.extend(key)
    return tuple(keys), tuple(places)


def _solution(
    rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]
) -> tuple[Variable, ...]:
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
