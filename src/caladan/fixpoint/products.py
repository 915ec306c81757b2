"""Products: the last lookup of a rule as a product of bit rows.

In `d(X, Z) <- d(X, Y), d(Y, Z)` over dense relations nearly every solution derives what others did.
So solutions are not gone through one by one. The last column of the head has a bit for each of its
words, and whole rows of them are put together, 64 facts in an instruction:

    the lookup finds that column     the rows are what is found for each key of the lookup;
                                     the row of a key goes into that of every solution with the key
    the solutions bring it along     the rows are those of the solutions that differ in nothing
                                     else; such a row goes to every fact that is found for them

What is known already, in the bitmap of the head's facts, is taken out of the rows that result, and
only what is left is listed. Tests behind the lookup that read nothing but the head's columns are
made of that; what fails them is remembered in a bitmap too, and not listed again in the round.
Tests that read nothing but the columns of the lookup are made of its facts, before they are put
into rows. Where facts are few for a solution the head takes them one by one (`DirectHead`);
`is_worth` weighs the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import is_
from threading import Lock
from typing import Final, TypeAlias

import numpy as np

from caladan.columns.index import PackedIndex
from caladan.columns.interner import Interner, Tuples
from caladan.columns.kernels import bits
from caladan.columns.layout import Keys, Mask, Words
from caladan.columns.packed import PackedRelation
from caladan.program import thresholds

Factors: TypeAlias = "tuple[Keys, Iterator[tuple[Words, Keys]]]"
"""Rows of bits, and batches of pairs: the number of a row, and the head key that it goes to."""

_NOTHING: Final = np.empty(0, np.uint64)

LEAST_WIDTH: Final = 6
"""The bits of a last column whose rows are whole words of the bitmap."""


class KeyRows:
    """The facts of a lookup as bit rows by its keys, while they are asked for in the same way.

    A rule may end in several ways: a test that fails for one batch is put off behind the lookup.
    """

    def __init__(self) -> None:
        self._made_of: list[object] = []
        self._rows: Keys | None = None
        self._refused: Keys | None = None
        self._making = Lock()  # several threads have parts of the solutions

    def of(self, last: LastLookup) -> Keys:
        """A row for every possible key."""
        with self._making:
            index, column = last.index, last.moves[0][0]
            made_of = [index.packing, column, *last.tested, *index.runs]
            same = len(made_of) == len(self._made_of) and all(map(is_, made_of, self._made_of))
            if self._rows is None or not same:
                shift, mask = index.packing.shifts[column], index.packing.masks[column]
                self._rows = np.zeros((1 << last.key_bits, last.words), np.uint64)
                for run in index.runs:
                    for at in range(0, len(run), thresholds.now.block):
                        keys = run.keys[at : at + thresholds.now.block]
                        keys = keys if last.fitting is None else last.fitting(keys)
                        bits.set_key_bits(self._rows, keys, index.shift, shift, mask)
                self._made_of = made_of
            return self._rows

    def refused(self, known: Keys) -> Keys:
        """The facts that are known to fail the rule's tests, as a bitmap like that of `known`."""
        with self._making:
            if self._refused is None or len(self._refused) != len(known):
                self._refused = np.zeros_like(known)
            return self._refused

    def forget(self) -> None:
        """The rule has all its solutions of a round."""
        self._rows, self._refused, self._made_of = None, None, []


@dataclass(frozen=True, slots=True)
class LastLookup:
    """The last lookup of a rule, and what its head makes of it.

    `bases` are the head keys of the solutions before it, without the columns that it finds; `moves`
    are those: the column found, and where it goes in the head key. The last column of the head has
    `size` words at most. If something is tested behind the lookup, `fitting` has those of its facts
    that pass the tests of their own columns, which are `tested`, and `passing` which facts of the
    head pass what is tested of them.
    """

    head: PackedRelation
    index: PackedIndex
    keys: Keys
    lead: int
    bases: Keys
    moves: Sequence[tuple[int, int]]
    size: int
    rows: KeyRows
    tested: Sequence[object]
    fitting: Callable[[Keys], Keys] | None
    passing: Callable[[Keys], Words] | None

    @property
    def key_bits(self) -> int:
        """The bits of a key of the lookup."""
        return sum(self.index.packing.widths) - self.index.shift

    @property
    def width(self) -> int:
        """The bits of the head's last column."""
        return self.head.widths[-1] if self.head.arity else 0

    @property
    def words(self) -> int:
        """The 64-bit words of a row."""
        return -(-self.size // 64)

    @property
    def finds_last(self) -> bool:
        """Whether the lookup finds the last column, and nothing else."""
        return len(self.moves) == 1 and self.moves[0][1] == 0

    @property
    def brings_last(self) -> bool:
        """Whether the solutions have the last column."""
        return all(shift >= self.width for _, shift in self.moves)

    @property
    def most_rows(self) -> int:
        """As many rows as may be held at a time."""
        return max(1, thresholds.now.product_bytes // (8 * max(1, self.words)))

    def is_worth(self, solutions: float, pairs: int) -> bool:
        """Whether so many pairs of rows cost less than the solutions they stand for."""
        price = thresholds.now
        return solutions > pairs * (price.product_pair + price.product_word * self.words)

    def is_likely(self) -> bool:
        """Whether a product may pay, by what is found for a sample of the solutions."""
        step = max(1, len(self.keys) // thresholds.now.sample)
        sample = self.keys[::step].copy()
        fan_out = self.index.find(sample, self.lead).total / max(1, len(sample))
        return self.is_worth(fan_out, 1 if self.finds_last else 0)


def multiply(last: LastLookup, solutions: int, check: Callable[[], None]) -> bool:
    """Derive what a last lookup leads to by products, if that pays; `solutions` is how much."""
    if last.width < LEAST_WIDTH or not (last.finds_last or last.brings_last):
        return False
    if last.fitting is not None and not last.finds_last:
        return False
    if not last.is_worth(solutions, len(last.keys) if last.finds_last else 1):
        return False
    factors = _found(last) if last.finds_last else _brought(last, solutions)
    known = None if factors is None else last.head.bitmap(solutions)
    if factors is None or known is None:
        return False
    refused = last.rows.refused(known) if last.passing is not None else _NOTHING
    rows, pairs = factors
    for numbers, bases in pairs:
        check()
        heads = Interner()
        ids, _ = heads.ids(bases)
        product: Keys = np.zeros((len(heads), last.words), np.uint64)
        bits.unite_rows(product, ids, rows, numbers)
        new: Keys = np.empty(bits.keep_unknown(product, heads.keys, known, refused), np.uint64)
        bits.list_rows(product, heads.keys, new)
        if last.passing is not None:
            there: Mask = np.zeros(len(new), np.bool_)
            there[last.passing(new)] = True
            bits.set_key_bits(refused.reshape(-1, 1), new[~there], LEAST_WIDTH, 0, 63)
            new = new[there]
        last.head.add_keys(new)
    return True


def _found(last: LastLookup) -> Factors | None:
    """Rows of what is found for each key; pairs of the solutions with their keys' rows."""
    if 1 << last.key_bits <= last.most_rows:
        rows = last.rows.of(last)
        numbers = last.keys.astype(np.uint32)
    else:
        interner = Interner()
        numbers, _ = interner.ids(last.keys)
        if len(interner) > last.most_rows or last.fitting is not None:
            return None
        rows: Keys = np.zeros((len(interner), last.words), np.uint64)
        column, _ = last.moves[0]
        for found, hits in last.index.find(interner.keys, last.lead).chunks(thresholds.now.room):
            bits.set_bits(rows, found, last.index.column(hits, column))
    step = last.most_rows
    parts = (slice(at, at + step) for at in range(0, len(numbers), step))
    return rows, ((numbers[part], last.bases[part]) for part in parts)


def _brought(last: LastLookup, solutions: int) -> Factors | None:
    """Rows of the solutions that only differ in the last column; pairs of them with what is found.

    It is told by how many they are whether that pays.
    """
    shift = np.uint64(last.width)
    rest = last.bases >> shift
    is_same = not len(rest) or bool((rest == rest[0]).all())
    groups = Tuples(1 if is_same else 2)
    others = Interner()
    columns = [Interner().ids(last.keys)[0], *([] if is_same else [others.ids(rest)[0]])]
    numbers, first = groups.ids(columns, len(rest))
    if len(first) > last.most_rows:
        return None
    matches = last.index.find(last.keys[first], last.lead)
    if not last.is_worth(solutions, matches.total):
        return None
    rows: Keys = np.zeros((len(first), last.words), np.uint64)
    bits.set_bits(
        rows, numbers, (last.bases & ((np.uint64(1) << shift) - np.uint64(1))).astype(np.uint32)
    )
    bases = rest[first] << shift

    def pairs() -> Iterator[tuple[Words, Keys]]:
        for found, hits in matches.chunks(min(last.most_rows, thresholds.now.room)):
            keys = bases[found]
            for column, to in last.moves:
                keys |= last.index.column(hits, column).astype(np.uint64) << np.uint64(to)
            yield found, keys

    return rows, pairs()
