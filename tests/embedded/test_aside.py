"""Columns set aside: groups go through the joins, and their members are crossed with the finds."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

import caladan as cal
from caladan.join import late_materialization
from caladan.join.frontier import Bindings
from caladan.program import thresholds

WORDS = st.integers(0, 5)


def frontier(rows: list[tuple[int, ...]], names: str) -> Bindings:
    columns = {name: np.array([row[i] for row in rows], np.uint32) for i, name in enumerate(names)}
    return Bindings(len(rows), columns)


def rows(frontier: Bindings, names: str) -> list[tuple[int, ...]]:
    return list(zip(*(frontier.columns[name].tolist() for name in names), strict=True))


@given(
    solutions=st.lists(st.tuples(WORDS, WORDS, WORDS)),
    found=st.lists(st.tuples(WORDS, WORDS, WORDS)),
    room=st.integers(1, 9),
)
def test_crossing_gives_what_joining_row_by_row_gives(
    solutions: list[tuple[int, int, int]], found: list[tuple[int, int, int]], room: int
) -> None:
    """`e` is set aside, groups are (r, c), and a join finds y for some of them."""
    groups = late_materialization.group(frontier(solutions, "erc"), "rc", "#")
    assert sorted(rows(groups.frontier, "rc")) == sorted({(r, c) for _, r, c in solutions})
    joined = [
        (mark, y)
        for r, c, mark in rows(groups.frontier, "rc#")
        for r2, c2, y in found
        if (r, c) == (r2, c2)
    ]
    with thresholds.override(crossing=room):
        parts = list(groups.crossed(frontier(joined, "#y")))
    assert all(part.rows <= room for part in parts)
    assert Counter(row for part in parts for row in rows(part, "ey")) == Counter(
        (e, y) for e, r, c in solutions for r2, c2, y in found if (r, c) == (r2, c2)
    )


def test_a_group_goes_through_the_joins_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """5,000 owners share three keys; what is found for a key is found for each of its owners."""
    grouped: list[tuple[int, int]] = []
    group = late_materialization.group

    def seen(given: Bindings, live: list[str], mark: str) -> late_materialization.LateGroups:
        made = group(given, live, mark)
        grouped.append((given.rows, made.frontier.rows))
        return made

    monkeypatch.setattr(late_materialization, "group", seen)
    opens = [(key, door) for key in range(6) for door in range(key * 10, key * 10 + 9)]
    db = cal.connect("embedded")
    db.add("given", [(owner, owner % 3) for owner in range(5000)])
    db.add("opens", opens)
    db.add("hides", [(door, door % 6) for door in range(40)])
    with thresholds.override(shape=1 << 62):  # in rounds
        out = db.run(
            """
            database({given(Owner: integer, Key: integer), opens(Key: integer, Door: integer),
                      hides(Door: integer, Key: integer)}).
            has(O, K) <- given(O, K).
            has(O, K) <- has(O, J), opens(J, D), hides(D, K), opens(K, _).
            """
        )
    assert (5000, 3) in grouped
    reached = {key: {key} for key in range(3)}
    for keys in reached.values():
        while more := {d % 6 for k, d in opens if k in keys and d < 40} - keys:
            keys |= more
    assert set(out["has"]) == {(o, k) for o in range(5000) for k in reached[o % 3]}


def test_a_chain_does_not_go_through_all_ways() -> None:
    """Nobody reads what lies between the ends: solutions that are the same go on once."""
    body = ", ".join(f"e(X{i}, X{i + 1})" for i in range(20))
    db = cal.connect("embedded")
    db.add("e", [(a, b) for a in range(3) for b in range(3)])
    out = db.run(f"ends(X0, X20) <- {body}.")
    assert sorted(out["ends"].rows()) == [(a, b) for a in range(3) for b in range(3)]
    (rule,) = out.stats.cliques[0].rules
    assert rule.facts is not None
    assert rule.facts < 100_000  # of 3 ** 21 ways
