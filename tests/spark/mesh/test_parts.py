"""Parts of a clique, side by side in one process, against what must come out."""

import warnings

import pytest
from hypothesis import given, strategies as st
from tests.differential.running import check_same, run
from tests.programs.compare import difference
from tests.programs.corpus import Folder
from tests.spark.mesh.engine import PartsEngine
from tests.spark.mesh.recursive import RECURSIVE
from tests.strategies.random_programs import RandomProgram, random_programs

import caladan
from caladan.language.deals import unparse
from caladan.session import Session


@pytest.mark.parametrize(("tasks", "local"), [(1, False), (2, False), (3, False), (3, True)])
@pytest.mark.parametrize("folder", RECURSIVE, ids=lambda folder: folder.name)
def test_program(folder: Folder, tasks: int, local: bool) -> None:
    db = Session(PartsEngine(tasks, local=local))
    for relation, path in folder.facts.items():
        db.add(relation, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        out = db.run(folder.file, params=folder.params)
    found = dict(zip(folder.queries(), out.answers, strict=True))
    found.update({stem: out[name] for name, stem in folder.exports().items()})
    for stem, relation in found.items():
        wanted = folder.expected(stem)
        different = difference(relation.rows(), wanted.rows, ordered=folder.is_ordered)
        assert different is None, f"{stem}: {different}"


@given(random_programs(layers=6), st.sampled_from([2, 3]), st.booleans())
def test_random_programs(given: RandomProgram, tasks: int, local: bool) -> None:
    text = unparse(given.program)
    db = Session(PartsEngine(tasks, local=local))
    for name, rows in given.facts.items():
        db.add(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        found = [answer.rows() for answer in db.run(text).answers]
    check_same(found, run("reference", text, given.facts), given)
