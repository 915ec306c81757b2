"""Atoms that no column ties to the rest, matched by equations and overlaps: the same answers."""

from __future__ import annotations

import datetime as dt
import random
import re
from typing import Any

import pyarrow as pa
import pytest

import caladan
from caladan.join.constraints.lookup import AtomLookup
from caladan.program import thresholds

Rows = dict[str, list[tuple[Any, ...]]]


def numbers(seed: int, rows: int, *most: int) -> list[tuple[int, ...]]:
    drawn = random.Random(seed)
    return sorted({tuple(drawn.randrange(-2, m) for m in most) for _ in range(rows)})


DAY = dt.date(2024, 2, 20)
SMALL: Rows = {
    "p": numbers(1, 60, 12, 9),
    "q": numbers(2, 60, 10, 11),
    "n": [(i,) for i in range(-3, 27)],
    "x": [(i, 0.5 * i - 3) for i in range(25)],
    "y": [(0.25 * i, i % 7) for i in range(40)],
    "s": [(i, f"{'aAbB'[i % 4]}{i % 5}") for i in range(30)],
    "t": [(f"{'ab'[i % 2]}{'x' * (i % 3)}", i) for i in range(30)],
    "iv": [(i, (7 * i) % 40, (7 * i) % 40 + (1, 3, 25)[i % 3]) for i in range(45)],
    "z": [(i, i * 0.75 - 9, i * 0.75 - 9 + (0.25, 4.5, -1.0)[i % 3]) for i in range(30)],
    "stay": [(i, DAY + dt.timedelta(3 * i), DAY + dt.timedelta(3 * i + i % 9)) for i in range(30)],
}
PAIRED = {
    "two sums": "u(X, Y, Z, W) <- p(X, Y), q(Z, W), X + Y = Z + W. query u(X, Y, Z, W).",
    "sums, sides mixed": "u(X, Z) <- p(X, Y), q(Z, W), X + Z - 1 = W - Y. query u(X, Z).",
    "two products": "u(X, Y, Z, W) <- p(X, Y), q(Z, W), X * Y = Z * W. query u(X, Y, Z, W).",
    "squares": "u(X, Y) <- n(X), n(Y), X * X + Y * Y = 25. query u(X, Y).",
    "three squares": "u(X, Y, Z) <- n(X), n(Y), n(Z), X * X + Y * Y = Z * Z. query u(X, Y, Z).",
    "a remainder": "u(X, Z) <- p(X, _), q(Z, _), X mod 3 = Z mod 3. query u(X, Z).",
    "a bucket": "u(H, X, Z) <- p(X, _), q(Z, _), H = X div 3, H = Z div 3. query u(H, X, Z).",
    "a bucket, counted": "u(H, count<_>) <- p(X, _), q(Z, _), H = X div 3, H = Z div 3. "
    "query u(H, N).",
    "two sums, counted": "u(count<_>) <- p(X, Y), q(Z, W), X + Y = Z + W. query u(N).",
    "nobody reads it": "u(X, Y) <- p(X, Y), q(Z, W), X + Y = Z + W. query u(X, Y).",
    "a constant of the atom": "u(X, Y, W) <- p(X, Y), q(3, W), X + Y = W * W. query u(X, Y, W).",
    "doubles": "u(A, B, X, Y) <- x(A, X), y(Y, B), Y = X * 2.0. query u(A, B, X, Y).",
    "whole numbers and doubles": "u(X, Y, B) <- n(X), y(Y, B), X = Y. query u(X, Y, B).",
    "whole numbers in a sum": "u(X, Y, A) <- p(X, Y), x(A, D), X + Y = D + 0.5. query u(X, Y, A).",
    "texts": "u(A, B) <- s(A, S), t(T, B), lower(substring(S, 1, 1)) = substring(T, 1, 1). "
    "query u(A, B).",
    "lengths": "u(A, B) <- s(A, S), t(T, B), length(S) = length(T). query u(A, B).",
    "a text and a number": "u(A, X) <- t(T, A), p(X, Y), length(T) = X + Y. query u(A, X).",
    "overlaps": "o(A, B) <- iv(A, S, E), iv(B, T, F), A < B, S <= F, T <= E. query o(A, B).",
    "overlaps, open": "o(A, B) <- iv(A, S, E), iv(B, T, F), S < F, T < E - 1. query o(A, B).",
    "within": "o(A, B) <- iv(A, S, E), iv(B, T, F), S <= T, F <= E. query o(A, B).",
    "overlaps, counted": "o(A, count<B>) <- iv(A, S, E), iv(B, T, F), S <= F, T <= E. "
    "query o(A, N).",
    "some overlap": "o(A) <- iv(A, S, E), iv(B, T, F), A ~= B, S <= F, T <= E. query o(A).",
    "days": "o(A, B) <- stay(A, S, E), stay(B, T, F), A < B, S <= F, T <= E. query o(A, B).",
    "doubles that overlap": "o(A, B) <- z(A, S, E), z(B, T, F), A < B, S <= F, T < E. "
    "query o(A, B).",
    "recursive": "r(X, Y) <- p(X, Y), X = Y. r(Z, W) <- r(X, Y), q(Z, W), X * Y = Z * W. "
    "query r(X, Y).",
}
FAR = 1 << 62
NEAR_MISSES = {
    "too far": ("u(X, Z) <- p(X, Y), q(Z, W), X + Y = Z + W. query u(X, Z).",
                {"p": [(FAR, FAR - 1), (FAR, FAR), (1, 2)], "q": [(FAR - 1, FAR), (3, 0)]}),
    "too far when moved": ("u(X, Z) <- p(X, Y), q(Z, W), X - Z = Y - W. query u(X, Z).",
                           {"p": [(FAR, FAR), (-FAR, 0)], "q": [(-FAR, -FAR), (FAR - 1, -1)]}),
    "a zero": ("u(X, Z) <- p(X, Y), q(Z, W), X = Z div W + W. query u(X, Z).",
               {"p": [(1, 2), (3, 4)], "q": [(4, 0), (4, 2)]}),
    "a zero that nothing reaches": (
        "u(X, Z) <- p(X, Y), q(Z, W), X * X = Z div W, W > 0. query u(X, Z).",
        {"p": [(1, 2), (3, 4)], "q": [(4, 0), (9, 1)]}),
    "nothing": ("u(X, Z) <- p(X, Y), q(Z, W), X + Y = Z + W. query u(X, Z).",
                {"p": [(1, 2), (3, 4)], "q": []}),
    "far intervals": ("o(A, B) <- p(A, S), q(B, T), A <= T, B <= S. query o(A, B).",
                      {"p": [(-FAR * 2, FAR * 2 - 1), (1, 2)], "q": [(-FAR, FAR), (2, 1)]}),
}  # fmt: skip


def outcome(engine: str, text: str, data: Rows) -> list[tuple[Any, ...]] | str:
    db = caladan.connect(engine)
    head = text.split("(", maxsplit=1)[0]
    for name in ({*re.findall(r"(\w+)\(", text)} & data.keys()) - {head}:
        db.add(name, data[name] or {"X": pa.array([], pa.int64()), "Y": pa.array([], pa.int64())})
    try:
        return sorted(db.run(text).answer.rows())
    except caladan.CaladanError as problem:
        return str(problem).split("error[")[1][:4]


@pytest.mark.parametrize("narrowing", [0, 16, 1 << 40])
@pytest.mark.parametrize("name", PAIRED)
def test_as_the_reference(name: str, narrowing: int) -> None:
    text = PAIRED[name]
    with thresholds.override(narrowing=narrowing, key_bits=64 if narrowing else 0):
        found = outcome("embedded", text, SMALL)
    assert found == outcome("reference", text, SMALL)
    assert len(found) > 0


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses(name: str) -> None:
    text, data = NEAR_MISSES[name]
    with thresholds.override(narrowing=0):
        assert outcome("embedded", text, data) == outcome("reference", text, data)


@pytest.mark.parametrize("name", ["two sums, counted", "overlaps", "a bucket, counted"])
def test_pairs_are_not_gone_through(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 million pairs those are looked at that may match, however long one interval is."""
    size = 20_000
    drawn = random.Random(1)
    begins = [drawn.randrange(1 << 20) for _ in range(size)]
    data: Rows = {
        "p": [(i, 3 * i) for i in range(size)],
        "q": [(2 * i, i) for i in range(size)],
        "iv": [(i, s, s + (1 << 20 if i == 7 else 20)) for i, s in enumerate(begins)],
    }
    looked = 0
    spread, crossed = AtomLookup.spread, AtomLookup.crossed

    def spread_counted(self: AtomLookup, *arguments: Any) -> Any:
        nonlocal looked
        looked += arguments[1].total
        return spread(self, *arguments)

    def crossed_counted(self: AtomLookup, *arguments: Any) -> Any:
        nonlocal looked
        looked += arguments[0].rows * len(arguments[2])
        return crossed(self, *arguments)

    monkeypatch.setattr(AtomLookup, "spread", spread_counted)
    monkeypatch.setattr(AtomLookup, "crossed", crossed_counted)
    assert outcome("embedded", PAIRED[name].replace("div 3", "div 1"), data)
    assert looked < 20 * size


def test_explain_says_so() -> None:
    db = caladan.connect("embedded")
    for name in ("p", "q", "iv"):
        db.add(name, SMALL[name])
    assert "look up p(X, Y) (X, Y by an equation with W, Z)" in db.explain(PAIRED["two sums"])
    assert "(T to B across A, E or T to F across E, S)" in db.explain(PAIRED["overlaps"])
