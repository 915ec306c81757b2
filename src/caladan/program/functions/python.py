"""Python functions that rules call: rows of a session's own table.

Definition  a Python function under a name, as `Session.define` was given it
outcomes    what such a function gives for many inputs
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, cast
from weakref import WeakKeyDictionary

from caladan.program.functions.row import CallFailed
from caladan.program.program import Expression, Function, Type, Value
from caladan.program.values import Missing, fit

Vectorized = Literal["numpy", "arrow"]

RETURNED: Final = (
    Type.BYTE, Type.SHORT, Type.INTEGER, Type.LONG, Type.FLOAT, Type.DOUBLE, Type.STRING,
    Type.BOOLEAN, Type.DATE, Type.DATETIME,
)  # fmt: skip
"""What a Python function may give."""

_REMEMBERED: Final = 100_000  # inputs of one function
_LISTS: Final = 10_000  # inputs of one function that gives several rows
_LISTED: Final[
    WeakKeyDictionary[Callable[..., object], dict[tuple[Any, ...], Sequence[object]]]
] = WeakKeyDictionary()
_Known = dict[tuple[Any, ...], dict[tuple[Any, ...], Value]]
"""By what a function gives and the types of its inputs, what it gave for which of these."""
_MEMORY: Final[WeakKeyDictionary[Callable[..., object], _Known]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Definition:
    """A Python function under the name by which rules call it."""

    name: str
    code: Callable[..., object]
    returns: Type
    vectorized: Vectorized | None = None
    each: bool = False

    @property
    def rows(self) -> tuple[Function, Function] | None:
        """If it gives several rows, how many, and the one at a place."""
        if not self.each:
            return None
        size, item = _Size(self.code), _Item(self.code)
        return (
            Function(self.name, (), code=size, returns=Type.LONG),
            Function(self.name, (), code=item, returns=self.returns),
        )

    def complaint(self, count: int) -> str | None:
        """What is wrong with a call of it with so many values; of some builtins nobody knows."""
        try:
            inspect.signature(self.code).bind(*range(count))
        except TypeError:
            return f"does not take {count} values"
        except ValueError:
            return None
        return None

    def called(self, arguments: tuple[Expression, ...]) -> Function:
        """A call of it."""
        return Function(
            self.name, arguments, code=self.code, returns=self.returns, vectorized=self.vectorized
        )


class _Size:
    """How many rows a function gives; the lists of rows are remembered for `_Item`."""

    def __init__(self, code: Callable[..., object]) -> None:
        self.code = code

    def rows(self, arguments: tuple[Any, ...]) -> Sequence[object]:
        key = (*arguments, *map(type, arguments))
        known = _cache_lists(self.code)
        if key not in known:
            if len(known) >= _LISTS:
                known.clear()
            given = self.code(*arguments)
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise TypeError(f"it gave {type(given).__name__} where several rows are wanted")
            known[key] = list(cast("Iterable[object]", given))
        return known[key]

    def __call__(self, *arguments: Any) -> int:
        return len(self.rows(arguments))


class _Item(_Size):
    """The row at a place."""

    def __call__(self, *arguments: Any) -> Any:
        return self.rows(arguments[:-1])[arguments[-1]]


def _cache_lists(code: Callable[..., object]) -> dict[tuple[Any, ...], Sequence[object]]:
    try:
        return _LISTED.setdefault(code, {})
    except TypeError:  # a builtin, which cannot be referred to weakly
        return {}


def outcomes(function: Function, columns: Sequence[Sequence[Any]], count: int) -> list[Value]:
    """What a Python function gives for each of so many rows of arguments.

    One for single values is called once for each distinct input, as long as it remembers.
    """
    if function.vectorized is not None:
        return _whole(function, columns, count)
    rows = list(zip(*columns, strict=True)) if columns else [()] * count
    # 1, 1.0 and True are one key of a dictionary, and not one input.
    kinds = [{*map(type, column)} for column in columns]
    if any(len(kind) > 1 for kind in kinds):
        return [outcomes(function, [(value,) for value in row], 1)[0] for row in rows]
    known = _remember(function.code).setdefault((function.returns, *map(frozenset, kinds)), {})
    for row in dict.fromkeys(rows):
        if row not in known:
            known[row] = _one(function, row)
    made = list(map(known.__getitem__, rows))
    if len(known) > _REMEMBERED:
        known.clear()
    return made


def _remember(code: Callable[..., object]) -> _Known:
    try:
        return _MEMORY.setdefault(code, {})
    except TypeError:  # a builtin, which cannot be referred to weakly
        return {}


def _one(function: Function, row: tuple[Any, ...]) -> Value:
    try:
        value = function.code(*row)
    except CallFailed:
        raise
    except Exception as problem:
        raise _describe_failure(function, problem) from problem
    return _fit_value(function, value)


def _whole(function: Function, columns: Sequence[Sequence[Any]], count: int) -> list[Value]:
    import numpy as np
    import pyarrow as pa

    given = [
        pa.array(column) if function.vectorized == "arrow" else np.array(column)
        for column in columns
    ]
    try:
        made = function.code(*given)
        listed = cast("Any", made).tolist()
    except Exception as problem:
        raise _describe_failure(function, problem) from problem
    if not isinstance(listed, list) or len(cast("list[object]", listed)) != count:
        raise CallFailed(function.function, f"it must give {count} values for {count} rows")
    return [_fit_value(function, value) for value in cast("list[object]", listed)]


def _fit_value(function: Function, value: object) -> Value:
    try:
        return fit(value, function.returns)
    except Missing:
        raise CallFailed(
            function.function, f"it gave None where {function.returns} is wanted"
        ) from None
    except ValueError as problem:
        raise CallFailed(function.function, f"it gave {problem}") from None


def _describe_failure(function: Function, problem: Exception) -> CallFailed:
    said = str(problem).partition("\n")[0]
    return CallFailed(function.function, f"{type(problem).__name__}: {said}".rstrip(": "))
