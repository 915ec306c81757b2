"""What an instance has to do with the world: messages, timers, and what it shows of itself.

A `Network` delivers what is sent to an address, on the caller's thread, into the inbox of whoever
joined under it. What is sent to nobody is lost, as it may be on any network. Contents of
collections are shown as relations, and ticks in numbers.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from weakref import WeakValueDictionary

from caladan.data.schema import LocalTable, column_type, empty_table
from caladan.language.bloom.schema import CollectionKind, Schema
from caladan.language.bloom.values import order_key
from caladan.program import Column, Type
from caladan.program.diagnostics import error
from caladan.session.result import Relation

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.ticks.engine import TickEngine


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
        return now >= self._next

    def wait(self, now: float) -> float:
        return max(0.0, self._next - now)

    def due(self, now: float) -> tuple[int, float] | None:
        """The fact of the period that is over; one, however many went by."""
        if now < self._next:
            return None
        missed = int((now - self._next) // self._period)
        self._next += (missed + 1) * self._period
        self._number += 1
        return (self._number - 1, now)


class Contents(Relation):
    """The facts of a collection after a tick; `rows()` has them as they are, None and all."""

    def __init__(self, schema: Schema, facts: list[tuple[Any, ...]]) -> None:
        self._facts_held = facts
        super().__init__(schema.name, _ArrowLater(schema, facts))
        self._kind = schema.kind

    def rows(self) -> list[tuple[Any, ...]]:
        """The facts, ordered by their columns from the left."""
        return sorted(self._facts_held, key=order_key)

    @property
    def value(self) -> Any:
        """The one value of a lattice."""
        return self._facts_held[0][0] if self._facts_held else None

    def __len__(self) -> int:
        return len(self._facts_held)

    def __iter__(self) -> Any:
        return iter(self.rows())

    def __contains__(self, fact: object) -> bool:
        return fact in self._facts_held


class _ArrowLater(LocalTable):
    """Facts that become columns of Arrow when somebody asks for these."""

    def __init__(self, schema: Schema, facts: list[tuple[Any, ...]]) -> None:
        self._schema = schema
        self._rows = facts
        self._loaded: list[pa.Array | None] | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        found: list[Column] = []
        for name, data in zip(self._schema.columns, self._arrays(), strict=True):
            kind = None if data is None else column_type(data.type)
            found.append(Column(name, kind or (Type.OBJECT if self._rows else Type.STRING)))
        return tuple(found)

    def _arrays(self) -> list[pa.Array | None]:
        """A column of Arrow for each column, None where it has none for such values."""
        if self._loaded is None:
            import pyarrow as pa

            self._loaded = []
            for position in range(len(self._schema.columns)):
                try:
                    data = pa.array([row[position] for row in self._rows])
                except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                    data = None
                self._loaded.append(data)
        return self._loaded

    def count(self) -> int:
        return len(self._rows)

    def arrow(self, limit: int | None = None) -> pa.Table:
        import pyarrow as pa

        if not self._rows:
            return empty_table(self.columns)
        whole = pa.table(dict(zip(self._schema.columns, self._arrays(), strict=True)))
        return whole if limit is None else whole.slice(0, limit)


class ElementStats(NamedTuple):
    """What became of an element: how often it was invalid when its turn came, and so on."""

    invalidated: int
    rescanned: int
    repaired: int
    rebuilt: int


@dataclass(slots=True)
class TickStats:
    """Numbers of an instance: of all ticks, and of the last one."""

    ticks: int = 0
    seconds: float = 0.0
    scans: dict[str, int] = field(default_factory=dict[str, int])
    """How often each relation was gone through in full in the last tick."""
    rebuilt: tuple[str, ...] = ()
    """What the last tick derived from scratch."""
    repaired: tuple[str, ...] = ()
    """What it brought up to date from changes alone."""
    bulk: tuple[str, ...] = ()
    """What of `rebuilt` it handed to the columnar engine, since there was much to derive."""
    engine: TickEngine | None = field(default=None, repr=False, compare=False)

    @property
    def elements(self) -> dict[str, ElementStats]:
        """By element how often it was invalidated, rescanned, repaired and rebuilt in all ticks."""
        if self.engine is None:
            return {}
        return {
            name: ElementStats(e.invalidated, e.rescanned, e.repaired, e.rebuilt)
            for name, e in self.engine.elements.items()
        }

    def ticked(self, engine: TickEngine, seconds: float) -> None:
        """A tick is over."""
        self.engine = engine
        self.ticks += 1
        self.seconds += seconds
        self.scans = {}
        for extent in engine.scanned:
            self.scans[extent.name] = extent.scans
            extent.scans = 0
        engine.scanned.clear()
        self.rebuilt, self.repaired = tuple(engine.rebuilt), tuple(engine.repaired)
        self.bulk = tuple(engine.bulk)


__all__ = ["CollectionKind", "Contents", "ElementStats", "TickStats"]
