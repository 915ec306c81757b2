"""What is solved for closures, and for rules on top of layouts, as far as rules alone tell it.

    links(closure, …)  the rules that a closure has solved first
    top(clique, …)     what may take the rules of a relation that reads what may be layouts

A relation may be a layout if its clique is a closure, or if it is itself on top of one. Whether it
is, and has facts enough, only a run can tell: so everything here has a condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from caladan.analysis.core import CoreRule
from caladan.fixpoint.blueprint import OVERLAY
from caladan.fixpoint.shapes.halves import Halves, around, refusals, spelled_out, split_body
from caladan.fixpoint.shapes.pairs import Declined
from caladan.plan.literals import atom_rules
from caladan.plan.recursion import Closure, Link, RelationInfos, Split, enter
from caladan.program import Variable, thresholds
from caladan.rules.body import names
from caladan.rules.program import DeltaClique, DeltaRule

Folds: TypeAlias = Mapping[str, Split]
"""Relations that may be layouts, with the columns of their two sides."""


@dataclass(frozen=True, slots=True)
class LinkRule:
    """A rule that is solved for a shape or an overlay, and when."""

    rule: CoreRule
    when: str


@dataclass(frozen=True, slots=True)
class Top:
    """A clique that reads what may be layouts: what may take its exit rules, and when.

    Then some rules are solved, and the clique may be a layout with such `sides`. If nothing may
    take them, there are reasons.
    """

    strategies: Mapping[str, str]
    solving: tuple[LinkRule, ...]
    sides: Split | None
    reasons: tuple[str, ...]


def folds(closure: Closure) -> dict[str, Split]:
    """The layouts that a closure may leave."""
    is_folded = closure.function is None and all(s.carried for s in closure.splits.values())
    return dict(closure.splits) if is_folded else {}


def links(
    closure: Closure, relations: RelationInfos, known: Folds, when: str
) -> Iterator[LinkRule]:
    """What a closure has solved first, when it is taken."""
    rules = list(closure.rules)
    has_sources = not closure.is_two_sided or closure.is_both_ends
    for step in closure.steps:
        if has_sources and not step.is_open:
            rules += (step.conditions(r, s, relations[r]) for r, s in closure.splits.items())
        rules += step.tests
    for rule in rules:
        yield LinkRule(rule, when)
    if closure.is_labels or (closure.function is None and has_sources):
        for link in (link for step in closure.steps for edge in step.edges for link in edge.links):
            yield from _through(link, relations, known)


def _through(link: Link, relations: RelationInfos, known: Folds) -> Iterator[LinkRule]:
    """The sides of a link that may be a closure itself."""
    if link.rule is None:
        return
    wanted = names(*(a for a in link.rule.arguments if isinstance(a, Variable)))
    for atom in link.rule.positive:
        if atom.relation in known:
            info = relations[atom.relation]
            large = [a for a in link.rule.positive if a.relation in known]
            body = split_body(link.rule, atom, known[atom.relation], info, wanted, large)
            if body is not None and not body.tests:
                yield from _sides(body, _describe_condition([atom.relation]))


def _sides(body: Halves, when: str) -> Iterator[LinkRule]:
    yield LinkRule(body.left, when)
    yield LinkRule(body.right, when)


def _describe_condition(large: Sequence[str], conjunction: str = "and") -> str:
    several = "are layouts" if len(large) > 1 and conjunction == "and" else "is a layout"
    them = f" {conjunction} ".join(large)
    return f"if {them} {several} of at least {thresholds.now.folded:,} facts"


def top(
    clique: DeltaClique,
    closure: Closure | None,
    relations: RelationInfos,
    known: Folds,
) -> Top | None:
    """What may take the exit rules of a clique; None if they read no relation that may be a layout.

    Which of several relations is one is not known, so each is looked at by itself, and all at once.
    """
    bodies = [each.rule for each in clique.exit_rules]
    read = [a.relation for rule in bodies for a in (*rule.positive, *refusals(rule))]
    large = [name for name in dict.fromkeys(read) if name in known]
    if not large:
        return None
    strategies: dict[str, str] = {}
    solving: list[LinkRule] = []
    sides: Split | None = None
    reasons: dict[str, None] = {}
    whole = enter(closure, clique.relations, bodies, relations, lambda a: a.relation in known)
    if whole is not None:
        strategies[whole.solver], (sides,) = _describe_condition(large), whole.splits.values()
        for link in (link for step in whole.entries for link in step.links):
            if link.rule is not None:
                solving.append(LinkRule(link.rule, _describe_condition(large)))
            solving += _through(link, relations, known)
    if not clique.is_recursive:
        for some in [[name] for name in large] + [large] * (len(large) > 1):
            mine = {name: known[name] for name in some}
            for rule in map(spelled_out, clique.exit_rules):
                try:
                    _, body = around(rule, relations, lambda a, mine=mine: mine.get(a.relation))
                except Declined as reason:
                    reasons[str(reason)] = None
                    continue
                strategies[OVERLAY] = _describe_condition(large, "or")
                solving += _sides(body, _describe_condition(some))
                tests = atom_rules(rule.rule, body.tests)
                solving += (LinkRule(each, _describe_condition(some)) for each in tests)
                sides = sides or _find_sides(rule, body, relations[rule.rule.head].arity)
    return Top(strategies, tuple(_distinct(solving)), sides, tuple(reasons))


def _distinct(solving: Sequence[LinkRule]) -> Iterator[LinkRule]:
    return (each for i, each in enumerate(solving) if each not in solving[:i])


def _find_sides(rule: DeltaRule, body: Halves, arity: int) -> Split | None:
    """The columns of the head that come from each side of a body; None if one side has all."""
    left, right = (names(*each.arguments) for each in (body.left, body.right))
    read = [names(each) for each in rule.body.columns[:arity]]
    first = tuple(i for i, each in enumerate(read) if each <= left)
    second = tuple(i for i, each in enumerate(read) if i not in first and each <= right)
    apart = len(first) + len(second) == arity
    return Split(first, second) if apart and second and any(read[i] for i in first) else None
