"""Expressions and comparisons over a frontier, a whole column at a time.

Integers are computed with 64 bits, and checked: what leaves them raises `Overflow`, a division by
zero `DivisionByZero`. The branches of an `if` are evaluated only for the rows that take them.
Comparisons go by rank, so NaN equals itself and is greater than every number.
"""

from __future__ import annotations

import operator as operators
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from caladan.columns.calls import call_columns
from caladan.columns.decimals import (
    DecimalColumn,
    calculate,
    decimals_from,
    decimals_of,
)
from caladan.columns.domains import CodedDomain, Domain, TextDomain, word_of
from caladan.columns.interner import Tuples
from caladan.columns.layout import Mask, Words
from caladan.columns.ranks import CODED, arrow_ranks, numpy_of, rank_arrow, rank_floats, rank_of
from caladan.columns.times import compute_times
from caladan.data.schema import compute as pc
from caladan.join.arithmetic import (
    DivisionByZero,
    Infinite,
    Overflow,
    ValueColumn,
    arithmetic,
    negative,
    report_failures,
)
from caladan.join.frontier import Bindings
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
    Value,
    Variable,
    functions,
    names,
    operations,
    thresholds,
)
from caladan.program.functions import Resolved, call_rows, find, outcomes, resolve
from caladan.program.kinds import Kind, kind_of, kind_of_value, type_of_kind
from caladan.program.operations import Operation
from caladan.program.transform import walk


class Evaluator:
    """Evaluates over frontiers whose variables have the given domains."""

    def __init__(self, domains: Mapping[str, Domain]) -> None:
        self._domains = domains

    def domain(self, variable: str) -> Domain:
        """The domain of a variable."""
        return self._domains[variable]

    def words(self, expression: Expression, frontier: Bindings, domain: Domain) -> Words:
        """The value of an expression as words of a domain."""
        if isinstance(expression, Variable) and self._domains[expression.name] is domain:
            return frontier.columns[expression.name]
        if isinstance(expression, Constant):
            word = self.word(expression, domain)
            if word is not None:
                return np.full(frontier.rows, word, np.uint32)
        values = self.values(expression, frontier, domain)
        return domain.words(values.widened(domain.kind).ranks)

    def word(self, constant: Constant, domain: Domain) -> int | None:
        """The word of a constant, None if the domain does not have it yet."""
        return word_of(constant.value, domain)

    def values(
        self, expression: Expression, frontier: Bindings, text: Domain | None
    ) -> ValueColumn:
        """The value of an expression in every row; `text` is the domain of texts in it."""
        match expression:
            case Variable():
                domain = self._domains[expression.name]
                ranks = domain.ranks(frontier.columns[expression.name])
                data = rank_floats(ranks) if domain.kind is Kind.FLOAT else ranks
                return ValueColumn(domain.kind, data)
            case Constant():
                return _constant(expression.value, frontier.rows, text)
            case Negative():
                return negative(self.values(expression.operand, frontier, text))
            case Arithmetic():
                left = self.values(expression.left, frontier, text)
                right = self.values(expression.right, frontier, text)
                return arithmetic(expression.operator, left, right)
            case Conditional():
                return self._choose(expression, frontier, text)
            case Operation() if expression.row.ranks is not None:
                pairs = zip(expression.arguments, expression.takes, strict=True)
                given = [self.values(each, frontier, None).ranks for each, _ in pairs]
                with report_failures():
                    return ValueColumn(expression.returns.kind, compute_times(expression, given))
            case Operation() if expression.returns.is_decimal:
                made = self._calculate(expression, frontier)
                assert isinstance(text, TextDomain), f"{expression} has no dictionary"
                return ValueColumn(Kind.DECIMAL, text.take_column(made).astype(np.int64))
            case Call():
                distinct, ids = self._distinct(expression, frontier)
                made = self._made(expression, distinct, text)
                return made if ids is None else ValueColumn(made.kind, made.data[ids])
            case _:
                raise TypeError(f"not an expression of a body: {expression}")

    def holds(self, comparison: Comparison, frontier: Bindings) -> Mask:
        """In which rows a comparison holds."""
        left, right = comparison.left, comparison.right
        if isinstance(left, Variable) and isinstance(right, Variable):
            domain = self._domains[left.name]
            if domain is self._domains[right.name] and comparison.operator in ("=", "~="):
                one, other = frontier.columns[left.name], frontier.columns[right.name]
                return one == other if comparison.operator == "=" else one != other
        if self._has_no_order(comparison):
            return self._hold_in_python(comparison, frontier)
        text = self._text(comparison)
        if text is None and isinstance(left, Constant) and isinstance(right, Constant):
            return np.full(frontier.rows, _constants_hold(comparison.operator, left, right))
        return compare_columns(
            comparison.operator,
            self.values(left, frontier, text),
            self.values(right, frontier, text),
        )

    def ranks(
        self, comparison: Comparison, left: Bindings, right: Bindings
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
        """Numbers that compare as the sides of a comparison do, each over a frontier of its own.

        None if its values have no order.
        """
        sides = comparison.left, comparison.right
        if comparison.operator in ("=", "~=") and all(isinstance(s, Variable) for s in sides):
            one, other = (cast("Variable", side).name for side in sides)
            if self._domains[one] is self._domains[other]:
                return left.columns[one].astype(np.int64), right.columns[other].astype(np.int64)
        if self._has_no_order(comparison):
            return None
        text = self._text(comparison)
        first = self.values(comparison.left, left, text)
        second = self.values(comparison.right, right, text)
        if first.kind is not second.kind:
            first, second = first.widened(Kind.FLOAT), second.widened(Kind.FLOAT)
        return first.ranks, second.ranks

    def is_text(self, variable: str) -> bool:
        """Whether a variable stands for texts, or for other values that have a dictionary."""
        return self._domains[variable].kind.is_coded

    def python(self, expression: Expression, frontier: Bindings) -> list[Any]:
        """The value of an expression in every row, as Python has it: for functions of text."""
        match expression:
            case Variable() if self._domains[expression.name].kind.is_coded:
                words, domain = frontier.columns[expression.name], self._domains[expression.name]
                return domain.arrow(words, CODED[domain.kind]).to_pylist()
            case Constant():
                return [expression.value] * frontier.rows
            case Operation() if expression.returns.is_decimal:
                return self._calculate(expression, frontier).to_pylist()
            case Operation():
                columns = [self._argument(each, frontier) for each in expression.arguments]
                with report_failures():
                    return operations.outcomes(expression, columns)
            case Function():
                return self._called(expression, frontier)
            case Call():
                columns = [self._argument(each, frontier) for each in expression.arguments]
                return self._evaluate(expression, columns, frontier.rows)
            case Conditional():
                chosen = self._chosen(expression, frontier)
                data = np.empty(frontier.rows, object)
                data[chosen] = self.python(expression.then, frontier.where(chosen))
                data[~chosen] = self.python(expression.otherwise, frontier.where(~chosen))
                return data.tolist()
            case _:
                return self.values(expression, frontier, None).data.tolist()

    def _column(self, expression: Expression, frontier: Bindings) -> pa.Array | Value:
        """The values of an expression as Arrow has them, or its value if that is a constant."""
        match expression:
            case Constant():
                return expression.value
            case Variable():
                domain = self._domains[expression.name]
                return domain.arrow(frontier.columns[expression.name], _ARROW[domain.kind])
            case Call() if not isinstance(expression, Function):
                given = [self._column(each, frontier) for each in expression.arguments]
                row, found = self._resolved(expression)
                with _report_failures():
                    return call_columns(row, found, given, frontier.rows)
            case _:
                kind = self._kind(expression)
                if kind.is_coded or isinstance(expression, Function):
                    return pa.array(self.python(expression, frontier), _ARROW[kind])
                return rank_arrow(self.values(expression, frontier, None).ranks, kind, _ARROW[kind])

    def _evaluate(self, call: Call, columns: list[list[Any]], rows: int) -> list[Any]:
        """What a function of the table gives in every row, value by value."""
        row, found = self._resolved(call)
        with _report_failures():
            return call_rows(row, found, columns, rows)

    def _resolved(self, call: Call) -> tuple[functions.FunctionRow, Resolved]:
        """The row of a function, and the types that a call takes and gives."""
        row = find(call.function)
        found = resolve(row, call, self._type)
        assert isinstance(found, Resolved), f"the analysis let {call} pass"
        return row, found

    def _type(self, expression: Expression) -> Type:
        return type_of_kind(self._kind(expression))

    def _kind(self, expression: Expression) -> Kind:
        """The kind of what an expression gives."""
        match expression:
            case Variable():
                return self._domains[expression.name].kind
            case Constant():
                return kind_of_value(expression.value)
            case Negative():
                return self._kind(expression.operand)
            case Arithmetic(operator=operator, left=left, right=right):
                is_float = operator == "/" or Kind.FLOAT in (self._kind(left), self._kind(right))
                return Kind.FLOAT if is_float else Kind.INTEGER
            case Function(returns=returns):
                return kind_of(returns)
            case Call():
                return kind_of(self._resolved(expression)[1].returns)
            case Conditional(then=then, otherwise=otherwise):
                kinds = self._kind(then), self._kind(otherwise)
                return Kind.FLOAT if Kind.FLOAT in kinds else kinds[0]
            case _:
                raise TypeError(f"not an expression of a body: {expression}")

    def _calculate(self, operation: Operation, frontier: Bindings) -> pa.Array:
        """The decimals that an operation gives in every row."""
        with report_failures():
            return self._decimals(operation, operation.returns, frontier).arrow()

    def _decimals(self, expression: Expression, type: Type, frontier: Bindings) -> DecimalColumn:
        """The values of an expression, which a type of numbers holds, as decimals."""
        match expression:
            case Variable() if type.is_decimal:
                domain = self._domains[expression.name]
                words = frontier.columns[expression.name]
                return decimals_of(domain.arrow(words, CODED[domain.kind]), type)
            case Constant():
                one = decimals_from([cast("Any", expression.value)], operations.digits_of(type)[1])
                return DecimalColumn(np.repeat(one.numbers, frontier.rows), one.scale)
            case Operation() if expression.returns.is_decimal:
                pairs = zip(expression.arguments, expression.takes, strict=True)
                given = [self._decimals(each, type, frontier) for each, type in pairs]
                made = calculate(expression, given)
                if made is not None:
                    return made
                columns = [self._argument(each, frontier) for each in expression.arguments]
                values = operations.outcomes(expression, columns)
                return decimals_from(values, type.width[1])
            case _ if type.is_integral:
                return DecimalColumn(self.values(expression, frontier, None).data, 0)
            case _:
                return decimals_from(self.python(expression, frontier), type.width[1])

    def _called(self, function: Function, frontier: Bindings) -> list[Value]:
        """What a Python function gives in every row."""
        columns = [self._argument(each, frontier) for each in function.arguments]
        return outcomes(function, columns, frontier.rows)

    def _argument(self, expression: Expression, frontier: Bindings) -> list[Any]:
        """The values of an expression as a function of Python takes them: as they went in."""
        if isinstance(expression, Variable):
            domain = self._domains[expression.name]
            words = frontier.columns[expression.name]
            return domain.arrow(words, _ARROW[domain.kind]).to_pylist()
        return self.python(expression, frontier)

    def _made(self, call: Call, frontier: Bindings, text: Domain | None) -> ValueColumn:
        """What a function gives in every row."""
        kind = self._kind(call)
        if kind.is_coded:
            assert isinstance(text, TextDomain), f"{call} has no dictionary"
        if not isinstance(call, Function) and frontier.rows >= thresholds.now.grouping:
            column = self._column(call, frontier)
            assert isinstance(column, pa.Array)
            if kind.is_coded:
                assert isinstance(text, TextDomain)
                return ValueColumn(kind, text.take_column(column).astype(np.int64))
            if kind is Kind.FLOAT:
                return ValueColumn(kind, numpy_of(column))
            return ValueColumn(kind, arrow_ranks(column, kind))
        made = self.python(call, frontier)
        if kind.is_coded:
            assert isinstance(text, TextDomain)
            return ValueColumn(kind, text.take(made).astype(np.int64))
        if kind is Kind.FLOAT:
            return ValueColumn(kind, np.array(made, np.float64))
        if kind not in (Kind.INTEGER, Kind.BOOLEAN):
            made = list(map(rank_of, made))
        return ValueColumn(kind, np.array(made, np.int64))

    def _distinct(self, call: Call, frontier: Bindings) -> tuple[Bindings, Words | None]:
        """Each input of a call once, and for every row the number of its own; None if few repeat.

        Functions of numbers that NumPy has take less time than finding out.
        """
        inputs = {name: frontier.columns[name] for name in sorted(names(call))}
        if frontier.rows < thresholds.now.grouping or not inputs or self._is_cheap(call):
            return frontier, None
        if len(inputs) == 1:
            ((name, words),) = inputs.items()
            if 2 * self._domains[name].size <= frontier.rows:
                return _each_word(name, words, self._domains[name].size)
        step = frontier.rows // max(1, thresholds.now.grouping)
        sample = [words[::step] for words in inputs.values()]
        some = len(sample[0])
        if 8 * len(Tuples(len(inputs)).ids(sample, some)[1]) > 7 * some:
            return frontier, None
        ids, fresh = Tuples(len(inputs)).ids(list(inputs.values()), frontier.rows)
        return Bindings(len(fresh), frontier.at(fresh.astype(np.uint32), inputs)), ids

    def _is_cheap(self, call: Call) -> bool:
        """Whether NumPy evaluates a function, and those inside of it."""
        return not any(
            isinstance(node, Function)
            or (isinstance(node, Call) and find(node.function).numpy is None)
            for node in walk(call)
        )

    def _makes_coded(self, expression: Expression) -> bool:
        """Whether an expression makes values that have a dictionary."""
        match expression:
            case Call():
                return self._kind(expression).is_coded
            case Conditional(then=then, otherwise=otherwise):
                return self._makes_coded(then) or self._makes_coded(otherwise)
            case _:
                return False

    def _has_no_order(self, comparison: Comparison) -> bool:
        """Whether texts are compared that rules make: their words are in no order."""
        sides = (comparison.left, comparison.right)
        if any(self._makes_coded(side) for side in sides):
            return True
        domains = [self._domains[name] for side in sides for name in _gives(side)]
        return any(isinstance(domain, TextDomain) for domain in domains)

    def _hold_in_python(self, comparison: Comparison, frontier: Bindings) -> Mask:
        sides = (comparison.left, comparison.right)
        if frontier.rows >= thresholds.now.grouping:
            one, other = (self._column(side, frontier) for side in sides)
            if isinstance(one, pa.Array) and isinstance(other, pa.Array | str):
                found = pc.call_function(_ARROW_COMPARISONS[comparison.operator], [one, other])
                return numpy_of(found.cast(pa.uint8())).view(np.bool_)
        left, right = (self.python(side, frontier) for side in sides)
        compare = PYTHON[comparison.operator]
        rows = zip(left, right, strict=True)
        return np.fromiter((compare(a, b) for a, b in rows), np.bool_, frontier.rows)

    def _text(self, comparison: Comparison) -> Domain | None:
        for side in (comparison.left, comparison.right):
            for name in _gives(side):
                if isinstance(self._domains[name], CodedDomain):
                    return self._domains[name]
        return None

    def _chosen(self, conditional: Conditional, frontier: Bindings) -> Mask:
        """In which rows a condition holds; later comparisons are made where earlier ones hold."""
        chosen: Mask = np.ones(frontier.rows, np.bool_)
        for comparison in conditional.condition:
            chosen[chosen] = self.holds(comparison, frontier.where(chosen))
        return chosen

    def _choose(
        self, conditional: Conditional, frontier: Bindings, text: Domain | None
    ) -> ValueColumn:
        chosen = self._chosen(conditional, frontier)
        then = self.values(conditional.then, frontier.where(chosen), text)
        otherwise = self.values(conditional.otherwise, frontier.where(~chosen), text)
        kind = Kind.FLOAT if Kind.FLOAT in (then.kind, otherwise.kind) else then.kind
        then, otherwise = then.widened(kind), otherwise.widened(kind)
        data = np.empty(frontier.rows, then.data.dtype)
        data[chosen] = then.data
        data[~chosen] = otherwise.data
        return ValueColumn(kind, data)


_ARROW: Final[dict[Kind, pa.DataType]] = {
    **CODED,
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.BOOLEAN: pa.bool_(),
    Kind.DATETIME: pa.timestamp("us"),
    Kind.DATE: pa.date32(),
    Kind.INTERVAL: pa.duration("us"),
}


def compare_columns(operator: str, left: ValueColumn, right: ValueColumn) -> Mask:
    """In which rows two columns compare as asked; an integer meets a double as a double."""
    if left.kind is not right.kind:
        left, right = left.widened(Kind.FLOAT), right.widened(Kind.FLOAT)
    return _COMPARISONS[operator](left.ranks, right.ranks)


_COMPARISONS: Final[dict[str, Callable[[Any, Any], Mask]]] = {
    "=": np.equal,
    "~=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


_ARROW_COMPARISONS: Final = {
    "=": "equal",
    "~=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


PYTHON: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": operators.eq,
    "~=": operators.ne,
    "<": operators.lt,
    "<=": operators.le,
    ">": operators.gt,
    ">=": operators.ge,
}


def _each_word(name: str, words: Words, size: int) -> tuple[Bindings, Words]:
    """The words of a column, each once, and for every row the number of its own."""
    seen = np.zeros(size, np.bool_)
    seen[words] = True
    numbers = np.cumsum(seen, dtype=np.uint32) - np.uint32(1)
    distinct = np.flatnonzero(seen).astype(np.uint32)
    return Bindings(len(distinct), {name: distinct}), numbers[words]


@contextmanager
def _report_failures() -> Generator[None]:
    """Arithmetic of functions fails as that of operators does."""
    try:
        yield
    except ZeroDivisionError:
        raise DivisionByZero from None
    except functions.TooLarge:
        raise Infinite from None
    except OverflowError:
        raise Overflow from None


def _constants_hold(operator: str, left: Constant, right: Constant) -> bool:
    one, other = left.value, right.value
    if kind_of_value(one).is_coded or kind_of_value(other).is_coded:
        return bool(PYTHON[operator](one, other))
    values = [_constant(value, 1, None) for value in (one, other)]
    return bool(compare_columns(operator, *values)[0])


def _gives(expression: Expression) -> Sequence[str]:
    """The variables whose value an expression may give as it is."""
    match expression:
        case Variable():
            return [expression.name]
        case Conditional():
            return [*_gives(expression.then), *_gives(expression.otherwise)]
        case _:
            return []


def _constant(value: Value, rows: int, text: Domain | None) -> ValueColumn:
    kind = kind_of_value(value)
    if kind.is_coded:
        assert isinstance(text, CodedDomain | TextDomain), f"{value!r} has no dictionary"
        word = word_of(value, text)
        assert word is not None, f"{value!r} is not in its dictionary"
        return ValueColumn(kind, np.full(rows, word, np.int64))
    if isinstance(value, float):
        return ValueColumn(Kind.FLOAT, np.full(rows, value, np.float64))
    if isinstance(value, bool):
        return ValueColumn(Kind.BOOLEAN, np.full(rows, int(value), np.int64))
    if isinstance(value, int):
        return ValueColumn(Kind.INTEGER, np.full(rows, value, np.int64))
    return ValueColumn(kind, np.full(rows, rank_of(value), np.int64))
