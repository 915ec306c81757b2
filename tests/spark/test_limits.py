"""A run that is stopped: by a limit, by the clock, by the user."""

import os
import signal
import threading
import time

import pytest
from pyspark.sql import SparkSession

import caladan
from caladan.result import Stopped

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
