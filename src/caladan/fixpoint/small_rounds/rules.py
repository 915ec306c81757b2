"""Rules as rows of integers, for the tiny-delta machine: variables become registers.

A register holds a variable's word. Arithmetic and comparisons across domains go by ranks, which
are put into registers of their own (values.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from caladan.columns.domains import CodedDomain, Domain, OffsetDomain, SortedDomain
from caladan.columns.index import PackedIndex
from caladan.columns.kernels import machine
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.fixpoint.small_rounds.values import MachineTerm, Numbers, PackedGroups, Unsuitable
from caladan.join.constraints.condition import Assignment, Condition, NegatedAtom
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.expressions import Evaluator
from caladan.join.extend import ExtendStep, PerRow
from caladan.join.intersection import Intersection
from caladan.join.plan import RulePlan
from caladan.program import Comparison, Constant, Expression, Variable
from caladan.rules.body import Version

_COMPARISONS: Final = {
    "=": (machine.EQUAL, False),
    "~=": (machine.DIFFERENT, False),
    "<": (machine.LESS, False),
    "<=": (machine.LESS_EQUAL, False),
    ">": (machine.LESS, True),
    ">=": (machine.LESS_EQUAL, True),
}


@dataclass
class MachineIndex:
    """A relation by some columns."""

    relation: int
    columns: tuple[int, ...]
    packing: Any


@dataclass
class MachineTables:
    """The rules of a clique as integers, before they become arrays."""

    relations: list[StoredRelation] = field(default_factory=list[StoredRelation])
    indexes: list[MachineIndex] = field(default_factory=list[MachineIndex])
    steps: list[tuple[int, ...]] = field(default_factory=list[tuple[int, ...]])
    terms: list[MachineTerm] = field(default_factory=list[MachineTerm])
    domains: list[OffsetDomain] = field(default_factory=list[OffsetDomain])  # that rules add to
    numbers: dict[StoredRelation, int] = field(default_factory=dict["StoredRelation", int])
    groups: dict[StoredRelation, PackedGroups] = field(
        default_factory=dict[StoredRelation, PackedGroups]
    )

    def body(self, relation: StoredRelation) -> PackedRelation | PackedGroups:
        """What the machine reads of a relation."""
        body = self.groups.get(relation) or relation.packed()
        if body is None:
            raise Unsuitable("facts have more than 64 bits")
        return body

    def relation(self, relation: StoredRelation) -> int:
        """The number of a relation."""
        if relation not in self.numbers:
            self.body(relation)
            self.numbers[relation] = len(self.relations)
            self.relations.append(relation)
        return self.numbers[relation]

    def index(self, relation: StoredRelation, bound: Sequence[int]) -> int:
        """The number of an index."""
        number = self.relation(relation)
        found = relation.index(tuple(bound), Version.OLD)
        if not isinstance(found, PackedIndex):
            raise Unsuitable("values that still change are looked up")
        columns = found.packing.order[: len(bound)]
        for i, index in enumerate(self.indexes):
            if index.relation == number and index.columns == columns:
                return i
        self.indexes.append(MachineIndex(number, columns, found.packing))
        return len(self.indexes) - 1


def add_rule(tables: MachineTables, head: StoredRelation, plan: RulePlan) -> tuple[int, int]:
    """Add a rule; the relation that seeds it, and where its steps start."""
    first, *others = plan.lasting_steps()
    seed = first.lookup
    if seed is None or seed.version is not Version.DELTA or seed.bound:
        raise Unsuitable("a rule does not start with what is new")
    builder = _RuleBuilder(tables, plan.evaluator)
    start = len(tables.steps)
    builder.seed(seed)
    for step in others:
        builder.step(step)
    builder.emit(head, plan)
    return tables.relation(_find_stored(seed)), start


def _find_stored(lookup: AtomLookup) -> StoredRelation:
    """The relation that is looked into; views are of relations that do not change meanwhile."""
    found = lookup.relation
    return found if isinstance(found, StoredRelation) else found.relation


class _RuleBuilder:
    """Turns the steps of one rule into rows; variables become registers."""

    def __init__(self, tables: MachineTables, evaluator: Evaluator) -> None:
        self._tables = tables
        self._evaluator = evaluator
        self._registers: dict[str, int] = {}
        self._numbers = Numbers(evaluator, self._registers, tables.domains, self._add)

    def seed(self, lookup: AtomLookup) -> None:
        seed = self._tables.relation(_find_stored(lookup))
        self._add(machine.SEED, seed, 0, [], *self._found(lookup))

    def step(self, step: ExtendStep) -> None:
        if isinstance(step.choice, PerRow):
            if not all(isinstance(each, AtomLookup) for each in step.constraints):
                raise Unsuitable("a rule goes through the guided search")
            if step.choice.ways:
                raise Unsuitable("rows choose which of two variables comes first")
            self._meet(step.intersection)
            return
        for each in step.constraints:
            match each:
                case AtomLookup():
                    self._lookup(each)
                case NegatedAtom():
                    if not each.bound:
                        raise Unsuitable("a negated atom has nothing bound")
                    index = self._tables.index(each.relation, tuple(each.bound))
                    self._add(machine.ABSENT, index, 0, self._key(index, each.bound))
                case Condition():
                    self._test(each.comparison)
                case Assignment():
                    self._registers[each.variable] = self._register(each.expression, each.domain)
                case _:
                    raise Unsuitable("a rule goes through the guided search")

    def emit(self, head: StoredRelation, plan: RulePlan) -> None:
        if plan.body.cut is not None:
            raise Unsuitable("a rule sorts or limits")
        shifts = self._tables.body(head).base.packing.shifts
        key = [
            self._word(column, domain, shift)
            for column, shift, domain in zip(
                plan.body.columns, shifts, plan.head_domains, strict=True
            )
        ]
        self._add(machine.EMIT, self._tables.relation(head), 0, key)

    def _meet(self, step: Intersection) -> None:
        """Atoms that meet in a variable; those with nothing bound only test."""
        proposing = [lookup for lookup in step.lookups if lookup.bound]
        if len(proposing) > 1:
            self._add(machine.CHOOSE, len(proposing), 0, [])
        for distance, lookup in enumerate(proposing, start=1):
            self._lookup(lookup, distance if len(proposing) > 1 else 0)
        if len(proposing) > 1:
            for distance, lookup in enumerate(proposing, start=1 + len(proposing)):
                self._lookup(step.known(lookup), distance)
        for lookup in step.lookups:
            if not lookup.bound:
                self._lookup(step.known(lookup))

    def _lookup(self, lookup: AtomLookup, distance: int = 0) -> None:
        if not lookup.bound:
            raise Unsuitable("an atom has nothing bound")
        index = self._tables.index(_find_stored(lookup), tuple(lookup.bound))
        key = self._key(index, lookup.bound)
        binds, checks = self._found(lookup, self._tables.indexes[index].packing)
        kind = machine.LOOKUP if binds or checks else machine.EXISTS
        self._add(kind, index, distance, key, binds, checks)

    def _test(self, comparison: Comparison) -> None:
        operator, swapped = _COMPARISONS[comparison.operator]
        sides = (comparison.left, comparison.right)
        if (domain := self._common_domain(sides, operator)) is not None:
            terms = [self._word(side, domain, 0) for side in sides]
        else:
            terms = [self._numbers.rank(side) for side in sides]
        self._add(machine.COMPARE, 0, operator, terms[::-1] if swapped else terms)

    def _common_domain(self, sides: Sequence[Expression], operator: int) -> Domain | None:
        """The domain by whose words two sides can be compared."""
        domains: list[Domain] = []
        for side in sides:
            if isinstance(side, Variable):
                domains.append(self._evaluator.domain(side.name))
            elif not isinstance(side, Constant):
                return None
        if not domains or any(d is not domains[0] for d in domains):
            return None
        if operator in (machine.LESS, machine.LESS_EQUAL) and not _is_ordered(domains[0]):
            return None
        words = [self._evaluator.word(s, domains[0]) for s in sides if isinstance(s, Constant)]
        return None if None in words else domains[0]

    def _word(self, expression: Expression, domain: Domain, shift: int) -> MachineTerm:
        if isinstance(expression, Constant):
            word = self._evaluator.word(expression, domain)
            if word is not None:
                return (-1, shift, 0, 0, word)
        return (self._register(expression, domain), shift, 0, 0, 0)

    def _register(self, expression: Expression, domain: Domain) -> int:
        """A register with the word of an expression."""
        if isinstance(expression, Variable) and self._shares(expression, domain):
            return self._registers[expression.name]
        return self._numbers.word(expression, domain)

    def _shares(self, variable: Variable, domain: Domain) -> bool:
        return self._evaluator.domain(variable.name) is domain

    def _key(self, index: int, bound: Mapping[int, str | int]) -> list[MachineTerm]:
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
        self, lookup: AtomLookup, packing: Any = None
    ) -> tuple[list[MachineTerm], list[MachineTerm]]:
        """What a fact found binds, and what of it is checked."""
        base = self._tables.body(_find_stored(lookup)).base.packing
        packing = packing or base
        binds: list[MachineTerm] = []
        for c, name in lookup.new.items():
            if name not in self._registers:  # atoms that meet in it have one register for it
                self._registers[name] = self._numbers.register()
            place = (base.shifts[c], base.masks[c], packing.shifts[c])
            binds.append((self._registers[name], *place, 0))
        checks: list[MachineTerm] = []
        for c, value in lookup.checked.items():
            register, constant = self._given(value)
            checks.append((register, base.shifts[c], base.masks[c], packing.shifts[c], constant))
        return binds, checks

    def _add(
        self,
        kind: int,
        what: int,
        extra: int,
        key: Sequence[MachineTerm],
        binds: Sequence[MachineTerm] = (),
        checks: Sequence[MachineTerm] = (),
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
    return isinstance(domain, SortedDomain | CodedDomain)
