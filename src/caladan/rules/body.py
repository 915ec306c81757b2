"""A rule's body: plain data, made once from the checked rule. Engines and explain read it.

    Scan         an atom, and which version of its relation is read
    Absence      a negated atom
    Comparison   a condition
    Binding      a variable and the expression it equals

`Body.parts` has them in an order in which each can be evaluated, seed first. Frames take that
order; a join takes the parts as sets and finds its own, by looking at the facts. Operator trees
(operators.py) are a view of a body.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from caladan.analysis.core import CoreRule, RelationInfo, Term
from caladan.analysis.schedule import Absent, Bind, Lookup, Test, schedule
from caladan.analysis.type_check import joinable
from caladan.program import (
    Aggregate,
    Column,
    Comparison,
    Constant,
    Expression,
    Type,
    Variable,
    names,
)
from caladan.program.aggregates import AggregateFunction, row_of
from caladan.program.transform import replace_in


class Version(Enum):
    """Which facts of a relation are read: x is old, δx new in the last round, x' both."""

    FULL = "full"  # a relation of an earlier clique, finished
    OLD = "old"  # x
    DELTA = "delta"  # δx
    NEW = "new"  # x' = x ∪ δx
    EITHER = "either"  # what is there now, and what a change under way has taken away


class ScanKind(Enum):
    """Where a scanned relation comes from, as explain names it."""

    BASE = "BASE_RELATION"
    DERIVED = "DERIVED_RELATION"
    RECURSIVE = "RECURSIVE_RELATION"


@dataclass(frozen=True, slots=True)
class Scan:
    """The facts of a relation that match the arguments, as the variables among them.

    `columns` are the relation's own. In an absence the scan may hold `_` arguments, which match
    anything and are not columns.
    """

    relation: str
    arguments: tuple[Term, ...]
    columns: tuple[Column, ...]
    kind: ScanKind
    version: Version = Version.FULL

    @property
    def variables(self) -> tuple[str, ...]:
        """The named variables, in order of first appearance."""
        return tuple(
            dict.fromkeys(
                a.name for a in self.arguments if isinstance(a, Variable) and not a.is_anonymous
            )
        )

    @property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def mismatched(self, types: Mapping[str, Type]) -> dict[int, str]:
        """The columns that meet a variable of another kind of number, with that variable."""
        return {
            i: argument.name
            for i, (argument, column) in enumerate(zip(self.arguments, self.columns, strict=True))
            if isinstance(argument, Variable)
            and not argument.is_anonymous
            and not joinable(types[argument.name], column.type)
        }


@dataclass(frozen=True, slots=True)
class Absence:
    """What must have no match."""

    scan: Scan


@dataclass(frozen=True, slots=True)
class Binding:
    """A variable and the expression it equals.

    A `solved` one is looked for: an atom has it too, or it is not as the user wrote it
    (`Y = X - 1` for `X = Y + 1`). Where it leaves 64 bits there is no solution, and no mistake. One
    that `widens` equates a variable with the column of an atom that has another kind of number.
    """

    variable: str
    expression: Expression
    solved: bool = False
    widens: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """The first `limit` distinct rows in the order of (column, descending).

    Ties are broken by the columns themselves, from the left, ascending, so that every engine
    cuts at the same place. Columns past `width` are only there to sort by and are dropped.
    """

    order: tuple[tuple[int, bool], ...]
    limit: int | None
    width: int


Part: TypeAlias = Scan | Absence | Comparison | Binding


@dataclass(frozen=True)
class Body:
    """The parts of a rule, and what is made of their solutions.

    `columns` are what the head's columns are fed with, `keys` the contributors' keys behind them;
    `types` has the type of every variable. If `counting`, every solution matters, not only the
    distinct rows they give. `functions` are the aggregates of the columns, None for those of the
    group; there are none where solutions have to be seen one by one.
    """

    parts: tuple[Part, ...]
    columns: tuple[Expression, ...]
    keys: tuple[Expression, ...]
    cut: Cut | None
    types: Mapping[str, Type]
    counting: bool
    functions: tuple[AggregateFunction | None, ...] = ()

    @cached_property
    def atoms(self) -> tuple[Scan, ...]:
        """What is scanned, the seed first."""
        return tuple(p for p in self.parts if isinstance(p, Scan))

    @cached_property
    def absents(self) -> tuple[Scan, ...]:
        """What must have no match."""
        return tuple(p.scan for p in self.parts if isinstance(p, Absence))

    @cached_property
    def conditions(self) -> tuple[Comparison, ...]:
        return tuple(p for p in self.parts if isinstance(p, Comparison))

    @cached_property
    def bindings(self) -> tuple[Binding, ...]:
        return tuple(p for p in self.parts if isinstance(p, Binding))

    @cached_property
    def widened(self) -> frozenset[str]:
        """The variables that only stand for a column of another kind of number."""
        return names(*(b.expression for b in self.bindings if b.widens))

    @cached_property
    def needed(self) -> frozenset[str]:
        """The variables that the head reads."""
        return names(*self.columns, *self.keys)

    @cached_property
    def separated(self) -> Body:
        """The body with variables that have the kind of their columns, for joins of words.

        An integer column that meets a variable of doubles (or the other way round) cannot share
        words with it. It gets a variable of its own, and a binding that widens one into the other.
        Where parts may be aggregated first, columns say what a variable is that only they read.
        """
        types = dict(self.types)
        widenings: dict[str, Binding] = {}

        def own(part: Part) -> Part:
            met = part.mismatched(self.types) if isinstance(part, Scan) else {}
            if not isinstance(part, Scan) or not met:
                return part
            arguments = list(part.arguments)
            for i, name in met.items():
                made = Variable(f"{name}#{part.relation}.{i}")
                types[made.name] = part.columns[i].type
                arguments[i] = made
                widenings[made.name] = Binding(name, made, widens=True)
            return replace(part, arguments=tuple(arguments))

        found = (_spelled_out(self) if self.functions else self).changed(own)
        if not widenings:
            return found if self.functions else self
        return replace(found, parts=(*found.parts, *widenings.values()), types=types)

    @property
    def read(self) -> tuple[str, ...]:
        """The relations that are read, also those that are negated, each once."""
        return tuple(dict.fromkeys(scan.relation for scan in (*self.atoms, *self.absents)))

    def changed(self, change: Callable[[Part], Part]) -> Body:
        """The body with other parts, in the same order."""
        return replace(self, parts=tuple(map(change, self.parts)))

    def with_atoms(self, atoms: Sequence[Scan]) -> Body:
        """The body with other atoms in the places of its own."""
        others = iter(atoms)
        return self.changed(lambda part: next(others) if isinstance(part, Scan) else part)


def body_of(
    rule: CoreRule,
    relations: Mapping[str, RelationInfo],
    clique: Collection[str] = (),
    *,
    seed: int | None = None,
    keys: Sequence[Expression] = (),
) -> Body:
    """The body of a rule of a clique, from the atom `seed` on, which brings what is new.

    Atoms before the seed read what is old, those behind it old and new, so no combination is
    found twice. A relation whose values are improved in place has no old values.
    """

    def version(index: int) -> Version:
        relation = rule.atoms[index].relation
        if relation not in clique:
            return Version.FULL
        if index == seed:
            return Version.DELTA
        old = seed is not None and index < seed and not relations[relation].has_aggregates
        return Version.OLD if old else Version.NEW

    def scan(index: int) -> Scan:
        atom = rule.atoms[index]
        info = relations[atom.relation]
        if atom.relation in clique and not atom.negated:
            kind = ScanKind.RECURSIVE
        else:
            kind = ScanKind.DERIVED if info.is_derived else ScanKind.BASE
        return Scan(atom.relation, atom.arguments, info.columns, kind, version(index))

    first = seed
    if first is None:
        first = next((i for i, atom in enumerate(rule.atoms) if not atom.negated), None)
    written = {(c.left, c.right) for c in rule.comparisons if c.operator == "="}
    looked_up = {name for atom in rule.positive for name in atom.variables}
    parts: list[Part] = []
    for step in schedule(rule, first):
        match step:
            case Lookup():
                parts.append(scan(step.index))
            case Absent():
                parts.append(Absence(scan(step.index)))
            case Test():
                parts.append(step.comparison)
            case Bind(variable, value):
                sides = {(Variable(variable), value), (value, Variable(variable))}
                solved = variable in looked_up or not sides & written
                parts.append(Binding(variable, value, solved))
    columns = tuple(_value(a) for a in rule.arguments)
    sorting = tuple(k.variable for k in rule.order if k.variable not in columns)
    cut = None
    if rule.order or rule.limit is not None:
        order = tuple(((*columns, *sorting).index(k.variable), k.descending) for k in rule.order)
        cut = Cut(order, rule.limit, len(columns))
    functions = tuple(row_of(a) if isinstance(a, Aggregate) else None for a in rule.arguments)
    used = [row for row in functions if row is not None]
    # Two solutions with the same value count twice, unless the same again changes nothing.
    counting = not all(row.is_idempotent for row in used)
    body = Body(tuple(parts), (*columns, *sorting), tuple(keys), cut, rule.types, counting)
    finished = all(scan.version is Version.FULL for scan in body.atoms)
    if not used or not all(row.parts for row in used) or not finished or keys or cut is not None:
        return body
    return replace(body, functions=functions)


def _spelled_out(body: Body) -> Body:
    """A body whose columns say what a variable is that is computed for nobody else."""
    for binding in body.bindings:
        others = [part for part in body.parts if part is not binding]
        if binding.solved or binding.widens or binding.variable in _read(others):
            continue
        value = {Variable(binding.variable): binding.expression}
        columns = replace_in(body.columns, lambda node, value=value: _in_place(node, value))
        return _spelled_out(replace(body, parts=tuple(others), columns=columns))
    return body


def _in_place(node: object, value: Mapping[Variable, Expression]) -> Expression | None:
    return value.get(node) if isinstance(node, Variable) else None


def _read(parts: Sequence[Part]) -> frozenset[str]:
    bound = frozenset(part.variable for part in parts if isinstance(part, Binding))
    return names(*parts) | bound


def _value(argument: Expression) -> Expression:
    """What a head column is fed with: the value of an aggregate, 1 where solutions are counted."""
    if not isinstance(argument, Aggregate):
        return argument
    row = row_of(argument)
    if row.counts == "terms" or row.is_gathered or not argument.terms:
        return Constant(1)
    return argument.terms[-1]
