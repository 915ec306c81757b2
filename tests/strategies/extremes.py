"""Programs over the ends of 64-bit integers and of doubles, whose ways into the engine are many.

Every value that code might take for "none", "unlimited" or "past the end" is one of them, and so
are values that lie far apart: next to each other at one end, or one at either end. The programs are
those that engines have shortcuts for: closures, labels, distances, windows, equations, lookups by
constants and by ranges, repeated variables, aggregates.
"""

import math
from typing import Any

from hypothesis import strategies as st
from tests.strategies.recursions import Recursion

LEAST, MOST = -(2**63), 2**63 - 1

POOLS: dict[str, list[list[Any]]] = {
    "long": [
        [MOST, MOST - 1, MOST - 2, MOST - 5],
        [LEAST, LEAST + 1, LEAST + 2, LEAST + 5],
        [LEAST, MOST, 0, LEAST + 1, MOST - 1],
        [LEAST, 3, 7, 0, -1],
        [MOST, 2**31, 2**32 - 1, 2**31 - 1, 0],
        [MOST - 2**31, MOST, MOST - 2**31 - 1, LEAST + 2**31, LEAST],
        [2**53 + 1, 2**53, -(2**53) - 1, -(2**53), 2**32],
    ],
    "double": [
        [math.nan, 1.0, -1.0, 0.0],
        [math.inf, -math.inf, math.nan, 0.0],
        [0.0, -0.0, 5e-324, -5e-324],
        [1.7976931348623157e308, -1.7976931348623157e308, math.inf, -math.inf],
        [2.0**53, 2.0**53 + 2, math.nan, -math.inf],
    ],
}
"""Values that meet: next to each other at an end, at both, or at an end and in the middle."""

DECLARED = "database({{e(A: {0}, B: {0}), v(A: {0}, B: {0}), n(A: {0})}}).\n"

CLOSURE = "r(X, Y) <- e(X, Y). r(X, Z) <- r(X, Y), e(Y, Z).\n"

RULES = {
    "closure": "q(X, Y) <- r(X, Y).",
    "loops": "q(X) <- r(X, X).",
    "a loop somewhere": "q(A) <- n(A), r(I, I).",
    "a loop somewhere, in recursion": "q(A) <- n(A). q(D) <- q(A), v(A, D), r(I, I).",
    "a loop in a table": "q(A) <- n(A). q(D) <- q(A), v(A, D), e(I, I).",
    "no loop at a node": "q(A) <- n(A), ~r(A, A).",
    "pairs that agree": "q(X, Y) <- r(X, Y), n(I), X = I.",
    "both are the same": "q(X, Y) <- e(X, Y), X = Y, n(Y).",
    "looked up by an equation": "q(X, Y) <- v(X, Y), n(M), X = M.",
    "looked up by a value": "q(X, Y) <- v(X, Y), X = {0}.",
    "a value in an atom": "q(Y) <- v({0}, Y).",
    "a value in recursion": "q(Y) <- r({0}, Y).",
    "a value at the end": "q(X) <- r(X, {0}).",
    "below": "q(X, Y) <- n(X), v(Y, _), Y < X.",
    "up to": "q(X, Y) <- n(X), v(Y, _), Y <= X.",
    "above": "q(X, Y) <- n(X), v(Y, _), Y > X.",
    "between": "q(X, Y) <- e(A, B), v(X, Y), A <= X, X < B.",
    "between in a group": "q(A, B, C) <- e(A, B), e(A, C), B < C.",
    "overlaps": "q(A, B, C, D) <- e(A, B), v(C, D), A <= D, C <= B.",
    "next": "q(X, min<Y>) <- n(X), v(Y, _), Y > X.",
    "last": "q(X, max<Y>) <- n(X), v(Y, _), Y < X.",
    "next in a group": "q(A, B, min<C>) <- v(A, B), v(A, C), C > B.",
    "last in a group": "q(A, B, max<C>, count<_>) <- v(A, B), v(A, C), C < B.",
    "least of a closure": "q(X, min<Y>) <- r(X, Y).",
    "largest of a closure": "q(X, max<Y>) <- r(X, Y).",
    "largest of all": "q(max<Y>, min<X>) <- r(X, Y).",
    "count of a closure": "q(X, count<Y>) <- r(X, Y).",
    "differ": "q(X, Y) <- r(X, Y), X ~= Y.",
    "ordered": "q(X, Y) <- r(X, Y), X < Y.",
    "in the carried column": "q(X, Y) <- e(X, Y). q(X, Z) <- q(X, Y), e(Y, Z), Z ~= X.",
    "ascending": "q(X, Y) <- e(X, Y). q(X, Z) <- q(X, Y), e(Y, Z), X < Z.",
    "generations": "q(X, Y) <- n(X), n(Y). q(X, Y) <- e(A, X), q(A, B), e(B, Y).",
    "labels, least": "q(X, mmin<V>) <- v(X, V). q(Y, mmin<V>) <- q(X, V), e(X, Y).",
    "labels, largest": "q(X, mmax<V>) <- v(X, V). q(Y, mmax<V>) <- q(X, V), e(X, Y).",
    "labels up to": "q(X, mmin<V>) <- v(X, V). q(Y, mmin<V>) <- q(X, V), e(X, Y), V < {1}.",
    "labels from": "q(X, mmax<V>) <- v(X, V). q(Y, mmax<V>) <- q(X, V), e(X, Y), V >= {1}.",
    "widest": """q(X, mmax<V>) <- v(X, V).
        q(Y, mmax<D>) <- q(X, V), e(X, Y), v(Y, W), D = if(V < W then V else W).""",
    "narrowest": """q(X, Y, mmin<W>) <- e(X, Y), v(Y, W).
        q(X, Z, mmin<D>) <- q(X, Y, V), e(Y, Z), v(Z, W), D = if(V > W then V else W).""",
    "distances": """q(X, Y, mmin<W>) <- e(X, Y), v(X, W), W > {1}, W < 99.
        q(X, Z, mmin<D>) <- q(X, Y, V), e(Y, Z), D = V + {2}, D < 99.""",
    "absent": "q(X, Y) <- v(X, Y), ~e(X, Y), ~n(Y).",
    "three atoms": "q(X, Z) <- e(X, Y), v(Y, Z), e(Z, X).",
    "sums": "q(X, sum<V>) <- v(X, Y), V = if(Y = {0} then {2} else {2}).",
}


def written(value: Any) -> str:
    """A value as a program has it; doubles that have no notation are left to the facts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "1.0"
    return f"({value})" if value < 0 else str(value)


@st.composite
def extremes(draw: st.DrawFn, *, padding: int = 0) -> list[Recursion]:
    """Some of the programs over the same few facts, each by itself: rules that meet share domains.

    `padding` makes a graph of so many edges beside them.
    """
    type = draw(st.sampled_from(["long", "double"]))
    names = draw(st.lists(st.sampled_from(sorted(RULES)), min_size=8, max_size=16, unique=True))
    value = st.sampled_from(draw(st.sampled_from(POOLS[type])))
    pairs = st.lists(st.tuples(value, value), min_size=1, max_size=8)
    make = int if type == "long" else float
    facts = {
        "e": draw(pairs) + [(make(1000 + 2 * i), make(1001 + 2 * i)) for i in range(padding)],
        "v": draw(pairs),
        "n": [(each,) for each in draw(st.lists(value, min_size=1, max_size=4))],
    }
    number = written(draw(value))
    few, one = ("5", "1") if type == "long" else ("5.0", "1.0")
    rules = (RULES[name].format(number, few, one) for name in names)
    return [Recursion(program(type, rule), facts) for rule in rules]


def program(type: str, rule: str) -> str:
    """A rule as a whole program."""
    columns = rule.split("(", 1)[1].split(")", 1)[0].count(",") + 1
    goal = f"query q({', '.join('ABCDEFG'[:columns])})."
    return DECLARED.format(type) + (CLOSURE if "r(" in rule else "") + f"{rule}\n{goal}"
