"""Triangles and cliques of real graphs, against published counts."""

from pathlib import Path

import numpy as np
import pytest

from caladan.join.search import SearchRelation, solve
from caladan.join.search.constraints import Stored
from caladan.join.search.grades import GRADES


def edges(path: Path) -> np.ndarray:
    return np.loadtxt(path, dtype=np.int64)


def count(relation: SearchRelation, pairs: list[str], grade: str = "paul") -> int:
    wanted = sorted({v for pair in pairs for v in pair})
    body = [Stored(relation, tuple(pair)) for pair in pairs]
    return sum(len(batch) for batch in solve(body, wanted, grade=grade))


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize(
    ("name", "directed", "undirected"),
    [("wiki-Vote", 131_925, 608_389), ("email-Eu-core", 395_667, 105_461)],
)
def test_triangles(data_dir: Path, name: str, directed: int, undirected: int, grade: str) -> None:
    given = edges(data_dir / "graphs" / f"{name}.tsv")
    assert count(SearchRelation.of(list(given.T)), ["xy", "yz", "zx"], grade) == directed
    upward = np.sort(given[given[:, 0] != given[:, 1]], axis=1)
    assert count(SearchRelation.of(list(upward.T)), ["xy", "yz", "xz"], grade) == undirected


def test_cliques_of_four(data_dir: Path) -> None:
    """Every grade of guidance aside, two ways to write the body give one count."""
    given = edges(data_dir / "graphs" / "email-Eu-core.tsv")
    upward = SearchRelation.of(list(np.sort(given[given[:, 0] != given[:, 1]], axis=1).T))
    pairs = ["ab", "ac", "ad", "bc", "bd", "cd"]
    assert count(upward, pairs) == count(upward, pairs[::-1], "ghanima")
