"""Rules as rows of integers, for the tiny-delta machine: variables become registers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from caladan.columns.domains import Domain, OffsetDomain, SortedDomain, StringDomain
from caladan.columns.kernels import worklist as machine
from caladan.columns.packed import PackedIndex, PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.embedded.expressions import Evaluator
from caladan.engines.embedded.plans import RulePlan
from caladan.engines.embedded.steps import Absent, Bind, Lookup, Propose, Step, Test
from caladan.operators.tree import Version
from caladan.program import Comparison, Constant, Expression, Variable

_COMPARISONS: Final = {
    "=": (machine.EQUAL, False),
    "~=": (machine.DIFFERENT, False),
    "<": (machine.LESS, False),
    "<=": (machine.LESS_EQUAL, False),
    ">": (machine.LESS, True),
    ">=": (machine.LESS_EQUAL, True),
}


class Unsuitable(Exception):
    """The rules have something that the machine does not know."""


@dataclass
class MachineIndex:
    """A relation by some columns."""

    relation: int
    columns: tuple[int, ...]
    packing: Any


@dataclass
class Tables:
    """The rules of a clique as integers, before they become arrays."""

    relations: list[StoredRelation] = field(default_factory=list[StoredRelation])
    indexes: list[MachineIndex] = field(default_factory=list[MachineIndex])
    steps: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    terms: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])

    def relation(self, relation: StoredRelation) -> int:
        """The number of a relation."""
        if relation not in self.relations:
            if not isinstance(relation.body, PackedRelation):
                raise Unsuitable
            self.relations.append(relation)
        return self.relations.index(relation)

    def index(self, relation: StoredRelation, bound: Sequence[int]) -> int:
        """The number of an index."""
        number = self.relation(relation)
        found = relation.index(tuple(bound), Version.OLD)
        if not isinstance(found, PackedIndex):
            raise Unsuitable
        columns = found.packing.order[: len(bound)]
        for i, index in enumerate(self.indexes):
            if index.relation == number and index.columns == columns:
                return i
        self.indexes.append(MachineIndex(number, columns, found.packing))
        return len(self.indexes) - 1


def add_rule(tables: Tables, head: StoredRelation, plan: RulePlan) -> tuple[int, int]:
    """Add a rule; the relation that seeds it, and where its steps start."""
    first, *others = plan.steps()
    if not isinstance(first, Lookup) or first.version is not Version.DELTA or first.bound:
        raise Unsuitable
    builder = _RuleBuilder(tables, plan.evaluator)
    start = len(tables.steps)
    builder.seed(first)
    for step in others:
        builder.step(step)
    builder.emit(head, plan)
    return tables.relation(first.relation), start


class _RuleBuilder:
    """Turns the steps of one rule into rows; variables become registers."""

    def __init__(self, tables: Tables, evaluator: Evaluator) -> None:
        self._tables = tables
        self._evaluator = evaluator
        self._registers: dict[str, int] = {}

    def seed(self, lookup: Lookup) -> None:
        body = lookup.relation.body
        if not isinstance(body, PackedRelation):
            raise Unsuitable
        self._add(machine.SEED, self._tables.relation(lookup.relation), 0, [], *self._found(lookup))

    def step(self, step: Step) -> None:
        match step:
            case Lookup():
                self._lookup(step)
            case Propose():
                first, *others = step.lookups
                self._lookup(first)
                for other in others:
                    self._lookup(step.confirming(other))
            case Absent():
                if not step.bound:
                    raise Unsuitable
                index = self._tables.index(step.relation, tuple(step.bound))
                self._add(machine.ABSENT, index, 0, self._key(index, step.bound))
            case Test():
                self._test(step.comparison)
            case Bind():
                expression = step.expression
                if not isinstance(expression, Variable) or not self._shares(
                    expression, step.domain
                ):
                    raise Unsuitable
                self._registers[step.variable] = self._registers[expression.name]

    def emit(self, head: StoredRelation, plan: RulePlan) -> None:
        body = head.body
        if not isinstance(body, PackedRelation):
            raise Unsuitable
        key: list[tuple[int, ...]] = []
        for column, shift, domain in zip(
            plan.body.columns, body.base.packing.shifts, plan.head_domains, strict=True
        ):
            key.append(self._word(column, domain, shift))
        self._add(machine.EMIT, self._tables.relation(head), 0, key)

    def _lookup(self, lookup: Lookup) -> None:
        if not lookup.bound:
            raise Unsuitable
        index = self._tables.index(lookup.relation, tuple(lookup.bound))
        key = self._key(index, lookup.bound)
        binds, checks = self._found(lookup, self._tables.indexes[index].packing)
        kind = machine.LOOKUP if binds or checks else machine.EXISTS
        self._add(kind, index, 0, key, binds, checks)

    def _test(self, comparison: Comparison) -> None:
        operator, swapped = _COMPARISONS[comparison.operator]
        sides = (comparison.left, comparison.right)
        domains = [self._evaluator.domain(s.name) for s in sides if isinstance(s, Variable)]
        if not domains or any(d is not domains[0] for d in domains):
            raise Unsuitable
        if operator in (machine.LESS, machine.LESS_EQUAL) and not _is_ordered(domains[0]):
            raise Unsuitable
        terms = [self._word(side, domains[0], 0) for side in sides]
        self._add(machine.COMPARE, 0, operator, terms[::-1] if swapped else terms)

    def _word(self, expression: Expression, domain: Domain, shift: int) -> tuple[int, ...]:
        if isinstance(expression, Variable):
            if not self._shares(expression, domain):
                raise Unsuitable
            return (self._registers[expression.name], shift, 0, 0, 0)
        if not isinstance(expression, Constant):
            raise Unsuitable
        word = self._evaluator.word(expression, domain)
        if word is None:
            raise Unsuitable
        return (-1, shift, 0, 0, word)

    def _shares(self, variable: Variable, domain: Domain) -> bool:
        return self._evaluator.domain(variable.name) is domain

    def _key(self, index: int, bound: Mapping[int, str | int]) -> list[tuple[int, ...]]:
        made = self._tables.indexes[index]
        shift = made.packing.prefix_shift(len(made.columns))
        return [
            (register, made.packing.shifts[c] - shift, 0, 0, constant)
            for c in made.columns
            for register, constant in [self._given(bound[c])]
        ]

    def _given(self, value: str | int) -> tuple[int, int]:
        return (self._registers[value], 0) if isinstance(value, str) else (-1, value)

    def _found(
        self, lookup: Lookup, packing: Any = None
    ) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        """What a fact found binds, and what of it is checked."""
        body = lookup.relation.body
        assert isinstance(body, PackedRelation)
        base = body.base.packing
        packing = packing or base
        binds: list[tuple[int, ...]] = []
        for c, name in lookup.new.items():
            self._registers[name] = len(self._registers)
            if self._registers[name] >= 64:
                raise Unsuitable
            place = (base.shifts[c], base.masks[c], packing.shifts[c])
            binds.append((self._registers[name], *place, 0))
        checks: list[tuple[int, ...]] = []
        for c, value in lookup.checked.items():
            register, constant = self._given(value)
            checks.append((register, base.shifts[c], base.masks[c], packing.shifts[c], constant))
        return binds, checks

    def _add(
        self,
        kind: int,
        what: int,
        extra: int,
        key: Sequence[tuple[int, ...]],
        binds: Sequence[tuple[int, ...]] = (),
        checks: Sequence[tuple[int, ...]] = (),
    ) -> None:
        terms = self._tables.terms
        places: list[int] = []
        for some in (key, binds, checks):
            places += [len(terms), len(some)]
            terms.extend(some)
        self._tables.steps.append((kind, what, extra, *places))


def _is_ordered(domain: Domain) -> bool:
    """Whether words are in the order of their values."""
    if isinstance(domain, OffsetDomain):
        return not domain.grows
    return isinstance(domain, SortedDomain | StringDomain)
