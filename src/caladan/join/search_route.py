"""Bodies that are searched whole: which of their parts take part in the search, and as what.

    before   constants, the delta, and what follows from it
    GuidedSearch     all other atoms; comparisons, equations and negated atoms over their variables
    after    what is computed of the solutions, and tests that may fail before

A variable that the body computes is replaced by its expression in the comparisons that read it, so
they cut where the variables of that expression are bound. Where arithmetic fails for a row inside
of the search, the row stays, and the test is made again at the end.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeVar

from caladan.join.access import (
    Access,
    Check,
    Compute,
    Equation,
    Exclude,
    GuidedSearch,
    Traits,
    probe,
)
from caladan.join.core_route import bound_by
from caladan.join.selections import Selections, can_fail, equation_of, solved
from caladan.program import Arithmetic, Call, Comparison, Constant, Expression, Variable
from caladan.program.transform import replace_in, walk
from caladan.rules.body import Body, Version, names

_Node = TypeVar("_Node")


def guided_route(body: Body, traits: Traits, grade: str, least: int = 2) -> list[Access] | None:
    """The steps of a body that is searched whole, behind its delta; None if it has few atoms."""
    pending = Selections(body)
    before = pending.ready(frozenset())
    left = list(body.atoms)
    first = next((scan for scan in left if scan.version is Version.DELTA), None)
    if first is not None:
        left.remove(first)
        before.append(probe(first, bound_by(before), traits))
        before += pending.ready(bound_by(before))
    if len(left) < least:
        return None
    inside = bound_by(before).union(*(scan.variables for scan in left))
    computed: dict[str, Expression] = {}
    cuts: list[Check | Exclude | Equation] = []
    after: list[Access] = []
    for step in pending.ready(inside):
        match step:
            case Check():
                comparison = _replaced(step.comparison, computed)
                takes_part = names(comparison) <= inside
                if takes_part:
                    cuts.append(_cut(comparison, body, bound_by(before)))
                if not takes_part or can_fail(step):
                    after.append(step)
            case Exclude() if step.bound and inside.issuperset(step.scan.variables):
                cuts.append(step)
            case Compute():
                computed[step.variable] = _replaced(step.expression, computed)
                after.append(step)
            case _:
                after.append(step)
    return [*before, GuidedSearch(tuple(left), tuple(cuts), grade), *after]


def _replaced(node: _Node, computed: Mapping[str, Expression]) -> _Node:
    """An expression or a comparison in variables of atoms alone, as far as that can be had."""
    return replace_in(
        node, lambda each: computed.get(each.name) if isinstance(each, Variable) else None
    )


def _cut(comparison: Comparison, body: Body, bound: Collection[str]) -> Check | Equation:
    """A comparison as it takes part: one that can be solved proposes as well."""
    if comparison.operator != "=":
        return Check(comparison)
    every = names(comparison)
    own = next((each for each in body.bindings if equation_of(each) == comparison), None)
    found: dict[str, Compute] = {}
    for name in sorted(every.difference(bound)):
        if (given := solved(comparison, every - {name}, body.types)) is not None:
            found[name] = given[0]
        elif own is not None and own.variable == name and name not in names(own.expression):
            found[name] = Compute(name, own.expression, True)
    total = tuple(each for each in found.values() if _is_total(each.expression))
    return Equation(comparison, total) if total else Check(comparison)


def _is_total(expression: Expression) -> bool:
    """Whether an expression has a value for all numbers, or leaves 64 bits."""
    for node in walk(expression):
        match node:
            case Arithmetic("+" | "-" | "*"):
                pass
            case Arithmetic("div", _, Constant() as divisor) if divisor.value:
                pass
            case Arithmetic() | Call():
                return False
            case _:
                pass
    return True
