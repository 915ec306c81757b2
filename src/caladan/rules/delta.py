"""Delta rewriting: one delta rule for each atom of the clique that a rule mentions.

For `d <- a, b, c` over relations of the clique, with x old facts, δx new and x' both, the new facts
come from `δa b' c'`, `a δb c'` and `a b δc`: no combination is derived twice. A relation whose
values are improved in place (mmin, msum …) is read as x' throughout: its old value is of no use.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count

from caladan.analysis.core import Checked, Clique, CoreRule, RelationInfo
from caladan.rules.body import body_of
from caladan.rules.contributors import contributors
from caladan.rules.pivot import pivot
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.rules.totals import totals


def delta(checked: Checked) -> DeltaProgram:
    """The delta program of a checked program."""
    places = count()
    cliques: list[DeltaClique] = []
    for clique in checked.cliques:
        rules = tuple(replace(rule, place=next(places)) for rule in clique.rules)
        cliques.append(delta_clique(replace(clique, rules=rules), checked.relations))
    return DeltaProgram(
        checked.relations, tuple(cliques), checked.goals,
        facts=checked.facts, open_facts=checked.open_facts,
    )  # fmt: skip


def delta_clique(clique: Clique, relations: Mapping[str, RelationInfo]) -> DeltaClique:
    """The delta rules of a clique, whose rules have their places."""

    def made(rule: CoreRule, seed: int | None) -> DeltaRule:
        keys, places = contributors(rule, clique, relations)
        body = body_of(rule, relations, clique.relations, seed=seed, keys=keys)
        return DeltaRule(rule, seed, body, places)

    return DeltaClique(
        clique.relations,
        clique.is_recursive,
        clique.stratum,
        tuple(made(rule, None) for rule in clique.exit_rules),
        tuple(
            made(rule, seed)
            for rule in clique.recursive_rules
            for seed in seeds(rule, clique.relations)
        ),
        pivot(clique, relations),
        totals(clique, relations),
    )


def seeds(rule: CoreRule, clique: Collection[str]) -> Iterator[int]:
    """The atoms of a rule that can bring new facts of a clique."""
    return (i for i, a in enumerate(rule.atoms) if a.relation in clique and not a.negated)


def seeded(
    rule: CoreRule, clique: Collection[str], relations: Mapping[str, RelationInfo]
) -> Iterator[DeltaRule]:
    """A delta rule for each atom of a clique, of a rule that adds nothing up."""
    for seed in seeds(rule, clique):
        yield DeltaRule(rule, seed, body_of(rule, relations, clique, seed=seed))


def plain(rule: CoreRule, relations: Mapping[str, RelationInfo]) -> DeltaRule:
    """A rule over finished relations, that adds nothing up."""
    return DeltaRule(rule, None, body_of(rule, relations))
