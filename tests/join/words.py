"""Bodies of the search for tests: integers in one domain, as the searches of `find` have them."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from caladan.columns.domains import OffsetDomain
from caladan.columns.ranks import Kind
from caladan.columns.relation import StoredRelation
from caladan.join.either import Either, Exists
from caladan.join.frontier import Bindings
from caladan.join.guided import solve
from caladan.join.parties import Foreign, Party, StepConstraint, StoredAtom, allowed
from caladan.join.search.library import Dictionary, Domain
from caladan.join.steps import AbsentStep
from caladan.rules.body import Version

DOMAIN = Domain(Kind.INTEGER, Dictionary(), OffsetDomain(Kind.INTEGER, -1000, 1, grows=True))


class EveryDomain(dict[str, Domain]):
    """The same domain for any variable."""

    def __missing__(self, name: str) -> Domain:
        return DOMAIN


def word(value: int) -> int:
    return int(DOMAIN.words(np.array([value]))[0])


def stored(batches: Sequence[Sequence[Sequence[int]]], arity: int) -> StoredRelation:
    """A relation that got its facts batch by batch, each a run of its own."""
    relation = StoredRelation([DOMAIN.coding] * arity)
    for batch in batches:
        rows = np.array(batch, np.int64).reshape(-1, arity)
        columns = [DOMAIN.words(np.ascontiguousarray(c)) for c in rows.T]
        if len(batch):
            relation.add(columns, len(batch) if arity else 1)
        relation.flip()
        relation.commit()
    return relation


def edges(pairs: Any) -> StoredRelation:
    return stored([pairs], 2)


def atom(relation: StoredRelation, arguments: Sequence[str | int | None]) -> StoredAtom:
    terms = tuple(word(a) if isinstance(a, int) else a for a in arguments)
    return StoredAtom(relation, Version.FULL, terms)


def negated(relation: StoredRelation, arguments: Sequence[str | int | None]) -> Party:
    bound = {
        i: word(a) if isinstance(a, int) else a for i, a in enumerate(arguments) if a is not None
    }
    return StepConstraint(AbsentStep(relation, bound))


def party(constraint: Any) -> Party:
    """What takes part already, or a constraint over values that does from now on."""
    if isinstance(constraint, StoredAtom | StepConstraint | Foreign | Either | Exists):
        return constraint
    return Foreign(constraint, EveryDomain())


def found(
    body: Sequence[Any],
    wanted: Sequence[str],
    seed: Mapping[str, Sequence[int]] | None = None,
    **how: Any,
) -> Iterator[list[tuple[int, ...]]]:
    """The answers of a search, batch by batch."""
    start = None
    if seed:
        columns = {v: DOMAIN.words(np.array(c, np.int64)) for v, c in seed.items()}
        start = Bindings(len(next(iter(columns.values()))), columns)
    for batch in solve(list(map(party, body)), wanted, start, **how):
        values = [DOMAIN.ranks(batch.columns[v]).tolist() for v in wanted]
        yield list(zip(*values, strict=True)) if values else [()] * batch.rows


def brute_force(
    body: Sequence[Any], wanted: Sequence[str], values: Sequence[int]
) -> set[tuple[int, ...]]:
    """Every binding of all variables to the values, by one constraint after another."""
    parties = list(map(party, body))
    names = sorted(set(wanted).union(*(c.variables for c in parties)))
    rows = list(product(values, repeat=len(names)))
    columns = {v: DOMAIN.words(np.array([row[i] for row in rows])) for i, v in enumerate(names)}
    frontier = Bindings(len(rows), columns)
    for constraint in parties:
        if frontier.rows:
            frontier = allowed(constraint, frontier)
    if not frontier.rows:
        return set()
    kept = [DOMAIN.ranks(frontier.columns[v]).tolist() for v in wanted]
    return set(zip(*kept, strict=True)) if kept else {()}
