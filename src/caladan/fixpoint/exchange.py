"""The exchange: how the peers that evaluate a clique go from one round to the next.

A peer has its share of a clique: it evaluates rules over what is new there, and takes in what it
owns of what all have derived. `Exchange.round` is the step in between, and the only place where it
matters how many peers there are. With one (`Alone`) nothing travels: what rules derive is already
where it belongs, and its heads sort out what is new. Tasks on Spark have connections to each other
(engines/spark/mesh/exchange.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from caladan.program.diagnostics import Diagnostic
from caladan.rules.support import Growth, Sign

RoundWork: TypeAlias = Callable[[], "int | None"]
"""Evaluates rules. How many rounds are done with that, None if it is one that is to be settled."""


@dataclass(frozen=True, slots=True)
class Tally:
    """What all peers know after a round: how many facts were new, and how many there are.

    `rounds` were done since the last tally; `sign` is what sums show.
    """

    new: int
    facts: int
    goes_on: bool
    rounds: int = 1
    sign: Sign = Sign.NOTHING


class Share(Protocol):
    """What a peer has of a clique."""

    growth: Growth

    def start(self) -> int | None:
        """Evaluate the exit rules."""
        ...

    def step(self) -> int | None:
        """Evaluate the delta rules over what is new."""
        ...

    def never_settling(self) -> Diagnostic | None:
        """C042 for a fact of this share whose sums change for ever, if it has one."""
        ...


class WholeShare(Share, Protocol):
    """All of a clique."""

    def settle(self) -> None:
        """Let what is new become old, and what was derived new."""
        ...

    def tally(self, rounds: int) -> Tally:
        """How this share stands after so many rounds."""
        ...


class Exchange(Protocol):
    """The peers of a clique, as one of them sees them."""

    peers: int
    """How many there are."""
    index: int
    """Which one this is."""
    lag: int
    """How many rounds later all know what was new in one."""

    def begin(self) -> int:
        """How many rounds are done already."""
        ...

    def round(self, work: RoundWork) -> Tally:
        """Do some work, hand around what comes of it, and take in what belongs here."""
        ...


class Alone:
    """The exchange of one peer. `done` rounds were done before."""

    peers, index, lag = 1, 0, 0

    def __init__(self, share: WholeShare, done: int = 0) -> None:
        self._share = share
        self._done = done

    def begin(self) -> int:
        """How many rounds are done already."""
        return self._done

    def round(self, work: RoundWork) -> Tally:
        """Do some work, and settle it."""
        rounds = work()
        if rounds is None:
            self._share.settle()
            rounds = 1
        return self._share.tally(rounds)
