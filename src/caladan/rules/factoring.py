"""Factoring: a rule whose recursive atoms meet through a lookup gets a relation in between.

In `pt(Y, W) <- load(Y, X), pt(X, Z), pt(Z, W)` the new facts of the last atom meet all of `pt(X,
Z)` before `load` throws most of them out. The part that is on its own behind Z becomes a relation:

    pt~1(Y, Z) <- load(Y, X), pt(X, Z).
    pt(Y, W) <- pt~1(Y, Z), pt(Z, W).

It holds what the rule seeded by `pt(X, Z)` goes through anyway, without repetitions. So this is
done where a rule has several recursive atoms, and one of them shares with an atom from outside the
clique a variable that nothing else reads; the relation in between must not be wider than the
recursive atom, and the other atom must be selective: fewer facts than the variable has values.
Rules with aggregates count solutions, and stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo
from caladan.program import Column, Expression, Variable, variables
from caladan.rules.program import DeltaClique


@dataclass(frozen=True, slots=True)
class FactoredRule:
    """A rule in two: the relation in between, the rule that derives it, the rule that reads it.

    `selective` is the atom from outside the clique, if it is selective.
    """

    selective: CoreAtom
    relation: RelationInfo
    inner: CoreRule
    outer: CoreRule

    @property
    def names(self) -> tuple[Column, ...]:
        """The columns of the relation in between, named by the rule's variables."""
        return self.relation.columns


def split(
    rule: CoreRule,
    clique: DeltaClique,
    relations: Mapping[str, RelationInfo],
    is_selective: Callable[[CoreAtom, str], bool],
) -> FactoredRule | None:
    """A rule in two, if that pays; `is_selective` tells of an atom and a variable."""
    for found, names in splits(rule, clique, relations):
        if any(is_selective(found.selective, name) for name in names):
            return found
    return None


def splits(
    rule: CoreRule, clique: DeltaClique, relations: Mapping[str, RelationInfo]
) -> Iterator[tuple[FactoredRule, list[str]]]:
    """The ways to have a rule in two, each with the variables it pays for if one is selective."""
    inside = [a for a in rule.positive if a.relation in clique.relations]
    outside = [a for a in rule.positive if a.relation not in clique.relations]
    plain = not relations[rule.head].has_aggregates and not rule.order and rule.limit is None
    if len(inside) < 2 or not plain:
        return
    if any(relations[a.relation].has_aggregates for a in inside):
        return
    for recursive in inside:
        for other in outside:
            pair = (recursive, other)
            rest = [a for a in rule.atoms if all(a is not one for one in pair)]
            read = _read(rule, rest)
            mine = dict.fromkeys((*other.variables, *recursive.variables))
            own = (set(other.variables) & set(recursive.variables)) - read
            kept = [name for name in mine if name in read]
            narrow = len(kept) <= len(recursive.arguments) and len(inside) + len(outside) > 2
            if narrow and own:
                between = _name_between(rule, clique)
                yield _made(rule, (other, recursive), kept, rest, between), sorted(own)


def _name_between(rule: CoreRule, clique: DeltaClique) -> str:
    """The name of what is in between: the rule's number, and which of its alternatives it is."""
    alternatives = [
        each.rule.place
        for each in clique.delta_rules
        if (each.rule.head, each.rule.number) == (rule.head, rule.number)
    ]
    places = list(dict.fromkeys(alternatives))
    which = f".{places.index(rule.place) + 1}" if len(places) > 1 else ""
    return f"{rule.head}~{rule.number}{which}"


def _read(rule: CoreRule, atoms: list[CoreAtom]) -> set[str]:
    """The variables that a rule reads outside of two of its atoms."""
    expressions: Iterator[Expression] = iter(rule.arguments)
    names = {v.name for e in expressions for v in variables(e)}
    names |= {v.name for c in rule.comparisons for v in variables(c)}
    return names | {name for a in atoms for name in a.variables}


def _made(
    rule: CoreRule,
    pair: tuple[CoreAtom, CoreAtom],
    names: list[str],
    rest: list[CoreAtom],
    between: str,
) -> FactoredRule:
    head = tuple(Variable(name) for name in names)
    types = {n: rule.types[n] for a in pair for n in a.variables}
    info = RelationInfo(
        between,
        tuple(Column(name, rule.types[name]) for name in names),
        takes_data=False,
        is_derived=True,
        aggregates=(None,) * len(names),
        origin=rule.head,
        is_internal=True,
    )
    inner = replace(rule, head=between, arguments=head, atoms=pair, comparisons=(), types=types)
    outer = replace(rule, atoms=(CoreAtom(between, head), *rest))
    return FactoredRule(pair[0], info, inner, outer)
