"""Numbers for values and tuples: the same key always gets the same id, counted from 0.

`Interner` numbers 64-bit keys, `Tuples` several columns of words. Ids are dense and in order of
first appearance, so an array indexed by id can hold what belongs to a key.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caladan.columns.kernels import hashing as kernels
from caladan.columns.layout import Counts, Keys, Words

ABSENT = kernels.ABSENT


class Interner:
    """Ids of 64-bit keys."""

    def __init__(self) -> None:
        self._slots: Words = np.zeros(64, np.uint32)
        self._keys: Keys = np.empty(32, np.uint64)
        self._known = 0

    def __len__(self) -> int:
        return self._known

    def copy(self) -> Interner:
        """The same ids, apart from now on."""
        other = Interner()
        other._slots, other._keys, other._known = self._slots.copy(), self._keys.copy(), len(self)
        return other

    @property
    def nbytes(self) -> int:
        return self._slots.nbytes + self._keys.nbytes

    @property
    def keys(self) -> Keys:
        return self._keys[: self._known]

    def ids(self, batch: Keys) -> tuple[Words, Counts]:
        """The id of each key, and the positions of those that were new, in order of their ids."""
        self._make_room(len(batch))
        ids: Words = np.empty(len(batch), np.uint32)
        fresh: Counts = np.empty(len(batch), np.int64)
        before = self._known
        self._known = kernels.intern(batch, self._slots, self._keys, before, ids, fresh)
        return ids, fresh[: self._known - before]

    def find(self, batch: Keys) -> Words:
        """The id of each key, ABSENT where it has none."""
        ids: Words = np.empty(len(batch), np.uint32)
        kernels.find(batch, self._slots, self._keys, ids)
        return ids

    def _make_room(self, more: int) -> None:
        most = self._known + more
        if most >= ABSENT:
            raise MemoryError("more than 4,294,967,294 different values in one column or relation")
        if most > len(self._keys):
            keys = np.empty(max(most, 2 * len(self._keys)), np.uint64)
            keys[: self._known] = self.keys
            self._keys = keys
        size = len(self._slots)
        while 2 * most > size:
            size *= 2
        if size > len(self._slots):
            self._slots = np.zeros(size, np.uint32)
            kernels.refill(self._keys, self._known, self._slots)


class Tuples:
    """Ids of tuples of words: pairs are numbered, then pairs of an id and the next word."""

    def __init__(self, arity: int) -> None:
        self._arity = arity
        self._layers = [Interner() for _ in range(max(arity - 1, 1))]

    def __len__(self) -> int:
        return len(self._layers[-1])

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self._layers)

    def columns(self) -> list[Words]:
        """The columns of all tuples, in the order of their ids."""
        keys = self._layers[-1].keys
        if self._arity < 2:
            return [keys.astype(np.uint32)][: self._arity]
        found: list[Words] = []
        for layer in reversed(self._layers[:-1]):
            found.append(keys.astype(np.uint32))
            keys = layer.keys[keys >> np.uint64(32)]
        first = (keys >> np.uint64(32)).astype(np.uint32)
        return [first, keys.astype(np.uint32), *reversed(found)]

    def ids(self, columns: Sequence[Words], rows: int) -> tuple[Words, Counts]:
        """The id of each row, and the positions of the rows that were new."""
        if len(columns) < 2:
            return self._layers[0].ids(_single(columns, rows))
        ids = columns[0]
        fresh: Counts = np.empty(0, np.int64)
        for layer, column in zip(self._layers, columns[1:], strict=True):
            ids, fresh = layer.ids(pairs(ids, column))
        return ids, fresh

    def find(self, columns: Sequence[Words], rows: int) -> Words:
        """The id of each row, ABSENT where it has none."""
        if len(columns) < 2:
            return self._layers[0].find(_single(columns, rows))
        ids = columns[0]
        for number, (layer, column) in enumerate(zip(self._layers, columns[1:], strict=True)):
            found = layer.find(pairs(ids, column))
            # An absent prefix must stay absent, whatever pair its mark happens to make.
            ids = np.where(ids == ABSENT, np.uint32(ABSENT), found) if number else found
        return ids


def pairs(left: Words, right: Words) -> Keys:
    """Two columns of words as one column of keys."""
    keys = left.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= right
    return keys


def _single(columns: Sequence[Words], rows: int) -> Keys:
    return columns[0].astype(np.uint64) if columns else np.zeros(rows, np.uint64)
