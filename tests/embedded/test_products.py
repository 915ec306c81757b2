"""Last lookups as products of bit rows derive what one solution at a time does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

import caladan as cal
from caladan.fixpoint import heads
from caladan.program import thresholds

NODES = 70
"""More than 64: rows of bits have whole words."""

PROGRAMS = {
    "a join": "p(X, Z) <- e(X, Y), f(Y, Z). query p(X, Z).",
    "a join whose first column is found": "p(Z, X) <- e(X, Y), f(Y, Z). query p(X, Z).",
    "brackets": """
        d(X, X) <- e(X, _).
        d(X, Z) <- d(X, Y), d(Y, Z).
        d(X, W) <- e(X, Y), d(Y, Z), f(Z, W).
        query d(X, Y).""",
    "a test of the head": """
        d(X, Y) <- e(X, Y).
        d(X, Z) <- d(X, Y), d(Y, Z), X ~= Z.
        d(X, W) <- e(X, Y), d(Y, Z), f(Z, W), X + 3 < 2 * W.
        query d(X, Y).""",
    "negation": """
        d(X, Y) <- e(X, Y).
        d(X, Z) <- d(X, Y), d(Y, Z), ~f(X, Z).
        d(X, W) <- f(X, Y), d(Y, Z), e(Z, W), ~f(W, X).
        query d(X, Y).""",
    "a test of what the head lacks": "p(X, Z) <- e(X, Y), f(Y, Z), Y < Z. query p(X, Z).",
    "a carried column": """
        d(K, X, Y) <- e(X, Y), k(K).
        d(K, X, Z) <- d(K, X, Y), d(K, Y, Z), X < Z + K.
        query d(K, X, Z).""",
    "a constant in the head": "p(X, 69) <- e(X, Y), f(Y, Z). query p(X, Z).",
    "a variable twice": "p(Z, Z) <- e(X, Y), f(Y, Z). query p(X, Z).",
    "two columns found": "p(X, Y, Z) <- k(K), e(X, Y), f(Y, Z), K < X. query p(X, Y, Z).",
}

edges = st.lists(
    st.tuples(st.integers(0, NODES - 1), st.integers(0, NODES - 1)), min_size=1, max_size=120
)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Whether products were taken, call by call."""
    found: list[bool] = []
    multiply = heads.multiply

    def watched(*args: object) -> bool:
        found.append(multiply(*args))  # type: ignore[arg-type]
        return found[-1]

    monkeypatch.setattr(heads, "multiply", watched)
    yield found


def answers(
    program: str, e: list[tuple[int, int]], f: list[tuple[int, int]], engine: str
) -> set[Any]:
    with cal.connect(engine) as db:
        # One fact with the last node, so that columns are as wide as can be.
        db.add("e", [*e, (NODES - 1, NODES - 1)])
        db.add("f", [*f, (0, NODES - 1)])
        db.add("k", [(1,), (30,)])
        rows = db.run(program).answer.rows()
        assert len(set(rows)) == len(rows)
        return set(rows)


@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=12, deadline=None)
@given(
    e=edges, f=edges, room=st.sampled_from([3, 100, 1 << 18]), held=st.sampled_from([8, 1 << 27])
)
def test_products_give_what_solutions_do(
    name: str, e: list[tuple[int, int]], f: list[tuple[int, int]], room: int, held: int
) -> None:
    program = PROGRAMS[name]
    never = thresholds.override(product_pair=1e12, small=1, shape=1 << 40)
    always = thresholds.override(
        product_pair=0.0, product_word=0.0, product_rows=0, product_bytes=held,
        room=room, small=1, shape=1 << 40,
    )  # fmt: skip
    with never:
        one_by_one = answers(program, e, f, "embedded")
    with always:
        assert answers(program, e, f, "embedded") == one_by_one


@pytest.mark.parametrize("name", ["a join", "brackets", "a test of the head", "negation"])
def test_products_are_taken_where_facts_are_dense(name: str, taken: list[bool]) -> None:
    dense = [(x, y) for x in range(NODES) for y in range(NODES) if (x * y) % 3 == 0]
    with thresholds.override(product_pair=0.5, product_rows=8, small=1, shape=1 << 40):
        found = answers(PROGRAMS[name], dense, dense, "embedded")
    assert any(taken)
    if name == "a join":
        assert found == answers(PROGRAMS[name], dense, dense, "reference")


def test_few_facts_are_taken_one_by_one(taken: list[bool]) -> None:
    ring = [(x, (x + 1) % NODES) for x in range(NODES)]
    answers(PROGRAMS["a join"], ring, ring, "embedded")
    assert taken
    assert not any(taken)


@settings(max_examples=15, deadline=None)
@given(e=edges, f=edges, first=st.sampled_from([0, 1, 4]))
def test_groups_may_be_crossed_before_the_last_lookup(
    e: list[tuple[int, int]], f: list[tuple[int, int]], first: int
) -> None:
    program = "p(A, F, H) <- e(A, X), f(X, F), e(F, Y), f(Y, H). query p(A, F, H)."
    grouping = {"grouping": 1, "grouping_pays": 0, "repeats": 1}
    with thresholds.override(cross_first=1 << 40, **grouping):
        behind = answers(program, e, f, "embedded")
    with thresholds.override(cross_first=first, product_pair=0.0, product_word=0.0, **grouping):
        assert answers(program, e, f, "embedded") == behind


def test_tests_that_are_put_off_in_some_batches_are_made_in_them() -> None:
    """A square that is too large for one Y is no reason to let the others through."""
    huge = 1 << 40
    e = [*((x, y) for x in range(NODES) for y in range(6)), (3, huge)]
    f = [(y, z) for y in range(6) for z in range(y, 200)]
    program = "p(X, Z) <- e(X, Y), f(Y, Z), Y * Y > 5. query p(X, Z)."
    found: list[set[Any]] = []
    for pair in (1e12, 0.0):
        with (
            cal.connect("embedded") as db,
            thresholds.override(product_pair=pair, product_word=0.0, product_rows=0, room=7),
        ):
            db.add("e", e)
            db.add("f", f)
            found.append(set(db.run(program).answer.rows()))
    assert found[0] == found[1] == {(x, z) for x in range(NODES) for z in range(3, 200)}
