"""Where the values of a column come from, and so what it looks like on the way out.

What leaves is to look as what came in did, and only the data knows how that was. So what is known
of the columns of data flows along the rules into those that are derived, until no rule adds to it:

    origins   the columns of data themselves: whether Spark called them nullable, and their
              datetimes timestamps, is asked of each
    widths    how many digits a column of decimals may have. Inside, every decimal has 38 digits, 18
              of them after the point; on the way out a column gets the width of the data, if its
              values come from one place; the least that holds all of them, if they come from
              several; the full width, if they are computed
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from typing import Final, TypeAlias, TypeVar

from caladan.analysis.core import CoreRule
from caladan.program import Aggregate, Constant, Expression, Type, Variable
from caladan.program.notation import WIDEST, Width, Widths, wider, width_of
from caladan.rules.program import DeltaProgram

T = TypeVar("T")

Origin: TypeAlias = tuple[str, int]
"""A column of data: the name that the user has for the relation, and the place of the column."""

MADE: Final[Origin] = ("", 0)
"""The origin of values that a rule computes, or that the program has."""


def origins(program: DeltaProgram) -> dict[str, tuple[frozenset[Origin], ...]]:
    """The origins of all relations' columns."""
    known: dict[tuple[str, int], frozenset[Origin]] = {}
    for name, info in program.relations.items():
        for i in range(info.arity):
            given = {(info.origin, i)} if info.takes_data else set[Origin]()
            known[name, i] = frozenset(given | ({MADE} if program.facts.get(name) else set()))

    def of(argument: Expression, rule: CoreRule) -> frozenset[Origin]:
        places = _places(argument, rule)
        return frozenset().union(*map(known.__getitem__, places)) if places else frozenset({MADE})

    _flow(program, known, of, frozenset.union)
    return {
        name: tuple(known[name, i] for i in range(info.arity))
        for name, info in program.relations.items()
    }


def widths(program: DeltaProgram, given: Mapping[str, Widths]) -> dict[str, Widths]:
    """The widths of all relations' columns; `given` has those of data.

    A column that nothing flows into, and one that is not of decimals, is as wide as can be.
    """
    known: dict[tuple[str, int], Width] = {}
    for name, info in program.relations.items():
        for i, type in enumerate(info.types):
            if type is Type.DECIMAL:
                found = [width_of(fact[i]) for fact in program.facts.get(name, ())]
                if info.takes_data:
                    found.append(given[name][i] if name in given else WIDEST)
                if found:
                    known[name, i] = reduce(wider, found)

    def of(argument: Expression, rule: CoreRule) -> Width | None:
        if isinstance(argument, Constant):
            return width_of(argument.value)
        places = _places(argument, rule)
        return _in_all(map(known.get, places)) if places else WIDEST

    _flow(program, known, of, wider)
    return {
        name: tuple(
            known.get((name, i), WIDEST) if type is Type.DECIMAL else WIDEST
            for i, type in enumerate(info.types)
        )
        for name, info in program.relations.items()
    }


def _flow(
    program: DeltaProgram,
    known: dict[tuple[str, int], T],
    of: Callable[[Expression, CoreRule], T | None],
    both: Callable[[T, T], T],
) -> None:
    """Have what is known of columns flow into the heads of rules, until no rule adds to it.

    `of` is what is known of an argument, None while that is nothing; `both` holds two of them.
    """
    rules = list({each.rule.place: each.rule for each in program.rules}.values())
    is_growing = True
    while is_growing:
        is_growing = False
        for rule in rules:
            for i, argument in enumerate(rule.arguments):
                found, before = of(_carried(argument), rule), known.get((rule.head, i))
                if found is not None:
                    after = found if before is None else both(before, found)
                    known[rule.head, i] = after
                    is_growing |= after != before


def _carried(argument: Expression) -> Expression:
    """What the values of an argument are, where its aggregate makes no new ones."""
    if isinstance(argument, Aggregate) and argument.function in ("min", "max", "mmin", "mmax"):
        return argument.terms[-1]
    return argument


def _places(argument: Expression, rule: CoreRule) -> list[tuple[str, int]]:
    """The columns that a variable is bound by; none for what is computed."""
    return [
        (atom.relation, i)
        for atom in rule.positive
        for i, term in enumerate(atom.arguments)
        if isinstance(argument, Variable) and term == argument
    ]


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
