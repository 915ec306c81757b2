"""Invalidation and rescan: every rule of the negotiation, the sets, and what ticks do with them."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping

import pytest
from tests.ticks.programs import PROGRAMS

from caladan import bloom
from caladan.ticks import engine
from caladan.ticks.elements import Element
from caladan.ticks.engine import TickEngine
from caladan.ticks.invalidation import (
    Consequences,
    Scheme,
    prepare_invalidation_scheme,
    rescan_invalidate_tc,
)
from caladan.ticks.plans import Plan
from caladan.ticks.wiring import wire


def example(source: str) -> type[bloom.Bloom]:
    """The program of the notes on invalidation; x and y are read from tables if `source` says."""

    class Example(bloom.Bloom):
        tx = bloom.table("k", "v")
        ty = bloom.table("k", "v")
        x = bloom.scratch("k", "v")
        y = bloom.scratch("k", "v")
        z = bloom.scratch("k", "v")

        @bloom.rules
        def derive(self) -> None:
            if source == "tables":
                self.x |= self.tx
                self.y |= self.ty
            self.z |= self.x.group(["k"], bloom.max("v"))
            self.z |= self.y.sort()

    return Example


def schemed(program: bloom.Bloom) -> Scheme:
    return TickEngine(program.wired).scheme


def consequences(graph: Mapping[str, Element], name: str) -> Consequences:
    """All that follows from one collection that loses facts, by itself."""
    return rescan_invalidate_tc(graph, Consequences({name: "it lost facts"}))


def test_the_example_of_the_notes() -> None:
    """If x is invalidated, z asks the sort for a rescan, and the sort does not ask y."""
    graph = schemed(example("scratches")()).elements
    found = consequences(graph, "x")
    assert set(found.invalidate_set) == {"x", "group_1", "z"} | projects(found.invalidate_set)
    assert {"x", "group_1", "z", "sort_1"} <= set(found.rescan_set)
    assert "y" not in found.rescan_set


def projects(names: object) -> set[str]:
    return {name for name in names if name.startswith("project")}  # type: ignore[attr-defined]


def test_the_example_runs_and_y_is_not_scanned() -> None:
    program = example("tables")(repair="never", safe=False)
    program.insert("tx", [(1, 1), (1, 5), (2, 3)])
    program.insert("ty", [(7, 7), (8, 8)])
    program.tick()
    assert program["z"].rows() == [(1, 5), (2, 3), (7, 7), (8, 8)]
    program.delete("tx", [(1, 5)])
    program.tick()
    assert program["z"].rows() == [(1, 1), (2, 3), (7, 7), (8, 8)]
    scans = program.stats.scans
    assert set(program.stats.rebuilt) == {"x", "group_1", "z"}
    assert scans["x"] == scans["tx"] == scans["group_1"] == scans["sort_1"] == 1
    assert "y" not in scans
    assert "ty" not in scans


def test_the_example_is_repaired_where_that_is_less_work() -> None:
    program = example("tables")(safe=False)
    program.insert("tx", [(1, 1), (1, 5), *((i, i) for i in range(10, 60))])
    program.insert("ty", [(7, 7), (8, 8)])
    program.tick()
    program.delete("tx", [(1, 5)])
    program.tick()
    assert (1, 1) in program["z"]
    assert program.stats.rebuilt == ()
    assert set(program.stats.repaired) == {"x", "group_1", "z"}
    assert program.stats.scans == {}
    assert "z: repaired by what changed, or rebuilt where that is less to go through; " in (
        text := program.explain("ticks")
    )
    assert "repaired 1 times, rebuilt 1 times so far" in text
    assert program.stats.elements["z"] == (1, 0, 1, 1)


def test_safe_rebuilds_everything_in_every_tick() -> None:
    program = example("tables")(safe=True)
    program.tick(2)
    assert set(program.stats.rebuilt) == {"x", "y", "z", "group_1", "sort_1"}
    assert "mode: safe" in program.explain("ticks")


def test_the_environment_makes_it_safe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALADAN_SAFE", "1")
    program = example("tables")()
    program.tick(2)
    assert "y" in program.stats.rebuilt
    monkeypatch.setenv("CALADAN_SAFE", "0")
    assert "mode: lazy" in example("tables")().explain("ticks")


def test_source_scratches_are_the_start_and_tables_keep_what_they_have() -> None:
    found = schemed(bloom.program(
        "input i(a).\nscratch s(a).\ntable t(a).\nscratch r(a).\n"
        "s(X) <- i(X).\nt(X) <- s(X).\nr(X) <- t(X)."
    ))  # fmt: skip
    assert {"i", "s"} <= found.default_invalidate
    assert not {"t", "r"} & found.default_invalidate
    assert found.default.invalidate_set["i"] == "a source scratch, which every tick empties"
    assert found.default_rescan >= {"i", "s", "project(1)"}
    more = found.scanners["t"]
    assert set(more.invalidate_set) == {"t", "r"}
    assert set(more.rescan_set) >= {"t", "r", "project(3)"}
    assert "s" not in more.rescan_set, "an element of the default set is not listed again"


def test_a_stateless_element_passes_a_rescan_on_in_both_directions() -> None:
    graph = schemed(bloom.program(
        "scratch a(x).\nscratch b(x).\nscratch c(x).\nc(X) <- a(X).\nc(X) <- b(X)."
    )).elements  # fmt: skip
    found = consequences(graph, "a")
    assert set(found.invalidate_set) == {"a", "c"}
    assert set(found.rescan_set) == {"a", "c", "project(1)", "project(2)", "b"}
    assert found.rescan_set["project(2)"] == "c is rebuilt from it"


def test_a_join_asks_no_side_for_what_it_has() -> None:
    graph = schemed(bloom.program(
        "input get(k).\ntable t(k, v).\noutput r(k, v).\nr(K, V) <- get(K), t(K, V)."
    )).elements  # fmt: skip
    found = consequences(graph, "get")
    assert set(found.invalidate_set) == {"get", "join(1)", "r"}
    assert "t" not in found.rescan_set


def test_only_what_was_really_lost_invalidates() -> None:
    program = bloom.program(
        "table t(a, b).\nscratch s(a, b).\ns(A, B) <- t(A, B).", repair="never", safe=False
    )
    program.insert("t", [(1, 1), (2, 2)])
    program.tick()
    program.delete("t", [(3, 3), (1, 2)])  # hits nothing
    program.tick()
    assert program.stats.rebuilt == ()
    program.insert("t", [(1, 1)])
    program.delete("t", [(1, 1)])  # an insert beats a delete of the same fact
    program.tick()
    assert program.stats.rebuilt == ()
    assert program["s"].rows() == [(1, 1), (2, 2)]
    program.delete("t", [(1, 1)])
    program.tick()
    assert program.stats.rebuilt == ("s",)
    assert program["s"].rows() == [(2, 2)]


@pytest.mark.parametrize("repair", ["auto", "never"])
def test_ordinals_move_up_when_a_fact_leaves(repair: bloom.Repair) -> None:
    class Numbered(bloom.Bloom):
        t = bloom.table("v")
        out = bloom.scratch("v", "i")

        @bloom.rules
        def number(self) -> None:
            self.out |= self.t.each_with_index("v")

    program = Numbered(repair=repair)
    program.insert("t", [("b",), ("a",), ("c",)])
    assert program.tick()["out"].rows() == [("a", 0), ("b", 1), ("c", 2)]
    program.delete("t", [("a",)])
    assert program.tick()["out"].rows() == [("b", 0), ("c", 1)]


@pytest.mark.parametrize("repair", ["auto", "never"])
def test_groups_and_argmax_over_a_table_that_lost_a_fact(repair: bloom.Repair) -> None:
    class Grouped(bloom.Bloom):
        t = bloom.table("k", "v")
        most = bloom.scratch("k", to="v")
        rows = bloom.scratch("k", "v")
        some = bloom.scratch("k", to=["n", "total", "mean", "all_", "one"])

        @bloom.rules
        def aggregate(self) -> None:
            self.most |= self.t.group(["k"], bloom.max("v"))
            self.rows |= self.t.argmax(["k"], "v")
            self.some |= self.t.group(
                ["k"], bloom.count(), bloom.sum("v"), bloom.avg("v"), bloom.accum("v"),
                bloom.choose("v"),
            )  # fmt: skip

    program = Grouped(repair=repair)
    program.insert("t", [("a", 1), ("a", 9), ("b", 2)])
    program.tick()
    program.delete("t", [("a", 9), ("b", 2)])
    program.tick()
    assert program["most"].rows() == [("a", 1)]
    assert program["rows"].rows() == [("a", 1)]
    assert program["some"].rows() == [("a", 1, 1, 1.0, frozenset({1}), 1)]


@pytest.mark.parametrize("repair", ["auto", "never"])
def test_a_table_that_several_strata_read(repair: bloom.Repair) -> None:
    program = bloom.program(
        "table t(a, b).\nscratch p(a, b).\nscratch n(a => c).\nscratch q(a, c).\n"
        "p(A, B) <- t(A, B).\np(A, C) <- p(A, B), t(B, C).\nn(A, count<_>) <- p(A, B).\n"
        "q(A, C) <- n(A, C), t(A, _), ~t(_, A).",
        repair=repair,
    )
    assert program.strata == {"t": 0, "p": 0, "n": 1, "q": 1}
    program.insert("t", [(1, 2), (2, 3), (3, 4)])
    assert program.tick()["q"].rows() == [(1, 3)]
    program.delete("t", [(1, 2)])
    assert program.tick()["q"].rows() == [(2, 2)]
    program.insert("t", [(0, 2)])
    assert program.tick()["q"].rows() == [(0, 3)]


@pytest.mark.parametrize("repair", ["auto", "never"])
def test_a_join_of_which_one_side_lost_a_fact(repair: bloom.Repair) -> None:
    program = bloom.program(
        "table l(k, v).\ntable r(k, w).\ninput i(k).\nscratch j(v, w).\nscratch ji(v, w).\n"
        "j(V, W) <- l(K, V), r(K, W).\nji(V, W) <- i(K), l(K, V), r(K, W).",
        repair=repair,
    )
    program.insert("l", [(1, "a"), (2, "b")])
    program.insert("r", [(1, "x"), (1, "y"), (2, "z")])
    program.insert("i", [(1,)])
    assert program.tick()["j"].rows() == [("a", "x"), ("a", "y"), ("b", "z")]
    assert program["ji"].rows() == [("a", "x"), ("a", "y")]
    program.delete("r", [(1, "x")])
    assert program.tick()["j"].rows() == [("a", "y"), ("b", "z")]
    assert program["ji"].rows() == []
    program.insert("i", [(1,), (2,)])
    assert program.tick()["ji"].rows() == [("a", "y"), ("b", "z")]


def test_explain_prints_elements_sets_and_why() -> None:
    text = example("tables")().explain("ticks")
    assert "sort_1  [sort, stateful] -> project(6)" in text
    assert "besides, if tx loses facts" in text
    assert "group_1: x rescans" in text
    assert "sort_1: project(6) is rebuilt from it" in text


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_every_program_of_the_suite_explains_all_its_stages(name: str) -> None:
    if name.startswith("unstratifiable"):
        return
    text = PROGRAMS[name]()().explain()
    headings = [line for line in text.splitlines() if line.startswith("== ")]
    assert headings == [
        "== Collections ==",
        "== Bloom Rules ==",
        "== PCG Tree ==",
        "== Operator Program ==",
        "== Delta Rules ==",
        "== Invalidation and Rescan ==",
        "== CALM Report ==",
    ]


def test_stages_of_the_store() -> None:
    store = PROGRAMS["kvs_last_put_wins"]()()
    assert "(0.key = 1.key) <JOIN>" in store.explain("operators")
    assert "PCGAndNode(kvstate@upsert_ff_ff(Key_1, Value_1), rule#: 1" in store.explain("pcg")
    assert "@upsert kvstate(Key_1, Value_1) <- kvput(" in store.explain("rules")
    assert "δkvget(Reqid_2, Key_2), kvstate(Key_2, Value_2)   if kvstate" in store.explain("delta")


def test_scans_are_none_while_nothing_is_lost() -> None:
    program = bloom.program(
        "table t(a, b).\nscratch p(a, b).\np(A, B) <- t(A, B).\np(A, C) <- p(A, B), t(B, C)."
    )
    program.insert("t", [(i, i + 1) for i in range(20)])
    program.tick()
    for i in range(20, 25):
        program.insert("t", [(i, i + 1)])
        program.tick()
        assert program.stats.scans == {}
    assert program["p"].count() == 25 * 26 // 2


def test_wiring_needs_no_engine() -> None:
    """Everything is decided without a fact, and without what heavy engines load."""
    script = (
        "import sys; from caladan import bloom\n"
        "bloom.program('table t(a).\\nscratch s(a).\\ns(X) <- t(X).').tick()\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=env
    )
    assert not {"numba", "pyspark", "pandas"} & set(run.stdout.split())


def test_wired_twice_is_wired_the_same() -> None:
    made = example("tables")()
    assert TickEngine(wire(made.recorder)).scheme.default == schemed(made).default


# ── The sets decide ──────────────────────────────────────────────────────────────────────────────

DECISIVE = """
    table t(a, b).
    table u(a, b).
    input i(a, b).
    scratch s(a, b).
    scratch p(a, b).
    scratch n(a, b).
    s(A, B) <- t(A, B).
    s(A, B) <- i(A, B).
    p(A, C) <- s(A, B), u(B, C).
    p(A, B) <- u(A, B).
    n(A, B) <- u(A, B), ~t(A, B).
    table v(a, b).
    table w(a, b).
    scratch q(a, b).
    q(A, C) <- v(A, B), w(B, C).
    q(A, B) <- w(A, B).
"""


def emptied(which: str) -> Callable[[Mapping[str, Element]], Scheme]:
    """What prepares a scheme of which one of the sets is empty."""

    def prepare(graph: Mapping[str, Element]) -> Scheme:
        made = prepare_invalidation_scheme(graph)
        default, scanners = made.default, made.scanners
        none: dict[str, str] = {}
        if which == "default invalidate":
            default = Consequences(none, default.rescan_set)
        if which == "default rescan":
            default = Consequences(default.invalidate_set, none)
        if which == "invalidate":
            scanners = {n: Consequences(none, s.rescan_set) for n, s in scanners.items()}
        if which == "rescan":
            scanners = {n: Consequences(s.invalidate_set, none) for n, s in scanners.items()}
        return Scheme(made.elements, default, scanners)

    return prepare


def answers(repair: bloom.Repair) -> list[dict[str, list[tuple[object, ...]]]]:
    program = bloom.program(DECISIVE, repair=repair, safe=False)
    program.insert("t", [(x, x + 1) for x in range(40)])
    program.insert("u", [(x, x * 2) for x in range(40)])
    program.insert("v", [(x, x + 1) for x in range(40)])
    program.insert("w", [(x, x * 2) for x in range(40)])
    program.tick()
    found: list[dict[str, list[tuple[object, ...]]]] = []
    for tick in range(4):
        program.insert("i", [(tick, 7), (50, 8)])
        program.delete("t", [(tick * 5, tick * 5 + 1)])
        program.tick()
        program.delete("u", [(x, x * 2) for x in range(tick * 9, tick * 9 + 9)])
        program.insert("t", [(60 + x, 0) for x in range(3)])
        program.delete("v", [(tick, tick + 1)])
        program.tick()
        found.append({name: program[name].rows() for name in ("s", "p", "n", "q")})
    program.delete("t", [(x, x + 1) for x in range(40)])  # more than is left
    program.tick()
    found.append({name: program[name].rows() for name in ("s", "p", "n", "q")})
    return found


@pytest.mark.parametrize("repair", ["auto", "never"])
@pytest.mark.parametrize("which", ["", "default invalidate", "default rescan", "invalidate"])
def test_an_emptied_set_gives_a_wrong_answer(
    which: str, repair: bloom.Repair, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answers(repair)
    monkeypatch.setattr(engine, "prepare_invalidation_scheme", emptied(which))
    assert (answers(repair) == expected) == (not which)


def test_an_emptied_rescan_set_gives_a_wrong_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rescan is asked for by what starts over; repairs need none."""
    expected = answers("never")
    monkeypatch.setattr(engine, "prepare_invalidation_scheme", emptied("rescan"))
    assert answers("never") != expected
    assert answers("auto") == expected

    def load(*, is_whole: bool) -> list[tuple[object, ...]]:
        if is_whole:
            monkeypatch.undo()
        program = bloom.program("table t(a).\nscratch s(b).\ns(B) <- t(A), B = A mod 3.")
        program.insert("t", [(x,) for x in range(100)])
        program.tick()
        program.delete("t", [(x,) for x in range(60)])
        program.tick()  # more is gone than is left: what is left is gone through
        assert program.stats.rebuilt == ("s",)
        return program["s"].rows()

    assert load(is_whole=False) == []
    assert load(is_whole=True) == [(0,), (1,), (2,)]


def test_safe_mode_does_not_look_at_the_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = answers("auto")
    monkeypatch.setenv("CALADAN_SAFE", "1")
    for which in ("default invalidate", "default rescan", "invalidate", "rescan"):
        monkeypatch.setattr(engine, "prepare_invalidation_scheme", emptied(which))
        program = bloom.program(DECISIVE)
        program.insert("t", [(1, 2)])
        program.insert("i", [(3, 4)])
        assert program.tick()["s"].rows() == [(1, 2), (3, 4)]
        program.delete("t", [(1, 2)])
        assert program.tick()["s"].rows() == []
    assert expected


def test_stats_count_by_element_what_was_done() -> None:
    program = bloom.program(DECISIVE, safe=False)
    program.insert("t", [(1, 2), (2, 3)])
    program.insert("u", [(2, 5)])
    program.tick()
    before = program.stats.elements
    program.delete("t", [(1, 2)])
    program.tick()
    after = program.stats.elements
    assert after["s"].invalidated == before["s"].invalidated + 1
    assert after["s"].repaired == before["s"].repaired + 1
    assert after["s"].rebuilt == before["s"].rebuilt
    assert after["t"].rescanned == before["t"].rescanned


# ── Without storage ──────────────────────────────────────────────────────────────────────────────


def test_a_join_with_an_input_has_one_term() -> None:
    store = PROGRAMS["kvs_last_put_wins"]()()
    terms = [line for line in store.explain("delta").splitlines() if line.startswith("Δkvget_resp")]
    assert len(terms) == 1
    assert "δkvget(" in terms[0]
    assert "  no other term: kvget has no storage" in store.explain("delta")


def test_what_an_input_derives_is_cleared_and_not_joined_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = bloom.program(
        "input i(k).\ntable t(k, v).\noutput o(v).\no(V) <- i(K), t(K, V).", safe=False
    )
    program.insert("t", [(1, "a"), (1, "b"), (2, "c")])
    program.tick()
    runs: list[object] = []
    run = Plan.run
    monkeypatch.setattr(Plan, "run", lambda self, given: (runs.append(self), run(self, given))[1])
    program.insert("i", [(1,)])
    assert program.tick()["o"].rows() == [("a",), ("b",)]
    assert len(runs) == 1
    assert program.tick()["o"].rows() == []
    assert len(runs) <= 2, "the join is not run for what is gone"
    program.insert("i", [(1,)])
    program.tick()
    program.insert("i", [(1,)])
    program.insert("t", [(1, "d")])
    assert program.tick()["o"].rows() == [("a",), ("b",), ("d",)], "the same request, a new fact"


def test_timers_stand_first() -> None:
    class Clocked(bloom.Bloom):
        i = bloom.input("k")
        every = bloom.periodic(1.0)
        t = bloom.table("k", "v")
        out = bloom.scratch("k", "v", "n")

        @bloom.rules
        def derive(self) -> None:
            both = (self.i * self.t * self.every).pairs("k")
            self.out |= both.project(self.i.k, self.t.v, self.every.number)

    (line,) = [x for x in Clocked().explain("delta").splitlines() if x.startswith("Δout")]
    assert line.index("δevery") < line.index(" i(") < line.index(" t(")


def test_a_self_join_shares_one_extent() -> None:
    text = "table e(a, b).\nscratch p(a, c).\np(A, C) <- e(A, B), e(B, C)."
    program = bloom.program(text)
    assert set(program.stats.elements) == set()
    program.insert("e", [(1, 2), (2, 3)])
    assert program.tick()["p"].rows() == [(1, 3)]
    assert set(program.stats.elements) == {"e", "p", "join(1)"}
    program.insert("e", [(3, 4)])
    program.delete("e", [(1, 2)])
    assert program.tick()["p"].rows() == [(2, 4)]
    assert "e(B, C) before" in program.explain("delta")


def test_an_outer_join_evaluates_its_join_once() -> None:
    class Outer(bloom.Bloom):
        t = bloom.table("k", "v")
        u = bloom.table("k", "w")
        out = bloom.scratch("k", "v", "w")

        @bloom.rules
        def derive(self) -> None:
            found = (self.t * self.u).outer("k")
            self.out |= found.project(self.t.k, self.t.v, self.u.w)

    program = Outer()
    joins = [line for line in program.explain("ticks").splitlines() if "[join" in line]
    assert len(joins) == 2, "the join, and what has no partner in it"
    program.insert("t", [(1, "a"), (2, "b")])
    program.insert("u", [(1, "x"), (1, "y")])
    assert program.tick()["out"].rows() == [(1, "a", "x"), (1, "a", "y"), (2, "b", None)]


def test_more_than_the_key_uses_the_key() -> None:
    program = bloom.program(
        "input i(k, v).\ntable t(k => v).\noutput o(k).\noutput n(k).\n"
        "o(K) <- i(K, V), t(K, V).\nn(K) <- i(K, V), ~t(K, V)."
    )
    program.insert("t", [(k, k) for k in range(10)])
    program.insert("i", [(1, 1), (2, 3), (99, 0)])
    program.tick()
    assert (program["o"].rows(), program["n"].rows()) == ([(1,)], [(2,), (99,)])
    assert program._engine.extents["t"].indexes == {}
