"""Data that was replaced is let go of as soon as no result can need it, and not before."""

from __future__ import annotations

import gc
import tempfile
import weakref
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.spark.garbage import settles

import caladan as cal
from caladan.engines.interface import Table
from caladan.engines.spark.session import internals
from caladan.engines.spark.sources import shipment, table
from caladan.engines.spark.tasks import job
from caladan.engines.spark.tasks.work import Retention

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CLOSURE = """
    tc(A, B) <- arc(A, B).
    tc(A, B) <- tc(A, C), arc(C, B).
"""


def tables(db: cal.Session) -> list[weakref.ref[Table]]:
    """The tables that the session has loaded."""
    return [weakref.ref(table) for table, _ in db._store._shelf.tables.values()]


def alive(refs: list[weakref.ref[Table]]) -> int:
    gc.collect()
    return sum(ref() is not None for ref in refs)


class TestInProcess:
    @pytest.fixture
    def db(self) -> cal.Session:
        db = cal.connect("embedded")
        db.add("arc", [(1, 2), (2, 3)])
        return db

    def test_replaced_data_goes(self, db: cal.Session) -> None:
        db.run(CLOSURE + "query tc(A, B).")
        first = tables(db)
        assert len(first) == 1
        for i in range(5):
            db.add("arc", [(i, i + 1)])
            assert alive(first) == 0
            assert db.run("query arc(A, B).").answer.rows() == [(i, i + 1)]
        assert len(tables(db)) == 1
        assert len(db._store._shelf.columns) == 1

    def test_a_result_keeps_what_it_may_need(self, db: cal.Session) -> None:
        out = db.run(CLOSURE + "query tc(1, B).")
        first = tables(db)
        db.add("arc", [(7, 8)])
        assert alive(first) == 1
        assert out["arc"].rows() == [(1, 2), (2, 3)]
        assert out["tc"].rows() == [(1, 2), (1, 3), (2, 3)]  # evaluated now, over the old data
        assert db.query("tc(A, B)").rows() == [(7, 8)]
        del out
        assert db.query("tc(A, B)").rows() == [(7, 8)]  # which looks around first
        assert alive(first) == 0

    def test_so_does_a_relation(self, db: cal.Session) -> None:
        arc = db.run("query arc(1, B).").answer
        first = tables(db)
        db.add("arc", [(7, 8)])
        db.query("arc(A, B)")
        assert alive(first) == 1
        assert arc.rows() == [(1, 2)]

    def test_what_find_encoded_goes(self, db: cal.Session) -> None:
        found = db.find("a b", "arc(a, b)")
        first = tables(db)
        db.add("arc", [(7, 8)])
        assert alive(first) == 0
        assert sorted(db.find("a b", "arc(a, b)")) == [(7, 8)]
        assert sorted(found) == [(1, 2), (2, 3)]

    def test_what_scripts_hand_to_rules_goes(self, db: cal.Session) -> None:
        query = (
            "WITH recursive tc(A, B) AS (SELECT c1, c2 FROM arc WHERE c1 < 9) UNION "
            "(SELECT tc.A, arc.c2 FROM tc, arc WHERE tc.B = arc.c1) SELECT * FROM tc"
        )
        for _ in range(4):
            assert db.sql(query).count() == 3
        db.add("other", [(1,)])
        gc.collect()
        db.query("other(X)")
        assert len(tables(db)) <= 2

    def test_to_close_what_was_added_leaves_it_to_the_session(self, db: cal.Session) -> None:
        with db.run(CLOSURE + "query tc(1, B).") as out:
            out["arc"].close()
        assert db.query("tc(1, B)").rows() == [(1, 2), (1, 3)]


def held(spark: SparkSession) -> set[Any]:
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())  # type: ignore[attr-defined]


def test_few_rows_of_a_frame_stay_with_nobody(spark: SparkSession) -> None:
    """They are collected once: Spark holds nothing of them, however often they are replaced."""
    before = held(spark)
    jobs = spark.sparkContext.statusTracker()
    context: Any = spark.sparkContext._jsc.sc()  # type: ignore[attr-defined]
    with cal.connect(spark) as db:
        for i in range(3):
            db.add("arc", spark.range(i, i + 2).selectExpr("id as A", "id + 1 as B"))
            spark.sparkContext.setJobGroup(f"few {i}", "")
            out = db.run(CLOSURE + "query tc(A, B).")
            assert out.answer.rows() == [(i, i + 1), (i, i + 2), (i + 1, i + 2)]
            assert held(spark) <= before  # Spark lets go of what others held when it likes
            context.listenerBus().waitUntilEmpty()  # who keeps the books of jobs is told later
            found = sorted(jobs.getJobIdsForGroup(f"few {i}"))  # to collect them, and the task
            told = [context.statusStore().job(number).description().get() for number in found]
            assert told == ["caladan: reading arc", "caladan: tc, single, 1 task"]
            spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
        before_it = set(jobs.getJobIdsForGroup())
        db.run(CLOSURE + "query tc(A, B).")
        context.listenerBus().waitUntilEmpty()
        assert set(jobs.getJobIdsForGroup()) == before_it  # they have a group of their own
        assert spark.sparkContext.getLocalProperty("spark.jobGroup.id") is None


def test_replaced_data_goes_from_spark(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internals, "estimated_bytes", lambda _: None)  # as if there were very many
    before = held(spark)
    with cal.connect(spark) as db:

        def add(number: int) -> None:
            db.add("arc", spark.createDataFrame([(number, number + 1)], "A int, B int"))

        add(1)
        out = db.run("query arc(A, B).")
        assert not held(spark) - before  # they are in files until somebody asks
        assert out.answer.count() == 1
        first = held(spark) - before
        assert first
        add(2)
        assert first <= held(spark)
        assert out["arc"].rows() == out.answer.rows() == [(1, 2)]
        del out
        gc.collect()
        frame = db.run("query arc(A, B).").answer.spark()
        assert not first & held(spark)
        gc.collect()
        lent = held(spark) - before
        for i in range(3, 6):
            add(i)
            assert db.run("query arc(A, B).").answer.rows() == [(i, i + 1)]
            gc.collect()
        assert [tuple(row) for row in frame.collect()] == [(2, 3)]  # nobody knows for how long
        assert lent <= held(spark)
        assert len(held(spark) - before - lent) == 1
    assert held(spark) - before == lent  # the frame is still there, and can be read
    assert [tuple(row) for row in frame.collect()] == [(2, 3)]
    del frame
    assert settles(spark, lambda: not held(spark) - before)


STAYING = {
    "written by the driver": (table, "_MANY_BYTES", 0, "single"),
    "written by tasks": (job, "Retention", partial(Retention, few_bytes=0, rate=1e99), "pivoted"),
    "held by Spark": (table, "_MANY_BYTES", 0, "frame"),
}


@pytest.mark.parametrize("where", STAYING)
def test_a_frame_stays_for_as_long_as_somebody_has_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    module, name, value, strategy = STAYING[where]
    monkeypatch.setattr(module, name, value)
    monkeypatch.setattr(shipment, "_FEW_BYTES", 0)  # inputs are files, too
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    before = held(spark)

    def staged() -> list[Path]:
        return list(tmp_path.glob("caladan-*"))

    def closed() -> DataFrame:
        with cal.connect(spark) as db:
            db.add("arc", pairs(spark))
            with db.run(CLOSURE + "query tc(A, B).", strategy=strategy) as out:
                return out.answer.spark()

    def dropped() -> DataFrame:
        db = cal.connect(spark)
        db.add("arc", pairs(spark))
        return db.run(CLOSURE + "query tc(1, B).", strategy=strategy)["tc"].spark()

    for made in (closed, dropped) if where == "written by tasks" else (closed,):
        frame = made()
        gc.collect()
        assert sorted(map(tuple, frame.collect())) == [(1, 2), (1, 3), (2, 3)]
        frame.where("A = 1").createOrReplaceTempView("lent")
        del frame
        assert not settles(spark, lambda: False, times=1)
        assert bool(staged()) == (where != "held by Spark")
        assert spark.table("lent").count() == 2
        spark.catalog.dropTempView("lent")
    assert settles(spark, lambda: not staged() and held(spark) <= before)


def pairs(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, 2), (2, 3)], "A int, B int")


@pytest.mark.parametrize("strategy", ["single", "frame"])
def test_to_close_what_was_added_leaves_it_to_the_session(
    spark: SparkSession, strategy: Literal["single", "frame"]
) -> None:
    before = held(spark)
    with cal.connect(spark) as db:
        db.add("arc", pairs(spark) if strategy == "single" else [(1, 2), (2, 3)])
        out = db.run(CLOSURE + "query tc(1, B).", strategy=strategy)
        out["arc"].close()
        again = db.run("query tc(1, B).", strategy=strategy)
        assert again.answer.rows() == out.answer.rows() == [(1, 2), (1, 3)]
        again.close()
        out.close()  # which closes all that was looked at
        assert db.run("query arc(1, B).", strategy=strategy).answer.rows() == [(1, 2)]
    gc.collect()
    assert not held(spark) - before


def test_a_result_lets_go_of_what_it_evaluated_later(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internals, "estimated_bytes", lambda _: None)
    rules = "one(A) <- arc(A, _). two(A, B) <- one(A), one(B)."
    before = held(spark)
    with cal.connect(spark) as db:
        db.add("arc", pairs(spark))
        out = db.run(rules + "query arc(A, B).", strategy="frame")
        assert out.answer.count() == 2
        data = held(spark)
        assert out["two"].count() == 4
        assert held(spark) > data
        out.close()
        assert held(spark) == data > before
