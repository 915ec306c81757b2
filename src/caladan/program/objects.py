"""Objects: Python values of any type that can be hashed, by their number in a session.

A column of type `object` holds tuples, members of enums, frozen dataclasses, or values of several
types. A session numbers these values as it meets them, and everything inside it (Arrow columns,
words, engines) has the numbers alone; results turn them back into values.

Equality is Python's: values that are equal are one value, and the first of them that the session
met is the one that comes back. So 1, 1.0 and True are one value. So are all NaN, as they are among
doubles. Numbers are never taken back, so what was numbered stays good when more values come.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from typing import cast

from caladan.program.program import Column, Object, Type, Value
from caladan.program.values import Missing, fit, plain, quote_value


class Objects:
    """Values by number, in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._values: list[Hashable] = []
        self._mentioned: list[Hashable] = []

    @property
    def values(self) -> list[Hashable]:
        return self._values

    def number(self, value: object) -> int:
        """The number of a value, which may be new; TypeError if it cannot be hashed."""
        known = _one_nan(cast("Hashable", value))
        number = self._numbers.setdefault(known, len(self._values))
        if number == len(self._values):
            self._values.append(known)
        return number

    def given(self, value: object) -> int:
        """The number of a value from data; ValueError if it cannot have one."""
        try:
            number = self._numbers.get(cast("Hashable", value))
        except TypeError:
            number = None  # what is wrong with it is said below
        return self.number(_hashable(value)) if number is None else number

    def constant(self, value: object) -> Object:
        """A value that a program mentions; ValueError if it cannot be one."""
        if isinstance(value, Object):
            return value
        known = _hashable(value)
        self._mentioned.append(known)
        return Object(known, self.number)

    def settle(self) -> None:
        """Number what programs mention: after the data, which shows its own values."""
        for value in self._mentioned:
            self.number(value)
        self._mentioned.clear()

    def fit(self, value: object, type: Type) -> Value:
        """A constant as a value of a column type."""
        return self.constant(value) if type is Type.OBJECT else fit(value, type)

    def decoded(self, numbers: Iterable[int | None]) -> list[object]:
        return [None if number is None else self._values[number] for number in numbers]


def first_object(columns: Iterable[Column]) -> Column | None:
    """The first column of objects, if there is one."""
    return next((column for column in columns if column.type is Type.OBJECT), None)


def _hashable(value: object) -> Hashable:
    value = plain(value)
    if value is None:
        raise Missing
    try:
        hash(value)
    except TypeError as problem:
        raise ValueError(f"{quote_value(value)} cannot be hashed ({problem})") from None
    return _one_nan(cast("Hashable", value))


def _one_nan(value: Hashable) -> Hashable:
    return math.nan if isinstance(value, float) and math.isnan(value) else value
