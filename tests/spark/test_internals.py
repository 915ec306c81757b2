"""What the engine asks of the JVM, each on its own: a Spark that has it otherwise fails here."""

import gc
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession, functions as sf

from caladan.engines.spark.session import internals
from caladan.engines.spark.session.session import child
from caladan.engines.spark.session.workspace import HELD
from caladan.engines.spark.tasks.buckets import buckets

ROOT = Path(__file__).parents[2]


def test_only_one_module_talks_to_the_jvm() -> None:
    asks = re.compile(r"\._(jvm|jdf|jsc|jsparkSession|jrdd|jconf)\b")
    found = {
        str(path.relative_to(ROOT / "src/caladan"))
        for path in (ROOT / "src").rglob("*.py")
        if asks.search(path.read_text())
    }
    # `is_running` is for every engine, which the spark engine's modules are not.
    assert found == {"engines/spark/session/internals.py", "data/frames.py"}


def test_settings(spark: SparkSession) -> None:
    found = internals.settings(spark)
    assert found["spark.sql.shuffle.partitions"] == "2"
    assert found["spark.master"] == "local[2]"


def test_contexts_say_what_they_have(spark: SparkSession) -> None:
    context = spark.sparkContext
    assert not internals.is_stopped(context)
    assert internals.size_setting(context, "spark.driver.memory", "1g") == 2 << 30
    assert 1 << 30 < internals.heap(context) <= 2 << 30
    assert internals.slots(context) == 2


def test_bytes_shuffled(spark: SparkSession) -> None:
    known = set[int]()
    spark.sparkContext.addJobTag("internals")
    try:
        spark.range(1000).repartition(2).count()
    finally:
        spark.sparkContext.removeJobTag("internals")
    assert (internals.bytes_shuffled(spark.sparkContext, "internals", known) or 0) > 0
    assert known
    assert internals.bytes_shuffled(spark.sparkContext, "internals", known) == 0


def test_the_active_session_stays(spark: SparkSession) -> None:
    before = SparkSession.getActiveSession()
    other = spark.newSession()
    with internals.kept_active(other):
        other.createDataFrame(pa.table({"a": [1]}))
    assert SparkSession.getActiveSession() is before


def test_frames_move(spark: SparkSession) -> None:
    other = child(spark)
    moved = internals.rehome(other.range(3), spark)
    assert moved is not None
    assert moved.sparkSession is spark
    assert moved.count() == 3


def test_what_spark_knows_of_a_frame(spark: SparkSession) -> None:
    frame = spark.range(100).observe("seen", sf.count(sf.lit(1)).alias("n"))
    assert internals.estimated_bytes(spark.range(100)) == 800
    assert "== Physical Plan ==" in internals.plan_text(frame)
    frame.collect()
    assert internals.read_observed(frame, "seen", 1) == (100,)


def test_checkpoints_show_their_rdd(spark: SparkSession) -> None:
    held = spark.range(10).localCheckpoint(eager=False)
    rdd = internals.checkpoint_rdd(held)
    assert rdd.count() == 10
    rdd.unpersist(False)


def test_columns_are_held(spark: SparkSession) -> None:
    held = internals.in_columns(spark.range(10).localCheckpoint(eager=False), HELD)
    assert held is not None
    assert held.batches.count() > 0
    assert held.frame.count() == 10
    held.batches.unpersist(False)


def test_rows_have_the_size_that_spark_gives_them(spark: SparkSession) -> None:
    text = "a byte, b short, c int, d long, e double, f float, g boolean, h date, i timestamp_ntz, "
    frame = spark.createDataFrame([], text + "j string, k binary, l decimal(38, 18)")
    one = spark.range(1).select(
        *(sf.lit(None).cast(f.dataType).alias(f.name) for f in frame.schema)
    )
    # A row of numbers is taken for 16 bytes, and their range for 8.
    assert internals.row_size(frame.schema) == 2 * (internals.estimated_bytes(one) or 0)


def description(rows: int, buckets: Any = None) -> internals.Description:
    return internals.Description("facts", rows, rows * 16, (False, False), buckets)


def staged(tmp_path: Path, spark: SparkSession) -> Any:
    values = np.arange(100, dtype=np.int32)
    placed = buckets(values.astype(np.uint64), 3, narrow=True)
    files: list[str] = []
    for i in range(3):
        mine = values[placed == i]
        table = pa.table({"c0": mine, "c1": mine.astype(np.int64) * 2})
        files.append(str(tmp_path / f"facts_{i:05d}.parquet"))
        pq.write_table(table, files[-1])
    return spark.read.schema("c0 int, c1 long").parquet(*files)


def test_files_are_described(spark: SparkSession, tmp_path: Path) -> None:
    frame = internals.describe_frame(staged(tmp_path, spark), description(100, (3, ("c0",))))
    assert [field.nullable for field in frame.schema] == [False, False]
    assert internals.estimated_bytes(frame) == 1600
    named = frame.toDF("A", "B")
    assert "PushedFilters: [EqualTo(A,5)]".replace("A", "c0") in _physical(named.where("A = 5"))
    assert "ReadSchema: struct<c1:bigint>" in _physical(named.select("B"))
    assert "Exchange" not in _physical(named.groupBy("A").count())
    assert "Exchange" in _physical(named.groupBy("B").count())
    assert named.groupBy("A").count().where("count = 1").count() == 100
    assert named.where("A = 5").collect() == [(5, 10)]
    # Spark's own exchange would put them there, too: a join needs to move the other side only.
    other = spark.range(100).select(sf.col("id").cast("int").alias("A"))
    met = other.hint("merge").join(named, "A")
    assert _physical(met).count("Exchange") == 1
    assert met.count() == 100


def test_what_is_computed_is_described(spark: SparkSession) -> None:
    listed: Any = spark.range(2).select("id", (sf.col("id") * 2).alias("c1"))
    frame = internals.describe_frame(
        listed.mapInArrow(_same, "c0 long, c1 long"), description(2_000_000)
    )
    assert [field.nullable for field in frame.schema] == [False, False]
    assert internals.estimated_bytes(frame) == 32_000_000
    assert sorted(map(tuple, frame.collect())) == [(0, 0), (1, 2)]
    small = spark.range(10)
    assert "BroadcastHashJoin" in _physical(frame.join(small, frame["c0"] == small["id"]))
    by_itself = frame.join(frame.toDF("x", "y"), sf.expr("c0 = x"))
    assert "BroadcastHashJoin" not in _physical(by_itself)
    held = frame.localCheckpoint()
    again = internals.describe_frame(held, description(3_000_000, (1, ("c0",))))
    assert internals.estimated_bytes(again) == 48_000_000
    assert internals.estimated_bytes(held) != 48_000_000  # it is a copy


def _same(batches: Any) -> Any:
    return (batch.rename_columns(["c0", "c1"]) for batch in batches)


def test_spark_says_when_nobody_reads_a_plan_any_more(spark: SparkSession, tmp_path: Path) -> None:
    plans = internals.Plans(spark.sparkContext)
    frame = staged(tmp_path, spark)
    key = plans.follow(frame)
    frame.toDF("A", "B").createOrReplaceTempView("plans_internals")
    assert plans.follow(spark.range(3)) is None
    del frame
    _collect(spark)
    assert list(plans.gone()) == []
    spark.catalog.dropTempView("plans_internals")
    for _ in range(20):
        _collect(spark)
        if found := list(plans.gone()):
            assert found == [key]
            return
        time.sleep(0.2)
    pytest.fail("the plan is still there")


def _collect(spark: SparkSession) -> None:
    gc.collect()
    spark.sparkContext._jvm.System.gc()


def _physical(frame: Any) -> str:
    return internals.plan_text(frame).partition("== Physical Plan ==")[2]
