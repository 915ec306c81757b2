"""No array is as long as a value is large: memory goes by the number of facts."""

import re
import tracemalloc
import warnings
from contextlib import suppress

import pytest
from tests.strategies.recursions import DECLARED, RULES

import caladan
from caladan.program import thresholds

MOST = 100 << 20
"""Bytes: 1,400 facts lead to thousands, of some 64 bytes each; the rest is buffers."""

COMPUTED = "ee(X, Y) <- e(X, Z), Y = Z * 1. ff(X, Y) <- f(X, Z), Y = Z * 1. "
"""Values that rules compute have words by their distance from 0, or beyond 2³¹."""

NAMES = [name for name in sorted(RULES) if name not in ("three times", "squares")]


def node(number: int) -> int:
    """Numbers all over 64 bits."""
    return (number * 0x9E3779B97F4A7C15 + 2**63) % 2**64 - 2**63


TREE = [(node((i - 1) // 3), node(i)) for i in range(1, 700)]
OTHERS = [(node((31 * i) % 700), node((17 * i + 5) % 700)) for i in range(700)]


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("names", [NAMES[i::6] for i in range(6)], ids=range(6))
def test_memory_goes_by_the_number_of_facts(names: list[str], computed: bool) -> None:
    too_much: dict[str, int] = {}
    for name in names:
        rule = RULES[name]
        if computed:
            rule = COMPUTED + re.sub(r"\b([ef])\(", r"\1\1(", rule)
        arity = (re.search(r"\bp\(([^)]*)\)", rule) or [""] * 2)[1].count(",") + 1
        db = caladan.connect("embedded")
        db.add("e", TREE)
        db.add("f", OTHERS)
        goal = f" query p({', '.join('ABCD'[:arity])})."
        tracemalloc.start()
        with warnings.catch_warnings(), thresholds.override(shape=0):
            warnings.simplefilter("ignore", caladan.CaladanWarning)
            with suppress(caladan.CaladanError):  # limits and overflows are not what is tested
                db.run(DECLARED.format("long") + rule + goal, timeout=5, max_facts=100_000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        if peak > MOST:
            too_much[name] = peak >> 20
    assert too_much == {}
