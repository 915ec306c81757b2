"""Widths of chunks: they grow as the search goes on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Ramp:
    """How many candidates a chunk may hold: few at first, so that a first answer is cheap."""

    width: int
    factor: int
    most: int

    @staticmethod
    def constant(width: int) -> Ramp:
        """The same width all the time."""
        return Ramp(width, 1, width)

    def widen(self) -> None:
        """Another chunk was searched to its end."""
        self.width = min(self.width * self.factor, self.most)
