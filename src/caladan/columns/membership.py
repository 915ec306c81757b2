"""What a relation has seen: a set of keys that tells new ones from known ones, without sorting.

A `Bitmap` has a bit for every possible key; a `WordSet` hashes words of 64 keys. Both take a batch
in any order and give back the keys that were new, each once. One thread at a time may add; others
may ask meanwhile what is unknown, which throws out most of a batch without waiting for their turn.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from caladan.columns.kernels import sorted as bitmap_kernels
from caladan.columns.layout import Counts, Keys, Mask


class KeySet(Protocol):
    """A set of keys."""

    @property
    def nbytes(self) -> int:
        """The bytes it takes."""
        ...

    def unseen(self, keys: Keys) -> Keys:
        """The keys that are new, each once; now they are known. The array is overwritten."""
        ...

    def unknown(self, keys: Keys) -> Keys:
        """The keys that are new, or were a moment ago. The array is overwritten."""
        ...


class Bitmap:
    """A bit for every key of so many bits."""

    def __init__(self, bits: int) -> None:
        self.words: Keys = np.zeros(max(1, (1 << bits) >> 6), np.uint64)

    @property
    def nbytes(self) -> int:
        return self.words.nbytes

    def unseen(self, keys: Keys) -> Keys:
        return keys[: bitmap_kernels.unseen(keys, self.words, keys)]

    def unknown(self, keys: Keys) -> Keys:
        return keys[: bitmap_kernels.unknown(keys, self.words, keys)]


class WordSet:
    """A hash table of words of 64 keys, at most five eighths full."""

    def __init__(self) -> None:
        self._table: Keys = np.zeros(1 << 12, np.uint64)
        self._done: Counts = np.zeros(2, np.int64)  # keys written, words used

    @property
    def nbytes(self) -> int:
        return self._table.nbytes

    def unseen(self, keys: Keys) -> Keys:
        from caladan.columns.kernels.wordset import refill_words, unseen_words

        self._done[0] = 0
        at = 0
        while at < len(keys):
            room = len(self._table) // 2 * 5 // 8 - int(self._done[1])
            if room <= 0:
                larger: Keys = np.zeros(2 * len(self._table), np.uint64)
                refill_words(self._table, larger)
                self._table = larger
                continue
            at = unseen_words(keys, at, self._table, room, self._done, keys)
        return keys[: self._done[0]]

    def unknown(self, keys: Keys) -> Keys:
        from caladan.columns.kernels.wordset import unknown_words

        return keys[: unknown_words(keys, self._table, keys)]

    def mark(self, keys: Keys, marks: Mask) -> None:
        """Set the marks of the keys that are in the set."""
        from caladan.columns.kernels.wordset import mark_words

        mark_words(keys, self._table, marks)

    def drop(self, keys: Keys) -> None:
        """Take out keys that are in the set."""
        from caladan.columns.kernels.wordset import drop_words

        drop_words(keys, self._table)
