"""Joins of queries: rows that go together, rows without a partner, and both at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce as folded

from caladan.language.bloom.queries import NOTHING, Query, facts_of
from caladan.language.bloom.schema import CollectionKind
from caladan.program import Expression, Head
from caladan.program.diagnostics import error


def matched(query: Query, on: Sequence[object], named: dict[str, str]) -> Query:
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
                f"column `{each}` is not in two of the collections that are joined",
                recorder.here(),
                help='other names go together as in pairs(key="id")',
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
            "C050", "outer() is of a join", query.recorder.here(), help='(t * u).outer("key")'
        )
    pairs = matched(query, on, named)
    width, flat = len(left.columns), pairs.flat()
    partners = replace(pairs, columns=pairs.columns[:width]).kept(CollectionKind.STREAM)
    alone = left.absent(partners, dict(enumerate(value for _, value in left.columns)))
    padded = (*(value for _, value in alone.columns), *(NOTHING for _ in flat[width:]))
    kept = query.recorder.element(CollectionKind.STREAM, [name for name, _ in flat])
    for each, values in ((pairs, tuple(value for _, value in flat)), (alone, padded)):
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
