"""Events: what a run tells while it goes. Progress and stats only listen.

Every event is a frozen record. An engine hands each to the one method of a `Listener`; several
listeners are joined by `Several`. The engine never waits for an answer, but a listener may raise to
end the run. Between processes an event is a list of plain values (`to_plain`, `from_plain`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeAlias, get_args


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins; it has so many cliques to evaluate."""

    engine: str
    cliques: int


@dataclass(frozen=True, slots=True)
class DataRead:
    """The data of a relation was brought in."""

    relation: str
    facts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RelationReused:
    """A relation that an earlier run derived was read instead of its rules."""

    relation: str


@dataclass(frozen=True, slots=True)
class RowsSetAside:
    """A permissive run left out rows of a relation's data."""

    relation: str
    rows: int


@dataclass(frozen=True, slots=True)
class KernelCompiling:
    """A kernel is about to be compiled: no object file of it is on this machine."""

    kernel: str


@dataclass(frozen=True, slots=True)
class KernelCompiled:
    """A kernel was compiled, which happens once on a machine; later processes load it."""

    kernel: str
    seconds: float


@dataclass(frozen=True, slots=True)
class CliqueStarted:
    """A clique begins."""

    relations: Sequence[str]
    recursive: bool
    strategy: str


@dataclass(frozen=True, slots=True)
class StrategyDeclined:
    """A strategy cannot evaluate a clique, or need not; another is tried.

    Told before the clique starts, or while it goes.
    """

    relations: Sequence[str]
    strategy: str
    reason: str


@dataclass(frozen=True, slots=True)
class CliqueTaken:
    """A strategy has evaluated the current clique; how each of its relations is held now."""

    relations: Sequence[str]
    strategy: str
    layouts: Sequence[str]


@dataclass(frozen=True, slots=True)
class MachineRan:
    """So many rounds of the current clique were tiny, and done one fact at a time."""

    rounds: int


@dataclass(frozen=True, slots=True)
class RoundsGathered:
    """So many rounds of the current clique one task did by itself, with all facts."""

    rounds: int


@dataclass(frozen=True, slots=True)
class RulePlanned:
    """The steps that a rule goes through from now on, and the estimates that chose their order."""

    rule: int
    seed: str | None
    steps: Sequence[str]
    weighed: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class RuleDone:
    """A rule was evaluated; `facts` are those it derived, None where nobody counted."""

    rule: int
    seed: str | None
    facts: int | None
    seconds: float


@dataclass(frozen=True, slots=True)
class RuleSearched:
    """Atoms of a rule made proposals for a variable, and confirmed some; `by` has who did."""

    rule: int
    seed: str | None
    variable: str
    proposed: int
    confirmed: int
    by: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class RunsMet:
    """Lookups of a rule found facts in several runs; `accumulated` ones merged them first."""

    rule: int
    seed: str | None
    lookups: int
    accumulated: int


@dataclass(frozen=True, slots=True)
class RuleSkipped:
    """A guard kept a rule from being evaluated."""

    rule: int
    seed: str | None


@dataclass(frozen=True, slots=True)
class RoundDone:
    """A round of the current clique is over; it found so many new facts."""

    number: int
    new: int
    total: int
    seconds: float


@dataclass(frozen=True, slots=True)
class ValuesSplit:
    """So many values are too frequent for one task, some of them `shown`; all share them.

    Told again when there are more.
    """

    values: int
    shown: Sequence[str]


@dataclass(frozen=True, slots=True)
class Resumed:
    """The current clique goes on at a round that was saved by an earlier attempt or run."""

    number: int


@dataclass(frozen=True, slots=True)
class CheckpointLost:
    """What was saved of the current clique is of no use, or nothing can be saved."""

    reason: str


@dataclass(frozen=True, slots=True)
class TaskLost:
    """A task that told of cliques did not finish; another tells of them again, from the start."""

    cliques: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class CliqueDone:
    """A clique is finished."""

    relations: Sequence[str]
    rounds: int
    facts: int
    seconds: float


@dataclass(frozen=True, slots=True)
class BytesShuffled:
    """So many bytes went from one task to another."""

    size: int


@dataclass(frozen=True, slots=True)
class RelationHeld:
    """At the end: how many facts a relation has, its bytes in memory, and those on disk.

    `arrangements` are the column orders that were made of it.
    """

    relation: str
    facts: int
    nbytes: int
    spilled: int
    layout: str
    arrangements: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class RunDone:
    """The run is over."""

    seconds: float


@dataclass(frozen=True, slots=True)
class RunFailed:
    """The run ended early: the code and the message of its first diagnostic."""

    code: str
    message: str
    seconds: float


Event: TypeAlias = (
    RunStarted
    | DataRead
    | RelationReused
    | RowsSetAside
    | KernelCompiling
    | KernelCompiled
    | CliqueStarted
    | StrategyDeclined
    | CliqueTaken
    | MachineRan
    | RoundsGathered
    | RulePlanned
    | RuleDone
    | RuleSearched
    | RunsMet
    | RuleSkipped
    | RoundDone
    | ValuesSplit
    | Resumed
    | CheckpointLost
    | TaskLost
    | CliqueDone
    | BytesShuffled
    | RelationHeld
    | RunDone
    | RunFailed
)

KINDS: Final[dict[str, type[Any]]] = {kind.__name__: kind for kind in get_args(Event)}
"""Every kind of event, by its name."""


class Listener:
    """Is told of every event, and ignores it: the base of those that do not."""

    def tell(self, event: Event) -> None:
        """Something has happened."""


class Several(Listener):
    """Passes every event on to several listeners, with numbers that are Python's own."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners

    def tell(self, event: Event) -> None:
        event = _plain(event)
        for each in self._listeners:
            each.tell(event)


def _plain(event: Event) -> Event:
    values = {each.name: getattr(event, each.name) for each in fields(event)}
    numbers = {name: plain(value) for name, value in values.items() if hasattr(value, "dtype")}
    return replace(event, **numbers) if numbers else event


def plain(value: Any) -> Any:
    """A number of NumPy's as one of Python's, an array as a list; all else as it is.

    Kernels count in NumPy's numbers. They become plain here, on the way to listeners and onto a
    line between processes, and nowhere else.
    """
    return value.tolist() if hasattr(value, "dtype") else value


def sendable(value: Any) -> Any:
    """What JSON holds for a value that it does not know (`json.dumps(…, default=sendable)`).

    What is no number becomes text: whoever tells how a run goes does not end it by that.
    """
    return plain(value) if hasattr(value, "dtype") else str(value)


def to_plain(event: Event) -> list[Any]:
    """An event as its name and its values, for JSON with `default=sendable`.

    >>> to_plain(CliqueDone(("tc",), 3, 14, 0.5))
    ['CliqueDone', ('tc',), 3, 14, 0.5]
    """
    return [type(event).__name__, *(getattr(event, each.name) for each in fields(event))]


def from_plain(told: Sequence[Any]) -> Event | None:
    """The event that another process told of; None if it is of no kind that is known here.

    >>> from_plain(["CliqueDone", ["tc"], 3, 14, 0.5])
    CliqueDone(relations=('tc',), rounds=3, facts=14, seconds=0.5)
    """
    kind = KINDS.get(str(told[0]))
    return None if kind is None else kind(*map(_freeze, told[1:]))


def _freeze(value: Any) -> Any:
    return tuple(map(_freeze, value)) if isinstance(value, list) else value
