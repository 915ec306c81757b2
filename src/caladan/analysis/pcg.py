"""The PCG: the and-or tree of relations (or) and rules (and) below the goals, and binding patterns.

A pattern has a letter for each column, `b` bound and `f` free: `tc_bf`. `body_order` and
`body_patterns` follow how bindings travel through a body: from a head whose bound columns are
known, along the atoms that share variables with them; from a free head, in the order written.

A goal with constants demands a part of a relation; so does an atom with constants. `Patterns` says,
for an occurrence, which columns of it may be bound: not those of an aggregate, and none of a
relation in `whole` (needed whole anyway), of one that is cut by a limit, or of one that has data of
its own beside rules. `explore` lists all (relation, pattern) pairs that the goals lead to; `settle`
finds patterns with one for each relation: what several occurrences all bind.

In the tree a relation is reached under a pattern; recursive ones are shown once, as a clique with
its exit and recursive rules and its parents, the places that mention it. A relation that was
expanded before is mentioned, not expanded again; one that is very deep down gets a tree of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from caladan.analysis.core import Checked, Clique, CoreRule, RelationInfo, Term, by_head
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


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of a program; a mask says which columns of a relation may be bound at all.

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
            or any(r.limit is not None for r in self.rules(relation))
        ):
            return free(info.arity)
        usable = "".join("b" if function is None else "f" for function in info.aggregates)
        return _meet(_meet(occurrence, usable), self.masks.get(relation, usable))

    def rules(self, relation: str) -> Sequence[CoreRule]:
        """The rules of a relation."""
        return self.own.get(relation, ())

    def body(self, rule: CoreRule, pattern: str) -> dict[int, tuple[str, str]]:
        """For each atom of a rule: the pattern its relation is evaluated under, and its own.

        From a free head only constants bind: passing every value of one atom on to the next would
        demand most of a relation at the price of keeping the demand. Negated atoms need theirs
        whole.
        """
        found: dict[int, tuple[str, str]] = {}
        for index, occurrence in body_patterns(rule, pattern, self.checked.relations).items():
            atom = rule.atoms[index]
            usable = (
                occurrence
                if "b" in pattern
                else "".join("b" if isinstance(a, Constant) else "f" for a in atom.arguments)
            )
            evaluated = free(len(occurrence)) if atom.negated else self.of(atom.relation, usable)
            found[index] = (evaluated, occurrence)
        return found


def explore(patterns: Patterns, wanted: Iterable[str]) -> list[tuple[str, str]]:
    """Every (relation, pattern) that the goals and the wanted relations lead to."""
    relations = patterns.checked.relations
    queue = [(g.relation, patterns.of(g.relation, g.binding)) for g in patterns.checked.goals]
    queue += [(name, free(relations[name].arity)) for name in wanted]

    def below(part: tuple[str, str]) -> Iterator[tuple[str, str]]:
        relation, pattern = part
        for rule in patterns.rules(relation):
            for index, (evaluated, _) in patterns.body(rule, pattern).items():
                yield rule.atoms[index].relation, evaluated

    return reachable(queue, below)


def settle(checked: Checked, wanted: Iterable[str], whole: Iterable[str]) -> Patterns:
    """Patterns in which every relation is evaluated under one: the columns all its uses bind.

    A relation under two patterns would be derived twice, with two sets of rules for the demand.
    """
    wanted = tuple(wanted)
    relations = checked.relations
    masks = {name: free(relations[name].arity) for name in (*whole, *wanted)}
    own = by_head(checked.rules)
    while True:
        patterns = Patterns(checked, masks, own)
        reached = explore(patterns, wanted)
        common: dict[str, str] = {}
        for relation, pattern in reached:
            common[relation] = _meet(common.get(relation, pattern), pattern)
        several = {r: common[r] for r, pattern in reached if pattern != common[r]}
        if not several:
            return patterns
        masks = {**masks, **several}


def _meet(one: str, other: str) -> str:
    """The columns that both patterns bind."""
    return "".join("b" if a == b == "b" else "f" for a, b in zip(one, other, strict=True))


_DEEPEST: Final = 50  # rules above each other in one tree


@dataclass(frozen=True, slots=True)
class OrNode:
    """A relation where it is mentioned.

    `evaluated` is the pattern its facts are computed under, `occurrence` the bindings at this
    place. `children` are its rules, unless it is base, recursive (then `clique` has them, at the
    first mention from outside), `seen` before, or expanded `below`, in a tree of its own.
    """

    relation: RelationInfo
    evaluated: str
    occurrence: str
    arguments: tuple[Term, ...]
    negated: bool = False
    is_recursive: bool = False
    children: tuple[AndNode, ...] = ()
    clique: CliqueNode | None = None
    seen: bool = False
    below: bool = False


@dataclass(frozen=True, slots=True)
class AndNode:
    """A rule, with a node for each atom of its body."""

    rule: CoreRule
    pattern: str
    children: tuple[OrNode, ...]


@dataclass(frozen=True, slots=True)
class CliquePredicate:
    """A relation of a clique under a pattern, with its rules."""

    relation: RelationInfo
    pattern: str
    exit_rules: tuple[AndNode, ...]
    recursive_rules: tuple[AndNode, ...]


@dataclass(frozen=True, slots=True)
class CliqueNode:
    """A clique: who mentions it, and its relations."""

    number: int
    parents: tuple[OrNode, ...]
    predicates: tuple[CliquePredicate, ...]


@dataclass(frozen=True, slots=True)
class Pcg:
    """A tree for each goal, or for each wanted relation."""

    roots: tuple[OrNode, ...]


def pcg(patterns: Patterns, wanted: Iterable[str]) -> Pcg:
    """The tree below the goals and the wanted relations."""
    builder = _Builder(patterns)
    roots = [
        builder.reach(g.relation, patterns.of(g.relation, g.binding), g.binding, g.arguments)
        for g in patterns.checked.goals
    ]
    for name in wanted:
        info = patterns.checked.relations[name]
        arguments = tuple(Variable(c.name) for c in info.columns)
        pattern = free(info.arity)
        if not any(r.relation.name == name and r.evaluated == pattern for r in roots):
            roots.append(builder.reach(name, pattern, pattern, arguments))
    for name, pattern in builder.below:  # grows meanwhile
        arguments = tuple(Variable(c.name) for c in patterns.checked.relations[name].columns)
        roots.append(builder.reach(name, pattern, pattern, arguments))
    return Pcg(tuple(roots))


class _Builder:
    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._relations = patterns.checked.relations
        self._home = {n: c for c in patterns.checked.cliques for n in c.relations}
        self._seen: set[tuple[str, str]] = set()
        self._cliques = 0
        self._depth = 0
        self.below: list[tuple[str, str]] = []  # what is too deep where it is first mentioned

    def reach(
        self,
        name: str,
        evaluated: str,
        occurrence: str,
        arguments: tuple[Term, ...],
        negated: bool = False,
    ) -> OrNode:
        info = self._relations[name]
        clique = self._home.get(name)
        if clique is None:
            return OrNode(info, evaluated, occurrence, arguments, negated)
        seen = (name, evaluated) in self._seen
        if not seen and self._depth >= _DEEPEST:
            if (name, evaluated) not in self.below:
                self.below.append((name, evaluated))
            return OrNode(
                info, evaluated, occurrence, arguments, negated, clique.is_recursive, below=True
            )
        if clique.is_recursive:
            mention = OrNode(info, evaluated, occurrence, arguments, negated, True, seen=seen)
            return mention if seen else self._clique(clique, mention)
        self._seen.add((name, evaluated))
        children = () if seen else self._rules(self._patterns.rules(name), evaluated)
        return OrNode(info, evaluated, occurrence, arguments, negated, children=children, seen=seen)

    def _rules(self, rules: Iterable[CoreRule], pattern: str) -> tuple[AndNode, ...]:
        return tuple(self._rule(rule, pattern) for rule in rules)

    def _rule(self, rule: CoreRule, pattern: str) -> AndNode:
        bodies = self._patterns.body(rule, pattern)
        self._depth += 1
        children = tuple(
            self.reach(atom.relation, *bodies[i], atom.arguments, atom.negated)
            for i, atom in enumerate(rule.atoms)
        )
        self._depth -= 1
        return AndNode(rule, pattern, children)

    def _clique(self, clique: Clique, mention: OrNode) -> OrNode:
        """The clique below a mention from outside; mentions inside it are its other parents."""
        self._cliques += 1
        number = self._cliques
        queue = [(mention.relation.name, mention.evaluated)]
        self._seen.add(queue[0])
        predicates: list[CliquePredicate] = []
        parents: list[OrNode] = []
        for name, pattern in queue:
            # Other relations and patterns of the clique are met in the bodies of its rules.
            for rule in self._patterns.rules(name):
                for i, (evaluated, _) in self._patterns.body(rule, pattern).items():
                    part = (rule.atoms[i].relation, evaluated)
                    if part[0] in clique.relations and part not in queue:
                        queue.append(part)
                        self._seen.add(part)
        for name, pattern in queue:
            rules = self._patterns.rules(name)
            recursive = self._rules((r for r in rules if clique.is_recursive_rule(r)), pattern)
            exits = self._rules((r for r in rules if not clique.is_recursive_rule(r)), pattern)
            parents += [
                child
                for node in recursive
                for child in node.children
                if child.relation.name in clique.relations
            ]
            predicates.append(CliquePredicate(self._relations[name], pattern, exits, recursive))
        return OrNode(
            mention.relation,
            mention.evaluated,
            mention.occurrence,
            mention.arguments,
            mention.negated,
            True,
            clique=CliqueNode(number, (*parents, mention), tuple(predicates)),
        )
