"""Types: every column and every variable gets one, and whatever disagrees is reported.

`types(rules, known)` works in three steps. It first spreads types from declared columns through the
rules until nothing changes, and then those of constants, which may stand for values of a type that
is known by then, such as text for a date; a head column that several rules feed takes the widest of
their numeric types. The order of rules never matters. A column that no fact can ever reach, in a
recursion without an exit, learns nothing that way: it takes the type of what it is used with. It
then checks every atom, comparison and expression, reporting C012 with both sides: where each of the
conflicting types came from (type_check.py). Last, constants get the types of the columns or
variables they meet (constants.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from caladan.analysis.constants import ConstantFitter
from caladan.analysis.core import CoreRule, Facts, OpenFacts
from caladan.analysis.resolve import KnownRelation
from caladan.analysis.schedule import solve
from caladan.analysis.type_check import (
    TypeOrigin,
    argument_type,
    article,
    check_rule,
    constant_type,
    joinable,
    partial_type,
    stands_for,
    widen,
)
from caladan.program import (
    NULL,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Goal,
    Type,
    Variable,
)
from caladan.program.clock import look
from caladan.program.diagnostics import Diagnostics, RelatedSpan, Span
from caladan.program.objects import Objects
from caladan.program.transform import replace_in


@dataclass(frozen=True, slots=True)
class TypedRules:
    """Rules with types, the columns' types by relation, and facts as plain rows."""

    rules: tuple[CoreRule, ...]
    columns: Mapping[str, tuple[Type, ...]]
    facts: Facts
    open_facts: OpenFacts


def types(
    rules: Iterable[CoreRule],
    known: Mapping[str, KnownRelation],
    found: Diagnostics,
    objects: Objects,
    goals: Iterable[Goal] = (),
) -> TypedRules:
    """The types of everything, and the rules with constants that have them."""
    inference = _Inference(known)
    facts = [r for r in rules if _is_fact(r)]
    derived = [r for r in rules if not _is_fact(r)]
    inference.spread(derived, literals=False)
    inference.feed(offer for fact in facts for offer in inference.offers(fact, {}))
    environments = inference.spread(derived)
    for rule in facts:
        _check_fact(rule, inference.columns, found)
    for rule, environment in zip(derived, environments, strict=True):
        check_rule(rule, environment, inference.columns, found)
    # What is unknown after a mistake says nothing; else it is what no fact can ever reach.
    if not found.errors and inference.unknown():
        environments = inference.settle(derived, goals)
        for rule, environment in zip(derived, environments, strict=True):
            check_rule(rule, environment, inference.columns, found)
    fitter = ConstantFitter(inference.final(), found, objects)
    return TypedRules(
        tuple(
            fitter.rule(rule, {name: origin.type for name, origin in environment.items()})
            for rule, environment in zip(derived, environments, strict=True)
        ),
        fitter.columns,
        fitter.facts(facts),
        fitter.open_facts(facts),
    )


def _is_fact(rule: CoreRule) -> bool:
    return (
        not rule.atoms
        and not rule.comparisons
        and all(isinstance(a, Constant) for a in rule.arguments)
    )


Environment: TypeAlias = dict[str, TypeOrigin]
"""What is known of the variables of a rule."""


@dataclass(frozen=True, slots=True)
class Offer:
    """The type of something that goes into a column of a relation."""

    relation: str
    column: int
    type: Type
    is_literal: bool
    span: Span | None


class _Inference:
    """Spreads types until nothing changes. A type only ever widens, so this ends."""

    def __init__(self, known: Mapping[str, KnownRelation]) -> None:
        self.columns: dict[str, list[TypeOrigin | None]] = {
            name: [None] * relation.arity for name, relation in known.items()
        }
        for name, relation in known.items():
            for i, column in enumerate(relation.columns or ()):
                where = f"`{name}` declares column {column.name} as {column.type}"
                self.columns[name][i] = TypeOrigin(column.type, column.span, where)

    def spread(self, rules: Sequence[CoreRule], *, literals: bool = True) -> list[Environment]:
        """The variables' types of each rule, once all columns are known.

        A round looks at rules that can learn something, all of them with the columns as they were
        when it began: so the order of rules does not matter. Without `literals`, constants that
        may stand for values of other types say nothing yet.
        """
        for rule in rules:
            self.columns.setdefault(rule.head, [None] * len(rule.arguments))
        affected: dict[str, set[int]] = {}
        for number, rule in enumerate(rules):
            for name in (rule.head, *(atom.relation for atom in rule.positive)):
                affected.setdefault(name, set()).add(number)
        waiting = set(range(len(rules)))
        while waiting:
            found: list[Offer] = []
            for number in sorted(waiting):
                look()
                rule = rules[number]
                environment = self.environment(rule, literals=literals)
                offered = self.offers(rule, environment)
                found += offered if literals else (o for o in offered if not o.is_literal)
            waiting = {number for name in self.feed(found) for number in affected.get(name, ())}
        return [self.environment(rule, literals=literals) for rule in rules]

    def offers(self, rule: CoreRule, environment: Mapping[str, TypeOrigin]) -> Iterator[Offer]:
        """What a rule puts into the columns of its head."""
        known = {name: origin.type for name, origin in environment.items()}
        columns = self.columns[rule.head]
        for i, argument in enumerate(rule.arguments[: len(columns)]):
            type = partial_type(argument, known)
            if type is not None:
                is_literal = isinstance(argument, Constant)
                yield Offer(rule.head, i, type, is_literal, argument.span or rule.span)

    def feed(self, offers: Iterable[Offer]) -> set[str]:
        """Widen columns by what is put into them; the relations of those that changed.

        Which offer comes first does not matter: literals come after all others, as they stand for
        values of other types, and those that stand for few come first.
        """
        found: dict[tuple[str, int], dict[tuple[bool, Type], Offer]] = {}
        for offer in offers:
            place = found.setdefault((offer.relation, offer.column), {})
            place.setdefault((offer.is_literal, offer.type), offer)
        changed: set[str] = set()
        for (name, i), kinds in found.items():
            types = [type for _, type in kinds]

            def order(offer: Offer, types: list[Type] = types) -> tuple[bool, int, str]:
                meanings = sum(stands_for(offer.type, each) for each in types)
                return offer.is_literal, meanings if offer.is_literal else 0, str(offer.type)

            for offer in sorted(kinds.values(), key=order):
                current = self.columns[name][i]
                if (
                    current is not None
                    and offer.is_literal
                    and stands_for(offer.type, current.type)
                ):
                    continue
                wider = offer.type if current is None else widen(current.type, offer.type)
                if wider is not None and (current is None or wider != current.type):
                    where = f"column {i + 1} of `{name}` is {wider} because of this"
                    self.columns[name][i] = TypeOrigin(wider, offer.span, where)
                    changed.add(name)
        return changed

    def environment(self, rule: CoreRule, *, literals: bool = True) -> Environment:
        """What is known of the variables of a rule."""
        known: Environment = {}
        for atom in rule.positive:
            columns = self.columns.get(atom.relation, [])
            for i, argument in enumerate(atom.arguments[: len(columns)]):
                column = columns[i]
                if isinstance(argument, Variable) and column is not None:
                    here = TypeOrigin(
                        column.type,
                        argument.span or atom.span,
                        f"`{argument.name}` is {column.type} in `{atom.relation}`",
                    )
                    before = known.get(argument.name)
                    if before is None or (
                        joinable(before.type, here.type)
                        and widen(before.type, here.type) != before.type
                    ):
                        known[argument.name] = here
        by_atoms = frozenset(name for atom in rule.positive for name in atom.variables)
        equalities = [c for c in rule.comparisons if c.operator == "="]
        learns = True
        while learns:
            learnt = [_bind(each, known, by_atoms, literals=literals) for each in equalities]
            learns = any(learnt)
        return known

    def unknown(self) -> list[tuple[str, int]]:
        """The columns without a type."""
        columns = self.columns.items()
        return [(name, i) for name, own in columns for i, c in enumerate(own) if c is None]

    def settle(self, rules: list[CoreRule], goals: Iterable[Goal]) -> list[dict[str, TypeOrigin]]:
        """Give columns without a type that of what they are used with, or let them be integers."""
        asked = (o for g in goals for o in _uses(g.atom.relation, g.atom.arguments, {}, g.span))
        self._feed_unknown(asked)
        environments = self.spread(rules)
        while unknown := self.unknown():
            found: list[Offer] = []
            for rule, environment in zip(rules, environments, strict=True):
                known = {**self._wanted(rule, environment), **environment}
                for atom in rule.atoms:
                    found += _uses(atom.relation, atom.arguments, known, atom.span)
            self._feed_unknown(found)
            if unknown == self.unknown():
                for name, i in unknown:
                    self.columns[name][i] = TypeOrigin(Type.INTEGER, None, "")
            environments = self.spread(rules)
        return environments

    def _feed_unknown(self, offers: Iterable[Offer]) -> None:
        """What atoms say about columns without a type."""
        unknown = set(self.unknown())
        self.feed([offer for offer in offers if (offer.relation, offer.column) in unknown])

    def _wanted(
        self, rule: CoreRule, environment: Mapping[str, TypeOrigin]
    ) -> dict[str, TypeOrigin]:
        """The types that variables need for a rule's comparisons, calls and head to make sense."""
        known = {name: origin.type for name, origin in environment.items()}
        wanted: dict[str, TypeOrigin] = {}

        def want(node: Expression, type: Type | None) -> None:
            if isinstance(node, Variable) and type is not None:
                where = f"`{node.name}` is {type} because of this"
                wanted.setdefault(node.name, TypeOrigin(type, node.span, where))

        def compare(node: Comparison) -> None:
            for one, other in ((node.left, node.right), (node.right, node.left)):
                want(one, partial_type(other, known))

        def look(part: Expression) -> None:
            if isinstance(part, Conditional):
                for comparison in part.condition:
                    compare(comparison)
            elif isinstance(part, Call):
                for i, argument in enumerate(part.arguments):
                    want(argument, argument_type(part, i))

        for comparison in rule.comparisons:
            compare(comparison)
        for argument, column in zip(rule.arguments, self.columns[rule.head], strict=False):
            want(argument, None if column is None else column.type)
        sides = [side for each in rule.comparisons for side in (each.left, each.right)]
        for expression in (*sides, *rule.arguments):
            replace_in(expression, look)
        return wanted

    def final(self) -> dict[str, tuple[Type, ...]]:
        """The columns' types; what is not known after a mistake is an integer."""
        return {
            name: tuple(Type.INTEGER if c is None else c.type for c in columns)
            for name, columns in self.columns.items()
        }


def _uses(
    relation: str,
    arguments: Sequence[Expression],
    known: Mapping[str, TypeOrigin],
    span: Span | None,
) -> Iterator[Offer]:
    """The types of what stands in the columns of an atom."""
    for i, argument in enumerate(arguments):
        at = argument.span or span
        if isinstance(argument, Variable) and argument.name in known:
            yield Offer(relation, i, known[argument.name].type, False, at)
        elif isinstance(argument, Constant):
            yield Offer(relation, i, constant_type(argument.value), True, at)


def _stands_for(argument: Expression, column: TypeOrigin | None) -> bool:
    """Whether this is a literal that stands for a value of the column."""
    return (
        column is not None
        and isinstance(argument, Constant)
        and argument.value is not NULL
        and stands_for(constant_type(argument.value), column.type)
    )


def _bind(
    equality: Comparison, known: Environment, by_atoms: frozenset[str], *, literals: bool
) -> bool:
    """Learn the types of variables that only an equality binds; True if something was learnt.

    A variable that is equal to several things has the widest of their types.
    """
    learnt = False
    types = {name: origin.type for name, origin in known.items()}
    for one, other in ((equality.left, equality.right), (equality.right, equality.left)):
        if not isinstance(one, Variable) or (one.name in by_atoms and one.name in known):
            continue
        type, before = partial_type(other, types), known.get(one.name)
        if type is None or (isinstance(other, Constant) and (before is not None or not literals)):
            continue
        wider = type if before is None else widen(before.type, type)
        if wider is not None and (before is None or wider != before.type):
            where = f"`{one.name}` is {wider} because of this"
            known[one.name] = TypeOrigin(wider, equality.span, where)
            learnt = True
    solved = solve(equality, known.keys(), types)
    if solved is not None and not isinstance(solved.expression, Constant):
        sides = (equality.left, equality.right)
        if solved.variable not in known and Variable(solved.variable) not in sides:
            type = partial_type(solved.expression, types) or Type.LONG
            where = f"`{solved.variable}` is {type} because of this"
            known[solved.variable] = TypeOrigin(type, equality.span, where)
            learnt = True
    return learnt


def _check_fact(
    rule: CoreRule, columns: Mapping[str, list[TypeOrigin | None]], found: Diagnostics
) -> None:
    for argument, column in zip(rule.arguments, columns[rule.head], strict=False):
        assert isinstance(argument, Constant)
        if column is None or argument.value is NULL or _stands_for(argument, column):
            continue
        type = constant_type(argument.value)
        if widen(column.type, type) != column.type and not (
            column.type.is_numeric and type.is_numeric
        ):
            found.add(
                "C012",
                f"`{rule.head}` gets {article(type)} where it has {article(column.type)}",
                argument.span or rule.span,
                related=[RelatedSpan(column.where, column.span)] if column.span else [],
            )
