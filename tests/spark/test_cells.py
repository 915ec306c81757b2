"""Cells of a clique: together they derive what the whole does, whatever is cut, however uneven."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.spark.test_parts import Given, compiled, derived, exchanged, last_clique

from caladan.engines.spark.choice import Shares, choices, product, why_not_cubed
from caladan.engines.spark.tasks import cells
from caladan.engines.spark.tasks.cells import ByCell, in_cell, sampled_columns
from caladan.engines.spark.tasks.exchange import looked_at, samples
from caladan.rules.program import DeltaProgram

BODIES = {
    "triangles": "t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A). query t(A, B, C).",
    "ordered": "t(A, B, C) <- arc(A, B), arc(B, C), arc(A, C), A < B, B ~= C. query t(A, B, C).",
    "4-cycles": """t(A, B, C, D) <- arc(A, B), arc(B, C), arc(C, D), arc(D, A), A <= C.
        query t(A, B, C, D).""",
    "of a constant": "t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A), arc(1, A). query t(A, B, C).",
    "with negation": """t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A), ~arc(B, A).
        query t(A, B, C).""",
    "of texts": """x(S, B) <- arc(A, B), S = if(A < 3 then 'low' else 'high').
        t(A, B, C) <- x(A, B), arc(B, C), x(A, C). query t(A, B, C).""",
}  # fmt: skip

ARCS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=30)
HUB = st.sampled_from([(0, n) for n in range(9)] + [(n, 0) for n in range(9)])


def cells_of(
    program: DeltaProgram, facts: dict[str, Any], cut: tuple[Shares, ...]
) -> list[tuple[DeltaProgram, dict[str, Any]]]:
    """The program and the facts of each cell, sent there as tasks send them."""
    given = [(name, Given(table)) for name, table in facts.items()]
    steps = dict.fromkeys(facts, 1)
    found = samples(looked_at(sampled_columns(program, cut), steps, given), steps)
    by_cell = ByCell.of(program, cut, found)
    shared = exchanged(by_cell, facts)
    return [in_cell(program, shared[cell], cell, by_cell) for cell in range(by_cell.parts)]


@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=10)
@given(arcs=ARCS, spokes=st.lists(HUB, max_size=18), data=st.data())
def test_cells_make_the_whole(
    name: str, arcs: list[tuple[int, int]], spokes: list[tuple[int, int]], data: st.DataObject
) -> None:
    program, facts = last_clique(compiled(BODIES[name]), set(arcs + spokes))
    assert why_not_cubed(program.cliques[0]) is None
    shares = {v: data.draw(st.integers(1, 3), label=v) for v in "ABC"}
    whole = derived(program, facts)["t"]
    found = [derived(*cell)["t"] for cell in cells_of(program, facts, (shares,))]
    assert len(found) == product(list(shares), shares)
    # All that is cut is in the head: every solution is in one cell, and no other.
    assert sorted(itertools.chain(*found)) == sorted(whole)


def test_a_heavy_value_is_dealt_out(monkeypatch: pytest.MonkeyPatch) -> None:
    spokes = [(0, n) for n in range(1, 400)]
    back = [(n, (n * 7) % 400) for n in range(1, 400)]
    program, facts = last_clique(compiled(BODIES["triangles"]), spokes + back)
    cut = ({"A": 4, "B": 1, "C": 1},)
    stores = [store for _, store in cells_of(program, facts, cut)]
    assert max(store["arc#0"].num_rows for store in stores) < 0.4 * len(spokes + back)
    monkeypatch.setattr(cells, "_UNEVEN", 4.0)
    stores = [store for _, store in cells_of(program, facts, cut)]
    assert max(store["arc#0"].num_rows for store in stores) > 0.5 * len(spokes + back)


def test_a_second_rule_and_facts_are_in_no_cell_twice() -> None:
    text = """t(7, 7, 7). t(A, B, C) <- arc(A, B), arc(B, C), arc(C, A). t(A, A, B) <- arc(A, B).
        query t(A, B, C)."""
    arcs = [(i % 5, i * i % 7) for i in range(30)]
    program, facts = last_clique(compiled(text), set(arcs))
    cut = ({"A": 2, "B": 2, "C": 1}, {})
    found = [derived(*cell)["t"] for cell in cells_of(program, facts, cut)]
    assert sum(rows.count((7, 7, 7)) for rows in found) == 1
    assert set(itertools.chain(*found)) == set(derived(program, facts)["t"])


def test_atoms_that_want_the_same_facts_share_them() -> None:
    program, facts = last_clique(compiled(BODIES["ordered"]), [(i, i + 1) for i in range(9)])
    own, store = cells_of(program, facts, ({"A": 2, "B": 1, "C": 1},))[0]
    assert sorted(store) == ["arc", "arc#0"]
    assert sorted(own.relations) == ["arc", "arc#0", "t"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("p(A, B) <- arc(A, B). p(A, C) <- p(A, B), arc(B, C), arc(C, A). query p(A, B).",
         "its recursion"),
        ("p(A, C) <- arc(A, B), arc(B, C). query p(A, B).", "no rule has a cyclic body"),
        ("p(A, avg<C>) <- arc(A, B), arc(B, C), arc(C, A). query p(A, B).", "says nothing of all"),
        ("p(A, countd<C>) <- arc(A, B), arc(B, C), arc(C, A). query p(A, B).", "says nothing of"),
        ("p(A, C) <- arc(A, B), arc(B, C), arc(C, A), limit(3). query p(A, B).", "sorts or limits"),
    ],
)  # fmt: skip
def test_what_cells_cannot_solve_says_why(text: str, reason: str) -> None:
    (clique,) = compiled(text).cliques
    assert reason in (why_not_cubed(clique) or "")
    assert "cubed" not in {choice.strategy for choice in choices(clique, 3_000_000)}


@pytest.mark.parametrize(
    ("facts", "order"),
    [(2_000_000, "single frame"), (2_000_001, "cubed frame"),
     (50_000_000, "cubed frame"), (50_000_001, "frame"), (None, "cubed frame")],
)  # fmt: skip
def test_when_cells_are_taken(facts: int | None, order: str) -> None:
    (clique,) = compiled(BODIES["triangles"]).cliques
    assert " ".join(choice.strategy for choice in choices(clique, facts)) == order


def test_only_uneven_slices_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("even slices")

    monkeypatch.setattr(np, "unique", never)
    program, facts = last_clique(compiled(BODIES["triangles"]), [(i, i + 1) for i in range(5000)])
    cells_of(program, facts, ({"A": 2, "B": 2, "C": 2},))
    monkeypatch.setattr(cells, "_UNEVEN", 0.0)
    with pytest.raises(AssertionError, match="even slices"):
        cells_of(program, facts, ({"A": 2, "B": 2, "C": 2},))
