"""Aggregates through an index: the examples against NumPy, on every engine."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import caladan as cal

EXAMPLES = Path(__file__).parents[2] / "examples"
STRATEGIES = ("reference", "embedded", "single", "meshed", "frame")
ARCS = [
    tuple(map(int, line.split(",")))
    for line in (EXAMPLES / "arc.csv").read_text().split()
    if line[:1].isdigit()
]


def program(name: str, stages: int) -> str:
    """An example with another number of stages, for frames take long."""
    text = (EXAMPLES / "stages" / f"{name}.dl").read_text("utf-8")
    found = re.search(r"I < (\d+)", text)
    assert found is not None
    last = found[1]
    return text.replace(f"I < {last}", f"I < {stages}").replace(f"({last}, ", f"({stages}, ")


def facts(name: str, relation: str) -> np.ndarray[Any, Any]:
    """The facts of a relation that an example has in its text."""
    text = (EXAMPLES / "stages" / f"{name}.dl").read_text("utf-8")
    rows = re.findall(rf"^{relation}\((.*)\)\.$", text, re.M)
    return np.array([[float(value) for value in row.split(",")] for row in rows])


def answer(name: str, stages: int, strategy: str, request: pytest.FixtureRequest) -> list[Any]:
    is_spark = strategy in ("single", "meshed", "frame")
    engine = request.getfixturevalue("spark") if is_spark else strategy
    with cal.connect(engine) as db:
        if name == "pagerank":
            db.add("arc", ARCS)
        out = db.run(program(name, stages), strategy=strategy if is_spark else None)
        assert not out.warnings
        return sorted(out.answer.rows())


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pagerank(strategy: str, request: pytest.FixtureRequest) -> None:
    stages = 3 if strategy == "frame" else 20
    nodes = sorted({node for arc in ARCS for node in arc})
    matrix = np.zeros((len(nodes), len(nodes)))
    for a, b in set(ARCS):
        matrix[nodes.index(b), nodes.index(a)] = 1
    matrix /= np.maximum(matrix.sum(0), 1)
    ranks = np.full(len(nodes), 1 / len(nodes))
    has_rank = np.ones(len(nodes), bool)
    for _ in range(stages):
        arrives = matrix[:, has_rank].any(1)
        ranks = np.where(arrives, 0.15 / len(nodes) + 0.85 * matrix @ (ranks * has_rank), 0)
        has_rank = arrives
    found = answer("pagerank", stages, strategy, request)
    assert [row[1] for row in found] == [n for n, has in zip(nodes, has_rank, strict=True) if has]
    assert np.allclose([row[2] for row in found], ranks[has_rank], rtol=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_gradient_descent(strategy: str, request: pytest.FixtureRequest) -> None:
    stages = 3 if strategy == "frame" else 60
    _, x, y = facts("gradient_descent", "sample").T
    a = b = 0.0
    for _ in range(stages):
        error = a * x + b - y
        a, b = a - 0.02 * (error * x).sum(), b - 0.02 * error.sum()
    ((stage, *found),) = answer("gradient_descent", stages, strategy, request)
    assert stage == stages
    assert np.allclose(found, [a, b], rtol=1e-9)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_kmeans(strategy: str, request: pytest.FixtureRequest) -> None:
    stages = 2 if strategy == "frame" else 10
    points = facts("kmeans", "point")[:, 1:]
    centres = facts("kmeans", "seed")[:, 1:]
    for _ in range(stages):
        nearest = ((points[:, None] - centres[None]) ** 2).sum(2).argmin(1)
        centres = np.array([points[nearest == c].mean(0) for c in range(len(centres))])
    found = answer("kmeans", stages, strategy, request)
    assert [row[1] for row in found] == [1, 2, 3]
    assert np.allclose([row[2:] for row in found], centres, rtol=1e-9)


@pytest.mark.parametrize(
    "rules",
    [
        "p(0, 1). p(X, sum<Y>) <- p(X, Y), q(Y).",  # the same index
        "p(0, 1). p(1, 1). p(I + 1, sum<Y>) <- p(I, Y), q(Y), I < 9.",  # two starts
        "p(0, 1). p(I + 1, sum<Y>) <- p(I, Y), I < 9. p(I + 2, sum<Y>) <- p(I, Y), I < 9.",
        "p(X, Y) <- q(X), q(Y). p(I + 1, sum<Y>) <- p(I, Y), I < 9.",  # starts anywhere
        "p(0, 1). p(I + 1, median<Y>) <- p(I, Y), I < 9.",  # no form for recursion
        "p(0, 1). r(I, sum<Y>) <- p(I, Y), r(I, _). p(I + 1, S) <- r(I, S), I < 9.",  # a circle
    ],
)
def test_what_has_no_stages_is_refused(rules: str) -> None:
    with cal.connect("embedded") as db:
        db.add("q", [(1,), (2,)])
        with pytest.raises(cal.CaladanError, match="C014"):
            db.run(f"{rules} query p(X, Y).")


def test_levels_wait_for_each_other() -> None:
    """A relation with rules of different depth is complete before it is added up."""
    rules = """
        a(0, X) <- q(X).
        b(I, X) <- a(I, X).
        c(I, X + 10) <- b(I, X).
        d(I, X) <- a(I, X).
        d(I, X) <- c(I, X).
        s(I, sum<X>, count<X>) <- d(I, X).
        a(I + 1, S mod 7) <- s(I, S, _), I < 5.
        a(I + 1, N) <- s(I, _, N), I < 5.
        query s(I, S, N).
    """
    values, expected = {1, 2, 3}, []
    for stage in range(6):
        every = values | {value + 10 for value in values}
        expected.append((stage, sum(every), len(every)))
        values = {sum(every) % 7, len(every)}
    for engine in ("reference", "embedded"):
        with cal.connect(engine) as db:
            db.add("q", [(1,), (2,), (3,)])
            assert sorted(db.run(rules).answer.rows()) == expected
