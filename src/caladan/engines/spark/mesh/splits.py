"""Where the facts of a copy go: by a hash of some columns, but for those with heavy values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from caladan.columns.layout import Mask, Words
from caladan.columns.packing import Packing
from caladan.engines.spark.mesh.placement import Columns, Heavy
from caladan.engines.spark.mesh.slots import (
    Batch,
    Codec,
    Everywhere,
    Nowhere,
    Spread,
    field_spread,
    key_spread,
)


@dataclass(frozen=True, slots=True)
class Split:
    """Rows with heavy values one way, all others another."""

    is_heavy: Callable[[Batch], Mask]
    heavy: Spread
    light: Spread

    def split(self, batch: Batch, tasks: int) -> list[Batch | None]:
        mask = self.is_heavy(batch)
        if not mask.any():
            return self.light.split(batch, tasks)
        heavy = self.heavy.split(_taken(batch, mask), tasks)
        if mask.all():
            return heavy
        light = self.light.split(_taken(batch, ~mask), tasks)
        return [_both(one, other) for one, other in zip(heavy, light, strict=True)]


def key_copy(packing: Packing, by: Columns | None, heavy: Heavy, values: Words | None) -> Spread:
    """How packed keys are spread as a copy by some columns, with these heavy values."""
    light = key_spread(packing, by)
    if heavy is Heavy.TOGETHER or not by or values is None:
        return light

    def is_heavy(batch: Batch) -> Mask:
        return np.isin(packing.column(batch.fields[0], by[0]), values)

    return _split(is_heavy, key_spread(packing, range(packing.arity)), light, heavy)


def field_copy(
    codecs: Sequence[Codec],
    by: Columns | None,
    whole: Columns,
    heavy: Heavy,
    values: Words | None,
) -> Spread:
    """How batches are spread by some of their fields; `whole` are all that facts are known by."""
    light = field_spread(codecs, by)
    if heavy is Heavy.TOGETHER or not by or values is None:
        return light

    def is_heavy(batch: Batch) -> Mask:
        return np.isin(batch.fields[by[0]], values)

    return _split(is_heavy, field_spread(codecs, whole), light, heavy)


def _split(is_heavy: Callable[[Batch], Mask], whole: Spread, light: Spread, heavy: Heavy) -> Split:
    return Split(
        is_heavy,
        whole if heavy is Heavy.SPREAD else Everywhere(),
        Nowhere() if heavy is Heavy.ALONE else light,
    )


def _taken(batch: Batch, mask: Mask) -> Batch:
    return Batch(int(mask.sum()), tuple(field[mask] for field in batch.fields))


def _both(one: Batch | None, other: Batch | None) -> Batch | None:
    if one is None or other is None:
        return one or other
    fields = zip(one.fields, other.fields, strict=True)
    return Batch(one.rows + other.rows, tuple(np.concatenate(pair) for pair in fields))
