"""Stored atoms in a search: they propose and confirm, by orders and views of their relations."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from caladan.columns.layout import Counts, Keys, Words
from caladan.columns.relation import StoredRelation
from caladan.columns.views import ViewColumns
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.frontier import Bindings
from caladan.rules.body import Version

AtomTerm: TypeAlias = str | int


@dataclass(frozen=True, eq=False)
class StoredAtom:
    """An atom: a version of a relation, and for each column a variable, a word, or None."""

    relation: StoredRelation
    version: Version
    arguments: tuple[AtomTerm | None, ...]
    name: str = "atom"
    is_fleeting: bool = False  # whether there are no views: values of groups, what is deleted

    @property
    def variables(self) -> frozenset[str]:
        """Its variables."""
        return frozenset(a for a in self.arguments if isinstance(a, str))

    def __str__(self) -> str:
        shown = ", ".join("_" if a is None else str(a) for a in self.arguments)
        return f"{self.name}({shown})"

    def forget(self, variables: frozenset[str]) -> StoredAtom:
        """The same atom, where some variables may have any value."""
        held = (a for a in self.arguments if isinstance(a, str))
        once = variables - {a for a in held if self.arguments.count(a) > 1}
        arguments = tuple(None if a in once else a for a in self.arguments)
        return replace(self, arguments=arguments)

    def listed(self) -> StoredAtom:
        """The same atom over a copy of its facts as they are now."""
        index = self.relation.index((), self.version)

        def facts(hits: Keys) -> tuple[list[Words], int]:
            alive = index.alive(hits)
            kept = hits if alive is None else hits[alive]
            return [index.column(kept, c) for c in range(self.relation.arity)], len(kept)

        every = map(facts, self.relation.scan(self.version))
        copied = StoredRelation.of(self.relation.domains, every)
        return StoredAtom(copied, Version.FULL, self.arguments, self.name)

    def under(self, bound: Collection[str], new: tuple[str, ...] = ()) -> AtomLookup:
        """The atom under what is bound and some more variables, whatever the others are."""
        first: dict[str, int] = {}
        equal: list[tuple[int, int]] = []
        terms: dict[int, AtomTerm] = {}
        for column, term in enumerate(self.arguments):
            if isinstance(term, str) and term in first:
                equal.append((first[term], column))
            elif isinstance(term, int):
                terms[column] = term
            elif term is not None:
                first[term] = column
                if term in bound or term in new:
                    terms[column] = term
        is_whole = len(terms) == self.relation.arity
        # What is bound later may differ where older facts show the same under these columns.
        of_delta = self.version is Version.DELTA and len(first) > len({*first} & {*terms.values()})
        shown = ViewColumns(tuple(terms), tuple(equal), of_delta)
        placed = dict(enumerate(terms.values()))
        return AtomLookup(
            self.relation if is_whole else self.relation.view(shown),
            self.version,
            {place: term for place, term in placed.items() if term not in new},
            {},
            {place: str(term) for place, term in placed.items() if term in new},
            counting=False,
        )

    def confirm(self, frontier: Bindings, var: str = "") -> Bindings:
        """The rows that agree with some fact, by all that is bound."""
        del var
        lookup = self.under(frontier.columns)
        if lookup.bound:
            return next(lookup.run(frontier, frozenset(frontier.columns)))
        some = any(len(hits) for hits in self.relation.scan(self.version))
        return frontier if some else Bindings(0, {})

    def estimate(self, frontier: Bindings, var: str) -> Counts:
        """How many values go with each row."""
        return self.under(frontier.columns, (var,)).counts(frontier)

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """All values that go with what is bound."""
        del counts
        yield from self.under(frontier.columns, (var,)).run(
            frontier, frozenset((*frontier.columns, var))
        )

    def table(self) -> Bindings:
        """The distinct bindings it allows."""
        lookup = self.under((), tuple(sorted(self.variables)))
        parts = list(lookup.run(Bindings(1, {}), self.variables)) if self.variables else []
        if not self.variables:
            return self.confirm(Bindings(1, {}))
        columns = {
            v: np.concatenate([np.empty(0, np.uint32), *(p.columns[v] for p in parts)])
            for v in self.variables
        }
        return Bindings(sum(part.rows for part in parts), columns)

    def influence(self, var: str) -> frozenset[str]:
        """Binding one column changes what the others can be."""
        return self.variables - {var}
