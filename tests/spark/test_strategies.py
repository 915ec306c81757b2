"""Programs of the corpus by *single*, and by *pivoted* in one part and in three.

By *single* those are run that bring something to ship that others before them do not: a type, an
aggregate, a kind of expression or goal. What the embedded engine does with it there is tested with
the corpus as a whole.
"""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.programs.answers import answered
from tests.programs.corpus import Folder, folders

import caladan
from caladan.engines.spark import run as run_module
from caladan.engines.spark.choice import why_not_pivoted
from caladan.pipeline import compile_program


def shipped(folder: Folder) -> frozenset[str]:
    """What of a program has to travel: types, aggregates and whatever rules are made of."""
    delta = compile_program(folder.program, {}, folder.params).delta
    infos = delta.relations.values()
    types = {str(column.type) for info in infos for column in info.columns}
    made = {str(function) for info in infos for function in info.aggregates}
    widths = {f"{min(len(info.columns), 3)} columns" for info in infos}
    nodes = set(re.findall(r"\b[A-Z]\w+(?=\()", repr((delta.rules, delta.goals))))
    return frozenset(types | made | widths | nodes)


def varied(given: Sequence[Folder]) -> list[Folder]:
    """Folders of which each brings something that those before it do not."""
    seen: set[str] = set()
    found: list[Folder] = []
    for folder in given:
        if not (new := shipped(folder)) <= seen:
            seen |= new
            found.append(folder)
    return found


def has_pivot(folder: Folder) -> bool:
    compiled = compile_program(folder.program, {}, folder.params)
    return any(c.pivot and why_not_pivoted(c) is None for c in compiled.delta.cliques)


PIVOTED = [folder for folder in folders() if has_pivot(folder)]


def run(spark: SparkSession, folder: Folder, strategy: str) -> caladan.Result:
    """Run a program, and compare all its answers with what must come out."""
    with caladan.connect(spark) as db, answered(db, folder, strategy=strategy) as out:
        return out


@pytest.mark.parametrize("folder", varied(folders()), ids=lambda folder: folder.name)
def test_single(spark: SparkSession, folder: Folder) -> None:
    out = run(spark, folder, "single")
    assert {clique.strategy for clique in out.stats.cliques} <= {"single"}


@pytest.mark.parametrize(
    ("folder", "parts"),
    [*((folder, 3) for folder in PIVOTED), *((folder, 1) for folder in varied(PIVOTED))],
    ids=lambda given: getattr(given, "name", str(given)),
)
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
