"""Parts of a clique, side by side in one process, against what must come out."""

import warnings

import pytest
from hypothesis import given, strategies as st
from tests.differential.running import check_same, run
from tests.programs.answers import answered
from tests.programs.corpus import Folder
from tests.spark.mesh.engine import SPLITTING, PartsEngine
from tests.spark.mesh.recursive import RECURSIVE
from tests.strategies.random_programs import RandomProgram, random_programs

import caladan
from caladan.engines.spark.mesh.skew import Splitting
from caladan.language.deals import unparse
from caladan.session.session import Session

NEVER, OFTEN, SOMETIMES = SPLITTING["never"], SPLITTING["often"], SPLITTING["sometimes"]


@pytest.mark.parametrize(
    ("tasks", "local", "splitting"),
    [(1, False, NEVER), (2, False, NEVER), (3, True, NEVER), (3, False, OFTEN), (2, True, OFTEN)],
)
@pytest.mark.parametrize("folder", RECURSIVE, ids=lambda folder: folder.name)
def test_program(folder: Folder, tasks: int, local: bool, splitting: Splitting) -> None:
    db = Session(PartsEngine(tasks, local=local, splitting=splitting))
    answered(db, folder, is_explained=False)


@given(
    random_programs(layers=6),
    st.sampled_from([2, 3]),
    st.booleans(),
    st.sampled_from([NEVER, OFTEN, SOMETIMES]),
)
def test_random_programs(
    given: RandomProgram, tasks: int, local: bool, splitting: Splitting
) -> None:
    text = unparse(given.program)
    db = Session(PartsEngine(tasks, local=local, splitting=splitting))
    for name, rows in given.facts.items():
        db.add(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        found = [answer.rows() for answer in db.run(text).answers]
    check_same(found, run("reference", text, given.facts), given)
