"""Which cliques have a special structure: decided from the rules, before any data is seen.

`recognise` looks at the recursive rules of a clique of plain relations.

    Reached      p(Y) <- q(X), step(X, Y)
    Carried      p(X, Z) <- q(X, Y), step(Y, Z)           carries the first column
                 p(X, Z) <- step(X, Y), q(Y, Z)           carries the second
                 p(X, Z) <- p(X, Y), p(Y, Z)              doubles
    Generations  p(X, Y) <- l(A, X), p(A, B), r(B, Y)     steps both

p and q are relations of the clique, the same one or others: odd and even, or the states of a
regular path query. `step`, `l` and `r` stand for whatever else the body holds: one atom or several,
negations and comparisons, as long as it falls apart along the variables as shown. Each becomes a
rule of its own (`CoreRule` with two head columns), which the generic evaluator solves before the
shape starts. It has an atom that holds both columns, so it is no larger than that atom's relation;
a step along a path of atoms, `a(Y, W), b(W, Z)`, becomes several `links`, which are never joined. A
condition on the carried column alone, such as the demand of a bound query, becomes a rule too.
Exit rules may be of any kind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.program import Comparison, Variable, variables
from caladan.rules.program import DeltaClique

Literal: TypeAlias = CoreAtom | Comparison


@dataclass(frozen=True, slots=True)
class Step:
    """A recursive rule that steps one column: by which links, from one relation to another.

    `column` is the carried one, 0 if there is no other. `condition`, if there is one, selects the
    words of the carried column that the rule applies to.
    """

    source: str
    target: str
    links: tuple[CoreRule, ...]
    column: int = 0
    condition: CoreRule | None = None

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return self.links if self.condition is None else (*self.links, self.condition)


@dataclass(frozen=True, slots=True)
class Reached:
    """Unary relations that spread along pairs."""

    relations: tuple[str, ...]
    steps: tuple[Step, ...]

    name = "reached"
    layouts = ("words",)

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return tuple(rule for step in self.steps for rule in step.rules)


@dataclass(frozen=True, slots=True)
class Carried:
    """Binary relations whose recursive rules each carry one column, or double.

    Where there are several relations all rules carry the same column, and none doubles.
    """

    relations: tuple[str, ...]
    steps: tuple[Step, ...]
    doubles: bool

    name = "carried"
    layouts = ("ranges", "bit rows")

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return tuple(rule for step in self.steps for rule in step.rules)


@dataclass(frozen=True, slots=True)
class Generations:
    """A binary relation with one recursive rule, which steps both columns independently."""

    relation: str
    left: CoreRule
    right: CoreRule

    name = "generations"
    layouts = ("bit rows",)

    @property
    def rules(self) -> tuple[CoreRule, ...]:
        """What is solved before the shape starts."""
        return (self.left, self.right)


Shape: TypeAlias = Reached | Carried | Generations


def recognise(clique: DeltaClique, relations: Mapping[str, RelationInfo]) -> Shape | None:
    """The shape of a clique, if it has one."""
    infos = [relations[name] for name in clique.relations]
    arity = infos[0].arity
    if not clique.is_recursive or any(i.has_aggregates or i.arity != arity for i in infos):
        return None
    rules = _distinct(d.rule for d in clique.delta_rules)
    if any(rule.order or rule.limit is not None or not _is_plain(rule) for rule in rules):
        return None
    if arity == 1:
        return _reached(clique.relations, rules)
    if arity == 2:
        return _generations(clique.relations, rules) or _carried(clique.relations, rules)
    return None


def _reached(relations: tuple[str, ...], rules: list[CoreRule]) -> Reached | None:
    steps = [_unary(rule, relations) for rule in rules]
    found = tuple(step for step in steps if step is not None)
    return Reached(relations, found) if len(found) == len(rules) else None


def _carried(relations: tuple[str, ...], rules: list[CoreRule]) -> Carried | None:
    steps: list[Step] = []
    doubles = False
    for rule in rules:
        step = _step(rule, relations)
        if step is not None:
            steps.append(step)
        elif len(relations) == 1 and _doubles(rule, relations[0]):
            doubles = True
        else:
            return None
    if len(relations) > 1 and len({step.column for step in steps}) > 1:
        return None
    return Carried(relations, tuple(steps), doubles)


def _generations(relations: tuple[str, ...], rules: list[CoreRule]) -> Generations | None:
    return _both(rules[0], relations[0]) if len(relations) == len(rules) == 1 else None


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


def _split(
    rule: CoreRule, relations: tuple[str, ...]
) -> tuple[str, tuple[str, ...], list[Literal]] | None:
    """The one recursive atom's relation and variables, and all other literals."""
    mine = [a for a in rule.atoms if a.relation in relations]
    if len(mine) != 1:
        return None
    arguments = mine[0].arguments
    names = tuple(a.name for a in arguments if isinstance(a, Variable))
    if len(names) != len(arguments) or len(set(names)) != len(names):
        return None
    others: list[Literal] = [a for a in rule.atoms if a is not mine[0]]
    return mine[0].relation, names, [*others, *rule.comparisons]


def _connected(
    literals: list[Literal], start: set[str], stop: str = ""
) -> tuple[list[Literal], set[str]]:
    """The literals that share variables with `start`, directly or through each other.

    Sharing `stop` does not count, but the names found include it.
    """
    names = set(start)
    inside: list[Literal] = []
    rest = list(literals)
    grown = True
    while grown:
        grown = False
        for literal in list(rest):
            if _names(literal) & (names - {stop}):
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


def _linked(rule: CoreRule, literals: list[Literal], source: str, target: str) -> CoreRule | None:
    """The pairs of a source and a target that stand in one atom, restricted by all literals."""
    for literal in literals:
        if isinstance(literal, CoreAtom) and {source, target} <= _names(literal):
            return _solved(rule, literals, (source, target))
    return None


def _links(
    rule: CoreRule, literals: list[Literal], source: str, target: str
) -> tuple[CoreRule, ...] | None:
    """A path of pairs from source to target, cut wherever one variable alone connects its parts."""
    between = dict.fromkeys(n for each in literals for n in sorted(_names(each)))
    for cut in between:
        near, names = _connected(literals, {source}, stop=cut)
        if cut in (source, target) or target in names or cut not in names:
            continue
        far = [each for each in literals if all(each is not other for other in near)]
        first, second = _links(rule, near, source, cut), _links(rule, far, cut, target)
        if first is not None and second is not None:
            return first + second
    pairs = _linked(rule, literals, source, target)
    return None if pairs is None else (pairs,)


def _head(rule: CoreRule) -> tuple[str, ...]:
    return tuple(a.name for a in rule.arguments if isinstance(a, Variable))


def _unary(rule: CoreRule, relations: tuple[str, ...]) -> Step | None:
    split = _split(rule, relations)
    if split is None:
        return None
    relation, (source,), literals = split
    (target,) = _head(rule)
    links = _links(rule, literals, source, target) if source != target else None
    return None if links is None else Step(relation, rule.head, links)


def _step(rule: CoreRule, relations: tuple[str, ...]) -> Step | None:
    split = _split(rule, relations)
    if split is None:
        return None
    relation, body, literals = split
    head = _head(rule)
    for column in (0, 1):
        carried, source, target = body[column], body[1 - column], head[1 - column]
        if head[column] != carried or target in body:
            continue
        on_carried, names = _connected(literals, {carried})
        if names & {source, target}:
            return None
        rest = [each for each in literals if all(each is not other for other in on_carried)]
        links = _links(rule, rest, source, target)
        condition = _solved(rule, on_carried, (carried,)) if on_carried else None
        if links is None or (on_carried and condition is None):
            return None
        return Step(relation, rule.head, links, column, condition)
    return None


def _both(rule: CoreRule, relation: str) -> Generations | None:
    split = _split(rule, (relation,))
    if split is None:
        return None
    _, body, literals = split
    head = _head(rule)
    if set(head) & set(body):
        return None
    on_left, names = _connected(literals, {body[0], head[0]})
    if names & {body[1], head[1]}:
        return None
    rest = [each for each in literals if all(each is not other for other in on_left)]
    left = _linked(rule, on_left, body[0], head[0])
    right = _linked(rule, rest, body[1], head[1])
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
