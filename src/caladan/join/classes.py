"""Classes of columns: which columns and variables share their words, and the domain of each.

Columns meet where a rule uses one variable for both, or copies one into the other; what meets is
one class. A class into which arithmetic or an aggregate flows gets a domain that grows; the others
hold only values that are known when the run starts, and are closed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.columns.domains import (
    Domain,
    InternedDomain,
    OffsetDomain,
    closed_domain,
    coded_domain,
    computed_domain,
    encode,
    text_domain,
)
from caladan.columns.layout import Words
from caladan.columns.ranks import CODED, Ranks, arrow_ranks, rank_of
from caladan.columns.texts import TextDomain
from caladan.data.schema import array_of
from caladan.program import (
    Aggregate,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Value,
    Variable,
)
from caladan.program.kinds import Kind, kind_of, kind_of_expression, kind_of_value
from caladan.rules.body import Body, Scan
from caladan.rules.program import DeltaProgram, DeltaRule

ClassNode: TypeAlias = tuple[str, int] | tuple[int, str]
"""A column of a relation; a variable of a rule, by the rule's place."""


@dataclass
class Class:
    """What is known of a class before its domain is made."""

    kind: Kind
    computed: bool = False
    constants: set[Value] = field(default_factory=set[Value])


class Classes:
    """The classes of a program; `domain` gives that of a column or a variable.

    `aliases` are more relations, with (some of) the columns of the one that is their origin, and
    `variants` more rules. If `is_open`, any class may get more values once the run is over.
    """

    def __init__(
        self,
        program: DeltaProgram,
        aliases: Mapping[str, RelationInfo] = MappingProxyType({}),
        variants: Sequence[DeltaRule] = (),
        *,
        is_open: bool = False,
    ) -> None:
        self._parents: dict[ClassNode, ClassNode] = {}
        self._classes: dict[ClassNode, Class] = {}
        self._domains: dict[ClassNode, Domain] = {}
        self._relations = {**program.relations, **aliases}
        for name, info in program.relations.items():
            for i, column in enumerate(info.columns):
                self._add((name, i), kind_of(column.type))
        for name, info in program.relations.items():
            if info.part_of is not None:
                for i in range(info.arity):
                    self._unite((name, i), (info.part_of, i))
        for name, rows in program.facts.items():
            for row in rows:
                for i, value in enumerate(row):
                    self._constant((name, i), value)
        rules = (*program.rules, *variants)
        for rule in rules:
            for node, expression in _keys(rule):
                kind = kind_of_expression(expression, rule.body.types)
                if node not in self._parents or kind is Kind.FLOAT:
                    self._add(node, kind)
        for name, info in aliases.items():
            for i, column in enumerate(info.columns):
                self._add((name, i), kind_of(column.type))
        for rule in rules:
            self._rule(rule)
        for name, info in aliases.items():
            own = [each.name for each in program.relations[info.origin].columns]
            for i, column in enumerate(info.columns):
                self._unite((info.origin, own.index(column.name)), (name, i))
        if is_open:
            for known in self._classes.values():
                known.computed = True

    def column(self, relation: str, column: int) -> Domain:
        """The domain of a column."""
        return self._domain((relation, column))

    def columns(self, relation: str) -> tuple[Domain, ...]:
        """The domains of all columns of a relation."""
        return tuple(self.column(relation, i) for i in range(self._relations[relation].arity))

    def variable(self, rule: CoreRule, name: str) -> Domain:
        """The domain of a variable of a rule."""
        return self._domain((rule.place, name))

    def variables(self, rule: CoreRule, body: Body) -> dict[str, Domain]:
        """The domains of a body's variables: of the columns it reads, else those of its rule's.

        It may be the body of what was made of the rule, with some atoms over other relations.
        """
        found: dict[str, ClassNode] = {name: (rule.place, name) for name in body.types}
        for scan in body.atoms[::-1]:
            for i, argument in reversed(list(enumerate(scan.arguments))):
                if isinstance(argument, Variable) and (scan.relation, i) in self._parents:
                    found[argument.name] = (scan.relation, i)
        return {name: self._domain(node) for name, node in found.items()}

    # ── Which nodes meet ─────────────────────────────────────────────────────────────────────────

    def _rule(self, rule: DeltaRule) -> None:
        number, body = rule.rule.place, rule.body.separated
        for name, type in body.types.items():
            if (number, name) not in self._parents:  # its other deltas have the same variables
                self._add((number, name), kind_of(type))
        for scan in (*body.atoms, *body.absents):
            self._scan(number, scan, body)
        for binding in body.bindings:
            self._flow(number, binding.expression, (number, binding.variable))
            self._compared(number, [binding.expression])
        for condition in body.conditions:
            self._compare(number, condition)
        info = self._relations[rule.rule.head]
        for i, expression in enumerate(body.columns[: info.arity]):
            node = (info.name, i)
            if (row := info.aggregates[i]) is None or (row.is_selective and not row.is_gathered):
                self._flow(number, expression, node)
            elif not row.is_selective:
                self._class(node).computed = True
                if not row.is_gathered and self._class(node).kind.is_coded:
                    self._flow(number, expression, node)  # values have to be in its dictionary
        for node, expression in _keys(rule):
            self._flow(number, expression, node)
        for each in rule.contributors:
            row = info.aggregates[each.column]
            if row is not None and row.is_gathered and row.is_selective:
                self._unite((info.name, each.column), (f"{rule.rule.head} {each.place}", 0))
        self._compared(number, (*body.columns, *body.keys))

    def _scan(self, number: int, scan: Scan, body: Body) -> None:
        for i, argument in enumerate(scan.arguments):
            node = (scan.relation, i)
            if isinstance(argument, Constant):
                self._constant(node, argument.value)
            elif not argument.is_anonymous:
                own = (number, argument.name)
                if self._class(own).kind is self._class(node).kind:
                    self._unite(node, own)

    def _flow(self, number: int, expression: Expression, to: ClassNode) -> None:
        """The values of an expression reach a node."""
        match expression:
            case Variable():
                source = (number, expression.name)
                if self._class(source).kind is self._class(to).kind:
                    self._unite(source, to)
                else:
                    self._class(to).computed = True
            case Constant():
                self._constant(to, expression.value)
            case Conditional():
                self._flow(number, expression.then, to)
                self._flow(number, expression.otherwise, to)
            case _:
                self._class(to).computed = True

    def _compare(self, number: int, comparison: Comparison) -> None:
        """Values that have a dictionary share one where they are compared, for its order."""
        sides = (comparison.left, comparison.right)
        leaves = [leaf for side in sides for leaf in self._leaves(number, side)]
        nodes = [leaf for leaf in leaves if isinstance(leaf, tuple)]
        if nodes:
            for node in nodes[1:]:
                self._unite(nodes[0], node)
            for leaf in leaves:
                if not isinstance(leaf, tuple):
                    self._constant(nodes[0], leaf)
        self._compared(number, sides)

    def _leaves(self, number: int, expression: Expression) -> Iterable[ClassNode | Value]:
        """The variables and constants with dictionaries that an expression may give."""
        match expression:
            case Variable():
                if self._class((number, expression.name)).kind.is_coded:
                    yield (number, expression.name)
            case Constant():
                if kind_of_value(expression.value).is_coded:
                    yield expression.value
            case Conditional():
                yield from self._leaves(number, expression.then)
                yield from self._leaves(number, expression.otherwise)
            case _:
                return

    def _compared(self, number: int, expressions: Iterable[Expression]) -> None:
        """The comparisons inside expressions."""
        for expression in expressions:
            if isinstance(expression, Conditional):
                for condition in expression.condition:
                    self._compare(number, condition)
                self._compared(number, (expression.then, expression.otherwise))
            elif isinstance(expression, Aggregate):
                self._compared(number, expression.terms)

    def _add(self, node: ClassNode, kind: Kind) -> None:
        self._parents[node] = node
        self._classes[node] = Class(kind)

    def _root(self, node: ClassNode) -> ClassNode:
        while self._parents[node] != node:
            self._parents[node] = self._parents[self._parents[node]]
            node = self._parents[node]
        return node

    def _class(self, node: ClassNode) -> Class:
        return self._classes[self._root(node)]

    def _unite(self, one: ClassNode, other: ClassNode) -> None:
        keep, drop = self._root(one), self._root(other)
        if keep == drop:
            return
        dropped = self._classes.pop(drop)
        self._parents[drop] = keep
        kept = self._classes[keep]
        assert kept.kind is dropped.kind, f"{one} and {other} are of different kinds"
        kept.computed |= dropped.computed
        kept.constants |= dropped.constants

    def _constant(self, node: ClassNode, value: Value) -> None:
        known = self._class(node)
        if known.kind is Kind.FLOAT and isinstance(value, int):
            value = float(value)
        known.constants.add(value)

    # ── Domains ──────────────────────────────────────────────────────────────────────────────────

    def roots(self, relation: str) -> list[ClassNode]:
        """The class of each column of a relation."""
        return [self._root((relation, i)) for i in range(self._relations[relation].arity)]

    def members(self, names: Iterable[str]) -> dict[ClassNode, tuple[Class, list[tuple[str, int]]]]:
        """The classes, each with the columns of some relations that are in it."""
        found: dict[ClassNode, tuple[Class, list[tuple[str, int]]]] = {
            root: (known, []) for root, known in self._classes.items()
        }
        for name in names:
            for i, root in enumerate(self.roots(name)):
                found[root][1].append((name, i))
        return found

    def domain(self, root: ClassNode) -> Domain:
        """The domain of a class."""
        return self._domains[root]

    def encode(
        self,
        tables: Mapping[str, pa.Table],
        known: Mapping[ClassNode, Domain] = MappingProxyType({}),
        stored: Collection[str] = (),
        unread: Collection[tuple[str, int]] = (),
    ) -> dict[str, list[Words]]:
        """Make the domains from the data and the constants; the data's columns as words.

        Classes that are `known` have their domains, and tables that are `stored` their words. Of a
        column that is `unread` the first value stands for all.
        """
        members: dict[ClassNode, list[tuple[str, int]]] = {root: [] for root in self._classes}
        for name, table in tables.items():
            for i in range(table.num_columns):
                members[self._root((name, i))].append((name, i))
        words: dict[str, list[Words]] = {
            name: [np.empty(0, np.uint32)] * table.num_columns for name, table in tables.items()
        }

        def column(node: tuple[str, int]) -> pa.ChunkedArray:
            found = tables[node[0]].column(node[1])
            return found.slice(0, 1) if node in unread else found

        def take(node: tuple[str, int], found: Words) -> None:
            name, i = node
            rows = tables[name].num_rows
            words[name][i] = np.full(rows, found[0], np.uint32) if node in unread else found

        for root, nodes in members.items():
            if root in known:
                self._domains[root] = known[root]
                for node in nodes:
                    if node[0] not in stored:
                        take(node, encode(column(node), known[root]))
                continue
            self._domains[root], own = _domain(self._classes[root], list(map(column, nodes)))
            for node, found in zip(nodes, own, strict=False):
                take(node, found)
        return words

    def dictionaries(self) -> Callable[[], int]:
        """A function that says what the dictionaries take that rules add to."""
        kinds = (OffsetDomain, InternedDomain, TextDomain)
        found = set(self._domains.values())
        growing = [each for each in found if isinstance(each, kinds) and each.grows]
        return lambda: sum(each.nbytes for each in growing)

    def keys(self, rule: DeltaRule) -> tuple[Domain, ...]:
        """The domains of the contributors' keys of a rule."""
        return tuple(self._domain(node) for node, _ in _keys(rule))

    def _domain(self, node: ClassNode) -> Domain:
        return self._domains[self._root(node)]


def _keys(rule: DeltaRule) -> Iterator[tuple[ClassNode, Expression]]:
    """The key columns of a rule's contributors: rules that share a place share these."""
    for each in rule.contributors:
        for i, expression in enumerate(rule.body.keys[each.start : each.stop]):
            table = each.place if i < each.width else each.solutions
            yield (f"{rule.rule.head} {table}", i), expression


def _domain(known: Class, columns: Sequence[pa.ChunkedArray]) -> tuple[Domain, list[Words]]:
    if known.kind.is_coded:
        type = CODED[known.kind]
        constants = pa.chunked_array([array_of(sorted(known.constants, key=str), type)], type)
        given = [*columns, constants]
        return text_domain(given, known.kind) if known.computed else coded_domain(known.kind, given)
    constant_ranks: Ranks = np.array([rank_of(value) for value in known.constants], np.int64)
    ranks = [*(arrow_ranks(column, known.kind) for column in columns), constant_ranks]
    make = computed_domain if known.computed else closed_domain
    return make(known.kind, ranks)
