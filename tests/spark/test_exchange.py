"""What tasks are sent is what Spark has moved, and falls with the number of tasks."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import caladan
from caladan.engines.spark import run

RULES = "database({arc(A: integer, B: integer)}).\n"
CLOSURE = RULES + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."
TRIANGLES = RULES + "t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A). query t(A, B, C)."
EDGES = 40_000


@pytest.fixture
def db(spark: SparkSession) -> Iterator[caladan.Session]:
    with caladan.connect(spark) as db:
        ends = [(i * 7919 % 9973, i * 104_729 % 9967) for i in range(EDGES)]
        chains = [(i, i + 1) for i in range(10_000, 10_000 + EDGES) if i % 4]
        one, other = zip(*{*ends, *chains}, strict=True)
        db.add("arc", pa.table({"A": pa.array(one, pa.int32()), "B": pa.array(other, pa.int32())}))
        yield db


def stages(spark: SparkSession, since: int) -> Iterator[Any]:
    """What Spark says of each task, stage by stage."""
    scala: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    scala.listenerBus().waitUntilEmpty()
    for stage in range(since, next_stage(spark)):
        found = scala.statusStore().taskList(stage, 0, 1_000)
        yield [found.apply(i).taskMetrics().get() for i in range(found.size())]


def next_stage(spark: SparkSession) -> int:
    scala: Any = spark.sparkContext._jsc.sc()  # type: ignore[union-attr]
    return int(scala.dagScheduler().nextStageId())


def moved(spark: SparkSession, since: int) -> tuple[int, list[int]]:
    """The bytes that tasks have sent, and what each has got of them."""
    written, read = 0, list[int]()
    for tasks in stages(spark, since):
        written += sum(int(task.shuffleWriteMetrics().bytesWritten()) for task in tasks)
        got = [int(task.shuffleReadMetrics().localBytesRead()) for task in tasks]
        read += got if sum(got) else []
    return written, read


@pytest.mark.parametrize(
    ("strategy", "rules", "copies"), [("pivoted", CLOSURE, 1), ("cubed", TRIANGLES, 3)]
)
def test_each_task_is_sent_its_share(
    spark: SparkSession,
    db: caladan.Session,
    monkeypatch: pytest.MonkeyPatch,
    strategy: str,
    rules: str,
    copies: int,
) -> None:
    shares: dict[int, int] = {}
    for parts in (2, 8):
        monkeypatch.setattr(run, "parts_of", lambda _, parts=parts: parts)
        since = next_stage(spark)
        with db.run(rules, strategy=strategy) as out:
            assert out.stats.strategy == strategy
            assert out.stats.bytes_shuffled == moved(spark, since)[0]
        written, read = moved(spark, since)
        assert sum(read) == written
        assert max(read) <= 1.1 * written / parts
        assert len(read) == parts
        shares[parts] = max(read)
    # A cell of 2 × 2 × 2 has a quarter of each of three atoms; of 2, half of two and all of one.
    assert shares[8] <= {1: 0.3, 3: 0.8}[copies] * shares[2]


def test_what_no_task_has_whole_is_nowhere_whole(
    db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what a rule meets in another column goes to all tasks."""
    from caladan.engines.spark.tasks import job

    shipped: list[str] = []
    work_on = job.work_on

    def seen(*given: Any) -> Any:
        made = work_on(*given)
        shipped.extend(made.inputs)
        return made

    monkeypatch.setattr(job, "work_on", seen)
    db.add("near", [(i, i + 1) for i in range(30)])
    text = """database({arc(A: integer, B: integer), near(A: integer, B: integer)}).
        p(A, B) <- arc(A, B). p(A, B) <- p(A, C), near(C, B). query p(A, B)."""
    facts = db.run(text, strategy="pivoted").answer.count()
    assert shipped == ["near"]
    assert facts == db.run(text, strategy="single").answer.count()
