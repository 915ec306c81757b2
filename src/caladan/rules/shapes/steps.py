"""Rules that carry some columns and step the others: their literals, taken apart.

    step_of(rule, …)   the step of a recursive rule
    entry(rule, …)     an exit rule as a step from what is carried
    divided(…)         literals by what they connect: the carried side, an end of the step, both

A step is a path of links. Literals on the carried columns alone, such as the demand of a bound
query or `X > 10`, are a condition on the facts that a rule applies to; those that connect the
carried columns with one end of a step, such as `X ~= Z`, are tested as it is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.program import Constant, Expression, Variable, variables
from caladan.rules.shapes.forms import Link, Sides, Step
from caladan.rules.shapes.literals import (
    Literal,
    body_rule,
    connected,
    is_plain,
    is_positive,
    literal_names,
    named,
    without,
)


def step_of(
    rule: CoreRule, sides: Mapping[str, Sides], chosen: CoreAtom | None = None
) -> Step | None:
    """A rule that carries the one side and steps the other; None if it does something else.

    Its recursive atom is the only one that has sides, or the one that was chosen: others have exit
    facts.
    """
    mine = [a for a in rule.atoms if a.relation in sides]
    if (chosen is None and len(mine) != 1) or mine[0].negated:
        return None
    atom = chosen or mine[0]
    source, target = sides[atom.relation], sides[rule.head]
    carried = tuple(atom.arguments[i] for i in source.carried)
    if carried != tuple(rule.arguments[i] for i in target.carried):
        return None
    pattern = tuple(atom.arguments[i] for i in source.stepping)
    head = tuple(rule.arguments[i] for i in target.stepping)
    kept, before = named(carried), named(pattern)
    after = tuple(dict.fromkeys(v.name for v in variables(*head)))
    if {*kept} & {*before, *after} or (pattern == head and atom.relation == rule.head):
        return None
    literals: list[Literal] = [a for a in rule.atoms if a is not atom]
    literals += rule.comparisons
    parts = divided(literals, kept, before, after, named(head))
    if parts is None:
        return None
    rest, along = parts.rest, parts.along
    # What only an atom with carried variables binds may be anything that it has for any of them.
    bound = {*before}.union(*(literal_names(a) for a in rest if is_positive(a)))
    for each in parts.arriving:
        if (
            isinstance(each, CoreAtom)
            and is_positive(each)
            and {*each.variables} & {*after} - bound
        ):
            held = [*map(Variable, (*kept, *parts.looked))]
            terms = (Variable("_") if term in held else term for term in each.arguments)
            rest = [*rest, replace(each, arguments=tuple(terms))]
    read = tuple(name for name in before if name in literal_names(*rest, *along) or name in after)
    between = literal_names(*along) - parts.unread - {*kept, *parts.looked}
    middle = tuple(dict.fromkeys((*read, *after, *sorted(between))))
    links = _split(rule, rest, read, middle, after) if along else _links(rule, rest, read, after)
    known = {*read}.union(*(literal_names(a) for a in rest if is_positive(a)))
    explores = links is None
    if pattern == head and len(named(head)) == len(head) and literal_names(*rest) <= {*after}:
        explores = False  # it hands facts on
    elif links is None and not known.issuperset((*after, *middle, *literal_names(*rest))):
        return None
    return Step(
        rule, atom.relation, rule.head, pattern, head, read, after, links or (),
        carried, parts.condition, parts.leaving, parts.arriving, tuple(along), middle,
        tuple(rest), parts.looked, explores,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class LiteralParts:
    """The literals beside a recursive atom, by what they connect (see `Step`)."""

    rest: list[Literal]
    looked: tuple[str, ...]
    condition: tuple[Literal, ...]
    leaving: tuple[Literal, ...]
    arriving: tuple[Literal, ...]
    along: list[Literal]
    unread: frozenset[str]


def divided(
    literals: list[Literal],
    kept: tuple[str, ...],
    before: tuple[str, ...],
    after: tuple[str, ...],
    made: tuple[str, ...],
) -> LiteralParts | None:
    """Literals by whether they read what is carried, or the ends of a step; None if all are mixed.

    The head has the variables `after`, those of them that are `made` in columns of their own.
    """
    unread = _unread(literals, {*kept, *before, *after})
    looked = _looked_up(literals, kept, (*before, *after))
    kept += looked
    leaving = _bridges(literals, kept, before, unread)
    arriving = _bridges(without(literals, leaving), kept, made, unread)
    rest = without(literals, (*leaving, *arriving))
    along = _along(rest, kept, before, after, unread)
    condition, names = connected(without(rest, along), kept)
    if names & {*before, *after}:
        return None
    rest = without(rest, (*condition, *along))
    ends = tuple(leaving), tuple(arriving)
    return LiteralParts(rest, looked, tuple(condition), *ends, along, unread)


def _looked_up(
    literals: list[Literal], kept: tuple[str, ...], ends: tuple[str, ...]
) -> tuple[str, ...]:
    """What atoms find for the carried side, and another literal compares with a step.

    In src(K, X), src(L, Z), K < L that is K: L is found along the step.
    """
    positive = [a for a in literals if isinstance(a, CoreAtom) and not a.negated]
    _, inside = connected([a for a in positive if not literal_names(a) & {*kept}], ends)
    mine = [a for a in positive if not literal_names(a) & inside]
    _, found = connected(mine, kept)
    others = (literal_names(each) for each in without(literals, mine))
    return tuple(sorted({n for some in others if some & inside for n in some & found - {*kept}}))


def _unread(literals: list[Literal], known: set[str]) -> frozenset[str]:
    """The variables that stand in one positive atom and nowhere else: whatever they may be."""
    return frozenset(
        name
        for each in literals
        if isinstance(each, CoreAtom) and not each.negated
        for name in literal_names(each) - known
        if name not in literal_names(*without(literals, [each]))
    )


def whole_step(
    rule: CoreRule,
    atom: CoreAtom,
    pattern: tuple[Expression, ...],
    head: tuple[Expression, ...],
    literals: list[Literal],
) -> Step | None:
    """A step by some literals, from terms of an atom to others: by one link, or explored."""
    before, after = named(pattern), tuple(dict.fromkeys(v.name for v in variables(*head)))
    read = tuple(name for name in before if name in (*literal_names(*literals), *after))
    link = _link(rule, literals, read, after)
    terms = tuple(term for term in pattern if isinstance(term, Variable | Constant))
    step = Step(
        rule, atom.relation, rule.head, terms, head, read, after, rest=tuple(literals),
        links=() if link is None else (link,),
    )  # fmt: skip
    if link is not None and link.rule is not None and step.is_plain and len(read) == len(head) == 1:
        return step if isinstance(head[0], Variable) else None
    known = {*read}.union(*(literal_names(a) for a in literals if is_positive(a)))
    if not known.issuperset((*after, *literal_names(*literals))):
        return None
    return replace(step, links=(), explores=True)


def entry(rule: CoreRule, sides: Sides) -> Step | None:
    """An exit rule as a step from the carried columns of its head to the stepping ones."""
    carried, head = ([rule.arguments[i] for i in side] for side in (sides.carried, sides.stepping))
    source, target = named(carried), named(head)
    literals: list[Literal] = [*rule.atoms, *rule.comparisons]
    if not is_plain(rule) or rule.order or rule.limit is not None:
        return None
    links = _links(rule, literals, source, target)
    if links is None:
        return None
    terms = tuple(Variable(name) for name in source), tuple(Variable(name) for name in target)
    return Step(rule, rule.head, rule.head, *terms, source, target, links)


def _bridges(
    literals: list[Literal], kept: tuple[str, ...], end: tuple[str, ...], unread: frozenset[str]
) -> list[Literal]:
    """The literals that have variables of the carried side and of one end of a step, no others."""
    found = [(each, literal_names(each) - unread) for each in literals]
    return [
        each
        for each, names in found
        if names & {*kept} and names & {*end} and names <= {*kept, *end}
    ]


def _along(
    literals: list[Literal],
    kept: tuple[str, ...],
    before: tuple[str, ...],
    after: tuple[str, ...],
    unread: frozenset[str],
) -> list[Literal]:
    """The literals that connect the carried side with what a step goes through."""
    free = [each for each in literals if not literal_names(each) & {*kept}]
    _, inside = connected(free, (*before, *after))
    bound = {n for a in free if isinstance(a, CoreAtom) and not a.negated for n in a.variables}
    found = [(each, literal_names(each) - unread) for each in literals]
    return [
        each
        for each, names in found
        if names & {*kept} and names & inside and names - {*kept} <= (bound & inside)
    ]


def _split(
    rule: CoreRule,
    literals: list[Literal],
    source: tuple[str, ...],
    middle: tuple[str, ...],
    target: tuple[str, ...],
) -> tuple[Link, ...] | None:
    """The links of a step with a place for all that it goes through."""
    ends = _link(rule, literals, source, middle), _link(rule, literals, middle, target)
    return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])


def _links(
    rule: CoreRule, literals: list[Literal], source: tuple[str, ...], target: tuple[str, ...]
) -> tuple[Link, ...] | None:
    """A path of pairs from source to target, cut wherever one variable alone connects its parts."""
    if len(source) == len(target) == 1 and source != target:
        for cut in dict.fromkeys(n for each in literals for n in sorted(literal_names(each))):
            near, names = connected(literals, source, stop=cut)
            if cut in (*source, *target) or target[0] in names or cut not in names:
                continue
            far = without(literals, near)
            first = _links(rule, near, source, (cut,))
            second = _links(rule, far, (cut,), target)
            if first is not None and second is not None:
                return first + second
    near, names = connected(literals, source)
    if not names & {*target}:
        # Nothing connects the two: whatever can leave goes wherever can be arrived at.
        ends = _link(rule, near, source, ()), _link(rule, without(literals, near), (), target)
        return None if ends[0] is None or ends[1] is None else (ends[0], ends[1])
    whole = _link(rule, literals, source, target)
    return None if whole is None else (whole,)


def _link(
    rule: CoreRule, literals: list[Literal], source: tuple[str, ...], target: tuple[str, ...]
) -> Link | None:
    if not source and not target:
        return None if literals else Link(None, 0)
    pairs = body_rule(rule, literals, (*source, *target))
    if pairs is None:
        return None
    wanted = {*source, *target}
    holds = any(isinstance(a, CoreAtom) and wanted <= {*a.variables} for a in literals)
    return Link(pairs, len(source), not holds)
