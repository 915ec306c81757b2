"""From the literals of a question to the bodies that are searched.

    Question.ways     a Body for each branch of its disjunctions, by the passes that rules take
    Question.domains  the values of its variables

What was given beside the body becomes atoms of it: a set one over a relation of its own, anything
else one over a relation that is not stored, which the search asks instead (`Way.constraints`).

A variable that stands in columns of several kinds is of the widest: integers meet doubles as
doubles, days meet times, and anything meets an object as one. The library encodes a relation once
more where it has to. Comparisons that rules have no type for, such as of objects, are made by
Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np

from caladan.analysis.alternatives import FreshNames
from caladan.analysis.core import CoreRule, RelationInfo
from caladan.analysis.normalize import normalize
from caladan.analysis.resolve import KnownRelation, resolve
from caladan.analysis.safety import safety
from caladan.analysis.types import types
from caladan.analysis.ways import ways_through
from caladan.columns.domains import TextDomain
from caladan.columns.relation import StoredRelation
from caladan.join.constraints.protocol import Codes, Constraint, JoinConstraint, Mask, Var
from caladan.join.constraints.sets import OneOf, Predicate
from caladan.join.constraints.values import ValueConstraint
from caladan.join.expressions import PYTHON
from caladan.join.search.library import Library, VariableDomain, stored_ranks
from caladan.join.search.specs import BetweenSpec, OneOfSpec, PredicateSpec, Spec, one_of, predicate
from caladan.program import (
    Atom,
    Column,
    Comparison,
    Constant,
    Expression,
    Head,
    Literal,
    Program,
    Rule,
    Type,
    Variable,
    atoms,
)
from caladan.program.diagnostics import Diagnostics, error
from caladan.program.kinds import Kind, kind_of, kind_of_value
from caladan.program.transform import names as names_in, replace_in, walk
from caladan.program.types import NAMES
from caladan.rules.body import Body, body_of

_NUMBERS: Final = (Kind.INTEGER, Kind.FLOAT)
_TIMES: Final = (Kind.DATE, Kind.DATETIME)
_WIDE: Final = {Kind.INTEGER: Type.LONG, Kind.FLOAT: Type.DOUBLE}


@dataclass(frozen=True, slots=True)
class Way:
    """A body, what of its relations is not stored, and the values of its variables."""

    rule: CoreRule
    body: Body
    constraints: Mapping[str, JoinConstraint]
    domains: Mapping[Var, VariableDomain]


class Question:
    """Literals and what was given beside them, made ready to be searched."""

    def __init__(
        self,
        library: Library,
        names: Sequence[Var],
        body: Sequence[Literal],
        given: Iterable[tuple[Var | None, object]],
    ) -> None:
        self.names = tuple(names)
        self.relations: dict[str, StoredRelation] = {}
        self.columns: dict[str, tuple[VariableDomain, ...]] = {}
        self._library = library
        self._names = FreshNames({*library.names})
        self._head = self._names.fresh("answer")
        self._catalog: dict[str, tuple[Column, ...]] = {}
        self._specs: dict[str, tuple[Var | None, object]] = {}
        self._kinds: dict[Var, Kind] = {}
        for atom in atoms(body):
            for argument, kind in zip(atom.arguments, self._own(atom), strict=False):
                if isinstance(argument, Variable) and not argument.is_anonymous:
                    known = self._kinds.get(argument.name)
                    self._kinds[argument.name] = _join_kinds(known, kind, argument)
                _check_constant(argument, kind)
        self._catalog |= {name: _columns(library.kinds(name)) for name in library.names}
        stored = replace_in(tuple(body), self._stored)
        specs = [(var, _spec(each, var)) for var, each in given]
        mentioned = {*names, *names_in(*body), *(var for var, _ in specs)}
        for _, spec in specs:
            if isinstance(spec, PredicateSpec) and (missing := {*spec.variables} - mentioned):
                raise error("C013", f"`{min(missing)}` is not a variable of the body")
        beside = [self._beside(*each) for each in specs]
        found = Diagnostics()
        ways = ways_through(stored, found)
        known = resolve(Program(rules=tuple(map(self._rule, ways))), self._catalog, found)
        found.raise_errors()
        rules = [self._rule((*map(self._compared, way), *beside)) for way in ways]
        for name in self._specs.keys() - self._catalog.keys():
            arity = len(
                next(a for r in rules for a in atoms(r.body) if a.relation == name).arguments
            )
            known[name] = KnownRelation(arity, None, None, takes_data=False)
        normal = normalize(Program(rules=tuple(rules)), found)
        typed = types(normal.rules, known, found, library.objects)
        safety(typed.rules, found)
        found.raise_errors()
        self.ways = [self._way(rule, typed.columns) for rule in typed.rules]
        kinds = map(kind_of, typed.columns[self._head])
        self.domains = {name: library.domain(kind) for name, kind in zip(names, kinds, strict=True)}

    # ── Relations ────────────────────────────────────────────────────────────────────────────────

    def _own(self, atom: Atom) -> tuple[Kind, ...]:
        return self._library.kinds(atom.relation) if atom.relation in self._library else ()

    def _stored(self, node: Any) -> Atom | None:
        """An atom over its relation, with columns of the kinds that its variables have."""
        if not isinstance(node, Atom) or node.relation not in self._library:
            return None
        if len(own := self._own(node)) != len(node.arguments):
            return None
        kinds = tuple(
            self._kinds.get(argument.name, kind) if isinstance(argument, Variable) else kind
            for argument, kind in zip(node.arguments, own, strict=True)
        )
        arguments = [_fit_argument(*each) for each in zip(node.arguments, kinds, strict=True)]
        stored = self._library.relation(node.relation, kinds)
        name = node.relation
        if kinds != own or None in arguments:
            name = self._names.fresh(name)
            self._catalog[name] = _columns(kinds)
        if None in arguments:  # no fact has the constant
            arguments, stored = list(node.arguments), StoredRelation(stored.domains)
            arguments = [Variable("_") if isinstance(a, Constant) else a for a in arguments]
        self.relations[name] = stored
        self.columns[name] = tuple(map(self._library.domain, kinds))
        return Atom(name, tuple(cast("list[Expression]", arguments)), node.negated, node.span)

    def _rule(self, body: Sequence[Literal]) -> Rule:
        return Rule(Head(self._head, tuple(map(Variable, self.names))), tuple(body))

    def _beside(self, var: Var | None, spec: object) -> Atom:
        """What was given beside the body as an atom of it."""
        named = tuple(sorted(getattr(spec, "variables", ())))
        variables = named or ((var,) if var is not None else ())
        name = self._names.fresh("one_of" if isinstance(spec, OneOfSpec | OneOf) else "constraint")
        self._specs[name] = (var, spec)
        kind = self._kinds.get(variables[0], _kind_of(spec)) if len(variables) == 1 else None
        if kind is not None:
            self._catalog[name] = _columns([kind])
        return Atom(name, tuple(map(Variable, variables)))

    def _compared(self, literal: Literal) -> Literal:
        """A comparison that rules have no type for as a test by Python."""
        if not isinstance(literal, Comparison):
            return literal
        sides = (literal.left, literal.right)
        kinds = {self._kinds.get(side.name) for side in sides if isinstance(side, Variable)}
        if Kind.OBJECT in kinds:
            takes_python = literal.operator not in ("=", "~=")
        else:
            alike = any(kinds <= {*each} for each in (_TIMES, (*_NUMBERS, Kind.DECIMAL)))
            takes_python = alike and len(kinds) > 1 and not kinds <= {*_NUMBERS}
        if not takes_python or not all(isinstance(side, Variable | Constant) for side in sides):
            return literal
        variables = tuple(dict.fromkeys(s.name for s in sides if isinstance(s, Variable)))
        return self._beside(None, _PythonTest(literal, variables))

    # ── Bodies ───────────────────────────────────────────────────────────────────────────────────

    def _way(self, rule: CoreRule, columns: Mapping[str, tuple[Type, ...]]) -> Way:
        library = self._library
        domains = {name: library.domain(kind_of(type)) for name, type in rule.types.items()}
        codings = {name: domain.coding for name, domain in domains.items()}
        constraints: dict[str, JoinConstraint] = {}
        for atom in rule.atoms:
            if atom.relation in self._specs and atom.relation not in self.relations:
                constraint = _constraint(*self._specs[atom.relation], domains)
                if isinstance(constraint, OneOf):
                    domain = domains[constraint.var]
                    stored = stored_ranks([domain], [constraint.words], len(constraint.words))
                    self.relations[atom.relation] = stored
                    self.columns[atom.relation] = (domain,)
                else:
                    constraints[atom.relation] = ValueConstraint(constraint, codings)
        for node in walk(rule.atoms, rule.comparisons):
            if isinstance(node, Constant) and kind_of_value(node.value).is_coded:
                coding = library.domain(kind_of_value(node.value)).coding
                assert isinstance(coding, TextDomain)
                coding.take([node.value])
        infos = {
            name: RelationInfo(
                name, _columns(map(kind_of, own)), True, False, (None,) * len(own), name
            )
            for name, own in columns.items()
        }
        return Way(rule, body_of(rule, infos), constraints, domains)


@dataclass(frozen=True, slots=True)
class _PythonTest:
    """A comparison of values that Python decides about."""

    comparison: Comparison
    variables: tuple[Var, ...]

    def constrain(self, var: Var | None, domains: Mapping[Var, VariableDomain]) -> Constraint:
        """A test that decodes what is compared."""
        del var
        sides = (self.comparison.left, self.comparison.right)

        def test(*words: Codes) -> Mask:
            columns = dict(zip(self.variables, words, strict=True))
            values = [
                domains[side.name].decode(columns[side.name])
                if isinstance(side, Variable)
                else cast("Constant", side).value
                for side in sides
            ]
            try:
                return np.asarray(PYTHON[self.comparison.operator](*values), np.bool_)
            except TypeError as problem:
                said = f"these values do not compare: {problem}"
                raise error("C012", said, self.comparison.span) from None

        test.__name__ = self.comparison.operator
        return Predicate(self.variables, test)


def _columns(kinds: Iterable[Kind]) -> tuple[Column, ...]:
    every = (_WIDE.get(kind) or NAMES[kind.value] for kind in kinds)
    return tuple(Column(f"column{i + 1}", type) for i, type in enumerate(every))


def _fit_argument(argument: Expression, kind: Kind) -> Expression | None:
    """An argument in a column; None for a fraction among whole numbers."""
    value = argument.value if isinstance(argument, Constant) else None
    if kind is not Kind.INTEGER or not isinstance(value, float):
        return argument
    return Constant(int(value), argument.span) if value.is_integer() else None


def _check_constant(argument: Expression, kind: Kind) -> None:
    """A name that is no variable is a text: it may have been meant as one."""
    if isinstance(argument, Constant) and isinstance(argument.value, str):
        is_name = argument.span is not None and argument.span.text[:1] not in "'\""
        if is_name and kind not in (Kind.STRING, Kind.OBJECT):
            said = f"{argument.value!r} is no {kind.value}, which this column has"
            help = "list it among the variables if it is one"
            raise error("C018", said, argument.span, help=help)


def _join_kinds(known: Kind | None, kind: Kind, variable: Variable) -> Kind:
    """The kind of a variable that stands in columns of two."""
    if known is None or known is kind:
        return kind
    if known in _NUMBERS and kind in _NUMBERS:
        return Kind.FLOAT
    if known in _TIMES and kind in _TIMES:
        return Kind.DATETIME
    if Kind.OBJECT in (known, kind):
        return Kind.OBJECT
    said = f"`{variable.name}` is a {known.value} in one column and a {kind.value} in another"
    raise error("C012", said, variable.span)


def _spec(given: object, var: Var | None) -> object:
    """What a user wrote for a variable, as a spec or a constraint."""
    if isinstance(given, Spec | Constraint) or var is None:
        return given
    if callable(given):
        return predicate(given)
    if isinstance(given, str | bytes) or not hasattr(given, "__iter__"):
        return one_of([given])
    return one_of(cast("Iterable[object]", given))


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


def _constraint(var: Var | None, spec: object, domains: Mapping[Var, VariableDomain]) -> Constraint:
    if isinstance(spec, Spec):
        return spec.constrain(var, domains)
    if isinstance(spec, Constraint):
        if var is not None and var not in spec.variables:
            raise error("C050", f"the constraint given for `{var}` has no such variable")
        return spec
    raise error(
        "C050",
        f"{spec!r} is not a constraint",
        help="it needs variables, estimate, propose, confirm and influence",
    )
