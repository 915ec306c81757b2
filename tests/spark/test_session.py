"""Whose session it is, and what is done to it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession, functions as sf

import caladan
from caladan.engines.spark.session import session
from caladan.engines.spark.session.session import child, move_frame
from caladan.program.diagnostics import CaladanError

SQUARES = "database({n(A: integer)}). sq(A, B) <- n(A), B = A * A. query sq(A, B)."


def settings_of(spark: SparkSession) -> Mapping[str, str]:
    return dict(cast("Any", spark.conf).getAll)


def test_the_active_session_is_adopted_and_left_alone(spark: SparkSession) -> None:
    spark.createDataFrame([(1,)], "n int")  # PySpark makes it the active one, whoever was before
    before = settings_of(spark)
    with caladan.connect() as db:
        db.add("n", [(2,)])
        assert db.run(SQUARES).answer.rows() == [(2, 4)]
        assert db.sql("SELECT * FROM n").rows() == [(2,)]
    assert settings_of(spark) == before
    assert spark.range(3).count() == 3  # closing did not stop it
    assert SparkSession.getActiveSession() is spark


def test_sessions_that_are_started_here_are_quiet() -> None:
    assert Path(session.__file__).with_name("log4j2.properties").is_file()


def test_a_session_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever of PySpark's it is that raises; of what Java says, the line that tells."""

    def starting(says: str, raises: Exception) -> str:
        def launch(settings: Mapping[str, str], said: Any) -> None:
            said.write(says.encode())
            raise raises

        monkeypatch.setattr(session, "_launch", launch)
        with pytest.raises(CaladanError) as raised:
            session.start("spark://far:7077")
        return raised.value.diagnostics[0].message.removeprefix("Spark did not start: ")

    gone = Py4JError(": x.StateException: Cannot call methods on a stopped SparkContext.\nIt")
    assert starting("", gone) == "no cluster answers at spark://far:7077"
    java = "Invalid heap size: banana\nError: Could not create the Java Virtual Machine.\n"
    assert starting(java, RuntimeError("exited")) == "Invalid heap size: banana"
    spark = 'WARN x\nException in thread "main" org.spark.SparkException: no such master\n\tat y\n'
    assert starting(spark, RuntimeError("exited")) == "no such master"


def test_settings_that_a_running_session_does_not_have_are_refused(spark: SparkSession) -> None:
    with pytest.raises(CaladanError, match=r"C050.*its spark.master is not local\[7\]"):
        caladan.connect("spark", master="local[7]")


def test_results_are_frames_of_the_users_session(spark: SparkSession) -> None:
    with caladan.connect(spark) as db:
        db.add("n", spark.range(4).select(sf.col("id").cast("int").alias("A")))
        frame = db.run(SQUARES).answer.spark()
        assert frame.sparkSession is spark
        assert frame.dtypes == [("A", "int"), ("B", "bigint")]
        assert sorted(map(tuple, frame.collect())) == [(0, 0), (1, 1), (2, 4), (3, 9)]


def test_a_moved_frame_is_governed_by_its_new_session(spark: SparkSession) -> None:
    inner = child(spark)
    inner.conf.set("spark.sql.shuffle.partitions", "7")
    frame = move_frame(spark.range(10), inner)
    assert frame.sparkSession is inner
    # By the numbers themselves there is nothing to exchange: a range is partitioned by them.
    assert partitions(frame.groupBy(sf.col("id") % 5).count()) == 7
    assert frame.count() == 10


def test_our_own_settings_may_be_made_while_the_session_runs(spark: SparkSession) -> None:
    other = spark.newSession()
    other.conf.set("spark.caladan.staging", "file:///somewhere")
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert child(other).conf.get("spark.caladan.staging") == "file:///somewhere"
    assert child(other).conf.get("spark.sql.session.timeZone") == "UTC"


def partitions(frame: DataFrame) -> int:
    return frame.rdd.getNumPartitions()
