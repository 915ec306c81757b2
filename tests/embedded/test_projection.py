"""Columns of large tables that no rule reads: the same answers, and facts that are shorter."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import caladan
from caladan.program import thresholds

Rows = dict[str, list[tuple[Any, ...]]]

drawn = random.Random(4)
SALES: Rows = {
    "sale": [
        (i, drawn.randrange(9), drawn.randrange(6), f"note {i % 5}", drawn.randrange(4), i / 4)
        for i in range(200)
    ],
    "item": [(i, f"kind {i % 3}", 10 * i) for i in range(6)],
}
PROGRAMS = {
    "pairs": "s(C, P) <- sale(_, C, P, _, _, _). query s(C, P).",
    "named, read by nobody": "s(C, P) <- sale(I, C, P, N, Q, X). query s(C, P).",
    "summed, told apart by a name": "s(C, sum<Q>, count<_>) <- sale(I, C, P, _, Q, _). "
    "query s(C, S, N).",
    "summed, rows alike": "s(C, sum<Q>, count<_>) <- sale(_, C, _, _, Q, _). query s(C, S, N).",
    "counted in one rule only": "s(C) <- sale(_, C, _, _, _, _). n(P, count<_>) <- "
    "sale(_, _, P, _, _, _), s(P). query n(P, N).",
    "the best": "s(C, max<Q>) <- sale(_, C, _, _, Q, _). query s(C, Q).",
    "distinct": "s(P, countd<C>) <- sale(_, C, P, _, _, _). query s(P, N).",
    "repeated": "s(C) <- sale(_, C, C, _, _, _). query s(C).",
    "a constant": "s(C) <- sale(_, C, _, 'note 3', _, _). query s(C).",
    "compared": "s(C) <- sale(_, C, _, _, _, X), X > 20.5. query s(C).",
    "negated": "s(P) <- item(P, _, _), ~sale(_, P, _, _, 3, _). query s(P).",
    "nothing": "s() <- sale(_, _, _, _, _, _), item(3, _, _). query s().",
    "joined": "s(K, sum<Q * V>) <- sale(I, _, P, _, Q, _), item(P, K, V). query s(K, N).",
    "recursive": "s(C) <- sale(7, C, _, _, _, _). s(P) <- s(C), sale(_, C, P, _, _, _). "
    "query s(C).",
    "a witness": "s(C, msum<(I, Q)>) <- sale(I, C, _, _, Q, _). query s(C, N).",
}


def session(engine: str) -> Any:
    db = caladan.connect(engine)
    for name, rows in SALES.items():
        db.add(name, rows)
    return db


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_the_reference(name: str) -> None:
    text = PROGRAMS[name]
    with thresholds.override(projection=1):
        found = sorted(session("embedded").run(text).answer.rows())
    assert found == sorted(session("reference").run(text).answer.rows())


def test_one_after_another() -> None:
    """A session whose programs read other columns each time, forwards and backwards."""
    expected = {n: sorted(session("reference").run(t).answer.rows()) for n, t in PROGRAMS.items()}
    with thresholds.override(projection=1):
        db = session("embedded")
        for name in (*PROGRAMS, *reversed(PROGRAMS)):
            assert sorted(db.run(PROGRAMS[name]).answer.rows()) == expected[name]
        assert db.run("query sale(7, C, P, N, Q, X).").answer.rows() == [SALES["sale"][7]]


def test_facts_are_shorter() -> None:
    """Six columns take more than 64 bits; the two that are read do not."""
    size = 70_000
    columns = {f"C{i}": pa.array([(i + 1) * j % 65_521 for j in range(size)]) for i in range(6)}
    db = caladan.connect("embedded")
    db.add("wide", pa.table(columns))
    out = db.run("s(A, B) <- wide(A, B, _, _, _, _). query s(A, B).")
    assert {each.relation: each.layout for each in out.stats.held}["wide"] == "packed keys"
