"""Cliques that derive much in one tick are evaluated by columns, with the same facts as ever."""

from itertools import pairwise
from typing import Any

import pytest

from caladan import bloom
from caladan.program import thresholds

CLOSURE = """
    table arc(a, b).
    scratch tc(a, b).
    scratch last(b).
    tc(A, B) <- arc(A, B).
    tc(A, C) <- tc(A, B), arc(B, C).
    last(B) <- tc(_, B), ~arc(B, _).
"""


def test_a_tick_switches_once_it_has_derived_much() -> None:
    with thresholds.override(bulk=100):
        tc = bloom.program(CLOSURE, safe=False)
        tc.insert("arc", [(i, i + 1) for i in range(60)])
        tc.tick()
        assert tc.stats.bulk == ("tc",)
        assert tc["tc"].count() == 60 * 61 // 2
        assert tc["last"].rows() == [(60,)]
        assert tc.changes("tc")[0] == set(tc["tc"].rows())
        told = "tc: by columns, on the fixpoint of batch runs, 1 times so far"
        assert told in tc.explain("ticks")
        # A fact more or less is a repair: small ticks stay with what they have.
        tc.insert("arc", [(60, 61)])
        tc.tick()
        assert (tc.stats.bulk, tc.stats.repaired) == ((), ("tc", "last"))
        assert tc["last"].rows() == [(61,)]
        tc.delete("arc", [(30, 31)])
        tc.tick()
        assert tc["tc"].count() == 30 * 31 // 2 + 30 * 31 // 2
        added, removed = tc.changes("tc")
        assert (len(added), len(removed)) == (0, 31 * 31)
        assert tc["last"].rows() == [(30,), (61,)]


@pytest.mark.parametrize(
    "values",
    [
        ["a", "b", "c", "d"],
        [1, "b", None, (1, 2)],
        [2**70, -1, 0.5, frozenset({3})],
        [True, 2, 3.0, b"x"],
    ],
)
def test_values_are_whatever_python_has(values: list[Any]) -> None:
    with thresholds.override(bulk=0):
        tc = bloom.program(CLOSURE)
        tc.insert("arc", list(pairwise(values)))
        tc.tick()
    assert tc.stats.bulk == ("tc",)
    assert set(tc["tc"].rows()) == {(a, b) for i, a in enumerate(values) for b in values[i + 1 :]}
    assert tc["last"].rows() == [(values[-1],)]


COUNTED = """
    table step(name, b).
    table away(b).
    scratch at(name, b).
    at(N, 0) <- step(N, _).
    at(N, D) <- at(N, B), step(N, C), D = B + C, D < 1000, ~away(D).
"""


def test_rules_that_compute_go_by_types() -> None:
    steps = [("x", 3), ("x", 5), ("y", 7)]
    with thresholds.override(bulk=0, bulk_share=1 << 40):
        fast = bloom.program(COUNTED)
        fast.insert("step", steps)
        fast.insert("away", [(8,), (10**30,)])
        fast.tick()
        assert fast.stats.bulk == ()  # no column has a number so large
        fast.delete("away", [(10**30,)])
        fast.insert("step", [("z", 1)])
        fast.tick()
        assert fast.stats.bulk == ("at",)
    slow = bloom.program(COUNTED)
    slow.insert("step", [*steps, ("z", 1)])
    slow.insert("away", [(8,)])
    slow.tick()
    assert slow.stats.bulk == ()
    assert fast["at"].rows() == slow["at"].rows()
    assert ("x", 8) not in fast["at"]


def test_numbers_beyond_64_bits_are_left_to_python() -> None:
    text = """
        table t(a).
        scratch u(a).
        u(A) <- t(A).
        u(B) <- u(A), A < 9000000000000000000, B = A * 1000000.
    """
    with thresholds.override(bulk=0):
        made = bloom.program(text)
        made.insert("t", [(2**40,)])
        made.tick()
    assert made.stats.bulk == ()
    assert max(made["u"].rows()) == (2**40 * 10**12,)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("table arc(a, b => c: lmin). arc(A, B, C) <- arc(B, A, C).", "the same key merge"),
        ("table arc(a, b, c). arc(A, B, D) <- arc(B, A, C), D = C / 2, C > 1.", "divides"),
    ],
)
def test_what_stays_with_rounds_says_why(text: str, reason: str) -> None:
    made = bloom.program(text.replace(". ", ".\n"))
    assert "round by round all the same, since" in made.explain("ticks")
    assert reason in made.explain("ticks")
    with thresholds.override(bulk=0):
        made.insert("arc", [(1, 2, 8)])
        assert made.tick().stats.bulk == ()


def test_relations_without_facts_are_left_out() -> None:
    text = """
        table arc(a, b).
        table none(a, b).
        scratch p(a, b).
        scratch q(a, b).
        p(A, B) <- arc(A, B), ~none(A, B).
        p(A, C) <- q(A, B), arc(B, C).
        q(A, B) <- p(A, B), none(B, A).
        q(A, B) <- p(B, A), ~none(B, A).
    """
    with thresholds.override(bulk=0):
        made = bloom.program(text)
        made.insert("arc", [(1, 2), (2, 1), (2, 3)])
        made.tick()
        assert made.stats.bulk == ("p", "q")
        slow = bloom.program(text, safe=True)
        slow.insert("arc", [(1, 2), (2, 1), (2, 3)])
    slow.tick()
    assert made["p"].rows() == slow["p"].rows()
    assert made["q"].rows() == slow["q"].rows()
    with thresholds.override(bulk=0):
        made.delete("arc", [(1, 2), (2, 1), (2, 3)])
        made.tick()
    assert made["p"].rows() == made["q"].rows() == []


def test_a_table_of_a_clique_keeps_what_it_stored() -> None:
    text = (
        "table arc(a, b).\ntable tc(a, b).\ntc(A, B) <- arc(A, B).\ntc(A, C) <- tc(A, B), tc(B, C)."
    )
    with thresholds.override(bulk=0):
        made = bloom.program(text)
        made.insert("arc", [(1, 2), (2, 3)])
        made.tick()
        made.delete("arc", [(1, 2)])
        made.insert("tc", [(3, 4)])
        made.tick()
        assert made["tc"].rows() == [(a, b) for a in range(1, 4) for b in range(a + 1, 5)]
        made.delete("tc", [(1, 2), (1, 3), (1, 4)])
        made.tick()
    assert made["tc"].rows() == [(2, 3), (2, 4), (3, 4)]
