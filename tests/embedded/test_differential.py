"""Random programs: the embedded engine, in each of its ways, against the reference."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from tests.differential.running import check_same, run
from tests.strategies.random_programs import RandomProgram, random_programs

from caladan.columns import packed, relation
from caladan.engines.embedded import fixpoint, plans, steps, tiny


def nothing(*_: Any) -> None:
    """No shape, no packing."""


# What is set where, so that small programs take ways that are meant for large ones.
WAYS: dict[str, list[tuple[Any, str, Any]]] = {
    "as it is": [],
    "all rules split that can be": [(fixpoint.Evaluation, "_is_selective", lambda *_: True)],
    "shapes": [(fixpoint, "_WORTH_A_SHAPE", 0)],
    "rounds in small chunks": [
        (fixpoint.Evaluation, "_shape", nothing),
        (tiny.TinyRounds, "run", lambda _: 0),
        (steps, "ROOM", 3),
        (plans, "WORTH_SAMPLING", 1),
        (plans, "SAMPLE", 2),
    ],
    "the tiny-delta machine": [(fixpoint.Evaluation, "_shape", nothing), (tiny, "PATIENCE", 0)],
    "by rows": [(relation, "widths_of", nothing)],
    "with word sets": [
        (fixpoint.Evaluation, "_shape", nothing),
        (packed.PackedRelation, "is_worth_a_set", lambda *_: True),
        (packed, "_BITMAP_BITS", 0),
    ],
    "with bitmaps": [
        (fixpoint.Evaluation, "_shape", nothing),
        (packed.PackedRelation, "is_worth_a_set", lambda *_: True),
    ],
}


@contextmanager
def set_to(way: str) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for owner, name, value in WAYS[way]:
            patch.setattr(owner, name, value)
        yield


@pytest.mark.parametrize("way", WAYS)
@given(given=random_programs())
def test_embedded_agrees_with_the_reference(way: str, given: RandomProgram) -> None:
    wanted = run("reference", given.program, given.facts)
    with set_to(way):
        check_same(run("embedded", given.program, given.facts), wanted, given)
