"""Dictionaries: values of any kind that can be hashed, by number, in order of appearance.

Texts, decimals, bytes and other Python values are known to the search by these numbers. Values that
are equal are one value, as in a Python dict. Numbers are never taken back, so what was encoded with
them stays good when more values come.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, cast

import numpy as np
import pyarrow as pa

from caladan.search.frontier import Words


class Dictionary:
    """Values by number."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._values: list[Hashable] = []

    def number(self, value: object) -> int:
        """The number of a value, which may be new; TypeError if it cannot be hashed."""
        known = cast("Hashable", value)
        number = self._numbers.setdefault(known, len(self._values))
        if number == len(self._values):
            self._values.append(known)
        return number

    def numbers(self, values: Iterable[object]) -> Words:
        """The number of each value."""
        return np.array([self.number(value) for value in values], np.int64)

    def arrow_numbers(self, column: pa.Array) -> Words:
        """The number of each value of an Arrow column."""
        encoded = column.dictionary_encode()
        places = self.numbers(encoded.dictionary.to_pylist())
        return places[encoded.indices.to_numpy()] if len(places) else places

    def values(self, numbers: Words) -> np.ndarray:
        """The values of numbers, as an array of objects."""
        known = np.empty(len(self._values), object)
        known[:] = self._values
        return known[numbers]

    def between(self, low: object, high: object) -> list[int]:
        """The numbers of the values from low to high."""
        below = cast("Any", low)
        return [n for n, v in enumerate(self._values) if below <= v and cast("Any", v) <= high]
