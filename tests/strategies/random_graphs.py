"""Graphs of the kinds that bring out what an engine does at its borders.

Random ones are all alike: each node has about as many neighbours as the next. Hubs, long ways, all
pairs and nothing at all are where rounds are wide, many, full of repetitions, or none.
"""

from collections.abc import Callable

from hypothesis import strategies as st

Edges = list[tuple[int, int]]


def star(n: int) -> Edges:
    """A hub with spokes there and back."""
    return [(0, i) for i in range(1, n)] + [(i, 0) for i in range(1, n)]


def fan(n: int) -> Edges:
    """A hub in the middle: half of the nodes lead to it, it leads to the others."""
    return [(i, 0) for i in range(1, n // 2 + 1)] + [(0, i) for i in range(n // 2 + 1, n)]


def chain(n: int) -> Edges:
    """One long way."""
    return [(i, i + 1) for i in range(n - 1)]


def ring(n: int) -> Edges:
    """One long way round."""
    return [(i, (i + 1) % n) for i in range(n)]


def ladder(n: int) -> Edges:
    """Ways that part and meet again, over and over."""
    return [(i, j) for i in range(0, n - 3, 3) for j in (i + 1, i + 2)] + [
        (j, i + 3) for i in range(0, n - 3, 3) for j in (i + 1, i + 2)
    ]


def complete(n: int) -> Edges:
    """All pairs of the few nodes that make up so many."""
    few = max(1, int(n**0.5))
    return [(i, j) for i in range(few) for j in range(few)]


def skewed(n: int) -> Edges:
    """Few nodes have most of the neighbours: node i leads to every i-th."""
    return [(i, j) for i in range(1, n) for j in range(i, n, i)][: 3 * n]


def tree(n: int) -> Edges:
    """Each node has two below it."""
    return [((i - 1) // 2, i) for i in range(1, n)]


def empty(_: int) -> Edges:
    """Nothing."""
    return []


GRAPHS: tuple[Callable[[int], Edges], ...] = (
    star, fan, chain, ring, ladder, complete, skewed, tree, empty,
)  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn, most: int, least: int = 1) -> Edges:
    """A graph of one kind, sometimes with a few edges more, its nodes counted from anywhere."""
    made = draw(st.sampled_from(GRAPHS))(draw(st.integers(least, most)))
    first = draw(st.sampled_from([0, 0, 1, 3]))
    node = st.integers(0, most)
    more = draw(st.lists(st.tuples(node, node), max_size=3))
    return list(dict.fromkeys([*((a + first, b + first) for a, b in made), *more]))
