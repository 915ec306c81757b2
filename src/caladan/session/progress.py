"""Progress: the rounds of a run, live on stderr, and only if stderr is a terminal."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from caladan.program.events import (
    CliqueDone,
    CliqueStarted,
    DataRead,
    Event,
    Listener,
    Resumed,
    RoundDone,
    RunDone,
    RunStarted,
)

if TYPE_CHECKING:
    from rich.status import Status

_SECONDS_BETWEEN: Final = 0.1  # more often than that nobody can read it


class Progress(Listener):
    """One line that says which clique is being evaluated, in which round, and how it grows."""

    def __init__(self) -> None:
        self._status: Status | None = None
        self._cliques = 0
        self._finished = 0
        self._relations = ""
        self._drawn = 0.0

    def say(self, line: str) -> None:
        """Show a line at once, until something else happens."""
        from rich.console import Console
        from rich.markup import escape
        from rich.status import Status

        if self._status is None:
            self._status = Status(escape(line), console=Console(stderr=True))
            self._status.start()
        else:
            self._status.update(escape(line))
        self._drawn = time.monotonic()

    def tell(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._cliques, self._finished = event.cliques, 0
            case DataRead():
                self._draw(f"read {event.facts:,} facts of {event.relation}")
            case CliqueStarted():
                self._relations = ", ".join(event.relations)
                self._draw(f"{self._part()} {self._relations}")
            case RoundDone():
                grown = f"{event.new:,} new, {event.total:,} facts"
                self._draw(f"{self._part()} {self._relations}: round {event.number:,}, {grown}")
            case Resumed():
                self._draw(f"{self._part()} {self._relations}: resumed at round {event.number:,}")
            case CliqueDone():
                self._finished += 1
            case RunDone():
                self.close()
            case _:
                pass

    def close(self) -> None:
        """Take the line away; also after a run that failed."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _part(self) -> str:
        return f"[{self._finished + 1}/{self._cliques}]"

    def _draw(self, line: str) -> None:
        if time.monotonic() - self._drawn > _SECONDS_BETWEEN:
            self.say(line)


def progress() -> Progress | None:
    """A listener for the terminal, or None if there is none to show things on."""
    return Progress() if sys.stderr is not None and sys.stderr.isatty() else None
