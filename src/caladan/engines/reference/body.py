"""The solutions of a rule's body: every binding of all its variables, each once.

The body is walked as written, one atom inside the other. A comparison is tested, or binds its
unbound variable, as soon as the variables it needs are bound; negated atoms come last. `Facts`
finds the rows of a relation by the columns that are already bound, which changes the time it takes
and nothing else.

`evaluate` gives the value of an expression, `holds` the truth of a comparison, and `solve` the one
value of an unbound variable that makes an equality true. Division by zero is a ZeroDivisionError
and a whole number past 64 bits an OverflowError; `fixpoint` knows the rule and makes diagnostics of
them.

Every value of the language is one Python object. Whole numbers are `int` within 64 bits, fractions
are `float`. Two floats need care: -0.0 is made 0.0, and every NaN is made the one object `NAN`, so
that sets of tuples treat it as equal to itself (tuples compare by identity first). NaN is greater
than every other number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.program import (
    Arithmetic,
    ArithmeticOperator,
    Call,
    Comparison,
    Conditional,
    Constant,
    Expression,
    Function,
    Negative,
    Object,
    Type,
    Value,
    Variable,
    variables,
)
from caladan.program.functions import call, outcomes
from caladan.program.operations import Operation

Binding: TypeAlias = Mapping[str, Value]


def evaluate(expression: Expression, binding: Binding) -> Value:
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
            return canonical(-_number(evaluate(expression.operand, binding)))
        case Arithmetic():
            left = _number(evaluate(expression.left, binding))
            right = _number(evaluate(expression.right, binding))
            return canonical(finite(_arithmetic(expression.operator, left, right), left, right))
        case Conditional():
            chosen = all(holds(comparison, binding) for comparison in expression.condition)
            value = evaluate(expression.then if chosen else expression.otherwise, binding)
            return float(_number(value)) if _is_floating(expression, binding) else value
        case Operation():
            return expression.code(*(evaluate(each, binding) for each in expression.arguments))
        case Function():
            given = [[evaluate(argument, binding)] for argument in expression.arguments]
            return canonical(outcomes(expression, given, 1)[0])
        case Call():
            arguments = [evaluate(argument, binding) for argument in expression.arguments]
            return call(expression.function, arguments)
        case _:
            raise TypeError(f"not an expression of a body: {expression}")


def holds(comparison: Comparison, binding: Binding) -> bool:
    """Whether a comparison whose variables are all bound is true."""
    left = evaluate(comparison.left, binding)
    right = evaluate(comparison.right, binding)
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


def solve(equality: Comparison, name: str, binding: Binding) -> Value:
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
        case _:
            return False


def _invert(expression: Expression, result: Value, name: str, binding: Binding) -> Value:
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


def _is_floating(expression: Expression, binding: Binding) -> bool:
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


def widened(value: Value, type: Type) -> Value:
    """A value as a column or variable of a type holds it: integers become doubles there."""
    return float(value) if type.is_floating and isinstance(value, int) else value


def same(left: Value, right: Value) -> bool:
    """Whether two values are equal; an integer meets a double as a double."""
    return sort_key(left, right) == sort_key(right, left)


def less(left: Value, right: Value) -> bool:
    """Whether the first of two values comes before the second."""
    return sort_key(left, right) < sort_key(right, left)


def sort_key(value: Value, other: Value | None = None) -> tuple[bool, Any]:
    """A key to sort values of one type by, NaN last; `other` is what the value is compared with."""
    if isinstance(other, float) and isinstance(value, int):
        value = float(value)
    if isinstance(value, float) and math.isnan(value):
        return (True, 0.0)
    return (False, value)


def row_key(row: Row) -> tuple[tuple[bool, Any], ...]:
    """A key to sort rows by, column after column."""
    return tuple(sort_key(value) for value in row)


Step: TypeAlias = CoreAtom | Comparison


class Facts:
    """The rows of every relation, and the indexes made of them so far."""

    def __init__(self, rows: Mapping[str, set[Row]]) -> None:
        self._rows = dict(rows)
        self._indexes: dict[str, dict[tuple[int, ...], dict[Row, list[Row]]]] = {}

    def __getitem__(self, relation: str) -> set[Row]:
        return self._rows[relation]

    def __setitem__(self, relation: str, rows: set[Row]) -> None:
        self._rows[relation] = rows
        self._indexes.pop(relation, None)

    def count(self, relations: Iterable[str]) -> int:
        """How many facts some relations have together."""
        return sum(len(self._rows[relation]) for relation in relations)

    def matching(self, relation: str, columns: tuple[int, ...], key: Row) -> list[Row]:
        """The rows that have the key in some columns."""
        indexes = self._indexes.setdefault(relation, {})
        if columns not in indexes:
            index: dict[Row, list[Row]] = {}
            for row in self._rows[relation]:
                index.setdefault(tuple(row[i] for i in columns), []).append(row)
            indexes[columns] = index
        return indexes[columns].get(key, [])


def solutions(rule: CoreRule, facts: Facts) -> Iterator[Binding]:
    """Every binding of the rule's variables that satisfies its body."""
    found: Iterator[Binding] = iter([{}])
    bound: set[str] = set()
    for step in _steps(rule):
        if isinstance(step, Comparison):
            found = _compare(step, _unbound(step, bound), rule, found)
            bound.update(v.name for v in variables(step))
        elif step.negated:
            found = _reject(step, facts, found)
        else:
            found = _match(step, frozenset(bound), facts, found)
            bound.update(step.variables)
    return found


def _steps(rule: CoreRule) -> Iterator[Step]:
    """The body in the order it is walked."""
    bound: set[str] = set()
    by_atoms = {name for atom in rule.positive for name in atom.variables}
    waiting = sorted(rule.comparisons, key=_computes)
    for atom in (None, *rule.positive):
        if atom is not None:
            yield atom
            bound.update(atom.variables)
        while ready := next((c for c in waiting if _is_ready(c, bound, by_atoms)), None):
            waiting.remove(ready)
            yield ready
            bound.update(v.name for v in variables(ready))
    assert not waiting, f"the analysis let rule {rule.number} pass, which cannot be executed"
    yield from (atom for atom in rule.atoms if atom.negated)


def _computes(comparison: Comparison) -> bool:
    """Whether it has arithmetic; those without go first, and may keep a division from failing."""
    return any(isinstance(e, Arithmetic | Conditional) for e in (comparison.left, comparison.right))


def _is_ready(comparison: Comparison, bound: set[str], by_atoms: set[str]) -> bool:
    """Whether it can be tested, or can bind the one variable that is missing and no atom binds."""
    missing = _unbound(comparison, bound)
    return not missing or (
        len(missing) == 1 and missing[0] not in by_atoms and can_solve(comparison, missing[0])
    )


def _unbound(comparison: Comparison, bound: Iterable[str]) -> list[str]:
    """Its variables that are not bound, one entry for each time they occur."""
    return [v.name for v in variables(comparison) if v.name not in bound]


def _compare(
    comparison: Comparison, missing: list[str], rule: CoreRule, found: Iterator[Binding]
) -> Iterator[Binding]:
    if not missing:
        yield from (binding for binding in found if _holds(comparison, binding))
        return
    (name,) = missing
    is_computed = Variable(name) in (comparison.left, comparison.right)
    for binding in found:
        try:
            value = solve(comparison, name, binding)
        except OverflowError:
            if is_computed:
                raise
            continue  # no number within the range solves it
        yield {**binding, name: widened(value, rule.types[name])}


def _holds(comparison: Comparison, binding: Binding) -> bool:
    """Whether it does; a number beyond its range equals nothing that is known."""
    try:
        return holds(comparison, binding)
    except OverflowError:
        if comparison.operator != "=":
            raise
        return False


def _match(
    atom: CoreAtom, bound: frozenset[str], facts: Facts, found: Iterator[Binding]
) -> Iterator[Binding]:
    columns = _known_columns(atom, bound)
    new = [
        (i, argument.name)
        for i, argument in enumerate(atom.arguments)
        if isinstance(argument, Variable) and i not in columns
    ]
    for binding in found:
        key = tuple(evaluate(atom.arguments[i], binding) for i in columns)
        for row in facts.matching(atom.relation, columns, key):
            extended = dict(binding)
            if all(same(extended.setdefault(name, row[i]), row[i]) for i, name in new):
                yield extended


def _reject(atom: CoreAtom, facts: Facts, found: Iterator[Binding]) -> Iterator[Binding]:
    columns = _known_columns(atom, frozenset(atom.variables))
    for binding in found:
        key = tuple(evaluate(atom.arguments[i], binding) for i in columns)
        if not facts.matching(atom.relation, columns, key):
            yield binding


def _known_columns(atom: CoreAtom, bound: frozenset[str]) -> tuple[int, ...]:
    """The columns whose values are known before the atom is matched."""
    return tuple(
        i
        for i, argument in enumerate(atom.arguments)
        if isinstance(argument, Constant) or argument.name in bound
    )
