"""The solutions of a rule's body as it was written: every binding of its variables, each once.

    p(X, Z) <- a(X, Y), (b(Y) ; c(Y, W), W > 3), if(X > 9 then Z = 0 else d(X, Z)), ~e(Z).

`solutions` walks the literals in written order, one inside the other. A comparison is tested, or
binds its unbound variable, as soon as the variables it needs are bound; alternatives come after
atoms, and negated atoms last. The solutions of a body with `(b ; c)` are those of the body with `b`
in its place and those of the body with `c`. A solution has a value for every variable outside of
disjunctions, `_` included; what only a branch mentions is that branch's own. `FactStore` finds the
rows of a relation by the columns that are already bound, which changes the time it takes and
nothing else.

`evaluate` gives the value of an expression, `holds` the truth of a comparison, and `solve` the one
value of an unbound variable that makes an equality true. Division by zero is a ZeroDivisionError
and a whole number past 64 bits an OverflowError; `fixpoint` knows the rule and makes diagnostics of
them.

Every value of the language is one Python object. Whole numbers are `int` within 64 bits, fractions
are `float`. Two floats need care: -0.0 is made 0.0, and every NaN is made the one object `NAN`, so
that sets of tuples treat it as equal to itself (tuples compare by identity first). NaN is greater
than every other number. A missing value is `NULL`: it comes before all others where values are
sorted, is equal to itself in sets of tuples, and to nothing in joins and comparisons.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import count
from typing import Any, Final, TypeAlias

from caladan.analysis.written import WrittenRule, branches
from caladan.program import (
    NULL,
    OPPOSITE,
    Arithmetic,
    ArithmeticOperator,
    Atom,
    Call,
    Choice,
    Comparison,
    Conditional,
    Constant,
    Disjunction,
    Expression,
    Function,
    Literal,
    Negative,
    Object,
    Type,
    Value,
    Variable,
    names,
    operations,
    variables,
)
from caladan.program.functions import NestedCall, call, find, outcomes, type_of_value
from caladan.program.kinds import Kind, kind_of_expression
from caladan.program.operations import Operation
from caladan.program.transform import walk

Solution: TypeAlias = Mapping[str, Value]


def evaluate(expression: Expression, binding: Solution) -> Value:
    """The value of an expression whose variables are all bound.

    >>> evaluate(Arithmetic("div", Constant(-7), Variable("X")), {"X": 2})
    -3
    """
    match expression:
        case Variable():
            return binding[expression.name]
        case Constant():
            return canonical(expression.value)
        case Negative():
            operand = evaluate(expression.operand, binding)
            return NULL if operand is NULL else canonical(-_number(operand))
        case Arithmetic():
            sides = [evaluate(each, binding) for each in (expression.left, expression.right)]
            if NULL in sides:
                return NULL
            left, right = map(_number, sides)
            return canonical(finite(_arithmetic(expression.operator, left, right), left, right))
        case Conditional():
            chosen = all(holds(comparison, binding) for comparison in expression.condition)
            value = evaluate(expression.then if chosen else expression.otherwise, binding)
            if value is NULL:
                return NULL
            return float(_number(value)) if _is_floating(expression, binding) else value
        case Operation():
            values = [evaluate(argument, binding) for argument in expression.arguments]
            if NULL in values:
                return NULL
            return canonical(operations.outcomes(expression, [[value] for value in values])[0])
        case Function():
            given = [[evaluate(argument, binding)] for argument in expression.arguments]
            code = expression.code
            if isinstance(code, NestedCall) and code.keeps_missing:
                lacks = [i for i, each in enumerate(given) if each == [NULL]]
                expression = replace(expression, code=code.without(lacks))
                given = [each for each in given if each != [NULL]]
            if [NULL] in given:
                return NULL
            return canonical(outcomes(expression, given, 1)[0])
        case Call("missing" | "present" as test, (argument,)):
            return (evaluate(argument, binding) is NULL) == (test == "missing")
        case Call("coalesce"):
            each = (evaluate(argument, binding) for argument in expression.arguments)
            first = next((value for value in each if value is not NULL), NULL)
            if isinstance(first, int) and not isinstance(first, bool):
                return float(first) if _is_floating(expression, binding) else first
            return first
        case Call():
            arguments = [evaluate(argument, binding) for argument in expression.arguments]
            if NULL in arguments:
                return NULL
            return canonical(call(expression.function, arguments))
        case _:
            raise TypeError(f"not an expression of a body: {expression}")


def holds(comparison: Comparison, binding: Solution) -> bool:
    """Whether a comparison whose variables are all bound is true."""
    left = evaluate(comparison.left, binding)
    right = evaluate(comparison.right, binding)
    if left is NULL or right is NULL:
        return False
    match comparison.operator:
        case "=":
            return same(left, right)
        case "~=":
            return not same(left, right)
        case "<":
            return less(left, right)
        case "<=":
            return not less(right, left)
        case ">":
            return less(right, left)
        case ">=":
            return not less(left, right)


def solve(equality: Comparison, name: str, binding: Solution) -> Value:
    """The value of the one unbound variable of an equality, which occurs in it once.

    >>> five_is_x_minus_2 = Comparison(
    ...     "=", Constant(5), Arithmetic("-", Variable("X"), Constant(2)))
    >>> solve(five_is_x_minus_2, "X", {})
    7
    """
    if _mentions(equality.left, name):
        return _invert(equality.left, evaluate(equality.right, binding), name, binding)
    return _invert(equality.right, evaluate(equality.left, binding), name, binding)


def can_solve(equality: Comparison, name: str) -> bool:
    """Whether `solve` can find a variable: it stands once, alone on a side or under + and -."""
    occurrences = [v for v in variables(equality) if v.name == name]
    side = equality.left if _mentions(equality.left, name) else equality.right
    return equality.operator == "=" and len(occurrences) == 1 and _can_invert(side, name)


def _can_invert(expression: Expression, name: str) -> bool:
    match expression:
        case Variable():
            return True
        case Negative():
            return _can_invert(expression.operand, name)
        case Arithmetic(operator="+" | "-", left=left, right=right):
            return _can_invert(left if _mentions(left, name) else right, name)
        case Call() if not isinstance(expression, Function):
            place = _place(expression, name)
            known = find(expression.function).inverse
            return place in known and _can_invert(expression.arguments[place], name)
        case _:
            return False


def _place(call: Call, name: str) -> int:
    """The argument of a call that mentions a variable."""
    return next(i for i, each in enumerate(call.arguments) if _mentions(each, name))


def _invert(expression: Expression, result: Value, name: str, binding: Solution) -> Value:
    """The value of a variable for which an expression that mentions it has a result."""
    match expression:
        case Variable():
            return result
        case Negative():
            return _invert(expression.operand, canonical(-_number(result)), name, binding)
        case Arithmetic(operator="+" | "-" as operator, left=left, right=right):
            if _mentions(left, name):
                known = _number(evaluate(right, binding))
                undone = _number(result) - known if operator == "+" else _number(result) + known
                undone = finite(undone, _number(result), known)
                return _invert(left, canonical(undone), name, binding)
            known = _number(evaluate(left, binding))
            undone = _number(result) - known if operator == "+" else known - _number(result)
            undone = finite(undone, _number(result), known)
            return _invert(right, canonical(undone), name, binding)
        case Call():
            place = _place(expression, name)
            given = [
                result if i == place else evaluate(each, binding)
                for i, each in enumerate(expression.arguments)
            ]
            undone = call(find(expression.function).inverse[place], given)
            return _invert(expression.arguments[place], canonical(undone), name, binding)
        case _:
            raise TypeError(f"cannot be solved for {name}: {expression}")


def _arithmetic(operator: ArithmeticOperator, left: float, right: float) -> float:
    match operator:
        case "+":
            return left + right
        case "-":
            return left - right
        case "*":
            return left * right
        case "/":
            return float(left) / float(right)
        case "div":
            quotient = abs(left) // abs(right)
            return quotient if (left < 0) == (right < 0) else -quotient
        case "mod":
            remainder = abs(left) % abs(right)
            return remainder if left >= 0 else -remainder


def _is_floating(expression: Expression, binding: Solution) -> bool:
    """Whether an expression gives a double, whichever branch of an `if` is taken."""
    match expression:
        case Variable():
            return isinstance(binding[expression.name], float)
        case Constant():
            return isinstance(expression.value, float)
        case Negative():
            return _is_floating(expression.operand, binding)
        case Arithmetic(operator=operator, left=left, right=right):
            return operator == "/" or any(_is_floating(side, binding) for side in (left, right))
        case Conditional(then=then, otherwise=otherwise):
            return any(_is_floating(branch, binding) for branch in (then, otherwise))
        case Function():
            return expression.returns.is_floating
        case Call():
            types = {
                name: (None if value is NULL else type_of_value(value)) or Type.LONG
                for name, value in binding.items()
            }
            return kind_of_expression(expression, types) is Kind.FLOAT
        case _:
            return False


def _mentions(expression: Expression, name: str) -> bool:
    return any(variable.name == name for variable in variables(expression))


def _number(value: Value) -> int | float:
    assert isinstance(value, (int, float)), f"the analysis let {value!r} into arithmetic"
    return value


Row: TypeAlias = tuple[Value, ...]

NAN: Final = math.nan
LONG_MIN: Final = -(2**63)
LONG_MAX: Final = 2**63 - 1


def canonical(value: Value) -> Value:
    """The one object that stands for a value; OverflowError for an integer past 64 bits.

    Python values of columns of objects are their number.
    """
    if isinstance(value, Object):
        return value.number
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0  # -0.0 + 0.0 is 0.0
    if isinstance(value, int) and not LONG_MIN <= value <= LONG_MAX:
        raise OverflowError
    return value


class InfiniteValue(OverflowError):
    """A number became too large for a double."""


def finite(result: float, *operands: float) -> float:
    """A result of arithmetic; `InfiniteValue` if it is infinity and no operand is."""
    if isinstance(result, float) and math.isinf(result) and all(map(math.isfinite, operands)):
        raise InfiniteValue
    return result


def widen_value(value: Value, type: Type) -> Value:
    """A value as a column or variable of a type holds it: integers become doubles there."""
    return float(value) if type.is_floating and isinstance(value, int) else value


def same(left: Value, right: Value) -> bool:
    """Whether two values are equal; an integer meets a double as a double."""
    return sort_key(left, right) == sort_key(right, left)


def less(left: Value, right: Value) -> bool:
    """Whether the first of two values comes before the second."""
    return sort_key(left, right) < sort_key(right, left)


def sort_key(value: Value, other: Value | None = None) -> tuple[int, Any]:
    """A key to sort values of one type by, NaN last; `other` is what the value is compared with."""
    if value is NULL:
        return (0, 0)
    if isinstance(other, float) and isinstance(value, int):
        value = float(value)
    if isinstance(value, float) and math.isnan(value):
        return (2, 0.0)
    return (1, value)


def row_key(row: Row) -> tuple[tuple[int, Any], ...]:
    """A key to sort rows by, column after column."""
    return tuple(sort_key(value) for value in row)


class FactStore:
    """The rows of every relation, and the indexes made of them so far."""

    def __init__(self, rows: Mapping[str, set[Row]]) -> None:
        self._rows = dict(rows)
        self._indexes: dict[str, dict[tuple[int, ...], dict[Row, list[Row]]]] = {}

    def __getitem__(self, relation: str) -> set[Row]:
        return self._rows[relation]

    def __setitem__(self, relation: str, rows: set[Row]) -> None:
        self._rows[relation] = rows
        self._indexes.pop(relation, None)

    def add(self, relation: str, rows: set[Row]) -> None:
        """Add rows that are new."""
        self._rows[relation] |= rows
        for columns, index in self._indexes.get(relation, {}).items():
            _enter(index, columns, rows)

    def count(self, relations: Iterable[str]) -> int:
        """How many facts some relations have together."""
        return sum(len(self._rows[relation]) for relation in relations)

    def matching(self, relation: str, columns: tuple[int, ...], key: Row) -> Sequence[Row]:
        """The rows that have the key in some columns; what is missing equals nothing."""
        if NULL in key:
            return ()
        indexes = self._indexes.setdefault(relation, {})
        if columns not in indexes:
            _enter(indexes.setdefault(columns, {}), columns, self._rows[relation])
        return indexes[columns].get(key, ())


def _enter(index: dict[Row, list[Row]], columns: tuple[int, ...], rows: Iterable[Row]) -> None:
    for row in rows:
        index.setdefault(tuple(row[i] for i in columns), []).append(row)


# ── Bodies ───────────────────────────────────────────────────────────────────────────────────────


def solutions(
    rule: WrittenRule,
    facts: FactStore,
    look: Callable[[], None] = lambda: None,
    seed: tuple[int, set[Row]] | None = None,
) -> Iterator[Solution]:
    """Every binding of the rule's variables that satisfies its body, each once.

    `look` is called now and then, to stop what takes too long. With a `seed`, the literal of that
    number, an atom, has only these rows.
    """
    body = list(_named_apart(rule))
    if seed is not None:
        number, rows = seed
        facts = _Seeded(facts, rows)
        atom = body.pop(number)
        assert isinstance(atom, Atom)
        body.insert(0, replace(atom, relation=_SEED))
    fresh = (f"@{i}" for i in count(1))
    walked = _Walk(facts, look)
    if not any(isinstance(each, Disjunction) for each in walk(*body)):
        # No solution is found twice.
        yield from walked.walk(list(_plain(body, fresh)), frozenset(), iter([{}]))
        return
    for way in _ways(body):
        shown = _shown(rule, way)
        seen: set[tuple[tuple[str, Value], ...]] = set()
        for binding in walked.walk(list(_plain(way, fresh)), frozenset(), iter([{}])):
            key = tuple((name, binding[name]) for name in shown if name in binding)
            if key not in seen:
                seen.add(key)
                yield dict(key)


def _ways(body: Sequence[Literal]) -> Iterator[Sequence[Literal]]:
    """The bodies without `if`s that a body stands for; no solution satisfies two of them."""
    at = next((i for i, each in enumerate(body) if isinstance(each, Choice)), None)
    choice = None if at is None else body[at]
    if at is None or not isinstance(choice, Choice):
        yield body
        return
    before, after = body[:at], body[at + 1 :]
    yield from _ways([*before, *choice.condition, *choice.then, *after])
    for way in _list_failures(choice):
        yield from _ways([*before, *way, *after])


def _list_failures(choice: Choice) -> Iterator[list[Literal]]:
    """The ways through an `if` whose condition fails, by the first comparison that does.

    A comparison fails, too, where one of its sides is missing.
    """
    for i, failing in enumerate(choice.condition):
        opposite = replace(failing, operator=OPPOSITE[failing.operator])
        left, right = (Call("missing", (side,)) for side in (failing.left, failing.right))
        tests: list[list[Literal]] = [
            [opposite],
            [Comparison("=", left, Constant(True))],
            [Comparison("=", left, Constant(False)), Comparison("=", right, Constant(True))],
        ]
        for test in tests:
            yield [*choice.condition[:i], *test, *choice.otherwise]


_SEED: Final = "@seed"


class _Seeded(FactStore):
    """Facts with some rows under a name of their own."""

    def __init__(self, facts: FactStore, rows: set[Row]) -> None:
        super().__init__({_SEED: rows})
        self._others = facts

    def matching(self, relation: str, columns: tuple[int, ...], key: Row) -> Sequence[Row]:
        if relation == _SEED:
            return super().matching(relation, columns, key)
        return self._others.matching(relation, columns, key)


def _named_apart(rule: WrittenRule) -> Iterator[Literal]:
    """The body, with a name for each `_` of a positive atom: its value tells solutions apart.

    Not so in a disjunction, whose branches keep to themselves what is not mentioned elsewhere.
    """
    numbers = count(1)

    def named(literal: Literal) -> Literal:
        match literal:
            case Atom(negated=False):
                terms = (
                    Variable(f"@any{next(numbers)}")  # no name that a program can have
                    if isinstance(each, Variable) and each.is_anonymous
                    else each
                    for each in literal.arguments
                )
                return replace(literal, arguments=tuple(terms))
            case Choice():
                then, otherwise = (tuple(map(named, each)) for each in branches(literal))
                return replace(literal, then=then, otherwise=otherwise)
            case _:
                return literal

    return map(named, rule.body)


def _shown(rule: WrittenRule, way: Iterable[Literal]) -> list[str]:
    """The variables that make a solution: all but those that only one disjunction mentions."""
    places: Counter[str] = Counter()
    for each in way:
        places.update(dict.fromkeys(names(each), 1 if isinstance(each, Disjunction) else 2))
    places.update(dict.fromkeys(names(*rule.arguments, *rule.order), 2))
    return sorted(name for name, number in places.items() if number > 1 and name != "_")


def _plain(body: Iterable[Literal], fresh: Iterator[str]) -> Iterator[Literal]:
    """The body with a variable for each expression in an atom, and an equality beside it."""
    for literal in body:
        match literal:
            case Atom():
                terms: list[Expression] = []
                for argument in literal.arguments:
                    if isinstance(argument, Variable | Constant):
                        terms.append(argument)
                        continue
                    terms.append(Variable(next(fresh)))
                    yield Comparison("=", terms[-1], argument, argument.span)
                yield replace(literal, arguments=tuple(terms))
            case Choice():
                then, otherwise = (tuple(_plain(each, fresh)) for each in branches(literal))
                yield replace(literal, then=then, otherwise=otherwise)
            case Disjunction():
                yield replace(
                    literal, branches=tuple(tuple(_plain(b, fresh)) for b in literal.branches)
                )
            case Comparison():
                yield literal


class _Walk:
    """Walks bodies over facts."""

    def __init__(self, facts: FactStore, look: Callable[[], None]) -> None:
        self._facts = facts
        self._look = look

    def walk(
        self, body: Sequence[Literal], bound: frozenset[str], found: Iterator[Solution]
    ) -> Iterator[Solution]:
        """The bindings that extend those found, and satisfy all literals."""
        if not body:
            yield from found
            return
        literal = _next(body, bound)
        rest = [each for each in body if each is not literal]
        match literal:
            case Comparison():
                found = _compare(literal, _unbound(literal, bound), found)
                yield from self.walk(rest, bound | names(literal), found)
            case Atom(negated=True):
                yield from self.walk(rest, bound, self._reject(literal, found))
            case Atom():
                matched = self._match(literal, bound, found)
                yield from self.walk(rest, bound | names(literal) - {"_"}, matched)
            case Disjunction():
                if names(literal) - {"_"} <= bound:
                    yield from self.walk(
                        rest, bound, (b for b in found if self._is_true(literal, b))
                    )
                    return
                given = list(found)
                for branch in literal.branches if given else ():
                    yield from self.walk([*branch, *rest], bound, iter(given))
            case Choice():
                yield from self._choose(literal, rest, bound, list(found))

    def _choose(
        self, choice: Choice, rest: list[Literal], bound: frozenset[str], given: list[Solution]
    ) -> Iterator[Solution]:
        """Both ways through an `if`; without the values that its condition needs, it comes last."""
        if not given:
            return
        if names(choice.condition) <= bound:
            kinds: tuple[list[Solution], list[Solution]] = ([], [])
            for binding in given:
                kinds[all(_holds(each, binding) for each in choice.condition)].append(binding)
            yield from self.walk([*choice.otherwise, *rest], bound, iter(kinds[0]))
            yield from self.walk([*choice.then, *rest], bound, iter(kinds[1]))
            return
        yield from self.walk([*choice.condition, *choice.then, *rest], bound, iter(given))
        for way in _list_failures(choice):
            yield from self.walk([*way, *rest], bound, iter(given))

    def _is_true(self, literal: Literal, binding: Solution) -> bool:
        """Whether a literal holds whose variables are all bound."""
        match literal:
            case Comparison():
                return _holds(literal, binding)
            case Atom():
                return self._has(literal, binding) is not literal.negated
            case Disjunction():
                return any(
                    all(self._is_true(each, binding) for each in branch)
                    for branch in literal.branches
                )
            case Choice():
                chosen = all(_holds(each, binding) for each in literal.condition)
                branch = literal.then if chosen else literal.otherwise
                return all(self._is_true(each, binding) for each in branch)

    def _match(
        self, atom: Atom, bound: frozenset[str], found: Iterator[Solution]
    ) -> Iterator[Solution]:
        columns = _known_columns(atom, bound)
        new = [
            (i, argument.name)
            for i, argument in enumerate(atom.arguments)
            if isinstance(argument, Variable) and i not in columns and not argument.is_anonymous
        ]
        for number, binding in enumerate(found):
            key = tuple(evaluate(atom.arguments[i], binding) for i in columns)
            for other, row in enumerate(self._facts.matching(atom.relation, columns, key)):
                if (number + other) % _GLANCE == 0:
                    self._look()
                extended = dict(binding)
                if all(_binds(extended, name, row[i]) for i, name in new):
                    yield extended

    def _reject(self, atom: Atom, found: Iterator[Solution]) -> Iterator[Solution]:
        return (binding for binding in found if not self._has(atom, binding))

    def _has(self, atom: Atom, binding: Solution) -> bool:
        """Whether an atom, whose variables are all bound, has a fact."""
        columns = _known_columns(atom, names(atom) - {"_"})
        key = tuple(evaluate(atom.arguments[i], binding) for i in columns)
        return bool(self._facts.matching(atom.relation, columns, key))


def _binds(binding: dict[str, Value], name: str, value: Value) -> bool:
    """Bind a variable; False if it has another value, or both are missing."""
    if name in binding:
        return value is not NULL and same(binding[name], value)
    binding[name] = value
    return True


_GLANCE: Final = 1024  # rows between two looks at the clock


def _next(body: Sequence[Literal], bound: frozenset[str]) -> Literal:
    """The literal to walk next; comparisons first, so that a test can keep a division away."""
    by_atoms = {
        v.name
        for each in walk(*body)
        if isinstance(each, Atom) and not each.negated
        for v in variables(each)
    }
    comparisons = [each for each in body if isinstance(each, Comparison)]
    for each in sorted(comparisons, key=_computes):
        if _is_ready(each, bound, by_atoms):
            return each
    for each in body:
        if isinstance(each, Atom) and not each.negated:
            return each
    for each in body:
        if isinstance(each, Choice | Disjunction):
            return each
    for each in body:
        if isinstance(each, Atom) and names(each) - {"_"} <= bound:
            return each
    raise AssertionError(f"the analysis let a body pass that cannot be executed: {body}")


def _computes(comparison: Comparison) -> bool:
    """Whether it has arithmetic; those without go first, and may keep a division from failing."""
    sides = (comparison.left, comparison.right)
    return any(isinstance(each, Arithmetic | Conditional | Call) for each in sides)


def _is_ready(comparison: Comparison, bound: Set[str], by_atoms: Set[str]) -> bool:
    """Whether it can be tested, or can bind the one variable that is missing and no atom binds."""
    missing = _unbound(comparison, bound)
    return not missing or (
        len(missing) == 1 and missing[0] not in by_atoms and can_solve(comparison, missing[0])
    )


def _unbound(comparison: Comparison, bound: Set[str]) -> list[str]:
    """Its variables that are not bound, one entry for each time they occur."""
    return [v.name for v in variables(comparison) if v.name not in bound]


def _compare(
    comparison: Comparison, missing: list[str], found: Iterator[Solution]
) -> Iterator[Solution]:
    if not missing:
        yield from (binding for binding in found if _holds(comparison, binding))
        return
    (name,) = missing
    is_computed = Variable(name) in (comparison.left, comparison.right)
    known = comparison.right if _mentions(comparison.left, name) else comparison.left
    others = [v for v in variables(comparison) if v.name != name]
    for binding in found:
        if not is_computed and (
            evaluate(known, binding) is NULL or any(binding[v.name] is NULL for v in others)
        ):
            continue  # nothing is equal to what is missing
        try:
            value = solve(comparison, name, binding)
        except OverflowError:
            if is_computed:
                raise
            continue  # no number within the range solves it
        yield {**binding, name: value}


def _holds(comparison: Comparison, binding: Solution) -> bool:
    """Whether it does; a number beyond its range equals nothing that is known."""
    try:
        return holds(comparison, binding)
    except OverflowError:
        if comparison.operator != "=":
            raise
        return False


def _known_columns(atom: Atom, bound: Set[str]) -> tuple[int, ...]:
    """The columns whose values are known before the atom is matched."""
    return tuple(
        i
        for i, argument in enumerate(atom.arguments)
        if isinstance(argument, Constant) or names(argument) <= bound
    )
