"""Random programs do what explain says of them, given their data."""

import warnings
from typing import Any

from hypothesis import given, settings, strategies as st
from tests.programs.truth import check_truth
from tests.strategies.random_programs import Facts, RandomProgram, random_programs
from tests.strategies.recursions import Recursion, recursions

import caladan
from caladan.program import Program, thresholds

ROUNDS = 200
OPTIONS = st.sampled_from([{}, {}, {"search": "paul"}, {"search": "leto"}])


def check(program: str | Program, facts: Facts, options: dict[str, Any]) -> None:
    with caladan.connect("embedded") as db, warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        for name, rows in facts.items():
            db.add(name, rows)
        try:
            stats = db.run(program, max_rounds=ROUNDS, **options).stats
        except caladan.CaladanError:
            return  # a number beyond 64 bits, a limit
        check_truth(db, program, {}, stats, max_rounds=ROUNDS, **options)


@settings(max_examples=40)
@given(random_programs(), OPTIONS)
def test_random_programs(found: RandomProgram, options: dict[str, Any]) -> None:
    check(found.program, found.facts, options)


@settings(max_examples=25)
@given(recursions(), OPTIONS)
def test_recursions(found: Recursion, options: dict[str, Any]) -> None:
    """Over few facts, for which shapes and overlays are taken all the same."""
    with thresholds.override(shape=1, folded=1):
        check(found.text, found.facts, options)
