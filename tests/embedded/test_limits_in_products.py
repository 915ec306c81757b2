"""A forgotten join condition is what limits are for: every loop that makes facts looks at them."""

import time
import tracemalloc
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
    ends = [
        ", sort(({1}, desc))",
        "",
        ", {0} ~= {1}",
        ", {0} + {1} >= 0",
        ", {0} < {1} + 300",
        ", ~p({0}, {1}), ~e(-1)",
    ]
    body[-1] += draw(st.sampled_from(ends)).format(*head)
    if draw(st.booleans()):
        functions = ["count<_>", "sum<A>", "max<A>", "median<A>", "countd<A>", "avg<A>"]
        last = draw(st.sampled_from(functions))
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
    # Facts that wait are sorted at once, tens of millions here: that takes up to 2 s by itself.
    assert seconds_of(text, timeout=1) < 1 + 2 * SLACK


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


# ── What is no fact, and takes memory all the same ───────────────────────────────────────────────

FEW_BYTES = 60_000_000
HELD = {
    "contributors": "q(countd<(A, B, C)>) <- e(A), e(B), e(C). query q(N).",
    "solutions": "q(median<D>) <- e(A), e(B), e(C), e(D). query q(N).",
    "texts": f"s(1, a). s(N, Y) <- s(M, X), Y = concat(X, {100 * 'x'}), N = M + 1. query s(N, X).",
}


@pytest.mark.parametrize("name", HELD)
def test_what_a_rule_holds_takes_memory(name: str) -> None:
    """Contributors that are told apart, gathered solutions, and texts that rules compute."""
    db = caladan.connect("embedded")
    db.add("e", SINGLES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        with pytest.raises(caladan.Stopped, match="bytes of memory"):
            db.run(HELD[name], memory=FEW_BYTES, timeout=60)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("q(A, B, C) <- e(A), e(B), e(C), A > B, sort((C, desc), (A, asc)), limit(2).",
         [(1, 0, 299), (2, 0, 299)]),
        ("q(count<_>, A, B) <- f(A), e(B), e(C), e(D), A * B > C + D.", None),
    ],
)  # fmt: skip
def test_a_rule_holds_no_more_than_it_needs(text: str, wanted: object) -> None:
    """Rows behind a limit are dropped; what is added up of parts of a body is forgotten."""
    db = caladan.connect("embedded")
    db.add("e", SINGLES)
    db.add("f", [(1,), (2,)])
    goal = " query q(A, B, C)."
    db.run(text.replace("e(C)", "f(C)") + goal)  # imports and kernels
    tracemalloc.start()
    found = db.run(text + goal, memory=FEW_BYTES).answers[0].rows()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * FEW_BYTES
    if wanted is None:
        wanted = [
            (sum(min(300, max(0, a * b - c)) for c in range(300)), a, b)
            for a in (1, 2)
            for b in range(1, 300)
        ]
    assert sorted(found) == sorted(wanted)  # pyright: ignore[reportArgumentType]


def test_facts_that_are_known_do_not_count() -> None:
    """Many solutions, few facts: a limit on facts is no limit on solutions."""
    db = caladan.connect("embedded")
    db.add("e", SINGLES)
    text = "q(A, B) <- e(A), e(B), e(C), e(D), A + B + C + D < 600. query q(A, B)."
    assert len(db.run(text, max_facts=90_000).answers[0].rows()) > 80_000
    with pytest.raises(caladan.Stopped):
        db.run(text, max_facts=80_000)


@pytest.mark.parametrize("call", ["slow(A * B)", "levenshtein(concat(T, to_string(A * B)), T)"])
def test_functions_end_with_the_time(call: str) -> None:
    """A batch of calls may take longer than the whole run may."""
    db = caladan.connect("embedded")
    db.add("e", [(i, "sietch " * 100) for i in range(2_000)])
    db.define("slow", _sleep, returns="long")
    text = f"q(A, Z) <- e(A, T), e(B, _), Z = {call}. query q(A, Z)."
    started = time.monotonic()
    with pytest.raises(caladan.Stopped, match="timeout"):
        db.run(text, timeout=1)
    assert time.monotonic() - started < 30  # 2,000 seconds and more without a look at the clock


def _sleep(value: int) -> int:
    time.sleep(0.0005)
    return value
