"""Tasks that may have too little memory: another strategy does the work, and none is wrong."""

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

import caladan
from caladan.engines.spark import choice
from caladan.engines.spark.choice import TaskMemory, inputs_of, outlooks
from caladan.engines.spark.session import memory
from caladan.engines.spark.session.memory import task_memory
from caladan.engines.spark.strategy import CannotServe
from caladan.engines.spark.tasks.job import lost
from caladan.language import parse
from caladan.pipeline import compile_program
from caladan.program.options import Options

ARC = "database({arc(A: integer, B: integer)}).\n"
CLOSURE = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."
DOUBLING = ARC + "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."
TRIANGLES = ARC + "t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A). query t(A, B, C)."
MB = 1 << 20


@pytest.fixture
def limited(spark: SparkSession) -> Iterator[Any]:
    """Sets what Python workers may have, as a resource profile does; nothing in the end."""
    name = "resource.pyspark.memory"
    context: Any = spark.sparkContext
    yield lambda size: context.setLocalProperty(name, None if size is None else str(size))
    context.setLocalProperty(name, None)


@pytest.mark.parametrize("megabytes", [520])
def test_too_little_memory_is_no_error(
    spark: SparkSession, limited: Any, monkeypatch: pytest.MonkeyPatch, megabytes: int
) -> None:
    """Also where nothing was foreseen: workers cannot start a thread, or hold a fact."""
    monkeypatch.setattr(memory, "_ADDRESSES", 0)
    chain = [(i, i + 1) for i in range(30)]
    with caladan.connect(spark) as db:
        db.add("arc", [*chain, (3, 1)])
        for program, strategy in ((CLOSURE, "pivoted"), (TRIANGLES, "cubed")):
            wanted = db.run(program, strategy="single").answer.rows()
            limited(megabytes)
            out = db.run(program, strategy=strategy)
            limited(None)
            assert out.answer.rows() == wanted


def test_what_is_foreseen_is_not_tried(spark: SparkSession, limited: Any) -> None:
    limited(300)
    with caladan.connect(spark) as db:
        db.add("arc", [(i, i + 1) for i in range(30)])
        out = db.run(CLOSURE)
        printed = db.explain(CLOSURE, stage="plan")
    assert (out.stats.strategy, out.answer.count()) == ("frame", 465)
    reason = "spark.executor.pyspark.memory leaves a task no memory for facts"
    assert {(each.strategy, each.reason) for each in out.stats.cliques[0].declined} == {
        (strategy, reason) for strategy in ("single", "pivoted", "meshed")
    }
    assert f"strategy: frame (30 facts go in; serves everything; not single: {reason})" in printed


@pytest.mark.parametrize(
    ("program", "megabytes", "taken"),
    [
        (CLOSURE, None, "pivoted"),
        (CLOSURE, 24 * 6 + 24 * 6 // 8 + 1, "pivoted"),
        (CLOSURE, 24 * 6 + 24 * 6 // 8 - 1, "meshed"),  # whose tasks are sent nothing
        (CLOSURE, 24 * 6 - 1, "frame"),
        (TRIANGLES, 24 * 6 + 1, "cubed"),
        (TRIANGLES, 30, "frame"),
        (DOUBLING, 24 * 6 + 1, "single"),
        (DOUBLING, 24 * 6 - 1, "frame"),
    ],
)
def test_memory_decides(program: str, megabytes: int | None, taken: str) -> None:
    compiled = compile_program(parse(program), {}, {}).delta
    limit = None if megabytes is None else TaskMemory(megabytes * 10**6, "a setting")
    (seen,) = outlooks(compiled, {"arc": 3_000_000}, 8, Options(), memory=limit)
    assert seen.large.strategy == taken
    if seen.inputs is not None:
        assert seen.inputs.why_too_much(limit) is None


def test_what_goes_into_a_task() -> None:
    (clique,) = compile_program(parse(CLOSURE), {}, {}).delta.cliques
    relations = compile_program(parse(CLOSURE), {}, {}).delta.relations

    def shown(strategy: str, clique: Any = clique) -> str:
        return str(inputs_of(strategy, [clique], relations, {"arc": 3_000_000}, 8))

    assert shown("single") == "one task reads 24.0 MB"
    assert shown("meshed") == "each of 8 tasks reads 24.0 MB"
    assert shown("pivoted") == "each of 8 tasks is sent 3.0 MB and reads 24.0 MB"
    (clique,) = compile_program(parse(TRIANGLES), {}, {}).delta.cliques
    assert shown("cubed", clique) == "each of 8 tasks is sent 18.0 MB"
    assert choice.shown_bytes(0) == "0.0 kB"


def test_what_settings_give_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    class Cluster:
        def __init__(self, master: str, **settings: str) -> None:
            self.master = master
            self.given = {f"spark.executor.{k.replace('_', '.')}": v for k, v in settings.items()}

        def getConf(self) -> Any:
            return self.given

        def getLocalProperty(self, _: str) -> None:
            return None

    monkeypatch.setattr(memory, "_ADDRESSES", 0)
    monkeypatch.setattr(memory, "_LOADED", 0)
    assert task_memory(Cluster("spark://host:7077", memory="4096")) is None
    found = task_memory(Cluster("spark://host:7077", pyspark_memory="1024", cores="4"))
    assert found == TaskMemory(256 * MB, "spark.executor.pyspark.memory")
    found = task_memory(Cluster("yarn", memory="8192", cores="2"))
    assert found == TaskMemory(8192 * MB // 10 // 2, "spark.executor.memoryOverhead")
    found = task_memory(Cluster("k8s://host", memory="8192"))
    assert found == TaskMemory(8192 * MB * 4 // 10, "spark.executor.memoryOverhead")


@pytest.mark.parametrize(
    "text",
    [
        "pyarrow.lib.ArrowMemoryError: malloc of size 64 failed",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 4 GiB",
        "MemoryError",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "OSError: [Errno 12] Cannot allocate memory",
        "RuntimeError: can't start new thread",
        "ImportError: libarrow.so: failed to map segment from shared object",
        "LookupError: unknown encoding: idna",
        "ExecutorLostFailure: Container killed by YARN for exceeding physical memory limits",
        "java.lang.OutOfMemoryError: Java heap space",
        "Python worker exited unexpectedly (crashed)",
    ],
)
def test_every_way_to_run_out_of_memory_is_known(text: str) -> None:
    assert isinstance(lost(Exception(f"Job aborted: {text}\n\tat java")), CannotServe)
