"""Random rules over known relations: the parts that `random_programs` puts together.

Columns are of one of three kinds, written `i` for whole numbers, `s` for texts, `d` for doubles
(halves, so that sums are exact); `a` is an average, which no later rule reads, for its last digits
may differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from hypothesis import strategies as st

from caladan.program import (
    Aggregate,
    Arithmetic,
    ArithmeticOperator,
    Atom,
    Choice,
    Comparison,
    ComparisonOperator,
    Conditional,
    Constant,
    Disjunction,
    Expression,
    Goal,
    Head,
    Literal,
    Rule,
    Variable,
)

VARIABLES = {"i": ("X", "Y", "Z", "U"), "s": ("S", "T"), "d": ("D", "E")}
VALUES: dict[str, Sequence[Any]] = {
    "i": range(6),
    "s": ("a", "b", "c"),
    "d": (0.0, 0.5, 1.0, 2.5),
}
OPERATORS: tuple[ComparisonOperator, ...] = ("=", "~=", "<", "<=", ">", ">=")
COMPUTED: tuple[ArithmeticOperator, ...] = ("+", "-", "*", "div")
MODULUS = 7

Bound: TypeAlias = dict[str, list[str]]
"""The variables that a body binds, by kind."""


@dataclass(frozen=True)
class Signature:
    """A relation and the kinds of its columns."""

    name: str
    kinds: str


class Rules:
    """Draws rules; `known` are the relations that they may read."""

    def __init__(self, draw: st.DrawFn, known: list[Signature]) -> None:
        self.draw = draw
        self.known = known
        self.rules: list[Rule] = []

    def rule(self, head: Signature, reads: list[Signature], *, bounded: bool = False) -> None:
        body, bound = self.body(reads, bounded)
        arguments = tuple(self.value(kind, bound) for kind in head.kinds)
        self.rules.append(Rule(Head(head.name, arguments), tuple(body)))

    def body(self, reads: list[Signature], bounded: bool) -> tuple[list[Literal], Bound]:
        """Literals, and the variables they bind; `reads` are relations that must be read."""
        chosen = [*reads, *self.draw(st.lists(st.sampled_from(self.known), max_size=2))]
        chosen = chosen or [self.draw(st.sampled_from(self.known))]
        body: list[Literal] = [self.atom(signature) for signature in chosen]
        bound = _bound(body)
        for extra in self.draw(
            st.lists(
                st.sampled_from(["compare", "compute", "negate", "choose"]),
                max_size=2,
                unique=True,
            )
        ):
            body += getattr(self, extra)(bound, bounded)
        return list(self.draw(st.permutations(body))), bound

    def atom(self, signature: Signature) -> Atom:
        return Atom(signature.name, tuple(self.argument(kind) for kind in signature.kinds))

    def argument(self, kind: str) -> Expression:
        choice = self.draw(st.integers(0, 9))
        if choice == 0:
            return self.constant(kind)
        return Variable("_" if choice == 1 else self.draw(st.sampled_from(VARIABLES[kind])))

    def compare(self, bound: Bound, bounded: bool) -> list[Literal]:
        kind = self.draw(st.sampled_from("isd"))
        operator = self.draw(st.sampled_from(OPERATORS))
        if not bound[kind]:
            return []
        left = Variable(self.draw(st.sampled_from(bound[kind])))
        return [Comparison(operator, left, self.value(kind, bound))]

    def compute(self, bound: Bound, bounded: bool) -> list[Literal]:
        """Bind the variable N, where nothing recursive depends on it also by solving for it."""
        if not bound["i"] or "N" in bound["i"]:
            return []
        known = Variable(self.draw(st.sampled_from(bound["i"])))
        value = self.modular(bound)
        if not bounded and self.draw(st.booleans()):
            summed = Arithmetic(self.draw(st.sampled_from(COMPUTED[:2])), value, Variable("N"))
            equality = Comparison("=", known, summed)
        else:
            equality = Comparison("=", Variable("N"), value)
        bound["i"].append("N")
        return [equality]

    def negate(self, bound: Bound, bounded: bool) -> list[Literal]:
        signature = self.draw(st.sampled_from(self.known))
        arguments = tuple(
            Variable("_") if self.draw(st.booleans()) else self.simple(kind, bound)
            for kind in signature.kinds
        )
        return [Atom(signature.name, arguments, negated=True)]

    def choose(self, bound: Bound, bounded: bool) -> list[Literal]:
        then, otherwise = self.compare(bound, bounded), self.negate(bound, bounded)
        if not bound["i"] or not then:
            return []
        operator = self.draw(st.sampled_from(OPERATORS))
        known = Variable(self.draw(st.sampled_from(bound["i"])))
        test = Comparison(operator, known, self.value("i", bound))
        if self.draw(st.booleans()):
            return [Choice((test,), tuple(then), tuple(otherwise))]
        branches = [(test, *then), tuple(otherwise), *([tuple(then)] * self.draw(st.booleans()))]
        return [Disjunction(tuple(self.draw(st.permutations(branches))))]

    def simple(self, kind: str, bound: Bound) -> Expression:
        if bound[kind] and self.draw(st.integers(0, 4)):
            return Variable(self.draw(st.sampled_from(bound[kind])))
        return self.constant(kind)

    def value(self, kind: str, bound: Bound) -> Expression:
        """A bound variable, a constant, or something computed that stays in bounds."""
        if kind == "i" and bound["i"] and self.draw(st.integers(0, 3)) == 0:
            return self.modular(bound)
        return self.simple(kind, bound)

    def modular(self, bound: Bound) -> Expression:
        left, right = self.simple("i", bound), self.simple("i", bound)
        if self.draw(st.integers(0, len(COMPUTED))) == 0:
            test = Comparison("<", left, right)
            return Arithmetic("mod", Conditional((test,), left, right), Constant(MODULUS))
        operator = self.draw(st.sampled_from(COMPUTED))
        if operator == "div":
            right = Constant(self.draw(st.integers(1, 3)))
        return Arithmetic("mod", Arithmetic(operator, left, right), Constant(MODULUS))

    def constant(self, kind: str) -> Constant:
        return Constant(self.draw(st.sampled_from(VALUES[kind])))

    def aggregated(self, function: str, kind: str, bound: Bound) -> Aggregate:
        if function == "count" and self.draw(st.booleans()):
            return Aggregate(function, (Variable("_"),))
        return Aggregate(function, (self.value(kind, bound),))

    def goal(self, signature: Signature) -> Goal:
        """Mostly every row; now and then a constant or a variable that is repeated."""
        arguments: list[Expression] = []
        for i, kind in enumerate(signature.kinds):
            choice = self.draw(st.integers(0, 7)) if kind != "a" else 7
            repeated = [a for a, k in zip(arguments, signature.kinds, strict=False) if k == kind]
            if choice == 0:
                arguments.append(self.constant(kind))
            elif choice == 1 and repeated:
                arguments.append(repeated[0])
            else:
                arguments.append(Variable(f"V{i}"))
        return Goal(Atom(signature.name, tuple(arguments)))


def _bound(body: list[Literal]) -> Bound:
    names = {
        a.name
        for atom in body
        if isinstance(atom, Atom)
        for a in atom.arguments
        if isinstance(a, Variable) and not a.is_anonymous
    }
    return {kind: sorted(names.intersection(pool)) for kind, pool in VARIABLES.items()}
