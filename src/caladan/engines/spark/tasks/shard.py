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
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias, cast
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from caladan.columns.ranks import numpy_of
from caladan.data.schema import ARROW, array_of
from caladan.engines.spark.choice import origin
from caladan.engines.spark.tasks.buckets import buckets, is_narrow
from caladan.program import Constant
from caladan.rules.program import DeltaProgram, DeltaRule

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


def hashes(values: Any) -> NDArray[np.uint64]:
    """A hash of each value, the same for equal values of any type."""
    return mixed(_bits(values))


def mixed(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
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


Chosen: TypeAlias = tuple[str, int]


def in_part(
    program: DeltaProgram, facts: Mapping[str, pa.Table], part: int, parts: int
) -> tuple[DeltaProgram, dict[str, pa.Table]]:
    """The program and the facts of a part; the program has one clique, which has a pivot."""
    (clique,) = program.cliques
    pivot = cast("Mapping[str, int]", clique.pivot)
    falling = partial(falls_to, part=part, parts=parts, narrow=is_narrow(program.relations, clique))
    chosen: dict[Chosen, None] = {}
    exits: list[DeltaRule] = []
    for rule in clique.exit_rules:
        given = rule.rule.arguments[pivot[rule.rule.head]]
        if isinstance(given, Constant):
            type = program.relations[rule.rule.head].columns[pivot[rule.rule.head]].type
            if falling(array_of([given.value], ARROW[type]))[0]:
                exits.append(rule)
            continue
        number, column = cast("tuple[int, int]", origin(rule, pivot))
        atoms = list(rule.body.atoms)
        name = atoms[number].relation
        chosen[name, column] = None
        atoms[number] = replace(atoms[number], relation=_name(name, column))
        exits.append(replace(rule, body=rule.body.with_atoms(atoms)))
    relations = dict(program.relations)
    store = dict(facts)
    written = dict(program.facts)
    for name, column in [*chosen, *pivot.items()]:
        to = name if name in pivot else _name(name, column)
        relations[to] = replace(relations[name], name=to, part_of=None if to == name else name)
        if name in facts:
            store[to] = only(facts[name], falling(facts[name].column(column)))
        if rows := program.facts.get(name):
            type = relations[name].columns[column].type
            falls = falling(array_of([row[column] for row in rows], ARROW[type]))
            written[to] = tuple(row for row, keep in zip(rows, falls, strict=True) if keep)
    own = replace(clique, exit_rules=tuple(exits))
    return replace(program, relations=relations, facts=written, cliques=(own,)), store


def _name(relation: str, column: int) -> str:
    return f"{relation}#{column}"
