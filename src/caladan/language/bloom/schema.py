"""What a collection is: its kind, its columns, what of them is the key, and which are lattices.

A `Schema` is the declaration alone. Columns are written as names, `"cost: lmin"` for one that holds
a lattice; those in `to=` are determined by the others, the key. Without any, a collection has the
columns `key` and, determined by it, `val`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from caladan.language.bloom.lattices import LATTICES
from caladan.language.bloom.values import Lattice
from caladan.program import Time
from caladan.program.diagnostics import did_you_mean, error


class CollectionKind(Enum):
    """Kinds of collections; the value is the word that declares one."""

    TABLE = "table"
    SCRATCH = "scratch"
    INPUT = "input"
    OUTPUT = "output"
    CHANNEL = "channel"
    LOOPBACK = "loopback"
    PERIODIC = "periodic"
    STDIO = "stdio"
    TEMP = "temp"
    LATTICE = "lattice"
    CLOCK = "clock"

    # What the operators of rules keep.
    STREAM = "stream"
    GROUP = "group"
    REDUCE = "reduce"
    SORT = "sort"
    INDEX = "each_with_index"

    @property
    def persists(self) -> bool:
        """Whether what it holds stays from tick to tick."""
        return self in (CollectionKind.TABLE, CollectionKind.LATTICE)

    @property
    def is_element(self) -> bool:
        """Whether it is what an operator keeps, and no collection of a user."""
        return self in _ELEMENTS

    @property
    def arrives(self) -> bool:
        """Whether its facts come from outside alone, so that rules may not derive them now."""
        return self in (
            CollectionKind.INPUT,
            CollectionKind.CHANNEL,
            CollectionKind.LOOPBACK,
            CollectionKind.PERIODIC,
            CollectionKind.CLOCK,
        )

    @property
    def sends(self) -> bool:
        """Whether facts of it can be sent."""
        return self in (CollectionKind.CHANNEL, CollectionKind.LOOPBACK, CollectionKind.STDIO)


_ELEMENTS = (
    CollectionKind.STREAM,
    CollectionKind.GROUP,
    CollectionKind.REDUCE,
    CollectionKind.SORT,
    CollectionKind.INDEX,
)

CLOCK = "clock"
"""The collection with the number of the tick and the time of day, one fact."""


@dataclass(frozen=True, slots=True)
class Schema:
    """A declared collection; `keys` then `values` are its columns."""

    name: str
    kind: CollectionKind
    keys: tuple[str, ...]
    values: tuple[str, ...] = ()
    lattices: Mapping[int, type[Lattice]] = field(default_factory=dict[int, type[Lattice]])
    address: int | None = None
    period: float | None = None
    later: tuple[str, Time] | None = None
    """The collection that this brings facts to at a later time, and which."""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, those of the key first."""
        return (*self.keys, *self.values)

    @property
    def width(self) -> int:
        """How many columns make the key."""
        return len(self.keys)


Columns = str | Iterable[str] | Mapping[str, type[Lattice] | str]


def schema(
    name: str,
    kind: CollectionKind,
    columns: Iterable[str] = ("key",),
    to: Columns | None = None,
    period: float | None = None,
) -> Schema:
    """A schema from columns as they are written."""
    what = f"`{name}`" if name else "a collection"
    lattices: dict[int, type[Lattice]] = {}
    names: list[str] = []
    address: int | None = None
    given = list(columns)
    for written in (*given, *_listed(to)):
        column, _, word = (part.strip() for part in written.partition(":"))
        if column.startswith("@"):
            if kind is not CollectionKind.CHANNEL:
                raise error(
                    "C050",
                    f"{what} is a {kind.value}, which has no address: `{column}`",
                    help="only a channel sends facts to where a column says",
                )
            address, column = len(names), column[1:]
        if word:
            lattices[len(names)] = _lattice(what, column, word)
        if column in names or not column.isidentifier():
            raise error(
                "C017",
                f"{what} has two columns named `{column}`"
                if column in names
                else f"`{column}` of {what} is no name of a column",
                help="columns are names as in Python, each once",
            )
        names.append(column)
    if isinstance(to, Mapping):
        for column, lattice in to.items():
            if isinstance(lattice, type):
                lattices[names.index(column)] = lattice
    if any(position < len(given) for position in lattices):
        raise error(
            "C012",
            f"a key column of {what} holds a lattice, whose values change as they grow",
            help="declare it behind the key: to={'cost': bloom.LMin}",
        )
    if kind is CollectionKind.CHANNEL and address is None:
        address = 0
    keys, values = tuple(names[: len(given)]), tuple(names[len(given) :])
    return Schema(name, kind, keys, values, lattices, address, period)


def _listed(to: Columns | None) -> list[str]:
    if to is None:
        return []
    if isinstance(to, str):
        return [to]
    if isinstance(to, Mapping):
        return [
            f"{column}: {lattice}" if isinstance(lattice, str) else column
            for column, lattice in to.items()
        ]
    return list(to)


def _lattice(what: str, column: str, word: str) -> type[Lattice]:
    if word not in LATTICES:
        raise error(
            "C004",
            f"unknown lattice `{word}` of column {column} of {what}",
            help=did_you_mean(word, LATTICES) or f"the lattices are {', '.join(LATTICES)}",
        )
    return LATTICES[word]
