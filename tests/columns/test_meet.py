"""Lists that meet: the kernels find what all lists of a row have, wherever they have to stop."""

import numpy as np
from hypothesis import given, strategies as st

from caladan.columns.kernels import meet

BITS = 5

lists = st.lists(st.sets(st.integers(0, 2**BITS - 1), max_size=20), min_size=1, max_size=4)


@given(st.integers(2, meet.MOST_LISTS).flatmap(lambda k: st.lists(lists, min_size=k, max_size=k)),
       st.integers(1, 9), st.integers(1, 30))  # fmt: skip
def test_lists_meet(sides: list[list[set[int]]], size: int, budget: int) -> None:
    rows = min(map(len, sides))
    runs, starts, counts = [], [], []
    for side in sides:
        keys = [(row << BITS) | word for row in range(rows) for word in sorted(side[row])]
        lengths = np.array([len(side[row]) for row in range(rows)], np.int64)
        runs.append(np.array(keys, np.uint64))
        counts.append(lengths)
        starts.append(np.cumsum(lengths) - lengths)
    mask = 2**BITS - 1
    state = np.array([0, -1, *[0] * (2 + len(runs))], np.int64)
    found: list[tuple[int, int]] = []
    proposed = 0
    while state[0] < rows:
        out, words = np.empty(size, np.uint32), np.empty(size, np.uint32)
        if len(runs) == 2:
            (one, other), (a, b), (c, d) = runs, starts, counts
            meet.meet_two(one, a, c, other, b, d, mask, mask, budget, state, out, words)
        else:
            masks = np.full(len(runs), mask, np.uint64)
            meet.meet(
                tuple(runs), np.stack(starts), np.stack(counts), masks, budget, state, out, words
            )
        found += zip(out[: state[2]].tolist(), words[: state[2]].tolist(), strict=True)
        proposed += int(state[3])
    wanted = [
        (row, word)
        for row in range(rows)
        for word in sorted(set[int].intersection(*(side[row] for side in sides)))
    ]
    assert found == wanted
    assert proposed == state[4:].sum()
    assert proposed <= sum(min(len(side[row]) for side in sides) for row in range(rows))
