"""Recursive programs on a cluster, and what becomes of them when its processes die or hang."""

import os
import random
import signal
import threading
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest
from tests.cluster.standalone import Cluster, kill
from tests.programs.answers import check_answers
from tests.programs.corpus import Folder
from tests.spark.mesh.recursive import RECURSIVE

import caladan

KILLS = 20
SEED = int(os.environ.get("CALADAN_SEED", "0")) or time.time_ns() % 1_000_000

CHAIN = 6000
REACH = """database({next(A: integer, B: integer)}).
reached(B) <- B = 0. reached(B) <- reached(A), next(A, B). query reached(A)."""

NODES = 260
CLOSURE = """database({arc(A: integer, B: integer)}).
tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."""


@pytest.mark.parametrize("folder", RECURSIVE, ids=lambda folder: folder.name)
def test_program(db: caladan.Session, folder: Folder) -> None:
    for relation, path in folder.facts.items():
        db.add(relation, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        out = db.run(folder.file, params=folder.params, strategy="meshed", timeout=120)
    assert {clique.strategy for clique in out.stats.cliques if clique.recursive} == {"meshed"}
    check_answers(folder, out)


@pytest.fixture
def chain(db: caladan.Session) -> caladan.Session:
    """A graph that takes thousands of rounds, and one whose closure is made of many facts."""
    db.add("next", [(i, i + 1) for i in range(CHAIN)])
    db.add("arc", [(i, i + 1) for i in range(NODES)])
    return db


def check(db: caladan.Session) -> None:
    """Run a program for some seconds; its answer must be right, and come from *meshed*."""
    out = db.run(REACH, strategy="meshed", timeout=240)
    assert out.answer.count() == CHAIN + 1
    assert sorted(out.answer.rows()) == [(i,) for i in range(CHAIN + 1)]
    assert [c.strategy for c in out.stats.cliques] == ["meshed"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", range(KILLS))
def test_a_process_is_killed(chain: caladan.Session, running: Cluster, number: int) -> None:
    """At a random moment; in turns a Python worker and an executor with all it has."""
    chance = random.Random(SEED + number)
    kind = running.python_workers if number % 2 == 0 else running.executors
    with later(chance.uniform(0.1, 4.0), kind, chance, signal.SIGKILL) as killed:
        check(chain)
    print(f"seed {SEED}: killed {kind.__name__} {killed}")


@pytest.mark.timeout(300)
def test_a_worker_hangs(chain: caladan.Session, running: Cluster) -> None:
    """It is alive, so nobody is told of a death; its peers lose their patience."""
    chance = random.Random(SEED)
    started = time.monotonic()
    with later(1.0, running.python_workers, chance, signal.SIGSTOP) as stopped:
        check(chain)
    assert stopped
    assert time.monotonic() - started > 5  # it was waited for
    for pid in stopped:
        kill(pid, signal.SIGKILL)


def test_afterwards_all_is_well(chain: caladan.Session) -> None:
    check(chain)
    answer = chain.run(CLOSURE, strategy="meshed").answer
    assert answer.count() == NODES * (NODES + 1) // 2


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
