"""Random programs on an engine, through the public surface."""

import warnings
from typing import Any

import caladan
from caladan.language.deals import unparse
from caladan.program import Program
from tests.programs.compare import difference
from tests.strategies.random_programs import Facts, RandomProgram

Answers = list[list[tuple[Any, ...]]]


def run(engine: Any, program: Program, facts: Facts) -> Answers:
    """The answer of each goal; a run that does not end is a failure."""
    db = caladan.connect(engine)
    for name, rows in facts.items():
        db.add(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        out = db.run(unparse(program), max_rounds=500)
    return [answer.rows() for answer in out.answers]


def check_same(got: Answers, wanted: Answers, given: RandomProgram) -> None:
    """Fail, naming the goal, if two engines do not agree."""
    for goal, one, other in zip(given.program.goals, got, wanted, strict=True):
        different = difference(one, other)
        assert different is None, f"{goal.atom.relation}: {different}"
