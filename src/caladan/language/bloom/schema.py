"""What a module declares, written down: collections, and rules as they are made.

A `Schema` is what a collection is: its kind, its columns, what of them is the key, and which are
lattices. Columns are written as names, `"cost: lmin"` for one that holds a lattice; those in `to=`
are determined by the others, the key. Without any, a collection has the columns `key` and,
determined by it, `val`.

The `Recorder` of a module has its schemas and its rules; a rule knows the line of Python that it
was written in.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from caladan.language.bloom.lattices import LATTICES
from caladan.language.bloom.values import Lattice
from caladan.program import Head, Literal, Rule, Time, Variable
from caladan.program.diagnostics import Diagnostics, SourceText, Span, did_you_mean, error

if TYPE_CHECKING:
    from caladan.language.bloom.expressions import BloomOperation


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
    def is_internal(self) -> bool:
        """Whether it is no collection that a user declared: an element, or the clock."""
        return self.is_element or self is CollectionKind.CLOCK

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
    for written in (*given, *_list_columns(to)):
        column, _, word = (part.strip() for part in written.partition(":"))
        if column.startswith("@"):
            if kind is not CollectionKind.CHANNEL:
                raise error(
                    "C050",
                    f"{what} is a {kind.value}, which has no address: `{column}`",
                    help="only channels have an address column",
                )
            address, column = len(names), column[1:]
        if word:
            lattices[len(names)] = _lattice(what, column, word)
        if column in names or not column.isidentifier():
            raise error(
                "C017",
                f"{what} has two columns named `{column}`"
                if column in names
                else f"`{column}` of {what} is not a column name",
                help="column names are unique Python identifiers",
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


def _list_columns(to: Columns | None) -> list[str]:
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


_PACKAGE: Final = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True)
class GroupedRule:
    """A rule, and the group that it was written in."""

    rule: Rule
    group: str


MERGES: Final = (
    "rules are written `|=` (Bloom's `<=`), `+=` (`<+`), `-=` (`<-`), `<<=` (`<+-`), `@=` (`<~`)"
)
"""The help for what is no rule in Python, but looks like one of Bloom."""


class Recorder:
    """The collections and rules of a module and all that it imports."""

    def __init__(self, address: str = "") -> None:
        self.address = address
        self.schemas: dict[str, Schema] = {}
        self.rules: list[GroupedRule] = []
        self.bootstrap: list[tuple[str, Time, tuple[object, ...]]] = []
        self.group: str | None = None
        self.author: tuple[str, type | None] = ("", None)
        """Whose rules are being made: where the module stands, and the class they are in."""
        self.is_booting = False
        self.contents: Callable[[str], Iterable[tuple[Any, ...]]] | None = None
        """The facts of a collection after the last tick, once an instance runs the program."""
        self._watched: list[tuple[BloomOperation, str, Span | None]] = []
        self._variables: dict[str, int] = {}
        self._elements: dict[str, int] = {}
        self._sources: dict[str, SourceText] = {}

    def declare(self, made: Schema) -> None:
        self.schemas[made.name] = made

    def variable(self, stem: str) -> Variable:
        """A variable that nobody has."""
        stem = "".join(c for c in stem.capitalize() if c.isalnum()) or "V"
        number = self._variables[stem] = self._variables.get(stem, 0) + 1
        return Variable(f"{stem}_{number}")

    def element(
        self, kind: CollectionKind, columns: Iterable[str], width: int | None = None
    ) -> Schema:
        """An internal relation for what an operator keeps."""
        names = list(columns)
        number = self._elements[kind.value] = self._elements.get(kind.value, 0) + 1
        width = len(names) if width is None else width
        made = Schema(f"{kind.value}_{number}", kind, tuple(names[:width]), tuple(names[width:]))
        self.declare(made)
        return made

    def rule(self, head: Head, body: tuple[Literal, ...], time: Time = "now") -> None:
        if self.group is None:
            raise error(
                "C050",
                f"a rule for `{head.relation}` is outside a method with @bloom.rules",
                self.here(),
                help="write rules in methods with @bloom.rules and facts in one with "
                "@bloom.bootstrap, or call insert()",
            )
        span = self.here()
        made = Rule(replace(head, span=span), body, time=time, span=span)
        self.rules.append(GroupedRule(made, self.group))

    def watch(self, made: BloomOperation, name: str) -> None:
        """Remember an operation on a lattice, for `check_read`."""
        self._watched.append((made, name, self.here()))

    def check_read(self) -> None:
        """C050 for operations on lattices that no rule reads: `self.m <= 5` is no rule."""
        watched, self._watched = self._watched, []
        unread = [each for each in watched if not each[0].is_read]
        inner = {id(part) for made, _, _ in unread for part in made.arguments}
        found = Diagnostics()
        for made, name, place in unread:
            if id(made) not in inner:
                found.add(
                    "C050",
                    f"`{name} {made.name} …` is an expression that no rule reads",
                    place,
                    help=MERGES,
                )
        found.raise_errors()

    def here(self) -> Span | None:
        """The line of the user's that is being run."""
        frame = inspect.currentframe()
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        if frame is None:
            return None
        name, number = frame.f_code.co_filename, frame.f_lineno
        lines = linecache.getlines(name)
        if not 0 < number <= len(lines):
            return None
        if name not in self._sources:
            self._sources[name] = SourceText(name, "".join(lines))
        start = sum(map(len, lines[: number - 1]))
        line = lines[number - 1]
        indent = len(line) - len(line.lstrip())
        return Span(self._sources[name], start + indent, start + len(line.rstrip()))
