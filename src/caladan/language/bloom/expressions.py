"""Expressions over the columns of collections, built with Python's operators.

    kvs.put.value + 1          arithmetic, comparisons, & | ~
    bloom.fn(round)(t.cost)    a Python function: opaque, called once for each distinct input
    bloom.now()                the number of the tick; wall_clock() the time, frozen for the tick
    self.counter > 12          a lattice read as a value

An expression becomes a node of the Program when a stream takes it in: the stream knows which
variable a column is. At the end, what functions of users are given for a row, and may give.
"""

from __future__ import annotations

import inspect
import operator
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NoReturn, Protocol, cast

from caladan.language.bloom.lattices import LATTICES
from caladan.language.bloom.values import Lattice, freeze
from caladan.program import Arithmetic, Constant, Expression, Function, Negative
from caladan.program.diagnostics import error
from caladan.program.program import ArithmeticOperator, ComparisonOperator

FUNCTIONS: Final = {
    name for each in LATTICES.values() for name in dir(each) if not name.startswith("_")
} - {"word", "monotone", "bottom", "of", "lifted", "reveal", "at_least", "is_largest", "value"}
"""Those that lattices have, for expressions that give one."""


class ColumnScope(Protocol):
    """Where an expression is looked at: what its columns and the lattices it reads are."""

    def column(self, source: object, name: str) -> Expression: ...

    def read(self, name: str, position: int) -> Expression: ...


def _operator(
    name: str, code: Callable[..., Any], *, is_swapped: bool = False
) -> Callable[[ValueOperators, object], Expr]:
    """A method for one of Python's operators, with the value on its left, or on its right."""

    def method(self: ValueOperators, other: object) -> Expr:
        sides = (self.as_value(), lift(other))
        return self.watched(BloomOperation(name, code, sides[::-1] if is_swapped else sides))

    return method


class ValueOperators:
    """What Python's operators make of something that has a value: an expression, or a lattice."""

    def as_value(self) -> Expr:
        """The value as an expression."""
        raise NotImplementedError

    def watched(self, made: BloomOperation) -> Expr:
        """The expression that an operator made; a lattice checks that a rule reads it."""
        return made

    def __neg__(self) -> Expr:
        return BloomOperation("-", operator.neg, (self.as_value(),))

    def __invert__(self) -> Expr:
        return BloomOperation("not", operator.not_, (self.as_value(),))

    def __bool__(self) -> NoReturn:
        raise error(
            "C050",
            "an expression has a value for each fact, so it is not true or false by itself",
            help="write `&`, `|` and `~` for and, or and not; or pass a Python function to where()",
        )

    __add__ = _operator("+", operator.add)
    __radd__ = _operator("+", operator.add, is_swapped=True)
    __sub__ = _operator("-", operator.sub)
    __rsub__ = _operator("-", operator.sub, is_swapped=True)
    __mul__ = _operator("*", operator.mul)
    __rmul__ = _operator("*", operator.mul, is_swapped=True)
    __truediv__ = _operator("/", operator.truediv)
    __rtruediv__ = _operator("/", operator.truediv, is_swapped=True)
    __floordiv__ = _operator("//", operator.floordiv)
    __mod__ = _operator("%", operator.mod)
    __lt__ = _operator("<", operator.lt)
    __le__ = _operator("<=", operator.le)
    __gt__ = _operator(">", operator.gt)
    __ge__ = _operator(">=", operator.ge)
    __and__ = _operator("&", operator.and_)
    __or__ = _operator("|", operator.or_)
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return self._compared("==", operator.eq, "equals", _equals, other)

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return self._compared("!=", operator.ne, "differs", _differs, other)

    def _compared(
        self,
        name: str,
        code: Callable[..., Any],
        of_lattices: str,
        lattice_code: Callable[..., Any],
        other: object,
    ) -> Expr:
        """Whether two values are equal; a plain value is compared with a lattice as one of it."""
        sides = (self.as_value(), lift(other))
        if any(map(_reads_lattice, sides)):
            name, code = of_lattices, lattice_code
        return self.watched(BloomOperation(name, code, sides))


class Expr(ValueOperators):
    """Something that has a value for each fact."""

    def node(self, scope: ColumnScope) -> Expression:
        """The same as a node of a program."""
        raise NotImplementedError

    def as_value(self) -> Expr:
        return self

    def method(self, name: str, *arguments: object) -> Expr:
        """A method of the value: `t.items.method("size")`."""
        return BloomOperation(
            name, operator.methodcaller, (self, *map(lift, arguments)), is_method=True
        )

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        """A function of a lattice: `self.votes.at("ann").size()`."""
        if name not in FUNCTIONS:
            raise AttributeError(f"an expression has no `{name}`")
        return lambda *given: self.method(name, *given)

    def __iter__(self) -> NoReturn:
        raise error("C050", "an expression is one value; flat_map() takes it apart")


class ConstantTerm(Expr):
    """A constant."""

    def __init__(self, value: object) -> None:
        self.value = freeze(value)

    def node(self, scope: ColumnScope) -> Expression:
        return Constant(self.value)


class ColumnOf(Expr):
    """A column of a collection or a stream."""

    def __init__(self, source: object, name: str) -> None:
        self.source = source
        self.name = name

    def node(self, scope: ColumnScope) -> Expression:
        return scope.column(self.source, self.name)


class Read(Expr):
    """The one value of a lattice, or of the clock."""

    def __init__(self, name: str, position: int = 0) -> None:
        self.name = name
        self.position = position

    def node(self, scope: ColumnScope) -> Expression:
        return scope.read(self.name, self.position)


def _reads_lattice(value: Expr) -> bool:
    if isinstance(value, BloomOperation):
        return any(map(_reads_lattice, value.arguments))
    return isinstance(value, Read)


def _equals(one: Any, other: Any) -> bool:
    if isinstance(one, Lattice) != isinstance(other, Lattice):
        one, other = (each.reveal() if isinstance(each, Lattice) else each for each in (one, other))
    return bool(freeze(one) == freeze(other))


def _differs(one: Any, other: Any) -> bool:
    return not _equals(one, other)


_ARITHMETIC: Final[dict[str, ArithmeticOperator]] = {"+": "+", "-": "-", "*": "*", "/": "/"}

COMPARED: Final[dict[str, ComparisonOperator]] = {
    "==": "=", "!=": "~=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip


class BloomOperation(Expr):
    """A function of the values of other expressions."""

    def __init__(
        self,
        name: str,
        code: Callable[..., Any],
        arguments: tuple[Expr, ...],
        *,
        is_method: bool = False,
    ) -> None:
        self.name = name
        self.arguments = arguments
        self.code = _method(name) if is_method else code
        self.is_read = False
        """Whether a rule reads it; an operation on a lattice that none reads is a mistake."""

    def node(self, scope: ColumnScope) -> Expression:
        self.is_read = True
        nodes = tuple(argument.node(scope) for argument in self.arguments)
        if self.name in _ARITHMETIC and len(nodes) == 2:
            return Arithmetic(_ARITHMETIC[self.name], *nodes)
        if self.name == "-" and len(nodes) == 1:
            return Negative(nodes[0])
        return Function(self.name, nodes, code=self.code)


def _method(name: str) -> Callable[..., Any]:
    if name == "merge":
        return lambda value, other: value.merge(type(value).of(other))

    def call(value: Any, *arguments: Any) -> Any:
        return getattr(value, name)(*arguments)

    return call


class Presence(Expr):
    """Whether a collection has a fact of some values, or any at all if there are none; for where().

    `width` is how many values make a key, which may be asked for alone.
    """

    def __init__(
        self, source: Any, values: tuple[object, ...], *, width: int = 0, is_absent: bool = False
    ) -> None:
        self.source = source
        self.values = values
        self.width = width
        self.is_absent = is_absent

    def __invert__(self) -> Presence:
        return Presence(self.source, self.values, width=self.width, is_absent=not self.is_absent)

    def node(self, scope: ColumnScope) -> NoReturn:
        raise error(
            "C050",
            "this test for facts of a collection belongs in where()",
            help="`&` and `~` go with it; for `|`, write two rules",
        )


def lift(value: object) -> Expr:
    """A value, or an expression as it is; one that stands in a dict, list or tuple too."""
    if isinstance(value, Expr):
        return value
    as_value = getattr(value, "as_value", None)
    if as_value is not None:
        return as_value()
    if isinstance(value, Mapping) and _has_expression(cast("Mapping[Any, Any]", value).values()):
        pairs = cast("Mapping[Any, Any]", value)
        keys = tuple(pairs)
        parts = tuple(map(lift, pairs.values()))
        return BloomOperation("dict", lambda *made: dict(zip(keys, made, strict=True)), parts)
    if isinstance(value, list | tuple) and _has_expression(cast("tuple[Any, ...]", value)):
        items = tuple(map(lift, cast("tuple[Any, ...]", value)))
        return BloomOperation("tuple", lambda *made: made, items)
    return ConstantTerm(value)


def _has_expression(values: Any) -> bool:
    return any(not isinstance(lift(value), ConstantTerm) for value in values)


def fn(code: Callable[..., Any], name: str | None = None) -> Callable[..., Expr]:
    """A Python function of expressions, opaque to the compiler.

    `bloom.fn(str.upper)(users.name)`. It must give the same for the same values: it is called once
    for each distinct input, and again when that was forgotten.
    """
    called = name or getattr(code, "__name__", "function")

    def call(*arguments: object) -> Expr:
        return BloomOperation(called, code, tuple(map(lift, arguments)))

    return call


def now() -> Expr:
    """The number of the tick, counted from 0."""
    return Read("clock", 0)


def wall_clock() -> Expr:
    """The seconds since 1970, the same throughout a tick."""
    return Read("clock", 1)


def const(value: object) -> Expr:
    """A constant, where a text alone would name a column."""
    return ConstantTerm(value)


def is_function(value: object) -> bool:
    """Whether a user's function stands where an expression could."""
    return callable(value) and not isinstance(value, Expr) and not hasattr(value, "query")


def row_type(columns: Iterable[str]) -> Callable[..., Any]:
    """What a function is given for a row: a tuple whose columns have names."""
    return namedtuple("Row", columns, rename=True)  # pyright: ignore[reportUntypedNamedTuple]


def as_row(made: Any) -> Any:
    """What a function gave for a row, as a fact; None for none at all."""
    if made is None:
        return None
    return freeze(tuple(made)) if isinstance(made, tuple | list) else (freeze(made),)


def several(made: Any) -> Any:
    """What a function gave for several rows."""
    return [] if made is None else [as_row(each) for each in made]


def items(value: Any) -> Any:
    """What a value holds, one by one."""
    return [] if value is None else list(value)


def takes_one(code: Callable[..., Any]) -> bool:
    """Whether a function wants one row, whatever is joined."""
    try:
        given = inspect.signature(code).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = [each.kind for each in given if each.default is each.empty]
    return len(kinds) == 1 and kinds[0] in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )


ColumnExpr = str | Expr
"""A column by its name, or an expression."""


@dataclass(frozen=True, slots=True, eq=False)
class Aggregation:
    """An aggregate of a group: its name, the columns it is of, and a fold of the user's own."""

    name: str
    columns: tuple[ColumnExpr, ...]
    label: str
    code: Callable[..., object] | None = None
    initial: object = None


def label(given: object) -> str | None:
    """What a column is called that is given by its name, or as a column of a collection."""
    return given if isinstance(given, str) else given.name if isinstance(given, ColumnOf) else None
