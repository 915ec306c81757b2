"""Under which binding pattern each relation is evaluated.

A goal with constants demands a part of a relation; so does an atom with constants. `Patterns` says,
for an occurrence, which columns of it may be bound: not those of an aggregate, and none of a
relation in `whole` (needed whole anyway), of one that is cut by a limit, or of one that has data of
its own beside rules. `explore` lists all (relation, pattern) pairs that the goals lead to; `settle`
finds patterns with one for each relation: what several occurrences all bind.

Binding patterns: which arguments of an atom are bound when its turn comes.

A pattern has a letter for each column, `b` bound and `f` free: `tc_bf`. `body_order` and
`body_patterns` follow how bindings travel through a body: from a head whose bound columns are
known, along the atoms that share variables with them; from a free head, in the order written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from caladan.analysis.core import Checked, CoreRule, RelationInfo, by_head
from caladan.analysis.schedule import solve
from caladan.program import Constant, Variable


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
    seen: dict[tuple[str, str], None] = dict.fromkeys(queue)
    for relation, pattern in (queue := list(seen)):
        for rule in patterns.rules(relation):
            for index, (evaluated, _) in patterns.body(rule, pattern).items():
                reached = (rule.atoms[index].relation, evaluated)
                if reached not in seen:
                    seen[reached] = None
                    queue.append(reached)
    return list(seen)


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
