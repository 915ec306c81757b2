"""What Spark knows of the frames that users are handed: size, nulls, partitioning, its own plans."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession, functions as sf

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

KEPT = {
    "held": partial(Retention),
    "staged": partial(Retention, few_bytes=9, rate=1e12),
    "counted": partial(Retention, few_bytes=9, rate=0.0, moment=0.0),
}


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
        ("single", CLOSURE, "counted"),
        ("pivoted", CLOSURE, "staged"),
        ("pivoted", NAMES, "counted"),
        ("frame", CLOSURE, "held"),
    ],
)
def test_sizes_are_within_two_times(
    db: caladan.Session, monkeypatch: pytest.MonkeyPatch, strategy: str, text: str, kept: str
) -> None:
    monkeypatch.setattr(job, "Retention", KEPT[kept])
    with db.run(text, strategy=strategy) as out:
        frame = out.answer.spark()
        arrow = out.answer.arrow()
        size = arrow.nbytes + 8 * arrow.num_rows  # Spark's rows have a word of their own
        assert size / 2 <= (internals.estimated_bytes(frame) or 0) <= size * 2
        assert not any(field.nullable for field in frame.schema)
        assert "coalesce" not in internals.plan_text(frame)
        assert sorted(map(tuple, frame.collect())) == out.answer.rows()
        filtered = frame.where(sf.col(out.answer.columns[0]) == 5)
        assert sorted(map(tuple, filtered.collect())) == [r for r in out.answer.rows() if r[0] == 5]


@pytest.mark.parametrize("kept", ["staged", "counted"])
def test_a_large_closure_is_not_broadcast(
    spark: SparkSession, db: caladan.Session, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    """Spark took facts that were only counted for 16 bytes, and broadcast them all."""
    monkeypatch.setattr(job, "Retention", KEPT[kept])
    db.add("arc", [(i, i + 1) for i in range(2_000)])  # 2,001,000 facts
    with db.run(CLOSURE) as out:
        facts = out.answer.spark()
        assert (internals.estimated_bytes(facts) or 0) > 30_000_000
        theirs = spark.range(3_000_000).select(
            (sf.col("id") % 2000).cast("int").alias("A"), sf.col("id").alias("x")
        )
        joined = facts.join(theirs, "A")
        assert "BroadcastHashJoin" not in plan_of(joined)
        few = spark.range(1).select(sf.lit(5).alias("A"), sf.lit("five").alias("name"))
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


@pytest.mark.parametrize(("kept", "type"), [("staged", "integer"), ("counted", "long")])
def test_spark_knows_by_which_column_tasks_share_facts(
    spark: SparkSession,
    db: caladan.Session,
    monkeypatch: pytest.MonkeyPatch,
    kept: str,
    type: str,
) -> None:
    monkeypatch.setattr(job, "Retention", KEPT[kept])
    with db.run(CLOSURE.replace("integer", type), strategy="pivoted") as out:
        frame = out.answer.spark()
        counts = frame.groupBy("A").count()
        assert "Exchange" not in plan_of(counts)
        assert sorted(map(tuple, counts.collect())) == [(a, 60 - a) for a in range(60)]
        assert "Exchange" in plan_of(frame.groupBy("B").count())
        # Spark's own exchange puts other rows where the facts are.
        narrow = "int" if type == "integer" else "long"
        theirs = spark.range(60).select(sf.col("id").cast(narrow).alias("A")).repartition(2, "A")
        met = frame.hint("merge").join(theirs, "A")
        assert met.count() == 60 * 61 // 2


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
