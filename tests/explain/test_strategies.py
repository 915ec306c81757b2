"""Explain tells the truth on Spark: the strategies it foresees are those that stats name."""

from __future__ import annotations

import doctest
import warnings
from typing import TYPE_CHECKING

import pytest
from tests.embedded.test_forecast import compare_arrangements, compare_clique
from tests.programs.corpus import Folder, folders

import caladan
from caladan.engines.embedded.engine import given_facts
from caladan.engines.spark import choice
from caladan.engines.spark.choice import Outlook, outlooks
from caladan.explain import Setting, text
from caladan.fixpoint.blueprint import blueprint
from caladan.fixpoint.forecast import CliqueForecast, Forecast, forecast
from caladan.language import parse
from caladan.pipeline import Compiled, compile_program
from caladan.program.events import Listener
from caladan.program.objects import Objects
from caladan.program.options import STRATEGIES, Options
from caladan.session import inputs
from caladan.session.session import Session
from caladan.session.stats import CliqueStats

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SAMPLE = (
    "transitive_closure_left",
    "transitive_closure_nonlinear",
    "shortest_paths_single_source",
    "same_generation",
    "several_strata",
    "triangle_count",
    "negation_over_recursion",
)
SIZES = {
    "as they are": (choice.SMALL_INPUTS, choice.ENOUGH_FOR_ONE),
    "large": (0, choice.ENOUGH_FOR_ONE),
    "very large": (0, 0),
}


def foreseen(
    db: Session, compiled: Compiled, options: Options, tasks: int
) -> tuple[list[Outlook], Forecast]:
    """The strategies of cliques, and what tasks of theirs will do."""
    tables, _ = db._store.load(compiled, options, Listener())
    sizes = {name: table.count() for name, table in tables.items()}
    seen = outlooks(compiled.delta, sizes, tasks, options)
    meshed = [each.clique for each in seen if each.large.strategy == "meshed"]
    given = given_facts(compiled.delta, tables)
    return seen, forecast(blueprint(compiled.delta), given, options, meshed)


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("folder", [f for f in folders() if f.name in SAMPLE], ids=lambda f: f.name)
def test_strategies_are_those_of_the_run(
    folder: Folder, sizes: tuple[int, int], spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "SMALL_INPUTS", sizes[0])
    monkeypatch.setattr(choice, "ENOUGH_FOR_ONE", sizes[1])
    compare(folder, spark, None)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_strategy_that_is_asked_for(strategy: str, spark: SparkSession) -> None:
    (folder,) = (f for f in folders() if f.name == "transitive_closure_left")
    compare(folder, spark, strategy)


def compare(folder: Folder, spark: SparkSession, strategy: str | None) -> None:
    with caladan.connect(spark) as db:
        for relation, path in folder.facts.items():
            db.add(relation, path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", caladan.CaladanWarning)
            stats = db.run(folder.program, params=folder.params, strategy=strategy).stats
        compiled = compile_program(folder.program, {}, inputs.values(folder.params, Objects()))
        seen, inside = foreseen(db, compiled, Options(strategy=strategy), db._engine.tasks)
        printed = db.explain(folder.program, "plan", params=folder.params, strategy=strategy)
        handed = db.explain(folder.program, "spark", params=folder.params, strategy=strategy)
    assert [each.clique.relations for each in seen] == [c.relations for c in stats.cliques]
    for each, done in zip(seen, stats.cliques, strict=True):
        declined = [said.strategy for said in done.declined if said.strategy in STRATEGIES]
        asked = [] if each.declined is None else [each.declined.strategy]
        expected = [*asked, *(option.strategy for option in each.options)]
        if each.is_decided:
            assert [*declined, done.strategy] == expected[: len(declined) + 1]
        else:
            assert done.strategy in expected
        if each.is_decided and done.strategy != "frame" and not declined:
            assert f"strategy: {done.strategy} (" in printed
            assert f"strategy {done.strategy}, " in handed
    for told, done in zip(inside.cliques, stats.cliques, strict=True):
        compare_inside(told, done)
    compare_arrangements(inside, stats)
    took_frames = any(done.strategy == "frame" for done in stats.cliques)
    assert took_frames <= ("== Physical Plan ==" in handed)


def compare_inside(told: CliqueForecast, done: CliqueStats) -> None:
    """What was done inside of tasks had been forecast."""
    if done.strategy == "frame":
        return
    assert tuple(done.layouts) == done.relations
    held = {option.name for option in told.layouts}
    held |= {f"{name}, transposed" for name in held}
    assert {name for each in done.layouts.values() for name in each.split(" and ")} <= held
    assert any(rule.plans for rule in done.rules) == bool(told.rules)
    if done.strategy == "meshed":
        compare_clique(told, done)


def test_tasks_tell_what_they_hold(spark: SparkSession) -> None:
    arcs = [(i, i + 1) for i in range(30)] + [(i, i * 7 % 31) for i in range(30)]
    held: dict[str, list[tuple[str, int, str]]] = {}
    for strategy in ("single", "pivoted", "meshed"):
        with caladan.connect(spark) as db:
            db.add("arc", arcs)
            stats = db.run(CLOSURE, strategy=strategy).stats
            assert stats.strategy == strategy
            held[strategy] = sorted((h.relation, h.facts, h.layout) for h in stats.held)
            (arc, _) = sorted(stats.held, key=lambda each: each.relation)
            assert arc.arrangements == [("A", "B")]
            (done,) = stats.cliques
            assert done.layouts == {"tc": "packed keys"}
            assert {(rule.rule, rule.seed) for rule in done.rules} == {(1, None), (2, "tc")}
            steps = [["scan δtc(A, C)", "look up arc(C, B) by A"]]
            assert [r.plans for r in done.rules if r.seed == "tc"] == [steps]
    assert held["single"] == held["pivoted"] == held["meshed"]


COMPONENTS = """database({arc(A: integer, B: integer)}).
edge(A, B) <- arc(A, B). edge(B, A) <- arc(A, B).
cc(X, mmin<X>) <- edge(X, _). cc(Y, mmin<Z>) <- cc(X, Z), edge(X, Y).
n(countd<Z>) <- cc(_, Z). query n(N)."""


@pytest.mark.parametrize(
    ("facts", "tasks", "rules", "taken"),
    [
        (20_000_000, 2, COMPONENTS, {"single"}),
        (20_000_000, 64, COMPONENTS, {"meshed", "frame"}),
        (60_000_000, 2, COMPONENTS, {"meshed", "frame"}),
        (20_000_000, 2, "tc", {"pivoted", "frame"}),
    ],
)
def test_what_is_around_a_recursion_stays_in_its_task(
    facts: int, tasks: int, rules: str, taken: set[str]
) -> None:
    """To bring many facts to Spark and back takes longer than one task needs for all."""
    if rules == "tc":
        rules = CLOSURE.partition("query")[0] + "n(count<B>) <- tc(_, B). query n(N)."
    seen = outlooks(compile_program(parse(rules), {}, {}).delta, {"arc": facts}, tasks)
    assert {each.large.strategy for each in seen} == taken


ARC = "database({arc(A: integer, B: integer)})."
CLOSURE = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."
TRIANGLES = ARC + "t(A, B, C) <- arc(A, B), arc(B, C), arc(A, C). query t(A, B, C)."
FRACTIONS = """database({arc(A: integer, B: integer, W: double)}).
t(sum<W>) <- arc(A, B, W), arc(B, C, _), arc(A, C, _). query t(W)."""
SAME = f"""{ARC} sg(A, B) <- arc(P, A), arc(P, B).
sg(A, B) <- arc(X, A), sg(X, Y), arc(Y, B). query sg(A, B)."""
MANY = 100_000_000


@pytest.mark.parametrize(
    ("program", "facts", "tasks", "strategy"),
    [
        (CLOSURE, 5, 2, "single"),
        (CLOSURE, 3_000_000, 2, "pivoted"),
        (TRIANGLES, 3_000_000, 2, "cubed"),
        (TRIANGLES, MANY, 2, "frame"),
        (FRACTIONS, 3_000_000, 2, "frame"),
        (SAME, 3_000_000, 2, "single"),
        (SAME, 3_000_000, 16, "meshed"),
        (SAME, MANY, 2, "meshed"),
    ],
)
def test_sizes_decide(program: str, facts: int, tasks: int, strategy: str) -> None:
    compiled = compile_program(parse(program), {}, {})
    (seen,) = outlooks(compiled.delta, {"arc": facts}, tasks)
    assert (seen.is_decided, seen.large.strategy) == (True, strategy)


def test_without_sizes_all_alternatives_are_told() -> None:
    compiled = compile_program(parse(SAME), {}, {})
    (seen,) = outlooks(compiled.delta, None, None)
    assert [option.strategy for option in seen.options] == ["single", "single", "meshed", "frame"]
    assert not seen.is_decided
    printed = text(compiled, "plan")
    assert "[sg] meshed, but single if at most 2,000,000 facts go in" in printed
    assert "at most 8 tasks would exchange facts" in printed


class Counted:
    """A table that only counts."""

    def __init__(self, facts: int) -> None:
        self.facts = facts

    def count(self) -> int:
        return self.facts


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        (100, "BroadcastHashJoin [C#3], [A#0], Inner, BuildRight"),
        (300_000, "Join [C#3], [A#0], Inner"),
    ],
)
def test_the_kind_of_a_join_of_frames(facts: int, line: str) -> None:
    compiled = compile_program(parse(CLOSURE), {}, {})
    setting = Setting(tasks=4, data={"arc": Counted(facts)}, options=Options(strategy="frame"))
    printed = text(compiled, "plan", setting)
    assert f"+- {line}" in printed
    assert ("BroadcastHashJoin if one side has at most 200,000" in printed) == (facts > 200_000)


def test_a_cyclic_body_in_frames_goes_to_cells() -> None:
    compiled = compile_program(parse(TRIANGLES), {}, {})
    for facts, expected in ((MANY, "HyperCubeJoin ["), (100, "BroadcastHashJoin [")):
        setting = Setting(data={"arc": Counted(facts)}, options=Options(strategy="frame"))
        assert f"+- {expected}" in text(compiled, "plan", setting)


def test_one_task_has_the_plan_of_the_embedded_engine() -> None:
    with caladan.connect("embedded") as db:
        db.add("arc", [(1, 2), (2, 3)])
        printed = db.explain(CLOSURE, "plan", engine="spark", master="local[3]")
        large = db.explain(CLOSURE, "plan", engine="spark", master="local[3]", strategy="pivoted")
    assert "+- Task [tc] strategy: single (2 facts: at most 2,000,000 facts go in)" in printed
    assert "look up arc(C, B) by A" in printed
    assert "hashpartitioning(A#0, 3)" in large


def test_sql_keeps_its_columns() -> None:
    query = """WITH recursive path(Src, Dst, min() AS Cost) AS (SELECT A, B, W FROM arc) UNION
      (SELECT p.Src, q.Dst, p.Cost + q.Cost FROM path p, path q WHERE p.Dst = q.Src)
      SELECT Src, Dst, Cost FROM path"""
    with caladan.connect("embedded") as db:
        program = "CREATE TABLE arc(A integer, B integer, W integer);" + query
        printed = db.explain(program, "logical", engine="spark")
        assert "'Join Inner, ('path1.Dst_2 = 'path2.Dst_2)" in printed
        for stage in ("analyzed", "optimized", "plan"):
            assert "Dst#" in db.explain(program, stage, engine="spark")


def test_doctests() -> None:
    assert doctest.testmod(choice) == (0, 5)
