"""What reaches an instance from outside of it: other instances of the process, and timers.

A `Network` delivers what is sent to an address, on the caller's thread, into the inbox of whoever
joined under it. What is sent to nobody is lost, as it may be on any network.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakValueDictionary

from caladan.program.diagnostics import error


class Receiver(Protocol):
    """Who can be sent facts."""

    def deliver(self, name: str, fact: tuple[Any, ...]) -> None: ...


class Network:
    """Instances of one process, by address."""

    def __init__(self) -> None:
        # Whoever forgets an instance need not stop it first.
        self._receivers: WeakValueDictionary[str, Receiver] = WeakValueDictionary()
        self._numbers = itertools.count(1)
        self._mutex = threading.Lock()

    def free(self, address: str | None = None) -> str:
        """An address that nobody has: this one, or one that is made up."""
        with self._mutex:
            if address is None:
                numbered = (f"local:{n}" for n in self._numbers)
                return next(each for each in numbered if each not in self._receivers)
            self._check(address)
            return address

    def join(self, receiver: Receiver, address: str) -> None:
        """Take part, under an address that nobody has."""
        with self._mutex:
            self._check(address)
            self._receivers[address] = receiver

    def _check(self, address: str) -> None:
        if address in self._receivers:
            raise error("C050", f"another instance has the address {address!r}")

    def leave(self, address: str) -> None:
        """Take part no more."""
        with self._mutex:
            self._receivers.pop(address, None)

    def send(self, address: object, name: str, fact: tuple[Any, ...]) -> None:
        """Deliver a fact of a channel."""
        receiver = self._receivers.get(str(address))
        if receiver is not None:
            receiver.deliver(name, fact)


_LOCAL = Network()


def local_network() -> Network:
    """The network of this process."""
    return _LOCAL


class Timer:
    """A periodic collection: when its next fact is due."""

    def __init__(self, name: str, period: float, clock: Callable[[], float]) -> None:
        self.name = name
        self._period = period
        self._next = clock() + period
        self._number = 0

    def is_due(self, now: float) -> bool:
        """Whether a period is over."""
        return now >= self._next

    def wait(self, now: float) -> float:
        """How long until one is."""
        return max(0.0, self._next - now)

    def due(self, now: float) -> tuple[int, float] | None:
        """The fact of the period that is over; one, however many went by."""
        if now < self._next:
            return None
        missed = int((now - self._next) // self._period)
        self._next += (missed + 1) * self._period
        self._number += 1
        return (self._number - 1, now)
