"""Exact sums of doubles, whatever their order: by their digits.

A double is a whole number of times a power of two. Written with the least power of all, the binary
digits of many doubles are added up 26 at a time, which is no more than an integer can hold for a
few billions of them; the sum is rounded once, at last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from caladan.columns.layout import Counts

Floats: TypeAlias = NDArray[np.float64]

_DIGITS: Final = 26
_LONG: Final = 53  # digits of a double


@dataclass(frozen=True, slots=True)
class Digits:
    """Doubles as sums of `parts`, the k-th of which counts in 2 ** (exponent + 26 * k)."""

    parts: Sequence[Counts]
    exponent: int

    def rounded(self, sums: Sequence[Counts]) -> list[float]:
        """The doubles nearest to some sums, given by part."""
        total = sums[0].astype(object)
        for k, each in enumerate(sums[1:], 1):
            total += each.astype(object) << (k * _DIGITS)
        if self.exponent >= 0:
            return [float(each << self.exponent) for each in total]
        return [each / (1 << -self.exponent) for each in total]


def digits(values: Floats) -> Digits | None:
    """The digits of doubles; None if some are no numbers, or very unlike in size."""
    if not np.isfinite(values).all():
        return None
    fractions, exponents = np.frexp(values)
    whole = np.abs(np.ldexp(fractions, _LONG)).astype(np.int64)
    least = int(exponents[whole > 0].min(initial=0))
    above = np.where(whole > 0, exponents - least, 0).astype(np.int64)
    length = _LONG + int(above.max(initial=0))
    if length > 8 * _DIGITS:
        return None
    parts: list[Counts] = []
    for first in range(0, length, _DIGITS):
        down = first - above  # where the part begins, from the last digit of a number on
        high = (whole >> np.clip(down, 0, 63)) & ((1 << _DIGITS) - 1)
        low = whole & ((1 << np.clip(_DIGITS + down, 0, _DIGITS)) - 1)
        part = np.where(down >= 0, high, low << np.clip(-down, 0, _DIGITS))
        parts.append(np.where(values < 0, -part, part))
    return Digits(parts, least - _LONG)
