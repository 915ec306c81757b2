"""Aggregates of groups, as rules name them and as they are kept from tick to tick.

A `FoldState` aggregate takes values in and, where it can, out again; where it cannot (the largest
value of a group leaves it), the group is gone through anew. `min`, `max` and `choose` look at
values, the others at facts: two facts with the same value count twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from caladan.language.bloom.expressions import Aggregation, ColumnExpr, label
from caladan.language.bloom.values import freeze, order_key
from caladan.program.aggregates import AggregateFunction, evaluate, lookup


def min(column: ColumnExpr) -> Aggregation:  # noqa: A001
    """The smallest value."""
    return _of("min", column)


def max(column: ColumnExpr) -> Aggregation:  # noqa: A001
    """The largest value."""
    return _of("max", column)


def sum(column: ColumnExpr) -> Aggregation:  # noqa: A001
    """The sum."""
    return _of("sum", column)


def count(column: ColumnExpr | None = None) -> Aggregation:
    """How many facts."""
    return Aggregation("count", (), "count") if column is None else _of("count", column)


def avg(column: ColumnExpr) -> Aggregation:
    """The mean."""
    return _of("avg", column)


def bool_and(column: ColumnExpr) -> Aggregation:
    """Whether all are true."""
    return _of("bool_and", column)


def bool_or(column: ColumnExpr) -> Aggregation:
    """Whether one is true."""
    return _of("bool_or", column)


def choose(column: ColumnExpr) -> Aggregation:
    """One of the values; which one is not said, but it is the same for the same facts."""
    return _of("choose", column)


def accum(column: ColumnExpr) -> Aggregation:
    """The set of all values."""
    return _of("accum", column)


def accum_pair(one: ColumnExpr, other: ColumnExpr) -> Aggregation:
    """The set of all pairs of values."""
    return _of("accum_pair", one, other)


def _of(name: str, *columns: ColumnExpr) -> Aggregation:
    """An aggregate, called as its columns are."""
    names = [label(column) for column in columns]
    return Aggregation(name, columns, "_".join(each for each in names if each) or name)


class FoldState:
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


class _Sum(FoldState):
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


class _Count(FoldState):
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


class _Best(FoldState):
    """The value that `combine` keeps of all."""

    __slots__ = ("best", "combine")

    def __init__(self, combine: Callable[[Any, Any], Any]) -> None:
        self.best: Any = None
        self.combine = combine

    def add(self, values: tuple[Any, ...]) -> None:
        self.best = values[0] if self.best is None else self.combine(self.best, values[0])

    def remove(self, values: tuple[Any, ...]) -> bool:
        return values[0] != self.best

    @property
    def value(self) -> Any:
        return self.best


class _Tally(FoldState):
    """Values, each with how many facts have it; the row makes its value of all of them."""

    __slots__ = ("counts", "row")

    def __init__(self, row: AggregateFunction) -> None:
        self.counts: dict[tuple[Any, ...], int] = {}
        self.row = row

    def add(self, values: tuple[Any, ...]) -> None:
        self.counts[values] = self.counts.get(values, 0) + 1

    def remove(self, values: tuple[Any, ...]) -> bool:
        self.counts[values] -= 1
        if not self.counts[values]:
            del self.counts[values]
        return True

    @property
    def value(self) -> Any:
        if self.row.is_idempotent:
            return evaluate(self.row, list(self.counts))
        return evaluate(self.row, [each for each, n in self.counts.items() for _ in range(n)])


class UserFold(FoldState):
    """A fold of the user's own."""

    __slots__ = ("code", "so_far")

    def __init__(self, code: Callable[..., Any], initial: Any) -> None:
        self.code = code
        self.so_far = initial

    def add(self, values: tuple[Any, ...]) -> None:
        self.so_far = freeze(self.code(self.so_far, *values))

    def remove(self, values: tuple[Any, ...]) -> bool:
        return False

    @property
    def value(self) -> Any:
        return self.so_far


class DictFold:
    """A fold of the user's own over a dict, which its function changes or makes anew."""

    def __init__(self, code: Callable[[dict[Any, Any], tuple[Any, ...]], Any]) -> None:
        self.code = code

    def __call__(self, so_far: dict[Any, Any], *values: Any) -> dict[Any, Any]:
        made = self.code(so_far, values)
        if made is None:
            return so_far  # changed in place
        if not isinstance(made, dict):
            raise TypeError(f"a fold over a dict gives a dict, not {made!r}")
        return made  # pyright: ignore[reportUnknownVariableType]


class _DictState(FoldState):
    """A dict of the user's fold; its pairs are the value."""

    __slots__ = ("code", "so_far")

    def __init__(self, code: DictFold, initial: Any) -> None:
        self.code = code
        self.so_far: dict[Any, Any] = dict(initial)

    def add(self, values: tuple[Any, ...]) -> None:
        self.so_far = self.code(self.so_far, *values)

    def remove(self, values: tuple[Any, ...]) -> bool:
        return False

    @property
    def value(self) -> Any:
        return freeze(self.so_far)


def _first_of_any(one: Any, other: Any) -> Any:
    """The first of two values of any types."""
    return other if order_key(other) < order_key(one) else one


def initial_state(name: str, code: Callable[..., Any] | None, initial: Any) -> FoldState:
    """The state of an aggregate over nothing."""
    if isinstance(code, DictFold):
        return _DictState(code, initial)
    if code is not None:
        return UserFold(code, initial)
    row = lookup(name)
    match row.kernel:
        case "total" if row.counts == "solutions":
            return _Count()
        case "total" if row.counts is None:
            return _Sum()
        case "mean":
            return _Mean()
        case "least" if row.takes == "anything":
            return _Best(_first_of_any)
        case "least" | "greatest" if row.over is None:
            return _Best(row.combine)
        case _:
            return _Tally(row)
