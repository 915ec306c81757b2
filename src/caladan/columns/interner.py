"""Numbers for values and tuples: the same key always gets the same id, counted from 0.

`Interner` numbers 64-bit keys, `Tuples` several columns of words. Ids are dense and in order of
first appearance, so an array indexed by id can hold what belongs to a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from caladan.columns.kernels import hashing as kernels
from caladan.columns.layout import Counts, Keys, Words

ABSENT = kernels.ABSENT
_WORD: Final = 32  # bits


class Interner:
    """Ids of 64-bit keys, `most` at most: ABSENT is the id of none."""

    def __init__(self, most: int = ABSENT) -> None:
        self._most = most
        self._slots: Words = np.zeros(64, np.uint32)
        self._keys: Keys = np.empty(32, np.uint64)
        self._known = 0

    def __len__(self) -> int:
        return self._known

    def copy(self) -> Interner:
        """The same ids, apart from now on."""
        other = Interner(self._most)
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
        if most > self._most:
            raise MemoryError(f"more than {self._most:,} different values in a column or relation")
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
    """Ids of tuples of words: as many columns as fit are a key, then an id and the next ones.

    Two columns always fit. Of more, the bits of each are as many as its words have needed; where
    they need more, all tuples are numbered again, as they were.
    """

    def __init__(self, arity: int) -> None:
        self._arity = arity
        self._pack([_WORD if arity <= 2 else 0] * arity)

    def __len__(self) -> int:
        return len(self._layers[-1])

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self._layers)

    def columns(self) -> list[Words]:
        """The columns of all tuples, in the order of their ids."""
        found: list[Words] = []
        keys = self._layers[-1].keys
        for number in reversed(range(len(self._layers))):
            for column in reversed(self._packs[number]):
                width = self._widths[column]
                found.append((keys & np.uint64((1 << width) - 1)).astype(np.uint32))
                keys = keys >> np.uint64(width)
            if number:
                keys = self._layers[number - 1].keys[keys]
        return found[::-1]

    def ids(self, columns: Sequence[Words], rows: int) -> tuple[Words, Counts]:
        """The id of each row, and the positions of the rows that were new."""
        needed = self._needed(columns)
        if any(bits > width for bits, width in zip(needed, self._widths, strict=True)):
            known, count = self.columns(), len(self)
            held = self._needed(known)
            self._pack([*map(max, needed, held)])
            self._numbered(known, count)
        return self._numbered(columns, rows)

    def find(self, columns: Sequence[Words], rows: int) -> Words:
        """The id of each row, ABSENT where it has none."""
        ids: Words | None = None
        for layer, pack in zip(self._layers, self._packs, strict=True):
            found = layer.find(self._keys(columns, pack, ids, rows))
            # An absent prefix must stay absent, whatever key its mark happens to make.
            ids = found if ids is None else np.where(ids == ABSENT, np.uint32(ABSENT), found)
        assert ids is not None
        for column, bits, width in zip(columns, self._needed(columns), self._widths, strict=True):
            if bits > width:
                ids = np.where(column >> np.uint32(width), np.uint32(ABSENT), ids)
        return ids

    def _numbered(self, columns: Sequence[Words], rows: int) -> tuple[Words, Counts]:
        ids: Words | None = None
        fresh: Counts = np.empty(0, np.int64)
        for layer, pack in zip(self._layers, self._packs, strict=True):
            ids, fresh = layer.ids(self._keys(columns, pack, ids, rows))
        assert ids is not None
        return ids, fresh

    def _pack(self, widths: list[int]) -> None:
        """Begin anew, with at least so many bits for each column; what is left is shared."""
        self._packs: list[range] = []
        first, room = 0, 2 * _WORD
        for column, width in enumerate([*widths, 2 * _WORD]):
            if width > room or column == self._arity:
                spare = room // max(column - first, 1)
                widths[first:column] = [min(w + spare, _WORD) for w in widths[first:column]]
                self._packs.append(range(first, column))
                first, room = column, _WORD
            room -= width
        self._widths = widths
        self._layers = [Interner() for _ in self._packs]

    def _needed(self, columns: Sequence[Words]) -> Sequence[int]:
        """The bits that columns need; for those that always fit nobody looks."""
        if self._arity <= 2:
            return self._widths
        return [int(column.max(initial=0)).bit_length() for column in columns]

    def _keys(self, columns: Sequence[Words], pack: range, ids: Words | None, rows: int) -> Keys:
        """An id, if there is one, and the words of some columns."""
        if ids is None and not pack:
            return np.zeros(rows, np.uint64)
        keys: Keys = (columns[pack[0]] if ids is None else ids).astype(np.uint64)
        for column in pack[ids is None :]:
            keys <<= np.uint64(self._widths[column])
            keys |= columns[column]
        return keys


def pairs(left: Words, right: Words) -> Keys:
    """Two columns of words as one column of keys."""
    keys = left.astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= right
    return keys
