"""What takes part in a guided search: atoms over stored relations, tests, constraints of others.

StoredAtom       proposes and confirms, by orders and views of its relation
StepConstraint   a test or a negated atom of a body: confirms once its variables are bound
Foreign          a constraint that knows values, not words (constraint.py): it is handed
                 values, and what it proposes gets words
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import numpy as np

from caladan.columns.domains import Domain, known_words
from caladan.columns.layout import Counts, Mask, Words
from caladan.columns.relation import StoredRelation
from caladan.columns.views import ViewColumns
from caladan.join.constraint import Candidates, Constraint, Frontier, Partial
from caladan.join.frontier import Bindings
from caladan.join.steps import AbsentStep, LookupStep, TestStep
from caladan.program import thresholds
from caladan.rules.body import Version

Term: TypeAlias = str | int


class RankCoding(Protocol):
    """What is asked of a domain: words of values, by their ranks, and back."""

    def known(self, ranks: Counts) -> tuple[Words, Mask]:
        """The words of ranks, and which of them there are."""
        ...

    def ranks(self, words: Words) -> Counts:
        """The ranks of words."""
        ...


@dataclass(frozen=True, slots=True)
class RuleCoding:
    """The domain of a rule's variable: one that is closed has no other values."""

    domain: Domain

    def known(self, ranks: Counts) -> tuple[Words, Mask]:
        """The words of ranks, and which of them there are."""
        return known_words(self.domain, ranks)

    def ranks(self, words: Words) -> Counts:
        """The ranks of words."""
        return self.domain.ranks(words)


class Party(Protocol):
    """Whatever restricts variables."""

    @property
    def variables(self) -> frozenset[str]:
        """The variables it restricts."""
        ...

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """How many values it has for a variable, at most, for each row; None if it lists none."""
        ...

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """The rows with values of a variable; `counts` is its estimate."""
        ...

    def confirm(self, frontier: Bindings, var: str) -> Bindings:
        """The rows that it does not rule out; `var` got its value last."""
        ...

    def influence(self, var: str) -> frozenset[str]:
        """Whose estimates change when a variable is bound."""
        ...


@dataclass(frozen=True, eq=False)
class StoredAtom:
    """An atom: a version of a relation, and for each column a variable, a word, or None."""

    relation: StoredRelation
    version: Version
    arguments: tuple[Term | None, ...]
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
        copied = StoredRelation(self.relation.domains)
        index = self.relation.index((), self.version)
        for hits in self.relation.scan(self.version):
            alive = index.alive(hits)
            kept = hits if alive is None else hits[alive]
            copied.add([index.column(kept, c) for c in range(copied.arity)], len(kept))
        copied.flip()
        copied.commit()
        return StoredAtom(copied, Version.FULL, self.arguments, self.name)

    def under(self, bound: Collection[str], new: tuple[str, ...] = ()) -> LookupStep:
        """The atom under what is bound and some more variables, whatever the others are."""
        first: dict[str, int] = {}
        equal: list[tuple[int, int]] = []
        terms: dict[int, Term] = {}
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
        shown = ViewColumns(tuple(terms), tuple(equal))
        placed = dict(enumerate(terms.values()))
        return LookupStep(
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


class StepConstraint:
    """A test or a negated atom of a body: it kills candidates once all its variables are bound."""

    def __init__(self, step: AbsentStep | TestStep, name: str = "test") -> None:
        self._step = step
        self._name = name
        self.variables = step.reads

    def __str__(self) -> str:
        return self._name

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """Nothing: it has no values to propose."""
        del frontier, var

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """Never asked, for it estimates nothing."""
        raise AssertionError(f"a test proposes no {var} for {frontier.rows} rows, {counts}")

    def confirm(self, frontier: Bindings, var: str) -> Bindings:
        """Without what the step would throw out; arithmetic that fails is left to later ones."""
        del var
        if not self.variables <= frontier.columns.keys():
            return frontier
        try:
            return self._step.apply(frontier)
        except ArithmeticError:
            return frontier

    def influence(self, var: str) -> frozenset[str]:
        """Nobody's estimates change."""
        del var
        return frozenset()


def allowed(constraint: Party, frontier: Bindings) -> Bindings:
    """The rows that a constraint allows, as far as its variables are bound."""
    bound = constraint.variables & frontier.columns.keys()
    if constraint.variables and not bound:
        return frontier
    return constraint.confirm(frontier, min(bound, default=""))


class Foreign:
    """A constraint over values, by the domains of its variables.

    `names` are its own names for variables that are called otherwise here.
    """

    def __init__(
        self,
        constraint: Constraint,
        domains: Mapping[str, RankCoding],
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.constraint = constraint
        self._domains = domains
        self._names = names or {name: name for name in constraint.variables}
        self.variables = frozenset(self._names)

    def __str__(self) -> str:
        return str(self.constraint)

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """What the constraint says."""
        return self.constraint.estimate(self._values(frontier), self._names[var])

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """What the constraint proposes, about as much at a time as there is room for."""
        values = self._values(frontier)
        ends = np.cumsum(np.minimum(counts, 1 << 40))
        at = 0
        while at < frontier.rows:
            before = int(ends[at - 1]) if at else 0
            room = thresholds.now.room
            end = max(int(np.searchsorted(ends, before + room, side="right")), at + 1)
            rows = np.arange(at, end)
            for made in self._proposed(values.take(rows), self._names[var], int(counts[at])):
                words, known = self._domains[var].known(made.values)
                longer = frontier.at(rows[made.parents].astype(np.uint32), frontier.columns)
                yield Bindings(len(made), {**longer, var: words}).where(known)
            at = end

    def _proposed(self, values: Frontier, var: str, first: int) -> Iterator[Candidates]:
        limit = thresholds.now.room
        if len(values) > 1 or first <= limit or not isinstance(self.constraint, Partial):
            yield self.constraint.propose(values, var)
            return
        skip, is_full = 0, True
        while is_full:
            part = self.constraint.propose_part(values, var, skip, limit)
            is_full = len(part) == limit
            skip += limit
            yield part

    def confirm(self, frontier: Bindings, var: str) -> Bindings:
        """What the constraint lets live."""
        values = self._values(frontier)
        if var in self.variables:
            candidates = Candidates.held(values, self._names[var])
        else:
            nothing = np.zeros(len(values), np.int64)
            candidates = Candidates.of(values, "", nothing, values.tags)
        self.constraint.confirm(candidates)
        return frontier.where(candidates.alive)

    def influence(self, var: str) -> frozenset[str]:
        """What the constraint says."""
        changed = self.constraint.influence(self._names[var])
        return frozenset(here for here, there in self._names.items() if there in changed)

    def _values(self, frontier: Bindings) -> Frontier:
        """The values of its variables that are bound."""
        columns = {
            there: self._domains[here].ranks(frontier.columns[here])
            for here, there in self._names.items()
            if here in frontier.columns
        }
        return Frontier(columns, np.arange(frontier.rows, dtype=np.int64))
