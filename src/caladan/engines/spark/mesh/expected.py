"""What a task has to do in the coming round, and with which values: an estimate.

Where atoms of a rule meet in a variable, each new fact of one of them finds all facts of the others
that have its value. Where facts with one value are owned by one task, each new one is a start. Only
some of the new facts are looked at, since looking must not take as long as evaluating.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from caladan.columns.domains import Domain
from caladan.columns.index import Matches
from caladan.columns.layout import Words
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh.placed import Placed
from caladan.operators.tree import Version

_FEW: Final = 1 << 12  # new facts that are all looked at
_SPARSE: Final = 16  # of more, one in so many
_MANY: Final = 1 << 16  # facts that are looked at, at most
_MOST: Final = 1e15  # so that sums of all tasks are exact

Work = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Meeting:
    """New facts by a column of their copy, and the copies by whose columns they meet others."""

    column: int
    domain: Domain
    seed: StoredRelation
    met: tuple[tuple[StoredRelation, int], ...]


def meetings_of(placed: Placed) -> Iterator[Meeting]:
    """Where rules do things by single values that can be split, delta rule by delta rule."""
    given = placed.given
    for rule in given.recursive:
        seed: tuple[str, int, StoredRelation] | None = None
        met: list[tuple[StoredRelation, int]] = []
        can_be_split = False
        for scan in rule.recursive:
            name, copy = scan.relation, placed.placement.read(rule, scan)
            if copy.by is None or len(copy.by) != 1:
                continue  # in every task, in one, or spread evenly
            can_be_split |= copy.by != given.own[name].group
            relation = placed.members[name].reading(copy)
            if scan.version is Version.DELTA:
                seed = (name, copy.by[0], relation)
            else:
                met.append((relation, copy.by[0]))
        if seed is not None and can_be_split:
            name, column, relation = seed
            yield Meeting(column, given.classes.column(name, column), relation, tuple(met))


def expected(meeting: Meeting) -> tuple[Words, Work]:
    """Values of new facts, and about how much there is to do with each."""
    rows = meeting.seed.delta_count()
    step = max(min(rows // _FEW, _SPARSE), rows // _MANY) | 1  # odd: patterns tend to be even
    values, work = _counted(meeting.seed, Version.DELTA, meeting.column, step)
    for relation, column in meeting.met if len(values) else ():
        work = work * _matches(relation, column, values)
    return values, np.minimum(work, _MOST).astype(np.int64)


def _counted(
    relation: StoredRelation, version: Version, column: int, step: int
) -> tuple[Words, NDArray[np.float64]]:
    """The values of a column and how often they occur, by every so manieth fact."""
    index = relation.index((), version)
    parts = [index.column(hits[::step].copy(), column) for hits in relation.scan(version)]
    sample = np.concatenate(parts) if parts else np.empty(0, np.uint32)
    values, counts = np.unique(sample, return_counts=True)
    return values, counts.astype(np.float64) * step


def _matches(relation: StoredRelation, column: int, values: Words) -> NDArray[Any]:
    """How many facts have each of some values in a column."""
    if relation.has_order((column,)):
        index = relation.index((column,), Version.NEW)
        return Matches(index, *index.key({column: values}, len(values))).counts()
    # An order of columns that no rule asks for is not worth its memory.
    known, counts = _counted(relation, Version.NEW, column, relation.count() // _MANY | 1)
    if not len(known):
        return np.zeros(len(values))
    at = np.minimum(np.searchsorted(known, values), len(known) - 1)
    return np.where(known[at] == values, counts[at], 0.0)
