"""What must hold of facts wherever some are added; looked at with CALADAN_CHECK=1.

A relation is a set. So a run is sorted and has no key twice, no key is in two runs of an
arrangement, no fact stands in two rows, no group has two values, and a layout lists as many facts
as it counts, each once. Every path that adds facts ends in one of a few places (a run of an
arrangement, a row, a layout of a shape), and each of them calls a function of this file with what
is new. What it costs is about as much again as sorting what is new.

It is the way of tests, which all run so (tests/conftest.py). A broken invariant is a bug of ours.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from caladan.columns.layout import Counts, Keys, Layout, Mask, Words, concatenate

CHECKED: Final = os.environ.get("CALADAN_CHECK", "") not in ("", "0")
_LISTED: Final = 1 << 20  # facts of a layout that are listed to be looked at


class BrokenInvariantError(AssertionError):
    """Facts are not what every reader takes them to be."""


def check_run(keys: Keys, others: Iterable[Keys] = ()) -> None:
    """A new run beside others: sorted, no key twice, none of them in another run."""
    if np.any(keys[1:] <= keys[:-1]):
        at = int(np.argmax(keys[1:] <= keys[:-1]))
        kind = "twice" if keys[at] == keys[at + 1] else "out of order"
        raise BrokenInvariantError(f"a run of {len(keys):,} keys has {keys[at + 1]} {kind}")
    for other in others:
        few, many = (keys, other) if len(keys) < len(other) else (other, keys)
        if not len(few):
            continue
        at = np.minimum(np.searchsorted(many, few), len(many) - 1)
        same: Mask = many[at] == few
        if same.any():
            raise BrokenInvariantError(
                f"{int(same.sum()):,} of {len(keys):,} new keys are in a run of {len(other):,} "
                f"already, {few[same][0]} among them"
            )


def check_groups(runs: Sequence[Keys], value_bits: int) -> None:
    """Groups with their value in the lowest bits: sorted, and no group twice."""
    for keys in runs:
        check_run(keys)
    check_distinct([np.concatenate(runs) >> np.uint64(value_bits)], "groups")


def check_rows(old: set[bytes], columns: Sequence[Words], rows: int) -> None:
    """New rows by their key columns: none twice, none of them among the old, which they join."""
    width = 4 * len(columns)
    whole = np.column_stack(columns).tobytes() if columns else b""
    new = {whole[at * width : (at + 1) * width] for at in range(rows)}
    if len(new) < rows or not old.isdisjoint(new):
        raise BrokenInvariantError(
            f"of {rows:,} new rows {len(new):,} are distinct, and {len(old & new):,} are there"
        )
    old |= new


def check_numbers(numbers: Counts, below: int) -> None:
    """Numbers of groups that changed: each once, all of them known."""
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < below:
        raise BrokenInvariantError(f"groups changed that are not among the {below:,} known ones")
    check_distinct([numbers], "groups that changed")


def check_owned(holders: Sequence[bool], me: int) -> None:
    """Facts of a part of a relation: by task, whether it owns any of them; only one may."""
    others = [task for task, owns in enumerate(holders) if owns and task != me]
    if others:
        raise BrokenInvariantError(f"task {me} keeps facts that tasks {others} own")


def check_layout(layout: Layout) -> None:
    """A layout that lists what it counts, each fact once, and knows what it lists."""
    count = layout.count()
    if not layout.arity or count > _LISTED:
        return
    columns = concatenate(layout.blocks(), layout.arity)
    if len(columns[0]) != count:
        raise BrokenInvariantError(f"a layout counts {count:,} facts and lists {len(columns[0]):,}")
    check_distinct(columns, "facts of a layout")
    if not layout.contains(columns).all():
        raise BrokenInvariantError("a layout lists facts that it says are not there")


def check_distinct(columns: Sequence[Words | Keys | Counts], what: str) -> None:
    """Rows of some columns, in any order: none twice."""
    order = np.lexsort(columns)
    same: Mask = np.ones(max(len(order) - 1, 0), np.bool_)
    for column in columns:
        ordered = column[order]
        same &= ordered[1:] == ordered[:-1]
    if same.any():
        raise BrokenInvariantError(f"{int(same.sum()):,} of {len(order):,} {what} are there twice")
