"""The session on Spark: what is Spark's own. The programs of tests/programs do the rest."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pyspark.sql.types import StructType

import caladan as cal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLOSURE = """
    database({arc(A: integer, B: integer)}).
    tc(A, B) <- arc(A, B).
    tc(A, B) <- tc(A, C), arc(C, B).
"""
PAIRS = [(1, 2), (1, 3), (2, 3)]


def test_an_existing_session_is_used_and_left_alone(spark: SparkSession) -> None:
    with cal.connect(spark) as db:
        db.add("arc", spark.createDataFrame([(1, 2), (2, 3)], ["src", "dst"]))
        out = db.run(CLOSURE + "query tc(1, B).")
        assert out.answer.rows() == PAIRS[:2]
        assert out["tc"].rows() == PAIRS
        assert db.query("tc(2, X)").rows() == PAIRS[2:]
        assert "Spark is handed one task" in db.explain(CLOSURE, "spark")
        assert "== Physical Plan ==" in db.explain(CLOSURE, "spark", strategy="frame")
    assert spark.range(1).count() == 1


def test_ways_out(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "arc.csv").write_text("1,2\n2,3\n")
    db = cal.connect(spark)
    db.add("arc", tmp_path / "arc.csv")
    out = db.run(CLOSURE)
    tc = out["tc"]
    assert tc.count() == 3
    assert tc.types == ("integer", "integer")
    frame = tc.spark()
    assert frame.dtypes == [("A", "int"), ("B", "int")]
    assert sorted(tuple(row) for row in frame.collect()) == PAIRS
    tc.write(tmp_path / "tc.csv")
    assert (tmp_path / "tc.csv").read_text() == "1,2\n1,3\n2,3\n"
    tc.write(tmp_path / "folder")
    with pytest.raises(cal.CaladanError, match="C037"):
        tc.write(tmp_path / "folder")
    tc.write(tmp_path / "folder", mode="overwrite")
    assert sorted(tuple(r) for r in spark.read.parquet(str(tmp_path / "folder")).collect()) == PAIRS
    db.add("again", tmp_path / "folder")
    assert db.query("again(1, X)").rows() == PAIRS[:2]


@pytest.mark.parametrize("strategy", ["single", "frame"])
def test_columns_leave_as_they_came(spark: SparkSession, strategy: Literal["single"]) -> None:
    """With their types and widths, not nullable as nothing is; and Spark knows how many bytes."""
    elsewhere = spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "America/New_York")
    columns = (
        "a int not null, b int not null, t timestamp, u timestamp_ntz not null, d decimal(10,2), "
        "e decimal(10,2) not null, s string not null, f boolean, g binary not null, h date not null"
    )
    given = elsewhere.sql(
        "SELECT * FROM VALUES (1, 2, timestamp'2024-11-03 05:30:00Z', timestamp_ntz'2024-03-10 "
        "02:30:00', 1.25BD, 2.5BD, 'x', true, X'01', date'2020-02-29') AS v(a,b,t,u,d,e,s,f,g,h)"
    )
    wanted = StructType.fromDDL(columns)
    given = elsewhere.createDataFrame(given.rdd, wanted)
    names, rest = ", ".join("ABTUDESFGH"), ", ".join("TUDESFGH")
    with cal.connect(elsewhere) as db:
        db.add("arc", given)
        out = db.run(
            f"""way({names}) <- arc({names}).
            way(A, C, {rest}) <- way(A, B, {rest}), way(B, C, {rest}).
            most(A, max<T>, N) <- way({names}), N = B + 1.
            query way({names}). query most(A, T, N).""",
            strategy=strategy,
        )
        frame, most = out.answers[0].spark(), out.answers[1].spark()
    assert [f.dataType for f in frame.schema] == [f.dataType for f in wanted]
    assert not any(f.nullable for f in frame.schema)
    assert frame.collect() == given.collect()
    assert [(f.dataType.simpleString(), f.nullable) for f in most.schema] == [
        ("int", False), ("timestamp", False), ("bigint", False),
    ]  # fmt: skip
    assert most.head() == (1, given.head()["t"], 3)
    for each in (frame, most):
        size = each._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()
        assert 0 < size < 1000
        assert each.rdd.getNumPartitions() == 1


@pytest.mark.parametrize("given", ["frame", "rows", "file"])
@pytest.mark.parametrize("strategy", ["single", "pivoted", "meshed", "frame"])
def test_few_facts_are_one_partition_that_spark_broadcasts(
    spark: SparkSession, tmp_path: Path, strategy: Literal["single"], given: str
) -> None:
    """Whoever evaluates them, and wherever the data came from."""
    frame = spark.createDataFrame([(1, 2), (2, 3), (3, 4)], "A int, B int")
    frame.write.parquet(str(tmp_path / "arc.parquet"))
    data: dict[str, Any] = {
        "frame": frame,
        "rows": [(1, 2), (2, 3), (3, 4)],
        "file": tmp_path / "arc.parquet",
    }
    with cal.connect(spark) as db:
        db.add("arc", data[given])
        answer = db.run(CLOSURE + "query tc(A, B).", strategy=strategy).answer.spark()
        assert answer.rdd.getNumPartitions() == 1
        plan: Any = answer._jdf.queryExecution().optimizedPlan()  # type: ignore[operator]
        assert 0 < plan.stats().sizeInBytes() < 1000
        met: Any = spark.range(1_000_000).toDF("A").join(answer, "A")
        assert "BroadcastHashJoin" in met._jdf.queryExecution().executedPlan().toString()
        assert met.count() == 6


def test_a_limit_leaves_what_was_derived(spark: SparkSession) -> None:
    db = cal.connect(spark)
    db.add("arc", [(i, i + 1) for i in range(20)])
    with pytest.raises(cal.Stopped, match="C042") as caught:
        db.run(CLOSURE + "query tc(A, B).", max_rounds=3)
    partial = set(caught.value.result.answer.rows())
    assert {(0, 1), (0, 2)} <= partial
    assert len(partial) < 210


def test_bad_rows(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "arc.csv").write_text("1,2\nx,3\n2,3\n")
    db = cal.connect(spark)
    db.add("arc", tmp_path / "arc.csv")
    with pytest.raises(cal.CaladanError) as caught:
        db.run(CLOSURE)
    assert str(caught.value).startswith(
        f"{tmp_path}/arc.csv:2:1: error[C032]: 'x' is not an integer (column A of arc)"
    )
    out = db.run(CLOSURE, permissive=True)
    assert out["tc"].rows() == PAIRS
    assert out["_rejected"].count() == 1


def test_spark_is_started_quietly_and_stopped_at_the_end(tmp_path: Path) -> None:
    """By the command line first, then by a session, in a process that had no Spark before."""
    (tmp_path / "tc.dl").write_text(CLOSURE + "query tc(1, B).")
    (tmp_path / "arc.csv").write_text("1,2\n2,3\n")
    script = """
import caladan
from caladan.cli import main
from pyspark import SparkContext
print(main(["run", "tc.dl", "--facts", ".", "--format", "csv", "--engine", "spark"]))
print(SparkContext._active_spark_context)
with caladan.connect("spark", master="local[1]", conf={"spark.driver.memory": "1g"}) as db:
    db.add("arc", [(2, 3)])
    print(db.query("arc(2, X)").rows())
    # Tasks that wait for slots which are not there are given up in seconds, not minutes.
    slots = "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures"
    print(SparkContext._active_spark_context.getConf().get(slots))
print(SparkContext._active_spark_context)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1,2\n1,3\n0\nNone\n[(2, 3)]\n10\nNone\n"


def test_spark_that_was_stopped_is_told_so(tmp_path: Path) -> None:
    """By whoever has something of it; what is in this process can still be read."""
    script = """
import caladan
from pyspark.sql import SparkSession

def tell(ask):
    try:
        print(ask())
    except caladan.CaladanError as problem:
        print(problem.diagnostics[0].code, problem.diagnostics[0].message)

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
program = "p(A, B) <- arc(A, B). query p(A, B)."
given = spark.range(2).selectExpr("id", "id + 1")
db = caladan.connect(spark)
db.add("arc", given)
few = db.run(program).answer
many = db.run(program, strategy="frame").answer
spark.stop()
for _ in range(2):
    tell(few.rows)
    tell(few.spark)
    tell(many.rows)
    tell(many.spark)
    tell(lambda: many.write("many.csv"))
    tell(lambda: db.run(program))
    tell(lambda: db.explain(program))
    tell(lambda: db.sql("SELECT 1"))
    tell(lambda: caladan.connect(spark))
    tell(lambda: caladan.connect("embedded").add("arc", given))
    again = SparkSession.builder.master("local[1]").getOrCreate()
tell(lambda: caladan.connect(again).add("arc", given))
db.close()
with caladan.connect() as db:
    db.add("arc", [(1, 2)])
    print(db.run(program).answer.spark().collect())
again.stop()
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    gone = "C050 Spark was stopped, and its data is gone"
    stale = "C050 the DataFrame given for arc belongs to a stopped Spark session"
    told = ["[(0, 1), (1, 2)]", *[gone] * 7, "C050 this SparkSession was stopped", stale]
    assert done.stdout.splitlines() == [*told, *told, stale, "[Row(A=1, B=2)]"]
