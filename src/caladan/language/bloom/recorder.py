"""Recorder: writes down the rules of a module as they are made, and what they declare.

`Collection` is what a module's attributes are; merging into one (`|=` now, `+=` next tick, `-=`
deleted next tick, `<<=` upsert next tick, `@=` sent) makes rules. A rule knows the line of Python
that it was written in.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self, cast

from caladan.language.bloom.expressions import ColumnOf, Expr, Operation, Read, lift
from caladan.language.bloom.lattices import Lattice, frozen
from caladan.language.bloom.schema import CollectionKind, Schema, schema
from caladan.language.bloom.streams import FactSource, JoinPart, Query, Stream, empty
from caladan.program import (
    Atom,
    Constant,
    Expression,
    Function,
    Head,
    Literal,
    Rule,
    Time,
    Variable,
)
from caladan.program.diagnostics import SourceText, Span, did_you_mean, error

_PACKAGE: Final = str(Path(__file__).parents[2])


@dataclass(frozen=True, slots=True)
class GroupedRule:
    """A rule, and the group that it was written in."""

    rule: Rule
    group: str


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
        self._variables: dict[str, int] = {}
        self._elements: dict[str, int] = {}
        self._sources: dict[str, SourceText] = {}

    def declare(self, made: Schema) -> None:
        """Take in a collection."""
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

    def collection(self, made: Schema) -> Query:
        """The facts of an element."""
        return Collection(made, self).query()

    def rule(self, head: Head, body: tuple[Literal, ...], time: Time = "now") -> None:
        """Write a rule down."""
        if self.group is None:
            raise error(
                "C050",
                f"a rule for `{head.relation}` stands outside of a group of rules",
                self.here(),
                help="rules are made in methods with @bloom.rules, facts in one with "
                "@bloom.bootstrap; insert() hands facts in",
            )
        span = self.here()
        made = Rule(replace(head, span=span), body, time=time, span=span)
        self.rules.append(GroupedRule(made, self.group))

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


class Collection(FactSource):
    """A collection of a module: a column of it by its name, rules by merging into it."""

    def __init__(
        self,
        made: Schema,
        recorder: Recorder | None = None,
        author: tuple[str, type | None] = ("", None),
    ) -> None:
        self._schema = made
        self._recorder = recorder
        self._author = author

    # ── As an attribute of a class ───────────────────────────────────────────────────────────────

    def __set_name__(self, owner: type, name: str) -> None:
        self._schema = replace(self._schema, name=name)
        self._author = ("", owner)

    def __get__(self, module: Any, owner: type | None = None) -> Self:
        return self if module is None else module.collection_named(self._schema.name)

    def __set__(self, module: Any, value: object) -> None:
        if value is not module.collection_named(self._schema.name):
            raise error(
                "C050",
                f"`{self._schema.name}` is a collection, which is not assigned to",
                help="`|=` merges now, `+=` at the next tick, `-=` deletes, `<<=` upserts, "
                "`@=` sends",
            )

    @property
    def schema(self) -> Schema:
        """CollectionKind, key and columns."""
        return self._schema

    def bound(self, recorder: Recorder, prefix: str, name: str) -> Collection:
        """The collection in a module that is being wired."""
        made = type(self)(
            replace(self._schema, name=f"{prefix}{name}"), recorder, (prefix, self._author[1])
        )
        recorder.declare(made._schema)
        return made

    # ── As a source ──────────────────────────────────────────────────────────────────────────────

    def column_names(self) -> tuple[str, ...]:
        return self._schema.columns

    def query(self) -> Query:
        recorder = self._owner()
        if self._schema.kind is CollectionKind.OUTPUT and not self._is_of_another(recorder):
            raise error(
                "C072",
                f"`{self._schema.name}` is an output, which rules do not read",
                recorder.here(),
                help="read what it is derived from, or declare a scratch",
            )
        variables = tuple(recorder.variable(name) for name in self._schema.columns)
        columns = tuple(zip(self._schema.columns, variables, strict=True))
        atom = Atom(self._schema.name, variables, span=recorder.here())
        return Query(recorder, columns, (atom,), (JoinPart((self,), columns),))

    @property
    def payloads(self) -> Stream:
        """The columns of a channel without its address."""
        names = [n for i, n in enumerate(self._schema.columns) if i != self._schema.address]
        return self.project(*names)

    def as_value(self) -> Expr:
        """The value of a lattice; a collection of facts has none."""
        raise error(
            "C050",
            f"`{self._schema.name}` is a collection of facts, not a value",
            self._owner().here(),
            help="take one of its columns, or join it with `*`",
        )

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def now(self, value: object) -> Self:
        """Derive facts in this tick: `c |= …`, Bloom's `<=`."""
        return self._merge("now", value)

    def next(self, value: object) -> Self:
        """Derive facts for the next tick: `c += …`, Bloom's `<+`."""
        return self._merge("next", value)

    def delete(self, value: object) -> Self:
        """Delete facts at the next tick: `c -= …`, Bloom's `<-`."""
        return self._merge("delete", value)

    def upsert(self, value: object) -> Self:
        """Put facts in the place of those with their key: `c <<= …`, Bloom's `<+-`."""
        return self._merge("upsert", value)

    def send(self, value: object) -> Self:
        """Send facts: `c @= …`, Bloom's `<~`."""
        return self._merge("async", value)

    __ior__ = now
    __iadd__ = next  # noqa: A003
    __isub__ = delete
    __ilshift__ = upsert
    __imatmul__ = send

    def _owner(self) -> Recorder:
        if self._recorder is None:
            raise error(
                "C050",
                f"`{self._schema.name}` belongs to a class; rules are made with `self`",
                help="write the rule in a method with @bloom.rules",
            )
        return self._recorder

    def _merge(self, time: Time, value: object) -> Self:
        recorder = self._owner()
        if recorder.is_booting:
            if not isinstance(value, list | tuple | set) or time not in ("now", "next", "async"):
                raise error(
                    "C050",
                    "bootstrap has facts alone",
                    recorder.here(),
                    help="hand over a list of tuples; rules stand in methods with @bloom.rules",
                )
            for row in cast("Iterable[object]", value):
                recorder.bootstrap.append((self._schema.name, time, (row,)))
            return self
        if not (self._takes_rules(time) and self._is_of_another(recorder)):
            self._check(time, recorder)
        for stream in self._streams(value, recorder):
            self._rule(stream, time, recorder)
        return self

    def _is_of_another(self, recorder: Recorder) -> bool:
        """Whether rules of another module use it: its interfaces are there for them.

        What a module includes or imports has been declared by another.
        """
        return recorder.author != self._author

    def _takes_rules(self, time: Time) -> bool:
        return self._schema.kind is CollectionKind.INPUT and time in ("now", "next")

    def refused(self, time: Time) -> tuple[str, str | None] | None:
        """Why rules cannot write the collection so, and what helps; None if they can."""
        made = self._schema
        what = f"`{made.name}` is {_a(made.kind)}"
        if made.kind.arrives and (time != "async" or not made.kind.sends):
            return f"{what}, which rules do not write", (
                "rules send to a channel with `@=`"
                if made.kind.sends
                else "its facts come from outside; declare a scratch for what rules derive"
            )
        if made.kind is CollectionKind.STDIO and time != "async":
            return f"{what}, to which lines are sent", "write `@=`"
        if time == "async" and not made.kind.sends:
            return (
                f"{what}, to which nothing is sent",
                "`@=` sends to channels, loopbacks and stdio; `+=` derives for the next tick",
            )
        if time in ("delete", "upsert") and made.kind is not CollectionKind.TABLE:
            return f"{what}; facts are deleted from tables alone", (
                "a lattice only grows"
                if made.kind is CollectionKind.LATTICE
                else "a scratch is empty at the start of each tick anyway"
            )
        return None

    def _check(self, time: Time, recorder: Recorder) -> None:
        if (told := self.refused(time)) is not None:
            raise error("C071", told[0], recorder.here(), help=told[1])

    def _streams(self, value: object, recorder: Recorder) -> list[Query]:
        """The right side as queries, each with as many columns as there are to fill."""
        is_lattice = self._schema.kind is CollectionKind.LATTICE
        if isinstance(value, Collection) and value._schema.kind is CollectionKind.LATTICE:
            value = value.as_value()
        if isinstance(value, FactSource):
            return [value.query()]
        if isinstance(value, Expr) or (is_lattice and not isinstance(value, list)):
            value = [value]
        if not isinstance(value, list | tuple | set):
            raise error(
                "C050",
                f"`{self._schema.name}` takes a collection, a stream or a list of facts",
                recorder.here(),
            )
        made: list[Query] = []
        for row in cast("Iterable[Any]", value):
            items = [row] if is_lattice or not isinstance(row, list | tuple) else list(row)
            made.append(empty(recorder).projected([_constant(item) for item in items], {}))
        return made

    def _rule(self, stream: Query, time: Time, recorder: Recorder) -> None:
        made = self._schema
        width = len(made.columns)
        row = stream.row
        if row is not None:  # whoever takes the rows names their columns
            values: tuple[Expression, ...] = tuple(
                Function(f"item {i + 1}", (row,), code=_item(i, made.name, width))
                for i in range(width)
            )
        else:
            values = tuple(value for _, value in stream.columns)
        if made.kind is CollectionKind.LATTICE and len(values) > 1:
            values = (Function("tuple", values, code=lambda *items: items),)
        if len(values) != width:
            raise error(
                "C011",
                f"`{made.name}` has {width} column{'' if width == 1 else 's'}, "
                f"but rows of {len(values)} are merged into it",
                recorder.here(),
                help=f"its columns are ({', '.join(made.columns)})",
            )
        recorder.rule(Head(made.name, values), stream.literals, time)


class LatticeCollection(Collection):
    """A lattice of a module: a value that rules read, with the functions of its lattice."""

    def __getattr__(self, name: str) -> Any:
        made = self.__dict__.get("_schema")
        if made is None or name.startswith("_"):
            raise AttributeError(name)
        if not hasattr(made.lattices[0], name):
            known = [each for each in dir(made.lattices[0]) if not each.startswith("_")]
            raise error(
                "C050",
                f"{made.lattices[0].word} has no function `{name}`",
                help=did_you_mean(name, known) or f"it has {', '.join(known)}",
            )
        return lambda *given: self.as_value().method(name, *given)

    def as_value(self) -> Expr:
        return Read(self._schema.name)

    def when_true(self, rows: Iterable[tuple[Any, ...]]) -> Stream:
        """Some facts, once the lattice is true."""
        facts = list(rows)
        made = empty(self._owner()).mapped(lambda _: facts, (), each=True)
        return Stream(made.selected(self.as_value()))

    def map(self, code: Callable[..., Any], *columns: str) -> Any:
        """A morphism: a function on every item."""
        return self.as_value().method("map", code)

    def each(self, *columns: str) -> Stream:
        """The items of a set lattice as rows; with several columns, items are tuples."""
        query = self.query()
        item = columns[0] if len(columns) == 1 else "item"
        found = Stream(query.unnested(query.column_names()[0], [item]))
        if len(columns) < 2:
            return found
        return found.map(lambda row: row[0], *columns)

    def __add__(self, other: object) -> Expr:
        return self.as_value() + other

    def __radd__(self, other: object) -> Expr:
        return lift(other) + self.as_value()

    def __sub__(self, other: object) -> Expr:
        return self.as_value() - other

    def __gt__(self, other: object) -> Expr:
        return self.as_value() > other

    def __ge__(self, other: object) -> Expr:
        return self.as_value() >= other

    def __lt__(self, other: object) -> Expr:
        return self.as_value() < other

    def __le__(self, other: object) -> Expr:
        return self.as_value() <= other

    def __and__(self, other: object) -> Expr:
        return self.as_value() & other

    def __or__(self, other: object) -> Expr:
        return self.as_value() | other


def _constant(item: object) -> object:
    if isinstance(item, Lattice | Expr | Mapping | set | frozenset | list | Collection):
        return _kept(item)
    return Given(item)


def _kept(item: Any) -> Expr:
    lifted = lift(item)
    if isinstance(item, Expr | Collection) or isinstance(lifted, Operation):
        return lifted
    return Given(item)


class Given(Expr):
    """A value as it was handed over: a lattice makes of it what it is."""

    def __init__(self, value: object) -> None:
        self.value = value

    def node(self, scope: object) -> Expression:
        value = self.value
        try:
            hash(value)
        except TypeError:
            return Function("value", (), code=lambda: value)
        return Constant(frozen(value))


def _item(position: int, name: str, width: int) -> Any:
    def item(row: tuple[object, ...]) -> object:
        if len(row) != width:
            raise error(
                "C011", f"`{name}` has {width} columns, but a function gave a row of {len(row)}"
            )
        return row[position]

    return item


def _a(kind: CollectionKind) -> str:
    return f"an {kind.value}" if kind.value[0] in "aeiou" else f"a {kind.value}"


__all__ = ["Collection", "ColumnOf", "GroupedRule", "Recorder", "schema"]
