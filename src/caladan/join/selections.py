"""What of a body waits for variables: tests, negated atoms, equations, and what they say meanwhile.

`Selections.ready` hands out what can be settled. Of what cannot, equations are solved for the one
variable they lack, and comparisons say in which range a variable's values lie.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from caladan.analysis.core import Term
from caladan.analysis.schedule import solve
from caladan.analysis.type_check import partial_type
from caladan.columns.ranks import LEAST, MOST
from caladan.join.access import Access, Check, Compute, Equal, Exclude, Overlap, Range
from caladan.join.constraints.protocol import Constraint
from caladan.program import (
    Arithmetic,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Type,
    Variable,
)
from caladan.rules.body import Absence, Body, BodyBinding, BodyPart, Scan, names


class Selections:
    """What of a body still waits for variables to be bound: tests, negated atoms, equalities.

    They stand as early as they can; those that cannot fail come first, for they may keep a
    division from failing.
    """

    def __init__(self, body: Body) -> None:
        self._types = body.types
        self._looked_up = frozenset(name for scan in body.atoms for name in scan.variables)
        self._bindings = list(body.bindings)
        self._tests = sorted(body.conditions, key=lambda c: _computes(c.left) or _computes(c.right))
        self._absents = list(body.absents)

    @property
    def waiting(self) -> list[BodyPart]:
        """What still waits."""
        return [*self._bindings, *self._tests, *map(Absence, self._absents)]

    def drop(self, parts: Sequence[BodyPart]) -> None:
        """Others see to some parts."""
        self._bindings = [each for each in self._bindings if each not in parts]
        self._tests = [each for each in self._tests if each not in parts]
        self._absents = [each for each in self._absents if Absence(each) not in parts]

    def ready(self, known: frozenset[str]) -> list[Access]:
        """The steps that can be taken now that some variables are known."""
        bound = set(known)
        steps: list[Access] = []
        while step := self._next(bound):
            steps.append(step)
            bound |= step.binds
        return steps

    def _next(self, bound: set[str]) -> Access | None:
        for test in self._tests:
            if not _computes(test.left) and not _computes(test.right) and names(test) <= bound:
                self._tests.remove(test)
                return Check(test)
        for scan in self._absents:
            if set(scan.variables) <= bound:
                self._absents.remove(scan)
                return Exclude(scan, tuple(_list_excluded(scan)))
        for binding in self._bindings:
            if names(binding.expression) <= bound:
                self._bindings.remove(binding)
                if binding.variable in bound:
                    return Check(equation_of(binding))
                return Compute(binding.variable, binding.expression, binding.solved)
        for test in self._tests:
            if names(test) <= bound:
                self._tests.remove(test)
                return Check(test)
        return self._solved(frozenset(bound))

    # ── Equations ────────────────────────────────────────────────────────────────────────────────

    def _solved(self, bound: frozenset[str]) -> Compute | None:
        """An equation whose one variable that is left an atom has: it is looked up by its value."""
        for equation in self._equations():
            left = names(equation) - bound
            if len(left) == 1 and left <= self._looked_up:
                found = solve_equation(equation, bound, self._types)
                if found is not None and found[1]:
                    self.done(equation)
                if found is not None:
                    return found[0]
        return None

    def tied(self, variable: str, known: frozenset[str]) -> Iterator[tuple[str, Comparison]]:
        """The variables that an equation ties to one, both of them unknown."""
        for equation in self._equations():
            left = names(equation) - known
            if len(left) == 2 and variable in left and left <= self._looked_up:
                (other,) = left - {variable}
                yield other, equation

    def ends(self, variable: str, known: frozenset[str]) -> Range | None:
        """What comparisons with something known say about the values of a variable."""
        lower: list[Expression] = []
        upper: list[Expression] = []
        moved: list[Expression] = []
        for test in self._tests:
            if test.operator in _FLIPPED and names(test) - known == frozenset((variable,)):
                found = isolate(test, variable, self._types)
                if found is not None:
                    operator, end = found
                    (upper if operator in ("<", "<=") else lower).append(end)
                    moved += [] if end in (test.left, test.right) else [end]
        for equation in self._equations():
            if names(equation) - known == frozenset((variable,)):
                for least, most in _quotients(equation, variable, self._types):
                    lower.append(least)
                    upper.append(most)
        return Range(tuple(lower), tuple(upper), tuple(moved)) if lower or upper else None

    def pairings(self, new: Sequence[str], known: frozenset[str]) -> tuple[Equal | Overlap, ...]:
        """How an atom that nothing known is a column of may be matched with what is known.

        By equations that cannot be solved for one column, or else as intervals that overlap.
        """
        tests = (test for test in self._tests if test.operator == "=")
        equations = (*map(equation_of, self._bindings), *tests)
        apart = (_apart(each, frozenset(new), known, self._types) for each in equations)
        if found := tuple(Equal(each) for each in apart if each is not None):
            return found
        ends = {name: self.ends(name, known) for name in new}
        below = [(n, e) for n, e in ends.items() if e is not None and not e.lower and e.reads]
        above = [(n, e) for n, e in ends.items() if e is not None and not e.upper and e.reads]
        if any(ends_of(each) == 2 for each in ends.values()):
            return ()
        return tuple(
            Overlap(first, last, upper, lower)
            for (first, upper), (last, lower) in product(below, above)
            if self._types[first] == self._types[last]
        )

    def comparisons(self, known: frozenset[str]) -> list[Check]:
        """The tests that could be made of what is known; they wait all the same."""
        return [Check(test) for test in self._tests if names(test) <= known]

    def suggested(self, variable: str, known: frozenset[str]) -> Comparison | None:
        """A constraint of the user's that may propose a variable, all else of it being known."""
        for test in self._tests:
            if (
                names(test) - known == frozenset((variable,))
                and constraint_of(test, self._types) is not None
            ):
                return test
        return None

    def done(self, equation: Comparison) -> None:
        """An equation holds by construction."""
        self._tests = [test for test in self._tests if test != equation]
        self._bindings = [each for each in self._bindings if equation_of(each) != equation]

    def _equations(self) -> list[Comparison]:
        bindings = (equation_of(each) for each in self._bindings if not each.widens)
        return [*bindings, *(test for test in self._tests if test.operator == "=")]


def constraint_of(
    test: Comparison, types: Mapping[str, Type]
) -> tuple[Constraint, Mapping[str, str]] | None:
    """The constraint that a test calls, with its own names for the test's variables.

    It sees whole numbers: what has others is left to the test, which says so.
    """
    called = test.left
    if test.operator != "=" or test.right != Constant(True) or not isinstance(called, Function):
        return None
    constraint: Constraint | None = getattr(called.code, "constraint", None)
    own: tuple[str, ...] = getattr(called.code, "arguments", ())
    here = [a.name for a in called.arguments if isinstance(a, Variable) and not a.is_anonymous]
    if constraint is None or len(set(here)) < len(own):
        return None
    if not all(types[name].is_integral for name in here):
        return None
    return constraint, dict(zip(here, own, strict=True))


def read_by(part: BodyPart) -> frozenset[str]:
    """The variables of something that waits for them."""
    match part:
        case BodyBinding():
            return names(part.expression) | {part.variable}
        case Absence():
            return frozenset(part.scan.variables)
        case Scan():
            return frozenset(part.variables)
        case _:
            return names(part)


def equation_of(binding: BodyBinding) -> Comparison:
    """A binding as the comparison that it was."""
    return Comparison("=", Variable(binding.variable), binding.expression)


def solve_equation(
    equation: Comparison, known: frozenset[str], types: Mapping[str, Type]
) -> tuple[Compute, bool] | None:
    """The one variable of an equation that is not known, and whether the equation holds then.

    Of whole numbers: what else is computed may have no words in the columns it is looked up in.
    """
    sides = (partial_type(side, types) for side in (equation.left, equation.right))
    if not all(types[name].is_integral for name in names(equation)):
        return None
    if not all(side is not None and side.is_integral for side in sides):
        return None
    exact = solve(equation, known, types)
    found = exact or solve(equation, known, types, divides=True)
    if found is None:
        return None
    return Compute(found.variable, found.expression, True), exact is not None


def _apart(
    equation: Comparison, new: frozenset[str], known: frozenset[str], types: Mapping[str, Type]
) -> Comparison | None:
    """An equation with all that is new on its left side, and nothing new on its right.

    Whole numbers may change sides: what leaves 64 bits by that is left to the equation as it was.

    >>> x, y, z = map(Variable, "XYZ")
    >>> equation = Comparison("=", Arithmetic("+", x, y), Arithmetic("-", z, Constant(1)))
    >>> _apart(equation, frozenset("XZ"), frozenset("Y"), dict.fromkeys("XYZ", Type.LONG))
    ... # doctest: +NORMALIZE_WHITESPACE
    Comparison(operator='=', left=Arithmetic(operator='-', left=Variable(name='X'),
                                             right=Variable(name='Z')),
               right=Arithmetic(operator='-', left=Negative(operand=Variable(name='Y')),
                                right=Constant(value=1)))
    """
    for one, other in ((equation.left, equation.right), (equation.right, equation.left)):
        if names(one) and names(one) <= new and names(other) and names(other) <= known:
            return Comparison("=", one, other)
    read = names(equation)
    if not read <= new | known or not all(types[name].is_integral for name in read):
        return None
    sides: tuple[list[tuple[bool, Expression]], ...] = ([], [])
    for is_less, side in ((False, equation.left), (True, equation.right)):
        for is_negative, term in _terms(side, is_less):
            is_new = not new.isdisjoint(names(term))
            if is_new and not names(term) <= new:
                return None
            # What is known goes to the other side, with the other sign.
            sides[not is_new].append((is_negative is is_new, term))
    if not any(names(term) for _, term in sides[1]) or not sides[0]:
        return None
    return Comparison("=", _added_up(sides[0]), _added_up(sides[1]))


def _terms(expression: Expression, is_less: bool) -> Iterator[tuple[bool, Expression]]:
    """What is added up, and whether it is subtracted."""
    match expression:
        case Arithmetic("+", left, right):
            yield from (*_terms(left, is_less), *_terms(right, is_less))
        case Arithmetic("-", left, right):
            yield from (*_terms(left, is_less), *_terms(right, not is_less))
        case _:
            yield is_less, expression


def _added_up(terms: Sequence[tuple[bool, Expression]]) -> Expression:
    """Terms, of which some are subtracted."""
    (is_less, total), *others = terms
    total = Negative(total) if is_less else total
    for is_less, term in others:
        total = Arithmetic("-" if is_less else "+", total, term)
    return total


_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


def isolate(
    test: Comparison, name: str, types: Mapping[str, Type]
) -> tuple[str, Expression] | None:
    """What a comparison says of one variable, which is then alone on its left side.

    >>> one, other = Variable("X"), Arithmetic("-", Variable("Y"), Variable("X"))
    >>> isolated(Comparison("<", other, Constant(3)), "X", dict.fromkeys("XY", Type.LONG))
    ('>', Arithmetic(operator='-', left=Variable(name='Y'), right=Constant(value=3)))
    """
    operator, node, value = test.operator, test.left, test.right
    if name in names(value):
        operator, node, value = _FLIPPED[operator], value, node
    if name in names(value):
        return None
    if not isinstance(node, Variable) and not all(types[n].is_integral for n in names(test)):
        return None
    while not isinstance(node, Variable):
        match node:
            case Negative():
                operator, node, value = _FLIPPED[operator], node.operand, Negative(value)
            case Arithmetic("+", left, right) if name in names(left) - names(right):
                node, value = left, Arithmetic("-", value, right)
            case Arithmetic("+", left, right) if name in names(right) - names(left):
                node, value = right, Arithmetic("-", value, left)
            case Arithmetic("-", left, right) if name in names(left) - names(right):
                node, value = left, Arithmetic("+", value, right)
            case Arithmetic("-", left, right) if name in names(right) - names(left):
                operator = _FLIPPED[operator]
                node, value = right, Arithmetic("-", left, value)
            case _:
                return None
    return operator, value


def _quotients(
    equation: Comparison, name: str, types: Mapping[str, Type]
) -> Iterator[tuple[Expression, Expression]]:
    """The one value that a factor of a product can have; any, where the other one is zero.

    >>> product = Arithmetic("*", Variable("X"), Variable("Y"))
    >>> equation = Comparison("=", product, Constant(6))
    >>> (least, most), = _quotients(equation, "Y", dict.fromkeys("XY", Type.LONG))
    >>> least.otherwise
    Arithmetic(operator='div', left=Constant(value=6), right=Variable(name='X'))
    """
    for whole, value in ((equation.left, equation.right), (equation.right, equation.left)):
        if not isinstance(whole, Arithmetic) or whole.operator != "*":
            continue
        if not isinstance(value, Variable | Constant) or name in names(value):
            continue
        for factor, other in ((whole.left, whole.right), (whole.right, whole.left)):
            if factor != Variable(name) or not isinstance(other, Variable) or other.name == name:
                continue
            if not all(types[each].is_integral for each in names(equation)):
                continue
            if isinstance(value, Constant) and not isinstance(value.value, int):
                continue
            zero = (Comparison("=", other, Constant(0)),)
            found = Arithmetic("div", value, other)
            yield (
                Conditional(zero, Constant(LEAST), found),
                Conditional(zero, Constant(MOST), found),
            )


def ends_of(ends: Range | None) -> int:
    """How many ends there are."""
    return 0 if ends is None else bool(ends.lower) + bool(ends.upper)


def can_fail(check: Check) -> bool:
    """Whether a comparison computes something."""
    return _computes(check.comparison.left) or _computes(check.comparison.right)


def _list_excluded(scan: Scan) -> Iterator[tuple[int, Term]]:
    for column, argument in enumerate(scan.arguments):
        if isinstance(argument, Constant) or not argument.is_anonymous:
            yield column, argument


def _computes(expression: Expression) -> bool:
    return isinstance(expression, Arithmetic | Call | Negative | Conditional)
