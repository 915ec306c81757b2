"""Cyclic bodies of wide atoms over a hub, and small bodies: CPU seconds, warm, the best of three.

    python -m bench.wide_cycles [N,N,…] [CASE,CASE,…]

A hub is a star there and back with a rim, 3n facts; pairs of neighbouring facts are n². To see
another build beside, run it with that build's `src` on PYTHONPATH.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import caladan

Tables = Mapping[str, Mapping[str, Any]]


def main() -> None:
    """Print a line for each case and size."""
    sizes = [int(n) for n in sys.argv[1].split(",")] if len(sys.argv) > 1 else [8000, 32000, 128000]
    names = sys.argv[2].split(",") if len(sys.argv) > 2 else list(CASES)
    print(f"{'case':<12} {'n':>8} {'answers':>9} {'seconds':>8}", flush=True)
    for name in names:
        rules, data = CASES[name]
        for n in sizes:
            answers, seconds = _best(rules, data(n))
            print(f"{name:<12} {n:>8,} {answers:>9,} {seconds:>8.3f}", flush=True)


def _best(rules: str, tables: Tables) -> tuple[int, float]:
    db = caladan.connect("embedded")
    for name, columns in tables.items():
        db.add(name, columns)
    times: list[float] = []
    answers = 0
    for _ in range(4):  # the first one warms up
        started = time.process_time()
        answers = db.run(rules)["t"].count()
        times.append(time.process_time() - started)
    return answers, min(times[1:])


def _hub(n: int) -> tuple[np.ndarray, np.ndarray]:
    spokes, zero = np.arange(1, n + 1), np.zeros(n, np.int64)
    return np.concatenate([zero, spokes, spokes]), np.concatenate([spokes, zero, spokes % n + 1])


def _edges(n: int) -> Tables:
    a, b = _hub(n)
    return {"e": {"a": a, "b": b}}


def _pairs(n: int) -> Tables:
    a, b = _hub(n)
    return {"e": {"a": a, "p": a % 7, "b": b, "q": b % 7}}


def _labels(n: int) -> Tables:
    a, b = _hub(n)
    return {"e": {"a": a, "b": b, "l": (a + b) % 5}}


def _chained(n: int) -> Tables:
    steps = np.arange(1, n)
    return {**_edges(n), "next": {"a": steps, "b": steps + 1}}


def _galen(n: int) -> Tables:
    """A hub X with n facts, which few rules want; and n X with one fact, which n rules want."""
    w, one = np.arange(2, n + 2), np.ones(n, np.int64)
    e = {"a": np.concatenate([0 * w, w]), "b": np.concatenate([w, one])}
    y = np.concatenate([w % n + 2, w])
    c = {"y": y, "w": np.concatenate([w, one]), "z": np.concatenate([0 * w, w])}
    return {"e": e, "c": c}


def _small(n: int) -> Tables:
    del n
    random = np.random.default_rng(3)
    return {"e": {"a": random.integers(0, 3000, 10_000), "b": random.integers(0, 3000, 10_000)}}


CASES: Final[Mapping[str, tuple[str, Callable[[int], Tables]]]] = {
    "two columns": ("t(X, Y, Z) <- e(X, Y), e(Y, Z), e(Z, X).", _edges),
    "pair keys": ("t(X, Y, Z) <- e(X, P, Y, Q), e(Y, Q, Z, R), e(Z, R, X, P).", _pairs),
    "labels": ("t(X, Y, Z) <- e(X, Y, _), e(Y, Z, _), e(Z, X, _).", _labels),
    "weights": ("t(X, Y, Z, A, B, C) <- e(X, Y, A), e(Y, Z, B), e(Z, X, C).", _labels),
    "least": ("t(X, min<W>) <- e(X, Y, A), e(Y, Z, B), e(Z, X, C), W = A + B + C.", _labels),
    "equation": ("t(X, Z) <- e(X, Y), e(Y, Z), e(W, X), W = Z + 1.", _edges),
    "half": ("t(X, Z) <- e(X, Y), e(Y, Z), e(W, X), 2 * W = Z + 1.", _edges),
    "recursion": ("t(X, Y) <- e(X, Y). t(X, Z) <- c(Y, W, Z), t(X, W), t(X, Y).", _galen),
    "groups": (
        """t(X, Y, mmin<L>) <- e(X, Y, L).
        t(X, Y, mmin<N>) <- t(X, Y, A), t(Y, Z, _), t(Z, X, _), N = A - 1, N > 0.""",
        _labels,
    ),
    "tiny rounds": (
        "t(1, 1). t(Y, 1) <- t(X, _), next(X, Y). t(X, Z) <- t(X, _), e(X, Y), e(Y, Z), e(Z, X).",
        _chained,
    ),
    "tiny, wide": (
        """r(X, Y, L) <- e(X, Y, L), X < 2. t(X, Y) <- r(X, Y, _).
        r(X, Y, L) <- r(V, _, _), X = V + 1, e(X, Y, L).
        r(X, X, 9) <- r(X, Y, _), r(Y, Z, _), r(Z, X, _).""",
        _labels,
    ),
    "tiny, pairs": (
        """r(X, P, Y, Q) <- e(X, P, Y, Q), X < 2. t(X, Y) <- r(X, _, Y, _).
        r(X, P, Y, Q) <- r(V, _, _, _), X = V + 1, e(X, P, Y, Q).
        r(X, P, X, P) <- r(X, P, Y, Q), r(Y, Q, Z, R), r(Z, R, X, P).""",
        _pairs,
    ),
    "chain": ("t(A) <- e(A, B), e(B, C), e(C, D), e(D, F).", _edges),
    "product": ("t(min<C>) <- e(A, B), e(C, D), e(F, G), B ~= F.", _edges),
    "band": ("t(A, C) <- e(A, B), e(B, C), A < C, C < A + 3, A > 0.", _edges),
    "far": ("t(A, C) <- e(A, B), e(B, C), A < C, C < 5.", _edges),
    "ten atoms": (
        """t(A) <- e(A, B), e(B, C), e(C, D), e(D, A), e(A, C),
        e(C, F), e(F, G), e(G, H), e(H, C), e(F, H).""",
        _edges,
    ),
    "only ends": ("t(X, Z) <- e(X, Y), e(Y, Z), e(Z, W), e(W, X), X < 3, Z < 3.", _edges),
    "corners": ("t(X, Z) <- e(X, Y), e(Y, Z), e(Z, W), e(W, X), X < Z, Y < W.", _edges),
    "factors": ("t(X, Z) <- e(X, Y), e(Y, Z), X * Z = 120.", _edges),
    "4 atoms": ("t(A, E) <- e(A, B), e(B, C), e(C, D), e(D, E), A < 10.", _small),
}

if __name__ == "__main__":
    main()
