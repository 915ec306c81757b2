"""Where the values of a column come from: the columns of data that flow into it.

What leaves is to look as what came in did, and only the data knows how that was: whether Spark
called a column nullable, and its datetimes timestamps. So a column has the looks of its origins.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from caladan.analysis.core import CoreRule
from caladan.program import Aggregate, Expression, Variable
from caladan.rules.program import DeltaProgram

Origin: TypeAlias = tuple[str, int]
"""A column of data: the name that the user has for the relation, and the place of the column."""

MADE: Final[Origin] = ("", 0)
"""The origin of values that a rule computes, or that the program has."""

_CARRIED: Final = ("min", "max", "mmin", "mmax")


def origins(program: DeltaProgram) -> dict[str, tuple[frozenset[Origin], ...]]:
    """The origins of all relations' columns; they grow until no rule adds to them."""
    known: dict[Origin, frozenset[Origin]] = {}
    for name, info in program.relations.items():
        for i in range(info.arity):
            given = {(info.origin, i)} if info.takes_data else set[Origin]()
            known[name, i] = frozenset(given | ({MADE} if program.facts.get(name) else set()))
    rules = list({each.rule.place: each.rule for each in program.rules}.values())
    is_growing = True
    while is_growing:
        is_growing = False
        for rule in rules:
            for i, argument in enumerate(rule.arguments):
                before = known[rule.head, i]
                known[rule.head, i] = before | _of(argument, rule, known)
                is_growing |= known[rule.head, i] != before
    return {
        name: tuple(known[name, i] for i in range(info.arity))
        for name, info in program.relations.items()
    }


def _of(
    argument: Expression, rule: CoreRule, known: dict[Origin, frozenset[Origin]]
) -> frozenset[Origin]:
    if isinstance(argument, Aggregate) and argument.function in _CARRIED:
        argument = argument.terms[-1]
    places = [
        (atom.relation, i)
        for atom in rule.positive
        for i, term in enumerate(atom.arguments)
        if isinstance(argument, Variable) and term == argument
    ]
    return frozenset().union(*map(known.__getitem__, places)) if places else frozenset({MADE})
