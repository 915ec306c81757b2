"""A forgotten join condition is what limits are for: every loop that makes facts looks at them."""

import time
import warnings

import pytest
from hypothesis import example, given, settings, strategies as st

import caladan

SINGLES = [(i,) for i in range(300)]
PAIRS = [(i, (7 * i) % 300) for i in range(300)]
SLACK = 2.0
"""Seconds that a run may go on beyond its limit."""


@st.composite
def products(draw: st.DrawFn) -> str:
    """A rule over four atoms or more with nothing between them, or next to nothing."""
    atoms = draw(st.integers(4, 6))
    variables = "ABCDEFGHIJKL"
    body = [
        f"e({variables[2 * i]})" if draw(st.booleans())
        else f"p({variables[2 * i]}, {variables[2 * i + 1]})"
        for i in range(atoms)
    ]  # fmt: skip
    firsts = variables[: 2 * atoms : 2]  # of different atoms, so that there are 300⁴ facts at least
    head = draw(st.lists(st.sampled_from(firsts), min_size=4, max_size=5, unique=True))
    ends = ["", ", {0} ~= {1}", ", {0} + {1} >= 0", ", {0} < {1} + 300", ", ~p({0}, {1}), ~e(-1)"]
    body[-1] += draw(st.sampled_from(ends)).format(*head)
    if draw(st.booleans()):
        last = draw(st.sampled_from(["count<_>", "sum<A>", "max<A>"]))
        return f"q({', '.join(head)}, {last}) <- {', '.join(body)}. query q({', '.join(head)}, N)."
    return f"q({', '.join(head)}) <- {', '.join(body)}. query q({', '.join(head)})."


def seconds_of(text: str, **limit: int) -> float:
    """How long a run takes that a limit must stop, in the time of this process."""
    db = caladan.connect("embedded")
    db.add("e", SINGLES)
    db.add("p", PAIRS)
    started, used = time.monotonic(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        with pytest.raises(caladan.Stopped):
            db.run(text, **limit)
    # Others may have the machine meanwhile, so that seconds pass in which nothing is done.
    return min(time.monotonic() - started, time.process_time() - used)


FOUR = "q(A, B, C, D) <- e(A), e(B), e(C), e(D). query q(A, B, C, D)."
ROLLED_UP = "q(A, C, E, G, count<_>) <- e(A), e(C), e(E), e(G), p(_, _). query q(A, C, E, G, N)."
FEW = settings(max_examples=max(4, settings().max_examples // 8))


@pytest.fixture(autouse=True, scope="module")
def _kernels() -> None:
    """Compiling them is nobody's limit."""
    seconds_of(FOUR, max_facts=1000)


@example(FOUR)
@example(ROLLED_UP)
@given(text=products())
@FEW
def test_a_product_stops_when_the_time_is_over(text: str) -> None:
    assert seconds_of(text, timeout=1) < 1 + SLACK


@example(FOUR)
@example(ROLLED_UP)
@given(text=products())
@FEW
def test_a_product_stops_at_so_many_facts(text: str) -> None:
    assert seconds_of(text, max_facts=100_000) < SLACK


@example(FOUR)
@example(ROLLED_UP)
@given(text=products())
@FEW
def test_a_product_stops_where_memory_ends(text: str) -> None:
    assert seconds_of(text, memory=50_000_000) < SLACK


def test_facts_that_are_known_do_not_count() -> None:
    """Many solutions, few facts: a limit on facts is no limit on solutions."""
    db = caladan.connect("embedded")
    db.add("e", SINGLES)
    text = "q(A, B) <- e(A), e(B), e(C), e(D), A + B + C + D < 600. query q(A, B)."
    assert len(db.run(text, max_facts=90_000).answers[0].rows()) > 80_000
    with pytest.raises(caladan.Stopped):
        db.run(text, max_facts=80_000)
