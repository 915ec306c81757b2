"""Relations of values, encoded once and kept: what `find` looks things up in.

A value is known by its rank (columns/ranks.py), texts, decimals and bytes by their number in the
dictionary of their kind, objects by that of the library (program/objects.py): this is what
constraints see. Relations hold words, as those of programs do (columns/domains.py); the library has
one domain for each kind, which takes in whatever comes. Rows of Python values that Arrow has no
column for, such as tuples, or texts beside numbers, are kept as they are.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa

from caladan.columns.domains import InternedDomain, OffsetDomain, TextDomain
from caladan.columns.ranks import CODED, LEAST, MOST, arrow_ranks, rank_floats, rank_of
from caladan.columns.relation import StoredRelation
from caladan.join.constraints.protocol import Codes
from caladan.program import Column, Type, Value, thresholds
from caladan.program.diagnostics import error
from caladan.program.kinds import Kind, kind_of_value
from caladan.program.objects import Objects

DICTIONARIES: Final = (*CODED, Kind.OBJECT)
"""The kinds whose words are numbers of a dictionary."""

Data: TypeAlias = object  # Arrow table, anything with arrow() or __arrow_c_stream__, rows, columns


@dataclass(frozen=True, slots=True)
class VariableDomain:
    """The values of a variable: how they become ranks, and back; `coding` has words of ranks."""

    kind: Kind
    coding: OffsetDomain | InternedDomain | TextDomain
    objects: Objects

    def encode(self, value: object) -> int | None:
        """The rank of a Python value; None if no value of this kind equals it."""
        plain = value.item() if isinstance(value, np.generic) else value
        kind = kind_of_value(plain)
        if self.kind is Kind.OBJECT:
            try:
                return self.objects.number(plain)
            except TypeError:
                raise error("C018", f"{value!r} cannot be hashed, as values must be") from None
        for match in (_as_number, _as_day, _as_decimal):
            if (found := match(plain, kind, self.kind)) is not plain:
                if found is None:
                    return None
                plain, kind = found, self.kind
        if kind is not self.kind:
            shown = "no value that a relation can have" if kind is Kind.OBJECT else None
            raise error("C018", f"{value!r} is {shown or f'no {self.kind.value}'}")
        if isinstance(self.coding, TextDomain):
            return int(self.coding.take([plain])[0])
        rank = rank_of(cast("Value", plain))
        return rank if LEAST <= rank <= MOST else None

    def encode_all(self, values: Iterable[object]) -> Codes:
        """The ranks of several values, without those that cannot occur."""
        words = (self.encode(value) for value in values)
        return np.array([word for word in words if word is not None], np.int64)

    def decode(self, words: Codes) -> np.ndarray:
        """The values of ranks: integers, doubles, booleans, times, days, or objects."""
        match self.kind:
            case Kind.INTEGER:
                return words
            case Kind.FLOAT:
                return rank_floats(words)
            case Kind.BOOLEAN:
                return words != 0
            case Kind.DATETIME:
                return words.astype("datetime64[us]")
            case Kind.DATE:
                return words.astype("datetime64[D]")
            case _:
                every = self.known_values()
                known = np.empty(len(every), object)
                known[:] = every
                return known[words]

    def known_values(self) -> list[Any]:
        """The values of a kind that has a dictionary, by number."""
        return self.coding.texts if isinstance(self.coding, TextDomain) else self.objects.values

    def values(self, words: Codes) -> list[Any]:
        """The values of ranks as Python has them."""
        return self.decode(words).tolist()

    def arrow(self, words: Codes) -> pa.Array:
        """The values of ranks as an Arrow array."""
        decoded = self.decode(words)
        if self.kind is Kind.DECIMAL:
            wide = pa.array(decoded, CODED[self.kind])
            try:
                return wide.cast(pa.decimal128(38, 18))
            except pa.ArrowInvalid:  # more digits after the point, or before it
                return wide
        if self.kind is not Kind.OBJECT:
            return pa.array(decoded, CODED.get(self.kind))
        try:
            return pa.array(decoded.tolist())
        except pa.ArrowException as problem:
            said = f"Arrow has no column for these Python values: {problem}"
            raise error("C012", said, help="take the answers as rows") from None


def _as_number(value: object, kind: Kind, wanted: Kind) -> object:
    """A double for an integer and an integer for a whole double; None where there is none."""
    if wanted is Kind.FLOAT and kind is Kind.INTEGER:
        return float(cast("int", value))
    if wanted is Kind.INTEGER and isinstance(value, float):
        return int(value) if value.is_integer() and LEAST <= int(value) <= MOST else None
    return value


def _as_day(value: object, kind: Kind, wanted: Kind) -> object:
    """The midnight that begins a day, and the day that begins with a midnight."""
    if wanted is Kind.DATETIME and kind is Kind.DATE:
        return dt.datetime.combine(cast("dt.date", value), dt.time())
    if wanted is Kind.DATE and isinstance(value, dt.datetime):
        return value.date() if value == dt.datetime.combine(value, dt.time()) else None
    return value


def _as_decimal(value: object, kind: Kind, wanted: Kind) -> object:
    if wanted is Kind.DECIMAL and kind in (Kind.INTEGER, Kind.FLOAT):
        return Decimal(cast("int | float", value))
    return value


@dataclass(frozen=True, slots=True)
class EncodedFacts:
    """The columns of a relation, as Arrow has them, or as lists of Python values."""

    names: tuple[str, ...]
    columns: tuple[pa.ChunkedArray | list[object], ...]
    rows: int


def decode_objects(table: pa.Table, columns: Sequence[Column], objects: Objects) -> EncodedFacts:
    """What an engine has of a relation, with values in the place of the numbers of objects."""
    found = [
        objects.decoded(data.to_pylist()) if column.type is Type.OBJECT else data
        for column, data in zip(columns, table.columns, strict=True)
    ]
    return EncodedFacts(tuple(table.column_names), tuple(found), table.num_rows)


class Library:
    """Relations by name, each encoded when first used, in the kinds it is used in."""

    def __init__(self, relations: Mapping[str, Data]) -> None:
        self.objects = Objects()
        self._facts: dict[str, EncodedFacts] = {}
        self._domains: dict[Kind, VariableDomain] = {}
        self._encoded: dict[tuple[str, tuple[Kind, ...]], StoredRelation] = {}
        for name, data in relations.items():
            self.put(name, data)

    def put(self, name: str, data: Data) -> None:
        """Give a relation its facts, in place of any it had."""
        self._facts[name] = as_facts(name, data)
        self._encoded = {key: r for key, r in self._encoded.items() if key[0] != name}

    def without(self, name: str) -> Library:
        """The same but for one relation; whoever searches this one still has it."""
        other = Library({})
        other.objects, other._domains = self.objects, self._domains
        other._facts = {key: facts for key, facts in self._facts.items() if key != name}
        other._encoded = {key: r for key, r in self._encoded.items() if key[0] != name}
        return other

    def __contains__(self, name: object) -> bool:
        return name in self._facts

    @property
    def names(self) -> list[str]:
        """The relations there are."""
        return list(self._facts)

    def domain(self, kind: Kind, first: Codes | None = None) -> VariableDomain:
        """The domain of a kind; the `first` ranks that it gets tell how they are best numbered."""
        if kind not in self._domains:
            some = np.empty(0, np.int64) if first is None else first
            most = 256 * thresholds.now.dense
            near = int(some.min(initial=0)) >= 0 and int(some.max(initial=0)) < most
            coding: OffsetDomain | InternedDomain | TextDomain = InternedDomain(kind)
            if kind in CODED:
                coding = TextDomain((), kind)
            elif near and kind not in (Kind.FLOAT, Kind.DATETIME):
                coding = OffsetDomain(kind, 0, 1, grows=True)
            self._domains[kind] = VariableDomain(kind, coding, self.objects)
        return self._domains[kind]

    def kinds(self, name: str) -> tuple[Kind, ...]:
        """The kinds of a relation's columns."""
        facts = self._facts[name]
        return tuple(_kind(name, *each) for each in zip(facts.names, facts.columns, strict=True))

    def relation(self, name: str, kinds: Sequence[Kind]) -> StoredRelation:
        """A relation with its columns encoded as the given kinds."""
        key = (name, tuple(kinds))
        if key not in self._encoded:
            facts = self._facts[name]
            columns = [
                self._ranks(name, *each)
                for each in zip(facts.names, facts.columns, kinds, strict=True)
            ]
            domains = [self.domain(*each) for each in zip(kinds, columns, strict=True)]
            self._encoded[key] = stored_ranks(domains, columns, facts.rows)
        return self._encoded[key]

    def _ranks(
        self, name: str, column: str, data: pa.ChunkedArray | list[object], kind: Kind
    ) -> Codes:
        missing = None in data if isinstance(data, list) else data.null_count
        if missing:
            raise error("C036", f"`{name}` has missing values in column `{column}`")
        if isinstance(data, list):
            try:
                return np.array([self.objects.number(value) for value in data], np.int64)
            except TypeError as problem:
                said = f"`{name}` has values in column `{column}` that cannot be hashed: {problem}"
                raise error("C012", said) from None
        whole = data.combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], data.type)
        if pa.types.is_dictionary(whole.type):
            whole = whole.dictionary_decode()
        if kind in DICTIONARIES:
            known = cast("pa.Array", whole.cast(CODED[kind]) if kind in CODED else whole)
            coded = cast("Any", known.dictionary_encode())
            values, coding = coded.dictionary.to_pylist(), self.domain(kind).coding
            places = (
                coding.take(values)
                if isinstance(coding, TextDomain)
                else np.array([self.objects.number(value) for value in values], np.int64)
            )
            return places[coded.indices.to_numpy()].astype(np.int64)
        if pa.types.is_uint64(whole.type) and len(whole) and int(whole.to_numpy().max()) > MOST:
            raise error(
                "C032", f"`{name}` has values in column `{column}` that do not fit in 64 bits"
            )
        return arrow_ranks(whole, kind)


def stored_ranks(
    domains: Sequence[VariableDomain], columns: Sequence[Codes], rows: int
) -> StoredRelation:
    """A relation of facts that are given by their ranks."""
    words = [domain.coding.words(ranks) for domain, ranks in zip(domains, columns, strict=True)]
    batches = [(words, rows if words else 1)] if rows else []
    return StoredRelation.of([domain.coding for domain in domains], batches)


def as_facts(name: str, data: Data) -> EncodedFacts:
    """The facts of a relation, from the usual ways to hold rows."""
    if isinstance(data, EncodedFacts):
        return data
    if callable(getattr(data, "arrow", None)):
        data = cast("Any", data).arrow()
    elif hasattr(data, "__arrow_c_stream__"):
        data = pa.table(cast("Any", data))
    if isinstance(data, pa.Table):
        table = cast("pa.Table", data)
        return EncodedFacts(tuple(table.column_names), tuple(table.columns), table.num_rows)
    if isinstance(data, Mapping):
        given = cast("Mapping[str, Any]", data)
        columns = tuple(_column(values) for values in given.values())
        if len(lengths := {len(column) for column in columns}) > 1:
            raise error("C031", f"`{name}` has columns of several lengths")
        return EncodedFacts(tuple(given), columns, max(lengths, default=0))
    rows = [tuple(row) for row in cast("Iterable[Any]", data)]
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        how = "has rows of several lengths" if widths else "has no rows to take columns from"
        raise error("C031", f"`{name}` {how}", help="an Arrow table has columns even without rows")
    columns = tuple(_column([row[i] for row in rows]) for i in range(widths.pop()))
    return EncodedFacts(tuple(f"column{i + 1}" for i in range(len(columns))), columns, len(rows))


def _column(values: Any) -> pa.ChunkedArray | list[object]:
    """Values as an Arrow column, or as they are if Arrow has none or takes them apart."""
    if isinstance(values, pa.ChunkedArray):
        return values
    try:
        column = values if isinstance(values, pa.Array) else pa.array(values)
    except (pa.ArrowException, OverflowError):
        return list(values)
    return list(values) if pa.types.is_nested(column.type) else pa.chunked_array([column])


def _kind(relation: str, name: str, column: pa.ChunkedArray | list[object]) -> Kind:
    if isinstance(column, list):
        return Kind.OBJECT
    type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    checks = (
        (pa.types.is_integer, Kind.INTEGER),
        (pa.types.is_floating, Kind.FLOAT),
        (pa.types.is_boolean, Kind.BOOLEAN),
        (pa.types.is_string, Kind.STRING),
        (pa.types.is_large_string, Kind.STRING),
        (pa.types.is_timestamp, Kind.DATETIME),
        (pa.types.is_date, Kind.DATE),
        (pa.types.is_decimal, Kind.DECIMAL),
        (pa.types.is_binary, Kind.BINARY),
        (pa.types.is_large_binary, Kind.BINARY),
    )
    for is_type, kind in checks:
        if is_type(type):
            return kind
    raise error("C012", f"column `{name}` of `{relation}` has type {type}: not supported")
