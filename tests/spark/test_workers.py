"""What executors have, and lack: tasks that are lost, tried again, and cannot be run at all."""

import gc
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import caladan
from caladan.engines.spark.session import internals, memory, workers
from caladan.engines.spark.session.workspace import Workspace
from caladan.engines.spark.sources import shipment, table, validity
from caladan.engines.spark.strategy import CannotServe, Context, Stopping
from caladan.engines.spark.tasks import job, strategies
from caladan.engines.spark.tasks.control import Line
from caladan.engines.spark.tasks.relay import Relay
from caladan.engines.spark.tasks.work import Retention, TaskOutcome, Work
from caladan.program.events import CliqueDone, CliqueStarted, RoundDone, RuleDone
from caladan.program.options import Options
from caladan.session.stats import Stats

ARC = "database({arc(A: integer, B: integer)}).\n"
CLOSURE = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."
CHAIN = [(i, i + 1) for i in range(20)]


# ── A Python that lacks something ────────────────────────────────────────────────────────────────


def test_executors_are_asked_what_they_lack(spark: SparkSession) -> None:
    (missing,) = workers.ask_executors(spark.sparkContext, ("numpy", "no_such_module")).values()
    assert missing == ("no_such_module",)


@pytest.fixture
def bare(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """A session whose executors lack this package, and numba, however often they are asked."""
    monkeypatch.setitem(spark.sparkContext.__dict__, "_caladan_obstacle", {})
    monkeypatch.delitem(spark.sparkContext.__dict__, "_caladan_obstacle")
    monkeypatch.setattr(workers, "_find_lacking", lambda _: {"worker-3": ("numba", "caladan")})
    return spark


def test_without_them_frames_do_the_work_and_say_why(
    bare: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(workers, "ship_package", sent.append)
    with caladan.connect(bare) as db:
        db.add("arc", CHAIN[:3])
        out = db.run(CLOSURE)
        assert out.answer.count() == 6
    assert len(sent) == 1  # it is sent where it is missing, and they still lack the rest
    assert out.stats.strategy == "frame"
    reasons = {each.reason for each in out.stats.cliques[0].declined}
    assert reasons == {
        "the executors' Python lacks numba, caladan (on worker-3): install them there"
    }
    monkeypatch.delitem(bare.sparkContext.__dict__, "_caladan_obstacle")
    with caladan.connect(bare, ship=False) as db:
        db.add("arc", CHAIN[:1])
        assert db.run(CLOSURE).stats.strategy == "frame"
    assert len(sent) == 1


@pytest.mark.parametrize("strategy", [None, "pivoted", "meshed", "frame"])
def test_in_local_mode_tasks_run_in_this_very_python(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, strategy: str | None
) -> None:
    """Whatever Spark was told to take, as where a virtual environment is not activated."""
    context: Any = spark.sparkContext
    monkeypatch.setattr(context, "pythonExec", "/no/such/python")
    with caladan.connect(spark) as db:
        db.add("arc", CHAIN[:5])
        db.define("twice", lambda n: 2 * n, returns="integer")
        rules = CLOSURE.partition("query")[0] + "far(T) <- tc(_, B), T = twice(B). query far(T)."
        out = db.run(rules, strategy=strategy)
        assert sorted(out.answer.rows()) == [(2 * i,) for i in range(1, 6)]
        assert out.stats.cliques[0].strategy == (strategy or "single")
    assert context.pythonExec == "/no/such/python"


def test_cells_of_frames_are_not_solved_where_something_is_missing(spark: SparkSession) -> None:
    assert not workers.is_known_lacking(SimpleNamespace(sparkContext=SimpleNamespace()))
    found = SimpleNamespace(_caladan_obstacle={"worker-3": ("numba",)})
    assert workers.is_known_lacking(SimpleNamespace(sparkContext=found))


def test_a_task_that_cannot_load_us_says_where() -> None:
    told = PythonException(
        "Job aborted due to stage failure: Task 0 failed 1 times, most recent failure: Lost "
        "task 0.0 in stage 1.0 (TID 3) (worker-7 executor 2): Traceback …\n"
        "ModuleNotFoundError: No module named 'caladan'"
    )
    failure = job.lost(told)
    assert isinstance(failure, CannotServe)
    assert "lacks caladan (on worker-7): install it there, or connect with" in failure.reason
    other = PythonException("ValueError: something else")
    assert job.lost(other) is other


@pytest.mark.parametrize(
    "said",
    [
        "MemoryError",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.0 GiB for an array",
        "pyarrow.lib.ArrowMemoryError: malloc of size 1073741824 failed",
        "java.lang.OutOfMemoryError: Java heap space",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "OSError: [Errno 12] Cannot allocate memory",
        "Container killed by YARN for exceeding physical memory limits. 4.1 GB of 4 GB",
        "ExecutorLostFailure (executor 2 exited): Command exited with exit code 137",
    ],
)
def test_a_task_with_too_little_memory_is_passed_over(said: str) -> None:
    told = PythonException(
        "An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        f'  File "groups.py", line 15, in <module>\n{said}'
    )
    failure = job.lost(told)
    assert isinstance(failure, CannotServe)
    assert failure.reason.endswith("raise spark.executor.pyspark.memory")


def test_what_is_shipped_stays_where_executors_fetch_it(tmp_path: Path) -> None:
    sent: list[str] = []
    context = SimpleNamespace(_temp_dir=str(tmp_path), addPyFile=sent.append)
    workers.ship_package(context)
    workers.ship_package(context)
    assert [Path(each).is_file() for each in sent] == [True]


def test_the_package_runs_from_an_archive(tmp_path: Path) -> None:
    """With its kernels: numba finds a place for what it compiles."""
    path = workers.archive(tmp_path)
    script = (
        f"import sys; sys.path.insert(0, {str(path)!r})\n"
        "import caladan.engines.spark.tasks.task as task, caladan.engines.spark.mesh.task\n"
        "from caladan.columns.kernels import Kernel, sorted\n"
        "kernels = [each for each in vars(sorted).values() if isinstance(each, Kernel)]\n"
        "assert kernels[0].dispatcher() is not None\n"
        f"assert task.__file__.startswith({str(path)!r}), task.__file__\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env={"HOME": str(tmp_path)},
        capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


# ── A task that is tried again ───────────────────────────────────────────────────────────────────

STORY = [
    CliqueStarted(("tc",), True, "plain"),
    RuleDone(1, None, 20, 0.1),
    RoundDone(1, 20, 20, 0.1),
    RuleDone(2, "tc", 190, 0.1),
    RoundDone(2, 190, 210, 0.1),
    CliqueDone(("tc",), 2, 210, 0.2),
]


class Retried:
    """A job whose only task is lost after a round and started again; it tells what it does."""

    def __init__(self, told: list[int]) -> None:
        self.told = told

    def mapPartitionsWithIndex(self, work: Any) -> "Retried":
        self.work: Work = work.args[0]
        return self

    def collect(self) -> list[TaskOutcome]:
        assert self.work.address is not None
        for attempt, events in enumerate(self.told):
            line = Line.connect(self.work.address, {"part": 0, "attempt": attempt})
            relay = Relay(line)
            for event in STORY[:events]:
                relay.tell(event)
            relay.close()
            line.close()
        return [TaskOutcome("done", attempt=len(self.told) - 1)]


@pytest.mark.parametrize("told", [[6], [3, 6], [5, 1, 6]])
@pytest.mark.parametrize("strategy", ["single", "pivoted"])
def test_the_attempt_that_succeeds_counts(
    told: list[int], strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark = SimpleNamespace(master="local[2]", pythonExec=sys.executable)
    monkeypatch.setattr(job, "_numbers", lambda *_: Retried(told))
    stats = Stats()
    workspace: Any = SimpleNamespace(session=SimpleNamespace(sparkContext=spark))
    context = Context(workspace, Options(), stats, 1, Stopping(), Options)
    work: Any = Work(None, {}, Options(), Retention("somewhere"))  # type: ignore[arg-type]
    if strategy == "single":
        job.run(work, lambda _: strategies.Single(stats), context)
    else:
        stats.tell(CliqueStarted(("tc",), True, strategy))
        together = strategies._Together(strategy, ("tc",), context, apart=True)
        job.run(work, together.listen, context)
        together.tell_rules()
    (clique,) = stats.cliques
    assert (clique.strategy, clique.rounds, clique.facts) == (strategy, 2, 210)
    assert [(rule.rule, rule.evaluated, rule.facts) for rule in clique.rules] == [
        (1, 1, 20), (2, 1, 190),
    ]  # fmt: skip


# ── Time ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("strategy", ["single", "meshed"])
def test_bringing_inputs_to_tasks_is_part_of_the_time(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    given: list[float | None] = []

    def slow(facts: Any, columns: Any, workspace: Any) -> Any:
        time.sleep(1.0)
        return shipment.InlineShipment(shipment.stream_of(facts))

    def limits(of: Any) -> Options:
        given.append(left(of).timeout)
        return left(of)

    from caladan.engines.spark.run import Cliques

    left = Cliques._left
    monkeypatch.setattr(Cliques, "_left", limits)
    monkeypatch.setattr(shipment, "_ship", slow)
    with caladan.connect(spark) as db:
        db.add("arc", CHAIN)
        assert db.run(CLOSURE, timeout=300, strategy=strategy).answer.count() == 210
    first, last = given[0], given[-1]
    assert first is not None
    assert last is not None
    assert last < first - 0.9  # tasks have what is left when they start


# ── Inputs past the driver ───────────────────────────────────────────────────────────────────────


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames are taken for so large that they stay with Spark, and may not be collected."""
    monkeypatch.setattr(internals, "estimated_bytes", lambda _: None)
    monkeypatch.setattr(shipment, "_MANY_BYTES", 0)


@pytest.mark.usefixtures("large")
def test_what_spark_holds_goes_to_tasks_by_way_of_files(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collected(*_: Any) -> Any:
        raise AssertionError("facts came by the driver")

    names = "database({arc(A: integer, B: integer, S: string, T: datetime, D: decimal)}).\n"
    program = (
        names
        + """tc(A, B, S, T, D) <- arc(A, B, S, T, D).
        tc(A, C, S, T, D) <- tc(A, B, S, T, D), arc(B, C, S, T, D). query tc(A, B, S, T, D)."""
    )
    frame = spark.range(20).selectExpr(
        "int(id) as A", "int(id + 1) as B", "'née' as S", "timestamp_ntz'2024-02-29' as T",
        "1.25BD as D",
    )  # fmt: skip
    with caladan.connect("embedded") as db:
        db.add("arc", frame.toArrow())
        wanted = db.run(program).answer.rows()
    with caladan.connect(spark) as db:
        db.add("arc", frame)
        engine: Any = db._engine
        for strategy in ("pivoted", "meshed", "single"):
            with monkeypatch.context() as patch:
                patch.setattr(table.SparkTable, "arrow", collected)
                out = db.run(program, strategy=strategy)
            assert out.stats.strategy == strategy
            assert out.answer.rows() == wanted
        staged = [each.name for each in Path(engine._staging.folder).iterdir()]
        assert staged
        assert all(name.startswith("input-") and name.endswith(".parquet") for name in staged)
        del out
        gc.collect()
        db.add("arc", frame)
        assert not list(Path(engine._staging.folder).iterdir())


@pytest.mark.usefixtures("large")
def test_what_is_too_much_for_tasks_is_left_to_frames(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 1 << 10)
    with caladan.connect(spark) as db:
        db.add("arc", spark.range(30).selectExpr("int(id) as A", "int(id + 30) as B"))
        out = db.run(CLOSURE)
        assert (out.stats.strategy, out.answer.count()) == ("frame", 30)
    reasons = [each.reason for each in out.stats.cliques[0].declined]
    assert "this machine leaves a task no memory for facts" in reasons


@pytest.mark.usefixtures("large")
def test_without_a_staging_folder_the_driver_is_the_way(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(spark.newSession())
    monkeypatch.setattr(workspace.staging, "is_on_every_disk", False)
    context = Context(workspace, Options(), Stats(), 2, Stopping(), Options)

    def said(facts: int) -> str:
        some: Any = SimpleNamespace(held=None, columns=(1, 2), size=facts)
        return str(job.why_not_by_driver([some], context))

    limit = "an input has 2.0 GB, and spark.driver.maxResultSize keeps what is over 1.0 GB"
    assert limit in said(1 << 27)
    assert "an input has 0.8 GB, too much for a driver that has" in said(3 << 24)
    assert said(1 << 20) == "None"


@pytest.mark.parametrize("where", ["here", "in files"])
def test_facts_that_are_given_twice_count_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Which are the same shows late: in tasks, or when a frame is wanted."""
    monkeypatch.setattr(validity, "MANY", 0)
    rows = [(0, 1), (1, 2), (0, 2), (2, 0)]
    data: Any = rows * 3
    if where == "in files":
        monkeypatch.setattr(internals, "estimated_bytes", lambda _: None)
        data = spark.createDataFrame(data, "A int, B int")
    closure = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B)."
    program = f"""{closure} n(A, count<B>, sum<B>) <- arc(A, B), B >= 0.
        t(count<A>) <- arc(A, B), arc(B, C), arc(C, A). query n(A, B, C)."""
    with caladan.connect(spark) as db:
        for strategy in ("single", "pivoted", "meshed", "cubed", "frame"):
            db.add("arc", data)
            out = db.run(program, strategy=strategy)
            assert out.answer.rows() == [(0, 2, 3), (1, 1, 2), (2, 1, 0)]
            assert (out["tc"].count(), out["t"].rows()) == (9, [(3,)])
        db.add("arc", data)
        base = db.run("query arc(A, B).").answer
        assert (base.count(), base.rows()) == (4, sorted(rows))
        frame = base.spark()
    assert sorted(map(tuple, frame.collect())) == sorted(rows)
