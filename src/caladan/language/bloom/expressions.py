"""Expressions over the columns of collections, built with Python's operators.

    kvs.put.value + 1          arithmetic, comparisons, & | ~
    bloom.fn(round)(t.cost)    a Python function: opaque, called once for each distinct input
    bloom.now()                the number of the tick; wall_clock() the time, frozen for the tick
    self.counter > 12          a lattice read as a value

An expression becomes a node of the Program when a stream takes it in: the stream knows which
variable a column is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, Protocol, cast

from caladan.language.bloom.lattices import LATTICES
from caladan.language.bloom.values import frozen
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


class ValueOperators:
    """What Python's operators make of something that has a value: an expression, or a lattice."""

    def as_value(self) -> Expr:
        """The value as an expression."""
        raise NotImplementedError

    def __add__(self, other: object) -> Expr:
        return Operation("+", operator.add, (self.as_value(), lift(other)))

    def __radd__(self, other: object) -> Expr:
        return Operation("+", operator.add, (lift(other), self.as_value()))

    def __sub__(self, other: object) -> Expr:
        return Operation("-", operator.sub, (self.as_value(), lift(other)))

    def __rsub__(self, other: object) -> Expr:
        return Operation("-", operator.sub, (lift(other), self.as_value()))

    def __mul__(self, other: object) -> Expr:
        return Operation("*", operator.mul, (self.as_value(), lift(other)))

    def __rmul__(self, other: object) -> Expr:
        return Operation("*", operator.mul, (lift(other), self.as_value()))

    def __truediv__(self, other: object) -> Expr:
        return Operation("/", operator.truediv, (self.as_value(), lift(other)))

    def __rtruediv__(self, other: object) -> Expr:
        return Operation("/", operator.truediv, (lift(other), self.as_value()))

    def __floordiv__(self, other: object) -> Expr:
        return Operation("//", operator.floordiv, (self.as_value(), lift(other)))

    def __mod__(self, other: object) -> Expr:
        return Operation("%", operator.mod, (self.as_value(), lift(other)))

    def __neg__(self) -> Expr:
        return Operation("-", operator.neg, (self.as_value(),))

    def __lt__(self, other: object) -> Expr:
        return Operation("<", operator.lt, (self.as_value(), lift(other)))

    def __le__(self, other: object) -> Expr:
        return Operation("<=", operator.le, (self.as_value(), lift(other)))

    def __gt__(self, other: object) -> Expr:
        return Operation(">", operator.gt, (self.as_value(), lift(other)))

    def __ge__(self, other: object) -> Expr:
        return Operation(">=", operator.ge, (self.as_value(), lift(other)))

    def __and__(self, other: object) -> Expr:
        return Operation("&", operator.and_, (self.as_value(), lift(other)))

    def __or__(self, other: object) -> Expr:
        return Operation("|", operator.or_, (self.as_value(), lift(other)))


class Expr(ValueOperators):
    """Something that has a value for each fact."""

    def node(self, scope: ColumnScope) -> Expression:
        """The same as a node of a program."""
        raise NotImplementedError

    def as_value(self) -> Expr:
        return self

    def method(self, name: str, *arguments: object) -> Expr:
        """A method of the value: `t.items.method("size")`."""
        return Operation(name, operator.methodcaller, (self, *map(lift, arguments)), is_method=True)

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        """A function of a lattice: `self.votes.at("ann").size()`."""
        if name not in FUNCTIONS:
            raise AttributeError(f"an expression has no `{name}`")
        return lambda *given: self.method(name, *given)

    def __eq__(self, other: object) -> Expr:  # type: ignore[override]
        return Operation("==", operator.eq, (self, lift(other)))

    def __ne__(self, other: object) -> Expr:  # type: ignore[override]
        return Operation("!=", operator.ne, (self, lift(other)))

    def __invert__(self) -> Expr:
        return Operation("not", operator.not_, (self,))

    __hash__ = object.__hash__

    def __bool__(self) -> NoReturn:
        raise error(
            "C050",
            "an expression has a value for each fact, so it is not true or false by itself",
            help="write `&`, `|` and `~` for and, or and not; or hand a Python function to where()",
        )

    def __iter__(self) -> NoReturn:
        raise error("C050", "an expression is one value; flat_map() takes it apart")


class Value(Expr):
    """A constant."""

    def __init__(self, value: object) -> None:
        self.value = frozen(value)

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


_ARITHMETIC: Final[dict[str, ArithmeticOperator]] = {"+": "+", "-": "-", "*": "*", "/": "/"}

COMPARED: Final[dict[str, ComparisonOperator]] = {
    "==": "=", "!=": "~=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip


class Operation(Expr):
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

    def node(self, scope: ColumnScope) -> Expression:
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
            "whether a collection has a fact is asked in where()",
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
        return Operation("dict", lambda *made: dict(zip(keys, made, strict=True)), parts)
    if isinstance(value, list | tuple) and _has_expression(cast("tuple[Any, ...]", value)):
        items = tuple(map(lift, cast("tuple[Any, ...]", value)))
        return Operation("tuple", lambda *made: made, items)
    return Value(value)


def _has_expression(values: Any) -> bool:
    return any(not isinstance(lift(value), Value) for value in values)


def fn(code: Callable[..., Any], name: str | None = None) -> Callable[..., Expr]:
    """A Python function of expressions, opaque to the compiler.

    `bloom.fn(str.upper)(users.name)`. It must give the same for the same values: it is called once
    for each distinct input, and again when that was forgotten.
    """
    called = name or getattr(code, "__name__", "function")

    def call(*arguments: object) -> Expr:
        return Operation(called, code, tuple(map(lift, arguments)))

    return call


def now() -> Expr:
    """The number of the tick, counted from 0."""
    return Read("clock", 0)


def wall_clock() -> Expr:
    """The seconds since 1970, the same throughout a tick."""
    return Read("clock", 1)


def const(value: object) -> Expr:
    """A constant, where a text alone would name a column."""
    return Value(value)
