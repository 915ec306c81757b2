"""Checkpoints through Spark: a worker dies, a driver is gone, a folder is of no use."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import caladan
from caladan.cli import main
from caladan.engines.spark.mesh import job, task as task_module
from caladan.engines.spark.mesh.task import Mesh
from caladan.program.events import CheckpointLost, Event, Listener, Resumed
from caladan.session.result import Stopped

ARC = "database({arc(A: integer, B: integer)}).\n"
CLOSURE = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."
NODES = 60

PROGRAMS = {
    "sets": (CLOSURE, NODES * (NODES + 1) // 2),
    "best values": (
        ARC + "d(A, mmin<C>) <- arc(A, _), A = 0, C = 0.\n"
        "d(B, mmin<C>) <- d(A, D), arc(A, B), C = D + 2. query d(A, C).",
        NODES + 1,
    ),
    "sums": (
        ARC + "n(A, msum<C>) <- arc(A, _), A = 0, C = 1.\n"
        "n(B, msum<C>) <- n(A, C), arc(A, B). query n(A, C).",
        NODES + 1,
    ),
    "witnesses that fall": (
        ARC + "n(A, msum<C>) <- arc(A, _), C = 1 - A.\n"
        "n(B, msum<(A, X - C)>) <- n(A, C), arc(A, B), arc(X, _), X < 2. query n(A, C).",
        NODES + 1,
    ),
    "what is absent below": (
        ARC + "odd(A) <- arc(A, _), arc(B, _), A = B * 2 + 1. even(A) <- arc(A, _), ~odd(A).\n"
        "hop(A) <- even(A), A = 0. hop(B) <- hop(A), arc(A, B), ~even(A).\n"
        "hop(B) <- hop(A), even(A), arc(A, B). query hop(A).",
        NODES + 1,
    ),
    "texts that rules make": (
        """CREATE TABLE arc(A integer, B integer);
        WITH recursive way(N, T) AS (SELECT 0, 'x') UNION
          (SELECT arc.B, concat(way.T, 'x') FROM way, arc WHERE way.N = arc.A AND arc.A < 20)
        SELECT N, T FROM way""",
        21,
    ),
}


class Resumptions(Listener):
    """Keeps at which rounds cliques went on, and which checkpoints were of no use."""

    def __init__(self) -> None:
        self.rounds: list[int] = []
        self.lost: list[str] = []

    def tell(self, event: Event) -> None:
        if isinstance(event, Resumed):
            self.rounds.append(event.number)
        elif isinstance(event, CheckpointLost):
            self.lost.append(event.reason)


def dying(marker: Path, after: int) -> Callable[[Mesh, Iterable[int]], Iterator[Any]]:
    """A task that saves every round, and dies once, when it has saved so many."""
    path = str(marker)

    def task(mesh: Mesh, numbers: Iterable[int]) -> Iterator[Any]:
        import os

        from caladan.engines.spark.mesh import recovery, task as task_module

        keep = recovery.Recovery.keep

        def keep_and_die(self: Any, part: Any, number: int, wishes: Any) -> None:
            keep(self, part, number, wishes)
            if number == after and not os.path.exists(path):  # noqa: PTH110
                with open(path, "w"):  # noqa: PTH123
                    os._exit(1)

        recovery.Recovery.keep = keep_and_die
        try:
            yield from task_module.task(mesh, numbers)
        finally:
            recovery.Recovery.keep = keep

    return task


@pytest.fixture
def told() -> Resumptions:
    return Resumptions()


@pytest.fixture
def db(
    spark: SparkSession, told: Resumptions, monkeypatch: pytest.MonkeyPatch
) -> Iterator[caladan.Session]:
    monkeypatch.setattr(job, "_APART", 0.0)
    with caladan.connect(spark, listeners=[told]) as db:
        db.add("arc", [(i, i + 1) for i in range(NODES)])
        yield db


@pytest.mark.filterwarnings("ignore::caladan.CaladanWarning")
@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_worker_dies(
    db: caladan.Session,
    told: Resumptions,
    kind: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, count = PROGRAMS[kind]
    wanted = sorted(db.run(text, strategy="meshed").answer.rows())
    monkeypatch.setattr(task_module, "task", dying(tmp_path / "died", 4))
    out = db.run(text, checkpoint=tmp_path / "saved")
    assert (tmp_path / "died").exists()
    assert sorted(out.answer.rows()) == wanted
    assert len(wanted) == count
    assert told.lost == []
    # The other task may have been lost with it before it had saved the same round.
    assert told.rounds in ([3], [4])
    clique = next(each for each in out.stats.cliques if each.recursive)
    assert clique.resumed == told.rounds[0]
    assert f"resumed at round {clique.resumed}" in str(out.stats)
    assert list((tmp_path / "saved").iterdir()) == []


def test_another_run_goes_on(
    db: caladan.Session, told: Resumptions, spark: SparkSession, tmp_path: Path
) -> None:
    """The first ends at a limit, as it might with its driver; the second has a new session."""
    with pytest.raises(Stopped):
        db.run(CLOSURE, max_rounds=4, checkpoint=tmp_path)
    assert told.rounds == []
    with caladan.connect(spark, listeners=[told]) as other:
        other.add("arc", [(i, i + 1) for i in reversed(range(NODES))])
        out = other.run(CLOSURE, checkpoint=str(tmp_path))
    assert told.rounds == [4]
    assert out.answer.count() == NODES * (NODES + 1) // 2
    assert out.stats.strategy == "meshed"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 2)])
def test_a_cluster_of_another_size_goes_on(
    db: caladan.Session,
    told: Resumptions,
    before: int,
    after: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job, "slots", lambda _: before)
    with pytest.raises(Stopped):
        db.run(CLOSURE, max_rounds=4, checkpoint=tmp_path)
    assert len(list(tmp_path.glob("*/*.saved"))) == 2 * before
    monkeypatch.setattr(job, "slots", lambda _: after)
    out = db.run(CLOSURE, checkpoint=tmp_path)
    assert told.rounds == [4]
    assert out.answer.count() == NODES * (NODES + 1) // 2
    assert list(tmp_path.iterdir()) == []


def test_from_the_command_line(
    db: caladan.Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program, arcs, saved = (tmp_path / name for name in ("tc.dl", "arc.csv", "saved"))
    program.write_text(CLOSURE)
    arcs.write_text("".join(f"{i},{i + 1}\n" for i in range(NODES)))
    command = ["run", str(program), "--data", f"arc={arcs}", "--checkpoint", str(saved)]
    command += ["--quiet", "--format", "csv"]
    assert main([*command, "--max-rounds", "4"]) == 3
    assert len(list(saved.glob("*/*.saved"))) == 4
    first = capsys.readouterr().out.count("\n")
    stats = tmp_path / "stats.json"
    assert main([*command, "--stats", str(stats)]) == 0
    assert first < capsys.readouterr().out.count("\n") == NODES * (NODES + 1) // 2
    assert json.loads(stats.read_text())["cliques"][0]["resumed"] == 4


def test_a_damaged_checkpoint(db: caladan.Session, told: Resumptions, tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        db.run(CLOSURE, max_rounds=4, checkpoint=tmp_path)
    for path in tmp_path.glob("*/*-1of2.saved"):
        path.write_bytes(path.read_bytes()[:-100])
    out = db.run(CLOSURE, checkpoint=tmp_path)
    assert out.answer.count() == NODES * (NODES + 1) // 2
    assert told.rounds == []
    assert sorted(told.lost) == [
        f"what was saved before round {number} is not used: its checksum is wrong"
        for number in (3, 4)
    ]
    assert out.stats.cliques[0].notes == told.lost


@pytest.mark.parametrize("folder", ["a file/saved", "gopher://old/saved", ""])
def test_a_folder_that_cannot_be_written_to(
    db: caladan.Session, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a file").write_bytes(b"")
    with pytest.raises(caladan.CaladanError) as problem:
        db.run(CLOSURE, checkpoint=folder)
    assert problem.value.diagnostics[0].code == ("C037" if folder else "C050")


def test_without_rounds_that_take_long_nothing_is_saved(
    spark: SparkSession, tmp_path: Path
) -> None:
    with caladan.connect(spark) as db:
        db.add("arc", [(1, 2), (2, 3)])
        with pytest.raises(Stopped):
            db.run(CLOSURE, max_rounds=1, checkpoint=tmp_path)
    assert list(tmp_path.iterdir()) == []
