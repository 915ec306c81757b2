"""Frames that users are handed: what Spark knows of them, and that nothing is derived twice."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as sf
from tests.spark.garbage import settles

import caladan
from caladan.engines.spark.session import internals
from caladan.engines.spark.tasks import job
from caladan.engines.spark.tasks.work import Retention

CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."""
NAMES = """database({arc(A: integer, B: integer)}).
p(A, X, S, T) <- arc(A, B), X = B / 2.0, S = 'a name of some length', T = if(A > 3 then true else false).
p(A, Y, S, T) <- p(A, X, S, T), Y = X + 1, Y < 40. query p(A, X, S, T)."""  # noqa: E501
CHAIN = [(i, i + 1) for i in range(60)]

RINGS = [(i, (i + 1) % 40 + i // 40 * 40) for i in range(1_600)]
"""40 rings of 40 nodes, whose closure of 64,000 facts is found as a matrix."""

KEPT = {
    "held": partial(Retention),
    "staged": partial(Retention, few_bytes=9, rate=1e12),
    "as a matrix": partial(Retention, few_bytes=9, rate=0.0, moment=0.0),
    "in blocks": partial(Retention, few_bytes=9),
}


def keep(db: caladan.Session, monkeypatch: pytest.MonkeyPatch, kept: str) -> None:
    """Have results kept in a way, whatever their size."""
    monkeypatch.setattr(job, "Retention", KEPT[kept])
    if kept == "in blocks":
        engine: Any = db._engine
        engine._staging.is_on_every_disk = False  # as on a cluster without a folder for all


@pytest.fixture
def db(spark: SparkSession) -> Iterator[caladan.Session]:
    with caladan.connect(spark) as db:
        db.add("arc", CHAIN)
        yield db


def plan_of(frame: Any) -> str:
    return internals.plan_text(frame).partition("== Physical Plan ==")[2]


@pytest.mark.parametrize(
    ("strategy", "text", "kept"),
    [
        ("single", NAMES, "held"),
        ("single", NAMES, "staged"),
        ("single", NAMES, "in blocks"),
        ("single", CLOSURE, "as a matrix"),
        ("pivoted", CLOSURE, "staged"),
        ("pivoted", CLOSURE, "as a matrix"),
        ("pivoted", CLOSURE, "in blocks"),
        ("frame", CLOSURE, "held"),
    ],
)
def test_sizes_are_within_two_times(
    db: caladan.Session, monkeypatch: pytest.MonkeyPatch, strategy: str, text: str, kept: str
) -> None:
    keep(db, monkeypatch, kept)
    if kept == "as a matrix":
        db.add("arc", RINGS)
    with db.run(text, strategy=strategy) as out:
        frame = out.answer.spark()
        assert ("ArrowEvalPython" in plan_of(frame)) == (kept == "as a matrix")
        arrow = out.answer.arrow()
        size = arrow.nbytes + 8 * arrow.num_rows  # Spark's rows have a word of their own
        assert size / 2 <= (internals.estimated_bytes(frame) or 0) <= size * 2
        assert not any(field.nullable for field in frame.schema)
        assert "coalesce" not in internals.plan_text(frame)
        assert sorted(map(tuple, frame.collect())) == out.answer.rows()
        filtered = frame.where(sf.col(out.answer.columns[0]) == 5)
        assert sorted(map(tuple, filtered.collect())) == [r for r in out.answer.rows() if r[0] == 5]


@pytest.mark.parametrize("kept", ["staged", "as a matrix"])
def test_a_large_closure_is_not_broadcast(
    spark: SparkSession, db: caladan.Session, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """Spark took facts that were only counted for 16 bytes, and broadcast them all."""
    keep(db, monkeypatch, kept)
    db.add("arc", [(i, i + 1) for i in range(2_000)])  # 2,001,000 facts
    with db.run(CLOSURE) as out:
        facts = out.answer.spark()
        assert (internals.estimated_bytes(facts) or 0) > 20_000_000
        theirs = spark.range(3_000_000).select(
            (sf.col("id") % 2000).cast("int").alias("A"), sf.col("id").alias("x")
        )
        joined = facts.join(theirs, "A")
        assert "BroadcastHashJoin" not in plan_of(joined)
        few = spark.range(5, 6).select(sf.col("id").cast("int").alias("A"))
        assert "BroadcastHashJoin" in plan_of(facts.join(few, "A"))
        assert facts.join(few, "A").count() == 1995


def test_filters_and_columns_reach_the_files(
    db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "Retention", KEPT["staged"])
    with db.run(CLOSURE, strategy="single") as out:
        frame = out.answer.spark()
        assert "PushedFilters: [EqualTo(c0,5)]" in plan_of(frame.where("A = 5"))
        assert "ReadSchema: struct<c1:int>" in plan_of(frame.select("B"))
        with db.run(CLOSURE.replace("query tc(A, B)", "query tc(5, B)")) as bound:
            assert bound.answer.rows() == [(5, b) for b in range(6, 61)]


@pytest.mark.parametrize("type", ["integer", "long"])
def test_spark_knows_by_which_column_tasks_share_facts(
    spark: SparkSession,
    db: caladan.Session,
    monkeypatch: pytest.MonkeyPatch,
    type: str,
) -> None:
    keep(db, monkeypatch, "staged")
    db.add("arc", RINGS)
    with db.run(CLOSURE.replace("integer", type), strategy="pivoted") as out:
        frame = out.answer.spark()
        counts = frame.groupBy("A").count()
        assert "Exchange" not in plan_of(counts)
        assert sorted(map(tuple, counts.collect())) == [(a, 40) for a in range(1_600)]
        assert "Exchange" in plan_of(frame.groupBy("B").count())
        # Spark's own exchange puts other rows where the facts are.
        narrow = "int" if type == "integer" else "long"
        theirs = spark.range(60).select(sf.col("id").cast(narrow).alias("A")).repartition(2, "A")
        met = frame.hint("merge").join(theirs, "A")
        assert met.count() == 60 * 40


def test_parts_that_sent_little_are_still_where_spark_looks(
    db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "Retention", partial(Retention, few_bytes=100, rate=1e12))
    arcs = [(0, i) for i in range(1, 100)] + [(-i, -i - 9) for i in range(1, 9)]
    db.add("arc", arcs)
    with db.run(CLOSURE, strategy="pivoted") as out:
        counts = out.answer.spark().groupBy("A").count()
        assert "Exchange" not in plan_of(counts)
        assert sorted(map(tuple, counts.collect())) == [
            *((-i, 1) for i in range(8, 0, -1)),
            (0, 99),
        ]


# ── Derived once ─────────────────────────────────────────────────────────────────────────────────

COUNTED = """database({arc(A: integer, B: integer)}).
edge(A, B) <- arc(A, B), seen(A) >= 0.
tc(A, B) <- edge(A, B). tc(A, B) <- tc(A, C), edge(C, B). query tc(A, B)."""


@pytest.mark.parametrize("kept", ["staged", "as a matrix", "in blocks"])
def test_two_actions_are_one_evaluation(
    spark: SparkSession,
    db: caladan.Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kept: str,
) -> None:
    keep(db, monkeypatch, kept)
    db.add("arc", RINGS)
    calls = str(tmp_path / "calls")

    def seen(values: Any) -> Any:
        with Path(calls).open("a") as file:
            file.write(f"{int((values == 0).sum())}\n")
        return values

    def evaluations() -> int:
        return sum(map(int, Path(calls).read_text().split()))

    db.define("seen", seen, returns="integer", vectorized="numpy")
    with db.run(COUNTED, strategy="single") as out:
        frame = out.answer.spark()
        assert frame.count() == 64_000
        assert frame.where("A = 5").count() == 40
        assert out.answer.count() == len(out.answer.rows()) == 64_000
        assert evaluations() == 1
        # Nobody had asked for this one; whoever does has it derived, once.
        monkeypatch.setattr(job, "Retention", partial(KEPT[kept], unasked_bytes=0, unasked_part=0))
    with db.run(COUNTED, strategy="single") as out:
        assert evaluations() == 2
        edges = out["edge"]
        assert edges.count() == 1_600
        assert evaluations() == 2
        assert edges.spark().count() == 1_600
        assert edges.spark().where("A = 5").collect() == [(5, 6)]
        assert len(edges.rows()) == 1_600
        assert evaluations() == 3


def test_a_filter_lists_only_what_it_keeps(
    db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(db, monkeypatch, "as a matrix")
    db.add("arc", RINGS)
    with db.run(CLOSURE, strategy="single") as out:
        kept = out.answer.spark().where("A = 5 and B > 20")
        assert "PushedFilters: [EqualTo(c0,5)]" in plan_of(kept)
        assert sorted(map(tuple, kept.collect())) == [(5, b) for b in range(21, 40)]


def test_facts_in_blocks_go_with_their_result(
    spark: SparkSession, db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored() -> set[Any]:
        return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())  # type: ignore[attr-defined]

    keep(db, monkeypatch, "in blocks")
    before = stored()
    with db.run(CLOSURE, strategy="pivoted") as out:
        assert stored() - before
        assert len(out.answer.rows()) == 1830
    assert not stored() - before
    with db.run(CLOSURE, strategy="meshed") as out:
        frame = out.answer.spark()
    assert frame.count() == 1830  # a frame that was handed out can be read for longer
    del frame, out
    assert settles(spark, lambda: not stored() - before)
