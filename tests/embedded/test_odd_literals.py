"""Rules with literals that shapes have little to do with: the same facts as the reference finds.

Literals without variables, wildcards, variables that stand twice and are read by nobody, values
that are columns too, rules that apply to some sources beside one that joins a relation with itself.
"""

from __future__ import annotations

import warnings
from random import Random

import pytest

import caladan
from caladan.program import thresholds

DATA = """database({e(A: integer, B: integer), f(A: integer, B: integer), ok(A: integer),
none(A: integer), l(A: integer, K: integer, B: integer), w(A: integer, B: integer, C: integer),
v(A: integer, B: integer, C: integer, D: integer)}).
"""
TC = "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), e(Y, Z).\n"
W = "d(X, Y, mmin<D>) <- w(X, Y, D). "
LABELS = "m(X, mmin<X>) <- ok(X). "
PAIRS = "m(X, Y, mmin<X>) <- e(X, Y). "

CASES = {
    "joined, absent": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z), X < Z, ~none(_). "
    "query p(X, Y).",
    "joined, not absent": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z), X < Z, ~ok(_). "
    "query p(X, Y).",
    "joined, one side": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z), X < Z, ~v(Z, Z, Z, _). "
    "p(X, Z) <- f(X, Y), p(Y, Z). query p(X, Y).",
    "joined by steps, some sources": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), f(Y, V), p(V, Z). "
    "p(X, Z) <- p(X, Y), f(Y, Z), X > 2. query p(X, Y).",
    "twice, arriving": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), v(X, Z, V, V). "
    "query p(X, Y).",
    "twice, leaving": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), v(X, Y, V, V). "
    "query p(X, Y).",
    "wildcards, arriving": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), ~v(X, Z, _, _). "
    "query p(X, Y).",
    "wildcards on top": TC + "c(X, Y) <- p(X, Y), ~v(X, Y, _, _). query c(X, Y).",
    "twice on top": TC + "c(X, Y) <- p(X, Y), v(X, Y, V, V), ~none(_). query c(X, Y).",
    "carried by two": "p(X, K, Y) <- l(X, K, Y). p(X, K, Z) <- p(X, K, Y), ok(Y), l(X, K, Z). "
    "query p(X, K, Y).",
    "labels of computed nodes": LABELS + "m(Y, mmin<Z>) <- m(X, Z), e(X, Y). "
    "m(Y, mmin<Z>) <- m(X, Z), Y = X + 1, Y < 9. query m(X, Y).",
    "labels of pairs": PAIRS + "m(Y, X, mmin<Z>) <- m(X, Y, Z). query m(X, Y, Z).",
    "labels of pairs, twice": PAIRS + "m(Y, Y, mmin<Z>) <- m(X, Y, Z), f(X, _). query m(X, Y, Z).",
    "labels, what stays": W + "d(X, Z, mmin<D>) <- d(X, Y, D), f(Y, Z), X ~= 2. query d(X, Y, D).",
    "a value that is carried": "d(X, Y, mmin<D>) <- e(X, Y), D = X. "
    "d(Y, Z, mmin<D>) <- d(Y, X, Y), e(X, Z), D = Y + 1. query d(X, Y, D).",
    "sums joined, some sources": W + "d(X, Z, mmin<D>) <- d(X, Y, E), d(Y, Z, F), D = E + F. "
    "d(X, Z, mmin<D>) <- d(X, Y, E), f(Y, Z), D = E + 1, X > 2. query d(X, Y, D).",
    "sums joined, some values": W + "d(X, Z, mmin<D>) <- d(X, Y, E), d(Y, Z, F), D = E + F. "
    "d(X, Z, mmin<D>) <- d(X, Y, E), f(Y, Z), D = E + 1, E < 2. query d(X, Y, D).",
    "a prefix of what is new": "p(X, Y, N) <- f(X, Y), N = 0. "
    "p(X, Z, M) <- p(X, Y, N), f(Y, Z), M = N + 1, N < 4, v(Q, X, Z, 0). query p(X, Y, N).",
}
WAYS = {
    "layouts": {"shape": 0, "folded": 0, "listed": 0},
    "asked": {"shape": 0, "folded": 0, "listed": 0, "shape_join": 0},
    "numbered": {"shape": 0, "shape_spread": 0, "shape_kinds": 1},
    "rounds": {},
}


def _facts(seed: int) -> dict[str, object]:
    chance = Random(seed)
    widths = {"e": (2, 8), "f": (2, 8), "ok": (1, 3), "l": (3, 20), "w": (3, 16), "v": (4, 60)}
    return {
        **{
            name: sorted({tuple(chance.choices(range(6), k=k)) for _ in range(rows)})
            for name, (k, rows) in widths.items()
        },
        "none": {"A": []},
    }


def _answers(engine: str, program: str, seed: int) -> list[list[tuple[object, ...]]]:
    with warnings.catch_warnings(), caladan.connect(engine) as db:
        warnings.simplefilter("ignore")
        for name, rows in _facts(seed).items():
            db.add(name, rows)
        return [sorted(answer.rows()) for answer in db.run(DATA + program).answers]


@pytest.mark.parametrize("program", CASES.values(), ids=CASES)
def test_odd_literals(program: str) -> None:
    for seed in range(6):
        expected = _answers("reference", program, seed)
        for name, chosen in WAYS.items():
            with thresholds.override(**chosen):
                assert _answers("embedded", program, seed) == expected, (name, seed)
