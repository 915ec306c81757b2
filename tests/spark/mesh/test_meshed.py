"""Strategy *meshed* through Spark: the corpus, limits, failures, and what is told meanwhile."""

import os
import signal
import time

import numpy as np
import pytest
from pyspark.sql import SparkSession
from tests.programs.answers import answered
from tests.programs.corpus import Folder
from tests.spark.mesh.recursive import RECURSIVE

import caladan
from caladan.engines.spark.mesh import job
from caladan.engines.spark.session import internals
from caladan.program.events import (
    CliqueStarted,
    Event,
    Listener,
    RoundDone,
    RuleDone,
    StrategyDeclined,
)
from caladan.session.result import Stopped

CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."""

COUNTING = """database({zero(A: integer)}).
n(A) <- zero(A). n(B) <- n(A), B = A + 1, B < 100000000. query n(A)."""


class Listening(Listener):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.started: list[tuple[str, ...]] = []
        self.declined: list[tuple[str, str]] = []
        self.rounds: list[tuple[int, int, int]] = []
        self.rules: dict[int, int | None] = {}

    def tell(self, event: Event) -> None:
        match event:
            case CliqueStarted():
                self.started.append((*event.relations, event.strategy))
            case StrategyDeclined():
                self.declined.append((event.strategy, event.reason))
            case RoundDone():
                self.rounds.append((event.number, event.new, event.total))
            case RuleDone():
                self.rules[event.rule] = event.facts
            case _:
                pass


@pytest.mark.parametrize("folder", RECURSIVE, ids=lambda folder: folder.name)
def test_program(spark: SparkSession, folder: Folder) -> None:
    with caladan.connect(spark) as db:
        out = answered(db, folder, strategy="meshed")
        assert {c.strategy for c in out.stats.cliques if c.recursive} == {"meshed"}


@pytest.fixture
def db(spark: SparkSession) -> caladan.Session:
    db = caladan.connect(spark)
    db.add("zero", [(0,)])
    return db


def test_what_is_told(spark: SparkSession) -> None:
    told = Listening()
    db = caladan.connect(spark, listeners=[told])
    db.add("arc", [(i, i + 1) for i in range(8)])
    out = db.run(CLOSURE, strategy="meshed")
    assert out.answer.count() == 36
    assert told.started == [("tc", "meshed")]
    assert [number for number, _, _ in told.rounds] == list(range(1, len(told.rounds) + 1))
    assert sum(new for _, new, _ in told.rounds) == told.rounds[-1][2] == 36
    # Each of the eight arcs by the first rule, each way of cutting a path in two by the second.
    assert told.rules == {1: 8, 2: sum((8 - length) * length for length in range(1, 8))}
    assert out.stats.cliques[0].rounds == len(told.rounds)
    assert out.stats.bytes_shuffled


def test_a_hub_is_split(spark: SparkSession) -> None:
    """A hundred thousand ways go through it; one task would have all of them."""
    db = caladan.connect(spark)
    db.add("arc", [(i, 0) for i in range(1, 301)] + [(0, i) for i in range(301, 651)])
    out = db.run(CLOSURE, strategy="meshed")
    assert out.answer.count() == 300 * 350 + 650
    assert out.stats.cliques[0].split == 1
    assert "  split 1 frequent value: 0\n" in str(out.stats)


@pytest.mark.filterwarnings("ignore::caladan.CaladanWarning")
def test_a_hub_among_derived_facts_is_split(spark: SparkSession) -> None:
    """No fact that goes in has it; of those that are derived, half."""
    db = caladan.connect(spark)
    db.add("arc", [(i, i + 9000) for i in range(3000)])
    out = db.run(
        """
        database({arc(A: integer, B: integer)}).
        way(A, B) <- arc(A, B).
        at(A, H) <- way(A, B), H = B - B - 7.
        way(A, B) <- at(A, H), at(B, H), A < B, B < A + 10.
        query way(A, B).
        """,
        strategy="meshed",
    )
    assert out.answer.count() == 3000 + 9 * 3000 - 45
    assert out.stats.cliques[0].split_values == ["-7"]


@pytest.mark.parametrize("given", ["much", "-1", "nan", "inf"])
def test_a_setting_that_is_no_number(given: str) -> None:
    with pytest.raises(caladan.CaladanError, match="must be a number from 0 on") as problem:
        job._number({job.SPLIT: given}, job.SPLIT, 0.5)
    assert problem.value.diagnostics[0].code == "C050"
    assert job._number({}, job.SPLIT, 0.5) == 0.5


def test_a_shape_is_found_by_one_task(spark: SparkSession) -> None:
    """Two million facts of a chain: as ranges, listed when somebody asks."""
    db = caladan.connect(spark)
    db.add("arc", [(i, i + 1) for i in range(2000)])
    out = db.run(CLOSURE, strategy="meshed")
    (done,) = out.stats.cliques
    assert (out.answer.count(), done.rounds, done.gathered_rounds) == (2001000, 1, 1)
    assert done.layouts == {"tc": "ranges"}
    assert "  1 round in one task\n" in str(out.stats)
    assert out.answer.frame(spark).where("A = 7").count() == 1993


def test_small_rounds_are_done_by_one_task(db: caladan.Session) -> None:
    text = COUNTING.replace("100000000", "20000")
    out = db.run(text, strategy="meshed")
    (done,) = out.stats.cliques
    assert (out.answer.count(), done.rounds) == (20000, 20001)
    assert done.gathered_rounds > 19900
    assert done.tiny_rounds > 19800


def test_max_rounds(db: caladan.Session) -> None:
    with pytest.raises(Stopped, match="5 rounds were not enough to finish `n`") as stopped:
        db.run(COUNTING, max_rounds=5, strategy="meshed")
    assert sorted(stopped.value.result["n"].rows()) == [(i,) for i in range(5)]


def test_max_facts(db: caladan.Session) -> None:
    with pytest.raises(Stopped, match="more than 7 facts were derived") as stopped:
        db.run(COUNTING, max_facts=7, strategy="meshed")
    assert stopped.value.result["n"].count() == 8


def test_timeout(db: caladan.Session) -> None:
    started = time.monotonic()
    with pytest.raises(Stopped, match="2 seconds were not enough to finish `n`") as stopped:
        db.run(COUNTING, timeout=2, strategy="meshed")
    assert time.monotonic() - started < 20
    found = np.sort(stopped.value.result["n"].arrow().column(0).to_numpy())
    assert len(found)
    assert np.array_equal(found, np.arange(len(found)))


def test_interrupted(spark: SparkSession) -> None:
    class Impatient(Listener):
        """Interrupts once there are rounds."""

        def tell(self, event: Event) -> None:
            if isinstance(event, RoundDone) and event.number == 1:
                os.kill(os.getpid(), signal.SIGINT)

    db = caladan.connect(spark, listeners=[Impatient()])
    db.add("zero", [(0,)])
    with pytest.raises(Stopped, match="interrupted while evaluating `n`") as stopped:
        db.run(COUNTING, strategy="meshed")
    assert stopped.value.exit_code == 130
    found = np.sort(stopped.value.result["n"].arrow().column(0).to_numpy())
    assert len(found)
    assert np.array_equal(found, np.arange(len(found)))


def test_a_mistake_of_the_program_is_told_by_one_task_and_ends_all(db: caladan.Session) -> None:
    """One job, no second attempt: a number that is too large stays so."""
    text = """database({zero(A: integer)}).
n(A) <- zero(A). n(B) <- n(A), B = A * 4 + 9223372036854775. query n(A)."""
    with pytest.warns(caladan.CaladanWarning), pytest.raises(caladan.CaladanError) as problem:
        db.run(text, strategy="meshed")
    assert problem.value.diagnostics[0].code == "C041"
    assert "rule 2, which derives `n`" in str(problem.value)


def test_without_slots_the_next_strategy_is_taken(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(_: object) -> int:
        return 0

    monkeypatch.setattr(internals, "slots", none)
    monkeypatch.setattr(job, "_EXECUTORS", 0.0)
    told = Listening()
    db = caladan.connect(spark, listeners=[told])
    db.add("arc", [(1, 2), (2, 3)])
    assert db.run(CLOSURE, strategy="meshed").answer.count() == 3
    assert told.declined == [
        ("meshed", "Spark has no executor to run tasks on"),
        (
            "a closure",
            "its rules read fewer than 1,000 facts",
        ),  # by the engine in the next one's task
    ]
