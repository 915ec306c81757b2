"""Words of several relations side by side: the nodes of a graph that relations recurse in together.

Word w of the i-th place becomes node i × width + w. Behind the relations come the places between
the links of steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from caladan.columns.layout import Mask, Words
from caladan.engines.embedded.shapes.pairs import Declined, Pairs, extent, union
from caladan.engines.embedded.shapes.recognise import Step


@dataclass(frozen=True, slots=True)
class Places:
    """Where each relation's words begin."""

    names: tuple[str, ...]
    width: int

    @classmethod
    def of(
        cls,
        relations: tuple[str, ...],
        steps: Sequence[Step],
        columns: Sequence[Words],
    ) -> Places:
        """Places for relations and steps, wide enough for all words of some columns."""
        inner = (_inner(i, step) for i, step in enumerate(steps))
        return cls((*relations, *(name for names in inner for name in names)), extent(*columns))

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.names) * self.width

    def require(self) -> None:
        """Decline unless nodes can be numbered like words."""
        if self.size >= 1 << 31:
            raise Declined("its relations have too many values between them")

    def range(self, relation: str) -> tuple[int, int]:
        """The nodes of a relation."""
        begin = self.names.index(relation) * self.width
        return begin, begin + self.width

    def put(self, relation: str, words: Words) -> Words:
        """Words of a relation as nodes."""
        return words + np.uint32(self.range(relation)[0])

    def edges(self, steps: Sequence[Step], links: Sequence[Sequence[Pairs]]) -> Pairs:
        """The pairs of all links of some steps as edges between nodes."""
        parts: list[Pairs] = []
        for i, (step, pairs) in enumerate(zip(steps, links, strict=True)):
            stops = pairwise((step.source, *_inner(i, step), step.target))
            parts += [
                (self.put(begin, first), self.put(end, second))
                for (begin, end), (first, second) in zip(stops, pairs, strict=True)
            ]
        return union(parts)

    def marked(self, relation: str, marks: Mask) -> Words:
        """The words of a relation whose nodes are marked."""
        begin, end = self.range(relation)
        return np.flatnonzero(marks[begin:end]).astype(np.uint32)


def _inner(number: int, step: Step) -> list[str]:
    """Names for the places between the links of a step; no relation is called so."""
    return [f"{number}/{k}" for k in range(1, len(step.links))]
