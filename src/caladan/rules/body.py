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

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule, RelationInfo, Term
from caladan.analysis.schedule import Absent, Bind, Lookup, Test, arrange
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
class Attribute:
    """A column of a plan: its name, a number that no other one of the plan has, and its type."""

    name: str
    id: int
    type: Type

    def __str__(self) -> str:
        return f"{self.name}#{self.id}"


@dataclass(frozen=True, slots=True)
class Scan:
    """The facts of a relation that match the arguments, as the variables among them.

    `columns` are the relation's own. In an absence the scan may hold `_` arguments, which match
    anything and are not columns. One that `is_broadcast` is sent to all tasks, rather than what it
    meets moved to it. `attributes` are what a plan calls its columns.
    """

    relation: str
    arguments: tuple[Term, ...]
    columns: tuple[Column, ...]
    kind: ScanKind
    version: Version = Version.FULL
    is_broadcast: bool = field(default=False, compare=False)
    attributes: tuple[Attribute, ...] = field(default=(), compare=False, repr=False)

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
class BodyBinding:
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


BodyPart: TypeAlias = Scan | Absence | Comparison | BodyBinding


@dataclass(frozen=True)
class Body:
    """The parts of a rule, and what is made of their solutions.

    `columns` are what the head's columns are fed with, `keys` the contributors' keys behind them;
    `types` has the type of every variable. If `counting`, every solution matters, not only the
    distinct rows they give. `functions` are the aggregates of the columns, None for those of the
    group; there are none where solutions have to be seen one by one.
    """

    parts: tuple[BodyPart, ...]
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
    def bindings(self) -> tuple[BodyBinding, ...]:
        return tuple(p for p in self.parts if isinstance(p, BodyBinding))

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
        widenings: dict[str, BodyBinding] = {}

        def own(part: BodyPart) -> BodyPart:
            met = part.mismatched(self.types) if isinstance(part, Scan) else {}
            if not isinstance(part, Scan) or not met:
                return part
            arguments = list(part.arguments)
            for i, name in met.items():
                made = Variable(f"{name}#{part.relation}.{i}")
                types[made.name] = part.columns[i].type
                arguments[i] = made
                widenings[made.name] = BodyBinding(name, made, widens=True)
            return replace(part, arguments=tuple(arguments))

        found = (_spelled_out(self) if self.functions else self).changed(own)
        if not widenings:
            return found if self.functions else self
        return replace(found, parts=(*found.parts, *widenings.values()), types=types)

    @property
    def read(self) -> tuple[str, ...]:
        """The relations that are read, also those that are negated, each once."""
        return tuple(dict.fromkeys(scan.relation for scan in (*self.atoms, *self.absents)))

    def changed(self, change: Callable[[BodyPart], BodyPart]) -> Body:
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

    scans = [
        scan_of(atom, relations, clique, version(index)) for index, atom in enumerate(rule.atoms)
    ]
    positive = [s for s, a in zip(scans, rule.atoms, strict=True) if not a.negated]
    negated = [s for s, a in zip(scans, rule.atoms, strict=True) if a.negated]
    columns, cut = columns_of(rule)
    return body_in_order(rule, positive, negated, rule.comparisons, columns, keys, cut)


def scan_of(
    atom: CoreAtom,
    relations: Mapping[str, RelationInfo],
    clique: Collection[str],
    version: Version = Version.FULL,
) -> Scan:
    """The scan that an atom of a rule of a clique becomes."""
    info = relations[atom.relation]
    if atom.relation in clique and not atom.negated:
        kind = ScanKind.RECURSIVE
    else:
        kind = ScanKind.DERIVED if info.is_derived else ScanKind.BASE
    return Scan(atom.relation, atom.arguments, info.columns, kind, version)


def columns_of(rule: CoreRule) -> tuple[tuple[Expression, ...], Cut | None]:
    """What a rule's head columns are fed with, then what it sorts by; and how it is cut."""
    columns = tuple(_value(a) for a in rule.arguments)
    if not rule.order and rule.limit is None:
        return columns, None
    sorting = tuple(k.variable for k in rule.order if k.variable not in columns)
    order = tuple(((*columns, *sorting).index(k.variable), k.descending) for k in rule.order)
    return (*columns, *sorting), Cut(order, rule.limit, len(columns))


def body_in_order(
    rule: CoreRule,
    scans: Sequence[Scan],
    negated: Sequence[Scan],
    conditions: Iterable[Comparison],
    columns: tuple[Expression, ...],
    keys: Sequence[Expression],
    cut: Cut | None,
) -> Body:
    """The parts of a rule in an order in which each can be evaluated: what is new first."""
    atoms = (*scans, *negated)
    first = next((i for i, s in enumerate(scans) if s.version is Version.DELTA), 0)
    written = {(c.left, c.right) for c in rule.comparisons if c.operator == "="}
    looked_up = {name for scan in scans for name in scan.variables}
    parts: list[BodyPart] = []
    for step in arrange(atoms, range(len(scans), len(atoms)), conditions, rule.types, first):
        match step:
            case Lookup():
                parts.append(atoms[step.index])
            case Absent():
                parts.append(Absence(atoms[step.index]))
            case Test():
                parts.append(step.comparison)
            case Bind(variable, value):
                sides = {(Variable(variable), value), (value, Variable(variable))}
                solved = variable in looked_up or not sides & written
                parts.append(BodyBinding(variable, value, solved))
    functions = tuple(row_of(a) if isinstance(a, Aggregate) else None for a in rule.arguments)
    used = [row for row in functions if row is not None]
    # Two solutions with the same value count twice, unless the same again changes nothing.
    counting = not all(row.is_idempotent for row in used)
    finished = all(scan.version is Version.FULL for scan in scans)
    is_plain = used and all(row.parts for row in used) and finished and not keys and cut is None
    return Body(
        tuple(parts), columns, tuple(keys), cut, rule.types, counting, functions if is_plain else ()
    )


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


def _read(parts: Sequence[BodyPart]) -> frozenset[str]:
    bound = frozenset(part.variable for part in parts if isinstance(part, BodyBinding))
    return names(*parts) | bound


def _value(argument: Expression) -> Expression:
    """What a head column is fed with: the value of an aggregate, 1 where solutions are counted."""
    if not isinstance(argument, Aggregate):
        return argument
    row = row_of(argument)
    if row.counts == "terms" or row.is_gathered or not argument.terms:
        return Constant(1)
    return argument.terms[-1]
