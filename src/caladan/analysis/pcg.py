"""The PCG: the and-or tree of relations (or) and rules (and) below the goals.

A relation is reached under a binding pattern; recursive ones are shown once, as a clique with its
exit and recursive rules and its parents, the places that mention it. A relation that was expanded
before is mentioned, not expanded again; one that is very deep down gets a tree of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from caladan.analysis.core import Clique, CoreRule, RelationInfo, Term
from caladan.analysis.patterns import Patterns, free
from caladan.program import Variable

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
