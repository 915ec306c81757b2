"""Stats tell how many bytes went from task to task."""

import pytest
from pyspark.sql import SparkSession

import caladan

CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."""


@pytest.mark.parametrize(("strategy", "moves"), [("single", False), ("meshed", True)])
def test_bytes_shuffled(spark: SparkSession, strategy: str, moves: bool) -> None:
    with caladan.connect(spark) as db:
        db.add("arc", [(i, i + 1) for i in range(8)])
        shuffled = db.run(CLOSURE, strategy=strategy).stats.bytes_shuffled
    assert shuffled is not None
    assert (shuffled > 0) == moves
