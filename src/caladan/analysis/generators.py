"""Functions that give several rows, as rules: `X in range(A, B)`, `W in split(T, " ")`.

Such a literal is an atom over a relation that these rules derive, for the arguments that the rule
needs. The places of the rows are found by halving, in as many rounds as their number has bits; an
item is what a function of the table, or one of Python, gives for a place.

    p(X, W) <- q(X, T), W in split(T, " ").

    split_in(T, S) <- q(X, T), S = " ".
    split_span(T, S, 0, N) <- split_in(T, S), N = split_size(T, S), N > 0.
    split_span(T, S, L, M) <- split_span(T, S, L, H), H - L > 1, M = (L + H) div 2.
    split_span(T, S, M, H) <- split_span(T, S, L, H), H - L > 1, M = (L + H) div 2.
    split(T, S, W) <- split_span(T, S, L, H), H - L = 1, W = split_item(T, S, L).
    p(X, W) <- q(X, T), S = " ", split(T, S, W).

All engines and all recursion take this as they take other rules.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from caladan.program import (
    Arithmetic,
    Atom,
    Call,
    Choice,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Generator,
    Head,
    Literal,
    Program,
    Rule,
    Variable,
    names,
)
from caladan.program.functions import find
from caladan.program.transform import fresh, walk


@dataclass(frozen=True, slots=True)
class Expanded:
    """A program without generators, and the relations that stand for them."""

    program: Program
    made: Mapping[str, str]
    """Each with the relation whose rule it is a part of."""


def expand(program: Program, catalog: Collection[str]) -> Expanded:
    """Have rules derive what functions give that give several rows."""
    if not any(isinstance(node, Generator) for rule in program.rules for node in walk(rule.body)):
        return Expanded(program, {})
    taken = {r.name for r in program.relations} | {r.head.relation for r in program.rules}
    work = _Work({*taken, *catalog, *(a.relation for r in program.rules for a in _atoms(r))})
    rules = [replace(rule, body=work.body(rule, rule.body, ())) for rule in program.rules]
    # Those that are made come last: rules are known by their numbers.
    return Expanded(replace(program, rules=(*rules, *work.rules)), work.made)


def _atoms(rule: Rule) -> list[Atom]:
    return [node for node in walk(rule.body) if isinstance(node, Atom)]


class _Work:
    def __init__(self, taken: set[str]) -> None:
        self._taken = taken
        self.rules: list[Rule] = []
        self.made: dict[str, str] = {}

    def body(
        self, rule: Rule, body: Sequence[Literal], around: tuple[Literal, ...]
    ) -> tuple[Literal, ...]:
        """A body, or a branch with what is around it, with atoms instead of generators."""
        made: list[Literal] = []
        for i, literal in enumerate(body):
            rest = (*around, *made, *body[i + 1 :])
            match literal:
                case Generator():
                    made.extend(self._generator(rule, literal, rest))
                case Disjunction():
                    ways = tuple(self.body(rule, branch, rest) for branch in literal.branches)
                    made.append(replace(literal, branches=ways))
                case Choice():
                    then = self.body(rule, literal.then, (*rest, *literal.condition))
                    otherwise = self.body(rule, literal.otherwise, rest)
                    made.append(replace(literal, then=then, otherwise=otherwise))
                case _:
                    made.append(literal)
        return tuple(made)

    def _generator(
        self, rule: Rule, literal: Generator, rest: Sequence[Literal]
    ) -> tuple[Literal, ...]:
        *arguments, item = literal.arguments
        used = {*names(rule), *names(rest)}
        bound: list[Literal] = []
        inputs: list[Variable] = []
        for argument in arguments:
            if isinstance(argument, Variable) and argument not in inputs:
                inputs.append(argument)
            else:
                inputs.append(Variable(fresh("A_1", used), argument.span))
                bound.append(Comparison("=", inputs[-1], argument, argument.span))
        own = names(item) - names(tuple(arguments))
        given = self._name(rule, literal, "in")
        self._add(given, inputs, (*_apart(rest, own), *bound), literal)
        result = self._rules(rule, literal, given, inputs)
        return (*bound, Atom(result, (*inputs, item), span=literal.span))

    def _rules(self, rule: Rule, literal: Generator, given: str, inputs: Sequence[Variable]) -> str:
        """The rules of what a function gives for the arguments in a relation."""
        taken = {variable.name for variable in inputs}
        low, middle, high, item = (Variable(fresh(name, taken)) for name in "LMHX")
        span, result = self._name(rule, literal, "span"), self._name(rule, literal, "out")
        size, each = _calls(literal, inputs, low)
        halves: tuple[Literal, ...] = (
            Atom(span, (*inputs, low, high)),
            Comparison(">", Arithmetic("-", high, low), Constant(1)),
            Comparison("=", middle, Arithmetic("div", Arithmetic("+", low, high), Constant(2))),
        )
        whole: tuple[Literal, ...] = (
            Atom(given, tuple(inputs)),
            Comparison("=", low, Constant(0)),
            Comparison("=", high, size),
            Comparison(">", high, low),
        )
        self._add(span, (*inputs, low, high), whole, literal)
        self._add(span, (*inputs, low, middle), halves, literal)
        self._add(span, (*inputs, middle, high), halves, literal)
        found: tuple[Literal, ...] = (
            Atom(span, (*inputs, low, high)),
            Comparison("=", Arithmetic("-", high, low), Constant(1)),
            Comparison("=", item, each),
        )
        self._add(result, (*inputs, item), found, literal)
        return result

    def _name(self, rule: Rule, literal: Generator, part: str) -> str:
        name = fresh(f"{literal.relation}_{part}", self._taken)
        self.made[name] = rule.head.relation
        return name

    def _add(
        self, name: str, columns: Sequence[Expression], body: Sequence[Literal], of: Generator
    ) -> None:
        self.rules.append(Rule(Head(name, tuple(columns), of.span), tuple(body), span=of.span))


def _calls(literal: Generator, inputs: Sequence[Variable], place: Variable) -> tuple[Call, Call]:
    """How many rows a function gives, and the one at a place."""
    if literal.parts is not None:
        size, item = literal.parts
        return replace(size, arguments=tuple(inputs)), replace(item, arguments=(*inputs, place))
    rows = find(literal.relation).rows
    assert rows is not None
    return Call(rows[0], tuple(inputs)), Call(rows[1], (*inputs, place))


def _apart(body: Sequence[Literal], item: frozenset[str]) -> tuple[Literal, ...]:
    """The literals that do not depend on what a generator gives."""
    kept = [each for each in body if not isinstance(each, Generator)]
    others = {n for each in body if isinstance(each, Generator) for n in names(each.arguments[-1])}
    bound = {n for each in kept if isinstance(each, Atom) and not each.negated for n in names(each)}
    waiting = {*item, *(others - bound)} - (bound - item)
    while True:
        depending = [
            each for each in kept
            if not (isinstance(each, Atom) and not each.negated) and names(each) & waiting
        ]  # fmt: skip
        more = {n for each in depending for n in names(each)} - bound - waiting
        if not more:
            break
        waiting |= more
    return tuple(each for each in kept if each not in depending)
