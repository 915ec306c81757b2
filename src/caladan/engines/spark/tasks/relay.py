"""What a task tells the driver while it works, and how its errors travel.

`Relay` is a listener that sends every event on, a few at a time: rounds may be many and tiny.
Diagnostics become plain values. A span names its source by its place among those of the program,
which both sides have.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from caladan.engines.spark.tasks.control import Line, Message
from caladan.program.diagnostics import Diagnostic, Place, RelatedSpan, SourceText, Span
from caladan.program.events import (
    CliqueTaken,
    DataRead,
    Event,
    Listener,
    RelationHeld,
    RuleDone,
    RunDone,
    RunStarted,
    from_plain,
    to_plain,
)
from caladan.rules.program import DeltaProgram

_APART: Final = 0.05  # seconds between two messages
OF_THE_DRIVER: Final = (RunStarted, DataRead, RunDone)
"""Events that a task does not tell: they are of the run as a whole."""


class Relay(Listener):
    """Sends events through a line, but for those that are the driver's to tell.

    A thread does the sending: after one event the next may be long in coming.
    """

    def __init__(self, line: Line | None) -> None:
        self._line = line
        self._waiting: list[Event] = []
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._send, name="caladan-relay", daemon=True)
        if line is not None:
            self._thread.start()

    def close(self) -> None:
        """Send what waits, and no more."""
        self._ending.set()
        if self._line is not None:
            self._thread.join()

    def tell(self, event: Event) -> None:
        if self._line is not None and not isinstance(event, OF_THE_DRIVER):
            with self._lock:
                self._waiting.append(event)

    def _send(self) -> None:
        assert self._line is not None
        is_last = False
        while not is_last:
            is_last = self._ending.wait(_APART)
            with self._lock:
                waiting, self._waiting = self._waiting, []
            if waiting:
                self._line.send({"events": [to_plain(event) for event in waiting]})


def heard(message: Message) -> Iterator[Event]:
    """The events that a task tells of in a message; what is of no known kind is passed over."""
    for told in message.get("events", ()):
        if (event := from_plain(told)) is not None:
            yield event


def together(parts: Iterable[Iterable[Event]], relations: Collection[str]) -> Iterator[Event]:
    """What all parts did in all, as one: rules in the time of the slowest, copies added up.

    The facts of `relations` are spread over the parts, of others each has all.
    """
    rules: dict[tuple[int, str | None], RuleDone] = {}
    taken: list[CliqueTaken] = []
    held: dict[str, list[RelationHeld]] = {}
    for event in (event for told in parts for event in told):
        match event:
            case RuleDone():
                known = rules.get((event.rule, event.seed), replace(event, facts=0))
                facts = (known.facts or 0) + (event.facts or 0)
                slowest = max(known.seconds, event.seconds)
                done = replace(known, facts=facts, seconds=slowest)
                rules[event.rule, event.seed] = done
            case CliqueTaken():
                taken.append(event)
            case RelationHeld():
                held.setdefault(event.relation, []).append(event)
            case _:
                yield event
    yield from rules.values()
    if taken:
        layouts = [_names(layouts) for layouts in zip(*(e.layouts for e in taken), strict=True)]
        yield replace(taken[0], layouts=layouts)
    for name, copies in held.items():
        facts = [each.facts for each in copies]
        yield RelationHeld(
            name,
            sum(facts) if name in relations else max(facts),
            sum(each.nbytes for each in copies),
            sum(each.spilled for each in copies),
            _names(each.layout for each in copies),
            tuple({tuple(order): None for each in copies for order in each.arrangements}),
        )


def _names(layouts: Iterable[str]) -> str:
    return " and ".join(dict.fromkeys(layouts))


def pack_diagnostics(
    diagnostics: Iterable[Diagnostic], program: DeltaProgram
) -> list[dict[str, Any]]:
    """Diagnostics as plain values."""
    known = list(_sources(program))

    def place(at: Span | Place | None) -> Any:
        if isinstance(at, Span):
            numbers = [i for i, source in enumerate(known) if source is at.source]
            return [numbers[0], at.start, at.end] if numbers else [at.name, at.line, at.column]
        return None if at is None else [at.name, at.line, at.column]

    return [
        {
            "code": each.code,
            "message": each.message,
            "place": place(each.place),
            "related": [[r.message, place(r.place)] for r in each.related],
            "help": each.help,
        }
        for each in diagnostics
    ]


def unpack_diagnostics(packed: Iterable[dict[str, Any]], program: DeltaProgram) -> list[Diagnostic]:
    """Diagnostics from plain values."""
    known = list(_sources(program))

    def place(at: Any) -> Span | Place:
        return Span(known[at[0]], at[1], at[2]) if isinstance(at[0], int) else Place(*at)

    return [
        Diagnostic(
            each["code"],
            each["message"],
            None if each["place"] is None else place(each["place"]),
            tuple(RelatedSpan(message, place(at)) for message, at in each["related"]),
            each["help"],
        )
        for each in packed
    ]


def _sources(program: DeltaProgram) -> dict[SourceText, None]:
    """The texts that a program was written in, each once, in an order that pickling keeps."""
    spans = [
        *(rule.rule.span for rule in program.rules),
        *(info.span for info in program.relations.values()),
    ]
    return dict.fromkeys(span.source for span in spans if span is not None)
