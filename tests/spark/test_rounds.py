"""Rounds: how facts are kept from one to the next, and that nothing of them stays behind."""

import gc
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyspark.sql import SparkSession, functions as sf

import caladan
from caladan.engines.spark import choice
from caladan.engines.spark.frame import facts as facts_module, fixpoint, log
from caladan.engines.spark.session import internals, session, workspace as workspace_module
from caladan.engines.spark.sources import table
from caladan.program.events import Event, Listener, RoundDone

CHAIN = 40  # bench/spark_rounds.py goes further, and looks at the time as well

PROGRAMS = {
    "linear": "p(A, B) <- arc(A, B). p(A, B) <- p(A, C), arc(C, B). query p(A, B).",
    "quadratic": "p(A, B) <- arc(A, B). p(A, B) <- p(A, C), p(C, B). query p(A, B).",
    "mutual": """odd(A, B) <- arc(A, B). even(A, B) <- odd(A, C), arc(C, B).
        odd(A, B) <- even(A, C), arc(C, B). query odd(A, B). query even(A, B).""",
    "shortest": """p(A, B, mmin<D>) <- arc(A, B), D = A + 2 * B + 1.
        p(A, B, mmin<D>) <- p(A, C, D1), p(C, B, D2), D = D1 + D2. query p(A, B, D).""",
    "shortest, source by source": """p(A, B, mmin<D>) <- arc(A, B), D = A + 2 * B + 1.
        p(A, B, mmin<D>) <- p(A, C, D1), arc(C, B), D = D1 + C + 1. query p(A, B, D).""",
    "longest label": """p(A, mmax<B>, mmin<B>) <- arc(A, B).
        p(A, mmax<M>, mmin<N>) <- arc(A, B), p(B, M, N). query p(A, M, N).""",
    "paths": """p(A, B, mcount<(A, 1)>) <- arc(A, B), A < B.
        p(A, B, mcount<(C, N)>) <- p(A, C, N), arc(C, B), C < B. query p(A, B, N).""",
    "paths, each a solution": """p(A, B, msum<N>) <- arc(A, B), A < B, N = 1.
        p(A, B, msum<N>) <- p(A, C, N), arc(C, B), C < B. query p(A, B, N).""",
}  # fmt: skip


@pytest.fixture
def storage(spark: SparkSession) -> Iterator[Any]:
    """Which frames Spark holds now that it did not hold before."""
    context: Any = spark.sparkContext

    def held() -> set[int]:
        return set(context._jsc.getPersistentRDDs().keySet())

    before = held()
    yield lambda: held() - before


@pytest.fixture(scope="module")
def tiny_partitions() -> Iterator[None]:
    """Facts are few here; make even few of them count as many."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (choice, log, fixpoint, workspace_module, table):
            patch.setattr(module, "SMALL", 4)
        patch.setattr(choice, "FULL", 8)
        patch.setattr(choice, "WAVES", 2)
        patch.setattr(facts_module, "_HASHED", 2)
        yield


def test_rounds_leave_nothing_behind(spark: SparkSession, storage: Any) -> None:
    with caladan.connect(spark) as db:
        db.add("arc", [(i, i + 1) for i in range(CHAIN)])
        out = db.run(
            """database({arc(A: integer, B: integer)}).
            reached(0). reached(B) <- reached(A), arc(A, B). query reached(A).""",
            strategy="frame",
        )
        assert out.answer.count() == CHAIN + 1
        assert out.stats.rounds >= CHAIN
        assert len(storage()) <= 8  # the relation's few runs and its data, not its rounds
        out.close()
    assert not storage()


def test_results_that_nobody_closes_leave_nothing_behind(spark: SparkSession, storage: Any) -> None:
    program = "hop(A, C) <- arc(A, B), arc(B, C). query hop(A, C)."
    with caladan.connect(spark) as db:
        db.add("arc", [(i, i + 1) for i in range(CHAIN)])
        for _ in range(4):
            assert db.run(program, strategy="frame").answer.count() == CHAIN - 1
            gc.collect()
        before = len(storage())
        frame = db.run(program, strategy="frame").answer.spark()
        gc.collect()
        db.run(program, strategy="frame")
        assert len(storage()) <= before + 1  # the frame's, which somebody has
    gc.collect()
    assert before <= 3  # the data, and the results of the last two runs
    assert frame.count() == CHAIN - 1


def test_what_a_failed_run_held_is_let_go(spark: SparkSession, storage: Any) -> None:
    with caladan.connect(spark) as db:
        db.add("n", [(3,), (2,), (1,), (0,)])
        with pytest.raises(caladan.CaladanError, match="C040"):
            db.run(
                """database({n(A: integer)}).
                p(A) <- n(A), A = 3. p(B) <- p(A), B = A - 1, 6 / B >= 0. query p(A).""",
                strategy="frame",
            )
    assert not storage()


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(arcs=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=9, max_size=14))
def test_runs_that_are_merged_hold_the_same_facts(
    spark: SparkSession, tiny_partitions: None, name: str, arcs: list[tuple[int, int]]
) -> None:
    text = f"database({{arc(A: integer, B: integer)}}).\n{PROGRAMS[name]}"
    answers: list[list[list[tuple[Any, ...]]]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        for engine in (spark, "reference"):
            with caladan.connect(engine) as db:
                db.add("arc", arcs)
                answers.append([a.rows() for a in db.run(text, strategy="frame").answers])
    assert answers[0] == answers[1]


class Rounds(Listener):
    """How many facts of a recursive relation each round found."""

    def __init__(self) -> None:
        self.new: list[int] = []

    def tell(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            self.new.append(event.new)


def test_only_groups_that_improve_on_all_runs_are_new(
    spark: SparkSession, tiny_partitions: None
) -> None:
    """Ranks come down a ladder: from round to round a group is in another run, with a better value.

    What improves on an old run alone is not new: it would be joined again, and for long.
    """
    rungs = [(i, i + 1) for i in range(24)] + [(i + 1, i) for i in range(24)]
    rounds = Rounds()
    with caladan.connect(spark, listeners=[rounds]) as db:
        db.add("arc", rungs)
        out = db.run(
            """r(A, mmin<A>) <- arc(A, _). r(B, mmin<L>) <- r(A, L), arc(A, B).
            query r(A, L).""",
            strategy="frame",
        )
        assert out.answer.rows() == [(rung, 0) for rung in range(25)]
    assert rounds.new == [25, *range(24, -1, -1)]


FAN_THEN_CHAIN = [(0, i) for i in range(1, 41)] + [(i, i + 1) for i in range(40, 52)]
NARROW = {
    "linear": "r(0). r(B) <- r(A), arc(A, B). query r(A).",
    "best": """r(A, mmin<D>) <- arc(A, _), A = 0, D = 0.
        r(B, mmin<D>) <- r(A, C), arc(A, B), D = C + 1. query r(A, D).""",
    "both sides": "r(A, B) <- arc(A, B). r(A, B) <- r(A, C), r(C, B). query r(A, B).",
}


@pytest.mark.parametrize("name", NARROW)
def test_many_partitions_become_few_when_rounds_are_small(
    spark: SparkSession, tiny_partitions: None, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "FULL", 24)
    monkeypatch.setattr(choice, "WAVES", 8)
    spreads: list[int] = []
    spread = workspace_module.Workspace.spread

    def noted(self: workspace_module.Workspace, partitions: int) -> None:
        spreads.append(partitions)
        spread(self, partitions)

    monkeypatch.setattr(workspace_module.Workspace, "spread", noted)
    answers: list[list[tuple[Any, ...]]] = []
    for engine in (spark, "reference"):
        with caladan.connect(engine) as db:
            db.add("arc", FAN_THEN_CHAIN)
            answers.append(db.run(NARROW[name], strategy="frame").answer.rows())
    assert answers[0] == answers[1]
    if name != "both sides":
        assert max(spreads) >= 8
        assert spreads[-1] <= 4


def test_new_facts_that_are_spread_anew_are_so_before_they_are_joined(spark: SparkSession) -> None:
    workspace = workspace_module.Workspace(session.child(spark))
    workspace.spread(2)
    facts = log.Log(workspace, ["c0"], ["c0"], lambda frame: frame, carried=True)
    frame = workspace.session.range(choice.SMALL + 1).toDF("c0")
    fresh = sf.lit(True).alias(log.FRESH)
    facts.renew(workspace.materialise(facts.placed(frame).select("c0", fresh)))
    workspace.spread(4)
    facts.spread()
    delta = facts.delta(choice.SMALL + 1).frame
    assert delta.rdd.getNumPartitions() == 4
    assert delta.count() == choice.SMALL + 1
    workspace.close()


def test_rows_of_a_run_are_not_serialised(spark: SparkSession) -> None:
    workspace = workspace_module.Workspace(session.child(spark))
    run = workspace.materialise(workspace.session.range(10))
    assert run.handle.getStorageLevel().deserialized()
    workspace.close()


MANY = 40_000


def test_many_rows_are_held_in_columns(spark: SparkSession, storage: Any) -> None:
    """In a fraction of the memory; they know neither their plan nor their exchange any more."""
    workspace = workspace_module.Workspace(session.child(spark))
    workspace.spread(4)
    rows = workspace.session.range(MANY).selectExpr("id c0", "id % 7 c1", "id % 2 = 0 fresh")
    runs = [
        workspace.materialise(rows.repartition(4, "c1"), ("fresh",), many=many)
        for many in (False, True)
    ]
    assert [(run.count, run.counted, run.partitions) for run in runs] == [
        (MANY, (MANY // 2,), 4)
    ] * 2
    held: Any = {info.id(): info.memSize() for info in storage_of(spark)}
    as_rows, in_columns = (held[run.handle.id()] for run in runs)
    assert 5 * in_columns < as_rows
    later: Any = runs[1].frame.groupBy("c1").count()
    plan = later._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan
    assert sorted(later.collect()) == sorted(runs[0].frame.groupBy("c1").count().collect())
    workspace.close()
    assert not storage()


def storage_of(spark: SparkSession) -> list[Any]:
    """What Spark says of what it holds."""
    context: Any = spark.sparkContext
    return list(context._jsc.sc().getRDDStorageInfo())


def test_where_there_are_no_columns_rows_are_held(
    spark: SparkSession, tiny_partitions: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internals, "in_columns", lambda *_: None)
    with caladan.connect(spark) as db:
        db.add("arc", FAN_THEN_CHAIN)
        assert db.run(NARROW["linear"], strategy="frame").answer.count() == 53
