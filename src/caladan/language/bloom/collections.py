"""Collections, as the attributes of a module: a column by its name, rules by merging into one.

`|=` merges now, `+=` at the next tick, `-=` deletes then, `<<=` replaces the fact of a key then,
`@=` sends. A lattice is a collection of one value, which rules read as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Self, cast

from caladan.language.bloom.expressions import (
    BloomOperation,
    Expr,
    Presence,
    Read,
    ValueOperators,
    as_row,
    lift,
)
from caladan.language.bloom.lattices import LMap, LSet
from caladan.language.bloom.queries import Query, empty, facts_of
from caladan.language.bloom.schema import MERGES, CollectionKind, Recorder, Schema
from caladan.language.bloom.streams import ITERATED, FactSource, Stream
from caladan.language.bloom.values import freeze
from caladan.program import Comparison, Constant, Expression, Function, Head, Time
from caladan.program.diagnostics import did_you_mean, error
from caladan.program.notation import count_things


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
                f"`{self._schema.name}` is a collection and cannot be assigned",
                module.recorder.here(),
                help=MERGES,
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

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The facts after the last tick, of an instance; rules do not iterate."""
        recorder = self._owner()
        if recorder.group is not None or recorder.contents is None:
            raise self._refused(f"rules do not iterate `{self._schema.name}`", ITERATED)
        return iter(recorder.contents(self._schema.name))

    def _refused(self, problem: str, hint: str) -> Exception:
        return error("C050", problem, self._owner().here(), help=hint)

    def query(self) -> Query:
        recorder = self._owner()
        if self._schema.kind is CollectionKind.OUTPUT and not self._is_of_another(recorder):
            raise error(
                "C072",
                f"`{self._schema.name}` is an output, and rules cannot read it",
                recorder.here(),
                help="read the collections it is derived from, or declare a scratch",
            )
        return facts_of(self._schema, recorder, self)

    @property
    def payloads(self) -> Stream:
        """The columns of a channel without its address."""
        names = [n for i, n in enumerate(self._schema.columns) if i != self._schema.address]
        return self.project(*names)

    def keys(self) -> Stream:
        """The columns of the key."""
        return self.project(*self._schema.keys)

    def values(self) -> Stream:
        """The columns that the key determines."""
        return self.project(*self._schema.values)

    def has_key(self, *values: object) -> Presence:
        """Whether there is a fact with a key, for `where`."""
        return Presence(self, values, width=self._schema.width)

    def as_value(self) -> Expr:
        """The value of a lattice; a collection of facts has none."""
        raise error(
            "C050",
            f"`{self._schema.name}` is a collection of facts, not a value",
            self._owner().here(),
            help=f"take one of its columns, or join it with `*`; {MERGES}",
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
                f"`{self._schema.name}` belongs to a class; rules use `self`",
                help="write the rule in a method with @bloom.rules",
            )
        return self._recorder

    def _merge(self, time: Time, value: object) -> Self:
        recorder = self._owner()
        if recorder.is_booting:
            rows = None if time in ("delete", "upsert") else self._rows(value)
            if rows is None:
                raise error(
                    "C050",
                    "a bootstrap method takes facts only",
                    recorder.here(),
                    help="pass a list of tuples; write rules in methods with @bloom.rules",
                )
            recorder.bootstrap.extend((self._schema.name, time, (row,)) for row in rows)
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
                else "its facts come from outside; declare a scratch for derived facts"
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

    def _rows(self, value: object) -> list[Any] | None:
        """Rows that are handed over as they are, or values of a lattice; None if they are none."""
        if isinstance(value, FactSource):
            return None
        if self._schema.kind is CollectionKind.LATTICE:
            return cast("list[Any]", value) if isinstance(value, list) else [value]
        if isinstance(value, Mapping):
            return list(cast("Mapping[Any, Any]", value).items())
        is_listed = isinstance(value, Iterable) and not isinstance(value, str | bytes | Expr)
        return list(cast("Iterable[Any]", value)) if is_listed else None

    def _streams(self, value: object, recorder: Recorder) -> list[Query]:
        """The right side as queries, each with as many columns as there are to fill."""
        is_lattice = self._schema.kind is CollectionKind.LATTICE
        if isinstance(value, LatticeCollection):
            value = value.as_value()
        if isinstance(value, FactSource):
            return [value.query()]
        if isinstance(value, Expr) and not is_lattice:
            return [_spread(value, recorder)]
        rows = self._rows(value)
        if rows is None:
            raise error(
                "C050",
                f"`{self._schema.name}` takes a collection, a stream or a list of facts",
                recorder.here(),
            )
        made: list[Query] = []
        for row in rows:
            items = [row] if is_lattice or not isinstance(row, list | tuple) else list(row)  # pyright: ignore[reportUnknownArgumentType]
            made.append(empty(recorder).projected([_constant(item) for item in items], {}))
        return made

    def _rule(self, stream: Query, time: Time, recorder: Recorder) -> None:
        made = self._schema
        width = len(made.columns)
        row = stream.row
        values = tuple(value for _, value in stream.columns)
        if row is not None:  # whoever takes the rows names their columns
            values = _items(row, width, made.name)
        elif stream.is_spread and len(values) < width:
            values = (*values[:-1], *_items(values[-1], width - len(values) + 1, made.name))
        if made.kind is CollectionKind.LATTICE and len(values) > 1:
            values = (Function("tuple", values, code=lambda *items: items),)
        if len(values) != width:
            raise error(
                "C011",
                f"`{made.name}` has {count_things(width, 'column')}, "
                f"but rows of {len(values)} are merged into it",
                recorder.here(),
                help=f"its columns are ({', '.join(made.columns)})"
                + ("; None fills a column: project(…, None)" if len(values) < width else ""),
            )
        recorder.rule(Head(made.name, values), stream.literals, time)


class LatticeCollection(ValueOperators, Collection):
    """A lattice of a module: a value that rules read, with the functions of its lattice."""

    __mul__ = FactSource.__mul__

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
        if self._owner().group is None:
            raise self._refused(
                f"`{self._schema.name}` is read as a value in rules alone",
                f'outside of rules, instance.value("{self._schema.name}") has it',
            )
        return Read(self._schema.name)

    def watched(self, made: BloomOperation) -> Expr:
        self._owner().watch(made, self._schema.name)
        return made

    def when_true(self, rows: Iterable[tuple[Any, ...]]) -> Stream:
        """Some facts, once the lattice is true."""
        facts = list(rows)
        made = empty(self._owner()).mapped(lambda _: facts, (), each=True)
        return Stream(made.selected(self.as_value()))

    def keys(self) -> Any:
        """The keys of a map."""
        return self.as_value().method("keys")

    def map(self, code: Callable[..., Any], *columns: str) -> Any:
        """A morphism: a function on every item."""
        return self.as_value().method("map", code)

    def each(self, *columns: str) -> Stream:
        """The items of a set as rows, or of a map; with several columns, items are tuples."""
        query = self.query()
        item = columns[0] if len(columns) == 1 else "item"
        found = Stream(query.unnested(query.column_names()[0], [item]))
        if len(columns) < 2:
            return found
        return found.map(lambda row: row[0], *columns)


def _constant(item: object) -> object:
    lifted = lift(item)
    is_made = isinstance(item, Expr | Collection) or isinstance(lifted, BloomOperation)
    return lifted if is_made else RawValue(item)


def _spread(value: Expr, recorder: Recorder) -> Query:
    """The rows of a value: items of a set or a map, one row for anything else."""
    query, node = empty(recorder).value(value)
    row = recorder.variable("row")
    rows = Function("rows", (node,), code=_rows_of, each=True)
    return replace(query.also(Comparison("=", row, rows)), row=row)


def _rows_of(value: object) -> list[Any]:
    return list(map(as_row, value if isinstance(value, LSet | LMap) else [value]))


class RawValue(Expr):
    """A value as it was handed over: a lattice makes of it what it is."""

    def __init__(self, value: object) -> None:
        self.value = value

    def node(self, scope: object) -> Expression:
        value = self.value
        try:
            hash(value)
        except TypeError:
            return Function("value", (), code=lambda: value)
        return Constant(freeze(value))


def _items(row: Expression, width: int, name: str) -> tuple[Expression, ...]:
    """The values of a row that a function gave, which must have as many as there are to fill."""

    def item(position: int, given: object) -> object:
        found = as_row(given)
        if len(found) != width:
            raise error(
                "C011",
                f"`{name}` has {width} columns to fill, but a function gave a row of {len(found)}",
            )
        return found[position]

    return tuple(Function(f"item {i + 1}", (row,), code=partial(item, i)) for i in range(width))


def _a(kind: CollectionKind) -> str:
    return f"an {kind.value}" if kind.value[0] in "aeiou" else f"a {kind.value}"
