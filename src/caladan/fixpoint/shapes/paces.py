"""Rules that step two columns at once: p(X, Y) <- l(A, X), p(A, B), r(B, Y).

A side may be handed on as it is, `p(X, Y) <- p(X, B), r(B, Y)`, so that rules which step one column
go together with those that step the other, or both. Columns that stay what they are go along with
the first of the two; literals on both sides, `X ~= Y` or `A + B > 7`, are tests.
"""

from __future__ import annotations

from caladan.analysis.core import CoreAtom, CoreRule, Term
from caladan.fixpoint.shapes.forms import Generations, Literal, Pace
from caladan.fixpoint.shapes.literals import (
    are_apart,
    connected,
    is_plain,
    literal_names,
    named,
    without,
)
from caladan.fixpoint.shapes.stepping import solved
from caladan.program import Comparison


def generations_of(relation: str, rules: list[CoreRule]) -> Generations | None:
    """The shape of a relation all of whose rules step one or both of the same two columns."""
    swapping = [rule for rule in rules if swaps(rule, relation)]
    stepping = [rule for rule in rules if all(rule is not each for each in swapping)]
    atoms = [[a for a in rule.atoms if a.relation == relation] for rule in stepping]
    if not stepping or any(len(mine) != 1 or mine[0].negated for mine in atoms):
        return None
    heads = [rule.arguments for rule in stepping]
    changed = {
        i
        for (atom,), head in zip(atoms, heads, strict=True)
        for i, (one, other) in enumerate(zip(atom.arguments, head, strict=True))
        if one != other
    }
    if len(changed) != 2:
        return None
    first, second = sorted(changed)
    stays = tuple(i for i in range(len(heads[0])) if i not in changed)
    found = [
        _pace(rule, mine[0], (first, second), stays)
        for rule, mine in zip(stepping, atoms, strict=True)
    ]
    paces = tuple(pace for pace in found if pace is not None)
    tested = any(pace.leaving or pace.arriving for pace in paces)
    if len(paces) < len(found) or (swapping and (stays or tested)):
        return None
    return Generations(relation, (first, second), stays, paces, bool(swapping))


def swaps(rule: CoreRule, relation: str) -> bool:
    """p(X, Y) <- p(Y, X)."""
    if rule.comparisons or len(rule.atoms) != 1 or rule.atoms[0].relation != relation:
        return False
    return is_plain(rule) and rule.atoms[0].arguments == rule.arguments[::-1]


def _pace(
    rule: CoreRule, atom: CoreAtom, columns: tuple[int, int], stays: tuple[int, ...]
) -> Pace | None:
    """What a rule does to two columns; None if that cannot be told apart."""
    body, head = (named(terms[i] for i in columns) for terms in (atom.arguments, rule.arguments))
    beside: tuple[Term, ...] = tuple(atom.arguments[i] for i in stays)
    ends = {*body, *head}
    if len(body) != 2 or len(head) != 2 or body[0] == head[1] or body[1] == head[0]:
        return None
    literals = without([*rule.atoms, *rule.comparisons], [atom])
    names = named(beside)
    if {*names} & (ends | literal_names(*literals)) or len({*beside}) < len(beside):
        return None
    apart = [each for each in literals if are_apart(each, *head)]
    literals = without(literals, apart)
    arriving = [each for each in literals if _joins(each, head)]
    leaving = [each for each in without(literals, arriving) if _joins(each, body)]
    literals = without(literals, (*arriving, *leaving))
    on_left, reached = connected(literals, {body[0], head[0]})
    if reached & {body[1], head[1]}:
        return None
    sides: list[CoreRule | None] = []
    for mine, source, target in (
        (on_left, body[0], head[0]),
        (without(literals, on_left), body[1], head[1]),
    ):
        if source == target and all(isinstance(each, Comparison) for each in mine):
            arriving += mine
            sides.append(None)
            continue
        pairs = solved(rule, mine, (source, target))
        if pairs is None or not connected(mine, (source,))[1] >= {target}:
            return None
        sides.append(pairs)
    return Pace(
        rule, body, head, beside, sides[0], sides[1], bool(apart), tuple(leaving), tuple(arriving)
    )


def _joins(literal: Literal, ends: tuple[str, ...]) -> bool:
    """Whether a literal is a test of both sides: it has variables of these, and no others."""
    return literal_names(literal) == frozenset(ends)
