"""Dictionaries: values of any kind that can be hashed, by number, in order of appearance.

Texts, decimals, bytes and other Python values are known to the search by these numbers, as those of
columns of objects are to programs (see objects.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import numpy as np
import pyarrow as pa

from caladan.objects import Objects
from caladan.search.frontier import Words


class Dictionary(Objects):
    """Values by number."""

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
