"""Relations of values, encoded for the search once and kept: what `find` looks things up in.

A word is the rank of a value (columns/ranks.py), or, for texts, its number in one dictionary that
all relations of the library share and that only grows. So tries stay good when relations are added.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from caladan.columns.ranks import Kind, arrow_ranks, kind_of_value, rank_floats, rank_of
from caladan.errors import error
from caladan.program import Value
from caladan.search.frontier import Words
from caladan.search.relation import Relation

Data: TypeAlias = object  # Arrow table, anything with arrow() or __arrow_c_stream__, rows, columns


class Texts:
    """Texts by number, in order of appearance."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._texts: list[str] = []
        self._order: Words | None = None

    def numbers(self, column: pa.Array) -> Words:
        """The number of each text; new texts get the next numbers."""
        encoded = column.dictionary_encode()
        places = np.array([self.number(text) for text in encoded.dictionary.to_pylist()], np.int64)
        return places[encoded.indices.to_numpy()] if len(places) else np.empty(0, np.int64)

    def number(self, text: str) -> int:
        """The number of a text, which may be new."""
        number = self._numbers.setdefault(text, len(self._texts))
        if number == len(self._texts):
            self._texts.append(text)
            self._order = None
        return number

    def texts(self, numbers: Words) -> np.ndarray:
        """The texts of numbers, as an array of objects."""
        return np.array(self._texts, object)[numbers]

    def places(self, numbers: Words) -> Words:
        """Where texts stand in alphabetical order, so that they can be compared."""
        if self._order is None:
            ranked = sorted(range(len(self._texts)), key=self._texts.__getitem__)
            self._order = np.empty(len(ranked), np.int64)
            self._order[ranked] = np.arange(len(ranked))
        return self._order[numbers]

    def between(self, low: str, high: str) -> list[int]:
        """The numbers of the texts from low to high."""
        return [number for number, text in enumerate(self._texts) if low <= text <= high]


@dataclass(frozen=True, slots=True)
class Domain:
    """The values of a variable: how they become words, and words values."""

    kind: Kind
    texts: Texts

    def encode(self, value: object) -> int | None:
        """The word of a Python value; None if no value of this kind equals it."""
        plain = value.item() if isinstance(value, np.generic) else value
        if isinstance(plain, dt.date) and not isinstance(plain, dt.datetime):
            plain = dt.datetime(plain.year, plain.month, plain.day)
        if not isinstance(plain, bool | int | float | str | dt.datetime):
            raise error("C018", f"{value!r} is no value that a relation can have")
        kind = kind_of_value(plain)
        if self.kind is Kind.FLOAT and kind is Kind.INTEGER:
            return rank_of(float(cast("int", plain)))
        if self.kind is Kind.INTEGER and isinstance(plain, float):
            return int(plain) if plain.is_integer() and abs(plain) < 2**63 else None
        if kind is not self.kind:
            raise error("C018", f"{plain!r} is no {self.kind.value}")
        if isinstance(plain, str):
            return self.texts.number(plain)
        rank = rank_of(plain)
        return rank if -(2**63) <= rank < 2**63 else None

    def encode_all(self, values: Iterable[object]) -> Words:
        """The words of several values, without those that cannot occur."""
        words = (self.encode(value) for value in values)
        return np.array([word for word in words if word is not None], np.int64)

    def decode(self, words: Words) -> np.ndarray:
        """The values of words: integers, doubles, booleans, datetimes, or texts as objects."""
        match self.kind:
            case Kind.INTEGER:
                return words
            case Kind.FLOAT:
                return rank_floats(words)
            case Kind.BOOLEAN:
                return words != 0
            case Kind.DATETIME:
                return words.astype("datetime64[us]")
            case _:  # texts: `_kind` gives no other
                return self.texts.texts(words)

    def values(self, words: Words) -> list[Value]:
        """The values of words as Python has them."""
        return self.decode(words).tolist()

    def comparable(self, words: Words) -> np.ndarray:
        """Numbers that compare as the values do."""
        if self.kind is Kind.STRING:
            return self.texts.places(words)
        return rank_floats(words) if self.kind is Kind.FLOAT else words


class Library:
    """Relations by name, each encoded when first used, in the kinds it is used in."""

    def __init__(self, relations: Mapping[str, Data]) -> None:
        self.texts = Texts()
        self._tables: dict[str, pa.Table] = {}
        self._encoded: dict[tuple[str, tuple[Kind, ...]], Relation] = {}
        for name, data in relations.items():
            self.put(name, data)

    def put(self, name: str, data: Data) -> None:
        """Give a relation its facts, in place of any it had."""
        self._tables[name] = as_table(name, data)
        self._encoded = {key: r for key, r in self._encoded.items() if key[0] != name}

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    @property
    def names(self) -> list[str]:
        """The relations there are."""
        return list(self._tables)

    def kinds(self, name: str) -> tuple[Kind, ...]:
        """The kinds of a relation's columns."""
        return tuple(_kind(name, field) for field in self._tables[name].schema)

    def relation(self, name: str, kinds: Sequence[Kind]) -> Relation:
        """A relation with its columns encoded as the given kinds."""
        key = (name, tuple(kinds))
        if key not in self._encoded:
            table = self._tables[name]
            columns = [
                self._words(name, table.column_names[i], column, kind)
                for i, (column, kind) in enumerate(zip(table.columns, kinds, strict=True))
            ]
            self._encoded[key] = Relation.of_rows(columns, table.num_rows)
        return self._encoded[key]

    def _words(self, name: str, column: str, data: pa.ChunkedArray, kind: Kind) -> Words:
        if data.null_count:
            raise error("C036", f"`{name}` has missing values in column `{column}`")
        whole = data.combine_chunks()
        if isinstance(whole, pa.ChunkedArray):
            whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], data.type)
        if pa.types.is_dictionary(whole.type):
            whole = whole.dictionary_decode()
        if kind is Kind.STRING:
            return self.texts.numbers(whole.cast(pa.string()))
        if pa.types.is_uint64(whole.type) and len(whole) and whole.to_numpy().max() >= 2**63:
            raise error("C032", f"`{name}` has values in column `{column}` that need 65 bits")
        return arrow_ranks(whole, kind)


def as_table(name: str, data: Data) -> pa.Table:
    """The facts of a relation as an Arrow table, from the usual ways to hold rows."""
    if isinstance(data, pa.Table):
        return data
    if callable(getattr(data, "arrow", None)):
        return cast("Any", data).arrow()
    if hasattr(data, "__arrow_c_stream__"):
        return pa.table(cast("Any", data))
    if isinstance(data, Mapping):
        return pa.table(dict(cast("Mapping[str, Any]", data)))
    rows = [tuple(row) for row in cast("Iterable[Any]", data)]
    widths = {len(row) for row in rows}
    if len(widths) != 1:
        how = "has rows of several lengths" if widths else "has no rows to take columns from"
        raise error("C031", f"`{name}` {how}", help="an Arrow table has columns even without rows")
    columns = [pa.array([row[i] for row in rows]) for i in range(widths.pop())]
    return pa.table(columns, names=[f"column{i + 1}" for i in range(len(columns))])


def _kind(relation: str, field: pa.Field) -> Kind:
    type = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
    checks = (
        (pa.types.is_integer, Kind.INTEGER),
        (pa.types.is_floating, Kind.FLOAT),
        (pa.types.is_boolean, Kind.BOOLEAN),
        (pa.types.is_string, Kind.STRING),
        (pa.types.is_large_string, Kind.STRING),
        (pa.types.is_timestamp, Kind.DATETIME),
        (pa.types.is_date, Kind.DATETIME),
    )
    for is_type, kind in checks:
        if is_type(type):
            return kind
    raise error("C012", f"column `{field.name}` of `{relation}` has type {type}: not supported")
