"""Recursive programs as people write them, over graphs of every kind.

Random rules seldom meet for long: most of what `random_programs` makes is done after a round or
two. These go on: closures (linear from both ends, non-linear, with conditions), generations,
mutual recursion, points-to and value-flow analyses, entity resolution, distances, reachability.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from tests.strategies.random_graphs import graphs
from tests.strategies.random_programs import Facts

DECLARED = "database({{e(A: {0}, B: {0}), f(A: {0}, B: {0})}}).\n"

NODES: dict[str, tuple[str, Callable[[int], Any]]] = {
    "close": ("integer", int),
    "below zero": ("integer", lambda n: -n),
    "apart": ("integer", lambda n: n * 100_003),
    "far apart": ("long", lambda n: n << 40),
    "text": ("string", lambda n: f"n{n}"),
}
"""How nodes are called: by small numbers, by others, by text where nothing is computed."""

RULES = {
    "linear": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), f(Y, Z).",
    "from behind": "p(X, Y) <- e(X, Y). p(X, Z) <- f(X, Y), p(Y, Z).",
    "from both ends": """p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), e(Y, Z).
        p(X, Z) <- e(X, Y), p(Y, Z).""",
    "non-linear": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z).",
    "non-linear beside": "p(X, Y) <- e(X, Y). p(X, Y) <- f(X, Y). p(X, Z) <- p(X, Y), p(Y, Z).",
    "three times": "p(X, Y) <- e(X, Y). p(X, W) <- p(X, Y), p(Y, Z), p(Z, W).",
    "without loops": "p(X, Y) <- e(X, Y), X ~= Y. p(X, Z) <- p(X, Y), p(Y, Z), X ~= Z.",
    "both ways": "p(X, Y) <- e(X, Y). p(X, Y) <- p(Y, X). p(X, Z) <- p(X, Y), p(Y, Z).",
    "same key": "p(A, B) <- e(A, K), e(B, K), A ~= B. p(A, C) <- p(A, B), p(B, C), A ~= C.",
    "generations": "p(X, Y) <- e(A, X), e(A, Y), X ~= Y. p(X, Y) <- e(A, X), p(A, B), e(B, Y).",
    "generations of two": "p(X, Y) <- f(X, Y). p(X, Y) <- e(A, X), p(A, B), f(B, Y).",
    "mutual": "p(X, Y) <- e(X, Y). q(X, Z) <- p(X, Y), f(Y, Z). p(X, Z) <- q(X, Y), e(Y, Z).",
    "mutual non-linear": """p(X, Y) <- e(X, Y). q(X, Z) <- p(X, Y), p(Y, Z).
        p(X, Z) <- q(X, Y), q(Z, Y).""",
    "triangles": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z), f(X, Z).",
    "squares": "p(X, Y) <- e(X, Y). p(X, W) <- p(X, Y), p(Z, Y), p(Z, W).",
    "points to": """p(Y, X) <- e(Y, X). p(Y, X) <- f(Y, Z), p(Z, X).
        p(Y, W) <- f(Y, X), p(X, Z), p(Z, W). p(Z, W) <- p(Y, Z), f(Y, X), p(X, W).""",
    "value flow": """p(Y, X) <- e(Y, X). p(X, X) <- e(X, _). p(X, X) <- e(_, X).
        p(X, Y) <- p(X, Z), p(Z, Y). q(X, W) <- f(Y, X), r(Y, Z), f(Z, W).
        p(X, Y) <- e(X, Z), q(Z, Y). r(X, Y) <- p(Z, X), p(Z, Y).
        r(X, Y) <- p(Z, X), q(Z, W), p(W, Y). q(X, X) <- e(X, _).""",
    "wide": "p(X, Y, X) <- e(X, Y). p(X, Z, Y) <- p(X, Y, _), f(Y, Z).",
    "wide non-linear": """p(X, Y, 0) <- e(X, Y).
        p(X, Z, M) <- p(X, Y, N), p(Y, Z, _), M = (N + 1) mod 3.""",
    "a choice": """p(X, Y) <- e(X, Y).
        p(X, Z) <- p(X, Y), if(X < Y then p(Y, Z), f(X, Z) else p(Z, Y), f(Z, X)).""",
    "a choice behind": """p(X, Y) <- e(X, Y).
        p(Y, Z) <- p(X, Y), p(X, Z), e(Y, X), if(Y <= Z then f(Z, Y) else ~f(Y, Z), e(X, Z)).""",
    "steps": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), Z = (X + Y) mod 50.",
    "counting": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), Z = Y + 1, Z < 40.",
    "counting far": """p(X, Y) <- e(X, Y).
        p(X, Z) <- p(X, Y), Z = Y * 3 + 1, Z < 9999999, Z > -9999999.""",
    "counting down": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), f(Y, W), Z = Y - 7, Z > -90.",
    "both counting": "p(X, Y) <- e(X, Y). p(Y, Z) <- p(X, Y), Z = (X * 5 + Y) mod 11.",
    "reached": "p(X) <- e(X, X). p(X) <- f(0, X). p(Y) <- p(X), e(X, Y).",
    "two reached": "p(X) <- e(0, X). q(Y) <- p(X), f(X, Y). p(Y) <- q(X), e(X, Y).",
    "pairs reached": "p(X) <- e(X, _). p(Z) <- p(X), p(Y), f(X, Y), e(Y, Z).",
    "distances": "p(X, mmin<D>) <- e(0, X), D = 1. p(Y, mmin<D>) <- p(X, C), e(X, Y), D = C + 1.",
    "all distances": """p(X, Y, mmin<D>) <- e(X, Y), D = 1.
        p(X, Z, mmin<D>) <- p(X, Y, B), p(Y, Z, C), D = B + C.""",
    "labels": """p(X, mmin<X>) <- e(X, _). p(Y, mmin<L>) <- p(X, L), e(X, Y).
        p(X, mmin<L>) <- p(Y, L), e(X, Y).""",
    "widest": "p(X, mmax<X>) <- e(X, _). p(Y, mmax<L>) <- p(X, L), f(X, Y).",
    "generations apart": """p(X, Y) <- e(A, X), e(A, Y), X ~= Y.
        p(X, Y) <- e(A, X), p(A, B), f(B, Y), X ~= Y.""",
    "generations of many": """p(X, Y) <- e(A, X), e(A, Y).
        p(X, Y) <- e(A, X), p(A, B), e(B, Y). p(X, Y) <- f(A, X), p(A, B), f(B, Y).""",
    "generations above": """p(X, Y) <- e(A, X), e(A, Y), X < Y.
        p(X, Y) <- e(A, X), p(A, B), e(B, Y), A ~= Y.""",
    "many rules": """p(X, Y) <- e(X, Y). p(X, Y) <- f(Y, X). p(X, Z) <- p(X, Y), e(Y, Z).
        p(X, Z) <- f(X, Y), p(Y, Z), X ~= Z. p(X, Y) <- p(Y, X), f(X, Y).""",
    "either": "p(X, Y) <- e(X, Y) ; f(X, Y). p(X, Z) <- p(X, Y), (e(Y, Z) ; f(Z, Y), X < Z).",
    "either itself": "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), (p(Y, Z), ~f(Y, Z) ; f(Y, Z)).",
    "constants": """p(X, Y) <- e(X, Y). p(X, 3) <- p(X, Y), f(Y, 1). p(2, Y) <- p(1, Y).
        p(X, X) <- p(X, 3).""",
    "diagonal": """p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), f(Y, Z), ~e(Z, Z).
        p(X, X) <- p(X, Y), f(Y, X).""",
    "compared": """p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), X < Z, Y >= X.
        p(Y, X) <- p(X, Y), X = Y.""",
    "negated below": """q(X, Y) <- e(X, Y). q(X, Z) <- q(X, Y), e(Y, Z).
        p(X, Y) <- f(X, Y), ~q(X, Y). p(X, Z) <- p(X, Y), f(Y, Z), ~q(Z, X).""",
    "negated twice": """q(X) <- e(X, _). q(X) <- q(Y), f(Y, X). r(X) <- f(_, X), ~q(X).
        p(X, Y) <- e(X, Y), ~r(Y). p(X, Z) <- p(X, Y), p(Y, Z), ~r(Z), ~f(X, Z).""",
    "wide atoms": """q(X, Y, Z) <- e(X, Y), f(Y, Z). p(X, Y, Z) <- q(X, Y, Z).
        p(X, Z, W) <- p(X, Y, Z), q(Y, Z, W), e(X, W).""",
    "wide pairs": """q(X, Y, Z) <- e(X, Y), f(X, Z). p(X, Y) <- e(X, Y).
        p(Y, Z) <- p(X, W), q(X, Y, Z), q(W, Z, Y).""",
    "nearest": """p(X, D, P) <- e(0, X), D = 1, P = X.
        q(X, mmin<D, P>) <- e(0, X), D = 1, P = X. q(Y, mmin<C + 1, X>) <- q(X, C, _), e(X, Y).
        p(X, D, P) <- q(X, D, P), f(X, _).""",
    "nearest paths": """q(X, mmin<D, T>) <- e(0, X), D = 1, T = 'n'.
        q(Y, mmin<C + 1, concat(T, '.')>) <- q(X, C, T), e(X, Y).
        p(X, D) <- q(X, D, T), length(T) > 0.""",
    "counted below": """q(X, count<Y>) <- e(X, Y). p(X, N) <- q(X, N).
        p(Y, N) <- p(X, N), f(X, Y), q(Y, M), M <= N.""",
    "sums of a closure": """q(X, Y) <- e(X, Y). q(X, Z) <- q(X, Y), q(Y, Z).
        p(X, sum<Y>) <- q(X, Y), ~f(X, Y).""",
    "no way in": "p(X, Y) <- p(Y, X), e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z).",
    "party": """p(X) <- e(X, X). p(X) <- e(0, X). q(Y, mcount<X>) <- p(X), f(Y, X).
        p(Y) <- q(Y, N), N >= 2.""",
}  # fmt: skip

ABOVE = {
    "nothing": "",
    "counted": " n(X, count<Y>) <- p(X, Y). query n(X, N).",
    "absent": " a(X, Y) <- f(X, Y), ~p(X, Y). query a(X, Y).",
    "joined": " j(X, Z) <- p(X, Y), p(Z, Y), f(X, Z). query j(X, Z).",
    "in all": " n(count<_>) <- p(X, Y). query n(N).",
    "widest of it": " n(Y, max<X>, min<X>, countd<X>) <- p(X, Y). query n(Y, A, B, C).",
    "itself absent": " a(X, Y) <- p(X, Y), ~p(Y, X). query a(X, Y).",
    "above again": " c(X, Y) <- p(X, Y). c(X, Z) <- c(X, Y), p(Y, Z), ~f(X, Z). query c(X, Y).",
    "a triangle": " t(X, Y, Z) <- p(X, Y), p(Y, Z), f(X, Z), X ~= Z. query t(X, Y, Z).",
    "few of them": " s(X, Y) <- p(X, Y), sort((Y, desc), X), limit(3). query s(X, Y).",
}
"""What reads a relation of two columns once it is finished."""


@dataclass(frozen=True)
class Recursion:
    """A program and its facts; shown as text where a test fails."""

    text: str
    facts: Facts

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        facts = "\n".join(f"% {name}: {rows}" for name, rows in self.facts.items())
        printer.text(f"\n{self.text}\n{facts}\n")


@st.composite
def recursions(draw: st.DrawFn, most: int = 12, least: int = 1) -> Recursion:
    """A program over graphs of so many nodes."""
    name = draw(st.sampled_from(sorted(RULES)))
    rules = RULES[name]
    start = re.search(r"\bp\(", rules)
    assert start is not None
    head = rules[start.start() : rules.index(")", start.start()) + 1]
    arity = head.count(",") + 1
    arguments = ", ".join("XYZ"[:arity])
    above = draw(st.sampled_from(sorted(ABOVE))) if arity == 2 and "<D>" not in rules else "nothing"
    numeric = any(each in rules for each in ("0", "+", "count", "N", "1", "3", "sum"))
    kind, named = NODES[draw(st.sampled_from([n for n in NODES if not numeric or n != "text"]))]
    one = f"'{named(1)}'" if kind == "string" else str(named(1))
    ways = [arguments, arguments.replace("X", one), arguments.replace("XYZ"[arity - 1], one)]
    goals = draw(st.lists(st.sampled_from(ways), min_size=1, max_size=2, unique=True))
    asked = " ".join(f"query p({goal})." for goal in goals)
    text = f"{DECLARED.format(kind)}{rules} {asked}{ABOVE[above]}\n"
    drawn = {name: draw(graphs(most, least)) for name in "ef"}
    return Recursion(text, {n: [(named(a), named(b)) for a, b in g] for n, g in drawn.items()})
