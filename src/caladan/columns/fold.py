"""A fold: words in classes, from words to classes and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from caladan.columns.kernels.graph import adjacency
from caladan.columns.layout import Counts, Words

NONE: Final = np.uint32(0xFFFFFFFF)  # the class of a word that has none


@dataclass(frozen=True, slots=True)
class Fold:
    """Words in classes 0 … count - 1: `class_of` by word, `members[bounds[c]:…]` by class."""

    class_of: Words
    bounds: Counts
    members: Words

    @classmethod
    def of(cls, class_of: Words, count: int) -> Fold:
        """The fold that puts each word into the class given for it, `NONE` for no class."""
        words = np.flatnonzero(class_of != NONE).astype(np.uint32)
        bounds = np.zeros(count + 1, np.int64)
        members = np.empty(len(words), np.uint32)
        adjacency(class_of[words], words, bounds, members)
        return cls(class_of, bounds, members)

    @property
    def count(self) -> int:
        """How many classes."""
        return len(self.bounds) - 1

    @property
    def sizes(self) -> Counts:
        """How many words each class has."""
        return np.diff(self.bounds)

    @property
    def words(self) -> Words:
        """The words that have a class, ascending."""
        return np.flatnonzero(self.class_of != NONE).astype(np.uint32)

    @property
    def nbytes(self) -> int:
        """The bytes its arrays take."""
        return self.class_of.nbytes + self.bounds.nbytes + self.members.nbytes

    def part(self, begin: int, end: int) -> Fold:
        """The same classes for the words from `begin` to `end`, which are counted from 0."""
        return Fold.of(self.class_of[begin:end].copy(), self.count)

    def of_word(self, word: int) -> int | None:
        """The class of a word, if it has one."""
        if word >= len(self.class_of) or self.class_of[word] == NONE:
            return None
        return int(self.class_of[word])
