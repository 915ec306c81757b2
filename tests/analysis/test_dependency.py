"""Strongly connected components, checked against plain reachability."""

from hypothesis import given, strategies as st

from caladan.analysis.strata import components

NODES = "abcdefgh"


@given(st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(NODES)), max_size=30))
def test_components(edges: list[tuple[str, str]]) -> None:
    successors = {n: [b for a, b in edges if a == n] for n in NODES}
    reach = {n: {n} for n in NODES}
    for _ in NODES:
        for a, b in edges:
            reach[a] |= reach[b]
    found = components(list(NODES), successors)
    assert sorted(n for c in found for n in c) == sorted(NODES)
    for group in found:
        for one in group:
            assert {n for n in NODES if n in reach[one] and one in reach[n]} == set(group)
    place = {n: i for i, c in enumerate(found) for n in c}
    assert all(place[b] <= place[a] for a, b in edges)
