"""Which keys are facts: what a relation has seen, and what of it is deleted.

A `KeySet` tells new keys from known ones without sorting: a `Bitmap` has a bit for every possible
key, a `WordSet` hashes words of 64 keys. Both take a batch in any order and give back the keys that
were new, each once. One thread at a time may add; others may ask meanwhile what is unknown, which
throws out most of a batch without waiting for their turn.

`Deletions` are the keys in a packed relation's runs that are not its facts any more. Runs are
immutable, and rewriting one costs what it holds. So a deleted key stays where it is and is hidden
from whoever looks a fact up. Those that the change under way has taken away are *leaving*: readers
of `Version.EITHER` still see them, for rules have to find what was derived from them. Once the
change is done they join the others. When one key of a few is hidden, runs are rewritten without
them (`PackedRelation.settle`), so a deletion costs a constant on average.

`stamps` numbers batches of facts in the order in which they were derived, for all relations of this
process: a fact comes from facts with smaller numbers, which tells a derivation that stands on its
own from one that runs in a circle.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from caladan.columns.kernels import sorted as kernels
from caladan.columns.layout import Counts, Keys, Mask, Words


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
        return keys[: kernels.take_unseen(keys, self.words, keys)]

    def unknown(self, keys: Keys) -> Keys:
        return keys[: kernels.unknown(keys, self.words, keys)]


class WordSet:
    """A hash table of words of 64 keys, at most five eighths full."""

    def __init__(self) -> None:
        self._table: Keys = np.zeros(1 << 12, np.uint64)
        self._done: Counts = np.zeros(2, np.int64)  # keys written, words used

    @property
    def nbytes(self) -> int:
        return self._table.nbytes

    def unseen(self, keys: Keys) -> Keys:
        from caladan.columns.kernels.hashing import refill_words, unseen_words

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
        from caladan.columns.kernels.hashing import unknown_words

        return keys[: unknown_words(keys, self._table, keys)]

    def mark(self, keys: Keys, marks: Mask) -> None:
        """Set the marks of the keys that are in the set."""
        from caladan.columns.kernels.hashing import mark_words

        mark_words(keys, self._table, marks)

    def drop(self, keys: Keys) -> None:
        """Take out keys that are in the set."""
        from caladan.columns.kernels.hashing import drop_words

        drop_words(keys, self._table)


NO_KEYS: Keys = np.empty(0, np.uint64)

LAST: Final = (1 << 32) - 1


class Stamps:
    """Numbers in ascending order; once they are used up the last one, which proves nothing."""

    def __init__(self) -> None:
        self._next = 1

    def take(self, numbers: int = 1) -> int:
        """The first of so many."""
        first = self._next
        if first + numbers > LAST:
            return LAST
        self._next += numbers
        return first


stamps = Stamps()


class Deletions:
    """Keys of the base packing that are hidden."""

    def __init__(self) -> None:
        self._before = WordSet()  # by changes that are done
        self._before_count = 0
        self.leaving: Keys = NO_KEYS  # sorted

    def __len__(self) -> int:
        return self._before_count + len(self.leaving)

    @property
    def nbytes(self) -> int:
        return self._before.nbytes + self.leaving.nbytes

    def hidden(self, keys: Keys, *, either: bool = False) -> Mask:
        """Which keys are no facts; with `either`, which were none before the change either."""
        marks: Mask = np.zeros(len(keys), np.bool_)
        if self._before_count:
            self._before.mark(keys, marks)
        if not either and len(self.leaving):
            marks |= among(keys, self.leaving)
        return marks

    def hide(self, keys: Keys) -> None:
        """Keys that are leaving, none of them hidden; sorted."""
        if not len(self.leaving):
            self.leaving = keys
            return
        out: Keys = np.empty(len(self.leaving) + len(keys), np.uint64)
        self.leaving = out[: kernels.merge(self.leaving, keys, out)]

    def show(self, keys: Keys) -> Keys:
        """Keys that were hidden are facts again; those that were none when the change began."""
        leaving = among(keys, self.leaving)
        if leaving.any():
            self.leaving = self.leaving[~among(self.leaving, keys)]
            keys = keys[~leaving]
        if len(keys):
            self._before.drop(keys)
            self._before_count -= len(keys)
        return keys

    def settle(self) -> None:
        if len(self.leaving):
            self._before_count += len(self.leaving)
            self._before.unseen(self.leaving.copy())
            self.leaving = NO_KEYS


def among(keys: Keys | Words, some: Keys | Words) -> Mask:
    """Which keys are among some that are sorted."""
    if not len(some):
        return np.zeros(len(keys), np.bool_)
    at = np.searchsorted(some, keys)
    at[at == len(some)] = 0
    return some[at] == keys
