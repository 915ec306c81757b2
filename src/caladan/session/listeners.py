"""Listeners for the events of a run, besides its stats.

    Progress       the rounds, live on stderr, and only if stderr is a terminal
    CompileNotice  says on stderr that kernels are being compiled, and why; with a bar in a terminal
    EventLog       every event as a line of JSON, for whoever gathers logs and metrics:
                   `listeners=[EventLog(path)]`

Each line of a log is an object: when (`time`, UTC), of which run (`run`, counted from 1), what
(`event`, the name of a record of program/events.py) and its fields. A log that can no longer be
written is given up with a warning, and the run goes on.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from caladan.program.events import (
    CliqueDone,
    CliqueStarted,
    DataRead,
    Event,
    KernelCompiled,
    KernelCompiling,
    Listener,
    Resumed,
    RoundDone,
    RunDone,
    RunFailed,
    RunStarted,
    sendable,
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
        self._compiled = 0
        self._drawn = 0.0

    def say(self, line: str) -> None:
        """Show a line at once, until the next event."""
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
            case KernelCompiling():
                self.say(f"compiling kernels, once on this machine: {self._compiled:,} done")
            case KernelCompiled():
                self._compiled += 1
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
            case RunDone() | RunFailed():
                self.close()
            case _:
                pass

    def close(self) -> None:
        """Remove the line, also after a run that failed."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _part(self) -> str:
        return f"[{self._finished + 1}/{self._cliques}]"

    def _draw(self, line: str) -> None:
        if time.monotonic() - self._drawn > _SECONDS_BETWEEN:
            self.say(line)


def progress() -> Progress | None:
    """A listener for the terminal, or None without a terminal."""
    return Progress() if sys.stderr is not None and sys.stderr.isatty() else None


_REASON: Final = (
    "compiling kernels for this processor, once; later runs load them (`caladan warmup` compiles "
    "all of them now)"
)


class CompileNotice(Listener):
    """Says on stderr why a first run takes seconds: it compiles kernels.

    A terminal shows a bar with the number of kernels so far; the total is not known in advance.
    Elsewhere it is one line.
    """

    def __init__(self) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._compiled = 0
        self._is_said = False

    def tell(self, event: Event) -> None:
        match event:
            case KernelCompiling() if not self._is_said:
                self._is_said = True
                self._start()
            case KernelCompiled():
                self._compiled += 1
                if self._bar is not None:
                    self._bar.update(self._task, kernels=f"{self._compiled:,}")
            case RunDone() | RunFailed() if self._bar is not None:
                self._bar.stop()
                self._bar = None
            case _:
                pass

    def _start(self) -> None:
        if sys.stderr is None:
            return
        if not sys.stderr.isatty():
            sys.stderr.write(f"caladan: {_REASON}\n")
            return
        from rich.console import Console
        from rich.progress import BarColumn, Progress as Bar, TextColumn, TimeElapsedColumn

        columns = (BarColumn(), TextColumn("{task.fields[kernels]} kernels"), TimeElapsedColumn())
        out = Console(stderr=True, highlight=False)
        out.print(f"caladan: {_REASON}", markup=False)
        self._bar = Bar(*columns, console=out, transient=True)
        self._task = self._bar.add_task("", total=None, kernels="0")
        self._bar.start()


class EventLog(Listener):
    """Writes every event to a file, or to a stream of text, as a line of JSON."""

    def __init__(self, out: str | os.PathLike[str] | IO[str]) -> None:
        self._stream: IO[str] | None = None
        self._path: Path | None = None
        if isinstance(out, str | os.PathLike):
            self._path = Path(out).expanduser()
        else:
            self._stream = out
        self._runs = 0
        self._is_between = True
        self._lock = threading.Lock()
        self._is_given_up = False

    def tell(self, event: Event) -> None:
        with self._lock:
            # Data is read before a run starts, and may be what it fails for.
            self._runs += self._is_between
            self._is_between = isinstance(event, RunDone | RunFailed)
            line = json.dumps(self._told(event), default=sendable, ensure_ascii=False) + "\n"
            if not self._is_given_up:
                try:
                    self._write(line)
                except (OSError, ValueError) as problem:  # a full disk; a stream that was closed
                    self._is_given_up = True
                    warnings.warn(f"events are no longer logged: {problem}", stacklevel=2)

    def _write(self, line: str) -> None:
        if self._path is not None:  # opened for each line, so that the file can be moved away
            with self._path.open("a", encoding="utf-8") as file:
                file.write(line)
        elif self._stream is not None:
            self._stream.write(line)
            self._stream.flush()

    def _told(self, event: Event) -> dict[str, Any]:
        return {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "run": self._runs,
            "event": type(event).__name__,
            **{each.name: getattr(event, each.name) for each in fields(event)},
        }
