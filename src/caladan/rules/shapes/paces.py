"""Rules that step two sides at once: p(X, Y) <- l(A, X), p(A, B), r(B, Y).

A side may stay as it is, `p(X, Y) <- p(X, B), r(B, Y)`, so that rules which step one side go
together with those that step the other, or both. The two may be exchanged, `p(X, Y) <- p(Y, X)`,
and joined, `p(X, Z) <- p(X, Y), q(Y, Z)`. Literals on both sides, `X ~= Y` or `A + B > 7`, are
tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.program import Comparison, Expression, Variable, names
from caladan.program.transform import replace_in
from caladan.rules.shapes.forms import Generations, Pace, Sides, Step, Terms
from caladan.rules.shapes.literals import (
    Literal,
    are_apart,
    connected,
    is_plain,
    literal_names,
    named,
    without,
)
from caladan.rules.shapes.steps import whole_step


def generations_of(infos: Sequence[RelationInfo], rules: Sequence[CoreRule]) -> Generations | None:
    """The shape of relations whose rules step two sides that they agree upon."""
    for sides in _possible_sides(infos, rules):
        found = [_pace(rule, sides) for rule in rules]
        paces = tuple(pace for pace in found if pace is not None)
        if len(paces) == len(rules):
            return Generations(sides, paces)
    return None


def _possible_sides(
    infos: Sequence[RelationInfo], rules: Sequence[CoreRule]
) -> Iterator[Mapping[str, Sides]]:
    """Two columns, or one of those that some rule changes beside all others."""
    if all(info.arity == 2 for info in infos):
        yield {info.name: Sides((0,), (1,)) for info in infos}
    elif len(infos) == 1:
        (info,) = infos
        pairs = [(a, r) for r in rules for a in r.atoms if a.relation == info.name]
        for column in reversed(range(info.arity)):
            if any(atom.arguments[column] != rule.arguments[column] for atom, rule in pairs):
                others = tuple(c for c in range(info.arity) if c != column)
                yield {info.name: Sides(others, (column,))}


def swaps(rule: CoreRule, relation: str) -> bool:
    """p(X, Y) <- p(Y, X)."""
    if rule.comparisons or len(rule.atoms) != 1 or rule.atoms[0].relation != relation:
        return False
    return is_plain(rule) and rule.atoms[0].arguments == rule.arguments[::-1]


def _pace(rule: CoreRule, sides: Mapping[str, Sides]) -> Pace | None:
    """What a rule does to two sides; None if that cannot be told apart."""
    mine = [a for a in rule.atoms if a.relation in sides]
    head = _terms(rule.arguments, sides[rule.head])
    if any(atom.negated for atom in mine):
        return None
    if len(mine) == 2:
        return _join(rule, mine[0], mine[1], head, sides) or _join(
            rule, mine[1], mine[0], head, sides
        )
    if len(mine) != 1:
        return None
    body = _terms(mine[0].arguments, sides[mine[0].relation])
    straight = _apart(rule, mine[0], body, head, crosses=False)
    return straight or _apart(rule, mine[0], body, head, crosses=True)


def _terms(terms: Sequence[Expression], sides: Sides) -> Terms:
    return tuple(terms[i] for i in sides.carried), tuple(terms[i] for i in sides.stepping)


def _apart(
    rule: CoreRule, atom: CoreAtom, body: Terms, head: Terms, *, crosses: bool
) -> Pace | None:
    """A rule with one recursive atom, whose sides no literal connects but for tests."""
    first, second = body[::-1] if crosses else body
    near, far = _names(*first, *head[0]), _names(*second, *head[1])
    if near & far or len(first) != len(head[0]):
        return None
    literals = without([*rule.atoms, *rule.comparisons], [atom])
    arriving = [each for each in literals if _joins(each, head)]
    leaving = [each for each in without(literals, arriving) if _joins(each, body)]
    literals = without(literals, (*arriving, *leaving))
    on_left, reached = connected(literals, near)
    if reached & far:
        return None
    steps: list[Step | None] = []
    for mine, pattern, made in (
        (on_left, first, head[0]),
        (without(literals, on_left), second, head[1]),
    ):
        stays = pattern == made and len(named(pattern)) == len(pattern)
        if stays and all(isinstance(each, Comparison) for each in mine):
            arriving += mine
            steps.append(None)
            continue
        step = whole_step(rule, atom, pattern, made, mine)
        if step is None:
            return None
        steps.append(step)
    if crosses:  # bit by bit: the fewer the better
        leaving += [each for each in arriving if literal_names(each) <= _names(*body[0], *body[1])]
        arriving = without(arriving, leaving)
    apart = [each for each in arriving if _are_apart(each, head)]
    tests = tuple(leaving), tuple(without(arriving, apart))
    return Pace(rule, atom.relation, body, head, steps[0], steps[1], bool(apart), *tests, crosses)


def _join(
    rule: CoreRule, first: CoreAtom, last: CoreAtom, head: Terms, sides: Mapping[str, Sides]
) -> Pace | None:
    """p(X, Z) <- q(X, Y), w(Y, V), s(V, Z), with tests of X and Z, or of X and Y."""
    body = _terms(first.arguments, sides[first.relation])
    (begin, end) = _terms(last.arguments, sides[last.relation])
    ends = [named(terms) for terms in (head[0], body[1], begin, head[1])]
    outer, inner = {*ends[0], *ends[3]}, {*ends[1], *ends[2]}
    if body[0] != head[0] or end != head[1] or outer & inner or {*ends[0]} & {*ends[3]}:
        return None
    if any(
        len(some) < len(terms) for some, terms in zip(ends, (*body[::-1], begin, end), strict=True)
    ):
        return None
    literals = without([*rule.atoms, *rule.comparisons], [first, last])
    arriving = [each for each in literals if literal_names(each) <= outer]
    leaving = [each for each in without(literals, arriving) if _joins(each, body)]
    rest, reached = connected(without(literals, (*arriving, *leaving)), inner)
    if reached & outer or len(rest) + len(arriving) + len(leaving) < len(literals):
        return None
    step: Step | None = None
    if rest or body[1] != begin:
        step = whole_step(rule, first, body[1], begin, rest)
        if step is None:
            return None
    apart = [each for each in arriving if _are_apart(each, head)]
    tests = tuple(leaving), tuple(without(arriving, apart))
    rises = step is None and len(head[0]) == len(head[1]) == 1 and not (apart or leaving)
    rises = rises and all(_rises(each, head) for each in arriving)
    return Pace(
        rule, first.relation, body, head, None, step, bool(apart), *tests,
        second=last.relation, rises=rises,
    )  # fmt: skip


def _rises(literal: Literal, head: Terms) -> bool:
    """Whether a literal compares the same of both sides, X < Z or 2 * X >= 2 * Z: transitively."""
    if not isinstance(literal, Comparison) or literal.operator == "~=":
        return False
    (one,), (other,) = (named(terms) for terms in head)
    if names(literal.left) == frozenset([other]):
        one, other = other, one
    moved = replace_in(literal.left, lambda t: Variable(other) if t == Variable(one) else None)
    return names(literal.left) == frozenset([one]) and moved == literal.right


def _names(*terms: Expression) -> frozenset[str]:
    return frozenset(name for term in terms for name in names(term))


def _joins(literal: Literal, ends: Terms) -> bool:
    """Whether a literal is a test of both sides: it has variables of each, and no others."""
    mine, left, right = literal_names(literal), {*named(ends[0])}, {*named(ends[1])}
    return bool(mine & left and mine & right) and mine <= left | right


def _are_apart(literal: Literal, head: Terms) -> bool:
    """Whether a literal says that two words differ, and no more."""
    both = (*named(head[0]), *named(head[1]))
    return len(both) == 2 and are_apart(literal, both[0], both[1])
