"""What nobody reads is asked once, comparisons cut what is looked up: work grows as facts do."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import caladan
from caladan.columns.index import Index
from caladan.columns.layout import Keys, Words
from caladan.join.constraints.lookup import AtomLookup
from caladan.join.frontier import Bindings

Tables = Mapping[str, Mapping[str, Any]]


def hub(n: int) -> Tables:
    """A star there and back, and a rim: 3n facts, more than n² pairs of neighbouring ones."""
    spokes, zero = np.arange(1, n + 1), np.zeros(n, np.int64)
    a, b = np.concatenate([zero, spokes, spokes]), np.concatenate([spokes, zero, spokes % n + 1])
    return {"e": {"a": a, "b": b}, "s": {"a": np.arange(n)}, "k": {"a": np.arange(5)}}


def points(n: int) -> Tables:
    x = np.random.default_rng(2).integers(0, 4 * n, (2, n))
    return {
        name: {"a": np.arange(n), "k": np.arange(n) % 2, "x": each, "d": each / 4}
        for name, each in zip("pq", x, strict=True)
    }


def texts(n: int) -> Tables:
    names = [f"v{i:06}" for i in range(n)]
    return {"p": {"a": names}, "q": {"a": names}}


BODIES: Mapping[str, tuple[str, Callable[[int], Tables]]] = {
    "a chain": ("t(A) <- e(A, B), e(B, C), e(C, D), e(D, F).", hub),
    "both ends of a chain": ("t(A, D) <- e(A, B), e(B, C), e(C, D), A < 3, D < 3.", hub),
    "two cycles": ("t(A) <- e(A, B), e(B, A), e(A, C), e(C, D), e(D, A).", hub),
    "products": ("t(X) <- s(X), s(Y), s(Z).", hub),
    "the least of a product": ("t(min<Z>) <- s(X), s(Y), s(Z).", hub),
    "a product behind": ("t(X, Y) <- k(X), e(X, Y), e(Z, W), e(W, Z).", hub),
    "something else": ("t(X) <- e(X, A), e(X, B), A ~= B.", hub),
    "no shortcut": ("t(A) <- e(A, B), e(B, C), ~e(A, C).", hub),
    "something larger": ("t(X) <- s(X), s(Y), Y > X.", hub),
    "a selection far away": ("t(A, C) <- e(A, B), e(B, C), A < C, C < 5.", hub),
    "neighbours over a hub": ("t(A, C) <- e(A, B), e(B, C), A < C, C < A + 3, A > 0.", hub),
    "a difference": ("t(A, C) <- e(A, B), e(B, C), C - A > 0, 3 > C - A, A > 0.", hub),
    "corners of a cycle": ("t(X, Z) <- e(X, Y), e(Y, Z), e(Z, W), e(W, X), X < Z, Y < W.", hub),
    "a band in a cycle": (
        "t(X, Z, W) <- e(X, Y), e(Y, Z), e(Z, W), e(W, X), Z < W, W < Z + 3, X < 5.",
        hub,
    ),
    "a product": ("t(X, Y) <- s(X), s(Y), X * Y = 120.", hub),
    "a product of neighbours": ("t(X, Z) <- e(X, Y), e(Y, Z), 120 = Z * X.", hub),
    "a product with nothing": ("t(X, Y) <- k(X), s(Y), s(Z), X * Y = Z, Z < 20.", hub),
    "a sum": ("t(X, Y) <- s(X), s(Y), s(Z), X + Y = Z, Z < 10.", hub),
    "a band": ("t(A, B) <- p(A, _, X, _), q(B, _, Y, _), X <= Y, Y <= X + 2.", points),
    "a band of doubles": (
        "t(A, B) <- p(A, _, _, X), q(B, _, _, Y), Y >= X - 0.3, Y <= X + 0.3.",
        points,
    ),
    "a band of each kind": ("t(A, B) <- p(A, K, X, _), q(B, K, Y, _), X <= Y, Y < X + 3.", points),
    "texts": ("t(A) <- p(A), q(B), A < B.", texts),
}


@pytest.mark.parametrize(("rules", "data"), BODIES.values(), ids=BODIES)
def test_work_grows_as_facts_do(
    rules: str, data: Callable[[int], Tables], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = [0]
    extended = AtomLookup._extended  # pyright: ignore[reportPrivateUsage]

    def counted(
        self: AtomLookup, frontier: Bindings, rows: Words, hits: Keys, index: Index, keep: Any
    ) -> Bindings:
        looked[0] += len(hits)
        return extended(self, frontier, rows, hits, index, keep)

    monkeypatch.setattr(AtomLookup, "_extended", counted)
    for n in (400, 1600):
        looked[0] = 0
        db = caladan.connect("embedded")
        for name, columns in data(n).items():
            db.add(name, columns)
        out = db.run(rules)
        assert out["t"].count()
        looked[0] += sum(s.proposed for r in out.stats.cliques[0].rules for s in r.search)
        assert looked[0] < 60 * n, n
    few = data(12)
    answers: list[set[Any]] = []
    for engine in ("embedded", "reference"):
        db = caladan.connect(engine)
        for name, columns in few.items():
            db.add(name, columns)
        answers.append(set(db.run(rules)["t"].rows()))
    assert answers[0] == answers[1]


def test_columns_of_one_atom_are_no_corners() -> None:
    """Rows that count must be told apart by labels, but a label cuts nothing: it waits."""
    db = caladan.connect("embedded")
    said = db.explain(
        "database({e(A: integer, B: integer, L: integer)}). "
        "d(A, D, count<(B, C)>) <- e(A, B, _), e(B, D, _), e(A, C, _), e(C, D, _), B < C. "
        "query d(A, D, N).",
        stage="plan",
    )
    assert ", or meet in C" in said
    assert "meet in _" not in said
