"""Wiring: the rules of a module become core rules, cliques and extents, once and for all.

    program   the same Program as other languages make; the rules of a later time have a head of
              their own, `state@next`
    core      names resolved, rules in normal form, safe and stratified by the same passes
    apart     aggregates have an element of their own with one source
    cliques   in the order in which a tick goes through them

Values are Python's, so no types are inferred; everything else is checked here, before any data.
`not_monotone` says what a rule does with values of lattices, which only grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from caladan.analysis.core import Clique, CoreAtom, CoreRule
from caladan.analysis.normalize import normalize
from caladan.analysis.resolve import predicates, resolve, unsound
from caladan.analysis.safety import safety
from caladan.analysis.strata import edges, strata
from caladan.language.bloom.expressions import FUNCTIONS
from caladan.language.bloom.schema import CollectionKind, GroupedRule, Recorder, Schema
from caladan.language.bloom.values import Lattice
from caladan.program import (
    Aggregate,
    Column,
    Declaration,
    Expression,
    Function,
    Program,
    Rule,
    Time,
    Type,
    Variable,
    variables,
)
from caladan.program.diagnostics import Diagnostics

_OPPOSITE = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}
_COMPARED = {"=": "==", "~=": "!="}
_HARMLESS = frozenset({"dict", "tuple", "each", "rows", "bool", "value"})
"""Functions that rules are made of, which pass values on as they are."""


def not_monotone(rule: CoreRule, schemas: Mapping[str, Schema]) -> Iterable[tuple[str, str]]:
    """Functions and comparisons on values of lattices that may take back what they said.

    Each with the relation that the value is of.
    """
    held: dict[str, tuple[str, type[Lattice]]] = {}
    for atom in rule.positive:
        lattices = schemas[atom.relation].lattices
        for position, argument in enumerate(atom.arguments):
            if position in lattices and isinstance(argument, Variable):
                held[argument.name] = (atom.relation, lattices[position])
    for comparison in rule.comparisons:
        name = _COMPARED.get(comparison.operator, comparison.operator)
        for side, seen in ((comparison.left, name), (comparison.right, _OPPOSITE[name])):
            if isinstance(side, Variable) and side.name in held:
                source, lattice = held[side.name]
                if seen not in lattice.monotone:
                    yield source, seen
            yield from _calls(side, held)
    for argument in rule.arguments:
        yield from _calls(argument, held)


def _calls(
    node: Expression, held: Mapping[str, tuple[str, type[Lattice]]]
) -> Iterable[tuple[str, str]]:
    if not isinstance(node, Function):
        return
    for position, argument in enumerate(node.arguments):
        yield from _calls(argument, held)
        for variable in variables(argument):
            if variable.name not in held or node.function in _HARMLESS:
                continue
            source, lattice = held[variable.name]
            name = node.function if position == 0 else _OPPOSITE.get(node.function, node.function)
            if isinstance(argument, Variable) and name not in lattice.monotone:
                yield source, node.function


def is_known(name: str) -> bool:
    """Whether it is a comparison or a function of lattices; of others, users know what they do."""
    return name in _OPPOSITE or name in FUNCTIONS


@dataclass(frozen=True, slots=True)
class TickProgram:
    """A program that is fixed: collections, elements, rules, and their order."""

    program: Program
    schemas: Mapping[str, Schema]
    rules: tuple[CoreRule, ...]
    cliques: tuple[Clique, ...]
    groups: Mapping[int, str]
    """The group in which a rule was written, by the rule's number."""

    def strata(self) -> dict[str, int]:
        """The stratum of every collection; those without rules are in the first."""
        found = dict.fromkeys(self.schemas, 0)
        for clique in self.cliques:
            above = [found[e.body] + e.needs_finished for e in edges(clique.rules)]
            for rule in clique.rules:
                above += [found[source] + 1 for source, _ in not_monotone(rule, self.schemas)]
            found.update(dict.fromkeys(clique.relations, max(above, default=0)))
        return found

    def due(self, name: str, time: Time) -> str | None:
        """The relation with what rules derive for a collection at a later time."""
        made = name_timed(name, time)
        return made if made in self.schemas else None


_NEXT = "derive it for the next tick (`+=`, @next), or read another collection"


def name_timed(name: str, time: Time) -> str:
    """The relation that holds what a later time brings to a collection."""
    return name if time == "now" else f"{name}@{time}"


def wire(recorder: Recorder) -> TickProgram:
    """A program from what a module recorded, or a CaladanError with all that is wrong with it."""
    schemas = dict(recorder.schemas)
    written = tuple(each.rule for each in recorder.rules)
    for rule in written:
        _declare_time(schemas, rule)
    program = Program(tuple(map(_declaration, schemas.values())), written)
    found = Diagnostics()
    timely = predicates(replace(program, rules=tuple(map(_own_head, written))), ())
    known = resolve(timely, {}, found)
    normal = normalize(timely, found, unsound(timely, known))
    safety(normal.rules, found)
    for rule in normal.rules:
        if rule.order or rule.limit is not None:
            found.add(
                "C022",
                f"a rule for `{rule.head}` has sort or limit, which rules of ticks do not support",
                rule.span,
                help="a class numbers sorted rows: t.sort(…).each_with_index(); max<X> is a value",
            )
    apart = _Elements(schemas)
    aggregated = apart.aggregated(normal.rules)
    cycles = Diagnostics()
    cliques = strata(aggregated, _heads(aggregated), cycles)
    found.extend(replace(each, help=_NEXT) for each in cycles.errors)
    for clique in cliques:
        _check_growth(clique, schemas, found)
    found.raise_errors()
    rules = tuple(aggregated)
    return TickProgram(program, schemas, rules, cliques, _groups(recorder.rules))


def _heads(rules: Sequence[CoreRule]) -> list[str]:
    return list(dict.fromkeys(rule.head for rule in rules))


def _check_growth(clique: Clique, schemas: Mapping[str, Schema], found: Diagnostics) -> None:
    """C014 where a lattice depends on what may take back what it said of that lattice."""
    for rule in clique.rules if clique.is_recursive else ():
        for source, name in not_monotone(rule, schemas):
            if source in clique.relations and is_known(name):
                found.add(
                    "C014",
                    f"`{rule.head}` depends on itself through `{name}` of `{source}`, which "
                    "does not hold for larger values",
                    rule.span,
                    help=_NEXT,
                )


def _groups(rules: Sequence[GroupedRule]) -> dict[int, str]:
    return {number: each.group for number, each in enumerate(rules, start=1)}


def _declaration(schema: Schema) -> Declaration:
    columns = tuple(Column(name, Type.OBJECT) for name in schema.columns)
    return Declaration(schema.name, columns)


def _declare_time(schemas: dict[str, Schema], rule: Rule) -> None:
    if rule.time == "now" or rule.head.relation not in schemas:
        return
    own = schemas[rule.head.relation]
    name = name_timed(own.name, rule.time)
    lattices = own.lattices
    keys = own.columns if not lattices else own.keys
    values = () if not lattices else own.values
    later = (own.name, rule.time)
    schemas.setdefault(
        name, Schema(name, CollectionKind.STREAM, keys, values, lattices, later=later)
    )


def _own_head(rule: Rule) -> Rule:
    head = replace(rule.head, relation=name_timed(rule.head.relation, rule.time))
    return replace(rule, head=head, time="now")


class _Elements:
    """Rules with elements for what has to be kept apart."""

    def __init__(self, schemas: dict[str, Schema]) -> None:
        self._schemas = schemas

    def aggregated(self, rules: Sequence[CoreRule]) -> list[CoreRule]:
        """The rules, of which those that aggregate read one relation as it is."""
        made: list[CoreRule] = []
        for rule in rules:
            if rule.head not in self._schemas:
                self._element(rule.head, CollectionKind.STREAM, len(rule.arguments))
            made += self._aggregated(rule) if rule.has_aggregates else [rule]
        return made

    def _element(
        self, name: str, kind: CollectionKind, arity: int, width: int | None = None
    ) -> Schema:
        columns = tuple(f"c{i + 1}" for i in range(arity))
        width = arity if width is None else width
        made = Schema(name, kind, columns[:width], columns[width:])
        self._schemas[name] = made
        return made

    def _aggregated(self, rule: CoreRule) -> list[CoreRule]:
        """A rule that aggregates one relation into an element, with what that needs around it."""
        made: list[CoreRule] = []
        if not _is_plain(rule):
            names = dict.fromkeys(v for atom in rule.positive for v in atom.variables)
            bound = [Variable(name) for name in names]
            inner = self._fresh("stream", CollectionKind.STREAM, len(bound))
            made.append(replace(rule, head=inner, arguments=tuple(bound), order=(), limit=None))
            atom = CoreAtom(inner, tuple(bound), span=rule.span)
            rule = replace(rule, atoms=(atom,), comparisons=())
        if self._schemas[rule.head].kind.is_element and self._schemas[rule.head].kind not in (
            CollectionKind.STREAM,
        ):
            return [*made, rule]
        group = [a for a in rule.arguments if not isinstance(a, Aggregate)]
        folds = [a for a in rule.arguments if isinstance(a, Aggregate)]
        name = self._fresh("group", CollectionKind.GROUP, len(rule.arguments), len(group))
        made.append(replace(rule, head=name, arguments=(*group, *folds)))
        columns = tuple(Variable(f"c{i + 1}") for i in range(len(rule.arguments)))
        first, last = iter(columns[: len(group)]), iter(columns[len(group) :])
        outer = tuple(next(last if isinstance(a, Aggregate) else first) for a in rule.arguments)
        atom = CoreAtom(name, columns, span=rule.span)
        made.append(replace(rule, arguments=outer, atoms=(atom,), comparisons=()))
        return made

    def _fresh(self, stem: str, kind: CollectionKind, arity: int, width: int | None = None) -> str:
        number = 1
        while f"{stem}_{number}" in self._schemas:
            number += 1
        return self._element(f"{stem}_{number}", kind, arity, width).name


def _is_plain(rule: CoreRule) -> bool:
    """Whether a rule reads one relation as it is."""
    if len(rule.atoms) != 1 or rule.comparisons or rule.atoms[0].negated:
        return False
    arguments = rule.atoms[0].arguments
    return all(isinstance(a, Variable) for a in arguments) and len(set(arguments)) == len(arguments)
