"""Invalidation and rescan: every rule of the negotiation, the sets, and what ticks do with them."""

import os
import subprocess
import sys
from collections.abc import Mapping

import pytest
from tests.ticks.programs import PROGRAMS

from caladan import bloom
from caladan.ticks.invalidation import (
    Consequences,
    Element,
    Scheme,
    prepare_invalidation_scheme,
    rescan_invalidate_tc,
)
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
    return prepare_invalidation_scheme(program.wired)


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
    assert "z: repaired 1 times, rebuilt 1 times so far" in program.explain("ticks")


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
    assert prepare_invalidation_scheme(wire(made.recorder)).default == schemed(made).default
