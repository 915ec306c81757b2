"""Direction: recursions that go against their bindings are turned, and mean the same."""

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from tests.analysis.support import compiled, rules_text

import caladan as cal

ARC = "database({arc(A: integer, B: integer), far(A: integer, B: integer, W: integer)}). "
EXIT = "p(A, B) <- arc(A, B). "
LEFT = [
    "p_bf(A, B) <- demand_p_bf(A), arc(A, B).",
    "p_bf(_s1, B) <- demand_p_bf(_s1), p_bf(_s1, A), arc(A, B).",
    "demand_p_bf(1,)",
]


def turned(text: str) -> list[str]:
    return rules_text(compiled(ARC + text).demanded.checked)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (EXIT + "p(A, B) <- p(A, C), p(C, B). query p(1, B).", LEFT),
        (EXIT + "p(A, B) <- arc(A, C), p(C, B). query p(1, B).", LEFT),
        (
            EXIT + "p(A, B) <- p(A, C), arc(C, B). query p(A, 1).",
            [
                "p_fb(A, B) <- demand_p_fb(B), arc(A, B).",
                "p_fb(A, _s2) <- demand_p_fb(_s2), p_fb(B, _s2), arc(A, B).",
                "demand_p_fb(1,)",
            ],
        ),
        (
            (
                "p(A, B, mmin<W>) <- far(A, B, W). p(A, B, mmin<D>) <- far(A, C, W), p(C, B, E), "
                "D = W + E. query p(1, B, D)."
            ),
            [
                "p_bff(A, B, mmin<W>) <- demand_p_bff(A), far(A, B, W).",
                (
                    "p_bff(_s1, B, mmin<_s3 + W>) <- demand_p_bff(_s1), p_bff(_s1, A, _s3), "
                    "far(A, B, W)."
                ),
                "demand_p_bff(1,)",
            ],
        ),
        (
            EXIT + "p(A, B) <- far(A, C, _), p(C, B), B > 3. query p(1, B).",
            [
                "p_bf(A, B) <- demand_p_bf(A), arc(A, B).",
                "p_bf(_s1, B) <- demand_p_bf(_s1), p_steps_bf(_s1, A), arc(A, B), B > 3.",
                "demand_p_steps_bf(_s1) <- demand_p_bf(_s1).",
                "p_steps_bf(A, C) <- demand_p_steps_bf(A), far(A, C, _1).",
                "p_steps_bf(_s1, C) <- demand_p_steps_bf(_s1), p_steps_bf(_s1, A), far(A, C, _1).",
                "demand_p_bf(1,)",
            ],
        ),
    ],
)
def test_turned(text: str, expected: list[str]) -> None:
    assert turned(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        # Both ends are looked at in every step.
        EXIT + "p(A, B) <- arc(A, C), p(C, B), A ~= B. query p(1, B).",
        # Fractions would be added in another order.
        (
            "p(A, B, mmin<W * 0.1>) <- far(A, B, W). "
            "p(A, B, mmin<W * 0.1 + D>) <- far(A, C, W), p(C, B, D). query p(1, B, D)."
        ),
        # A cycle that falls for ever may be one from where nothing leads to an exit.
        (
            "p(A, B, mmin<0>) <- arc(A, B). "
            "p(A, B, mmin<W + D>) <- far(A, C, W), p(C, B, D). query p(1, B, D)."
        ),
        # What is read is no sum.
        (
            "p(A, B, mmin<W>) <- far(A, B, W). "
            "p(A, B, mmin<W * D>) <- far(A, C, W), p(C, B, D). query p(1, B, D)."
        ),
        # Both columns move.
        "p(A, B) <- arc(A, B). p(A, B) <- arc(C, A), p(C, D), arc(D, B). query p(1, B).",
        # A relation asks for what it finds.
        EXIT + "p(A, B) <- far(A, C, _), p(C, B). q(A, B) <- arc(A, C), p(C, B). query q(1, B).",
    ],
)
def test_left_as_they_are(text: str) -> None:
    assert not any("_s" in rule for rule in turned(text))


def test_nothing_is_turned_where_nothing_is_bound() -> None:
    rules = turned(EXIT + "p(A, B) <- p(A, C), p(C, B). query p(A, B).")
    assert rules[1] == "p(A, B) <- p(A, C), p(C, B)."


RULES = [
    "p(A, B) <- p(A, C), p(C, B).",
    "p(A, B) <- arc(A, C), p(C, B).",
    "p(A, B) <- p(A, C), arc(C, B).",
    "p(A, B) <- far(A, C, W), p(C, B), W > 1.",
    "p(A, B) <- arc(C, A), p(C, B), B ~= 2.",
    "p(A, B) <- arc(C, A), p(C, B), A ~= 2.",
    "p(A, B) <- p(A, C), far(C, B, _), ~arc(B, C).",
    "p(A, B) <- arc(A, C), p(C, B), A ~= B.",
    "p(B, A) <- p(A, B).",
]
EXITS = [
    EXIT,
    EXIT + "p(A, B) <- far(B, A, 1).",
    "p(A, A) <- arc(A, _). ",
    "p(A + 1, B) <- arc(A, B). ",
]
SUMS = [
    "p(A, B, mmin<1>) <- arc(A, B). p(A, B, mmin<D + 1>) <- arc(A, C), p(C, B, D).",
    "p(A, B, mmin<1>) <- arc(A, B). p(A, B, mmin<D + E>) <- p(A, C, D), p(C, B, E).",
    "p(A, B, mmin<W>) <- far(A, B, W). p(A, B, mmin<D + W>) <- far(A, C, W), p(C, B, D).",
    "p(A, B, mmin<W>) <- far(A, B, W). p(A, B, mmin<W + D>) <- p(A, C, D), far(C, B, W).",
    (
        "p(A, B, mmin<0>) <- far(A, B, _). p(A, B, mmin<2 + D>) <- arc(A, C), p(C, B, D). "
        "p(A, B, mmin<D + W>) <- p(A, C, D), far(C, B, W)."
    ),
    "p(A, B, mmin<W>) <- far(A, B, W). p(A, B, mmin<D>) <- arc(A, C), p(C, B, D), B > 1.",
]
NODES = st.integers(0, 4)
ARCS = st.lists(st.tuples(NODES, NODES), max_size=9)
FARS = st.lists(st.tuples(NODES, NODES, st.integers(0, 3)), max_size=9)
PROGRAMS = st.one_of(
    st.builds(
        lambda leaving, rules: leaving + " ".join(rules),
        st.sampled_from(EXITS),
        st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique=True),
    ),
    st.sampled_from(SUMS),
)


@settings(max_examples=60, deadline=None)
@given(PROGRAMS, ARCS, FARS, st.sampled_from(["1, B", "A, 1", "1, 2"]))
def test_a_bound_goal_has_the_answers_of_the_whole(
    program: str, arcs: list[tuple[int, int]], fars: list[tuple[int, int, int]], bound: str
) -> None:
    value = ", D" if "mmin" in program else ""
    with cal.connect("embedded") as db:
        db.add("arc", {"A": [a for a, _ in arcs], "B": [b for _, b in arcs]})
        db.add("far", {name: [row[i] for row in fars] for i, name in enumerate("ABW")})
        whole = db.run(f"{ARC} {program} query p(A, B{value}).").answer.rows()
        part = db.run(f"{ARC} {program} query p({bound}{value}).").answer.rows()
    sought = [None if word.isupper() else int(word) for word in bound.split(", ")]
    expected = {
        row for row in whole if all(s in (None, v) for s, v in zip(sought, row, strict=False))
    }
    assert {tuple(row) for row in part} == expected
