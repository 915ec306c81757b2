"""The PCG: the and-or tree of relations (or) and rules (and) below the goals, and binding patterns.

A pattern has a letter for each column, `b` bound and `f` free: `tc_bf`. `body_order` and
`body_patterns` follow how bindings travel through a body: from a head whose bound columns are
known, along the atoms that share variables with them; from a free head, in the order written.

A goal with constants demands a part of a relation; so does an atom with constants. A relation is
not needed for certain bindings only by columns of an aggregate, nor if it is evaluated whole
anyway, is cut by a limit, or has data of its own beside rules. `settle` makes the `Pcg`: for every
relation one pattern, what all its occurrences bind, and under it its rules, each with a node for
every atom. It is a graph: relations that are mentioned several times, or by themselves, are there
once. demand.py rewrites the program by it, explain prints it as a tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from caladan.analysis.core import Checked, CoreRule, RelationInfo, Term, by_head
from caladan.analysis.schedule import solve
from caladan.program import Constant, Variable
from caladan.program.transform import reachable


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


PcgPart: TypeAlias = tuple[str, str]
"""A relation and the pattern that it is evaluated under: what a PCG has rules for."""


@dataclass(frozen=True, slots=True)
class OrNode:
    """A relation where it is mentioned.

    `evaluated` is the pattern its facts are computed under, `occurrence` the bindings at this
    place.
    """

    relation: str
    evaluated: str
    occurrence: str
    arguments: tuple[Term, ...]
    negated: bool = False

    @property
    def part(self) -> PcgPart:
        """What it leads to."""
        return self.relation, self.evaluated


@dataclass(frozen=True, slots=True)
class AndNode:
    """A rule, with a node for each atom of its body; `order` is how bindings reach them."""

    rule: CoreRule
    pattern: str
    children: tuple[OrNode, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Pcg:
    """The rules below the goals and the wanted relations, by what leads to them.

    `source` is the program whose rules these are. A relation that leads to no rules is there, too.
    """

    source: Checked
    roots: tuple[OrNode, ...]
    rules: Mapping[PcgPart, tuple[AndNode, ...]]

    @property
    def binds(self) -> bool:
        """True if some relation is needed only for certain bindings."""
        return any("b" in pattern for _, pattern in self.rules)


@dataclass(frozen=True, slots=True)
class _Patterns:
    """What patterns relations may have; a mask says which columns may be bound at all.

    `own` has the rules of each relation.
    """

    checked: Checked
    masks: Mapping[str, str]
    own: Mapping[str, Sequence[CoreRule]]

    def of(self, relation: str, occurrence: str) -> str:
        """The pattern a relation is evaluated under, for an occurrence with these bindings."""
        info = self.checked.relations[relation]
        if (
            not info.is_derived
            or info.takes_data
            or any(r.limit is not None for r in self.own.get(relation, ()))
        ):
            return free(info.arity)
        usable = "".join("b" if function is None else "f" for function in info.aggregates)
        return _meet(_meet(occurrence, usable), self.masks.get(relation, usable))

    def node(self, rule: CoreRule, pattern: str) -> AndNode:
        """A rule whose head has these bindings.

        From a free head only constants bind: passing every value of one atom on to the next would
        demand most of a relation at the price of keeping the demand. Negated atoms need theirs
        whole.
        """
        occurrences = body_patterns(rule, pattern, self.checked.relations)
        children: list[OrNode] = []
        for index, atom in enumerate(rule.atoms):
            usable = occurrence = occurrences[index]
            if "b" not in pattern:
                usable = "".join("b" if isinstance(a, Constant) else "f" for a in atom.arguments)
            evaluated = free(len(occurrence)) if atom.negated else self.of(atom.relation, usable)
            children.append(
                OrNode(atom.relation, evaluated, occurrence, atom.arguments, atom.negated)
            )
        return AndNode(rule, pattern, tuple(children), tuple(occurrences))

    def below(self, roots: tuple[OrNode, ...]) -> Pcg:
        """All that the roots lead to, the nearest first."""
        rules: dict[PcgPart, tuple[AndNode, ...]] = {}

        def following(part: PcgPart) -> Iterator[PcgPart]:
            relation, pattern = part
            nodes = tuple(self.node(rule, pattern) for rule in self.own.get(relation, ()))
            rules[part] = nodes
            return (node.children[i].part for node in nodes for i in node.order)

        reachable([root.part for root in roots], following)
        return Pcg(self.checked, roots, rules)


def settle(checked: Checked, wanted: Iterable[str], whole: Iterable[str]) -> Pcg:
    """The PCG in which every relation is evaluated under one pattern: what all its uses bind.

    A relation under two patterns would be derived twice, with two sets of rules for the demand.
    """
    wanted = tuple(wanted)
    relations = checked.relations
    masks = {name: free(relations[name].arity) for name in (*whole, *wanted)}
    own = by_head(checked.rules)
    while True:
        patterns = _Patterns(checked, masks, own)
        roots = [
            OrNode(g.relation, patterns.of(g.relation, g.binding), g.binding, g.arguments)
            for g in checked.goals
        ]
        for name in wanted:
            pattern = free(relations[name].arity)
            if all(root.part != (name, pattern) for root in roots):
                arguments = tuple(Variable(c.name) for c in relations[name].columns)
                roots.append(OrNode(name, pattern, pattern, arguments))
        found = patterns.below(tuple(roots))
        common: dict[str, str] = {}
        for relation, pattern in found.rules:
            common[relation] = _meet(common.get(relation, pattern), pattern)
        several = {r: common[r] for r, pattern in found.rules if pattern != common[r]}
        if not several:
            return found
        masks = {**masks, **several}


def _meet(one: str, other: str) -> str:
    """The columns that both patterns bind."""
    return "".join("b" if a == b == "b" else "f" for a, b in zip(one, other, strict=True))
