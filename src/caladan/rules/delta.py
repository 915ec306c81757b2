"""Delta rewriting: one delta rule for each atom of the clique that a rule mentions.

For `d <- a, b, c` over relations of the clique, with x old facts, δx new and x' both, the new facts
come from `δa b' c'`, `a δb c'` and `a b δc`: no combination is derived twice. A relation whose
values are improved in place (mmin, msum …) is read as x' throughout: its old value is of no use.
"""

from __future__ import annotations

from collections.abc import Mapping

from caladan.analysis.core import Clique, CoreRule, RelationInfo
from caladan.rules.contributors import contributors
from caladan.rules.operator_program import OperatorProgram, rule_plan
from caladan.rules.operators import Version
from caladan.rules.pivot import pivot
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.rules.totals import totals


def delta(program: OperatorProgram) -> DeltaProgram:
    """The delta program of an operator program."""
    cliques = [_clique(c.clique, program.relations) for c in program.cliques]
    return DeltaProgram(program.relations, program.checked.facts, tuple(cliques), program.goals)


def _clique(clique: Clique, relations: Mapping[str, RelationInfo]) -> DeltaClique:
    return DeltaClique(
        clique.relations,
        clique.is_recursive,
        clique.stratum,
        tuple(_rule(r, None, clique, relations) for r in clique.exit_rules),
        tuple(
            _rule(rule, seed, clique, relations)
            for rule in clique.recursive_rules
            for seed, atom in enumerate(rule.atoms)
            if atom.relation in clique.relations
        ),
        pivot(clique, relations),
        totals(clique, relations),
    )


def _rule(
    rule: CoreRule, seed: int | None, clique: Clique, relations: Mapping[str, RelationInfo]
) -> DeltaRule:
    def version(index: int) -> Version:
        relation = rule.atoms[index].relation
        if relation not in clique.relations:
            return Version.FULL
        if index == seed:
            return Version.DELTA
        old = seed is not None and index < seed and not relations[relation].has_aggregates
        return Version.OLD if old else Version.NEW

    keys, places = contributors(rule, clique, relations)
    plan = rule_plan(rule, clique, relations, first=seed, version=version, keys=keys)
    guard = dict.fromkeys(
        a.relation for i, a in enumerate(rule.atoms) if not a.negated and i != seed
    )
    return DeltaRule(rule, seed, plan, tuple(guard), places)
