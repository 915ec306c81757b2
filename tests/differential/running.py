"""Random programs on an engine, through the public surface."""

import os
import warnings
from typing import Any
from unittest.mock import patch

from hypothesis import settings
from tests.programs.compare import difference
from tests.strategies.random_programs import Facts, RandomProgram

import caladan
from caladan.program import Program

Answers = list[list[tuple[Any, ...]]]

FEW = settings(max_examples=max(3, settings().max_examples // 16))
"""For Spark, where one example takes seconds; CALADAN_HYPOTHESIS=thorough still tries many."""


def run(
    engine: Any,
    text: Program | str,
    facts: Facts,
    strategy: str | None = None,
    threads: int | None = None,
    search: str | None = None,
) -> Answers:
    """The answer of each goal; a run that does not end is a failure."""
    if strategy is None and not isinstance(engine, str):
        strategy = "frame"  # facts are few here; left to itself, Spark would not be asked
    db = caladan.connect(engine)
    for name, rows in facts.items():
        db.add(name, rows)
    # A limit on rounds would rule out what does not go by rounds.
    limit: dict[str, Any] = {"timeout": 60} if engine == "embedded" else {"max_rounds": 500}
    asked = {} if threads is None else {"CALADAN_THREADS": str(threads)}
    with warnings.catch_warnings(), patch.dict(os.environ, asked):
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        out = db.run(text, strategy=strategy, search=search, **limit)
    return [answer.rows() for answer in out.answers]


def check_same(got: Answers, wanted: Answers, given: RandomProgram) -> None:
    """Fail, naming the goal, if two engines do not agree."""
    for goal, one, other in zip(given.program.goals, got, wanted, strict=True):
        different = difference(one, other)
        assert different is None, f"{goal.atom.relation}: {different}"
