"""Operators on queries that relate facts to others: joins, and what needs all facts first.

    joins    rows that go together, rows without a partner, and both at once
    groups   with their aggregates, their best rows, rows with their place

Groups have an element of their own, an internal relation that goes through one relation as it is;
what is none becomes one first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce as folded

from caladan.language.bloom.expressions import Aggregation, ColumnExpr, label
from caladan.language.bloom.queries import NOTHING, JoinPart, Query, facts_of
from caladan.language.bloom.schema import CollectionKind
from caladan.language.bloom.values import freeze
from caladan.program import Expression, Folding, Head
from caladan.program.diagnostics import error


def match_pairs(query: Query, on: Sequence[object], named: dict[str, str]) -> Query:
    """The pairs that go together: by columns of one name, `left="right"`, or conditions."""
    parts, recorder = query.parts, query.recorder
    for each in on:
        if not isinstance(each, str):
            query = query.selected(each)
            continue
        values = [v for part in parts for n, v in part.columns if n == each]
        if len(values) < 2:
            raise error(
                "C063",
                f"column `{each}` is not in two of the joined collections",
                recorder.here(),
                help='to join columns of different names: pairs(key="id")',
            )
        for other in values[1:]:
            query = query.equated(values[0], other)
    for left, right in named.items():
        names = [[name for name, _ in part.columns] for part in parts]
        first = next((i for i, each in enumerate(names[:-1]) if left in each), 0)
        one = Query(recorder, parts[first].columns, (), ()).named(left)
        rest = tuple(pair for part in parts[first + 1 :] for pair in part.columns)
        query = query.equated(one, Query(recorder, rest, (), ()).named(right))
    return query


def outer_joined(query: Query, on: Sequence[object], named: dict[str, str]) -> Query:
    """The pairs, and the rows of the left without a partner beside None."""
    left = query.left
    if left is None:
        raise error(
            "C050", "outer() needs a join", query.recorder.here(), help='(t * u).outer("key")'
        )
    if len(query.parts) != 2:
        raise error(
            "C050",
            f"outer() joins two collections, not {len(query.parts)}",
            query.recorder.here(),
            help='join the others first: ((t * u).flatten("a") * v).outer("b")',
        )
    pairs = match_pairs(query, on, named)
    width, flat = len(left.columns), pairs.flat()
    partners = replace(pairs, columns=flat).kept(CollectionKind.STREAM)
    alone = left.absent(partners, dict(enumerate(value for _, value in left.columns)))
    padded = (*(value for _, value in alone.columns), *(NOTHING for _ in flat[width:]))
    kept = query.recorder.element(CollectionKind.STREAM, [name for name, _ in flat])
    both = tuple(value for _, value in partners.columns)
    for each, values in ((partners, both), (alone, padded)):
        query.recorder.rule(Head(kept.name, values), each.literals)
    return facts_of(kept, query.recorder).under(query.as_parts())


def without(
    query: Query, right: Query, on: Sequence[object], named: dict[str, str], where: object
) -> Query:
    """The rows without a partner, or of whose partners no condition holds."""
    pairs = [(each, each) for each in on if isinstance(each, str)] + list(named.items())
    conditions = [each for each in on if not isinstance(each, str)]
    conditions += [] if where is None else [where]
    wanted: dict[int, Expression] = {}
    for left, name in pairs:
        right.named(name)
        wanted[right.column_names().index(name)] = query.named(left)
    whole = dict(enumerate(value for _, value in query.columns))
    if conditions:
        both = query.joined(right)
        for i, value in wanted.items():
            both = both.equated(value, both.columns[len(query.columns) + i][1])
        both = folded(Query.selected, conditions, both)
        return query.absent(replace(both, columns=query.columns).kept(CollectionKind.STREAM), whole)
    if not pairs and len(query.columns) != len(right.columns):
        raise error(
            "C011",
            f"rows of {len(query.columns)} columns are compared with rows of {len(right.columns)}",
            query.recorder.here(),
            help='name the columns to compare: notin(other, "key")',
        )
    return query.absent(right, wanted or whole)


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


def group_rows(query: Query, by: Sequence[ColumnExpr], aggregates: Sequence[Aggregation]) -> Query:
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
    values = group_rows(source, names[:-1], [Aggregation(name, (names[-1],), "best")])
    both = source.joined(values)
    for each, (_, value) in zip(names, values.columns, strict=True):
        both = both.equated(source.named(each), value)
    own, parts = len(query.columns), len(query.as_parts())
    return replace(
        source, literals=both.literals, columns=source.columns[:own], parts=source.parts[:parts]
    )


def number_rows(query: Query, by: Sequence[ColumnExpr], name: str, *, reverse: bool) -> Query:
    """The rows with their place, by some columns or else as they were sorted."""
    order, is_reversed = query.order
    source, names = _source(query, by)
    terms = [source.named(each) for each in names] or [
        source.named(each) if isinstance(each, str) else source.of_rows(each, freeze)
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
