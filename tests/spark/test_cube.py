"""HyperCube: cyclic bodies solved in cells, whatever the shares, the types and the skew.

By frames, which exchange facts, and by the strategy *cubed*, whose tasks take theirs from all.
"""

import itertools
import math
import warnings
from functools import partial
from typing import Any

import pytest
from hypothesis import given, strategies as st
from pyspark.sql import SparkSession

import caladan
from caladan.engines.spark import choice, run
from caladan.engines.spark.choice import product, shares
from caladan.engines.spark.cube import spread
from caladan.engines.spark.tasks import job
from caladan.engines.spark.tasks.work import Retention
from caladan.session.result import Stopped

ARC = "database({arc(A: integer, B: integer)}).\n"
EDGES = sorted({(i * i % 23, (i * 7 + 3) % 19) for i in range(160)})
HUB = [(0, i) for i in range(1, 60)] + [(i, 0) for i in range(1, 60)] + EDGES

BODIES = {
    "triangles": "t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A). query t(A, B, C).",
    "ordered": "t(A, B, C) <- arc(A, B), arc(B, C), arc(A, C), A < B, B ~= C. query t(A, B, C).",
    "counted": "t(A, count<C>) <- arc(A, B), arc(B, C), arc(C, A). query t(A, N).",
    "4-cycles": """t(A, B, C, D) <- arc(A, B), arc(B, C), arc(C, D), arc(D, A), A < C.
        query t(A, B, C, D).""",
    "projected": "t(A) <- arc(A, B), arc(B, C), arc(C, A), ~arc(A, A). query t(A).",
    "with a tail": "t(A, D) <- arc(A, B), arc(B, C), arc(C, A), arc(C, D). query t(A, D).",
    "in recursion": """p(A, B) <- arc(A, B), A < 4.
        p(A, C) <- p(A, B), arc(B, C), arc(C, A). query p(A, B).""",
    "of several types": """w(A, B, S) <- arc(A, B), S = if(A < B then 'up' else 'down').
        x(A, D) <- arc(A, B), D = B / 2.0.
        t(A, B, S, D) <- w(A, B, S), x(B, D), w(B, C, S), x(C, E), w(C, A, _), x(A, D), D < E.
        query t(A, B, S, D).""",
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "cells", "edges"),
    [
        *((name, 8, HUB) for name in BODIES),
        *(("triangles", *case) for case in ((1, EDGES), (2, HUB), (12, EDGES))),
    ],
)
def test_cells_find_what_there_is(
    spark: SparkSession,
    name: str,
    cells: int,
    edges: list[tuple[int, int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def so_many(_: Any) -> int:
        return cells

    monkeypatch.setattr(spread, "WORTH_IT", 0)
    monkeypatch.setattr(spread, "cells_for", so_many)
    answers: list[list[Any]] = []
    for engine, strategy in ((spark, "frame"), ("embedded", None)):
        with caladan.connect(engine) as db, warnings.catch_warnings():
            warnings.simplefilter("ignore", caladan.CaladanWarning)
            db.add("arc", edges)
            answers.append(db.run(ARC + BODIES[name], strategy=strategy).answer.rows())
    assert answers[0] == answers[1]
    assert answers[1]


MERGED = {
    "groups": "t(A, count<C>) <- arc(A, B), arc(B, C), arc(C, A). query t(A, N).",
    "one group": "t(count<C>) <- arc(A, B), arc(B, C), arc(C, A), A < B. query t(N).",
    "sums and bests": """t(B, sum<S>, min<C>, max<A>) <- arc(A, B), arc(B, C), arc(C, A), S = A * C.
        query t(B, S, C, A).""",
    "least of texts": """t(B, min<S>) <- arc(A, B), arc(B, C), arc(C, A),
        S = if(A < 3 then 'x' else 'y'). query t(B, S).""",
    "several rules": """t(7, 7, 7). t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A).
        t(A, A, B) <- arc(A, B). query t(A, B, C).""",
    "nothing": "t(A) <- arc(A, B), arc(B, C), arc(C, A), A > 999. query t(A).",
    "no columns": "t() <- arc(A, B), arc(B, C), arc(C, A). query t().",
    "a sum of nothing": "t(sum<A>) <- arc(A, B), arc(B, C), arc(C, A), A > 999. query t(N).",
    "evened out": """t(sum<S>) <- arc(A, B), arc(B, C), arc(C, A), S = (A - B) * 100000000000000000.
        query t(S).""",
}  # fmt: skip
CUBED = {**BODIES, **MERGED}


@pytest.mark.parametrize("kept", ["held", "staged"])
@pytest.mark.parametrize(("name", "parts"), [*((name, 4) for name in CUBED), ("triangles", 1)])
def test_tasks_find_what_there_is(
    spark: SparkSession, name: str, parts: int, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def so_many(_: Any) -> int:
        return parts

    if kept == "staged":
        monkeypatch.setattr(job, "Retention", partial(Retention, few_bytes=0, rate=1e12))
    monkeypatch.setattr(run, "parts_of", so_many)
    answers: list[list[Any]] = []
    for engine, strategy in ((spark, "cubed"), ("embedded", None)):
        with caladan.connect(engine) as db, warnings.catch_warnings():
            warnings.simplefilter("ignore", caladan.CaladanWarning)
            db.add("arc", HUB)
            with db.run(ARC + CUBED[name], strategy=strategy) as out:
                answers.append(out.answer.rows())
                if strategy is not None and name not in ("in recursion", "evened out"):
                    assert "cubed" in {clique.strategy for clique in out.stats.cliques}
    assert answers[0] == answers[1]


def test_limits_of_tasks(spark: SparkSession) -> None:
    with caladan.connect(spark) as db:
        db.add("arc", HUB)
        with pytest.raises(Stopped, match="more than 10 facts were derived") as stopped:
            db.run(ARC + BODIES["triangles"], strategy="cubed", max_facts=10)
        assert stopped.value.result.answer.count() > 10
        # Fewer facts than all cells find together, for they find the same ones.
        with db.run(ARC + BODIES["projected"], strategy="cubed", max_facts=70) as out:
            assert out.answer.count() <= 70


def test_mistakes_are_told_as_ever(spark: SparkSession) -> None:
    text = ARC + "t(A, D) <- arc(A, B), arc(B, C), arc(C, A), D = A div (B - C). query t(A, D)."
    said: list[str] = []
    for engine in (spark, "embedded"):
        with caladan.connect(engine) as db, pytest.raises(caladan.CaladanError) as raised:
            db.add("arc", HUB)
            db.run(text, strategy="cubed" if engine is spark else None)
        said.append(str(raised.value))
    assert said[0] == said[1]
    assert "C040" in said[0]


RECURSIVE = "t(A, B) <- arc(A, B). t(A, C) <- t(A, B), t(B, C), arc(C, A). query t(A, C)."


@pytest.mark.parametrize(
    ("ends", "hub", "rules", "cells"),
    [
        (100, False, BODIES["triangles"], []),
        (300, False, BODIES["triangles"], [1]),
        (300, False, RECURSIVE, []),
        (300, True, RECURSIVE, [2]),
    ],
)
def test_few_facts_are_joined_and_in_rounds_unless_they_meet_at_a_hub(
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    ends: int,
    hub: bool,
    rules: str,
    cells: list[int],
) -> None:
    by_cells: list[int] = []
    solved = spread.solve_cells

    def seen(body: Any, atoms: Any, columns: Any, cells: int, samples: Any = None) -> Any:
        by_cells.append(cells)
        return solved(body, atoms, columns, cells, samples)

    monkeypatch.setattr(spread, "solve_cells", seen)
    for place in (choice, spread):
        monkeypatch.setattr(place, "PAIRS", 80_000)
    outer = range(1, ends + 1)
    arcs = [(i, i + 1) for i in outer] + ([(i, 0) for i in outer] + [(0, -i) for i in outer]) * hub
    with caladan.connect(spark) as db:
        db.add("arc", arcs)
        db.run(ARC + rules, strategy="frame")
    assert by_cells[:1] == cells


ATOMS = st.lists(
    st.tuples(
        st.lists(st.sampled_from("wxyz"), min_size=1, max_size=3, unique=True),
        st.integers(1, 10**6),
    ),
    min_size=2,
    max_size=5,
)


@given(atoms=ATOMS, cells=st.integers(1, 24))
def test_no_shares_send_a_cell_less(atoms: list[tuple[list[str], int]], cells: int) -> None:
    found = shares(atoms, cells)
    assert product(list(found), found) <= cells

    def load(chosen: dict[str, int]) -> float:
        return sum(size / product(variables, chosen) for variables, size in atoms)

    for other in itertools.product(range(1, cells + 1), repeat=len(found)):
        if math.prod(other) <= cells:
            assert load(found) <= load(dict(zip(found, other, strict=True)))


def test_many_cells() -> None:
    triangle = [(("x", "y"), 10**9), (("y", "z"), 10**9), (("z", "x"), 10**9)]
    found = shares(triangle, 1000)
    ideal = 3 / 10**2  # ten slices of each variable
    assert sum(1 / product(variables, found) for variables, _ in triangle) < 1.2 * ideal
