"""The best value with its witness: `mmin<D, P>` gives two columns, the least D and a P that has it.

    near(Y, mmin<C + W, X>) <- near(X, C, _), arc(X, Y, W).

is taken apart, so that engines know nothing of it: first the best values alone, in a relation of
their own, then the least witness among the solutions that reach them.

    near_best(Y, mmin<C + W>) <- near_best(X, C), arc(X, Y, W).
    near(Y, Best, mmin<X>) <- near(X, C, _), arc(X, Y, W), Best = C + W, near_best(Y, Best).

So a witness is made of final values only, and of several the least counts, whatever the order of
evaluation; with more than one, `mmin<D, P, Q>`, the least Q of the least P. A witness goes on as a
witness and decides nothing else: that is what lets the first step do without (C015 where it does).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from caladan.program import (
    Aggregate,
    Atom,
    Choice,
    Column,
    Comparison,
    Disjunction,
    Expression,
    Head,
    Literal,
    Program,
    Rule,
    Variable,
    names,
    variables,
)
from caladan.program.aggregates import AggregateFunction, lookup, row_of
from caladan.program.diagnostics import Diagnostics
from caladan.program.transform import fresh


@dataclass(frozen=True, slots=True)
class WitnessShape:
    """Where the aggregate of a relation stands in its heads, and how many terms it has."""

    function: AggregateFunction
    position: int
    width: int


def witnesses(
    program: Program, catalog: Mapping[str, tuple[Column, ...]], found: Diagnostics
) -> tuple[Program, dict[str, str]]:
    """The program without witnesses of best values, and the relations of the values, by theirs."""
    made: dict[str, str] = {}
    while True:
        names = [r.head.relation for r in program.rules if _find_witness(r.head) is not None]
        if not names:
            return program, made
        stored = {r.name for r in program.relations} | catalog.keys()
        if names[0] in stored:
            _refuse_data(program, names[0], found)
            stop = frozenset(names[:1])
        else:
            used = stored | {r.head.relation for r in program.rules}
            best = fresh(f"{names[0]}_best", used)
            rules = _WitnessSplit(program, names[0], best, found).rules()
            if rules is not None:
                made[best] = names[0]
                program = replace(program, rules=tuple(rules))
                continue
            stop = frozenset(names[:1])
        program = replace(
            program, rules=tuple(r for r in program.rules if r.head.relation not in stop)
        )


def _find_witness(head: Head) -> WitnessShape | None:
    for i, argument in enumerate(head.arguments):
        if not isinstance(argument, Aggregate) or len(argument.terms) < 2:
            continue
        if (row := row_of(argument)).witness == "after":
            return WitnessShape(row, i, len(argument.terms))
    return None


def _refuse_data(program: Program, name: str, found: Diagnostics) -> None:
    rule = next(r for r in program.rules if r.head.relation == name and _find_witness(r.head))
    found.add(
        "C015",
        f"`{name}` keeps a witness but also has data",
        rule.head.span,
        help="rename the data, and add a rule that reads it",
    )


class _WitnessSplit:
    """Takes the rules of one relation apart."""

    def __init__(self, program: Program, name: str, best: str, found: Diagnostics) -> None:
        self._program = program
        self._name, self._best = name, best
        self._found = found
        heads = [r.head for r in program.rules if r.head.relation == name]
        self._shape = next(shape for h in heads if (shape := _find_witness(h)) is not None)

    def rules(self) -> list[Rule] | None:
        """All rules of the program, those of the best values last; None if something is wrong."""
        rules: list[Rule] = []
        values: list[Rule] = []
        before = len(self._found.errors)
        for rule in self._program.rules:
            if rule.head.relation != self._name:
                rules.append(rule)
                continue
            terms = self._terms(rule)
            if terms is not None:
                rules.append(self._choosing(rule, *terms))
                value = self._improving(rule, *terms)
                values += [] if value is None else [value]
        return [*rules, *values] if len(self._found.errors) == before else None

    def _terms(
        self, rule: Rule
    ) -> tuple[list[Expression], tuple[Expression, ...], list[Expression]] | None:
        """What stands before, the value with its witnesses, and what stands after."""
        at, width = self._shape.position, self._shape.width
        arguments = list(rule.head.arguments)
        aggregates = [a for a in arguments if isinstance(a, Aggregate)]
        if rule.order or rule.limit is not None:
            self._refuse("C022", "a rule with a witness cannot have `sort` or `limit`", rule)
        elif not aggregates and len(arguments) >= at + width:
            end = at + width
            return arguments[:at], tuple(arguments[at:end]), arguments[end:]
        elif _find_witness(rule.head) != self._shape:
            found = f"`{self._shape.function}` with {width - 1} witness{'es'[: 2 * (width > 2)]}"
            self._refuse("C016", f"column {at + 1} of `{self._name}` is {found}, not here", rule)
        elif len(aggregates) > 1:
            self._refuse("C015", "a head with a witness cannot have another aggregate", rule)
        else:
            return arguments[:at], aggregates[0].terms, arguments[at + 1 :]
        return None

    def _refuse(self, code: str, message: str, rule: Rule) -> None:
        self._found.add(code, message, rule.head.span or rule.span)

    def _choosing(
        self,
        rule: Rule,
        group: list[Expression],
        terms: tuple[Expression, ...],
        rest: list[Expression],
    ) -> Rule:
        """The rule for the least witness among solutions that reach the best value."""
        value, *witness = terms
        body = list(rule.body)
        if rule.body and not isinstance(value, Variable):
            name = fresh("_Best", {*names((*rule.body, *terms))})
            body.append(Comparison("=", Variable(name, value.span), value, value.span))
            value = Variable(name, value.span)
        body.append(Atom(self._best, (*group, value, *rest), span=rule.head.span))
        form = lookup("min").in_form(self._shape.function.form)
        least = form.of(tuple(witness), rule.head.span)
        head = replace(rule.head, arguments=(*group, value, least, *rest))
        return replace(rule, head=head, body=tuple(body))

    def _improving(
        self,
        rule: Rule,
        group: list[Expression],
        terms: tuple[Expression, ...],
        rest: list[Expression],
    ) -> Rule | None:
        """The rule for the best value; what only its witnesses need is left out."""
        decided: set[str] = set()
        body: list[Literal] = []
        for literal in rule.body:
            if isinstance(literal, Atom) and literal.relation == self._name:
                dropped, literal = self._without(literal)
                decided |= names(dropped) - {"_"}
                if not all(isinstance(part, Variable) for part in dropped):
                    self._refuse_use(rule, literal)
            body.append(literal)
        kept = self._steady(rule, body, decided)
        value = terms[0]
        if kept is None:
            return None
        for part in (*group, value, *rest):
            if names(part) & decided:
                self._refuse_use(rule, part)
                return None
        best: Expression = value
        if rule.body:
            best = self._shape.function.of((value,), rule.head.span)
        head = Head(self._best, (*group, best, *rest), rule.head.span)
        return replace(rule, head=head, body=tuple(kept))

    def _without(self, atom: Atom) -> tuple[tuple[Expression, ...], Atom]:
        """The witnesses of an atom, and the atom of the best values."""
        start, end = self._shape.position + 1, self._shape.position + self._shape.width
        arguments = atom.arguments
        kept = (*arguments[:start], *arguments[end:])
        return arguments[start:end], replace(atom, relation=self._best, arguments=kept)

    def _steady(self, rule: Rule, body: list[Literal], decided: set[str]) -> list[Literal] | None:
        """The body without what computes witnesses; `decided` gets what is computed from them."""
        kept = body
        while True:
            touched = [lit for lit in kept if names(lit) & decided]
            if not touched:
                return kept
            for literal in touched:
                made = _made(literal, kept, decided)
                if made is None:
                    self._refuse_use(rule, literal)
                    return None
                decided.add(made)
            kept = [literal for literal in kept if literal not in touched]

    def _refuse_use(self, rule: Rule, at: Literal | Expression) -> None:
        self._found.add(
            "C015",
            f"a witness of `{self._name}` restricts the recursion; "
            "it can only be passed on as a witness",
            at.span or rule.span,
            help=f"`{self._shape.function}<Value, Witness>` chooses the best value first, then "
            "its witness; compare witnesses after the recursion, in a rule of another relation",
        )


def _made(literal: Literal, body: list[Literal], decided: set[str]) -> str | None:
    """The variable that an equality computes from witnesses, if that is all it does."""
    if isinstance(literal, Atom | Choice | Disjunction) or literal.operator != "=":
        return None
    bound = {v.name for part in body if isinstance(part, Atom) for v in variables(part)}
    for side, other in (literal.left, literal.right), (literal.right, literal.left):
        computed = names(other) & decided
        if computed and isinstance(side, Variable) and side.name not in bound | decided:
            return side.name
    return None
