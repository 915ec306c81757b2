"""Sessions whose user named no engine: where they start, and what makes them move to Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import caladan as cal
from caladan.engines.embedded.engine import EmbeddedEngine
from caladan.program.diagnostics import CaladanError
from caladan.session import auto
from caladan.session.auto import Mover
from caladan.session.session import Session

CLOSURE = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(1, B)."


class FakeSpark(EmbeddedEngine):
    """An embedded engine that passes for Spark where only the name counts."""

    name = "spark"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def db(said: list[str], monkeypatch: pytest.MonkeyPatch) -> Session:
    def start(_: object) -> Any:
        return FakeSpark()

    monkeypatch.setattr("caladan.session.course.check_on_engine", lambda *_: None)
    return Session(EmbeddedEngine(), mover=Mover(start, said.append))


def test_it_starts_in_this_process_and_says_so_once() -> None:
    script = (
        "import sys, caladan as cal; db = cal.connect(); cal.connect(); db.add('arc', [(1, 2)]); "
        f"print(db.run({CLOSURE!r}).answer.rows(), db, 'pyspark' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout == "[(1, 2)] <Session on embedded: arc> False\n"
    assert done.stderr == f"caladan: {auto.STARTED}\n"


def test_who_names_the_engine_is_not_told() -> None:
    script = "import caladan as cal; cal.connect('embedded').add('arc', [(1, 2)])"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout + done.stderr == ""


@pytest.mark.parametrize("name", ["PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"])
def test_a_process_that_spark_started_has_spark(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    assert auto.finds_spark()


def test_options_of_spark_move_it_with_all_it_has(db: Session, said: list[str]) -> None:
    db.add("arc", [(1, 2), (2, 3)])
    first = db.run(CLOSURE)
    assert db.run(CLOSURE, strategy="single").answer.rows() == [(1, 2), (1, 3)]
    assert said == ["moving to Spark, which has the option `strategy`"]
    assert repr(db) == "<Session on spark: arc>"
    assert db.query("tc(2, X)").rows() == [(2, 3)]  # the rules are there
    assert db.sql("SELECT count(*) FROM arc").rows() == [(2,)]
    assert first["tc"].count() == 3  # evaluated now, on the engine of its run
    db.run(CLOSURE, strategy="single")
    assert len(said) == 1


def test_functions_that_spark_cannot_have_are_told_when_it_moves(said: list[str]) -> None:
    import threading

    lock = threading.Lock()

    def held(x: int) -> int:
        with lock:
            return x

    db = Session(EmbeddedEngine(), mover=Mover(lambda _: FakeSpark(), said.append))
    db.define("held", held, returns="long")
    db.add("arc", [(1, 2)])
    with pytest.raises(CaladanError, match="held"):
        db.run(CLOSURE, strategy="single")
    assert repr(db) == "<Session on embedded: arc>"
    assert db.run(CLOSURE).answer.rows() == [(1, 2)]


def test_remote_files_ask_for_spark(db: Session, said: list[str]) -> None:
    db.add("arc", "s3://bucket/arc.csv")
    assert said == ["moving to Spark, which reads `arc`"]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_data_that_does_not_fit_asks_for_spark(
    suffix: str, db: Session, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(i, i + 1) for i in range(2000)]
    columns = {"A": [a for a, _ in rows], "B": [b for _, b in rows]}
    one, other = tmp_path / f"one.{suffix}", tmp_path / f"other.{suffix}"
    for path in (one, other):
        if suffix == "csv":
            path.write_text("".join(f"{a},{b}\n" for a, b in rows))
        else:
            pyarrow.parquet.write_table(pa.table(columns), path)
    need = one.stat().st_size if suffix == "csv" else 2000 * 2 * 8
    monkeypatch.setattr("caladan.fixpoint.limits.budget", lambda: need + 10)
    db.add("arc", one)
    assert said == []
    db.add("more", other)
    assert len(said) == 1
    assert said[0].startswith("moving to Spark, because with `more` the data needs about ")
    assert db.run("query arc(1, X).").answer.rows() == [(1, 2)]


def test_data_that_does_not_fit_stays_where_there_is_no_pyspark(
    db: Session, said: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "arc.csv").write_text("1,2\n")
    monkeypatch.setattr("caladan.fixpoint.limits.budget", lambda: 1)
    monkeypatch.setattr(auto, "find_spec", lambda _: None)
    db.add("arc", tmp_path / "arc.csv")
    assert said == []


def test_frames_and_tables_of_spark_ask_for_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(auto, "finds_spark", lambda: False)
    with cal.connect() as db:
        db.add("arc", [(1, 2)])
        assert db.run(CLOSURE).stats.engine == "embedded"
        spark.createDataFrame([(2, 3)], "A int, B int").createOrReplaceTempView("auto_more")
        db.add("more", cal.table("auto_more"))
        out = db.run(CLOSURE.replace("tc(A, B) <- arc", "tc(A, B) <- more(A, B). tc(A, B) <- arc"))
        assert out.stats.engine == "spark"
        assert out.answer.rows() == [(1, 2)]
    with cal.connect() as db:
        db.add("arc", spark.createDataFrame([(1, 2)], "A int, B int"))
        assert db.run(CLOSURE).answer.spark().collect() == [(1, 2)]
    spark.catalog.dropTempView("auto_more")
    assert spark.range(2).count() == 2  # it was not ours to stop
    assert "moving to Spark, where `arc` is\n" in capsys.readouterr().err
    monkeypatch.undo()
    assert repr(cal.connect()) == "<Session on spark: no data yet>"
