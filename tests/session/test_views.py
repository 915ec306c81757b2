"""Relations as temporary views of Spark, and runners."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import caladan as cal

RULES = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). "
ARCS = {"A": [1, 2, 3], "B": [2, 3, 4]}


@pytest.fixture
def db(spark: SparkSession) -> Iterator[cal.Session]:
    with cal.connect(spark) as db:
        db.add("arc", ARCS)
        yield db


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()))


def test_relations_are_views_of_a_session_beside(spark: SparkSession, db: cal.Session) -> None:
    db.run(RULES + "query tc(A, B).")
    joined = db.spark.sql("select arc.A, tc.B from arc join tc on arc.B = tc.A order by 1, 2")
    assert [tuple(row) for row in joined.collect()] == [(1, 3), (1, 4), (2, 4)]
    assert rows(db.spark.sql("select * from tc where A = 1")) == [(1, 2), (1, 3), (1, 4)]
    assert not spark.catalog.tableExists("tc")
    # A view follows its relation.
    views = db.spark
    db.add("arc", {"A": [7], "B": [8]})
    assert rows(views.table("arc")) == [(7, 8)]
    assert views.table("tc").count() == 6  # as the last run derived it
    db.run(RULES + "query tc(A, B).")
    assert rows(views.table("tc")) == [(7, 8)]
    kept = views.table("tc")
    db.drop("arc")
    assert not views.catalog.tableExists("arc")
    db.close()
    assert not views.catalog.tableExists("tc")
    assert rows(kept) == [(7, 8)]  # a frame that was made of a view can still be read


def test_what_was_not_asked_for_has_no_view(db: cal.Session) -> None:
    out = db.run(RULES + "far(A) <- tc(1, A). query tc(2, B).")
    assert not db.spark.catalog.tableExists("far")
    assert not db.spark.catalog.tableExists("tc")  # the goal asked for a part of it
    assert out["far"].count() == 3
    assert rows(db.spark.table("far")) == [(2,), (3,), (4,)]


def test_views_of_the_users_session_are_never_replaced(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).createOrReplaceTempView("arc")
    try:
        with cal.connect(spark, views=True) as db:
            with pytest.warns(cal.CaladanWarning, match="`arc` has no temporary view: a view or"):
                db.add("arc", ARCS)
            db.run(RULES + "query tc(A, B).")
            assert spark.table("arc").count() == 3
            assert spark.sql("select count(*) from tc").head() == (6,)
            spark.range(5).createOrReplaceTempView("tc")  # it is theirs now
            with pytest.warns(cal.CaladanWarning, match="`tc` has no temporary view"):
                db.run(RULES + "query tc(A, B).")
            db.add("other", [(1,)])
            assert spark.table("other").count() == 1
        assert spark.table("tc").count() == 5
        assert not spark.catalog.tableExists("other")
    finally:
        spark.catalog.dropTempView("arc")
        spark.catalog.dropTempView("tc")


def test_the_embedded_engine_has_no_views() -> None:
    with cal.connect("embedded") as db, pytest.raises(cal.CaladanError, match="no SparkSession"):
        _ = db.spark


def test_live_relations_are_frames_and_views(spark: SparkSession, db: cal.Session) -> None:
    db.add("arc", spark.createDataFrame([(1, 2), (2, 3)], "A int, B int"))
    with db.watch(RULES + "query tc(A, B).") as live:
        assert rows(live["tc"].spark()) == [(1, 2), (1, 3), (2, 3)]
        db.insert("arc", spark.createDataFrame([(3, 4)], "A int, B int"))
        db.delete("arc", spark.createDataFrame([(1, 2)], "A int, B int"))
        assert rows(db.spark.table("tc")) == [(2, 3), (2, 4), (3, 4)]
        changes = live.changes("tc").spark()
        assert changes.columns == ["A", "B", "_change_type"]
        assert rows(changes) == [
            (1, 2, "delete"), (1, 3, "delete"), (2, 4, "insert"), (3, 4, "insert"),
        ]  # fmt: skip
        db.replace("arc", spark.createDataFrame([(9, 9)], "A int, B int"))
        assert rows(db.spark.table("tc")) == [(9, 9)]


def test_runners(spark: SparkSession) -> None:
    with cal.DatalogRunner(engine=spark) as runner:
        runner.session.add("arc", ARCS)
        runner.compile(RULES + "query tc($From, B).")
        assert runner.execute({"From": 2}).answer.rows() == [(2, 3), (2, 4)]
        assert runner.execute({"From": 3}).answer.rows() == [(3, 4)]
        assert runner.run(RULES + "query tc(1, B).").answer.count() == 3
        of_sql = cal.RaSQLRunner(runner.session)
        of_sql.compile("SELECT A FROM arc WHERE B > 2")
        assert of_sql.execute().answer.rows() == [(2,), (3,)]
        of_sql.close()
        assert runner.run("query arc(A, B).").answer.count() == 3  # it was given its session
    with cal.connect("embedded") as db, pytest.raises(cal.CaladanError, match="compile"):
        cal.DatalogRunner(db).execute()
