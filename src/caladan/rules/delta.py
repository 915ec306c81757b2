"""The delta program: what engines read, made of the optimized plan.

derive_delta  the delta program of an optimized plan
delta_clique  the delta rules of one clique, through the same steps
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count

from caladan.analysis.core import Clique, CoreAtom, CoreRule, RelationInfo
from caladan.program import Variable
from caladan.rules.body import body_of
from caladan.rules.logical import (
    LogicalClique,
    LogicalPlan,
    LogicalRule,
    optimize_clique,
    plan_clique,
)
from caladan.rules.operators import generate_clique, origin_of
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.rules.sums import totals


def derive_delta(plan: LogicalPlan) -> DeltaProgram:
    """The delta program of an optimized plan."""
    cliques = tuple(_derive_clique(clique, plan.relations) for clique in plan.cliques)
    return DeltaProgram(
        plan.relations, cliques, plan.goals, facts=plan.facts, open_facts=plan.open_facts
    )


def delta_clique(clique: Clique, relations: Mapping[str, RelationInfo]) -> DeltaClique:
    """The delta rules of a clique, whose rules have their places."""
    written = plan_clique(generate_clique(clique, relations), relations, count())
    return _derive_clique(optimize_clique(written, relations), relations)


def _derive_clique(plan: LogicalClique, relations: Mapping[str, RelationInfo]) -> DeltaClique:
    clique = plan.clique
    return DeltaClique(
        clique.relations,
        clique.is_recursive,
        clique.stratum,
        tuple(map(_rule, plan.exits)),
        tuple(map(_rule, plan.recursive)),
        plan.pivot,
        totals(clique, relations),
        tuple(dict.fromkeys(origin_of(name, relations) for name in clique.relations)),
    )


def _rule(plan: LogicalRule) -> DeltaRule:
    assert plan.body is not None, "only optimized plans are evaluated"
    return DeltaRule(plan.rule, plan.seed, plan.body, plan.contributors)


def seeds(rule: CoreRule, clique: Collection[str]) -> Iterator[int]:
    """The atoms of a rule that can bring new facts of a clique."""
    return (i for i, a in enumerate(rule.atoms) if a.relation in clique and not a.negated)


def seed_rules(
    rule: CoreRule, clique: Collection[str], relations: Mapping[str, RelationInfo]
) -> Iterator[DeltaRule]:
    """A delta rule for each atom of a clique, of a rule that adds nothing up."""
    for seed in seeds(rule, clique):
        yield DeltaRule(rule, seed, body_of(rule, relations, clique, seed=seed))


def plain(rule: CoreRule, relations: Mapping[str, RelationInfo]) -> DeltaRule:
    """A rule over finished relations, that adds nothing up."""
    return DeltaRule(rule, None, body_of(without_wildcards(rule, relations), relations))


def without_wildcards(rule: CoreRule, relations: Mapping[str, RelationInfo]) -> CoreRule:
    """A rule with a name for every `_` of an atom that was negated and is not any more.

    A body takes two of them for the same variable; in an absence they match whatever there is.
    """
    types = dict(rule.types)

    def named(number: int, atom: CoreAtom) -> CoreAtom:
        terms = list(atom.arguments)
        for place, column in enumerate(relations[atom.relation].columns):
            if isinstance(term := terms[place], Variable) and term.is_anonymous:
                terms[place] = Variable(f"_{number}'{place}")
                types[f"_{number}'{place}"] = column.type
        return replace(atom, arguments=tuple(terms))

    atoms = (a if a.negated else named(i, a) for i, a in enumerate(rule.atoms))
    return replace(rule, atoms=tuple(atoms), types=types)
