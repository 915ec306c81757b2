"""What the analysis hands on: the checked program in core form.

Core form is the small language that everything after the analysis reads:

- an atom's arguments are variables and constants; constants have the type of their column;
- `_` in a positive atom has become a variable of its own (`_1`, `_2` …); in a negated atom it stays
  `_` and means "whatever";
- what was an expression inside an atom has become an equality beside it;
- an aggregate stands alone in its head column; `count`, and `mcount` without a witness, have no
  terms: they count solutions; parameters are constants; `if` literals are split;
- every variable has a type, and every rule its number, counted from 1 as the user reads them.

`Checked` holds the rules, the relations with inferred columns, the cliques in evaluation order, the
goals and the warnings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from caladan.program import (
    Aggregate,
    Column,
    Comparison,
    Constant,
    Expression,
    SortKey,
    Type,
    Value,
    Variable,
)
from caladan.program.aggregates import AggregateFunction
from caladan.program.diagnostics import Diagnostic, Span

Term: TypeAlias = Variable | Constant

Facts: TypeAlias = Mapping[str, tuple[tuple[Value, ...], ...]]
OpenFacts: TypeAlias = Mapping[str, tuple[tuple[Constant, ...], ...]]
"""Facts with a parameter in them: as constants, so that they can be given other values."""


@dataclass(frozen=True, slots=True)
class CoreAtom:
    """A relation mentioned in a body; its arguments are variables and constants."""

    relation: str
    arguments: tuple[Term, ...]
    negated: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def variables(self) -> tuple[str, ...]:
        """Named variables in order of first appearance, without repetitions."""
        return tuple(dict.fromkeys(v.name for v in self._variables()))

    def _variables(self) -> Iterator[Variable]:
        return (a for a in self.arguments if isinstance(a, Variable) and not a.is_anonymous)


@dataclass(frozen=True, slots=True)
class CoreRule:
    """A rule in core form.

    `arguments` has one entry for each head column: an expression without aggregates, or an
    `Aggregate`. `types` has the type of every variable of the body. `number` is what users know it
    by, and what was made of the same rule has in common; `place` tells apart the rules that are
    evaluated, once these are settled, and what is made of one of them then keeps it. So it does
    with `origin`, the user's name for its head (`tc` for `tc_bf`).
    """

    number: int
    head: str
    arguments: tuple[Expression, ...]
    atoms: tuple[CoreAtom, ...]
    comparisons: tuple[Comparison, ...]
    types: Mapping[str, Type]
    order: tuple[SortKey, ...] = ()
    limit: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    place: int = field(default=0, compare=False)
    origin: str = field(default="", compare=False)

    @property
    def derives(self) -> str:
        """What users know as its head."""
        return self.origin or self.head

    @property
    def positive(self) -> tuple[CoreAtom, ...]:
        """The atoms that bind variables."""
        return tuple(a for a in self.atoms if not a.negated)

    @property
    def has_aggregates(self) -> bool:
        return any(isinstance(a, Aggregate) for a in self.arguments)


def by_head(rules: Iterable[CoreRule]) -> dict[str, list[CoreRule]]:
    """The rules of each relation that has some."""
    found: dict[str, list[CoreRule]] = {}
    for rule in rules:
        found.setdefault(rule.head, []).append(rule)
    return found


@dataclass(frozen=True, slots=True)
class RelationInfo:
    """A relation as the analysis knows it.

    `aggregates` has, for each column, the row of what combines values of a group, or None for a
    group column. `takes_data` relations get facts from outside; `is_derived` ones have rules or
    facts in the program; a relation may be both. `origin` is the user's name for what the compiler
    made (`tc` for `tc_bf`); `order` is how a sorted relation is to be shown. One that is `part_of`
    another has some of its facts, so columns of both hold the same values. An atom of one that
    `matches_missing` finds the group of a rule's own solutions, also by a key that is missing.
    """

    name: str
    columns: tuple[Column, ...]
    takes_data: bool
    is_derived: bool
    aggregates: tuple[AggregateFunction | None, ...]
    origin: str
    is_internal: bool = False
    order: tuple[tuple[int, bool], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    part_of: str | None = None
    matches_missing: bool = False

    @property
    def arity(self) -> int:
        return len(self.columns)

    @property
    def types(self) -> tuple[Type, ...]:
        return tuple(c.type for c in self.columns)

    @property
    def has_aggregates(self) -> bool:
        """Whether some column is computed by an aggregate."""
        return any(self.aggregates)

    @property
    def group(self) -> tuple[int, ...]:
        """The positions of the columns that are not aggregates."""
        return tuple(i for i, f in enumerate(self.aggregates) if f is None)


@dataclass(frozen=True, slots=True)
class Clique:
    """Relations that depend on each other, or one that does not depend on itself."""

    relations: tuple[str, ...]
    is_recursive: bool
    stratum: int
    rules: tuple[CoreRule, ...]

    def is_recursive_rule(self, rule: CoreRule) -> bool:
        """Whether a rule of the clique reads the clique."""
        return any(a.relation in self.relations for a in rule.positive)

    @property
    def exit_rules(self) -> tuple[CoreRule, ...]:
        """The rules that start the clique off."""
        return tuple(r for r in self.rules if not self.is_recursive_rule(r))

    @property
    def recursive_rules(self) -> tuple[CoreRule, ...]:
        """The rules that go round."""
        return tuple(r for r in self.rules if self.is_recursive_rule(r))


@dataclass(frozen=True, slots=True)
class CoreGoal:
    """A question: the facts of `relation` that match `arguments`, as whole rows.

    `name` is the relation as the user wrote it; `relation` the one to read, which differs where
    demand made a version of it that is bound. `columns` names the answer's columns: the goal's
    variables, and the relation's own column where a constant stands.
    """

    name: str
    relation: str
    arguments: tuple[Term, ...]
    columns: tuple[Column, ...]
    export: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def binding(self) -> str:
        """The binding pattern, `b` for a constant and `f` for a variable."""
        return "".join("b" if isinstance(a, Constant) else "f" for a in self.arguments)

    @property
    def constants(self) -> list[tuple[int, Value]]:
        """The columns that have to have a value, with that value."""
        return [(i, a.value) for i, a in enumerate(self.arguments) if isinstance(a, Constant)]

    @property
    def is_bound(self) -> bool:
        """Whether not every fact is an answer."""
        return bool(self.constants or self.repeated)

    @property
    def repeated(self) -> list[tuple[int, int]]:
        """Pairs of columns that have to be equal: the goal gives them the same variable."""
        first: dict[str, int] = {}
        pairs: list[tuple[int, int]] = []
        for i, argument in enumerate(self.arguments):
            if not isinstance(argument, Constant) and not argument.is_anonymous:
                if argument.name in first:
                    pairs.append((first[argument.name], i))
                else:
                    first[argument.name] = i
        return pairs


@dataclass(frozen=True, slots=True, kw_only=True)
class HasFacts:
    """Facts of a program; those of `open_facts` are the last of their relations in `facts`."""

    facts: Facts
    open_facts: OpenFacts = field(default_factory=dict[str, tuple[tuple[Constant, ...], ...]])


@dataclass(frozen=True, slots=True)
class Checked(HasFacts):
    """A program that is known to make sense."""

    relations: Mapping[str, RelationInfo]
    rules: tuple[CoreRule, ...]
    cliques: tuple[Clique, ...]
    goals: tuple[CoreGoal, ...]
    warnings: tuple[Diagnostic, ...] = ()


def with_open(facts: Facts, open_facts: OpenFacts) -> Facts:
    """Facts, and behind them those that have parameters."""
    valued = {
        name: tuple(tuple(constant.value for constant in row) for row in rows)
        for name, rows in open_facts.items()
    }
    return {**facts, **{name: (*facts.get(name, ()), *rows) for name, rows in valued.items()}}
