"""What is solved for shapes, and for rules on top of layouts, as far as rules tell it before a run.

    links(shape, …)    the rules that a shape has solved first
    top(clique, …)     what may take the rules of a relation that reads what may be layouts

A relation may be a layout if its clique has a shape, or if it is itself on top of one. Whether it
is, and has facts enough, only a run can tell: so everything here has a condition.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.fixpoint.blueprint import OVERLAY
from caladan.fixpoint.shapes.halves import Halves, around, parted, refusals, spelled_out
from caladan.fixpoint.shapes.pairs import Declined
from caladan.program import Variable, thresholds
from caladan.rules.body import names
from caladan.rules.program import DeltaClique, DeltaRule
from caladan.rules.shapes.forms import (
    Closure,
    Distances,
    Generations,
    Labels,
    Link,
    Reachability,
    Shape,
    Sides,
)
from caladan.rules.shapes.literals import atom_rules
from caladan.rules.shapes.recognise import entered

Folds: TypeAlias = Mapping[str, Sides]
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
    sides: Sides | None
    reasons: tuple[str, ...]


def folds(shape: Shape) -> dict[str, Sides]:
    """The layouts that a shape may leave."""
    match shape:
        case Closure() | Generations():
            return dict(shape.sides)
        case _:
            return {}


def links(
    shape: Shape, relations: Mapping[str, RelationInfo], known: Folds, when: str
) -> Iterator[LinkRule]:
    """What a shape has solved first, when it is taken."""
    rules = list(shape.rules)
    if isinstance(shape, Distances | Closure):
        steps = shape.steps if isinstance(shape, Closure) else [w.step for w in shape.steps]
        sides = shape.sides if isinstance(shape, Closure) else {shape.relation: shape.sides}
        for step in steps:
            if not step.is_open:
                rules += (step.conditions(r, s, relations[r]) for r, s in sides.items())
            rules += step.tests
    if isinstance(shape, Generations):
        for pace in shape.paces:
            rules += atom_rules(pace.rule, (*pace.leaving, *pace.arriving))
    for rule in rules:
        yield LinkRule(rule, when)
    if isinstance(shape, Closure | Reachability | Labels):
        steps = [w.step for w in shape.steps] if isinstance(shape, Labels) else shape.steps
        for step in steps:
            for link in step.links:
                yield from _through(link, relations, known)


def _through(link: Link, relations: Mapping[str, RelationInfo], known: Folds) -> Iterator[LinkRule]:
    """The sides of a link that may be a closure itself."""
    if link.rule is None:
        return
    wanted = names(*(a for a in link.rule.arguments if isinstance(a, Variable)))
    for atom in link.rule.positive:
        if atom.relation in known:
            info = relations[atom.relation]
            large = [a for a in link.rule.positive if a.relation in known]
            body = parted(link.rule, atom, known[atom.relation], info, wanted, large)
            if body is not None and not body.tests:
                yield from _sides(body, _when([atom.relation]))


def _sides(body: Halves, when: str) -> Iterator[LinkRule]:
    yield LinkRule(body.left, when)
    yield LinkRule(body.right, when)


def _when(large: Sequence[str], conjunction: str = "and") -> str:
    several = "are layouts" if len(large) > 1 and conjunction == "and" else "is a layout"
    them = f" {conjunction} ".join(large)
    return f"if {them} {several} of at least {thresholds.now.folded:,} facts"


def top(
    clique: DeltaClique,
    shape: Shape | None,
    relations: Mapping[str, RelationInfo],
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
    sides: Sides | None = None
    reasons: dict[str, None] = {}
    whole = entered(shape, clique, relations, lambda atom: atom.relation in known)
    if whole is not None:
        strategies[whole.name], (sides,) = _when(large), whole.sides.values()
        for link in (link for step in whole.entries for link in step.links):
            if link.rule is not None:
                solving.append(LinkRule(link.rule, _when(large)))
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
                strategies[OVERLAY] = _when(large, "or")
                solving += _sides(body, _when(some))
                tests = atom_rules(rule.rule, body.tests)
                solving += (LinkRule(each, _when(some)) for each in tests)
                sides = sides or _headed(rule, body, relations[rule.rule.head].arity)
    return Top(strategies, tuple(_distinct(solving)), sides, tuple(reasons))


def _distinct(solving: Sequence[LinkRule]) -> Iterator[LinkRule]:
    return (each for i, each in enumerate(solving) if each not in solving[:i])


def _headed(rule: DeltaRule, body: Halves, arity: int) -> Sides | None:
    """The columns of the head that come from each side of a body; None if one side has all."""
    left, right = (names(*each.arguments) for each in (body.left, body.right))
    read = [names(each) for each in rule.body.columns[:arity]]
    first = tuple(i for i, each in enumerate(read) if each <= left)
    second = tuple(i for i, each in enumerate(read) if i not in first and each <= right)
    apart = len(first) + len(second) == arity
    return Sides(first, second) if apart and second and any(read[i] for i in first) else None
