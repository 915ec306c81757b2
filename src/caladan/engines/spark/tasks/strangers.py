"""Who has called and has not proved yet who it is: so many at a time, so long, and no longer.

Whoever listens on a network is called by others too: by scanners, by what probes for health, by
somebody who means harm. They may neither keep those out who belong here nor take up this process.
A stranger has one span of time for all it has to say; if there are too many, the one that has had
the longest is hung up on. Who belongs here needs a moment, and calls again should it be among them.

Where no more files can be opened, a stranger's is closed; if there is none, nobody is accepted for
a while. To ask again at once would fail at once, without end.
"""

from __future__ import annotations

import errno
import selectors
import socket
import time
from collections.abc import Callable
from typing import Final

MOST: Final = 64  # strangers at a time
PATIENCE: Final = 5.0  # seconds that one has
_PAUSE: Final = 0.1  # seconds in which nobody is accepted

_NO_HANDLES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Strangers:
    """Those who called a listener that is registered with a selector; `drop` hangs up on one."""

    def __init__(
        self,
        listener: socket.socket,
        selector: selectors.BaseSelector,
        drop: Callable[[socket.socket], None],
    ) -> None:
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)
        self._listener = listener
        self._selector = selector
        self._drop = drop
        self._until: dict[socket.socket, float] = {}  # in the order in which they called
        self._resume: float | None = None

    def accept(self) -> socket.socket | None:
        """The next who calls; None if there is nobody, or no way to take the call."""
        try:
            connection, _ = self._listener.accept()
        except OSError as problem:
            if problem.errno in _NO_HANDLES and not self._drop_oldest():
                self._selector.unregister(self._listener)
                self._resume = time.monotonic() + _PAUSE
            return None
        return connection

    def add(self, connection: socket.socket) -> None:
        """Count who called among the strangers; the oldest has to go if there are too many."""
        if len(self._until) >= MOST:
            self._drop_oldest()
        self._until[connection] = time.monotonic() + PATIENCE

    def discard(self, connection: socket.socket) -> None:
        """Who called is no stranger any more, or gone."""
        self._until.pop(connection, None)

    def attend(self) -> None:
        """Hang up on those whose time is over, and listen again after a pause."""
        now = time.monotonic()
        for connection in [each for each, until in self._until.items() if until <= now]:
            self._drop(connection)
            self.discard(connection)
        if self._resume is not None and self._resume <= now:
            self._resume = None
            self._selector.register(self._listener, selectors.EVENT_READ)

    def wait(self) -> float | None:
        """Seconds until there is something to attend to; None if there is nothing."""
        times = [*list(self._until.values())[:1], *([] if self._resume is None else [self._resume])]
        return max(min(times) - time.monotonic(), 0) if times else None

    def _drop_oldest(self) -> bool:
        oldest = next(iter(self._until), None)
        if oldest is None:
            return False
        self._drop(oldest)
        self.discard(oldest)
        return True
