"""Every program of the corpus by *single*, and by *pivoted* in one part and in three."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.programs.answers import answered
from tests.programs.corpus import Folder, folders

import caladan
from caladan.engines.spark import run as run_module
from caladan.engines.spark.choice import why_not_pivoted
from caladan.pipeline import compile_program

FOLDERS = folders(sql=True)


def has_pivot(folder: Folder) -> bool:
    compiled = compile_program(folder.program, {}, folder.params)
    return any(c.pivot and why_not_pivoted(c) is None for c in compiled.delta.cliques)


PIVOTED = [folder for folder in folders() if has_pivot(folder)]


def run(spark: SparkSession, folder: Folder, strategy: str) -> caladan.Result:
    """Run a program, and compare all its answers with what must come out."""
    with caladan.connect(spark) as db, answered(db, folder, strategy=strategy) as out:
        return out


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_single(spark: SparkSession, folder: Folder) -> None:
    out = run(spark, folder, "single")
    assert {clique.strategy for clique in out.stats.cliques} <= {"single"}


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("folder", PIVOTED, ids=lambda folder: folder.name)
def test_pivoted(
    spark: SparkSession, folder: Folder, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def so_many(_: Any) -> int:
        return parts

    monkeypatch.setattr(run_module, "parts_of", so_many)
    out = run(spark, folder, "pivoted")
    assert "pivoted" in {clique.strategy for clique in out.stats.cliques if clique.recursive}


def test_there_are_pivoted_programs() -> None:
    assert len(PIVOTED) >= 15
