"""The values of aggregates between two rounds, for those who ask whether sums settle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.columns.domains import Domain
from caladan.columns.groups import GroupRelation
from caladan.columns.layout import Words, concatenate
from caladan.columns.relation import StoredRelation
from caladan.data.schema import ARROW
from caladan.program.diagnostics import Diagnostic
from caladan.rules.failures import report_growth
from caladan.rules.program import DeltaClique


def values_of(
    relations: Mapping[str, StoredRelation],
    infos: Mapping[str, RelationInfo],
    domains: Callable[[str], Sequence[Domain]],
) -> dict[Any, Any]:
    """The value of every aggregate, by relation, column and group."""
    found: dict[Any, Any] = {}
    for name, info in _list_aggregates(relations, infos):
        relation = relations[name]
        columns = concatenate(relation.blocks(), relation.arity)
        rows = range(relation.count())
        groups = [tuple(int(columns[i][row]) for i in info.group) for row in rows]
        for i, function in enumerate(info.aggregates):
            if function is not None:
                values = _decode(domains(name)[i], info, i, columns[i])
                found |= {
                    (name, i, group): value for group, value in zip(groups, values, strict=True)
                }
    return found


def never_settling(
    clique: DeltaClique,
    relations: Mapping[str, StoredRelation],
    infos: Mapping[str, RelationInfo],
    domains: Callable[[str], Sequence[Domain]],
    rounds: int,
) -> Diagnostic | None:
    """C042 for a fact whose sums still change, if there is one here."""
    for name, info in _list_aggregates(relations, infos):
        if not any(row is not None and row.is_total for row in info.aggregates):
            continue
        body = relations[name].body
        assert isinstance(body, GroupRelation)
        if body.delta_count():
            row = body.changed_rows[:1].astype("u4")
            values = [
                _decode(domains(name)[i], info, i, body.words(i, row))[0] for i in range(info.arity)
            ]
            return report_growth(_find_sum_rule(clique, name), values, rounds)
    return None


def _find_sum_rule(clique: DeltaClique, name: str) -> CoreRule:
    """The rule that adds up sums of a relation in each round."""
    rules = [each.rule for each in clique.delta_rules]
    return next((rule for rule in rules if rule.head == name), rules[0])


def _list_aggregates(
    relations: Mapping[str, StoredRelation], infos: Mapping[str, RelationInfo]
) -> Iterator[tuple[str, RelationInfo]]:
    for name in relations:
        if name in infos and infos[name].has_aggregates:
            yield name, infos[name]


def _decode(domain: Domain, info: RelationInfo, column: int, words: Words) -> list[Any]:
    return domain.arrow(words, ARROW[info.columns[column].type]).to_pylist()
