"""Aggregates of groups, as rules name them and as they are kept from tick to tick.

A `Running` aggregate takes values in and, where it can, out again; where it cannot (the largest
value of a group leaves it), the group is gone through anew. `min`, `max` and `choose` look at
values, the others at facts: two facts with the same value count twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from caladan.language.bloom.lattices import frozen
from caladan.language.bloom.streams import Aggregation


def min(column: str) -> Aggregation:  # noqa: A001
    """The smallest value."""
    return Aggregation("min", (column,), column)


def max(column: str) -> Aggregation:  # noqa: A001
    """The largest value."""
    return Aggregation("max", (column,), column)


def sum(column: str) -> Aggregation:  # noqa: A001
    """The sum."""
    return Aggregation("sum", (column,), column)


def count(column: str | None = None) -> Aggregation:
    """How many facts."""
    return Aggregation("count", () if column is None else (column,), column or "count")


def avg(column: str) -> Aggregation:
    """The mean."""
    return Aggregation("avg", (column,), column)


def bool_and(column: str) -> Aggregation:
    """Whether all are true."""
    return Aggregation("bool_and", (column,), column)


def bool_or(column: str) -> Aggregation:
    """Whether one is true."""
    return Aggregation("bool_or", (column,), column)


def choose(column: str) -> Aggregation:
    """One of the values; which one is not said, but it is the same for the same facts."""
    return Aggregation("choose", (column,), column)


def accum(column: str) -> Aggregation:
    """The set of all values."""
    return Aggregation("accum", (column,), column)


def accum_pair(one: str, other: str) -> Aggregation:
    """The set of all pairs of values."""
    return Aggregation("accum_pair", (one, other), f"{one}_{other}")


class Running:
    """The state of an aggregate of one group; `value` is only asked for while it has facts."""

    __slots__ = ()

    def add(self, values: tuple[Any, ...]) -> None:
        """A fact more."""
        raise NotImplementedError

    def remove(self, values: tuple[Any, ...]) -> bool:
        """A fact less; False if only going through the group anew tells what is left."""
        raise NotImplementedError

    @property
    def value(self) -> Any:
        """The value of the facts so far."""
        raise NotImplementedError


class _Sum(Running):
    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total: Any = None

    def add(self, values: tuple[Any, ...]) -> None:
        value = values[0]
        self.total = value if self.total is None else self.total + value

    def remove(self, values: tuple[Any, ...]) -> bool:
        if isinstance(values[0], float) or isinstance(self.total, float):
            return False  # (a + b) - b need not be a
        self.total -= values[0]
        return True

    @property
    def value(self) -> Any:
        return self.total


class _Count(Running):
    __slots__ = ("facts",)

    def __init__(self) -> None:
        self.facts = 0

    def add(self, values: tuple[Any, ...]) -> None:
        self.facts += 1

    def remove(self, values: tuple[Any, ...]) -> bool:
        self.facts -= 1
        return True

    @property
    def value(self) -> Any:
        return self.facts


class _Mean(_Sum):
    __slots__ = ("facts",)

    def __init__(self) -> None:
        super().__init__()
        self.facts = 0

    def add(self, values: tuple[Any, ...]) -> None:
        super().add(values)
        self.facts += 1

    def remove(self, values: tuple[Any, ...]) -> bool:
        self.facts -= 1
        return super().remove(values)

    @property
    def value(self) -> Any:
        return self.total / self.facts


class _Best(Running):
    """The value that is better than all others by `is_better`."""

    __slots__ = ("best", "is_better")

    def __init__(self, is_better: Callable[[Any, Any], bool]) -> None:
        self.best: Any = None
        self.is_better = is_better

    def add(self, values: tuple[Any, ...]) -> None:
        if self.best is None or self.is_better(values[0], self.best):
            self.best = values[0]

    def remove(self, values: tuple[Any, ...]) -> bool:
        return values[0] != self.best

    @property
    def value(self) -> Any:
        return self.best


class _Tally(Running):
    """Values, each with how many facts have it."""

    __slots__ = ("counts", "read")

    def __init__(self, read: Callable[[dict[Any, int]], Any]) -> None:
        self.counts: dict[Any, int] = {}
        self.read = read

    def _key(self, values: tuple[Any, ...]) -> Any:
        return values[0] if len(values) == 1 else values

    def add(self, values: tuple[Any, ...]) -> None:
        key = self._key(values)
        self.counts[key] = self.counts.get(key, 0) + 1

    def remove(self, values: tuple[Any, ...]) -> bool:
        key = self._key(values)
        self.counts[key] -= 1
        if not self.counts[key]:
            del self.counts[key]
        return True

    @property
    def value(self) -> Any:
        return self.read(self.counts)


class Reduced(Running):
    """A fold of the user's own."""

    __slots__ = ("code", "so_far")

    def __init__(self, code: Callable[..., Any], initial: Any) -> None:
        self.code = code
        self.so_far = initial

    def add(self, values: tuple[Any, ...]) -> None:
        self.so_far = frozen(self.code(self.so_far, *values))

    def remove(self, values: tuple[Any, ...]) -> bool:
        return False

    @property
    def value(self) -> Any:
        return self.so_far


def ordered(value: Any) -> tuple[str, Any]:
    """A key that puts values of any types in one order."""
    if isinstance(value, bool | int | float):
        return ("", value)
    if isinstance(value, tuple):
        return ("tuple", tuple(map(ordered, value)))  # pyright: ignore[reportUnknownArgumentType]
    return (type(value).__name__, value if isinstance(value, str | bytes) else repr(value))


_MADE: Final[dict[str, Callable[[], Running]]] = {
    "min": lambda: _Best(lambda new, old: new < old),
    "max": lambda: _Best(lambda new, old: new > old),
    "sum": _Sum,
    "count": _Count,
    "countd": lambda: _Tally(len),
    "avg": _Mean,
    "bool_and": lambda: _Tally(all),
    "bool_or": lambda: _Tally(any),
    "choose": lambda: _Best(lambda new, old: ordered(new) < ordered(old)),
    "accum": lambda: _Tally(frozenset),
    "accum_pair": lambda: _Tally(frozenset),
}

FOLDS: Final = frozenset(_MADE)
"""The names of the aggregates that come along."""


def running(name: str, code: Callable[..., Any] | None, initial: Any) -> Running:
    """The state of an aggregate over nothing."""
    return _MADE[name]() if code is None else Reduced(code, initial)
