"""Every grade stays within the AGM bound; better grades waste less; Leto wastes nothing."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.join.words import atom, edges, found as batches, stored

from caladan.columns.relation import StoredRelation
from caladan.join.constraints.atom import StoredAtom
from caladan.join.constraints.sets import OneOf, Predicate
from caladan.join.estimates import GRADES
from caladan.join.hypergraph import cyclic_core, is_cyclic, join_tree
from caladan.join.statistics import Statistics


def count(body: Sequence[object], wanted: str, grade: str) -> tuple[int, Statistics]:
    statistics = Statistics()
    results = batches(body, wanted.split(), grade=grade, statistics=statistics)
    return sum(len(batch) for batch in results), statistics


def one_of(var: str, values: list[int]) -> StoredAtom:
    """A set, as `find` hands it to the search."""
    return atom(stored([values], 1), (var,))


def star(n: int) -> np.ndarray:
    """Edges from a hub to n others and back: any two make a path, few close a triangle."""
    spokes = np.arange(1, n + 1)
    hub = np.zeros(n, np.int64)
    return np.concatenate([np.stack([hub, spokes], 1), np.stack([spokes, hub], 1), [[0, 0]]])


def triangle(relation: StoredRelation) -> list[StoredAtom]:
    return [atom(relation, pair) for pair in (("x", "y"), ("y", "z"), ("z", "x"))]


@pytest.mark.parametrize("grade", GRADES)
def test_triangles_where_binary_joins_explode(grade: str) -> None:
    """A star of 2n + 1 edges has n² paths of two edges, and 3n + 1 triangles."""
    n = 20_000
    found, statistics = count(triangle(edges(star(n))), "x y z", grade)
    assert found == 3 * n + 1
    assert statistics.proposed.total() < 12 * n


@pytest.mark.parametrize("grade", GRADES)
def test_work_grows_with_the_agm_bound(grade: str) -> None:
    """On complete bipartite-like inputs the bound N^1.5 is met, and never passed by much."""
    for side in (8, 16, 32):
        grid = np.array([(a, b) for a in range(side) for b in range(side)])
        found, statistics = count(triangle(edges(grid)), "x y z", grade)
        assert found == side**3
        assert statistics.proposed.total() <= 3 * side**3


@pytest.mark.parametrize("grade", GRADES)
def test_loomis_whitney(grade: str) -> None:
    """r(x, y), s(y, z), t(z, x) whose pairwise joins all have n²/4 rows, and no result at all."""
    n = 4_000
    half = np.arange(n // 2)
    zero = np.zeros(n // 2, np.int64)
    cross = np.concatenate([np.stack([zero, half + 1], 1), np.stack([half + 1, zero], 1)])
    relation = edges(cross)
    found, statistics = count(triangle(relation), "x y z", grade)
    assert found == 0
    assert statistics.proposed.total() < 8 * n


PATH = np.array([(a, (a * 7 + b) % 50) for a in range(50) for b in (1, 3)] + [(100, 100), (0, 101)])


def test_leto_wastes_nothing_on_acyclic_bodies() -> None:
    relation = edges(PATH)
    body = [
        atom(relation, ("a", "b")),
        atom(relation, ("b", "c")),
        atom(relation, ("c", "d")),
        atom(relation, ("b", "e")),
        Predicate(["a", "b"], np.less),
        one_of("d", [1, 5, 9]),
    ]
    totals = {grade: count(body, "a b c d e", grade) for grade in GRADES}
    assert len({found for found, _ in totals.values()}) == 1
    assert totals["leto"][1].wasted.total() == 0
    assert totals["paul"][1].wasted.total() > 0
    assert totals["ghanima"][1].wasted.total() >= 0


pairs = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=25)


@given(st.lists(pairs, min_size=3, max_size=3))
def test_every_candidate_of_leto_is_in_a_result(facts: list[list[tuple[int, int]]]) -> None:
    """On a path of random relations each confirmed value of each variable is one of a result."""
    r, s, t = (edges(np.array(each)) for each in facts)
    body = [atom(r, ("a", "b")), atom(s, ("b", "c")), atom(t, ("c", "d"))]
    found, statistics = count(body, "a b c d", "leto")
    assert statistics.wasted.total() == 0
    for var, made in statistics.proposed.items():
        assert made <= found, var


def test_estimates_are_asked_again_only_where_something_changed() -> None:
    """Of two chains that do not touch, binding in one leaves the other's estimates alone."""
    relation = edges(PATH)
    body = [
        atom(relation, ("a", "b")),
        atom(relation, ("b", "c")),
        one_of("x", [1, 2]),
        one_of("y", [1, 2, 3]),
        one_of("z", [1, 2, 3, 4, 5]),
    ]
    _, statistics = count(body, "a b c x y z", "paul")
    assert statistics.estimated["a"] < statistics.results
    assert statistics.estimates["z"] < statistics.steps


def test_cyclic_core() -> None:
    triangle = [("x", "y"), ("y", "z"), ("z", "x")]
    assert cyclic_core([*triangle, ("z", "w"), ("w", "v")]) == (0, 1, 2)
    assert cyclic_core([*triangle, ("x", "y", "z")]) == ()
    assert cyclic_core([]) == ()


def test_cyclic() -> None:
    assert is_cyclic([("x", "y"), ("y", "z"), ("z", "x")])
    assert not is_cyclic([("x", "y"), ("y", "z"), ("z", "x"), ("x", "y", "z")])
    assert not is_cyclic([("x", "y"), ("y", "z"), ("z", "w")])
    assert is_cyclic([("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")])
    assert not is_cyclic([])
    assert not is_cyclic([()])
    assert not is_cyclic([("x",), ("y",)])
    assert not is_cyclic([("x", "y"), ("x", "y")])


@given(st.lists(st.frozensets(st.sampled_from("abcde"), min_size=1, max_size=3), max_size=5))
def test_join_trees_keep_variables_connected(atoms: list[frozenset[str]]) -> None:
    tree = join_tree(atoms)
    if tree is None:
        return
    assert len(tree.edges) == max(len(atoms) - 1, 0)
    for variable in "abcde":
        having = {number for number, atom in enumerate(atoms) if variable in atom}
        inside = [edge for edge in tree.edges if set(edge) <= having]
        assert len(inside) == max(len(having) - 1, 0), f"{variable} is not connected"


def test_statistics_read_well() -> None:
    _, statistics = count([OneOf("x", [1, 2]), Predicate(["x"], lambda x: x > 1)], "x", "paul")
    assert str(statistics) == (
        "search paul: 1 results in 1 steps\n  x: 2 proposed, 1 confirmed, 1 wasted, 1 estimates"
    )
