"""Numbers of tuples: in order of first appearance, however many bits their words come to need."""

import numpy as np
from hypothesis import given, strategies as st

from caladan.columns.interner import ABSENT, Tuples

WORDS = st.one_of(st.integers(0, 3), st.integers(0, 1 << 17), st.integers(0, (1 << 32) - 2))


@st.composite
def batches(draw: st.DrawFn) -> tuple[int, list[list[tuple[int, ...]]]]:
    arity = draw(st.integers(0, 6))
    row = st.tuples(*([WORDS] * arity))
    return arity, draw(st.lists(st.lists(row, max_size=12), max_size=4))


@given(batches())
def test_the_same_tuple_has_the_same_number(drawn: tuple[int, list[list[tuple[int, ...]]]]) -> None:
    arity, given_rows = drawn
    tuples = Tuples(arity)
    known: dict[tuple[int, ...], int] = {}
    for rows in given_rows:
        columns = [np.array([row[i] for row in rows], np.uint32) for i in range(arity)]
        found = tuples.find(columns, len(rows)).tolist()
        assert found == [known.get(row, ABSENT) for row in rows]
        before = len(known)
        for row in rows:
            known.setdefault(row, len(known))
        ids, fresh = tuples.ids(columns, len(rows))
        assert ids.tolist() == [known[row] for row in rows]
        assert [rows[i] for i in fresh.tolist()] == list(known)[before:]
    assert len(tuples) == len(known)
    columns = [column.tolist() for column in tuples.columns()]
    assert columns == [[row[i] for row in known] for i in range(arity)]
