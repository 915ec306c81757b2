"""Questions asked straight from Python: variables, a body, constraints as objects.

    find(relations, "person parent city",
         "lives_in(person, city), parent(person, parent), lives_in(parent, city)",
         city=one_of({"Arrakeen", "Carthag"}))

The result is searched for as it is consumed: asking for one answer of a huge join costs little.

Bodies are written as in a rule of DeALS, but any name can be a variable: if it is listed as one, or
begins with a capital letter; other names are texts. `!` may stand for `~`. Values are combined by
+ - *; what computes more is given as a predicate.

    lives_in(person, city), parent(person, other), ~blocked(person), age >= 18, (x = 1 ; x = y + 2)
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa

from caladan.columns.interner import Tuples
from caladan.columns.ranks import Kind, kind_of_value
from caladan.join.constraint import Constraint, Var
from caladan.join.frontier import Bindings
from caladan.join.grades import estimates
from caladan.join.guided import SearchBody, forget_unused, solve, unbounded
from caladan.join.parties import Party
from caladan.join.search.build import Builder, gives_values
from caladan.join.search.kinds import check, kinds_of, listed_variables
from caladan.join.search.library import Data, Domain, Library
from caladan.join.search.specs import (
    BetweenSpec,
    OneOfSpec,
    PredicateSpec,
    Spec,
    one_of,
    predicate,
)
from caladan.join.statistics import Statistics
from caladan.language.deals import literals
from caladan.language.deals.cursor import Cursor, SyntaxFailure
from caladan.language.deals.tokens import END
from caladan.program import (
    Arithmetic,
    Atom,
    Comparison,
    Constant,
    Disjunction,
    Literal,
    Negative,
    Value,
    Variable,
)
from caladan.program.diagnostics import Diagnostics, SourceText, error
from caladan.program.transform import replace_in, walk

_SHOWN: Final = 10
_TEXT_OR_MARK: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|!""", re.DOTALL)
_KNOWN: Final = (Atom, Comparison, Disjunction, Variable, Constant, Negative, Arithmetic)


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
    parsed = parse_body(body, {*names, *by_variable})
    check(parsed, library)
    specs = [(None, each) for each in constraints]
    specs += [(var, _spec(given)) for var, given in by_variable.items()]
    given = {var: kind for var, spec in specs if var and (kind := _kind_of(spec))}
    kinds = kinds_of(parsed, library, given)
    for var in (*names, *by_variable):
        kinds.setdefault(var, Kind.INTEGER)
    listed = listed_variables(parsed) | {
        var for var, spec in specs if var and not isinstance(spec, PredicateSpec)
    }
    builder = Builder(library, kinds, frozenset(listed))
    seen = frozenset((*names, *by_variable)).union(*(_shown(spec) for _, spec in specs))
    made = builder.conjunction(parsed, seen)
    domains = {var: builder.domain(var) for var in kinds}
    for var, spec in specs:
        made.append(builder.party(_constraint(var, spec, domains)))
    _check_safe(names, made)
    return Found(names, made, {v: builder.domain(v) for v in names}, search, width)


class Found:
    """The answers of a `find`: an iterable of tuples. Every iteration searches anew."""

    def __init__(
        self,
        variables: tuple[Var, ...],
        constraints: Sequence[Party],
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
            columns = [
                domain.values(domain.ranks(batch.columns[var]))
                for var, domain in self._domains.items()
            ]
            yield from zip(*columns, strict=True) if columns else [()] * batch.rows

    def count(self) -> int:
        """How many answers; this searches to the end."""
        return sum(batch.rows for batch in self._distinct())

    def arrow(self) -> pa.Table:
        """All answers as an Arrow table."""
        batches = list(self._distinct())
        columns: list[Any] = []
        for var, domain in self._domains.items():
            words = np.concatenate([np.empty(0, np.uint32), *(b.columns[var] for b in batches)])
            columns.append(domain.arrow(domain.ranks(words)))
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

    def _distinct(self) -> Iterator[Bindings]:
        """Batches of words; bindings that differ only in variables nobody asked for come once."""
        self.statistics = Statistics()
        batches = solve(
            self._constraints,
            self.variables,
            grade=self._grade,
            width=self._width,
            first=1,
            statistics=self.statistics,
        )
        wanted = frozenset(self.variables)
        kept = forget_unused(self._constraints, wanted)
        hidden = not wanted or any(c.variables - wanted for c in kept)
        seen = Tuples(len(self.variables))
        for batch in batches:
            if not hidden:
                yield batch
                continue
            _, fresh = seen.ids([batch.columns[v] for v in self.variables], batch.rows)
            if len(fresh):
                rows = fresh.astype(np.uint32)
                yield Bindings(len(fresh), batch.at(rows, self.variables))


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if not name.isidentifier() or name == "_":
            raise error("C050", f"`{name}` cannot be the name of a variable")
    if len(set(names)) < len(names):
        raise error("C050", "a variable is listed twice")


def _check_safe(names: Sequence[Var], constraints: Sequence[Party]) -> None:
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


def parse_body(text: str, variables: Collection[str], name: str = "<find>") -> tuple[Literal, ...]:
    """The literals of a body; names among `variables` are variables."""
    plain = _TEXT_OR_MARK.sub(lambda each: "~" if each[0] == "!" else each[0], text)
    found = Diagnostics()
    cursor = Cursor(SourceText(name, plain), found, whole="body")
    if cursor.kind == END:
        found.raise_errors()
        return ()
    try:
        body, cut = literals.body(cursor)
        if cursor.kind != END:
            cursor.fail("a comma or the end")
    except SyntaxFailure:
        found.raise_errors()
        raise
    found.raise_errors()
    if cut.order or cut.limit is not None:
        raise error("C051", "`find` hands out answers while they are taken: it sorts none")
    for node in walk(*body):
        if not isinstance(node, _KNOWN) or (
            isinstance(node, Arithmetic) and node.operator not in ("+", "-", "*")
        ):
            raise error("C051", "`find` does not compute this", node.span, help="give a predicate")

    def named(node: Any) -> Variable | None:
        if isinstance(node, Constant) and node.span is not None and node.span.text in variables:
            return Variable(node.span.text, node.span)
        return None

    return replace_in(body, named)
