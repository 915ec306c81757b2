"""Random programs on an engine, through the public surface."""

import warnings
from typing import Any

from hypothesis import settings
from tests.programs.compare import difference
from tests.strategies.random_programs import Facts, RandomProgram

import caladan

Answers = list[list[tuple[Any, ...]]]

FEW = settings(max_examples=max(3, settings().max_examples // 16))
"""For Spark, where one example takes seconds; CALADAN_HYPOTHESIS=thorough still tries many."""


def run(engine: Any, text: str, facts: Facts, strategy: str | None = None) -> Answers:
    """The answer of each goal; a run that does not end is a failure."""
    if strategy is None and not isinstance(engine, str):
        strategy = "frame"  # facts are few here; left to itself, Spark would not be asked
    db = caladan.connect(engine)
    for name, rows in facts.items():
        db.add(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        out = db.run(text, max_rounds=500, strategy=strategy)
    return [answer.rows() for answer in out.answers]


def check_same(got: Answers, wanted: Answers, given: RandomProgram) -> None:
    """Fail, naming the goal, if two engines do not agree."""
    for goal, one, other in zip(given.program.goals, got, wanted, strict=True):
        different = difference(one, other)
        assert different is None, f"{goal.atom.relation}: {different}"
