"""Operators that need all facts first: groups, best rows, rows with their place.

Each gives its result an element of its own, an internal relation that goes through one relation as
it is; what is none becomes one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from caladan.language.bloom.queries import (
    Aggregation,
    ColumnExpr,
    JoinPart,
    Query,
    facts_of,
    label,
)
from caladan.language.bloom.schema import CollectionKind
from caladan.language.bloom.values import frozen
from caladan.program import Expression, Folding, Head


def _source(query: Query, given: Sequence[ColumnExpr]) -> tuple[Query, list[str]]:
    """What an aggregate goes through, a whole relation, and what some columns are called."""
    names: list[str] = []
    more: list[tuple[str, Expression]] = []
    for i, each in enumerate(given):
        query, node = query.value(each)
        found: str | None = each if isinstance(each, str) else None
        found = found or next((name for name, value in query.flat() if value == node), None)
        if found is None:
            more.append((found := f"{label(each) or 'c'}_{i + 1}", node))
        names.append(found)
    if not more and query.relation is not None:
        return query, names
    parts = (*query.as_parts(), JoinPart((), tuple(more))) if more else query.parts
    wider = replace(query, columns=(*query.columns, *more), parts=parts)
    return wider.kept(CollectionKind.STREAM), names


def grouped(query: Query, by: Sequence[ColumnExpr], aggregates: Sequence[Aggregation]) -> Query:
    """A row for each group, with its aggregates."""
    source, names = _source(query, [*by, *(c for each in aggregates for c in each.columns)])
    labels = [label(each) or f"c{i + 1}" for i, each in enumerate(by)]
    found = iter(names)
    terms: list[Expression] = [source.named(next(found)) for _ in by]
    for each in aggregates:
        values = tuple(source.named(next(found)) for _ in each.columns)
        terms.append(Folding(each.name, values, code=each.code, initial=each.initial))
        labels.append(each.label if each.label not in labels else f"{each.label}_{each.name}")
    is_fold = any(each.name == "reduce" for each in aggregates)
    kind = CollectionKind.REDUCE if is_fold else CollectionKind.GROUP
    kept = query.recorder.element(kind, labels, len(by))
    query.recorder.rule(Head(kept.name, tuple(terms)), source.literals)
    return replace(facts_of(kept, query.recorder), is_spread=is_fold)


def best(query: Query, by: Sequence[ColumnExpr], column: ColumnExpr, name: str) -> Query:
    """The rows that have the value of an aggregate of their group."""
    source, names = _source(query, [*by, column])
    values = grouped(source, names[:-1], [Aggregation(name, (names[-1],), "best")])
    both = source.joined(values)
    for each, (_, value) in zip(names, values.columns, strict=True):
        both = both.equated(source.named(each), value)
    own, parts = len(query.columns), len(query.as_parts())
    return replace(
        source, literals=both.literals, columns=source.columns[:own], parts=source.parts[:parts]
    )


def numbered(query: Query, by: Sequence[ColumnExpr], name: str, *, reverse: bool) -> Query:
    """The rows with their place, by some columns or else as they were sorted."""
    order, is_reversed = query.order
    source, names = _source(query, by)
    terms = [source.named(each) for each in names] or [
        source.named(each) if isinstance(each, str) else source.of_rows(each, frozen)
        for each in order
    ]
    kept = query.recorder.element(
        CollectionKind.INDEX, [*source.column_names(), name], len(source.columns)
    )
    place = Folding("index", tuple(terms), initial=reverse != is_reversed)
    head = Head(kept.name, (*(value for _, value in source.columns), place))
    query.recorder.rule(head, source.literals)
    found = facts_of(kept, query.recorder)
    columns = (*found.columns[: len(query.columns)], found.columns[-1])
    return found.alone(columns, query.as_parts()[0].sources if len(query.parts) < 2 else ())
