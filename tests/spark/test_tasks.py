"""Tasks: limits, errors, Ctrl-C, results of every size, and nothing left behind."""

import gc
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.garbage import settles

import caladan
from caladan.engines.spark.run import find_asked
from caladan.engines.spark.sources import table
from caladan.engines.spark.tasks import job
from caladan.engines.spark.tasks.output import Effort
from caladan.engines.spark.tasks.work import Retention
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.program.events import Event, Listener, RoundDone, StrategyDeclined
from caladan.session.result import Stopped

ARC = "database({arc(A: integer, B: integer)}).\n"
CLOSURE = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."
COUNTING = (
    ARC
    + """n(A, B) <- arc(A, B). n(A, C) <- n(A, B), C = B + 1, C < 3000000.
query n(A, B)."""
)
CHAIN = [(i, i + 1) for i in range(20)]

BOTH = pytest.mark.parametrize("strategy", ["single", "pivoted"])


@pytest.fixture
def db(spark: SparkSession) -> Iterator[caladan.Session]:
    with caladan.connect(spark) as db:
        db.add("arc", CHAIN)
        yield db


def embedded(text: str, data: Any = CHAIN, **limits: Any) -> Stopped | caladan.CaladanError:
    """What the embedded engine says."""
    with caladan.connect("embedded") as db, pytest.raises(caladan.CaladanError) as raised:
        db.add("arc", data)
        db.run(text, **limits)
    return raised.value


# ── Limits, errors, Ctrl-C ───────────────────────────────────────────────────────────────────────


@BOTH
def test_max_rounds(db: caladan.Session, strategy: str) -> None:
    wanted = embedded(CLOSURE, max_rounds=3)
    with pytest.raises(Stopped) as stopped:
        db.run(CLOSURE, max_rounds=3, strategy=strategy)
    assert str(stopped.value) == str(wanted)
    assert isinstance(wanted, Stopped)
    assert stopped.value.result.answer.rows() == wanted.result.answer.rows()


@BOTH
def test_max_facts(db: caladan.Session, strategy: str) -> None:
    with pytest.raises(Stopped) as stopped:
        db.run(COUNTING, max_facts=20_000, strategy=strategy)
    assert str(stopped.value) == str(embedded(COUNTING, max_facts=20_000))
    assert stopped.value.result.answer.count() > 20_000


def test_facts_of_earlier_cliques_count(db: caladan.Session) -> None:
    text = CLOSURE + "two(A, C) <- tc(A, B), tc(B, C). query two(A, B)."
    with pytest.raises(Stopped) as stopped:
        db.run(text, max_facts=250, strategy="pivoted")
    assert "more than 250 facts were derived, while evaluating `two`" in str(stopped.value)
    assert stopped.value.result["tc"].count() == 210


@BOTH
def test_timeout(db: caladan.Session, strategy: str) -> None:
    db.run(CLOSURE, strategy=strategy)  # workers are there, so that they derive something
    started = time.monotonic()
    with pytest.raises(Stopped) as stopped:
        db.run(COUNTING, timeout=2, strategy=strategy)
    assert time.monotonic() - started < 15
    assert "2 seconds were not enough to finish `n`" in str(stopped.value)
    assert stopped.value.exit_code == 3
    assert stopped.value.result.answer.count() > 0


@BOTH
def test_interrupted_like_a_user_does(db: caladan.Session, strategy: str) -> None:
    class OnceItRuns(Listener):
        def tell(self, event: Event) -> None:
            is_first = not timer.is_alive() and not timer.finished.is_set()
            if isinstance(event, RoundDone) and is_first:
                timer.start()

    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    db._listeners = (OnceItRuns(),)
    with pytest.raises(Stopped, match="interrupted while evaluating `n`") as stopped:
        db.run(COUNTING, strategy=strategy)
    assert stopped.value.exit_code == 130
    assert stopped.value.result.answer.count() > len(CHAIN)
    # The session goes on as if nothing had happened.
    db._listeners = ()
    assert db.run(CLOSURE, strategy=strategy).answer.count() == 210


@BOTH
def test_a_listener_may_end_the_run(db: caladan.Session, strategy: str) -> None:
    class Impatient(Listener):
        def tell(self, event: Event) -> None:
            if isinstance(event, RoundDone):
                raise RuntimeError("seen enough")

    db._listeners = (Impatient(),)
    with pytest.raises(RuntimeError, match="seen enough"):
        db.run(CLOSURE, strategy=strategy)


@BOTH
def test_errors_are_those_of_the_embedded_engine(db: caladan.Session, strategy: str) -> None:
    text = (
        ARC + "p(A, B) <- arc(A, B). p(A, C) <- p(A, B), C = 12 div (B - 19), C > 0. query p(A, B)."
    )
    with pytest.raises(caladan.CaladanError) as raised:
        db.run(text, strategy=strategy)
    assert "error[C040]: division by zero in rule 2" in str(raised.value)
    assert str(raised.value) == str(embedded(text))


def test_rules_of_earlier_runs_are_quoted_from_their_own_text(db: caladan.Session) -> None:
    db.run(ARC + "p(X) <- arc(A, B), X = 12 div (B - 19), A > 19. query p(X).")
    with pytest.raises(caladan.CaladanError) as raised:
        db.run("p(X) <- arc(A, B), X = 1 div (B - 19). q(X) <- p(X). query q(X).")
    assert "X = 1 div (B - 19)" in str(raised.value)


# ── Choice ───────────────────────────────────────────────────────────────────────────────────────


class Declined(Listener):
    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def tell(self, event: Event) -> None:
        if isinstance(event, StrategyDeclined):
            self.told.append((event.strategy, event.reason))


def test_a_strategy_that_cannot_serve_says_why(db: caladan.Session) -> None:
    declined = Declined()
    db._listeners = (declined,)
    text = ARC + "p(A, B) <- arc(A, B). p(A, B) <- p(A, C), p(C, B). query p(A, B)."
    out = db.run(text, strategy="pivoted")
    assert out.stats.strategy == "single"
    assert declined.told == [
        ("pivoted", "no column is carried unchanged through every recursive rule"),
        ("a closure", "its rules read fewer than 1,000 facts"),  # by the engine in the task
    ]


def test_the_best_of_texts_that_rules_make_is_found_by_one_task(spark: SparkSession) -> None:
    with caladan.connect(spark) as db, pytest.warns(caladan.CaladanWarning):
        db.add("word", {"W": ["b", "a"], "N": [2, 3]})
        out = db.run("""WITH recursive best(N, min() AS S) AS
            (SELECT N, concat(W, '!') FROM word) UNION
            (SELECT best.N + 1, concat(best.S, '?') FROM best WHERE best.N < 4)
            SELECT S FROM best WHERE N = 4""")
        assert out.answer.rows() == [("a!?",)]
        assert out.stats.strategy == "single"


def test_an_unknown_strategy(db: caladan.Session) -> None:
    with pytest.raises(caladan.CaladanError, match="one of single, cubed, pivoted, meshed, frame"):
        db.run(CLOSURE, strategy="magic")


# ── Events ───────────────────────────────────────────────────────────────────────────────────────

SEARCHED = {
    "single": "t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A).",
    "cubed": "t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A).",
    "pivoted": "t(A, B) <- arc(A, B), A < 9. t(A, C) <- t(A, B), arc(B, C), arc(C, A).",
    "meshed": "t(A, B) <- arc(A, B). t(A, C) <- t(A, B), t(B, C), arc(C, A).",
}


@pytest.mark.parametrize("strategy", SEARCHED)
def test_stats_tell_what_tasks_proposed(db: caladan.Session, strategy: str) -> None:
    arcs = [(i, i * i % 23) for i in range(23)] + [(i * 5 % 23, i) for i in range(23)]
    db.add("arc", arcs)
    with caladan.connect("embedded") as other:
        other.add("arc", arcs)
        wanted = other.run(ARC + SEARCHED[strategy], search="paul")
    with db.run(ARC + SEARCHED[strategy], strategy=strategy, search="paul") as out:
        assert out.stats.strategy == strategy
        assert out["t"].rows() == wanted["t"].rows()
        assert proposed(wanted.stats)
        assert proposed(out.stats).keys() == proposed(wanted.stats).keys()
        if strategy == "single":
            assert proposed(out.stats) == proposed(wanted.stats)


def proposed(stats: Any) -> dict[str, tuple[int, int]]:
    """By variable, what was proposed, and how much of it confirmed."""
    found: dict[str, tuple[int, int]] = {}
    for each in (each for clique in stats.cliques for rule in clique.rules for each in rule.search):
        before, kept = found.get(each.variable, (0, 0))
        found[each.variable] = before + each.proposed, kept + each.confirmed
    return found


# ── Results ──────────────────────────────────────────────────────────────────────────────────────

NAMES = """database({arc(A: integer, B: integer)}).
p(A, X, S, T) <- arc(A, B), X = B / 2.0, S = 'née', T = if(A > 3 then true else false).
p(A, Y, S, T) <- p(A, X, S, T), Y = X + 1, Y < 40. query p(A, X, S, T)."""


@BOTH
@pytest.mark.parametrize("kept", ["held", "staged", "in blocks"])
def test_facts_are_the_same_however_they_are_kept(
    spark: SparkSession,
    db: caladan.Session,
    strategy: str,
    kept: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    few = 1 << 20 if kept == "held" else 9
    monkeypatch.setattr(job, "Retention", partial(Retention, few_bytes=few))
    if kept == "in blocks":
        without_staging(db)
    out = db.run(NAMES, strategy=strategy)
    assert bool(staging(db)) == (kept == "staged")
    with caladan.connect("embedded") as other:
        other.add("arc", CHAIN)
        wanted = other.run(NAMES).answer
    assert out.answer.count() == wanted.count()
    assert out.answer.rows() == wanted.rows()
    assert sorted(tuple(row) for row in out.answer.spark().collect()) == wanted.rows()
    with db.run(NAMES.replace("query p(A, X, S, T)", "query p(3, X, S, T)")) as bound:
        assert bound.answer.rows() == [row for row in wanted.rows() if row[0] == 3]
    assert len(out["p"].head(3)) == 3
    out.close()
    assert settles(spark, lambda: staging(db) == [])


def test_many_facts_that_are_held_are_a_file_to_spark(
    spark: SparkSession, db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "_MANY_BYTES", 0)
    with db.run(NAMES, strategy="single") as out, db.run("query p(3, X, S, T).") as bound:
        assert staging(db) == []
        for answer in (out.answer, out["p"], bound.answer):
            assert sorted(tuple(row) for row in answer.spark().collect()) == answer.rows()
        assert staging(db)
    assert settles(spark, lambda: staging(db) == [])


def test_few_facts_of_a_task_join_the_many_of_another(
    spark: SparkSession, db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "Retention", partial(Retention, few_bytes=100))
    arcs = [(0, i) for i in range(1, 100)] + [(-i, -i - 9) for i in range(1, 9)]
    db.add("arc", arcs)
    with db.run(CLOSURE, strategy="pivoted") as out:
        assert len(staging(db)) == 1  # of the task that has 0; the other sent what it has
        assert sorted(tuple(row) for row in out.answer.spark().collect()) == sorted(arcs)
        assert len(staging(db)) == 2
        assert out.answer.rows() == sorted(arcs)
    assert settles(spark, lambda: staging(db) == [])


def test_few_facts_of_a_task_go_on_with_the_many_to_the_next_clique(
    db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that had come with a task's result were not among the files that others read."""
    monkeypatch.setattr(job, "Retention", partial(Retention, few_bytes=100))
    arcs = [(0, i) for i in range(1, 100)] + [(-i, -i - 9) for i in range(1, 9)]
    db.add("arc", arcs)
    text = CLOSURE + "far(A, B) <- tc(A, B). far(A, B) <- far(A, C), tc(C, B). query far(A, B)."
    with db.run(text, strategy="pivoted") as out:
        assert out.answer.rows() == sorted(arcs)


def test_what_no_goal_asks_for_is_not_staged(
    db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who ask after all have it derived again; a recursion may be dear to derive."""
    program = (
        ARC
        + """step(A, B) <- arc(A, B). step(B, A) <- arc(A, B).
        tc(A, B) <- step(A, B). tc(A, B) <- tc(A, C), step(C, B).
        near(A, count<B>) <- tc(A, B). query near(A, N)."""
    )
    few = partial(Retention, few_bytes=9, rate=1e6, moment=9.0, unasked_bytes=9)
    monkeypatch.setattr(job, "Retention", partial(few, unasked_part=0.0))
    with caladan.connect("reference") as other:
        other.add("arc", CHAIN)
        wanted = other.run(program)
    with db.run(program, strategy="single") as out:
        assert len(staging(db)) == 1  # near
        for name in ("near", "tc", "step"):
            assert out[name].count() == wanted[name].count()
            assert out[name].rows() == wanted[name].rows()
        assert sorted(tuple(row) for row in out["step"].spark().collect()) == wanted["step"].rows()
    monkeypatch.setattr(job, "Retention", partial(few, unasked_part=1e6))
    with db.run(program, strategy="single"):
        assert len(staging(db)) >= 3
    # without goals all is asked for, and so is what other strategies read
    monkeypatch.setattr(job, "Retention", partial(few, unasked_part=0.0))
    with db.run(program.replace("query near(A, N).", ""), strategy="single"):
        assert len(staging(db)) >= 3


@pytest.mark.parametrize(
    ("text", "first", "wanted"),
    [
        ("p(A) <- arc(A, _). q(A) <- p(A). r(A) <- q(A). query r(A).", 3, {"r"}),
        ("p(A) <- arc(A, _). q(A) <- p(A). r(A) <- q(A). query r(A).", 2, {"q"}),
        ("p(A) <- arc(A, _). q(A) <- p(A). query q(A). query p(A).", 2, {"p", "q"}),
        (
            """a(A) <- arc(A, _), A > 1. a(A) <- b(B), arc(B, A). b(A) <- a(B), arc(B, A).
            c(A) <- b(A). query c(A).""",
            2,
            {"c"},
        ),
    ],
)
def test_what_is_asked_for(text: str, first: int, wanted: set[str]) -> None:
    program = compile_program(parse(ARC + text), {}, {}).delta
    assert find_asked(program, program.cliques[:first]) == wanted
    assert find_asked(replace(program, goals=()), program.cliques[:first]) is None


def without_staging(db: caladan.Session) -> None:
    """As on a cluster without a folder that all can reach."""
    engine: Any = db._engine
    engine._staging.is_on_every_disk = False


def staging(db: caladan.Session) -> list[Path]:
    """The files of results that a session has staged."""
    engine: Any = db._engine
    folder = engine._staging.folder
    return (
        []
        if folder is None
        else [path for path in Path(folder).iterdir() if path.name.startswith("facts")]
    )


def test_a_stopped_run_keeps_what_it_cannot_derive_again(
    db: caladan.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job, "Retention", partial(Retention, few_bytes=9, rate=0.0))
    with pytest.raises(Stopped) as stopped:
        db.run(CLOSURE, max_rounds=2, strategy="single")
    assert stopped.value.result.answer.count() == 39
    assert len(stopped.value.result.answer.rows()) == 39


def test_relations_without_columns(db: caladan.Session) -> None:
    text = ARC + "some() <- arc(_, _). none() <- arc(A, A). query some(). query none()."
    out = db.run(text, strategy="single")
    assert [answer.rows() for answer in out.answers] == [[()], []]


def test_large_inputs_travel_as_files(db: caladan.Session) -> None:
    db.add("arc", {"A": range(30_000), "B": [0] * 30_000})
    out = db.run(CLOSURE, strategy="pivoted")
    assert out.answer.count() == 30_000
    engine: Any = db._engine
    assert len(list(Path(engine._staging.folder).glob("input-*.arrow"))) == 1
    db.run(CLOSURE, strategy="pivoted")
    assert len(list(Path(engine._staging.folder).glob("input-*.arrow"))) == 1


def test_data_of_spark_goes_to_tasks_and_back(spark: SparkSession) -> None:
    with caladan.connect(spark) as db:
        db.add("arc", spark.range(20).selectExpr("int(id) as A", "int(id + 1) as B"))
        for strategy in ("single", "pivoted", "frame"):
            assert db.run(CLOSURE, strategy=strategy).answer.count() == 210


# ── Nothing is left behind ───────────────────────────────────────────────────────────────────────


TRIANGLES = ARC + "t(A, B, C) <- arc(A, B), arc(B, C), arc(A, C). query t(A, B, C)."
MANY = (  # a strategy that asks for a job a round has fewer turns
    *(("single", CLOSURE), ("pivoted", CLOSURE), ("cubed", TRIANGLES), ("meshed", CLOSURE)) * 4,
    *(("single", CLOSURE), ("pivoted", CLOSURE), ("frame", CLOSURE), ("cubed", TRIANGLES)),
)


def test_many_runs_leave_nothing_behind(spark: SparkSession) -> None:
    context: Any = spark.sparkContext

    def stored() -> int:
        return context._jsc.sc().getPersistentRDDs().size()

    gc.collect()
    threads, before = threading.active_count(), stored()
    with caladan.connect(spark) as db:
        db.add("arc", [(0, 1), (1, 2), (0, 2)])
        with db.run(CLOSURE, strategy="frame") as out:  # brings the data to Spark, to stay there
            assert out.answer.count() == 3
        with_data = stored()
        for i in range(60):
            strategy, text = MANY[i % len(MANY)]
            with db.run(text, strategy=strategy) as out:
                assert out.stats.strategy == strategy
                assert out.answer.count() == (1 if text is TRIANGLES else 3)
        engine: Any = db._engine
        folder = Path(engine._staging.folder)
        assert list(folder.iterdir()) == []
        assert stored() <= with_data
    assert not folder.exists()
    assert threading.active_count() <= threads + 2  # PySpark keeps connections for its threads
    assert stored() <= before


def test_waiting_for_a_processor_is_no_effort() -> None:
    """Else a busy machine would have tasks write what they could derive again sooner."""
    effort = Effort()
    time.sleep(0.3)
    assert effort.seconds < 0.3
    before = time.process_time()
    while time.process_time() < before + 0.05:
        pass
    assert effort.seconds >= 0.05
