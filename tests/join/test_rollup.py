"""Aggregates over joins, part by part: the same answers, and solutions that are never listed."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest

import caladan
from caladan.program import thresholds

Rows = dict[str, list[tuple[Any, ...]]]
Answer = list[tuple[Any, ...]]


def solved(engine: str, text: str, data: Rows, **options: Any) -> tuple[Answer, str]:
    """The answer in order, doubles to nine digits, and what the run says of itself."""
    db = caladan.connect(engine)
    for name, rows in data.items():
        db.add(name, rows)
    out = db.run(text, **options)
    rows = (tuple(round(v, 9) if isinstance(v, float) else v for v in r) for r in out.answer.rows())
    return sorted(rows), str(out.stats)


def numbers(seed: int, rows: int, *most: int) -> list[tuple[int, ...]]:
    drawn = random.Random(seed)
    return sorted({tuple(drawn.randrange(m) for m in most) for _ in range(rows)})


SMALL: Rows = {
    "e": numbers(1, 40, 6, 5),
    "f": numbers(2, 40, 5, 7, 9),
    "g": numbers(3, 30, 7, 4),
    "n": sorted({(f"text {i % 9}", i % 5) for i in range(45)}),
    "x": [(i % 5, 0.75 * i - 9) for i in range(40)],
}
ROLLED = {
    "count": "c(A, count<(B, C)>) <- e(A, B), f(B, C, _). query c(A, N).",
    "a path, counted": "c(count<_>) <- e(A, B), f(B, C, _), g(C, D). query c(N).",
    "a star": "c(B, count<_>, sum<W>) <- e(A, B), f(B, C, W), e(D, B). query c(B, N, S).",
    "sums and means": "s(A, sum<W>, avg<W>, count<_>) <- e(A, B), f(B, _, W). query s(A, S, M, N).",
    "best": "m(A, max<W>, min<C>) <- e(A, B), f(B, C, W). query m(A, X, Y).",
    "the best of a sum": "m(A, min<A + W>, max<W - A>) <- e(A, B), f(B, C, W). query m(A, X, Y).",
    "a product": "s(A, sum<A * W + B - C>) <- e(A, B), f(B, C, W). query s(A, S).",
    "a computed amount": "s(A, sum<D>) <- e(A, B), f(B, C, W), D = A * W. query s(A, S).",
    "a comparison within": "c(A, count<_>) <- e(A, B), f(B, C, W), C < W. query c(A, N).",
    "a comparison across": "c(A, count<_>) <- e(A, B), f(B, C, W), A < W. query c(A, N).",
    "a difference across": "c(A, sum<C>) <- e(A, B), f(B, C, W), W - A <= 3, A < W. query c(A, N).",
    "negation within": "c(A, count<_>) <- e(A, B), f(B, C, W), ~g(C, _). query c(A, N).",
    "negation across": "c(A, count<_>) <- e(A, B), f(B, C, W), ~e(A, C). query c(A, N).",
    "constants": "c(A, count<_>) <- e(A, B), f(B, C, 3), g(C, 1). query c(A, N).",
    "unread columns": "c(A, count<_>) <- e(A, B), f(B, _, _). query c(A, N).",
    "texts": "c(T, count<_>, max<C>) <- n(T, B), f(B, C, _). query c(T, N, C).",
    "the best double": "c(A, max<X>, min<X + A>) <- e(A, B), x(B, X). query c(A, X, Y).",
    "a cycle within": "c(A, count<_>) <- e(A, B), f(B, C, W), g(C, D), e(D, B). query c(A, N).",
    "products of parts": "c(A, count<_>) <- e(A, _), g(C, D). query c(A, N).",
    "the last before": "c(B, C, max<A>) <- f(B, C, _), e(A, B), A <= C. query c(B, C, A).",
    "an equation": "c(A, sum<W>) <- e(A, B), f(C, D, W), C = B + 1. query c(A, S).",
}
LISTED = {
    "the best text": "c(A, min<T>) <- e(A, B), n(T, B). query c(A, T).",
    "doubles added up": "s(A, sum<X>) <- e(A, B), x(B, X). query s(A, S).",
    "groups everywhere": "c(A, C, W, count<_>) <- e(A, B), f(B, C, W). query c(A, C, W, N).",
    "distinct values": "c(A, countd<W>) <- e(A, B), f(B, C, W). query c(A, N).",
}


@pytest.mark.parametrize("name", [*ROLLED, *LISTED])
def test_near_misses(name: str) -> None:
    text = {**ROLLED, **LISTED}[name]
    found, said = solved("embedded", text, SMALL)
    assert found == solved("reference", text, SMALL)[0]
    assert ("roll up" in said) == (name in ROLLED)


@pytest.mark.parametrize("seed", range(12))
def test_random_bodies(seed: int) -> None:
    drawn = random.Random(seed)
    for _ in range(8):
        text, data = _program(drawn)
        with thresholds.override(worth_sampling=drawn.choice((0, 1000))):
            assert _outcome("embedded", text, data) == _outcome("reference", text, data), text


def _outcome(engine: str, text: str, data: Rows) -> Answer | str:
    try:
        return solved(engine, text, data)[0]
    except caladan.CaladanError as problem:
        return str(problem).split("error[")[1][:4]


def _program(drawn: random.Random) -> tuple[str, Rows]:
    """Aggregates over some atoms, with comparisons, negation and arithmetic."""
    names = "ABCDE"
    atoms: list[str] = []
    data: Rows = {}
    for i in range(drawn.randint(1, 4)):
        width = drawn.randint(1, 3)
        data[f"r{i}"] = numbers(drawn.randrange(10**6), drawn.randint(3, 9), *[4] * width)
        terms = [drawn.choice((*names, *names, "_", "2")) for _ in range(width)]
        atoms.append(f"r{i}({', '.join(terms)})")
    known = sorted({letter for atom in atoms for letter in atom if letter in names}) or ["A"]
    if known == ["A"]:
        atoms.append(
            "r0(A)" if len(data["r0"][0]) == 1 else f"r0(A{', _' * (len(data['r0'][0]) - 1)})"
        )
    one, two, three = (drawn.choice(known) for _ in range(3))
    tests = (f"{one} < {two} + 1", f"{one} ~= {two}", f"{one} - {two} <= 1", f"{one} >= {two}")
    body = [*atoms, *drawn.sample(tests, drawn.choice((0, 0, 1, 2)))]
    if drawn.random() < 0.3:
        body.append(f"~r0({', '.join([one] + ['_'] * (len(data['r0'][0]) - 1))})")
    amounts = (one, f"{one} * {two}", f"{one} - {two}", f"({one} - {two}) * {three}", f"-{one}",
               f"12 div ({one} - 3)", f"if({one} < {two} then {one} else {three})")  # fmt: skip
    group = drawn.sample(known, drawn.randint(0, min(2, len(known))))
    asked = [
        "count<_>" if f == "count" else f"{f}<{drawn.choice(amounts)}>"
        for f in drawn.choices(("count", "sum", "min", "max", "avg"), k=drawn.randint(1, 3))
    ]
    columns = ", ".join(f"V{i}" for i in range(len(group) + len(asked)))
    head = ", ".join([*group, *asked])
    return f"out({head}) <- {', '.join(body)}. query out({columns}).", data


def test_what_cannot_be_listed() -> None:
    """900 million solutions, and 27 · 10^12, are counted and added up within seconds."""
    size = 30_000
    data: Rows = {"e": [(a, 0) for a in range(size)], "f": [(0, w) for w in range(size)]}
    text = "s(A, count<_>, sum<W>, max<A + W>) <- e(A, B), f(B, W). query s(A, N, S, M)."
    found, said = solved("embedded", text, data, timeout=60)
    assert "scan e(A, B); roll up count, sum of W, max of W by B (look up f(B, W)" in said
    assert found[7] == (7, size, size * (size - 1) // 2, 7 + size - 1)
    (found, _) = solved(
        "embedded", "s(count<_>) <- e(A, B), e(C, B), f(B, W). query s(N).", data, timeout=60
    )
    assert found == [(size**3,)]


def test_numbers_beyond_64_bits() -> None:
    many: Rows = {"e": [(0, b) for b in range(20_000)]}
    text = "c(count<_>) <- e(A, B), e(A, C), e(A, D), e(A, E), e(A, F). query c(N)."
    with pytest.raises(caladan.CaladanError, match=r"C041.*rule 1, which derives `c`"):
        solved("embedded", text, many, timeout=60)
    # Sums of a part leave 64 bits, and those of the whole come back.
    most = 2**62
    cancelling: Rows = {"e": [(1, 1), (1, 2)], "f": [(1, most, 1), (1, most, 2), (2, -most, 1)]}
    cancelling["f"].append((2, -most, 2))
    text = "s(A, sum<W>) <- e(A, B), f(B, W, _). query s(A, S)."
    assert solved("embedded", text, cancelling)[0] == [(1, 0)]
    # A product that no part has is too large, for one solution.
    large: Rows = {"e": [(1, 1, 2**40)], "f": [(1, 2**40), (1, -(2**40))]}
    text = "s(A, sum<V * W>) <- e(A, B, V), f(B, W). query s(A, S)."
    for engine in ("embedded", "reference"):
        with pytest.raises(caladan.CaladanError, match="C041"):
            solved(engine, text, large)


def test_what_fails_for_parts_alone() -> None:
    """Nothing is divided by 0 in a solution: A = 2, which has W = 0, has no C."""
    data: Rows = {"e": [(1, 1), (2, 2)], "f": [(1, 5), (2, 0)], "g": [(1, 7), (1, 8)]}
    text = "s(A, sum<10 div W>) <- e(A, B), f(B, W), g(A, C). query s(A, S)."
    assert solved("embedded", text, data)[0] == [(1, 4)]
    data["g"].append((2, 9))
    with pytest.raises(caladan.CaladanError, match="divi"):
        solved("embedded", text, data)


DAYS = [dt.date(2024, 1, 1) + dt.timedelta(days=i * i % 40) for i in range(20)]
WINDOWS = {
    "the next": "w(U, T, min<S>) <- ev(U, T, _), ev(U, S, _), S > T. query w(U, T, S).",
    "the last": "w(U, T, max<S>) <- ev(U, T, _), ev(U, S, _), T >= S. query w(U, T, S).",
    "how many": "w(U, T, count<_>) <- ev(U, T, _), ev(U, S, _), S > T, S - T <= 9. "
    "query w(U, T, N).",
    "a sum": "w(U, T, sum<K>, count<_>) <- ev(U, T, _), ev(U, S, K), S < T + 9, S >= T - 9. "
    "query w(U, T, K, N).",
    "whoever it is": "w(T, count<_>, min<S>) <- ev(_, T, _), ev(_, S, _), S > T. query w(T, N, S).",
    "doubles": "w(U, T, min<S>, max<S>) <- d(U, T), d(U, S), S > T. query w(U, T, S, R).",
    "dates": "w(U, T, min<S>) <- day(U, T), day(U, S), T < S. query w(U, T, S).",
    "another column": "w(U, T, max<K>) <- ev(U, T, _), ev(U, S, K), S > T. query w(U, T, K).",
    "texts": "w(U, T, count<_>) <- t(U, T), t(U, S), S > T. query w(U, T, N).",
}


@pytest.mark.parametrize("name", list(WINDOWS))
def test_windows(name: str) -> None:
    drawn = random.Random(5)
    data: Rows = {
        "ev": numbers(4, 150, 4, 60, 5),
        "d": [(drawn.randrange(3), drawn.choice((0.0, 0.5, -1.5, 7.25, 1e9))) for _ in range(30)],
        "day": [(i % 3, day) for i, day in enumerate(DAYS)],
        "t": [(i % 2, f"text {i * 7 % 11}") for i in range(20)],
    }
    assert solved("embedded", WINDOWS[name], data)[0] == solved("reference", WINDOWS[name], data)[0]


def test_windows_are_read_off_a_run() -> None:
    """Each of 100,000 events has 50,000 later ones on the average; the first is next."""
    data: Rows = {"ev": [(0, t) for t in range(0, 300_000, 3)]}
    text = "w(T, min<S>, count<_>) <- ev(U, T), ev(U, S), S > T. query w(T, S, N)."
    found, _ = solved("embedded", text, data, timeout=60)
    assert len(found) == 99_999
    assert found[0] == (0, 3, 99_999)
