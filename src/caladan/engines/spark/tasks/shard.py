"""Values and facts by their hashes: which part, or which slice, they fall to.

Values that are equal have the same hash, whatever their types: 1 and 1.0, too. Arrays go from Arrow
to numpy and back by their buffers: Arrow's own ways would load pandas, which takes longer than most
tasks do, and leaves objects behind that the garbage collector goes through after each of them.

What one part of a pivoted clique evaluates.

A pivot is a column that every recursive rule hands on unchanged, so a fact and everything derived
from it agree there. A part has the facts whose pivot value falls to it, by a hash of the value. It
is a program like any other: where an exit rule takes its pivot from an atom, that atom reads those
of its facts that fall to the part, a relation that is part of the other; the facts that the clique
is given are chosen in the same way. Nothing else changes, and no rule looks at parts.

    tc(A, B) <- arc(A, B).              a part has its share of arc by A, named arc#0;
    tc(A, B) <- tc(A, C), arc(C, B).    what rules meet in another column, arc, is whole in each

`ByPivot` says which relations have shares, `spread` cuts facts into them, and `in_part` makes the
program of a part, given its shares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, cast
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from caladan.columns.ranks import arrow_of, numpy_of
from caladan.data.schema import ARROW, array_of, empty_table
from caladan.engines.spark.choice import origin, pivot_shares
from caladan.engines.spark.tasks.buckets import buckets, is_narrow
from caladan.program import Constant
from caladan.rules.program import DeltaClique, DeltaProgram, DeltaRule

compute: Any = pyarrow.compute
_MIX = np.uint64(0x9E3779B97F4A7C15)


def falls_to(values: Any, part: int, parts: int, *, narrow: bool) -> NDArray[np.bool_]:
    """Which of some values fall to a part: those that Spark's own exchange would send there."""
    return buckets(_bits(values), parts, narrow=narrow) == part


def slices(hashed: NDArray[np.uint64], count: int) -> NDArray[np.int64]:
    """The slice, of so many, that each hash falls into."""
    return ((hashed >> np.uint64(33)) % np.uint64(count)).view(np.int64)


def only(facts: pa.Table, mask: NDArray[np.bool_]) -> pa.Table:
    """The facts that a mask has."""
    bits = pa.py_buffer(np.packbits(mask, bitorder="little"))
    return cast("Any", facts).filter(pa.Array.from_buffers(pa.bool_(), len(mask), [None, bits]))


def group_facts(facts: pa.Table, numbers: NDArray[np.int64]) -> Iterator[tuple[int, pa.Table]]:
    """Facts by a small number that each has, in the order of these."""
    order = np.argsort(numbers.astype(np.uint16), kind="stable")  # by radix: in one go
    ends = np.cumsum(np.bincount(numbers))
    in_order: Any = cast("Any", facts).take(arrow_of(order))
    for number, end in enumerate(ends):
        begin = int(ends[number - 1]) if number else 0
        if end > begin:
            yield number, in_order.slice(begin, int(end) - begin)


def hashes(values: Any) -> NDArray[np.uint64]:
    """A hash of each value, the same for equal values of any type."""
    return mix_bits(_bits(values))


def mix_bits(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Hashes of some bits; the upper half is the better one."""
    hashed = bits * _MIX
    hashed ^= hashed >> np.uint64(32)
    return hashed * _MIX


def _bits(values: Any) -> NDArray[np.uint64]:
    """For each value 64 bits, the same for equal values of any type."""
    type = values.type
    if pa.types.is_floating(type):
        return _of_doubles(numpy_of(values.cast(pa.float64())))
    if pa.types.is_decimal(type):
        return _of_each(values, _of_decimal)
    if pa.types.is_string(type):
        return _of_each(values, lambda text: crc32(text.encode()))
    if pa.types.is_binary(type):
        return _of_each(values, crc32)
    if pa.types.is_date(type) or pa.types.is_boolean(type):
        values = values.cast(pa.int32() if pa.types.is_date(type) else pa.int8())
    return numpy_of(values.cast(pa.int64())).astype(np.int64).view(np.uint64)


def _of_doubles(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    with np.errstate(invalid="ignore"):
        whole = np.where(np.abs(values) < 2.0**63, values, 0.0).astype(np.int64)
    bits = np.where(np.isnan(values), np.nan, values).view(np.uint64)
    return np.where(whole == values, whole.view(np.uint64), bits)


def _of_decimal(value: Decimal) -> int:
    """That of the whole number or the double that it equals, if there is one."""
    if value == int(value) and -(2**63) <= value < 2**63:
        return int(value) % 2**64
    if Decimal(float(value)) == value:
        return int(_of_doubles(np.array([float(value)]))[0])
    return crc32(str(value.normalize()).encode())


def _of_each(values: Any, hashed: Callable[[Any], int]) -> NDArray[np.uint64]:
    """Facts are many and their values few: each value is hashed once."""
    encoded = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    encoded = compute.dictionary_encode(encoded)
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.combine_chunks()
    codes = [hashed(value) for value in encoded.dictionary.to_pylist()]
    return np.asarray(codes, np.uint64)[numpy_of(encoded.indices)]


@dataclass(frozen=True, slots=True)
class PivotShare:
    """A relation `name` of which each part has some facts of relation `of`: by one column."""

    name: str
    of: str
    column: int


@dataclass(frozen=True, slots=True)
class ByPivot:
    """How the facts of a clique are cut into parts by its pivot; `narrow` as in buckets.py."""

    shares: tuple[PivotShare, ...]
    whole: frozenset[str]
    """The relations that every part has whole."""
    parts: int
    narrow: bool

    @staticmethod
    def of(program: DeltaProgram, parts: int) -> ByPivot:
        """That of the one clique of a program, which has a pivot."""
        (clique,) = program.cliques
        pivot = cast("Mapping[str, int]", clique.pivot)
        found, whole = pivot_shares(clique)
        named = [PivotShare(_name(name, column), name, column) for name, column in found]
        named += [PivotShare(name, name, column) for name, column in pivot.items()]
        return ByPivot(tuple(named), whole, parts, is_narrow(program.relations, clique))

    @property
    def sources(self) -> frozenset[str]:
        """The relations whose facts are cut."""
        return frozenset(share.of for share in self.shares)

    def spread(self, name: str, facts: pa.Table) -> Iterator[tuple[int, str, pa.Table]]:
        """Some facts of a relation, cut: the part, the name of the share, and what falls to it."""
        for share in self.shares:
            if share.of != name or not facts.num_rows:
                continue
            values = cast("Any", facts).column(share.column)
            found = buckets(_bits(values), self.parts, narrow=self.narrow)
            for part, mine in group_facts(facts, found):
                yield part, share.name, mine


def in_part(
    program: DeltaProgram, shared: Mapping[str, pa.Table], part: int, cut: ByPivot
) -> tuple[DeltaProgram, dict[str, pa.Table]]:
    """The program of a part, and its facts, given its shares and what all parts have whole."""
    (clique,) = program.cliques
    pivot = cast("Mapping[str, int]", clique.pivot)
    falling = partial(falls_to, part=part, parts=cut.parts, narrow=cut.narrow)

    def is_mine(rule: DeltaRule) -> bool:
        given = cast("Constant", rule.rule.arguments[pivot[rule.rule.head]])
        type = program.relations[rule.rule.head].columns[pivot[rule.rule.head]].type
        return bool(falling(array_of([given.value], ARROW[type]))[0])

    own = _take_part(clique, pivot, is_mine)
    relations = dict(program.relations)
    written = dict(program.facts)
    store = {name: shared[name] for name in cut.whole & shared.keys()}
    for share in cut.shares:
        of = program.relations[share.of]
        is_own = share.name == share.of
        relations[share.name] = replace(of, name=share.name, part_of=None if is_own else share.of)
        if of.takes_data:
            store[share.name] = shared.get(share.name, empty_table(of.columns))
        if rows := program.facts.get(share.of):
            type = of.columns[share.column].type
            falls = falling(array_of([row[share.column] for row in rows], ARROW[type]))
            written[share.name] = tuple(r for r, keep in zip(rows, falls, strict=True) if keep)
        if not is_own and share.of not in cut.whole:
            relations[share.of] = replace(of, takes_data=False)
            written.pop(share.of, None)
    return replace(program, relations=relations, facts=written, cliques=(own,)), store


def _take_part(
    clique: DeltaClique, pivot: Mapping[str, int], is_mine: Callable[[DeltaRule], bool]
) -> DeltaClique:
    """A clique whose exit rules read shares; one whose pivot is a constant is of one part alone."""
    exits: list[DeltaRule] = []
    for rule in clique.exit_rules:
        if isinstance(rule.rule.arguments[pivot[rule.rule.head]], Constant):
            if is_mine(rule):
                exits.append(rule)
            continue
        number, column = cast("tuple[int, int]", origin(rule, pivot))
        atoms = list(rule.body.atoms)
        atoms[number] = replace(atoms[number], relation=_name(atoms[number].relation, column))
        exits.append(replace(rule, body=rule.body.with_atoms(atoms)))
    return replace(clique, exit_rules=tuple(exits))


def _name(relation: str, column: int) -> str:
    return f"{relation}#{column}"
