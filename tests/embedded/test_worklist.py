"""The tiny-delta machine: arithmetic, where it hands back, and what a run tells of its rounds."""

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings, strategies as st
from tests.strategies.random_thresholds import NEVER

import caladan
from caladan.columns.kernels import machine
from caladan.fixpoint.small_rounds.worklist import Worklist
from caladan.join.plan import RulePlan
from caladan.program import thresholds
from caladan.program.events import CliqueStarted, Event, Listener, RoundDone

COUNT_STEPS = """
database({arc(A: integer, B: integer), start(A: integer)}).
far(X, N) <- start(X), N = 0.
far(Y, N) <- far(X, M), arc(X, Y), N = M + 1.
query far(X, N).
"""


def run(engine: str, text: str, listener: Listener | None = None, **given: Any) -> Any:
    options = given.pop("options", {})
    db = caladan.connect(engine, listeners=[listener] if listener else [])
    for name, facts in given.items():
        db.add(name, facts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        return db.run(text, **options)


def chain(length: int) -> pa.Table:
    nodes = np.arange(length, dtype=np.int32)
    return pa.table({"A": nodes, "B": nodes + 1})


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every clique goes to the machine at once; what it ended with, each time."""
    codes: list[int] = []
    enter = Worklist._enter

    def entered(self: Worklist, *limits: Any) -> tuple[int, int]:
        code, found = enter(self, *limits)
        codes.append(code)
        return code, found

    monkeypatch.setattr(Worklist, "_enter", entered)
    with thresholds.override(small_rounds=0, shape=NEVER):
        yield codes


class Rounds(Listener):
    """Remembers the rounds."""

    def __init__(self) -> None:
        self.new = 0
        self.total = 0
        self.number = 0

    def tell(self, event: Event) -> None:
        if isinstance(event, CliqueStarted):
            self.new = 0
        elif isinstance(event, RoundDone):
            self.new += event.new
            self.number, self.total = event.number, event.total


# ── Arithmetic ───────────────────────────────────────────────────────────────────────────────────

LARGEST = 2**63 - 1
numbers = st.one_of(st.integers(-9, 9), st.integers(-LARGEST, LARGEST))
EXPRESSIONS = ["V + D", "V - D", "V * D", "V div D", "V mod D", "-V + D * 2", "(V - 3) * (D + V)"]


def outcome(engine: str, text: str, **given: Any) -> Any:
    """The answer, or the code of the failure."""
    try:
        return sorted(run(engine, text, **given).answer.rows())
    except caladan.CaladanError as failure:
        return failure.diagnostics[0].code


@given(
    expression=st.sampled_from(EXPRESSIONS),
    comparison=st.sampled_from(["<", "<=", ">", ">=", "~=", "="]),
    bound=numbers,
    start=st.lists(numbers, min_size=1, max_size=3),
    steps=st.lists(st.tuples(st.integers(0, 4), numbers), max_size=6),
)
@example(
    expression="V * D", comparison="<", bound=0, start=[-2], steps=[(0, 9_223_372_035_781_033_986)]
)
@example(expression="V + D", comparison="=", bound=0, start=[LARGEST], steps=[(0, 1)])
@settings(max_examples=150)
def test_arithmetic_is_that_of_the_reference(
    expression: str, comparison: str, bound: int, start: list[int], steps: list[tuple[int, int]]
) -> None:
    text = f"""
    database({{start(V: long), step(A: integer, D: long)}}).
    n(0, V) <- start(V).
    n(B, W) <- n(A, V), step(A, D), W = {expression}, W {comparison} {bound}, B = A + 1.
    query n(A, V).
    """
    given = {"start": [(value,) for value in start], "step": steps}
    wanted = outcome("reference", text, **given)
    with thresholds.override(small_rounds=0):
        assert outcome("embedded", text, **given) == wanted


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("n(1). n(Y) <- n(X), Y = X * 2. query n(X).", "C041"),
        ("n(9000000000000000000). n(Y) <- n(X), Y = X + 100000000000000. query n(X).", "C041"),
        ("n(50). n(Y) <- n(X), Y = X - 1, Z = 7 div X, Z >= 0. query n(X).", "C040"),
    ],
)
def test_failures_name_their_rule(ended: list[int], text: str, code: str) -> None:
    with pytest.raises(caladan.CaladanError) as failed:
        run("embedded", text)
    (diagnostic,) = failed.value.diagnostics
    assert diagnostic.code == code
    assert "Y" in str(failed.value)
    assert machine.BEYOND in ended


def test_numbers_beyond_the_machine_are_left_to_columns(ended: list[int]) -> None:
    """Below the base of a domain: those are interned, which the machine does not do."""
    out = run("embedded", "n(5). n(Y) <- n(X), Y = X - 1, Y > -100. query n(X).")
    assert sorted(out.answer.rows()) == [(n,) for n in range(-99, 6)]
    assert machine.BEYOND in ended


def test_domains_far_apart_are_compared_by_rank(ended: list[int]) -> None:
    text = """
    database({most(A: integer, L: long)}).
    n(0). n(Y) <- n(X), most(X, L), Y = X + 1, Y * 1000000000 < L.
    query n(X).
    """
    most = [(n, (8 if n < 7 else -n) * 10**9) for n in range(12)]
    out = run("embedded", text, most=most)
    assert sorted(out.answer.rows()) == [(n,) for n in range(8)]
    assert ended[-1] == machine.DONE


# ── The best value of a group ────────────────────────────────────────────────────────────────────

PATHS = """
database({arc(A: integer, B: integer, C: integer), from(A: integer)}).
far(X, mmin<N>) <- from(X), N = 0.
far(Y, mmin<N>) <- far(X, M), arc(X, Y, C), N = M + C.
query far(X, N).
"""
WIDEST = """
database({arc(A: integer, B: integer, C: integer), from(A: integer)}).
best(X, X, mmax<C>) <- from(X), arc(X, _, C).
best(X, Z, mmax<C>) <- best(X, Y, D), arc(Y, Z, E), C = if(D < E then D else E).
seen(X, Z, mmax<C>) <- from(X), C = 0, Z = X.
seen(X, Z, mmax<C>) <- seen(X, Y, D), arc(Y, Z, E), C = D + E, C <= 40.
query seen(X, Y, C).
"""
nodes = st.integers(0, 12)
arcs = st.lists(st.tuples(nodes, nodes, st.integers(0, 9)), min_size=1, max_size=40)


@pytest.mark.parametrize("text", [PATHS, WIDEST])
@given(arcs=arcs, starts=st.sets(nodes, min_size=1, max_size=3))
def test_best_values_are_those_of_the_reference(
    text: str, arcs: list[tuple[int, int, int]], starts: set[int]
) -> None:
    given = {"arc": arcs, "from": [(s,) for s in starts]}
    wanted = run("reference", text, **given)
    told = Rounds()
    with thresholds.override(small_rounds=0):
        got = run("embedded", text, told, **given)
    assert sorted(got.answer.rows()) == sorted(wanted.answer.rows())
    assert got.stats.rounds == wanted.stats.rounds


def test_long_ways_with_costs_are_quick(ended: list[int]) -> None:
    """A ladder: every rung can be reached late and dearly first, then better."""
    length = 20_000
    arcs = [(n, n + 1, 2) for n in range(length)] + [(n, n + 2, 3) for n in range(0, length, 2)]
    started = time.process_time()
    out = run("embedded", PATHS, arc=arcs, **{"from": [(0,)]})
    assert time.process_time() - started < 5  # rounds alone take 10
    assert dict(out.answer.rows())[length] == 3 * length // 2
    assert ended[-1] == machine.DONE


# ── Tails ────────────────────────────────────────────────────────────────────────────────────────

FLOWS = {
    "plain": "null(X, Y) <- null(X, W), arc(W, Y).",
    "a condition": "null(X, Y) <- null(X, W), arc(W, Y), X ~= Y.",
    "negation": "null(X, Y) <- null(X, W), arc(W, Y), ~from(X, Y).",
    "two rules": """
        null(X, Y) <- null(X, W), arc(W, Y).
        null(X, Y) <- null(X, W), arc(W, V), V ~= X, arc(V, Y).""",
    "two relations": """
        null(X, Y) <- may(X, W), arc(W, Y).
        may(X, Y) <- null(X, Y), X ~= Y.""",
    "both sides": "null(X, Y) <- null(X, W), null(W, Y), X ~= W.",
}
FLOW = """
database({{arc(A: integer, B: integer), from(A: integer, B: integer)}}).
null(X, Y) <- from(X, Y).
{}
query null(X, Y).
"""


@pytest.mark.parametrize("bits", [0, 26])
@pytest.mark.parametrize("flow", FLOWS)
@given(
    arcs=st.lists(st.tuples(nodes, nodes), min_size=1, max_size=30),
    starts=st.sets(st.tuples(nodes, nodes), min_size=1, max_size=4),
)
@settings(max_examples=20)
def test_tails_grow_whatever_tells_what_is_in_them(
    flow: str, bits: int, arcs: list[tuple[int, int]], starts: set[tuple[int, int]]
) -> None:
    text = FLOW.format(FLOWS[flow])
    given = {"arc": arcs, "from": sorted(starts)}
    wanted = run("reference", text, **given)
    with thresholds.override(small_rounds=0, shape=NEVER, first_tail=0, machine_bits=bits):
        got = run("embedded", text, **given)
    assert sorted(got.answer.rows()) == sorted(wanted.answer.rows())
    assert got.stats.rounds == wanted.stats.rounds


@pytest.mark.parametrize("flow", ["plain", "two rules", "two relations"])
def test_what_flows_from_few_sources_is_held_once(ended: list[int], flow: str) -> None:
    """However much is found, the machine goes on with it: it is sorted when all is over."""
    length, sources = 2_000, [(10_000 + n, 97 * n) for n in range(20)]
    out = run("embedded", FLOW.format(FLOWS[flow]), arc=chain(length), **{"from": sources})
    assert out.answer.count() == sum(length + 1 - start for _, start in sources)
    assert ended == [machine.DONE]


# ── Rounds ───────────────────────────────────────────────────────────────────────────────────────


def test_many_tiny_rounds_with_arithmetic_are_quick() -> None:
    told = Rounds()
    run("embedded", COUNT_STEPS, arc=chain(100), start=[(0,)])  # loads the kernels
    started = time.process_time()
    out = run("embedded", COUNT_STEPS, told, arc=chain(100_000), start=[(0,)])
    assert out.answer.count() == 100_001
    assert time.process_time() - started < 3  # 0.1 where nothing else runs; rounds alone take 20
    assert told.number == 100_002
    assert told.new == told.total == 100_001


@pytest.mark.parametrize("patience", [0, 1, 3])
def test_a_large_delta_is_no_matter_for_the_machine(ended: list[int], patience: int) -> None:
    """Its tails have room for small deltas, and it does not look whether there is."""
    text = """
    database({arc(A: integer, B: integer)}).
    p(X, Y) <- arc(X, Y). p(X, Z) <- p(X, Y), p(Y, Z). query p(X, Y).
    """
    with thresholds.override(small=4, first_tail=0, small_rounds=patience):
        assert run("embedded", text, arc=chain(40)).answer.count() == 41 * 20
    assert not ended


@pytest.mark.parametrize("way", ["machine", "columns"])
@pytest.mark.parametrize(
    ("options", "facts"), [({"max_rounds": 40}, 40), ({"max_facts": 37}, 38), ({}, 101)]
)
def test_limits_stop_at_the_same_round(
    way: str, options: dict[str, int], facts: int, tuned: Callable[..., None]
) -> None:
    if way == "columns":
        tuned(small_rounds=NEVER)
    given = {"arc": chain(100), "start": [(0,)], "options": options}
    try:
        out = run("embedded", COUNT_STEPS, **given)
    except caladan.CaladanError as stopped:
        assert options
        out = stopped.result  # pyright: ignore[reportAttributeAccessIssue]
    assert out["far"].count() == facts


def test_words_that_outgrow_a_relation_find_nothing_in_it() -> None:
    """Three columns of computed numbers have 21 bits each; the fourth number needs 22."""
    text = """
    database({t(A: integer, B: integer, C: integer), s(A: integer)}).
    n(X) <- s(X).
    n(Y) <- n(X), Y = X + 2097157, Y < 3000000.
    q(X, Y) <- n(X), n(Y).
    q(X, Z) <- q(X, Y), t(X, Y, Z).
    query q(X, Y).
    """
    t = [*((5000 + i, i, 7) for i in range(100)), (1, 5, 77), (0, 0, 0)]
    out = run("embedded", text, t=t, s=[(0,)])
    # (1, 5) and (0, 2097157) would be the same key, were there no room made for the latter.
    assert sorted(out.answer.rows()) == [(x, y) for x in (0, 2097157) for y in (0, 2097157)]


def test_orders_are_measured_however_little_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node has few arcs, and a source reaches thousands: nobody asks for all it reaches."""
    orders: list[list[str]] = []
    lasting = RulePlan.lasting_steps

    def noted(self: RulePlan) -> Any:
        steps = lasting(self)
        assert self._order is not None
        orders.append([self.body.atoms[i].relation for i in self._order.atoms])
        return steps

    monkeypatch.setattr(RulePlan, "lasting_steps", noted)
    arcs = [(i, j) for i in range(2000) for j in (i + 1, i + 2)]
    text = """database({arc(A: integer, B: integer), start(A: integer, B: integer)}).
    to(A, B) <- start(A, B). to(A, B) <- to(A, C), arc(C, B). to(A, B) <- both(A, B).
    both(A, B) <- to(A, C), to(A, D), arc(C, B), arc(D, B), C ~= D. query to(A, B)."""
    with thresholds.override(small_rounds=8):
        out = run("embedded", text, arc=arcs, start=[(i, 7 * i) for i in range(5)])
    assert out.stats.cliques[0].tiny_rounds > 900
    assert out.answer.count() == sum(2002 - 7 * i for i in range(5))
    assert {tuple(order[:2]) for order in orders if len(order) == 4} == {("to", "arc")}
