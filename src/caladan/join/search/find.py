"""Questions asked straight from Python: variables, a body, constraints as objects.

    find(relations, "person parent city",
         "lives_in(person, city), parent(person, parent), lives_in(parent, city)",
         city=one_of({"Arrakeen", "Carthag"}))

The result is searched for as it is consumed: asking for one answer of a huge join costs little.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from caladan.columns.ranks import Kind, kind_of_value
from caladan.join.search.body import SearchBody, forget_unused
from caladan.join.search.build import Builder, gives_values
from caladan.join.search.constraint import Constraint
from caladan.join.search.frontier import Frontier, Var
from caladan.join.search.grades import estimates
from caladan.join.search.kinds import check, kinds_of, listed_variables
from caladan.join.search.library import Data, Domain, Library
from caladan.join.search.parse import parse_body
from caladan.join.search.solve import solve, unbounded
from caladan.join.search.specs import (
    BetweenSpec,
    OneOfSpec,
    PredicateSpec,
    Spec,
    one_of,
    predicate,
)
from caladan.join.statistics import Statistics
from caladan.program import Value
from caladan.program.diagnostics import error

_SHOWN: Final = 10


def find(
    relations: Mapping[str, Data] | Library,
    variables: str | Sequence[str],
    body: str = "",
    *constraints: object,
    search: str = "paul",
    width: int | None = None,
    **by_variable: object,
) -> Found:
    """The distinct bindings of some variables that satisfy a body and further constraints.

    `relations` are Arrow tables, data frames, lists of rows, or a `Library`, which keeps what it
    has encoded for the next question. `variables` are names, separated by blanks or as a sequence;
    other variables of the body begin with a capital letter.
    `constraints` are objects with the methods of a constraint, or predicates on several variables;
    `by_variable` has a set, a range, a function or a constraint for one variable each.

    >>> parent = [("jessica", "paul"), ("paul", "leto"), ("paul", "ghanima")]
    >>> sorted(find({"parent": parent}, "old young", "parent(old, X), parent(X, young)"))
    [('jessica', 'ghanima'), ('jessica', 'leto')]
    """
    library = relations if isinstance(relations, Library) else Library(relations)
    names = tuple(variables.replace(",", " ").split() if isinstance(variables, str) else variables)
    _check_names(names)
    literals = parse_body(body, {*names, *by_variable})
    check(literals, library)
    specs = [(None, each) for each in constraints]
    specs += [(var, _spec(given)) for var, given in by_variable.items()]
    given = {var: kind for var, spec in specs if var and (kind := _kind_of(spec))}
    kinds = kinds_of(literals, library, given)
    for var in (*names, *by_variable):
        kinds.setdefault(var, Kind.INTEGER)
    listed = listed_variables(literals) | {
        var for var, spec in specs if var and not isinstance(spec, PredicateSpec)
    }
    builder = Builder(library, kinds, frozenset(listed))
    seen = frozenset((*names, *by_variable)).union(*(_shown(spec) for _, spec in specs))
    made = builder.conjunction(literals, seen)
    domains = {var: builder.domain(var) for var in kinds}
    for var, spec in specs:
        made.append(_constraint(var, spec, domains))
    _check_safe(names, made)
    return Found(names, made, {v: builder.domain(v) for v in names}, search, width)


class Found:
    """The answers of a `find`: an iterable of tuples. Every iteration searches anew."""

    def __init__(
        self,
        variables: tuple[Var, ...],
        constraints: Sequence[Constraint],
        domains: Mapping[Var, Domain],
        grade: str,
        width: int | None,
    ) -> None:
        self.variables = variables
        self.statistics = Statistics()
        self._constraints = constraints
        self._domains = domains
        self._grade = grade
        self._width = width

    def __iter__(self) -> Iterator[tuple[Value, ...]]:
        for batch in self._distinct():
            columns = [self._domains[v].values(batch.columns[v]) for v in self.variables]
            yield from zip(*columns, strict=True) if columns else [()] * len(batch)

    def count(self) -> int:
        """How many answers; this searches to the end."""
        return sum(len(batch) for batch in self._distinct())

    def arrow(self) -> pa.Table:
        """All answers as an Arrow table."""
        batches = list(self._distinct())
        columns: list[Any] = []
        for var in self.variables:
            words = np.concatenate([np.empty(0, np.int64), *(b.columns[var] for b in batches)])
            columns.append(self._domains[var].arrow(words))
        return pa.table(columns, names=list(self.variables))

    def explain(self) -> str:
        """What each constraint of a variable would propose at the start, and what was proposed.

        Before the answers were asked for, only the estimates are known.
        """
        constraints = forget_unused(self._constraints, frozenset(self.variables))
        body = SearchBody(constraints, self.variables)
        return "\n".join(estimates(body, self._grade, self.statistics))

    def __repr__(self) -> str:
        shown = list(islice(self, _SHOWN + 1))
        more = ", …" if len(shown) > _SHOWN else ""
        return f"Found({', '.join(map(repr, shown[:_SHOWN]))}{more})"

    def _distinct(self) -> Iterator[Frontier]:
        """Batches of words; bindings that differ only in variables nobody asked for come once."""
        self.statistics = Statistics(details=True)
        batches = solve(
            self._constraints,
            self.variables,
            grade=self._grade,
            width=self._width,
            statistics=self.statistics,
        )
        wanted = frozenset(self.variables)
        kept = forget_unused(self._constraints, wanted)
        hidden = not wanted or any(c.variables - wanted for c in kept)
        seen: set[tuple[int, ...]] = set()
        for batch in batches:
            if not hidden:
                yield batch
                continue
            new = [
                row
                for row, words in enumerate(batch.rows(self.variables))
                if words not in seen and not seen.add(words)
            ]
            if new:
                yield batch.take(np.array(new))


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not name.isidentifier() or name == "_":
            raise error("C050", f"`{name}` cannot be the name of a variable")
    if len(set(names)) < len(names):
        raise error("C050", "a variable is listed twice")


def _check_safe(names: Sequence[Var], constraints: Sequence[Constraint]) -> None:
    """Every variable must get values from somewhere, by whatever way through the equations."""
    every = frozenset(names).union(*(c.variables for c in constraints))
    bound: set[Var] = set()
    grown = True
    while grown:
        before = len(bound)
        for constraint in constraints:
            bound |= gives_values(constraint, bound)
        grown = len(bound) > before
    if every - bound:
        shown = sorted(v for v in every - bound if not v.startswith("#"))
        raise unbounded(shown or sorted(every - bound))


def _spec(given: object) -> object:
    """What a user wrote for a variable, as a spec or a constraint."""
    if isinstance(given, Spec | Constraint):
        return given
    if callable(given):
        return predicate(given)
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        return one_of([given])
    return one_of(cast("Iterable[object]", given))


def _shown(spec: object) -> frozenset[Var]:
    """The variables that a spec or constraint names itself."""
    return frozenset(getattr(spec, "variables", ()))


def _kind_of(spec: object) -> Kind | None:
    """The kind that a spec's values suggest, for a variable that has no column."""
    values: tuple[object, ...] = ()
    if isinstance(spec, OneOfSpec):
        values = spec.values
    elif isinstance(spec, BetweenSpec):
        values = (spec.low, spec.high)
    kinds = {kind_of_value(v.item() if isinstance(v, np.generic) else v) for v in values}
    if kinds == {Kind.INTEGER, Kind.FLOAT}:
        return Kind.FLOAT
    if len(kinds) > 1:
        return Kind.OBJECT if isinstance(spec, OneOfSpec) else None
    return kinds.pop() if kinds else None


def _constraint(var: Var | None, spec: object, domains: Mapping[Var, Domain]) -> Constraint:
    if isinstance(spec, Spec):
        missing = [v for v in sorted(_shown(spec)) if v not in domains]
        if missing:
            raise error("C013", f"`{missing[0]}` is no variable of the body")
        return spec.constrain(var, domains)
    if isinstance(spec, Constraint):
        if var is not None and var not in spec.variables:
            raise error("C050", f"the constraint given for `{var}` has no such variable")
        return spec
    raise error(
        "C050",
        f"{spec!r} is no constraint",
        help="it needs variables, estimate, propose, confirm and influence",
    )
