"""Weights: what each constraint of a variable would propose, row by row; it decides who does."""

from __future__ import annotations

import numpy as np

from caladan.search.constraint import Lists
from caladan.search.frontier import Counts, Rows


class Weights:
    """Counts, and lists if they are at hand, by the constraint's place among the variable's."""

    __slots__ = ("counts", "least", "lists")

    def __init__(self) -> None:
        self.counts: dict[int, Counts] = {}
        self.lists: dict[int, Lists] = {}
        self.least: Counts | None = None

    def add(self, place: int, counts: Counts, lists: Lists | None = None) -> None:
        """Note what one constraint has."""
        self.counts[place] = counts
        if lists is not None:
            self.lists[place] = lists
        self.least = counts if self.least is None else np.minimum(self.least, counts)

    def take(self, rows: Rows) -> Weights:
        """The weights of some rows."""
        taken = Weights()
        for place, counts in self.counts.items():
            lists = self.lists.get(place)
            taken.add(place, counts[rows], None if lists is None else lists.take(rows))
        return taken

    def proposers(self) -> list[tuple[int, Rows]]:
        """For each constraint the rows in which it has fewest candidates; in ties the first."""
        found: list[tuple[int, Rows]] = []
        if self.least is None:
            return found
        undecided = np.ones(len(self.least), np.bool_)
        for place, counts in self.counts.items():
            mine = undecided & (counts == self.least)
            undecided &= ~mine
            if mine.any():
                found.append((place, np.flatnonzero(mine)))
        return found
