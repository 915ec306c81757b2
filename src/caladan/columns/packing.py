"""Packing: the words of a fact in one 64-bit key, in one column order.

The first column of the order takes the highest bits, so sorting keys sorts facts by that order,
and the facts that share their first columns are neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from caladan.columns.kernels import packs
from caladan.columns.layout import Keys, Words


def width_of(size: int) -> int:
    """The bits that hold the words 0 to size - 1."""
    return max(int(size) - 1, 1).bit_length()


@dataclass(frozen=True)
class Packing:
    """Where the columns of a fact stand: `widths` by column, `order` from the highest bits."""

    widths: tuple[int, ...]
    order: tuple[int, ...]
    shifts: tuple[int, ...] = field(init=False, repr=False)  # by column

    def __post_init__(self) -> None:
        shifts = [0] * len(self.widths)
        at = 0
        for column in reversed(self.order):
            shifts[column] = at
            at += self.widths[column]
        assert at <= 64, f"{at} bits do not fit into a key"
        object.__setattr__(self, "shifts", tuple(shifts))

    @property
    def arity(self) -> int:
        """How many columns."""
        return len(self.widths)

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """By column, the mask of its width."""
        return tuple((1 << width) - 1 for width in self.widths)

    @cached_property
    def leading_shift(self) -> int:
        """Where the first column of the order stands."""
        return self.shifts[self.order[0]] if self.order else 0

    def keys(self, columns: Sequence[Words], rows: int) -> Keys:
        """Facts as keys; every word must fit its width."""
        return packed(columns, self.shifts, rows)

    def column(self, keys: Keys, column: int) -> Words:
        """A column of keys."""
        out: Words = np.empty(len(keys), np.uint32)
        packs.unpack(keys, self.shifts[column], self.masks[column], out)
        return out

    def moved(self, keys: Keys, to: Packing) -> Keys:
        """The same facts in another packing; the keys are not sorted any more."""
        out: Keys = np.empty_like(keys)
        packs.repack(keys, self._shifts, self._masks, to._shifts, out)
        return out

    def prefix_shift(self, columns: int) -> int:
        """By how much to shift keys right so that only the first columns of the order remain."""
        return self.shifts[self.order[columns - 1]] if columns else 0

    def prefix_key(self, words: Sequence[Words | int], rows: int) -> tuple[Keys, int]:
        """A lookup key from the first columns of the order, and the first one's place in it."""
        shift = self.prefix_shift(len(words))
        shifts = [self.shifts[c] - shift for c in self.order[: len(words)]]
        return packed(words, shifts, rows), shifts[0] if shifts else 0

    @cached_property
    def _shifts(self) -> Any:
        return np.array(self.shifts, np.int64)

    @cached_property
    def _masks(self) -> Any:
        return np.array(self.masks, np.uint64)


def packed(columns: Sequence[Words | int], shifts: Sequence[int], rows: int) -> Keys:
    """Columns, or words that are the same in every row, side by side in keys."""
    constant = 0
    keys: Keys | None = None
    for words, shift in zip(columns, shifts, strict=True):
        if isinstance(words, np.ndarray):
            if keys is None:
                keys = np.empty(rows, np.uint64)
                packs.pack(keys, words, shift)
            else:
                packs.pack_into(keys, words, shift)
        else:
            constant |= int(words) << shift
    if keys is None:
        return np.full(rows, constant, np.uint64)
    if constant:
        keys |= np.uint64(constant)
    return keys
