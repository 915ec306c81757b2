"""Types: every column and every variable gets one, and whatever disagrees is reported.

`types(rules, known)` works in three steps. It first spreads types from declared columns and
constants through the rules until nothing changes; a head column that several rules feed takes the
widest of their numeric types. A column that no fact can ever reach, in a recursion without an exit,
learns nothing that way: it takes the type of what it is used with. It then checks every atom,
comparison and expression, reporting C012 with both sides: where each of the conflicting types came
from (type_check.py). Last, constants get the types of the columns or variables they meet
(constants.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from caladan.analysis.constants import ConstantFitter
from caladan.analysis.core import CoreRule, Facts, OpenFacts
from caladan.analysis.resolve import KnownRelation
from caladan.analysis.type_check import (
    Origin,
    argument_type,
    article,
    as_decimal,
    check_rule,
    constant_type,
    joinable,
    partial_type,
    stands_for,
    widened,
)
from caladan.program import (
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Goal,
    Type,
    Variable,
    names,
    variables,
)
from caladan.program.clock import look
from caladan.program.diagnostics import Diagnostics, RelatedSpan, Span
from caladan.program.notation import width_of
from caladan.program.objects import Objects
from caladan.program.transform import replace_in
from caladan.program.types import decimal, wider


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
    for fact in facts:
        inference.feed(fact, {})
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


class _Inference:
    """Spreads types until nothing changes. A type only ever widens, so this ends."""

    def __init__(self, known: Mapping[str, KnownRelation]) -> None:
        self.columns: dict[str, list[Origin | None]] = {
            name: [None] * relation.arity for name, relation in known.items()
        }
        for name, relation in known.items():
            for i, column in enumerate(relation.columns or ()):
                where = f"`{name}` declares column {column.name} as {column.type}"
                self.columns[name][i] = Origin(column.type, column.span, where)

    def spread(self, rules: list[CoreRule]) -> list[dict[str, Origin]]:
        """The variables' types of each rule, once all columns are known."""
        for rule in rules:
            self.columns.setdefault(rule.head, [None] * len(rule.arguments))
        affected: dict[str, set[int]] = {}
        for number, rule in enumerate(rules):
            for name in (rule.head, *(atom.relation for atom in rule.positive)):
                affected.setdefault(name, set()).add(number)
        # In passes over all rules, without those that cannot learn anything new.
        waiting = list(range(len(rules)))
        while waiting:
            later: set[int] = set()
            queued = set(waiting)
            while waiting:
                look()
                number = heappop(waiting)
                queued.discard(number)
                rule = rules[number]
                if self.feed(rule, self.environment(rule)):
                    for other in affected[rule.head]:
                        if other <= number:
                            later.add(other)
                        elif other not in queued:
                            queued.add(other)
                            heappush(waiting, other)
            waiting = sorted(later)
        return [self.environment(rule) for rule in rules]

    def feed(self, rule: CoreRule, environment: Mapping[str, Origin]) -> bool:
        """Widen the head's columns by what a rule puts there."""
        known = {name: origin.type for name, origin in environment.items()}
        columns = self.columns[rule.head]
        changed = False
        for i, argument in enumerate(rule.arguments[: len(columns)]):
            type, current = partial_type(argument, known), columns[i]
            literal = as_decimal(argument) if isinstance(argument, Constant) else None
            if literal is not None and current is not None and current.type.is_decimal:
                type = decimal(*width_of(literal))  # a number among decimals is one
            elif type is None or _stands_for(argument, current):
                continue
            digits = None if literal is None else width_of(literal)
            if current is None:
                widest = type
            elif current.literal is not None and type.is_decimal:  # numbers that were met before
                widest = decimal(*wider(current.literal, type.width))
            else:
                widest = widened(current.type, type)
                before = current.literal
                digits = wider(before, digits) if before and digits else None
            if widest is not None and (current is None or widest != current.type):
                where = f"column {i + 1} of `{rule.head}` is {widest} because of this"
                literal_width = None if widest.is_decimal else digits
                columns[i] = Origin(widest, argument.span or rule.span, where, literal_width)
                changed = True
            elif current is not None and current.literal != digits:
                columns[i] = replace(current, literal=digits)
        return changed

    def environment(self, rule: CoreRule) -> dict[str, Origin]:
        """What is known of the variables of a rule."""
        known: dict[str, Origin] = {}
        for atom in rule.positive:
            columns = self.columns.get(atom.relation, [])
            for i, argument in enumerate(atom.arguments[: len(columns)]):
                column = columns[i]
                if isinstance(argument, Variable) and column is not None:
                    here = Origin(
                        column.type,
                        argument.span or atom.span,
                        f"`{argument.name}` is {column.type} in `{atom.relation}`",
                    )
                    before = known.get(argument.name)
                    if before is None or (
                        joinable(before.type, here.type)
                        and widened(before.type, here.type) != before.type
                    ):
                        known[argument.name] = here
        while any(_bind(comparison, known) for comparison in rule.comparisons):
            pass
        return known

    def unknown(self) -> list[tuple[str, int]]:
        """The columns without a type."""
        columns = self.columns.items()
        return [(name, i) for name, own in columns for i, c in enumerate(own) if c is None]

    def settle(self, rules: list[CoreRule], goals: Iterable[Goal]) -> list[dict[str, Origin]]:
        """Give columns without a type that of what they are used with, or let them be integers."""
        for goal in goals:
            self._use(goal.atom.relation, goal.atom.arguments, {}, goal.span)
        environments = self.spread(rules)
        while unknown := self.unknown():
            for rule, environment in zip(rules, environments, strict=True):
                known = {**self._wanted(rule, environment), **environment}
                for atom in rule.atoms:
                    self._use(atom.relation, atom.arguments, known, atom.span)
            if unknown == self.unknown():
                for name, i in unknown:
                    self.columns[name][i] = Origin(Type.INTEGER, None, "")
            environments = self.spread(rules)
        return environments

    def _use(
        self,
        relation: str,
        arguments: Sequence[Expression],
        known: Mapping[str, Origin],
        span: Span | None,
    ) -> None:
        """What an atom says about columns without a type."""
        columns = self.columns.get(relation, [])
        for i, argument in enumerate(arguments[: len(columns)]):
            type: Type | None = None
            if isinstance(argument, Variable) and argument.name in known:
                type = known[argument.name].type
            elif isinstance(argument, Constant):
                type = constant_type(argument.value)
            if columns[i] is None and type is not None:
                where = f"column {i + 1} of `{relation}` is {type} because of this"
                columns[i] = Origin(type, argument.span or span, where)

    def _wanted(self, rule: CoreRule, environment: Mapping[str, Origin]) -> dict[str, Origin]:
        """The types that variables need for a rule's comparisons, calls and head to make sense."""
        known = {name: origin.type for name, origin in environment.items()}
        wanted: dict[str, Origin] = {}

        def want(node: Expression, type: Type | None) -> None:
            if isinstance(node, Variable) and type is not None:
                where = f"`{node.name}` is {type} because of this"
                wanted.setdefault(node.name, Origin(type, node.span, where))

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


def _stands_for(argument: Expression, column: Origin | None) -> bool:
    """Whether this is a literal that stands for a value of the column."""
    return (
        column is not None
        and isinstance(argument, Constant)
        and stands_for(constant_type(argument.value), column.type)
    )


def _bind(comparison: Comparison, known: dict[str, Origin]) -> bool:
    """Learn the type of the one unknown variable of an equality; True if something was learnt."""
    if comparison.operator != "=":
        return False
    for one, other in (
        (comparison.left, comparison.right),
        (comparison.right, comparison.left),
    ):
        if isinstance(one, Variable) and one.name not in known:
            type = partial_type(other, {n: o.type for n, o in known.items()})
            if type is not None:
                where = f"`{one.name}` is {type} because of this"
                known[one.name] = Origin(type, comparison.span, where)
                return True
    unknown = names(comparison) - known.keys()
    if len(unknown) == 1 and all(
        known[v.name].type.is_integral for v in variables(comparison) if v.name in known
    ):
        (name,) = unknown
        where = f"`{name}` is long because of this"
        known[name] = Origin(Type.LONG, comparison.span, where)
        return True
    return False


def _check_fact(
    rule: CoreRule, columns: Mapping[str, list[Origin | None]], found: Diagnostics
) -> None:
    for argument, column in zip(rule.arguments, columns[rule.head], strict=False):
        assert isinstance(argument, Constant)
        if column is None or _stands_for(argument, column):
            continue
        type = constant_type(argument.value)
        if widened(column.type, type) != column.type and not (
            column.type.is_numeric and type.is_numeric
        ):
            found.add(
                "C012",
                f"`{rule.head}` gets {article(type)} where it has {article(column.type)}",
                argument.span or rule.span,
                related=[RelatedSpan(column.where, column.span)] if column.span else [],
            )
