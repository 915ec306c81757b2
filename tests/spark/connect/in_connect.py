"""What a session of Spark Connect can do; `test_connect.py` runs this in a process of its own."""

import gc
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import grpc
import pytest
from pyspark import StorageLevel
from pyspark.sql import SparkSession, functions as sf
from pyspark.sql.connect.client.core import DefaultChannelBuilder
from tests.programs.answers import answered
from tests.programs.corpus import Folder, folders

import caladan as cal
from caladan.engines.spark.cube import spread
from caladan.engines.spark.session import connect, workers
from caladan.engines.spark.tasks import connect as tasks
from caladan.engines.spark.tasks.work import Retention
from caladan.program.diagnostics import CaladanError, SourceText
from caladan.sql.spark import SparkSQL

CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."""

ENDLESS = "n(0). n(M) <- n(N), M = N + 1. query n(N)."

SOME = 30


def is_sampled(folder: Folder) -> bool:
    """Whether a program of the corpus is run here, one of thirty: Spark Connect takes its time.

    A matter of its name, so that a program that joins the corpus does not change who else is.
    """
    return crc32(folder.name.encode()) % SOME == 0


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A session of Spark Connect, whose server runs in this process's own JVM.

    PySpark has every such server listen at one port, and every client call there: of two at once,
    as when two people run this, one would be asked by both.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    DefaultChannelBuilder.default_port = staticmethod(lambda: port)
    os.environ["PYSPARK_PYTHON"] = sys.executable  # what the server starts workers with
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        "--driver-memory 1g --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2 "
        f"--conf spark.connect.grpc.binding.port={port} "
        "--conf spark.driver.extraJavaOptions='-XX:TieredStopAtLevel=1 -XX:+UseSerialGC' "
        "pyspark-shell"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's, on the way to its own server
        session = SparkSession.builder.remote("local[2]").getOrCreate()
    yield session
    session.stop()


@pytest.fixture(scope="session")
def db(spark: Any) -> Iterator[cal.Session]:
    """One for all but programs of the corpus: the server starts Python anew for every session."""
    with cal.connect(spark) as session:
        yield session


@pytest.mark.parametrize(
    "folder", list(filter(is_sampled, folders(sql=True))), ids=lambda folder: folder.name
)
def test_program(spark: Any, folder: Folder) -> None:
    with cal.connect(spark) as db:  # programs give other columns to the same names
        answered(db, folder)


def test_queries_of_a_script_read_their_own_relations(db: cal.Session) -> None:
    """A query is text to the server until it runs, with names in it that a later one might have."""
    db.add("likes", {"A": [1, 1, 2], "B": [2, 3, 5]})
    views = (
        f"""WITH recursive v(A, B) AS (SELECT A, B FROM likes WHERE A = {a})
        SELECT A * 10 + B AS C FROM v;"""
        for a in (1, 2)
    )
    first, second = db.run("\n".join(views)).answers
    assert sorted(second.rows()) == [(25,)]
    assert sorted(first.rows()) == [(12,), (13,)]


def test_a_session_ends_at_once_where_its_server_is_gone(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    class Gone(grpc.RpcError):
        def code(self) -> grpc.StatusCode:
            return grpc.StatusCode.UNAVAILABLE

    def release(request: object, **_: object) -> None:
        asked.append(request)
        raise Gone

    db: Any = cal.connect(spark)
    monkeypatch.setattr(db._engine._child.client._stub, "ReleaseSession", release)
    db.close()
    assert len(asked) == 1


def test_scripts_share_a_session_and_leave_no_views_there(db: cal.Session, spark: Any) -> None:
    db.add("likes", {"A": [1, 1, 2], "B": [2, 3, 5]})
    beside = SparkSQL(spark, SourceText("", "")).child
    for _ in range(2):
        assert db.run("SELECT A, count(*) AS N FROM likes GROUP BY A;").answer.count() == 2
    assert SparkSQL(spark, SourceText("", "")).child is beside
    gc.collect()
    connect.drop_unused()
    assert [each.name for each in beside.catalog.listTables()] == []


@pytest.mark.parametrize(
    ("asked", "taken"), [(None, "single"), ("meshed", "single"), ("frame", "frame")]
)
def test_one_task_serves_or_frames_do(db: cal.Session, asked: str | None, taken: str) -> None:
    db.add("arc", [(1, 2), (2, 3)])
    out = db.run(CLOSURE, strategy=asked)
    assert sorted(out.answer.rows()) == [(1, 2), (1, 3), (2, 3)]
    (clique,) = out.stats.cliques
    assert (clique.strategy, clique.facts) == (taken, 3)
    assert clique.rounds > 1
    if asked == "meshed":
        assert "with Spark Connect one task" in clique.declined[0].reason
    assert "strategy: single (2 facts: at most 2,000,000" in db.explain(CLOSURE, stage="plan")
    assert "Physical Plan" in db.explain(CLOSURE, stage="spark", strategy="frame")


def test_what_the_server_holds_goes_to_the_task(
    db: cal.Session, spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In rows; what it derives stays with the server if it is much, or is derived again."""
    frame = spark.range(40).selectExpr(
        "int(id) A", "int(id + 1) B", "'née' S", "timestamp_ntz'2024-02-29' T", "1.25BD D"
    )
    rules = """database({way(A: integer, B: integer, S: string, T: datetime, D: decimal)}).
    tc(A, B, S, T, D) <- way(A, B, S, T, D).
    tc(A, C, S, T, D) <- tc(A, B, S, T, D), way(B, C, S, T, D). query tc(A, B, S, T, D)."""
    with cal.connect("embedded") as here:
        here.add("way", frame.toArrow())
        wanted = here.run(rules).answer.rows()
    db.add("way", frame)
    for few, rate in ((0, 15e6), (0, 0.0)):
        monkeypatch.setattr(tasks, "Retention", partial(Retention, few_bytes=few, rate=rate))
        out = db.run(rules)
        assert out.stats.strategy == "single"
        assert out.answer.rows() == wanted
        made = out.answer.spark()
        del out
        gc.collect()
        assert made.where("A = 0").count() == 40


def test_frames_solve_cyclic_bodies_in_cells(
    db: cal.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spread, "WORTH_IT", 0)
    rules = """database({edge3(A: integer, B: integer)}).
    ring3(A, B, C) <- edge3(A, B), edge3(B, C), edge3(C, A). query ring3(A, B, C)."""
    db.add("edge3", [*((0, i) for i in range(1, 9)), *((i, 0) for i in range(1, 9)), (1, 2)])
    out = db.run(rules, strategy="frame")
    assert sorted(out.answer.rows()) == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]
    assert "MapInArrow" in db.explain(rules, stage="spark", strategy="frame")


def test_an_error_of_a_rule_is_told_as_elsewhere(db: cal.Session) -> None:
    db.add("arc", [(1, 2)])
    with pytest.raises(CaladanError, match=r"C040.*division by zero in rule 1"):
        db.run("q(X) <- arc(A, B), X = A / (B - 2). query q(X).")


def test_where_something_is_missing_frames_do_the_work(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert workers.asked_there(spark, ("numpy", "no_such")) != {}
    monkeypatch.setattr(workers, "asked_there", lambda *_: {"worker-3": ("numba",)})
    with cal.connect(spark) as db:
        db.add("arc", [(1, 2)])
        out = db.run(CLOSURE)
    assert out.stats.strategy == "frame"
    assert "lacks numba (on worker-3)" in out.stats.cliques[0].declined[0].reason


def test_frames_go_in_and_come_out(db: cal.Session, spark: Any) -> None:
    db.add("numbered", spark.range(3).withColumn("text", sf.concat(sf.lit("n"), sf.col("id"))))
    answer = db.run("q(T, N) <- numbered(N, T), N > 0. query q(T, N).").answer
    frame = answer.spark()
    assert frame.sparkSession is spark
    assert sorted(map(tuple, frame.filter("N = 2").collect())) == [("n2", 2)]
    assert db.sql("SELECT count(*) AS n FROM numbered").rows() == [(3,)]


def test_collecting_a_held_frame_says_nothing_to_the_server(
    spark: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection may come while a channel is locked; it is told later, by who comes by."""
    connect.drop_unused()
    held = connect.checkpoint(spark.range(3), StorageLevel.MEMORY_ONLY)
    assert held.count() == 3
    ring: list[Any] = [held]
    ring.append(ring)  # only a collection finds it
    told: list[str] = []
    channel = spark.client._channel
    monkeypatch.setattr(
        channel, "unary_unary", lambda path, **_: told.append(path) or (lambda *_, **__: None)
    )
    del held, ring
    gc.collect()
    assert told == []
    connect.drop_unused()
    assert told == ["/spark.connect.SparkConnectService/ExecutePlan"]


def test_bad_rows_of_a_frame(db: cal.Session, spark: Any) -> None:
    db.add("numbered", spark.createDataFrame([(1, "a"), (2, None)], "n int, t string"))
    assert db.run("q(N) <- numbered(N, _). query q(N).").answer.rows() == [(1,), (2,)]
    required = "database({numbered(n: integer, t: string!)}). q(N) <- numbered(N, _). query q(N)."
    with pytest.raises(CaladanError, match=r"C036.*column t of numbered"):
        db.run(required)
    out = db.run(required, permissive=True)
    assert out.answer.rows() == [(1,)]
    assert out["_rejected"].count() == 1


def test_files_are_read_where_they_are(db: cal.Session, tmp_path: Path) -> None:
    """A path is one of this machine, a URI is for the server to read."""
    (tmp_path / "arc.csv").write_text("A,B\n1,2\n2,3\n")
    for place in (str(tmp_path / "arc.csv"), (tmp_path / "arc.csv").as_uri()):
        db.add("arc", place)
        answer = db.run(CLOSURE).answer
        assert answer.count() == 3
    answer.write(tmp_path / "tc.parquet")
    db.add("arc", tmp_path / "tc.parquet")
    assert db.run(CLOSURE).answer.count() == 3


@pytest.mark.filterwarnings("ignore::caladan.CaladanWarning")
def test_a_limit_leaves_what_was_derived(db: cal.Session) -> None:
    with pytest.raises(cal.Stopped, match="C042") as stopped:
        db.run(ENDLESS, max_rounds=3)
    assert stopped.value.result is not None
    assert stopped.value.result["n"].count() >= 3
    with pytest.raises(cal.Stopped, match="C042"):
        db.run(ENDLESS, timeout=3)


@pytest.mark.filterwarnings("ignore::caladan.CaladanWarning")
def test_ctrl_c(db: cal.Session) -> None:
    threading.Timer(3.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(cal.Stopped, match="C043"):
        db.run(ENDLESS)


def test_the_users_session_is_left_as_it_was(spark: Any) -> None:
    before = dict(spark.conf.getAll)
    with cal.connect(spark) as db:
        db.add("p", spark.range(3))
        out = db.run("q(N) <- p(N). query q(N).")
        assert out.answer.spark().count() == 3
        del out
    assert dict(spark.conf.getAll) == before
    assert spark.range(2).count() == 2
    gc.collect()
    connect.drop_unused()
    assert spark.sql("SHOW VIEWS IN global_temp").count() == 0
