"""Binding patterns: which arguments of an atom are bound when its turn comes.

A pattern has a letter for each column, `b` bound and `f` free: `tc_bf`. `body_order` and
`body_patterns` follow how bindings travel through a body: from a head whose bound columns are
known, along the atoms that share variables with them; from a free head, in the order written.
"""

from __future__ import annotations

from collections.abc import Mapping

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.analysis.schedule import solve
from caladan.program import Constant, Variable


def free(arity: int) -> str:
    """The pattern without bindings."""
    return "f" * arity


def head_bindings(rule: CoreRule, pattern: str) -> set[str]:
    """The variables that a head's bound columns give."""
    return {
        a.name
        for a, letter in zip(rule.arguments, pattern, strict=True)
        if letter == "b" and isinstance(a, Variable)
    }


def body_order(rule: CoreRule, pattern: str, relations: Mapping[str, RelationInfo]) -> list[int]:
    """The positive atoms in the order bindings reach them.

    From a bound head, an atom that shares a bound variable comes first, and among those the stored
    ones, for they bind more at no cost.
    """
    positive = [i for i, a in enumerate(rule.atoms) if not a.negated]
    if "b" not in pattern:
        return positive
    bound = close(rule, head_bindings(rule, pattern))
    order: list[int] = []
    while positive:
        index = min(
            positive,
            key=lambda i: (
                not (bound & set(rule.atoms[i].variables) or _has_constant(rule, i)),
                relations[rule.atoms[i].relation].is_derived,
                i,
            ),
        )
        positive.remove(index)
        order.append(index)
        bound = close(rule, bound | set(rule.atoms[index].variables))
    return order


def body_patterns(
    rule: CoreRule, pattern: str, relations: Mapping[str, RelationInfo]
) -> dict[int, str]:
    """The binding pattern of every atom of a body, by its place in rule.atoms."""
    bound = close(rule, head_bindings(rule, pattern))
    patterns: dict[int, str] = {}
    for index in body_order(rule, pattern, relations):
        patterns[index] = _pattern(rule, index, bound)
        bound = close(rule, bound | set(rule.atoms[index].variables))
    for index, atom in enumerate(rule.atoms):
        if atom.negated:
            patterns[index] = _pattern(rule, index, bound)
    return patterns


def close(rule: CoreRule, bound: set[str]) -> set[str]:
    """What is bound, with what equalities bind from it."""
    bound = set(bound)
    steps = True
    while steps:
        found = (solve(c, bound, rule.types) for c in rule.comparisons)
        steps = [s.variable for s in found if s is not None and s.variable not in bound]
        bound.update(steps)
    return bound


def _pattern(rule: CoreRule, index: int, bound: set[str]) -> str:
    return "".join(
        "b" if isinstance(a, Constant) or a.name in bound else "f"
        for a in rule.atoms[index].arguments
    )


def _has_constant(rule: CoreRule, index: int) -> bool:
    return any(isinstance(a, Constant) for a in rule.atoms[index].arguments)
