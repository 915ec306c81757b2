"""Parts of a clique, side by side in one process, against what must come out."""

import warnings

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from tests.differential.running import check_same, run
from tests.programs.answers import answered
from tests.programs.corpus import Folder, in_turn
from tests.spark.mesh.engine import SPLITTING, PartsEngine
from tests.spark.mesh.recursive import RECURSIVE
from tests.spark.mesh.together import run_parts
from tests.strategies.random_programs import RandomProgram, random_programs

import caladan
from caladan.engines.spark.mesh.skew import SkewLimits
from caladan.language import parse
from caladan.language.deals import unparse
from caladan.pipeline import compile_program
from caladan.program import thresholds
from caladan.program.events import RelationHeld
from caladan.program.options import Options
from caladan.session.session import Session

NEVER, OFTEN, SOMETIMES = SPLITTING["never"], SPLITTING["often"], SPLITTING["sometimes"]


@pytest.mark.parametrize(
    ("folder", "setting"),
    in_turn(RECURSIVE, (2, False, NEVER), (3, True, NEVER), (3, False, OFTEN), (2, True, OFTEN)),
)
def test_program(folder: Folder, setting: tuple[int, bool, SkewLimits]) -> None:
    tasks, local, splitting = setting
    db = Session(PartsEngine(tasks, local=local, splitting=splitting))
    answered(db, folder, is_explained=False)


@pytest.mark.parametrize(("folder", "splitting"), in_turn(RECURSIVE, NEVER, OFTEN))
def test_gathered_and_spread(folder: Folder, splitting: SkewLimits) -> None:
    """One task goes on alone after any round, and shares out what it has after any other."""
    with thresholds.override(mesh_small_rounds=1, mesh_spread=3, small_rounds=2, shape=0):
        answered(Session(PartsEngine(2, splitting=splitting)), folder, is_explained=False)


@pytest.mark.parametrize("is_gathered", [False, True])
def test_runs_beyond_the_budget_go_to_disk(*, is_gathered: bool) -> None:
    """The budget holds in every task, whether they exchange facts or one has them all."""
    tables = {"arc": pa.table({"A": range(300), "B": range(1, 301)})}
    text = """database({arc(A: integer, B: integer)}).
    tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."""
    program = compile_program(parse(text), {}, {}).delta
    small = thresholds.now.small if is_gathered else 0
    with thresholds.override(shape=1 << 40, spill_keys=64, mesh_small_rounds=1, small=small):
        parts, endings = run_parts(program, tables, 2, Options(memory=100_000))
    assert parts[0].is_gathered is is_gathered
    assert all(ending.reached is None for ending in endings)
    assert sum(part.facts for part in parts) == 300 * 301 // 2
    held = [e for part in parts for e in part.told() if isinstance(e, RelationHeld)]
    assert sum(each.spilled for each in held if each.relation == "tc") > 8 * 300 * 301 // 4


@given(
    random_programs(layers=6),
    st.sampled_from([2, 3]),
    st.booleans(),
    st.sampled_from([NEVER, OFTEN, SOMETIMES]),
)
def test_random_programs(
    given: RandomProgram, tasks: int, local: bool, splitting: SkewLimits
) -> None:
    text = unparse(given.program)
    db = Session(PartsEngine(tasks, local=local, splitting=splitting))
    for name, rows in given.facts.items():
        db.add(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        found = [answer.rows() for answer in db.run(text).answers]
    check_same(found, run("reference", text, given.facts), given)
