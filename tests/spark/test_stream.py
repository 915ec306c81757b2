"""Programs over streams: one change for a micro-batch, exactly once, and alive after a kill."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import caladan as cal
from caladan.session import stream as streams

RING = """database({pay(A: long, B: long)}).
reach(A, B) <- pay(A, B). reach(A, C) <- reach(A, B), pay(B, C).
ring(A) <- reach(A, A). query ring(A)."""


def put(
    folder: Path, name: str, rows: list[tuple[int, ...]], kinds: list[str] | None = None
) -> None:
    """Have a batch of rows come in."""
    columns: dict[str, Any] = {"A": [r[0] for r in rows], "B": [r[1] for r in rows]}
    if kinds is not None:
        columns["_change_type"] = kinds
        columns["_commit_version"] = [r[2] for r in rows]
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f".{name}")
    (folder / f".{name}").rename(folder / name)


def source(spark: SparkSession, folder: Path, schema: str = "A long, B long") -> Any:
    folder.mkdir(exist_ok=True)
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def changes(folder: Path) -> list[tuple[Any, ...]]:
    found = pq.read_table(folder).to_pylist() if folder.exists() else []
    return sorted((r["batch"], r["A"], r["_change_type"]) for r in found)


def test_each_batch_is_one_change(spark: SparkSession, tmp_path: Path) -> None:
    seen: list[tuple[int, list[tuple[Any, ...]]]] = []

    def merge(frame: Any, number: int) -> None:
        seen.append((number, sorted(map(tuple, frame.collect()))))

    incoming = tmp_path / "in"

    def started() -> cal.RunningStream:
        return cal.stream(
            spark, RING, {"pay": source(spark, incoming)},
            {"ring": tmp_path / "out", "reach": merge}, tmp_path / "state",
        )  # fmt: skip

    with started() as stream:
        put(incoming, "1.parquet", [(1, 2), (2, 3)])
        stream.process_all_available()
        put(incoming, "2.parquet", [(3, 1)])
        stream.process_all_available()
        assert changes(tmp_path / "out") == [(1, 1, "insert"), (1, 2, "insert"), (1, 3, "insert")]
        assert [number for number, _ in seen] == [0, 1]
        assert seen[0][1] == [(1, 2, "insert"), (1, 3, "insert"), (2, 3, "insert")]
        assert stream.live["ring"].rows() == [(1,), (2,), (3,)]
    # Started again it goes on, and says nothing twice.
    with started() as stream:
        assert stream.live["ring"].rows() == [(1,), (2,), (3,)]
        put(incoming, "3.parquet", [(4, 4)])
        stream.process_all_available()
        assert changes(tmp_path / "out")[3:] == [(2, 4, "insert")]
        assert len(seen) == 3
    with pytest.raises(cal.CaladanError, match="belongs to another program"):
        cal.stream(
            spark, RING + "\nother(A) <- ring(A).", {"pay": source(spark, incoming)}, {},
            tmp_path / "state",
        )  # fmt: skip


def test_changes_of_a_feed_and_data_that_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_STEPS", 2)  # so that all facts are saved as one, too
    text = RING.replace("query ring(A).", "known(A) <- ring(A), bank(A). query known(A).")
    text = text.replace("pay(A: long, B: long)", "pay(A: long, B: long), bank(A: long)")
    schema = "A long, B long, _change_type string, _commit_version long"
    incoming = tmp_path / "in"

    def started() -> cal.RunningStream:
        return cal.stream(
            spark, text, {"pay": source(spark, incoming, schema), "bank": [(1,), (7,)]},
            {"known": (tmp_path / "known", "complete")}, tmp_path / "state",
        )  # fmt: skip

    with started() as stream:
        put(
            incoming, "1", [(1, 2, 1), (2, 1, 1), (7, 7, 1), (7, 7, 2)], ["insert"] * 3 + ["delete"]
        )
        stream.process_all_available()
        assert pq.read_table(tmp_path / "known").to_pylist() == [{"A": 1}]
        kinds = ["update_preimage", "update_postimage", "insert"]
        put(incoming, "2", [(2, 1, 3), (2, 9, 3), (7, 7, 4)], kinds)
        stream.process_all_available()
        assert pq.read_table(tmp_path / "known").to_pylist() == [{"A": 7}]
        for i in range(3, 6):
            put(incoming, str(i), [(i * 10, i * 10 + 1, i)], ["insert"])
            stream.process_all_available()
    saved = sorted(path.name for path in (tmp_path / "state/caladan").iterdir())
    assert saved == ["batch-000000000003", "batch-000000000004", "program", "whole-000000000002"]
    with started() as stream:
        assert len(stream.live["pay"].rows()) == 6
        assert stream.live["known"].rows() == [(7,)]
        put(incoming, "9", [(1, 1, 9)], ["replaced"])
        with pytest.raises(cal.CaladanError, match="has the _change_type 'replaced'"):
            stream.process_all_available()


def test_mistakes_are_told_before_it_starts(spark: SparkSession, tmp_path: Path) -> None:
    pay = source(spark, tmp_path / "in")
    for sources, sinks, words in (
        ({"pay": spark.range(3)}, {}, "none of the sources is a stream"),
        ({"pay": pay, "other": pay}, {}, "the program reads no relation `other`"),
        ({"pay": pay}, {"rings": "x"}, "no relation `rings` is watched"),
        ({"pay": pay}, {"ring": ("x", "update")}, "has the mode 'update'"),
    ):
        with pytest.raises(cal.CaladanError, match=words):
            cal.stream(spark, RING, sources, sinks, tmp_path / "state")


DRIVER = """
import sys, time
from pathlib import Path
import caladan as cal
from caladan.engines.spark.session.session import start
from tests.spark.test_stream import RING, source
spark = start("local[1]", {"spark.ui.enabled": "false"})
folder = Path(sys.argv[1])
stream = cal.stream(
    spark, RING, {"pay": source(spark, folder / "in")}, {"ring": folder / "out"}, folder / "state"
)
print("started", flush=True)
stream.wait()
"""


def test_a_driver_that_is_killed_goes_on(spark: SparkSession, tmp_path: Path) -> None:
    """Killed in the middle of batches, twice; what was written is what an unharmed run writes."""
    batches = [[(i, (i + 1) % 12), (i + 100, (i + 7) % 30 + 100)] for i in range(30)]
    for i, rows in enumerate(batches):
        put(tmp_path / "in", f"{i:03d}.parquet", rows)

    for done in (6, 18):
        with subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(tmp_path)], start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[2],
        ) as driver:  # fmt: skip
            state, until = tmp_path / "state/caladan", time.monotonic() + 240
            while not (state / f"batch-{done:012d}").exists() and time.monotonic() < until:
                assert driver.poll() is None
                time.sleep(0.01)
            os.killpg(driver.pid, signal.SIGKILL)
    outgoing = {"ring": tmp_path / "out"}
    pay = source(spark, tmp_path / "in")
    with cal.stream(spark, RING, {"pay": pay}, outgoing, tmp_path / "state") as stream:
        stream.process_all_available()
        found = stream.live["ring"].rows()
    pay = source(spark, tmp_path / "in")
    with cal.stream(
        spark, RING, {"pay": pay}, {"ring": tmp_path / "unharmed"}, tmp_path / "again"
    ) as stream:
        stream.process_all_available()
        assert stream.live["ring"].rows() == found
    assert changes(tmp_path / "out") == changes(tmp_path / "unharmed") != []
