"""Bodies of the search for tests: integers in one domain, as the searches of `find` have them."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from caladan.columns.domains import OffsetDomain
from caladan.columns.relation import StoredRelation
from caladan.join.adaptive import solve
from caladan.join.constraints.atom import StoredAtom
from caladan.join.constraints.condition import NegatedAtom
from caladan.join.constraints.protocol import BodyConstraint, JoinConstraint
from caladan.join.constraints.values import ValueConstraint
from caladan.join.frontier import Bindings
from caladan.program.kinds import Kind
from caladan.rules.body import Version

DOMAIN = OffsetDomain(Kind.INTEGER, -1000, 1, grows=True)


class EveryDomain(dict[str, OffsetDomain]):
    """The same domain for any variable."""

    def __missing__(self, name: str) -> OffsetDomain:
        return DOMAIN


def word(value: int) -> int:
    return int(DOMAIN.words(np.array([value]))[0])


def stored(batches: Sequence[Sequence[Sequence[int]]], arity: int) -> StoredRelation:
    """A relation that got its facts batch by batch, each a run of its own."""
    relation = StoredRelation([DOMAIN] * arity)
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


def negated(relation: StoredRelation, arguments: Sequence[str | int | None]) -> JoinConstraint:
    bound = {
        i: word(a) if isinstance(a, int) else a for i, a in enumerate(arguments) if a is not None
    }
    return NegatedAtom(relation, bound)


def party(constraint: Any) -> JoinConstraint:
    """What takes part already, or a constraint over values that does from now on."""
    if isinstance(constraint, StoredAtom | BodyConstraint | ValueConstraint):
        return constraint
    return ValueConstraint(constraint, EveryDomain())


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
