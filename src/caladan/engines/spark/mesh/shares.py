"""Exit rules are shared out: every task evaluates them for its share of one atom's facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from caladan.columns.domains import Domain
from caladan.columns.layout import Mask, Words
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.embedded.body import Body
from caladan.program import Constant

_ENOUGH: Final = 64  # facts for each task that make an atom worth sharing out


def shared_atom(body: Body, base: Mapping[str, StoredRelation], tasks: int) -> int | None:
    """The atom to be shared out: the smallest that is large enough, without constants."""
    sizes = {
        i: base[scan.relation].count()
        for i, scan in enumerate(body.atoms)
        if not any(isinstance(a, Constant) for a in scan.arguments)
    }
    large = [i for i, size in sizes.items() if size >= _ENOUGH * tasks]
    if tasks == 1 or not large or body.cut is not None:
        return None
    return min(large, key=sizes.__getitem__)


def share(
    relation: StoredRelation, domains: Sequence[Domain], me: int, tasks: int
) -> StoredRelation:
    """Every so manieth fact of a finished relation, as a delta."""
    found = StoredRelation(domains)
    if isinstance(relation.body, PackedRelation) and relation.packed() is not None:
        target = found.packed()
        assert target is not None
        for run in relation.body.base.runs:
            target.add_keys(run.keys[me::tasks].copy())
    else:
        for block in relation.blocks():
            mine = [column[me::tasks].copy() for column in block]
            found.add(mine, len(mine[0]) if mine else 1)
    found.flip()
    return found


def parted(
    relation: StoredRelation, domains: Sequence[Domain], column: int, values: Words
) -> tuple[StoredRelation, StoredRelation]:
    """The facts of a finished relation that have one of these values in a column; the others."""
    found, others = StoredRelation(domains), StoredRelation(domains)
    for block in relation.blocks():
        mask: Mask = np.isin(block[column], values)
        for target, rows in ((found, mask), (others, ~mask)):
            target.add([words[rows] for words in block], int(rows.sum()))
    found.flip()
    others.flip()
    return committed(found), committed(others)


def committed(relation: StoredRelation) -> StoredRelation:
    """A relation whose delta has become old."""
    relation.commit()
    return relation
