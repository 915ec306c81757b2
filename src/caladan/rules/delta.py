"""Delta rewriting: one delta rule for each atom of the clique that a rule mentions.

For `d <- a, b, c` over relations of the clique, with x old facts, δx new and x' both, the new facts
come from `δa b' c'`, `a δb c'` and `a b δc`: no combination is derived twice. A relation whose
values are improved in place (mmin, msum …) is read as x' throughout: its old value is of no use.

    delta         the delta program of a checked program
    pivot         whether a clique falls into independent parts: if every recursive rule reads the
                  clique once and carries one column unchanged from there to its head, facts with
                  different values in that column never meet; each part is a fixpoint of its own, on
                  one machine as block after block, on many without any exchange
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import count

from caladan.analysis.core import Checked, Clique, CoreAtom, CoreRule, RelationInfo
from caladan.program import Variable
from caladan.rules.body import body_of
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule
from caladan.rules.sums import contributors, totals


def delta(checked: Checked) -> DeltaProgram:
    """The delta program of a checked program."""
    places = count()
    cliques: list[DeltaClique] = []
    for clique in checked.cliques:
        rules = tuple(
            replace(rule, place=next(places), origin=_origin(rule.head, checked.relations))
            for rule in clique.rules
        )
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
        tuple(dict.fromkeys(_origin(name, relations) for name in clique.relations)),
    )


def _origin(name: str, relations: Mapping[str, RelationInfo]) -> str:
    """The user's name for a relation; what was made may be of something that was made."""
    seen: set[str] = set()
    while name in relations and name not in seen and relations[name].origin:
        seen.add(name)
        name = relations[name].origin
    return name


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


def pivot(clique: Clique, relations: Mapping[str, RelationInfo]) -> dict[str, int] | None:
    """The carried column of every relation of the clique, or None."""
    if not clique.is_recursive or any(
        sum(a.relation in clique.relations for a in r.positive) != 1 for r in clique.recursive_rules
    ):
        return None
    start = clique.relations[0]
    for column in relations[start].group:
        found = _spread({start: column}, clique, relations)
        if found is not None:
            return found
    return None


def _spread(
    chosen: dict[str, int], clique: Clique, relations: Mapping[str, RelationInfo]
) -> dict[str, int] | None:
    """Follow a choice through all rules, in both directions; None where it fails."""
    grown = True
    while grown:
        grown = False
        for rule in clique.recursive_rules:
            atom = next(a for a in rule.positive if a.relation in clique.relations)
            if rule.head in chosen:
                here = rule.arguments[chosen[rule.head]]
                if not isinstance(here, Variable):
                    return None
                places = [i for i, a in enumerate(atom.arguments) if a == here]
                if atom.relation in chosen:
                    if chosen[atom.relation] not in places:
                        return None
                elif len(places) == 1 and places[0] in relations[atom.relation].group:
                    chosen[atom.relation] = places[0]
                    grown = True
                else:
                    return None
            elif atom.relation in chosen:
                grown |= _to_head(rule, atom.arguments[chosen[atom.relation]], chosen, relations)
                if rule.head not in chosen:
                    return None
    return chosen if chosen.keys() == set(clique.relations) else None


def _to_head(
    rule: CoreRule,
    carried: object,
    chosen: dict[str, int],
    relations: Mapping[str, RelationInfo],
) -> bool:
    places = [i for i, a in enumerate(rule.arguments) if a == carried]
    carries = isinstance(carried, Variable) and len(places) == 1
    if carries and places[0] in relations[rule.head].group:
        chosen[rule.head] = places[0]
        return True
    return False
