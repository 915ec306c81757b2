"""Under which binding pattern each relation is evaluated.

A goal with constants demands a part of a relation; so does an atom with constants. `Patterns` says,
for an occurrence, which columns of it may be bound: not those of an aggregate, and none of a
relation in `whole` (needed whole anyway), of one that is cut by a limit, or of one that has data of
its own beside rules. `explore` lists all (relation, pattern) pairs that the goals lead to; `settle`
finds patterns with one for each relation: what several occurrences all bind.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from caladan.analysis.binding import body_patterns, free
from caladan.analysis.core import Checked, CoreRule, by_head
from caladan.program import Constant


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
