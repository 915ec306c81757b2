"""Aggregates in bodies: `N = count : { p(X, _) }` becomes a relation with a rule of its own.

    lonely(X) <- person(X), count : { knows(X, Y) } = 0.

    lonely_count(X, count<_>) <- knows(X, Y).
    lonely(X) <- person(X), (lonely_count(X, _1) ; ~lonely_count(X, _), _1 = 0), _1 = 0.

Variables that stand elsewhere in the rule tell groups apart; all others are the aggregate's own. An
aggregate that has a value over nothing has it for every group that the rest of the rule binds; one
that has none (`min`) fails there. A group column that nothing else binds ranges over the groups
that there are. Where the literals within the braces do not bind a group column by themselves, the
rest of the rule says which values it has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from caladan.program import (
    Aggregate,
    Atom,
    Choice,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Head,
    Literal,
    Rule,
    Variable,
    names,
    variables,
)
from caladan.program.aggregates import row_of
from caladan.program.transform import fresh, replace_in, walk


@dataclass(frozen=True, slots=True)
class RangingAggregate(Aggregate):
    """`sum X : { body }` as it was read; only within this language."""

    body: tuple[Literal, ...] = ()


def without_body_aggregates(rules: Sequence[Rule], taken: Iterable[str]) -> list[Rule]:
    """The rules, and those that derive what aggregates of their bodies range over."""
    if not any(isinstance(node, RangingAggregate) for rule in rules for node in walk(rule.body)):
        return list(rules)
    used = {*taken, *(rule.head.relation for rule in rules)}
    used.update(node.relation for rule in rules for node in walk(rule) if isinstance(node, Atom))
    made: list[Rule] = []
    for rule in rules:
        if any(map(_is_ranging, walk(rule.body))):
            rule = _without_repeated(rule)
        made += _Extraction(rule, lambda stem: fresh(stem, used)).rules()
    return made


def _without_repeated(rule: Rule) -> Rule:
    """The rule with places only at variables that stand once: its parts become rules."""
    times = Counter(variable.name for variable in variables(rule))

    def change(node: object) -> Variable | None:
        if not isinstance(node, Variable) or times[node.name] == 1:
            return None
        return Variable(node.name)

    return replace_in(rule, change)


class _Extraction:
    """One rule, whose aggregates become relations."""

    def __init__(self, rule: Rule, named: Callable[[str], str]) -> None:
        self._rule = rule
        self._named = named
        self._made: list[Rule] = []
        self._variables = {*names(rule)}
        plain = replace_in(rule, lambda node: _ZERO if _is_ranging(node) else None)
        self._outer = names(plain) - {"_"}
        self._binding = [literal for literal in rule.body if not _ranges(literal)]
        self._bound = _bound(self._binding)

    def rules(self) -> list[Rule]:
        """What derives the aggregates, and the rule itself."""
        body = self._literals(self._rule.body)
        return [*self._made, replace(self._rule, body=body)]

    def _literals(self, literals: Sequence[Literal]) -> tuple[Literal, ...]:
        found: list[Literal] = []
        for literal in literals:
            match literal:
                case Disjunction():
                    branches = tuple(map(self._literals, literal.branches))
                    found.append(replace(literal, branches=branches))
                case Choice():
                    then, otherwise = map(self._literals, (literal.then, literal.otherwise))
                    found.append(replace(literal, then=then, otherwise=otherwise))
                case _:
                    found += self._literal(literal)
        return tuple(found)

    def _literal(self, literal: Atom | Comparison) -> list[Literal]:
        before: list[Literal] = []

        def change(node: object) -> Variable | None:
            if not isinstance(node, RangingAggregate):
                return None
            value = Variable(fresh("_1", self._variables), node.span)
            before.append(self._derived(node, value))
            return value

        changed = replace_in(literal, change)
        return [*before, changed]

    def _derived(self, node: RangingAggregate, value: Variable) -> Literal:
        """The literal that gives an aggregate its value."""
        inner = names(node.body, node.terms)
        group = [Variable(name) for name in sorted(inner & self._outer)]
        relation = self._named(f"{self._rule.head.relation}_{node.function}")
        aggregate = Aggregate(node.function, node.terms, node.span)
        head = Head(relation, (*group, aggregate), node.span)
        body = node.body
        if not {each.name for each in group} <= _bound(node.body):
            asked = self._named(f"{relation}_of")
            self._made.append(Rule(Head(asked, tuple(group)), tuple(self._binding), span=node.span))
            body = (Atom(asked, tuple(group), span=node.span), *body)
        inside = _Extraction(Rule(head, body, span=node.span), self._named)
        self._made += inside.rules()
        found = Atom(relation, (*group, value), span=node.span)
        identity = row_of(aggregate).identity
        if identity is None or not group or not {v.name for v in group} <= self._bound:
            return found
        none = Atom(relation, (*group, Variable("_")), negated=True, span=node.span)
        empty = Comparison("=", value, Constant(identity), node.span)
        return Disjunction(((found,), (none, empty)), node.span)


_ZERO = Constant(0)


def _is_ranging(node: object) -> bool:
    return isinstance(node, RangingAggregate)


def _ranges(literal: Literal) -> bool:
    return any(map(_is_ranging, walk(literal)))


def _bound(literals: Iterable[Literal]) -> set[str]:
    """The variables that positive atoms bind, and equalities of these."""
    listed = list(literals)
    bound = {
        v.name for each in listed if isinstance(each, Atom) and not each.negated
        for v in variables(each)
    }  # fmt: skip
    equalities = [e for e in listed if isinstance(e, Comparison) and e.operator == "="]
    for _ in equalities:
        for each in equalities:
            sides: tuple[tuple[Expression, Expression], ...] = (
                (each.left, each.right), (each.right, each.left),
            )  # fmt: skip
            for one, other in sides:
                if isinstance(one, Variable) and names(other) <= bound:
                    bound.add(one.name)
    return bound
