"""Every path that adds facts notices one that is there already; all tests run so."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.strategies.random_thresholds import NEVER

import caladan
from caladan.columns import intake, invariants, rows
from caladan.columns.folded import Fold
from caladan.columns.groups import GroupRelation
from caladan.columns.invariants import BrokenInvariantError, check_layout, check_owned, check_run
from caladan.columns.layout import Packing
from caladan.columns.matrices import RangeRows
from caladan.columns.packed import PackedRelation
from caladan.columns.rows import RowRelation
from caladan.columns.runs import Arrangement, Run

PACKING = Packing((8, 8), (0, 1))


def keys(*numbers: int) -> Any:
    return np.array(numbers, np.uint64)


def words(*numbers: int) -> Any:
    return np.array(numbers, np.uint32)


def test_tests_run_with_invariants() -> None:
    assert invariants.CHECKED


@pytest.mark.parametrize(
    ("run", "others", "said"),
    [
        ([1, 2, 2], [], "has 2 twice"),
        ([1, 3, 2], [], "has 2 out of order"),
        ([1, 5], [[2, 3], [4, 5, 6]], "1 of 2 new keys are in a run of 3 already, 5 among them"),
        ([4, 5, 6], [[5]], "1 of 3 new keys are in a run of 1 already, 5 among them"),
    ],
)
def test_what_is_said_of_a_run(run: list[int], others: list[list[int]], said: str) -> None:
    with pytest.raises(BrokenInvariantError, match=said):
        check_run(keys(*run), [keys(*other) for other in others])
    check_run(keys(1, 2, 9), [keys(3, 4), keys()])


def test_a_run_of_an_arrangement() -> None:
    arrangement = Arrangement(PACKING)
    arrangement.push(Run(keys(1, 2, 3), PACKING))
    with pytest.raises(BrokenInvariantError):
        arrangement.push(Run(keys(3), PACKING))


def test_what_a_round_found(monkeypatch: pytest.MonkeyPatch) -> None:
    relation = PackedRelation((8, 8))
    relation.add_keys(keys(1, 2))
    relation.flip()
    relation.commit()
    monkeypatch.setattr(intake, "subtract", lambda batch, runs: batch)
    relation.add_keys(keys(2, 3))
    with pytest.raises(BrokenInvariantError):
        relation.flip()


@pytest.mark.parametrize(("old", "delta"), [([2, 7], []), ([7], [2]), ([7], [7]), ([9, 7], [])])
def test_what_the_machine_found(old: list[int], delta: list[int]) -> None:
    relation = PackedRelation((8, 8))
    relation.add_keys(keys(1, 2))
    relation.flip()
    relation.commit()
    with pytest.raises(BrokenInvariantError):
        relation.absorb(keys(*old), keys(*delta))


def test_rows_and_groups() -> None:
    relation = RowRelation(2)
    relation._append([words(1, 2), words(3, 4)], 2)
    with pytest.raises(BrokenInvariantError, match="1 are there"):
        relation._append([words(5, 2), words(5, 4)], 2)
    groups = GroupRelation(2, [0])
    groups.extend([words(1, 2)], 2)
    with pytest.raises(BrokenInvariantError, match="1 are distinct"):
        groups.extend([words(3, 3)], 2)
    with pytest.raises(BrokenInvariantError, match="1 of 2 groups that changed are there twice"):
        groups.change(np.array([1, 1]), {})
    with pytest.raises(BrokenInvariantError, match="not among the 2 known ones"):
        groups.change(np.array([2]), {})


def test_layouts() -> None:
    fold = Fold.of(words(0, 0, 1), 2)
    layout = RangeRows.of(fold, fold, np.array([0, 1, 1]), keys(1 << 32 | 1))
    check_layout(layout)
    with pytest.raises(BrokenInvariantError, match="counts 3 facts and lists 2"):
        check_layout(replace(layout, total=3))
    with pytest.raises(BrokenInvariantError, match="1 of 3 facts of a layout are there twice"):
        check_layout(layout.with_extra(words(0), words(2)))


def test_parts() -> None:
    check_owned([False, True, False], 1)
    with pytest.raises(BrokenInvariantError, match=r"task 1 keeps facts that tasks \[2\] own"):
        check_owned([False, True, True], 1)


STAR = "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z). query p(X, Y)."


@pytest.mark.parametrize("changes", [{}, {"key_bits": 0}], ids=str)
def test_a_run_ends_where_facts_are_kept_twice(
    changes: dict[str, int], tuned: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here nothing is told from what is known, in keys or in rows."""
    tuned(shape=NEVER, **changes)
    monkeypatch.setattr(intake, "subtract", lambda batch, runs: batch)

    class Forgetful(rows.Tuples):
        def ids(self, columns: Any, count: int) -> Any:
            return np.arange(count, dtype=np.uint32), np.arange(count)

    monkeypatch.setattr(rows, "Tuples", Forgetful)
    db = caladan.connect("embedded")
    db.add("e", [(0, 1), (1, 0), (1, 2), (2, 0)])
    with pytest.raises(BrokenInvariantError):
        db.run(STAR, max_rounds=20)
