"""Whether a clique falls into independent parts.

    tc(A, B) <- tc(A, C), arc(C, B).      the pivot of tc is its first column

If every recursive rule reads the clique once and carries one column unchanged from there to its
head, facts with different values in that column never meet; each part is a fixpoint of its own, on
one machine as block after block, on many without any exchange.
"""

from __future__ import annotations

from collections.abc import Mapping

from caladan.analysis.core import Clique, CoreRule, RelationInfo
from caladan.program import Variable


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
