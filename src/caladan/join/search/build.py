"""From the literals of a body, whose variables have their kinds, to constraints.

Arithmetic on integers is taken apart into sums and products of two, with variables of its
own for what lies between, so that the search can solve it for whatever is missing. Arithmetic on
doubles is computed and compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, cast

import numpy as np

from caladan.columns.ranks import Kind, float_ranks
from caladan.columns.relation import StoredRelation
from caladan.join.constraint import Constraint, Mask, Var, Words
from caladan.join.either import Either, Exists
from caladan.join.parties import Foreign, Party, StepConstraint, StoredAtom
from caladan.join.search.constraints import (
    COMPARE,
    Between,
    ComparisonConstraint,
    Equal,
    FunctionConstraint,
    OneOf,
    Plus,
    Predicate,
    Term,
    Times,
    variables_of,
)
from caladan.join.search.kinds import compares, kind_of, names_of
from caladan.join.search.library import Domain, Library, stored_ranks
from caladan.join.steps import AbsentStep
from caladan.program import (
    Arithmetic,
    Atom,
    Choice,
    Comparison,
    Constant,
    Disjunction,
    Expression,
    Literal,
    Negative,
    Variable,
    variables,
)
from caladan.program.diagnostics import CaladanError, error
from caladan.rules.body import Version

_CALCULATE: Final[dict[str, Any]] = {"+": np.add, "-": np.subtract, "*": np.multiply}


class Builder:
    """Makes constraints. `fresh` are variables made on the way; nobody asks for their values."""

    def __init__(self, library: Library, kinds: dict[Var, Kind], listed: frozenset[Var]) -> None:
        self.library = library
        self.kinds = kinds
        self._listed = listed  # variables that something else than an equation lists values for
        self._made = 0

    def domain(self, var: Var) -> Domain:
        """The domain of a variable."""
        return self.library.domain(self.kinds[var])

    def conjunction(self, body: Sequence[Literal], visible: frozenset[Var]) -> list[Party]:
        """The constraints of a body; others use the `visible` variables too."""
        made: list[Party] = []
        for number, literal in enumerate(body):
            match literal:
                case Atom():
                    made.extend(self._atom(literal))
                case Comparison():
                    made.extend(map(self.party, self._comparison(literal)))
                case Disjunction():
                    rest = (*body[:number], *body[number + 1 :])
                    made.append(self._either(literal, visible | names_of(rest)))
                case Choice():
                    raise AssertionError(f"{literal} in a body of `find`")
        return made

    def party(self, constraint: Constraint) -> Party:
        """A constraint over values as the search takes it; a set is a relation."""
        domains = {var: self.domain(var) for var in constraint.variables}
        if isinstance(constraint, OneOf):
            (domain,) = domains.values()
            relation = stored_ranks([domain], [constraint.words], len(constraint.words))
            return StoredAtom(relation, Version.FULL, (constraint.var,), "one_of")
        return Foreign(constraint, domains)

    def _either(self, literal: Disjunction, visible: frozenset[Var]) -> Party:
        """Alternatives; variables that nobody else uses are each alternative's own."""
        alternatives: list[list[Party]] = []
        for each in literal.branches:
            inside = self.conjunction(each, visible)
            own = frozenset[Var]().union(*(c.variables for c in inside)) - visible
            alternatives.append([Exists(inside, own)] if own else inside)
        return Either(alternatives)

    def _atom(self, literal: Atom) -> Iterator[Party]:
        own = self.library.kinds(literal.relation)
        arguments: list[Term | None] = []
        kinds: list[Kind] = []
        is_known = True
        for argument, kind in zip(literal.arguments, own, strict=True):
            match argument:
                case Variable() if argument.is_anonymous:
                    arguments.append(None)
                case Variable():
                    arguments.append(argument.name)
                    kind = self.kinds[argument.name]
                case Constant():
                    rank = self._rank(argument, kind)
                    is_known &= rank is not None
                    words = self.library.domain(kind).words(np.array([rank or 0]))
                    arguments.append(int(words[0]))
                case _:
                    name, made = self._value(argument, kind)
                    yield from map(self.party, made)
                    arguments.append(name)
            kinds.append(kind)
        relation = self.library.relation(literal.relation, kinds)
        if not is_known:  # no fact has the constant
            relation = StoredRelation(relation.domains)
        atom = StoredAtom(relation, Version.FULL, tuple(arguments), literal.relation)
        if literal.negated:
            bound = {i: a for i, a in enumerate(arguments) if a is not None}
            yield StepConstraint(AbsentStep(relation, bound), f"~{atom}")
        else:
            yield atom

    def _rank(self, constant: Constant, kind: Kind) -> int | None:
        """The rank of a constant in a column; None if no value of the column equals it."""
        try:
            return self.library.domain(kind).encode(constant.value)
        except CaladanError:
            quoted = constant.span is None or constant.span.text[:1] in "'\""
            listed = "list it among the variables if it is one" if not quoted else None
            said = f"{constant.value!r} is no {kind.value}, which this column has"
            raise error("C018", said, constant.span, help=listed) from None

    def _value(self, expression: Expression, kind: Kind) -> tuple[Term, list[Constraint]]:
        """A variable that has the value of an expression, in a column of a kind."""
        name = self._fresh(kind)
        return name, list(self._equation(Variable(name), expression))

    def _comparison(self, literal: Comparison) -> Iterator[Constraint]:
        left, right = literal.left, literal.right
        kinds = [kind_of(side, self.kinds) for side in (left, right)]
        if not compares(*kinds):
            shown = " with ".join(k.value if k else "?" for k in kinds)
            raise error("C012", f"cannot compare {shown}", literal.span)
        if literal.operator == "=":
            if not isinstance(left, Variable) and isinstance(right, Variable):
                left, right = right, left
            yield from self._equation(left, right)
        elif kinds == [Kind.INTEGER, Kind.INTEGER]:
            terms: list[Term] = []
            for side in (left, right):
                term, made = self._term(side)
                terms.append(term)
                yield from made
            yield ComparisonConstraint(terms[0], literal.operator, terms[1])
        else:
            yield self._test(literal)

    def _equation(self, left: Expression, right: Expression) -> Iterator[Constraint]:
        whole = all(kind_of(side, self.kinds) is Kind.INTEGER for side in (left, right))
        if whole and isinstance(left, Variable) and isinstance(right, Arithmetic):
            yield from self._arithmetic(left.name, right)
        elif whole:
            one, made = self._term(left)
            other, more = self._term(right)
            yield from (*made, *more, Equal(one, other))
        elif isinstance(left, Variable):
            yield self._computed(left, right)
        else:
            yield self._test(Comparison("=", left, right))

    def _term(self, expression: Expression) -> tuple[Term, list[Constraint]]:
        """An integer expression as a variable or a word, and what makes it so."""
        match expression:
            case Variable():
                return expression.name, []
            case Constant():
                return int(cast("int", expression.value)), []
            case Negative():
                zero = Constant(0, expression.span)
                return self._term(Arithmetic("-", zero, expression.operand, expression.span))
            case Arithmetic():
                name = self._fresh(Kind.INTEGER)
                return name, list(self._arithmetic(name, expression))
            case _:
                raise AssertionError(f"{expression} in a body")

    def _arithmetic(self, target: Var, expression: Arithmetic) -> Iterator[Constraint]:
        x, made = self._term(expression.left)
        y, more = self._term(expression.right)
        yield from (*made, *more)
        alone = target not in self._listed
        match expression.operator:
            case "+":
                yield Plus(x, y, target, defines=frozenset((target,) if alone else ()))
            case "-":
                yield Plus(target, y, x, defines=frozenset((target,) if alone else ()))
            case _:
                yield Times(x, y, target, defines=alone)

    def _computed(self, target: Variable, expression: Expression) -> Constraint:
        """An equation of doubles, or of values that are not numbers."""
        kind = self.kinds[target.name]
        match expression:
            case Variable() if self.kinds[expression.name] is kind:
                return Equal(target.name, expression.name)
            case Constant():
                rank = self._rank(expression, kind)
                if rank is None:
                    return OneOf(target.name, np.empty(0, np.int64))
                return Equal(target.name, rank)
            case _:
                inputs = list(dict.fromkeys(v.name for v in variables(expression)))

        def compute(*words: Words) -> tuple[Words, Mask | None]:
            numbers = np.asarray(self._evaluate(expression, dict(zip(inputs, words, strict=True))))
            if kind is Kind.FLOAT:
                return float_ranks(numbers.astype(np.float64)), None
            whole = (numbers == np.floor(numbers)) & (np.abs(numbers) < 2.0**63)
            return np.where(whole, numbers, 0.0).astype(np.int64), whole

        compute.__name__ = "expression"
        return FunctionConstraint(target.name, inputs, compute)

    def _test(self, literal: Comparison) -> Constraint:
        inputs = list(dict.fromkeys(v.name for v in variables(literal)))

        def test(*words: Words) -> Mask:
            columns = dict(zip(inputs, words, strict=True))
            sides = (self._evaluate(side, columns) for side in (literal.left, literal.right))
            try:
                return np.asarray(COMPARE[literal.operator](*sides), np.bool_)
            except TypeError as problem:
                raise error(
                    "C012", f"these values do not compare: {problem}", literal.span
                ) from None

        test.__name__ = f"{literal.operator}"
        return Predicate(inputs, test)

    def _evaluate(self, expression: Expression, columns: Mapping[Var, Words]) -> np.ndarray:
        """Values that compare and add up as they should: numbers, or texts as objects."""
        match expression:
            case Variable():
                return self.domain(expression.name).decode(columns[expression.name])
            case Constant():
                value = expression.value
                return np.array(value, object if isinstance(value, str) else None)
            case Negative():
                return -self._evaluate(expression.operand, columns).astype(np.float64)
            case Arithmetic():
                left = self._evaluate(expression.left, columns).astype(np.float64)
                right = self._evaluate(expression.right, columns).astype(np.float64)
                return {"+": np.add, "-": np.subtract}.get(expression.operator, np.multiply)(
                    left, right
                )
            case _:
                raise AssertionError(f"{expression} in a body")

    def _fresh(self, kind: Kind) -> Var:
        self._made += 1
        name = f"#{self._made}"
        self.kinds[name] = kind
        return name


def gives_values(party: Party, bound: Collection[Var]) -> frozenset[Var]:
    """The variables that a constraint can propose values for once some others are bound."""
    constraint = party.constraint if isinstance(party, Foreign) else party
    match constraint:
        case StepConstraint() | ComparisonConstraint() | Predicate():
            return frozenset()
        case Equal() | Plus():
            missing = constraint.variables - frozenset(bound)
            return missing if len(missing) == 1 else frozenset()
        case FunctionConstraint():
            ready = variables_of(*constraint.inputs) <= frozenset(bound)
            return variables_of(constraint.target) if ready else frozenset()
        case Between():
            return frozenset((constraint.var,)) if constraint.proposes else frozenset()
        case _:
            return constraint.variables
