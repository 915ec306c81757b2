"""Random programs: the embedded engine, in each of its ways, against the reference."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from tests.differential.running import check_same, run
from tests.strategies.random_programs import RandomProgram, random_programs

from caladan import inputs
from caladan.columns import packed, pool, relation, runs
from caladan.columns.spill import Space
from caladan.engines.embedded import (
    aside,
    blueprint,
    memory,
    planning,
    plans,
    shaping,
    steps,
    tiny,
    walk,
)


def nothing(*_: Any) -> None:
    """No shape, no packing."""


def spill_everything(_: Any, facts: int, relations: memory.Relations) -> None:
    for each in relations().values():
        if isinstance(each, relation.StoredRelation) and (body := each.packed()) is not None:
            body.spill(Space())


# What is set where, so that small programs take ways that are meant for large ones.
WAYS: dict[str, list[tuple[Any, str, Any]]] = {
    "as it is": [],
    "all rules split that can be": [(planning.Planner, "_is_selective", lambda *_: True)],
    "shapes": [(blueprint, "WORTH_A_SHAPE", 0)],
    "rounds in small chunks": [
        (shaping.Shaping, "shape", nothing),
        (tiny.TinyRounds, "run", lambda *_: (0, 0)),
        (steps, "ROOM", 3),
        (plans, "WORTH_SAMPLING", 1),
        (plans, "SAMPLE", 2),
    ],
    "columns set aside": [
        (shaping.Shaping, "shape", nothing),
        (tiny.TinyRounds, "run", lambda *_: (0, 0)),
        (aside, "WORTH_GROUPING", 1),
        (aside, "_PAYS", 0),
    ],
    "the tiny-delta machine": [(shaping.Shaping, "shape", nothing), (tiny, "PATIENCE", 0)],
    "by rows": [(relation, "widths_of", nothing)],
    "with word sets": [
        (shaping.Shaping, "shape", nothing),
        (packed.PackedRelation, "is_worth_a_set", lambda *_: True),
        (packed, "_BITMAP_BITS", 0),
    ],
    **{
        f"search by {grade}": [(inputs, "Options", partial(inputs.Options, search=grade))]
        for grade in ("paul", "leto")
    },
    "one thread": [(pool, "threads", lambda: 1)],
    "two threads": [
        (shaping.Shaping, "shape", nothing),
        (tiny.TinyRounds, "run", lambda *_: (0, 0)),
        (pool, "threads", lambda: 2),
        (walk, "WORTH_THREADS", 1),
        (packed, "_COMPACT", 4),
        (runs, "_WORTH_THREADS", 2),
    ],
    "with runs on disk": [
        (shaping.Shaping, "shape", nothing),
        (runs, "WORTH_SPILLING", 1),
        (memory.Memory, "add", spill_everything),
    ],
    "with bitmaps": [
        (shaping.Shaping, "shape", nothing),
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
