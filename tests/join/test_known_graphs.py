"""Triangles and cliques of real graphs, against published counts."""

from pathlib import Path

import numpy as np
import pytest
from tests.join.words import atom, edges as stored, found

from caladan.columns.relation import StoredRelation
from caladan.join.estimates import GRADES


def edges(path: Path) -> np.ndarray:
    return np.loadtxt(path, dtype=np.int64)


def count(relation: StoredRelation, pairs: list[str], grade: str = "paul") -> int:
    wanted = sorted({v for pair in pairs for v in pair})
    body = [atom(relation, tuple(pair)) for pair in pairs]
    return sum(len(batch) for batch in found(body, wanted, grade=grade))


@pytest.mark.parametrize("grade", GRADES)
@pytest.mark.parametrize(
    ("name", "directed", "undirected"),
    [("wiki-Vote", 131_925, 608_389), ("email-Eu-core", 395_667, 105_461)],
)
def test_triangles(data_dir: Path, name: str, directed: int, undirected: int, grade: str) -> None:
    given = edges(data_dir / "graphs" / f"{name}.tsv")
    assert count(stored(given), ["xy", "yz", "zx"], grade) == directed
    upward = np.sort(given[given[:, 0] != given[:, 1]], axis=1)
    assert count(stored(upward), ["xy", "yz", "xz"], grade) == undirected


def test_cliques_of_four(data_dir: Path) -> None:
    """Every grade of guidance aside, two ways to write the body give one count."""
    given = edges(data_dir / "graphs" / "email-Eu-core.tsv")
    upward = stored(np.sort(given[given[:, 0] != given[:, 1]], axis=1))
    pairs = ["ab", "ac", "ad", "bc", "bd", "cd"]
    assert count(upward, pairs) == count(upward, pairs[::-1], "ghanima")
