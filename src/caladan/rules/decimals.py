"""How many digits a column of decimals may have: as many as the data that flows into it.

Inside, every decimal has 38 digits, 18 of them after the point. On the way out a column gets the
width of what it was made of: that of the data, if its values come from one place; the least that
holds all of them, if they come from several; the full width, if they are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Final

from caladan.analysis.core import CoreRule
from caladan.program import Aggregate, Constant, Expression, Type, Variable
from caladan.program.notation import WIDEST, Width, Widths, wider, width_of
from caladan.rules.program import DeltaProgram

_CARRIED: Final = ("min", "max", "mmin", "mmax")


def widths(program: DeltaProgram, given: Mapping[str, Widths]) -> dict[str, Widths]:
    """The widths of all relations' columns; `given` has those of data.

    What a column may hold grows until no rule adds to it; a column that nothing flows into, and one
    that is not of decimals, is as wide as can be.
    """
    known: dict[tuple[str, int], Width] = {}
    for name, info in program.relations.items():
        for i, type in enumerate(info.types):
            if type is Type.DECIMAL:
                if info.takes_data:
                    _grow(known, name, i, given[name][i] if name in given else WIDEST)
                for fact in program.facts.get(name, ()):
                    _grow(known, name, i, width_of(fact[i]))
    rules = {each.rule.place: each.rule for each in program.rules}.values()
    heads = {name: info.types for name, info in program.relations.items()}
    is_growing = True
    while is_growing:
        is_growing = False
        for rule in rules:
            is_growing |= _apply(rule, heads[rule.head], known)
    return {
        name: tuple(known.get((name, i), WIDEST) for i in range(info.arity))
        for name, info in program.relations.items()
    }


def _apply(rule: CoreRule, types: Sequence[Type], known: dict[tuple[str, int], Width]) -> bool:
    """Have what a rule derives flow into its head; whether that was news."""
    news = False
    for i, argument in enumerate(rule.arguments):
        if types[i] is Type.DECIMAL:
            found = _of(argument, rule, known)
            news |= found is not None and _grow(known, rule.head, i, found)
    return news


def _of(
    argument: Expression, rule: CoreRule, known: Mapping[tuple[str, int], Width]
) -> Width | None:
    """The width of what an argument may be; None while nothing is known to flow into it."""
    if isinstance(argument, Aggregate) and argument.function in _CARRIED:
        argument = argument.terms[-1]
    if isinstance(argument, Constant):
        return width_of(argument.value)
    if not isinstance(argument, Variable):
        return WIDEST
    places = [
        (atom.relation, i)
        for atom in rule.positive
        for i, term in enumerate(atom.arguments)
        if term == argument
    ]
    return _in_all([known.get(place) for place in places]) if places else WIDEST


def _in_all(found: Iterable[Width | None]) -> Width | None:
    """The width of values that are in several places at once: the narrowest will do."""
    met = list(found)
    if None in met:
        return None
    return reduce(_narrower, (width for width in met if width is not None))


def _narrower(one: Width, other: Width) -> Width:
    scale = min(one[1], other[1])
    whole = min(one[0] - one[1], other[0] - other[1])
    return (whole + scale or 1, scale)


def _grow(known: dict[tuple[str, int], Width], name: str, column: int, width: Width) -> bool:
    before = known.get((name, column))
    after = width if before is None else wider(before, width)
    known[name, column] = after
    return after != before
