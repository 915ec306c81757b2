"""The corpus once more on the embedded engine, with shapes taken however small the data is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
from tests.programs.compare import difference
from tests.programs.corpus import Folder, folders

import caladan
from caladan.program import thresholds


@pytest.fixture
def always() -> Iterator[None]:
    with thresholds.override(shape=0):
        yield


@pytest.mark.parametrize("folder", folders(), ids=lambda folder: folder.name)
def test_program(folder: Folder, always: None) -> None:
    db = caladan.connect("embedded")
    for relation, path in folder.facts.items():
        db.add(relation, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        out = db.run(folder.path / "program.dl", params=folder.params)
    for stem, relation in zip(folder.queries(), out.answers, strict=True):
        expected = folder.expected(stem)
        different = difference(relation.rows(), expected.rows, ordered=folder.is_ordered)
        assert different is None, f"{stem}: {different}"


def test_shapes_are_taken(always: None) -> None:
    strategies: set[str] = set()
    for name in ("transitive_closure_left", "same_generation", "reachability"):
        (folder,) = (f for f in folders() if f.name == name)
        db = caladan.connect("embedded")
        for relation, path in folder.facts.items():
            db.add(relation, path)
        stats = db.run(folder.path / "program.dl", params=folder.params).stats
        strategies |= {clique.strategy for clique in stats.cliques}
    assert {"condensed", "blocks"} <= strategies
