"""Operators of streams, one by one: what they derive, in every mode."""

from collections.abc import Callable
from typing import Any

import pytest

from caladan import CaladanError, bloom

Rows = list[tuple[Any, ...]]
T: Rows = [(1, "a"), (2, "b"), (3, "b")]
U: Rows = [("a", 10), ("b", 20), ("z", 30)]


def derived(
    right: Callable[[Any], object], width: int, t: Rows = T, u: Rows = U, **options: Any
) -> Rows:
    class Program(bloom.Bloom):
        t = bloom.table("k", "v")
        u = bloom.table("v", "value")
        out = bloom.scratch(*(f"c{i}" for i in range(width)))

        @bloom.rules
        def derive(self) -> None:
            self.out |= right(self)

    program = Program(**options)
    program.insert("t", t)
    program.insert("u", u)
    first = program.tick()["out"].rows()
    program.insert("t", [(0, "q")])
    program.tick()
    program.delete("t", [(0, "q")])
    assert program.tick()["out"].rows() == first, "what came and went leaves no trace"
    return first


CASES: dict[str, tuple[Callable[[Any], object], int, Rows]] = {
    "project": (lambda m: m.t.project("v", m.t.k * 10), 2, [("a", 10), ("b", 20), ("b", 30)]),
    "named": (lambda m: m.t.project(x=m.t.k - 1).project("x"), 1, [(0,), (1,), (2,)]),
    "where": (lambda m: m.t.where((m.t.k > 1) & (m.t.v == "b"), lambda r: r.k != 3), 2, [(2, "b")]),
    "or": (lambda m: m.t.where((m.t.k == 1) | (m.t.k == 3)), 2, [(1, "a"), (3, "b")]),
    "not": (lambda m: m.t.where(~(m.t.k == 1)), 2, [(2, "b"), (3, "b")]),
    "map": (
        lambda m: m.t.map(lambda r: (r.k, r.v * 2) if r.k < 3 else None),
        2,
        [(1, "aa"), (2, "bb")],
    ),
    "map of a join": (
        lambda m: (m.t * m.u).pairs("v").map(lambda t, u: (t.k, u.value)),
        2,
        [(1, 10), (2, 20), (3, 20)],
    ),
    "flat_map": (
        lambda m: m.t.flat_map(lambda r: [(r.k, i) for i in range(r.k)], "a", "b"),
        2,
        [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)],
    ),
    "pairs": (
        lambda m: (m.t * m.u).pairs("v").project("k", "value"),
        2,
        [(1, 10), (2, 20), (3, 20)],
    ),
    "pairs by other names": (
        lambda m: (m.t * m.u.project(w="v", x="value")).pairs(v="w").project("k", "x"),
        2,
        [(1, 10), (2, 20), (3, 20)],
    ),
    "pairs by an expression": (
        lambda m: (m.t * m.u).pairs(m.t.k * 10 == m.u.value).project("k", "value"),
        2,
        [(1, 10), (2, 20), (3, 30)],
    ),
    "matches": (
        lambda m: (m.t * m.u).matches().project("k", "value"),
        2,
        [(1, 10), (2, 20), (3, 20)],
    ),
    "cross": (
        lambda m: (m.t * m.u).where(m.t.k == 1).project("k", "value"),
        2,
        [(1, 10), (1, 20), (1, 30)],
    ),
    "lefts": (lambda m: (m.t * m.u).lefts("v"), 2, [(1, "a"), (2, "b"), (3, "b")]),
    "rights": (lambda m: (m.t * m.u).rights("v"), 2, [("a", 10), ("b", 20)]),
    "flatten": (
        lambda m: (m.t * m.u).pairs("v").flatten().project("k", "v_2", "value"),
        3,
        [(1, "a", 10), (2, "b", 20), (3, "b", 20)],
    ),
    "outer": (
        lambda m: (m.u * m.t).outer("v").project("v", "k"),
        2,
        [("a", 1), ("b", 2), ("b", 3), ("z", None)],
    ),
    "self-join": (lambda m: self_join(m), 2, [(2, 3)]),
    "three ways": (
        lambda m: three(m),
        3,
        [(1, 1, 10), (2, 2, 20), (2, 3, 20), (3, 2, 20), (3, 3, 20)],
    ),
    "exists": (lambda m: m.u.exists(m.t, "v"), 2, [("a", 10), ("b", 20)]),
    "notin": (lambda m: m.u.notin(m.t, "v"), 2, [("z", 30)]),
    "notin of a stream": (
        lambda m: m.u.notin(m.t.where(m.t.k > 1), "v"),
        2,
        [("a", 10), ("z", 30)],
    ),
    "notin where": (lambda m: m.t.notin(m.u, where=lambda t, u: t.k * 10 < u.value), 2, [(3, "b")]),
    "group": (
        lambda m: m.t.group(["v"], bloom.max("k"), n=bloom.count()),
        3,
        [("a", 1, 1), ("b", 3, 2)],
    ),
    "group of nothing": (lambda m: m.t.where(m.t.k > 9).group([], bloom.sum("k")), 1, []),
    "distinct": (lambda m: m.t.group(["v"]), 1, [("a",), ("b",)]),
    "having": (lambda m: having(m), 2, [("b", 5)]),
    "booleans": (lambda m: flags(m), 3, [("a", False, False), ("b", True, False)]),
    "accum": (
        lambda m: m.t.group([], bloom.accum("v"), bloom.choose("k")),
        2,
        [(frozenset("ab"), 1)],
    ),
    "accum_pair": (
        lambda m: m.t.where(m.t.k < 2).group([], bloom.accum_pair("k", "v")),
        1,
        [(frozenset({(1, "a")}),)],
    ),
    "argmin": (lambda m: m.t.argmin(["v"], "k"), 2, [(1, "a"), (2, "b")]),
    "argmax": (lambda m: m.t.argmax(["v"], "k"), 2, [(1, "a"), (3, "b")]),
    "reduce": (lambda m: m.t.reduce(0, lambda total, r: total + r.k), 1, [(6,)]),
    "reduce by": (lambda m: m.t.reduce(0, lambda n, r: n + r.k, by="v"), 2, [("a", 1), ("b", 5)]),
    "sort": (lambda m: m.t.sort(), 2, T),
    "each_with_index": (
        lambda m: m.t.each_with_index("v", reverse=True).project("k", "index"),
        2,
        [(1, 2), (2, 1), (3, 0)],
    ),
    "sorted by a column": (
        lambda m: m.t.sort("v", reverse=True).each_with_index().project("k", "index"),
        2,
        [(1, 2), (2, 1), (3, 0)],
    ),
    "sorted by a function": (
        lambda m: m.u.sort(key=lambda r: -r.value).each_with_index(name="i").project("v", "i"),
        2,
        [("a", 2), ("b", 1), ("z", 0)],
    ),
    "numbered join": (
        lambda m: (m.t * m.u).pairs("v").each_with_index("value").project("k", "index"),
        2,
        [(1, 0), (2, 1), (3, 2)],
    ),
    "flatten on": (
        lambda m: (m.t * m.u).flatten("v").project("k", "v_2"),
        2,
        [(1, "a"), (2, "b"), (3, "b")],
    ),
    "keys": (lambda m: m.t.keys(), 2, T),
    "include": (lambda m: m.t.where(m.u.include(m.t.v, m.t.k * 10)), 2, [(1, "a"), (2, "b")]),
    "not include": (lambda m: m.t.where(~m.u.include(m.t.v, m.t.k * 10)), 2, [(3, "b")]),
    "include in a stream": (
        lambda m: m.t.where(m.u.where(m.u.value > 10).project("v").include(m.t.v)),
        2,
        [(2, "b"), (3, "b")],
    ),
    "has_key": (lambda m: m.u.where(m.t.has_key(1, m.u.v)), 2, [("a", 10)]),
    "where exists": (lambda m: m.t.where(m.t.k > 1, m.u.exists()), 2, [(2, "b"), (3, "b")]),
    "where none exists": (
        lambda m: m.t.where(~m.u.where(m.u.value > 30).exists() & (m.t.k < 2)),
        2,
        [(1, "a")],
    ),
    "exists where": (
        lambda m: m.t.exists(m.u, where=lambda t, u: t.k * 10 > u.value),
        2,
        [(2, "b"), (3, "b")],
    ),
    "rename": (lambda m: m.t.rename("a", "b").where(lambda r: r.a > 2).project("b"), 1, [("b",)]),
    "rename one": (
        lambda m: (m.t * m.u.rename(v="w")).pairs(v="w").project("k", "w"),
        2,
        [(1, "a"), (2, "b"), (3, "b")],
    ),
    "inspected": (lambda m: m.t.where(m.t.k == 1).inspected(), 1, [("(1, 'a')",)]),
    "group by expressions": (
        lambda m: m.t.group([m.t.k % 2], bloom.sum(m.t.k * 10), bloom.max(m.t.v)),
        3,
        [(0, 20, "b"), (1, 40, "b")],
    ),
    "group of a join by its columns": (
        lambda m: (m.t * m.u).pairs("v").group([m.u.v], bloom.sum(m.t.k)),
        2,
        [("a", 1), ("b", 5)],
    ),
    "argagg": (lambda m: m.t.argagg("min", [], m.t.k), 2, [(1, "a")]),
    "argmax by an expression": (lambda m: m.t.argmax([m.t.v], 0 - m.t.k), 2, [(1, "a"), (2, "b")]),
    "argmax of a join": (
        lambda m: (m.t * m.u).pairs("v").argmax([], "value").project(m.t.k, m.u.value),
        2,
        [(2, 20), (3, 20)],
    ),
    "columns after a sort": (
        lambda m: m.t.sort().where(m.t.k > 1).project(m.t.v, m.t.k),
        2,
        [("b", 2), ("b", 3)],
    ),
    "reduce to a row": (
        lambda m: m.t.reduce((0, ""), lambda so, r: (so[0] + r.k, max(so[1], r.v))),
        2,
        [(6, "b")],
    ),
    "reduce of a join": (
        lambda m: (m.t * m.u).pairs("v").reduce(0, lambda n, r: n + r.value),
        1,
        [(50,)],
    ),
    "notin by a condition": (lambda m: m.t.notin(m.u, m.t.k * 10 == m.u.value, "v"), 2, [(3, "b")]),
    "notin by a function": (
        lambda m: m.t.notin(m.u, lambda t, u: t.v == u.v and u.value > 10),
        2,
        [(1, "a")],
    ),
    "notin of a join": (
        lambda m: (m.t * m.u).lefts("v").notin(m.t.where(m.t.k == 2)),
        2,
        [(1, "a"), (3, "b")],
    ),
    "outer with rows": (
        lambda m: (m.u * m.t).outer("v").map(lambda u, t: (u.v, t.k, t.v)),
        3,
        [("a", 1, "a"), ("b", 2, "b"), ("b", 3, "b"), ("z", None, None)],
    ),
    "outer with columns": (
        lambda m: (
            (m.u * m.t).outer(m.u.v == m.t.v).project(m.u.v, m.t.k).where(lambda r: r.k is None)
        ),
        2,
        [("z", None)],
    ),
    "a function of the whole row": (
        lambda m: (m.t * m.u).pairs("v").map(lambda r: (r.k, r.v_2, r.value)),
        3,
        [(1, "a", 10), (2, "b", 20), (3, "b", 20)],
    ),
    "a join on one of two": (
        lambda m: (
            (m.t * m.u).pairs((m.t.v == m.u.v) | (m.t.k * 10 == m.u.value)).project("k", "value")
        ),
        2,
        [(1, 10), (2, 20), (3, 20), (3, 30)],
    ),
    "mixed conditions": (
        lambda m: m.t.where(((m.t.k == 1) | (m.t.v == "b")) & ((m.t.k > 2) | (m.t.v == "a"))),
        2,
        [(1, "a"), (3, "b")],
    ),
    "a dict": (lambda m: {1: "x"}, 2, [(1, "x")]),
    "a generator": (lambda m: ((i,) for i in range(2)), 1, [(0,), (1,)]),
    "padded": (lambda m: m.t.project("k", None), 2, [(1, None), (2, None), (3, None)]),
    "temp": (lambda m: m.temp("held", m.t.where(m.t.k > 2)).project("v"), 1, [("b",)]),
    "constants": (lambda m: [(1, "x"), (2, "y")], 2, [(1, "x"), (2, "y")]),
    "function": (
        lambda m: m.t.project("k", bloom.fn(str.upper)(m.t.v)),
        2,
        [(1, "A"), (2, "B"), (3, "B")],
    ),
}


def self_join(m: Any) -> object:
    other = m.t.alias()
    return (m.t * other).pairs("v").where(m.t.k < other.k).project(m.t.k, other.k)


def three(m: Any) -> object:
    other = m.t.alias()
    return (m.t * m.u * other).combos("v").project(m.t.k, other.k, "value")


def having(m: Any) -> object:
    sums = m.t.group(["v"], value=bloom.sum("k"))
    return sums.where(sums.value > 1)


def flags(m: Any) -> object:
    odd = m.t.project("v", large=m.t.k > 1, small=m.t.k < 1)
    return odd.group(["v"], bloom.bool_and("large"), bloom.bool_or("small"))


@pytest.mark.parametrize(
    "options", [{}, {"repair": "never"}, {"safe": True}], ids=["lazy", "rescan", "safe"]
)
@pytest.mark.parametrize("name", CASES)
def test_operator(name: str, options: dict[str, Any]) -> None:
    right, width, expected = CASES[name]
    assert derived(right, width, **options) == expected


def test_a_lattice_lets_facts_out_once_it_is_true() -> None:
    class Gate(bloom.Bloom):
        count = bloom.lmax()
        is_open = bloom.lbool()
        out = bloom.scratch("what")
        t = bloom.table("k")
        passed = bloom.scratch("k")

        @bloom.rules
        def gate(self) -> None:
            self.is_open |= self.count >= 3
            self.out |= self.is_open.when_true([("go",)])
            self.passed |= self.t.where(self.is_open)

    gate = Gate()
    gate.insert("t", [(1,)])
    gate.insert("count", [1])
    gate.tick()
    assert gate["out"].rows() == gate["passed"].rows() == []
    gate.insert("count", [3])
    assert gate.tick()["out"].rows() == [("go",)]
    assert gate["passed"].rows() == [(1,)]
    assert gate.strata["out"] == 0


def test_names_that_columns_may_have() -> None:
    """Nothing that streams are made of takes the name of a column."""

    class Named(bloom.Bloom):
        t = bloom.table("value", "row", "columns", "parts", "count", "from")
        out = bloom.scratch("a", "b")

        @bloom.rules
        def derive(self) -> None:
            kept = self.t.where(self.t.value > 0)
            self.out |= kept.project(kept.value + kept.row, kept.columns + kept.parts)
            self.out |= kept.project(kept["count"], "from")

    named = Named()
    named.insert("t", [(1, 2, 3, 4, 5, 6)])
    assert named.tick()["out"].rows() == [(3, 7), (5, 6)]


def test_a_program_that_imports_includes_and_overrides() -> None:
    class Counter(bloom.Module):
        event = bloom.input("name")
        seen = bloom.table("name")

        @bloom.bootstrap
        def start(self) -> None:
            self.seen |= [("start",)]

        @bloom.rules
        def note(self) -> None:
            self.seen |= self.event

    class Louder(Counter):
        @bloom.rules
        def note(self) -> None:
            super().note()
            self.seen |= self.event.project(bloom.fn(str.upper)(self.event.name))

    class Both(bloom.Bloom):
        quiet = bloom.imports(Counter)
        loud = bloom.imports(Louder)
        all_seen = bloom.scratch("name")

        @bloom.rules
        def collect(self) -> None:
            self.all_seen |= self.quiet.seen
            self.all_seen |= self.loud.seen

    both = Both()
    both.insert("loud.event", [("a",)])
    both.insert("quiet.event", [("b",)])
    both.tick()
    assert both["loud.seen"].rows() == [("A",), ("a",), ("start",)]
    assert both["quiet.seen"].rows() == [("b",), ("start",)]
    assert both["all_seen"].count() == 4


class Store(bloom.Module):
    put = bloom.input("key", "value")
    get = bloom.input("key")
    answer = bloom.output("key", to="value")
    state = bloom.table("key", to="value")

    @bloom.rules
    def store(self) -> None:
        self.state <<= self.put

    @bloom.rules
    def find(self) -> None:
        self.answer |= (self.get * self.state).rights("key")


@pytest.mark.parametrize("safe", [False, True])
def test_interfaces_are_there_for_other_modules(safe: bool) -> None:
    """Who imports a module feeds its inputs and reads its outputs; each copy has its own state."""

    class Twice(bloom.Bloom):
        plain = bloom.imports(Store)
        tenfold = bloom.imports(Store)
        write = bloom.input("key", "value")
        ask = bloom.input("key")
        both = bloom.output("key", "value", "more")

        @bloom.rules
        def pass_on(self) -> None:
            self.plain.put |= self.write
            self.tenfold.put |= self.write.project("key", self.write.value * 10)
            self.plain.get |= self.ask
            self.tenfold.get += self.ask
            self.tenfold.get |= self.ask
            one, ten = self.plain.answer, self.tenfold.answer
            self.both |= (one * ten).pairs("key").project(one.key, one.value, ten.value)

    twice = Twice(safe=safe)
    twice.insert("write", [("a", 1)])
    twice.tick()
    twice.insert("ask", [("a",)])
    assert twice.tick()["both"].rows() == [("a", 1, 10)]
    assert twice.tick()["tenfold.answer"].rows() == [("a", 10)]
    assert twice["both"].rows() == []
    assert twice["plain.state"].rows() == [("a", 1)]
    assert "plain.put" not in twice.explain("calm").partition("coordination")[2]


def test_who_includes_a_module_uses_its_interfaces_too() -> None:
    class Cached(bloom.Bloom, Store):
        request = bloom.input("key")
        reply = bloom.scratch("key", "value")

        @bloom.rules
        def serve(self) -> None:
            self.get |= self.request
            self.reply |= self.answer

    cached = Cached()
    cached.insert("state", [("a", 1)])
    cached.insert("request", [("a",)])
    assert cached.tick()["reply"].rows() == [("a", 1)]


@pytest.mark.parametrize("code", ["C071", "C072"])
def test_a_module_does_not_use_its_own_interfaces_the_wrong_way_round(code: str) -> None:
    class Wrong(bloom.Module):
        came = bloom.input("key")
        went = bloom.output("key")
        kept = bloom.table("key")

        @bloom.rules
        def derive(self) -> None:
            if code == "C071":
                self.came |= self.kept
            else:
                self.kept |= self.went

    class Outer(bloom.Bloom):
        inner = bloom.imports(Wrong)

    with pytest.raises(CaladanError, match=code):
        Outer()


def test_rules_know_the_address_of_the_instance() -> None:
    class Ping(bloom.Bloom):
        start = bloom.input("to")
        ball = bloom.channel("@to", "sender", "number")
        got = bloom.table("sender", "number")

        @bloom.rules
        def play(self) -> None:
            ball = self.ball
            self.ball @= self.start.project("to", bloom.const(self.address), bloom.const(1))
            back = ball.where(ball.number < 4)
            self.ball @= back.project(ball.sender, bloom.const(self.address), ball.number + 1)
            self.got |= ball.payloads

    network = bloom.Network()
    one, other = Ping(network=network), Ping(network=network, address="there")
    assert one.address != "there"
    one.insert("start", [("there",)])
    for _ in range(6):
        one.tick()
        other.tick()
    assert one["got"].rows() == [("there", 2), ("there", 4)]
    assert other["got"].rows() == [(one.address, 1), (one.address, 3)]


def test_a_collection_cannot_be_called_like_a_method() -> None:
    made = type("Wrong", (bloom.Bloom,), {"tick": bloom.table()})
    with pytest.raises(CaladanError, match="instances have a method"):
        made()


@pytest.mark.parametrize("mode", [{}, {"repair": "never"}, {"safe": True}])
def test_a_fold_over_a_dict_gives_a_row_for_each_pair(mode: dict[str, Any]) -> None:
    class Summed(bloom.Bloom):
        t = bloom.table("k", "v")
        sums = bloom.scratch("k", to="n")
        by = bloom.scratch("v", "k", "n")
        pairs = bloom.lset()
        counts = bloom.lmap()

        @bloom.rules
        def derive(self) -> None:
            def add(sums: dict[str, int], row: Any) -> dict[str, int]:
                return {**sums, row.k: sums.get(row.k, 0) + row.v}

            def count(counts: dict[str, int], row: Any) -> None:
                counts[row.k] = counts.get(row.k, 0) + 1

            self.sums |= self.t.reduce({}, add)
            self.by |= self.t.reduce({}, count, by=["v"])
            self.pairs |= self.t
            self.counts |= self.pairs.group_count([0])

    program = Summed(**mode)
    assert program.tick()["sums"].rows() == []
    program.insert("t", [("a", 1), ("a", 2), ("b", 1)])
    assert program.tick()["sums"].rows() == [("a", 3), ("b", 1)]
    assert program["by"].rows() == [(1, "a", 1), (1, "b", 1), (2, "a", 1)]
    program.delete("t", [("a", 2)])
    assert program.tick()["sums"].rows() == [("a", 1), ("b", 1)]
    assert program.value("counts") == {("a",): 2, ("b",): 1}
