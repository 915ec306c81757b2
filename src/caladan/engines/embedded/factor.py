"""Factoring: a rule whose recursive atoms meet through a lookup gets a relation in between.

In `pt(Y, W) <- load(Y, X), pt(X, Z), pt(Z, W)` the new facts of the last atom meet all of `pt(X, Z)`
before `load` throws most of them out. The part that is on its own behind Z becomes a relation:

    pt~1(Y, Z) <- load(Y, X), pt(X, Z).
    pt(Y, W) <- pt~1(Y, Z), pt(Z, W).

It holds what the rule seeded by `pt(X, Z)` goes through anyway, without repetitions. So this is done
where a rule has several recursive atoms, and one of them shares with an atom from outside the
clique a variable that nothing else reads. Rules with aggregates count solutions, and stay as they
are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from caladan.analysis.core import Clique, CoreAtom, CoreRule, RelationInfo
from caladan.delta.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.operators.build import rule_plan
from caladan.operators.tree import Version
from caladan.program import Column, Expression, Variable, variables


@dataclass(frozen=True, slots=True)
class Split:
    """A rule in two: the relation in between, the rule that derives it, the rule that reads it."""

    relation: RelationInfo
    inner: CoreRule
    outer: CoreRule


def factored(program: DeltaProgram) -> DeltaProgram:
    """The program with such rules split."""
    relations = dict(program.relations)
    cliques = tuple(_clique(clique, relations) for clique in program.cliques)
    return replace(program, relations=relations, cliques=cliques)


def _clique(clique: DeltaClique, relations: dict[str, RelationInfo]) -> DeltaClique:
    rules = list({id(d.rule): d.rule for d in clique.delta_rules}.values())
    splits = {id(rule): s for rule in rules if (s := _split(rule, clique, relations)) is not None}
    if not splits:
        return clique
    relations.update({split.relation.name: split.relation for split in splits.values()})
    names = (*clique.relations, *(split.relation.name for split in splits.values()))
    whole = Clique(names, True, clique.stratum, ())
    delta_rules: list[DeltaRule] = []
    for rule in rules:
        split = splits.get(id(rule))
        if split is None:
            delta_rules += [d for d in clique.delta_rules if d.rule is rule]
        else:
            delta_rules += _seeded(split.inner, whole, relations)
            delta_rules += _seeded(split.outer, whole, relations)
    return replace(clique, relations=names, delta_rules=tuple(delta_rules), pivot=None)


def _split(
    rule: CoreRule, clique: DeltaClique, relations: Mapping[str, RelationInfo]
) -> Split | None:
    inside = [a for a in rule.positive if a.relation in clique.relations]
    outside = [a for a in rule.positive if a.relation not in clique.relations]
    plain = not relations[rule.head].has_aggregates and not rule.order and rule.limit is None
    if len(inside) < 2 or not plain:
        return None
    if any(relations[a.relation].has_aggregates for a in inside):
        return None
    for recursive in inside:
        for other in outside:
            pair = (recursive, other)
            rest = [a for a in rule.atoms if all(a is not one for one in pair)]
            read = _read(rule, rest)
            mine = dict.fromkeys((*other.variables, *recursive.variables))
            shared = set(other.variables) & set(recursive.variables)
            if shared - read and len(inside) + len(outside) > 2:
                return _made(rule, (other, recursive), [n for n in mine if n in read], rest)
    return None


def _read(rule: CoreRule, atoms: list[CoreAtom]) -> set[str]:
    """The variables that a rule reads outside of two of its atoms."""
    expressions: Iterator[Expression] = iter(rule.arguments)
    names = {v.name for e in expressions for v in variables(e)}
    names |= {v.name for c in rule.comparisons for v in variables(c)}
    return names | {name for a in atoms for name in a.variables}


def _made(
    rule: CoreRule, pair: tuple[CoreAtom, CoreAtom], names: list[str], rest: list[CoreAtom]
) -> Split:
    between = f"{rule.head}~{rule.number}"
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
    return Split(info, inner, outer)


def _seeded(
    rule: CoreRule, clique: Clique, relations: Mapping[str, RelationInfo]
) -> Iterator[DeltaRule]:
    """A delta rule for each atom of the clique that a rule mentions."""
    for seed, atom in enumerate(rule.atoms):
        if atom.relation not in clique.relations or atom.negated:
            continue

        def version(index: int, seed: int = seed) -> Version:
            if rule.atoms[index].relation not in clique.relations:
                return Version.FULL
            if index == seed:
                return Version.DELTA
            return Version.OLD if index < seed else Version.NEW

        plan = rule_plan(rule, clique, relations, first=seed, version=version)
        guard = dict.fromkeys(
            a.relation for i, a in enumerate(rule.atoms) if not a.negated and i != seed
        )
        yield DeltaRule(rule, seed, plan, tuple(guard), ())
