"""Recursive programs on a cluster, and what becomes of them when its processes die or hang."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cluster.standalone import WORKERS, Cluster, kill
from tests.programs.answers import answered
from tests.programs.corpus import Folder
from tests.spark.mesh.recursive import RECURSIVE

import caladan

KILLS = 20
SEED = int(os.environ.get("CALADAN_SEED", "0")) or time.time_ns() % 1_000_000

# No shape, and too much in a round for one task to go on alone: tasks exchange facts to the end.
CHAIN, KEYS = 800, 5003
REACH = f"""database({{next(A: integer, B: integer), key(K: integer)}}).
reached(0, K) <- key(K). reached(B, (K * 7 + A) mod {KEYS}) <- reached(A, K), next(A, B).
query reached(A, K)."""

NODES = 260
CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."""


@pytest.mark.parametrize("folder", RECURSIVE, ids=lambda folder: folder.name)
def test_program(db: caladan.Session, folder: Folder) -> None:
    out = answered(db, folder, strategy="meshed", timeout=120)
    assert {clique.strategy for clique in out.stats.cliques if clique.recursive} == {"meshed"}


def test_large_results_are_left_in_the_staging_folder(
    session: SparkSession, tmp_path: Path
) -> None:
    """A folder that the driver and all executors reach; a frame keeps its facts, nobody else."""
    session.conf.set("spark.caladan.staging", tmp_path.as_uri())
    try:
        for is_kept in (False, True):
            with caladan.connect(session) as db:
                add_chain(db)
                out = db.run(REACH, strategy="meshed", timeout=240)
                check(out)
                assert len(list(tmp_path.rglob("*.parquet"))) == WORKERS
                frame = out.answer.spark() if is_kept else None
            assert bool(list(tmp_path.rglob("*"))) == is_kept
            assert frame is None or frame.where("A = 7").count() == KEYS
    finally:
        session.conf.unset("spark.caladan.staging")


def add_chain(db: caladan.Session) -> None:
    """A chain of hundreds of rounds, each with thousands of facts."""
    db.add("next", [(i, i + 1) for i in range(CHAIN)])
    db.add("key", [(i,) for i in range(KEYS)])


@pytest.fixture
def chain(db: caladan.Session) -> caladan.Session:
    """That chain, and a graph whose closure is made of many facts."""
    add_chain(db)
    db.add("arc", [(i, i + 1) for i in range(NODES)])
    return db


def check(out: caladan.Result) -> None:
    """The answer is right, and comes from *meshed*."""
    assert out.answer.count() == (CHAIN + 1) * KEYS
    found = out.answer.arrow().group_by(["A"]).aggregate([("K", "count_distinct")])
    assert set(found["K_count_distinct"].to_pylist()) == {KEYS}
    assert [c.strategy for c in out.stats.cliques] == ["meshed"]
    assert out.stats.rounds >= CHAIN  # else one task did it, and there was nobody to strike


def run(db: caladan.Session) -> None:
    """Run a program for some seconds, and check its answer."""
    check(db.run(REACH, strategy="meshed", timeout=240))


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(KILLS))
def test_a_process_is_killed(chain: caladan.Session, running: Cluster, number: int) -> None:
    """At a random moment; in turns a Python worker and an executor with all it has."""
    chance = random.Random(SEED + number)
    kind = running.python_workers if number % 2 == 0 else running.executors
    with later(chance.uniform(0.1, 4.0), kind, chance, signal.SIGKILL) as killed:
        run(chain)
    print(f"seed {SEED}: killed {kind.__name__} {killed}")


@pytest.mark.timeout(300)
def test_a_killed_run_goes_on_where_it_was(
    chain: caladan.Session, running: Cluster, tmp_path: Path
) -> None:
    """A worker dies once tasks have saved a round; what comes after begins there."""
    chance = random.Random(SEED)
    with later(0.0, once_saved(running, tmp_path), chance, signal.SIGKILL) as killed:
        out = chain.run(REACH, checkpoint=tmp_path, timeout=240)
    assert killed
    check(out)
    assert [c.resumed > 0 for c in out.stats.cliques] == [True]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.timeout(300)
def test_a_worker_hangs(chain: caladan.Session, running: Cluster, tmp_path: Path) -> None:
    """It is alive, so nobody is told of a death; its peers lose their patience."""
    chance = random.Random(SEED)
    started = time.monotonic()
    with later(0.0, once_saved(running, tmp_path), chance, signal.SIGSTOP) as stopped:
        check(chain.run(REACH, strategy="meshed", checkpoint=tmp_path, timeout=240))
    assert stopped
    assert time.monotonic() - started > 5  # it was waited for
    for pid in stopped:
        kill(pid, signal.SIGKILL)


def test_afterwards_all_is_well(chain: caladan.Session) -> None:
    run(chain)
    answer = chain.run(CLOSURE, strategy="meshed").answer
    assert answer.count() == NODES * (NODES + 1) // 2


def once_saved(running: Cluster, folder: Path) -> Callable[[], list[int]]:
    """The Python workers, but nobody before tasks of a mesh have saved a round.

    Earlier a signal may hit a worker that no task of ours is in yet, where only Spark could tell.
    """

    def found() -> list[int]:
        return running.python_workers() if len(list(folder.glob("*/*.saved"))) > WORKERS else []

    return found


@contextmanager
def later(
    seconds: float,
    processes: Callable[[], list[int]],
    chance: random.Random,
    number: signal.Signals,
) -> Generator[list[int]]:
    """Meanwhile, and after some seconds, one of the processes gets a signal; which one it was."""
    hit: list[int] = []
    over = threading.Event()

    def strike() -> None:
        if over.wait(seconds):
            return
        while not over.is_set() and not hit:
            for pid in chance.sample(found := processes(), len(found)):
                if kill(pid, number):
                    hit.append(pid)
                    break
            over.wait(0.05)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield hit
    finally:
        over.set()
        thread.join()
