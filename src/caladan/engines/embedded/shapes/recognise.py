"""Which cliques have a special structure: decided from the rules, before any data is seen.

`recognise` looks at a clique of one plain relation p and at its recursive rules.

    Reached      p(Y) <- p(X), step(X, Y)
    Carried      p(X, Z) <- p(X, Y), step(Y, Z)           carries the first column
                 p(X, Z) <- step(X, Y), p(Y, Z)           carries the second
                 p(X, Z) <- p(X, Y), p(Y, Z)              doubles
    Generations  p(X, Y) <- l(A, X), p(A, B), r(B, Y)     steps both

`step`, `l` and `r` stand for whatever else the body holds: one atom or several, negations and
comparisons, as long as it falls apart along the variables as shown. Each becomes a rule of its own
(`CoreRule` with two head columns), which the generic evaluator solves before the shape starts. A
condition on the carried column alone, such as the demand of a bound query, becomes a rule too.
Exit rules may be of any kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.delta.program import DeltaClique
from caladan.program import Comparison, Variable, variables

Literal: TypeAlias = CoreAtom | Comparison


@dataclass(frozen=True, slots=True)
class Step:
    """A recursive rule that carries a column: the pairs it steps by, from p's column to the head's.

    `column` is the carried one. `condition`, if there is one, selects the words of the carried
    column that the rule applies to.
    """

    column: int
    pairs: CoreRule
    condition: CoreRule | None


@dataclass(frozen=True, slots=True)
class Reached:
    """A unary relation that spreads along pairs."""

    relation: str
    pairs: tuple[CoreRule, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """A binary relation whose recursive rules each carry one column, or double."""

    relation: str
    steps: tuple[Step, ...]
    doubles: bool


@dataclass(frozen=True, slots=True)
class Generations:
    """A binary relation with one recursive rule, which steps both columns independently."""

    relation: str
    left: CoreRule
    right: CoreRule


Shape: TypeAlias = Reached | Carried | Generations


def recognise(clique: DeltaClique, relations: Mapping[str, RelationInfo]) -> Shape | None:
    """The shape of a clique, if it has one."""
    if not clique.is_recursive or len(clique.relations) != 1:
        return None
    relation = clique.relations[0]
    info = relations[relation]
    rules = _distinct(d.rule for d in clique.delta_rules)
    if info.has_aggregates or info.arity not in (1, 2):
        return None
    if any(rule.order or rule.limit is not None or not _is_plain(rule) for rule in rules):
        return None
    if info.arity == 1:
        pairs = [_unary(rule, relation) for rule in rules]
        found = tuple(p for p in pairs if p is not None)
        return Reached(relation, found) if len(found) == len(rules) else None
    if len(rules) == 1:
        both = _both(rules[0], relation)
        if both is not None:
            return both
    steps: list[Step] = []
    doubles = False
    for rule in rules:
        step = _step(rule, relation)
        if step is not None:
            steps.append(step)
        elif _doubles(rule, relation):
            doubles = True
        else:
            return None
    return Carried(relation, tuple(steps), doubles)


def _distinct(rules: Iterable[CoreRule]) -> list[CoreRule]:
    """A rule with several recursive atoms has several delta rules."""
    found: list[CoreRule] = []
    for rule in rules:
        if not any(rule is other or rule == other for other in found):
            found.append(rule)
    return found


def _is_plain(rule: CoreRule) -> bool:
    """Whether the head consists of different variables."""
    names = [a.name for a in rule.arguments if isinstance(a, Variable)]
    return len(names) == len(rule.arguments) == len(set(names))


def _names(literal: Literal) -> frozenset[str]:
    if isinstance(literal, CoreAtom):
        return frozenset(literal.variables)
    return frozenset(v.name for v in variables(literal))


def _split(rule: CoreRule, relation: str) -> tuple[tuple[str, ...], list[Literal]] | None:
    """The variables of the one recursive atom, and all other literals."""
    mine = [a for a in rule.atoms if a.relation == relation]
    if len(mine) != 1:
        return None
    arguments = mine[0].arguments
    names = tuple(a.name for a in arguments if isinstance(a, Variable))
    if len(names) != len(arguments) or len(set(names)) != len(names):
        return None
    others: list[Literal] = [a for a in rule.atoms if a.relation != relation]
    return names, [*others, *rule.comparisons]


def _connected(literals: list[Literal], start: set[str]) -> tuple[list[Literal], set[str]]:
    """The literals that share variables with `start`, directly or through each other."""
    names = set(start)
    inside: list[Literal] = []
    rest = list(literals)
    grown = True
    while grown:
        grown = False
        for literal in list(rest):
            if _names(literal) & names:
                names |= _names(literal)
                inside.append(literal)
                rest.remove(literal)
                grown = True
    return inside, names


def _solved(rule: CoreRule, literals: list[Literal], head: tuple[str, ...]) -> CoreRule | None:
    """A rule for some literals alone; every head variable must stand in one of its atoms."""
    atoms = tuple(a for a in literals if isinstance(a, CoreAtom))
    bound = {name for a in atoms if not a.negated for name in a.variables}
    if not bound.issuperset(head):
        return None
    return replace(
        rule,
        arguments=tuple(Variable(name) for name in head),
        atoms=atoms,
        comparisons=tuple(c for c in literals if isinstance(c, Comparison)),
    )


def _head(rule: CoreRule) -> tuple[str, ...]:
    return tuple(a.name for a in rule.arguments if isinstance(a, Variable))


def _unary(rule: CoreRule, relation: str) -> CoreRule | None:
    split = _split(rule, relation)
    if split is None:
        return None
    (source,), literals = split
    (target,) = _head(rule)
    return _solved(rule, literals, (source, target)) if source != target else None


def _step(rule: CoreRule, relation: str) -> Step | None:
    split = _split(rule, relation)
    if split is None:
        return None
    body, literals = split
    head = _head(rule)
    for column in (0, 1):
        carried, source, target = body[column], body[1 - column], head[1 - column]
        if head[column] != carried or target in body:
            continue
        on_carried, names = _connected(literals, {carried})
        if names & {source, target}:
            return None
        rest = [each for each in literals if all(each is not other for other in on_carried)]
        pairs = _solved(rule, rest, (source, target))
        condition = _solved(rule, on_carried, (carried,)) if on_carried else None
        if pairs is None or (on_carried and condition is None):
            return None
        return Step(column, pairs, condition)
    return None


def _both(rule: CoreRule, relation: str) -> Generations | None:
    split = _split(rule, relation)
    if split is None:
        return None
    body, literals = split
    head = _head(rule)
    if set(head) & set(body):
        return None
    on_left, names = _connected(literals, {body[0], head[0]})
    if names & {body[1], head[1]}:
        return None
    rest = [each for each in literals if all(each is not other for other in on_left)]
    left = _solved(rule, on_left, (body[0], head[0]))
    right = _solved(rule, rest, (body[1], head[1]))
    return Generations(relation, left, right) if left and right else None


def _doubles(rule: CoreRule, relation: str) -> bool:
    """p(X, Z) <- p(X, Y), p(Y, Z), in either order of the atoms, and nothing else."""
    if rule.comparisons or len(rule.atoms) != 2:
        return False
    if any(a.relation != relation or a.negated for a in rule.atoms):
        return False
    x, z = rule.arguments
    for first, second in (rule.atoms, rule.atoms[::-1]):
        middle = first.arguments[1]
        if (
            isinstance(middle, Variable)
            and middle not in (x, z)
            and first.arguments[0] == x
            and second.arguments == (middle, z)
        ):
            return True
    return False
