"""A run that is stopped: by a limit, by the clock, by the user."""

import os
import signal
import threading
import time
from typing import Any

import pytest
from pyspark.sql import SparkSession

import caladan
from caladan.engines.spark.sources import validity
from caladan.session.result import Stopped

COUNTING = """database({zero(A: integer)}).
n(A) <- zero(A). n(B) <- n(A), B = A + 1, B < 1000000. query n(A)."""


@pytest.fixture
def db(spark: SparkSession) -> caladan.Session:
    db = caladan.connect(spark)
    db.add("zero", [(0,)])
    return db


def test_max_rounds(db: caladan.Session) -> None:
    with pytest.raises(Stopped, match="5 rounds were not enough to finish `n`") as stopped:
        db.run(COUNTING, max_rounds=5, strategy="frame")
    assert stopped.value.exit_code == 3
    assert stopped.value.result["n"].rows() == [(i,) for i in range(5)]


def test_max_facts(db: caladan.Session) -> None:
    with pytest.raises(Stopped, match="more than 7 facts were derived") as stopped:
        db.run(COUNTING, max_facts=7, strategy="frame")
    assert stopped.value.result["n"].count() == 8


@pytest.mark.parametrize("strategy", ["single", "pivoted", "frame"])
def test_max_facts_of_a_bound_goal(db: caladan.Session, strategy: str) -> None:
    """What was asked for is said, of the relation that was written."""
    db.add("arc", [(i, i + 1) for i in range(20)])
    text = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(1, B)."
    with pytest.raises(Stopped, match=r"C042.*more than 5 facts.*`tc`"):
        db.run(text, max_facts=5, strategy=strategy)


def test_timeout_between_rounds(db: caladan.Session) -> None:
    started = time.monotonic()
    with pytest.raises(Stopped, match="4 seconds were not enough to finish `n`") as stopped:
        db.run(COUNTING, timeout=4, strategy="frame")
    assert time.monotonic() - started < 30
    rows = stopped.value.result["n"].rows()
    assert rows == [(i,) for i in range(len(rows))]
    assert rows


def test_interrupted_like_a_user_does(db: caladan.Session) -> None:
    one = "database({zero(A: integer)}). one(B) <- zero(A), B = A + 1. query one(X)."
    assert db.run(one).answer.rows() == [(1,)]
    timer = threading.Timer(2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(Stopped, match="interrupted while evaluating `n`") as stopped:
        db.run(COUNTING, strategy="frame")
    timer.join()
    assert stopped.value.exit_code == 130
    rows = stopped.value.result["n"].rows()
    assert rows == [(i,) for i in range(len(rows))]
    # The session goes on as if nothing had happened.
    assert db.run(one).answer.rows() == [(1,)]


@pytest.mark.parametrize("interrupt", [False, True])
@pytest.mark.parametrize("where", ["in Spark", "in this process"])
def test_reading_data_is_part_of_the_time(
    db: caladan.Session,
    spark: SparkSession,
    where: str,
    interrupt: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether a job of Spark's or a library in this process takes long."""
    one = "database({slow(A: integer)}). one(B) <- slow(A), B = A + 1. query one(X)."
    if where == "in Spark":
        waits = "if(id < 0, 0, cast(java_method('java.lang.Thread', 'sleep', 20000L) as int))"
        frame = spark.range(1, numPartitions=1).selectExpr(f"coalesce({waits}, 1) AS A")
        db.add("slow", frame)
    else:
        db.add("slow", [(1,)])
        read = validity.in_process.load

        def wait(*given: Any, **named: Any) -> Any:
            time.sleep(20)
            return read(*given, **named)

        monkeypatch.setattr(validity.in_process, "load", wait)
    started = time.monotonic()
    timer = threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT))
    if interrupt:
        timer.start()
    with pytest.raises(Stopped, match="while reading `slow`") as stopped:
        db.run(one, timeout=60 if interrupt else 3)
    timer.cancel()
    assert stopped.value.exit_code == (130 if interrupt else 3)
    assert time.monotonic() - started < 15
    monkeypatch.undo()
    db.add("slow", [(1,)])
    assert db.run(one).answer.rows() == [(2,)]


@pytest.mark.parametrize("strategy", ["single", "pivoted", "meshed", "frame"])
@pytest.mark.parametrize("type", ["integer", "double"])
def test_sums_that_never_settle(spark: SparkSession, strategy: str, type: str) -> None:
    number = int if type == "integer" else float
    db = caladan.connect(spark)
    db.add("bom", [(1, 2, number(1)), (2, 1, number(1)), (3, 1, number(2))])
    program = f"""database({{bom(P: integer, S: integer, Q: {type})}}).
    total(K, P, msum<Q>) <- bom(P, _, Q), K = 1.
    total(K, P, msum<C>) <- bom(P, S, Q), total(K, S, D), C = Q * D. query total(K, P, C)."""
    with pytest.raises(Stopped, match=r"C042.*`total` do not converge: rule 2") as stopped:
        db.run(program, strategy=strategy)
    assert stopped.value.exit_code == 3
    assert stopped.value.result["total"].count() == 3
