"""Progress: the rounds of a run, live on stderr, and only if stderr is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from caladan.program.events import Events

if TYPE_CHECKING:
    from rich.status import Status

_SECONDS_BETWEEN: Final = 0.1  # more often than that nobody can read it


class Progress(Events):
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

    def run_started(self, engine: str, cliques: int) -> None:
        self._cliques, self._finished = cliques, 0

    def data_read(self, relation: str, facts: int, seconds: float) -> None:
        self._draw(f"read {facts:,} facts of {relation}")

    def clique_started(self, relations: Sequence[str], recursive: bool, strategy: str) -> None:
        self._relations = ", ".join(relations)
        self._draw(f"{self._part()} {self._relations}")

    def round_done(self, number: int, new: int, total: int, seconds: float) -> None:
        self._draw(
            f"{self._part()} {self._relations}: round {number:,}, {new:,} new, {total:,} facts"
        )

    def resumed(self, number: int) -> None:
        self._draw(f"{self._part()} {self._relations}: resumed at round {number:,}")

    def clique_done(
        self, relations: Sequence[str], rounds: int, facts: int, seconds: float
    ) -> None:
        self._finished += 1

    def run_done(self, seconds: float) -> None:
        self.close()

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
