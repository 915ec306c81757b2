"""Events as lines of JSON, for whoever gathers logs and metrics: `listeners=[EventLog(path)]`.

Each line is an object: when (`time`, UTC), of which run (`run`, counted from 1), what (`event`, the
name of a record of program/events.py) and its fields. A log that can no longer be written is given
up with a warning, and the run goes on.
"""

from __future__ import annotations

import json
import os
import threading
import warnings
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from caladan.program.events import Event, Listener, RunStarted, sendable


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
        self._lock = threading.Lock()
        self._is_given_up = False

    def tell(self, event: Event) -> None:
        """Write a line."""
        with self._lock:
            if isinstance(event, RunStarted):
                self._runs += 1
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
