"""Domains: the values of a class of columns as words, and back.

Columns that can meet (in a join, or because a rule copies one into the other) share a domain, so
equal values are equal words there. A domain knows its values by rank (see ranks.py); texts,
decimals and binary data by their dictionary.

    OffsetDomain    word = rank - base: integers that lie close together, or that rules compute
    SortedDomain    word = place among the distinct values, in order
    InternedDomain  word = order of appearance: computed doubles; grows
    CodedDomain     word = place in a sorted dictionary of texts, decimals or binary data
    TextDomain      word = order of appearance: texts that rules compute (texts.py); grows

`closed_domain` picks the cheapest for values that are known in full and encodes them on the way.

No word is `ABSENT`: distances from a base are below FAR, and an interner counts no further than one
below ABSENT. So ABSENT (`NONE` among classes) can mark what has no word.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Final, Literal, TypeAlias

import numpy as np
import pyarrow as pa

from caladan.columns.interner import ABSENT, Interner
from caladan.columns.layout import Mask, Words
from caladan.columns.ranks import (
    CODED,
    MOST,
    Ranks,
    arrow_of,
    arrow_ranks,
    numpy_of,
    rank_arrow,
    rank_of,
)
from caladan.columns.texts import TextDomain
from caladan.data.schema import array_of, compute as pc
from caladan.program import Value, thresholds
from caladan.program.kinds import Kind

FAR: Final = 1 << 31  # words from here on are the numbers of interned values


class OffsetDomain:
    """Integers by their distance from a base; those far from it are interned."""

    def __init__(self, kind: Kind, base: int, size: int, *, grows: bool) -> None:
        self.kind = kind
        self.grows = grows
        self.size = max(size, 1)
        self.base = base
        self._far = Interner(most=ABSENT - FAR)  # so that no word is ABSENT

    def fork(self) -> None:
        """Have values of one's own from now on."""
        self._far = self._far.copy()

    @property
    def nbytes(self) -> int:
        """What the values take that are far from the base."""
        return self._far.nbytes

    @property
    def is_near(self) -> bool:
        """Whether every word so far is a distance from the base."""
        return self.size <= FAR

    def words(self, ranks: Ranks) -> Words:
        """The words of ranks; a closed domain has all of them."""
        if not len(ranks):
            return np.empty(0, np.uint32)
        low, high = int(ranks.min()), int(ranks.max())
        if low >= self.base and high - self.base < FAR:
            self.size = max(self.size, high - self.base + 1)
            return (ranks - self.base).astype(np.uint32)
        near = _within(ranks, self.base, FAR)
        words: Words = np.empty(len(ranks), np.uint32)
        words[near] = (ranks[near] - self.base).astype(np.uint32)
        ids, _ = self._far.ids(ranks[~near].view(np.uint64))
        words[~near] = ids + np.uint32(FAR)
        self.size = FAR + len(self._far)
        return words

    def ranks(self, words: Words) -> Ranks:
        if self.is_near:
            return words.astype(np.int64) + self.base
        near = words < FAR
        ranks: Ranks = np.empty(len(words), np.int64)
        ranks[near] = words[near].astype(np.int64) + self.base
        ranks[~near] = self._far.keys.view(np.int64)[words[~near] - np.uint32(FAR)]
        return ranks

    def find(self, rank: int) -> int | None:
        """The word of a rank, None if no fact can have it."""
        if self.base <= rank < self.base + FAR:
            return rank - self.base if rank - self.base < self.size else None
        word = int(self._far.find(np.array([rank], np.int64).view(np.uint64))[0])
        return None if word == ABSENT else word + FAR

    def arrow(self, words: Words, type: pa.DataType) -> pa.Array:
        return rank_arrow(self.ranks(words), self.kind, type)


class SortedDomain:
    """The distinct ranks in order."""

    grows = False

    def __init__(self, kind: Kind, ranks: Ranks) -> None:
        self.kind = kind
        self.size = max(len(ranks), 1)
        self._ranks = ranks

    @property
    def has_values(self) -> bool:
        return bool(len(self._ranks))

    @property
    def address(self) -> int:
        """Where the ranks stand, in the order of words."""
        return self._ranks.ctypes.data

    def words(self, ranks: Ranks) -> Words:
        return self.places(ranks).astype(np.uint32)

    def places(self, ranks: Ranks, side: Literal["left", "right"] = "left") -> Ranks:
        """The words at which ranks stand, or would stand."""
        return np.searchsorted(self._ranks, ranks, side=side)

    def ranks(self, words: Words) -> Ranks:
        return self._ranks[words]

    def find(self, rank: int) -> int | None:
        at = int(np.searchsorted(self._ranks, rank))
        return at if at < len(self._ranks) and self._ranks[at] == rank else None

    def arrow(self, words: Words, type: pa.DataType) -> pa.Array:
        return rank_arrow(self.ranks(words), self.kind, type)


class InternedDomain:
    """Ranks in order of appearance: for values that rules compute."""

    grows = True

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._known = Interner()

    def fork(self) -> None:
        """Have values of one's own from now on."""
        self._known = self._known.copy()

    @property
    def nbytes(self) -> int:
        """What the values take."""
        return self._known.nbytes

    @property
    def size(self) -> int:
        return max(len(self._known), 1)

    def words(self, ranks: Ranks) -> Words:
        return self._known.ids(ranks.view(np.uint64))[0]

    def ranks(self, words: Words) -> Ranks:
        return self._known.keys.view(np.int64)[words]

    def find(self, rank: int) -> int | None:
        word = int(self._known.find(np.array([rank], np.int64).view(np.uint64))[0])
        return None if word == ABSENT else word

    def arrow(self, words: Words, type: pa.DataType) -> pa.Array:
        return rank_arrow(self.ranks(words), self.kind, type)


class CodedDomain:
    """Values of a dictionary, in order; that of texts is the order of their characters."""

    grows = False

    def __init__(self, kind: Kind, values: pa.Array) -> None:
        self.kind = kind
        self.values = values
        self.size = max(len(values), 1)
        self._found: dict[Value, int | None] = {}

    def words(self, ranks: Ranks) -> Words:
        return ranks.astype(np.uint32)

    def ranks(self, words: Words) -> Ranks:
        """Words are in order, so they are ranks; only those of the same domain compare."""
        return words.astype(np.int64)

    def find(self, value: Value) -> int | None:
        if value not in self._found:  # rules ask for the same few constants, every round
            sought = array_of([value], self.values.type)[0]
            at = int(pc.index(self.values, sought).as_py())
            self._found[value] = None if at < 0 else at
        return self._found[value]

    def arrow(self, words: Words, type: pa.DataType) -> pa.Array:
        return self.values.take(arrow_of(words)).cast(type)


Domain: TypeAlias = OffsetDomain | SortedDomain | InternedDomain | CodedDomain | TextDomain


def fork(domain: Domain) -> Domain:
    """A domain with the same words, which takes in values by itself; a closed one is its own."""
    if not domain.grows:
        return domain
    copied = copy(domain)
    if isinstance(copied, OffsetDomain | InternedDomain | TextDomain):
        copied.fork()
    return copied


def is_ordered(domain: Domain) -> bool:
    """Whether words are in the order of their values."""
    near = isinstance(domain, OffsetDomain) and domain.is_near
    return near or isinstance(domain, SortedDomain | CodedDomain)


def find_between(
    domain: Domain, low: Ranks | None, high: Ranks | None
) -> tuple[Words, Words] | None:
    """The first and the last word of the values between ranks, row by row; an end may be open.

    Where there are none, the first comes behind the last. None if words are in no order.
    """
    if isinstance(domain, OffsetDomain) and domain.is_near:
        first, last = domain.base, domain.base + domain.size - 1

        def places(ranks: Ranks) -> Ranks:
            return np.clip(ranks, first, last) - domain.base

        # A range that ends before the first value, or starts behind the last, is empty.
        lower = None if low is None else places(low) + (low > last)
        upper = None if high is None else places(high) - (high < first)
    elif isinstance(domain, SortedDomain):
        first, last = 0, domain.size - 1
        lower = None if low is None else domain.places(low)
        upper = None if high is None else domain.places(high, side="right") - 1
    elif isinstance(domain, CodedDomain):  # ranks are places in the dictionary
        first, last, lower, upper = 0, domain.size - 1, low, high
    else:
        return None
    if lower is None:
        assert upper is not None
        lower = np.zeros_like(upper)
    if upper is None:
        upper = np.full_like(lower, last - first)
    empty = lower > upper
    lower, upper = np.where(empty, 1, lower), np.where(empty, 0, upper)
    return lower.astype(np.uint32), upper.astype(np.uint32)


def word_of(value: Value, domain: Domain) -> int | None:
    """The word of a Python value, None if the domain does not have it."""
    if isinstance(domain, CodedDomain):
        return domain.find(value)
    if isinstance(domain, TextDomain):
        return domain.find(str(value) if domain.kind is Kind.STRING else value)
    if domain.kind is Kind.FLOAT and isinstance(value, int):
        value = float(value)
    return domain.find(rank_of(value))


def known_words(domain: Domain, ranks: Ranks) -> tuple[Words, Mask]:
    """The words of ranks, and which of them a closed domain has; an open one has them all."""
    match domain:
        case SortedDomain():
            words = np.minimum(domain.words(ranks), np.uint32(domain.size - 1))
            if not domain.has_values:
                return words, np.zeros(len(ranks), np.bool_)
            return words, domain.ranks(words) == ranks
        case OffsetDomain() if not domain.grows:
            near = _within(ranks, domain.base, domain.size)
            return (np.where(near, ranks, domain.base) - domain.base).astype(np.uint32), near
        case _:
            return domain.words(ranks), np.ones(len(ranks), np.bool_)


def closed_domain(kind: Kind, columns: Sequence[Ranks]) -> tuple[Domain, list[Words]]:
    """A domain for all values of some columns, and the columns in its words."""
    filled = [column for column in columns if len(column)]
    low = min((int(column.min()) for column in filled), default=0)
    high = max((int(column.max()) for column in filled), default=0)
    values = sum(map(len, filled))
    if high - low < FAR and high - low < max(thresholds.now.roomy * values, thresholds.now.dense):
        near = OffsetDomain(kind, low, high - low + 1, grows=False)
        return near, [near.words(column) for column in columns]
    interner = Interner()
    ids = [interner.ids(column.view(np.uint64))[0] for column in columns]
    ranks = interner.keys.view(np.int64)
    order = np.argsort(ranks)
    place: Words = np.empty(len(ranks), np.uint32)
    place[order] = np.arange(len(ranks), dtype=np.uint32)
    return SortedDomain(kind, ranks[order]), [place[each] for each in ids]


def computed_domain(kind: Kind, columns: Sequence[Ranks]) -> tuple[Domain, list[Words]]:
    """A domain that takes in what rules compute, and the columns in its words."""
    if kind is Kind.FLOAT:
        domain: Domain = InternedDomain(kind)
    else:
        low = min((int(column.min()) for column in columns if len(column)), default=0)
        high = max((int(column.max()) for column in columns if len(column)), default=0)
        # Counting from 0 where it costs little: computed values may be smaller than given ones.
        close = 0 <= low < 1 << 24 or high - low >= FAR
        domain = OffsetDomain(kind, 0 if close else low, 1, grows=True)
    return domain, [domain.words(column) for column in columns]


def coded_domain(kind: Kind, columns: Sequence[pa.ChunkedArray]) -> tuple[CodedDomain, list[Words]]:
    """A domain for all values of some columns, and the columns in its words."""
    type = CODED[kind]
    filled = [column for column in columns if len(column)]
    if not filled:
        return CodedDomain(kind, pa.array([], type)), [np.empty(0, np.uint32) for _ in columns]
    alike = len({column.type for column in filled}) == 1  # wide types take longer to tell apart
    chunks = [c if alike else c.cast(type) for column in filled for c in column.chunks]
    encoded = pa.concat_arrays(chunks).dictionary_encode()
    values = encoded.dictionary.cast(type)
    order = pc.call_function("array_sort_indices", [values])
    place: Words = np.empty(len(order), np.uint32)
    place[numpy_of(order)] = np.arange(len(order), dtype=np.uint32)
    words = place[numpy_of(encoded.indices)]
    ends = np.cumsum([len(column) for column in columns])
    return CodedDomain(kind, values.take(order)), np.split(words, ends[:-1])


def text_domain(
    columns: Sequence[pa.ChunkedArray], kind: Kind = Kind.STRING
) -> tuple[TextDomain, list[Words]]:
    """A domain that takes in texts that rules compute, and the columns in its words."""
    known, words = coded_domain(kind, columns)
    return TextDomain(known.values, kind), words


def encode(column: pa.ChunkedArray, domain: Domain) -> Words:
    """The words of some values; a domain that is open takes in those that it does not have."""
    if isinstance(domain, TextDomain):
        whole = column.cast(CODED[domain.kind]).combine_chunks()
        return domain.take_column(whole)
    if isinstance(domain, CodedDomain):
        found = [domain.find(value) for value in column.cast(CODED[domain.kind]).to_pylist()]
        assert None not in found, "only open domains take in values"
        return np.array(found, np.uint32)
    return domain.words(arrow_ranks(column, domain.kind))


def _within(ranks: Ranks, base: int, size: int) -> Mask:
    """Which ranks are among the first `size` from a base on.

    Both ends are included: behind the last of all integers there is none to stop at.

    >>> _within(np.array([2**63 - 1, 2**63 - 2, -(2**63)]), 2**63 - 2, 1 << 31).tolist()
    [True, True, False]
    """
    return (ranks >= base) & (ranks <= min(base + size - 1, MOST))
