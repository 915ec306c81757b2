"""Random programs: the embedded engine, in each of its ways, against the reference."""

from typing import Any

import pytest
from hypothesis import given, reject, settings, strategies as st
from tests.differential.running import check_same, run
from tests.programs.compare import difference
from tests.strategies.random_programs import RandomProgram, random_programs
from tests.strategies.random_thresholds import NEVER, random_thresholds
from tests.strategies.recursions import Recursion, recursions
from tests.strategies.written_programs import WrittenCase, written_programs

import caladan
from caladan.join.estimates import GRADES
from caladan.program import thresholds
from caladan.program.thresholds import Thresholds

ROUNDS: dict[str, Any] = {"shape": NEVER, "small_rounds": NEVER}
"""Neither shapes nor the tiny-delta machine: whole columns, round by round."""

SEEN: dict[str, Any] = {"shape": NEVER, "seen_again": 0, "seen_price": 0}

# Thresholds that make small programs take ways that are meant for large ones.
WAYS: dict[str, dict[str, Any]] = {
    "as it is": {},
    "all rules split that can be": {"selective": 0},
    "shapes": {"shape": 0},
    "rounds in small chunks": {**ROUNDS, "room": 3, "worth_sampling": 1, "sample": 2},
    "columns set aside": {**ROUNDS, "grouping": 1, "grouping_pays": 0},
    "the tiny-delta machine": {"shape": NEVER, "small_rounds": 0},
    "by rows": {"key_bits": 0},
    "with word sets": {**SEEN, "bitmap_bits": 0},
    "with bitmaps": SEEN,
    "two threads": {**ROUNDS, "batch_in_threads": 1, "compact": 4, "sort_in_threads": 2},
    "with runs on disk": {
        "shape": NEVER, "spill_keys": 1, "spill_share": 0, "memory_looks": NEVER,
    },
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@given(given=random_programs())
def test_embedded_agrees_with_the_reference(way: str, given: RandomProgram) -> None:
    wanted = run("reference", given.program, given.facts)
    threads = 2 if way == "two threads" else None
    with thresholds.override(**WAYS[way]):
        check_same(run("embedded", given.program, given.facts, threads=threads), wanted, given)


@given(given=recursions(most=8), chosen=random_thresholds(), threads=st.sampled_from([1, 2]))
def test_recursion_is_the_same_with_any_thresholds(
    given: Recursion, chosen: Thresholds, threads: int
) -> None:
    """Non-linear rules among others, over hubs, chains, rings, complete graphs and nothing."""
    wanted = run("reference", given.text, given.facts)
    with thresholds.override(chosen):
        got = run("embedded", given.text, given.facts, threads=threads)
    for one, other in zip(got, wanted, strict=True):
        assert (different := difference(one, other)) is None, different


@given(
    given=random_programs(),
    chosen=random_thresholds(),
    threads=st.sampled_from([1, 2]),
    search=st.sampled_from([None, *GRADES]),
)
def test_no_threshold_changes_an_answer(
    given: RandomProgram, chosen: Thresholds, threads: int, search: str | None
) -> None:
    wanted = run("reference", given.program, given.facts)
    with thresholds.override(chosen):
        got = run("embedded", given.program, given.facts, threads=threads, search=search)
    check_same(got, wanted, given)


@settings(max_examples=150)
@given(given=written_programs(), chosen=st.one_of(st.just(Thresholds()), random_thresholds()))
def test_what_is_rewritten_means_what_was_written(given: WrittenCase, chosen: Thresholds) -> None:
    """Alternatives, arithmetic of aggregates, witnesses, cuts: the reference reads them as is."""
    try:
        wanted = run("reference", given.text, given.facts)
    except caladan.CaladanError:
        reject()  # a division by zero, or a number past its range
    with thresholds.override(chosen):
        got = run("embedded", given.text, given.facts)
    for one, other in zip(got, wanted, strict=True):
        assert (different := difference(one, other)) is None, different
