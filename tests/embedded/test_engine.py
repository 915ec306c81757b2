"""The embedded engine through the public surface: what only it does, and how it stops."""

import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import caladan
from caladan.columns.warmup import warmup
from caladan.program.events import Event, Listener, RelationHeld, RoundDone, RuleDone, RuleSkipped

ARC = "database({arc(A: integer, B: integer)}).\n"
# No shape serves these: the rounds are gone through one by one.
# A rule that reads the relation both ways is of no shape; it never derives anything.
CHAIN = ARC + (
    "p(X, Y) <- arc(X, Y), X = 0. p(X, Z) <- p(X, Y), arc(Y, Z), X ~= Z.\n"
    "p(X, Z) <- p(X, Y), p(Y, X), arc(Y, Z). query p(X, Y)."
)
ENDLESS = "n(0). n(Y) <- n(X), Y = X + 1. query n(X)."


def chain(length: int) -> pa.Table:
    nodes = np.arange(length, dtype=np.int32)
    return pa.table({"A": nodes, "B": nodes + 1})


def run(program: str, listener: Listener | None = None, *, options: Any = None, **data: Any) -> Any:
    db = caladan.connect("embedded", listeners=[listener] if listener else [])
    for name, facts in data.items():
        db.add(name, facts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        return db.run(program, **(options or {}))


class Told(Listener):
    """Remembers what a run told."""

    def __init__(self) -> None:
        self.rounds = 0
        self.skipped = 0
        self.rules: dict[int, int] = {}

    def tell(self, event: Event) -> None:
        if isinstance(event, RoundDone):
            self.rounds = event.number
        elif isinstance(event, RuleSkipped):
            self.skipped += 1
        elif isinstance(event, RuleDone):
            self.rules[event.rule] = self.rules.get(event.rule, 0) + (event.facts or 0)


def test_many_tiny_rounds_are_quick_and_counted() -> None:
    told = Told()
    run(CHAIN, arc=chain(100))  # loads the kernels
    started = time.process_time()
    out = run(CHAIN, told, arc=chain(20_000))
    assert out.answer.count() == 20_000
    assert told.rounds == 20_001
    assert time.process_time() - started < 2  # a tenth of a second where nothing else runs


def test_the_machine_hands_over_when_deltas_grow(tuned: Callable[..., None]) -> None:
    """A chain that ends in a wide fan, and goes on as a chain: machine, columns, machine."""
    tuned(small_rounds=2)
    arcs = [(i, i + 1) for i in range(200)]
    arcs += [(200, 1000 + i) for i in range(9000)] + [(1000 + i, 20_000) for i in range(9000)]
    arcs += [(20_000 + i, 20_001 + i) for i in range(300)]
    out = run(CHAIN, arc=arcs)
    assert out.answer.count() == 200 + 9000 + 301


def test_a_round_that_derives_millions_of_facts_anew_counts_each_once() -> None:
    """More than are sorted at once, most of them known, while the round's delta is apart."""
    text = "database({e(A: integer, B: integer)}).\n"
    text += "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), p(Y, Z). n(count<_>) <- p(X, Y). "
    spokes = [(0, i) for i in range(1, 301)]
    out = run(text + "query p(X, Y). query n(N).", e=[*spokes, *((i, 0) for _, i in spokes)])
    assert out["p"].count() == 301 * 301
    assert out["n"].rows() == [(301 * 301,)]
    assert len(set(out["p"].rows())) == len(out["p"].rows())


def test_records_of_one_entity_are_paired_once() -> None:
    text = "database({key(R: integer, K: string)}).\n"
    text += "same(A, B) <- key(A, K), key(B, K), A ~= B. "
    text += "same(A, C) <- same(A, B), same(B, C), A ~= C. query same(A, B)."
    keys = [(i, "shared" if i < 300 else str(i % 200)) for i in range(900)]
    out = run(text, key=keys)
    assert out.answer.count() == 300 * 299 + 200 * 6
    assert len(set(out.answer.rows())) == out.answer.count()


def test_a_guard_saves_scans() -> None:
    told = Told()
    text = "database({e(A: integer, B: integer), f(A: integer)}).\n"
    text += "p(X, Y) <- e(X, Y). p(X, Z) <- p(X, Y), e(Y, Z), f(X). query p(X, Y)."
    out = run(text, told, e=[(1, 2), (2, 3)], f=[])
    assert out.answer.count() == 2
    assert told.skipped >= 1
    assert 2 not in told.rules


def test_no_combination_is_derived_twice() -> None:
    """With old and new facts told apart, a doubling rule meets every pair of facts once."""
    told = Told()
    text = ARC + "p(X, Y) <- arc(X, Y). p(X, Z) <- p(X, Y), p(Y, Z), X ~= Z. query p(X, Y)."
    out = run(text, told, arc=chain(30))
    pairs = [(x, y) for x, y in out.answer.rows() if x < y]
    assert len(pairs) == 30 * 31 // 2
    # p(x, y), p(y, z) for all x < y < z.
    assert told.rules[2] == 31 * 30 * 29 // 6


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"max_rounds": 50}, "50 rounds were not enough"),
        ({"max_facts": 1000}, "more than 1000 facts"),
        ({"timeout": 1.5}, "1.5 seconds were not enough"),
    ],
)
def test_limits_leave_what_was_derived(options: dict[str, Any], text: str) -> None:
    with pytest.raises(caladan.CaladanError, match=text) as stopped:
        run(ENDLESS, options=options)
    assert stopped.value.exit_code == 3
    assert stopped.value.result["n"].count() > 10


def test_a_timeout_is_answered_inside_the_machine() -> None:
    text = (
        ARC + "p(X, Y) <- arc(X, Y), X = 0. p(X, Z) <- p(X, Y), arc(Y, Z), X ~= Z. query p(X, Y)."
    )
    started = time.monotonic()
    with pytest.raises(caladan.CaladanError, match="seconds were not enough"):
        run(text, options={"timeout": 0.2}, arc=chain(3_000_000))
    assert time.monotonic() - started < 30


def test_an_interrupt_is_answered() -> None:
    timer = threading.Timer(0.7, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(caladan.CaladanError, match="interrupted") as stopped:
            run(ENDLESS)
    finally:
        timer.cancel()
    assert stopped.value.exit_code == 130
    assert stopped.value.result["n"].count() > 10


@pytest.mark.parametrize(("stop", "code"), [(KeyboardInterrupt, 130), (MemoryError, 3)])
def test_a_run_that_is_stopped_while_it_hands_out_its_tables_says_so(
    stop: type[BaseException], code: int
) -> None:
    class Stopping(Listener):
        def tell(self, event: Event) -> None:
            if isinstance(event, RelationHeld):
                raise stop

    with pytest.raises(caladan.CaladanError) as stopped:
        run("n(1). m(X) <- n(X). query m(X).", Stopping())
    assert stopped.value.exit_code == code
    assert stopped.value.result["m"].rows() == [(1,)]


def test_values_that_outgrow_their_width() -> None:
    """Computed integers: first near, then far beyond 32 bits; keys are packed anew on the way."""
    text = "d(1, 1, 1). d(A, B, C) <- d(A, B, D), C = D * 3, C < 4000000000000000000. "
    text += "d(A, C, C) <- d(A, B, C), C > 1000. query d(A, B, C)."
    powers = [3**i for i in range(40) if 3**i < 4 * 10**18]
    found = set(run(text).answer.rows())
    assert {(1, 1, p) for p in powers} <= found
    assert max(c for _, _, c in found) == powers[-1]


NUMBERS = st.integers(-3, 40) | st.sampled_from([2**40, -(2**50)])
TEXTS = st.text("abé\U0001f40d", max_size=2)
FRACTIONS = st.sampled_from([-1.5, -0.0, 0.0, 2.25, float("inf")])


@settings(max_examples=60)
@given(st.lists(st.tuples(NUMBERS, TEXTS, FRACTIONS), max_size=30), st.integers(0, 9))
def test_the_first_facts_are_those_of_all_in_order(
    facts: list[tuple[int, str, float]], few: int
) -> None:
    columns = [pa.int64(), pa.string(), pa.float64()]
    arrays = [pa.array([fact[i] for fact in facts], type) for i, type in enumerate(columns)]
    db = caladan.connect("embedded")
    db.add("e", pa.Table.from_arrays(arrays, names=["a", "b", "c"]))
    out = db.run("p(B, A, C) <- e(A, B, C). q(A, Y) <- e(A, _, _), Y = A + 1.")
    for name in ("e", "p", "q"):
        assert out[name].head(few) == out[name].rows()[:few]


def test_facts_of_sixteen_columns() -> None:
    names = [f"C{i}" for i in range(16)]
    declared = ", ".join(f"{n}: long" for n in names)
    head = ", ".join(names)
    text = f"database({{w({declared})}}).\n"
    text += f"v({head}) <- w({head}), C3 > 5. u(C0, C15) <- v({head}), w({head}). query u(A, B)."
    rows = [tuple(i * 7919 * (c + 1) for c in range(16)) for i in range(300)]
    found = set(run(text, w=[*rows, *rows]).answer.rows())
    assert found == {(row[0], row[15]) for row in rows if row[3] > 5}


def test_warmup_compiles_every_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    from caladan.cli import main
    from caladan.columns.kernels import Kernel, probe

    assert "caladan.columns.kernels.probe" in warmup()
    assert not any(isinstance(each, Kernel) for each in vars(probe).values())
    assert main(["warmup"]) == 0
    assert "kernels are ready" in capsys.readouterr().out
