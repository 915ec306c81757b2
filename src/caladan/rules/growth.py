"""Whether the sums of a recursion will ever settle: data with a cycle may make them grow for ever.

`Growth` counts the rounds that change sums while no new facts come. Up to the number of sums, all
is as it should be: sums along data without a cycle settle in so many rounds. After that, where the
rules and whole numbers allow it (rules/delta.py), the next change is the proof. Otherwise values
are looked at, and compared with those of a round some time ago:

    REPEATS   all values are as they were then: they will go round in the same way for ever
    RISES     nothing fell since, for more rounds than there are sums, and everything that rose then
              rises now, by no less: so it will, for amounts are linear in sums
    RISES     too, where some fall and rise again: all has changed in the same way twice over, for
              more rounds than there are sums, and nothing is less than it was one such time before;
              or something is, but amounts only add up, so that nothing can put an end to it

Neither is true of what comes to an end: damped cycles, whose differences shrink, go on until
doubles cannot tell the difference, and factors of 0 or cycles that cancel out settle at once. What
grows faster and faster ends as an overflow anyway.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntFlag
from math import isclose
from typing import Any, Final, TypeAlias

from caladan.rules.program import Totals

_CLOSE: Final = 1 - 1e-9  # differences of doubles are rounded


Values: TypeAlias = Mapping[Any, Any]
"""What aggregates have, by group and column; numbers where all are sums."""


class Sign(IntFlag):
    """What values show; where several tasks look, all of them have to show the same."""

    NOTHING = 0
    REPEATS = 1
    RISES = 2
    BOTH = 3


class Growth:
    """Watches the sums of a clique."""

    def __init__(self, totals: Totals | None, steps: int = 1) -> None:
        """A change takes so many rounds, `steps`, to get from one sum to the next, at most."""
        self._totals = totals
        self.steps = steps
        self._facts = -1
        self._rounds = 0
        self._forget()

    def _forget(self) -> None:
        self._last: Values | None = None
        self._then: tuple[Values, Values] = {}, {}
        self._rises: Mapping[Any, float] = {}
        self._at = 0
        self._fell = False
        self._period: tuple[int, Values] | None = None

    @property
    def rounds(self) -> int:
        """How many rounds changed sums while no new facts came."""
        return self._rounds

    def count(self, facts: int) -> None:
        """One more round that changed something, and how many facts there are now."""
        if facts != self._facts:
            self._facts, self._rounds = facts, 0
            self._forget()
        else:
            self._rounds += 1

    @property
    def _enough(self) -> int:
        """In how many rounds sums along data without a cycle settle."""
        assert self._totals is not None
        return self._facts * self._totals.width * self.steps

    @property
    def is_suspect(self) -> bool:
        """Whether there were more rounds than sums: then it is time to look at values."""
        return self._totals is not None and self._rounds > self._enough

    @property
    def is_sure(self) -> bool:
        """Whether there is no need to look."""
        return self.is_suspect and self._totals is not None and self._totals.is_exact

    def look(self, values: Values) -> Sign:
        """What the values of all aggregates show after a round, in a suspect run."""
        assert self._totals is not None
        last, self._last = self._last, values
        if last is None:
            return Sign.NOTHING
        rises: dict[Any, float] = {}
        if self._totals.is_linear:
            rises = {key: value - last.get(key, value) for key, value in values.items()}
        falls = any(rise < 0 for rise in rises.values())
        if self._rounds >= 2 * self._at:
            self._at, self._then, self._rises = self._rounds, (last, values), rises
            self._fell, self._period = falls, None
            return Sign.NOTHING
        self._fell |= falls
        # What is on its way between tasks was there a round before.
        sign = Sign.REPEATS if (last, values) == self._then else Sign.NOTHING
        if self._totals.is_linear:
            grows = (
                self._rises_again(values, rises) if self._fell else self._rises_by_no_less(rises)
            )
            sign |= Sign.RISES if grows and self._rounds - self._at > self._enough else Sign.NOTHING
        return sign

    def _rises_by_no_less(self, rises: Mapping[Any, float]) -> bool:
        return all(rises[key] >= rise * _CLOSE for key, rise in self._rises.items())

    def _rises_again(self, values: Values, rises: Mapping[Any, float]) -> bool:
        """Whether a second time has passed in which all changed as in the first, upwards."""
        after = self._rounds - self._at
        if self._period is None:
            if after and _alike(rises, self._rises):
                self._period = after, values
            return False
        length, middle = self._period
        if after < 2 * length:
            return False
        once = {key: value - self._then[1][key] for key, value in middle.items()}
        again = {key: value - middle[key] for key, value in values.items()}
        assert self._totals is not None
        may_end = not self._totals.is_plain and any(rise < 0 for rise in once.values())
        if after == 2 * length and _alike(once, again) and not may_end:
            return True
        self._period = None
        return False


def _alike(one: Mapping[Any, float], other: Mapping[Any, float]) -> bool:
    return all(isclose(rise, other[key], rel_tol=1 - _CLOSE) for key, rise in one.items())
