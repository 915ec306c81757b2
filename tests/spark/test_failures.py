"""What Spark says when it fails, as users see it."""

import pytest
from pyspark.sql import SparkSession, functions as sf

import caladan
from caladan.data.frames import first_line
from caladan.program.diagnostics import CaladanError

NUMBERS = "database({n(A: long, B: long)}).\n"


def run(
    spark: SparkSession, text: str, rows: list[tuple[int, int]], strategy: str = "frame"
) -> list[tuple[object, ...]]:
    with caladan.connect(spark) as db:
        db.add("n", rows)
        return db.run(NUMBERS + text, strategy=strategy).answer.rows()


@pytest.mark.parametrize("strategy", ["frame", "single"])
@pytest.mark.parametrize(
    ("text", "rows", "code"),
    [
        ("p(X) <- n(A, B), X = A / B. query p(X).", [(1, 0)], "C040"),
        ("p(X) <- n(A, B), X = A div B. query p(X).", [(1, 0)], "C040"),
        ("p(X) <- n(A, B), X = A mod B. query p(X).", [(1, 0)], "C040"),
        ("p(X) <- n(A, B), X = A + B. query p(X).", [(2**63 - 1, 1)], "C041"),
        ("p(X) <- n(A, B), X = A * B. query p(X).", [(2**62, 2)], "C041"),
        ("p(X) <- n(A, B), X = A div B. query p(X).", [(-(2**63), -1)], "C041"),
        ("p(X) <- n(A, _), X = -A. query p(X).", [(-(2**63), 0)], "C041"),
        ("p(sum<A>) <- n(A, _). query p(X).", [(2**63 - 1, 0), (1, 1)], "C041"),
    ],
)
def test_arithmetic_names_the_rule(
    spark: SparkSession, text: str, rows: list[tuple[int, int]], code: str, strategy: str
) -> None:
    with pytest.raises(CaladanError) as raised:
        run(spark, text, rows, strategy)
    shown = str(raised.value)
    assert f"error[{code}]" in shown
    assert "in rule 1, which derives `p`" in shown
    assert text.partition(" query")[0] in shown
    assert "java" not in shown.lower()


def test_only_rows_that_pass_the_other_conditions_can_fail(spark: SparkSession) -> None:
    rows = [(10, 2), (1, 0), (3, 9)]
    assert run(spark, "p(X) <- n(A, B), X = A / B, B ~= 0, X > 1. query p(X).", rows) == [(5.0,)]
    text = "good(B) <- n(_, B), B > 0. p(X) <- good(B), n(A, B), X = A div B, X > 1. query p(X)."
    assert run(spark, text, rows) == [(5,)]
    text = "p(X) <- n(A, B), X = if(B = 0 then 0 else A div B). query p(X)."
    assert run(spark, text, rows) == [(0,), (5,)]


def test_a_sum_overflows_only_if_the_whole_does(spark: SparkSession) -> None:
    rows = [(2**63 - 1, 0), (2**63 - 1, 1), (-(2**63), 2), (-(2**63), 3), (7, 4)]
    assert run(spark, "p(sum<A>) <- n(A, _). query p(X).", rows) == [(5,)]


@pytest.mark.parametrize("engine", ["spark", "embedded"])
def test_a_failure_of_the_users_own_function(spark: SparkSession, engine: str) -> None:
    looked_up = sf.udf(lambda number: {1: 2}[number], "long")
    with caladan.connect(spark if engine == "spark" else engine) as db:
        db.add("n", spark.range(1).select("id", looked_up("id").alias("B")))
        with pytest.raises(CaladanError) as raised:
            db.run("p(A) <- n(A, _). query p(X).")
        shown = "error[C044]: Spark failed: KeyError: 0"
        assert str(raised.value).startswith(shown)
        assert "in <lambda>" in str(raised.value.__cause__)
        with pytest.raises(CaladanError, match=r"KeyError: 0"):
            _ = db.sql("SELECT B FROM n").rows()


@pytest.mark.parametrize("engine", ["spark", "embedded"])
def test_a_stream_is_no_data(spark: SparkSession, engine: str) -> None:
    stream = spark.readStream.format("rate").load()
    with caladan.connect(spark if engine == "spark" else engine) as db:
        with pytest.raises(CaladanError, match=r"C050.*given for n is a stream") as raised:
            db.add("n", stream)
        assert "foreachBatch" in str(raised.value)


def test_a_failure_of_the_users_own_frame(spark: SparkSession) -> None:
    broken = spark.range(2).select(
        sf.raise_error(sf.lit("the disk is gone")).cast("long").alias("A"), sf.lit(1).alias("B")
    )
    with caladan.connect(spark) as db:
        db.add("n", broken)
        with pytest.raises(CaladanError) as raised:
            db.run(NUMBERS + "p(A) <- n(A, _). query p(X).")
    shown = str(raised.value)
    assert "error[C044]: Spark failed: " in shown
    assert "the disk is gone" in shown
    assert "--debug" in shown
    assert "\tat " not in shown


def test_the_first_line_that_means_something() -> None:
    text = "An error occurred while calling o1.count.\n: org.spark.SparkException: full\n\tat x"
    assert first_line(text) == "full"
    assert first_line("java.io.IOException: disk full\n\tat y") == "disk full"
    assert first_line("") == "no reason given"


def test_an_exception_of_python_is_told_by_its_last_line() -> None:
    text = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "rows.py", line 15, in <module>
    from rows import Row
           ^^^^
OSError: no space left
"""
    assert first_line(text) == "OSError: no space left"
    by_connect = text.replace("worker:", "worker. Please see the stack trace below.")
    assert first_line(by_connect) == "OSError: no space left"
