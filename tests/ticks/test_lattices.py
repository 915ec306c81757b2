"""Lattices: laws, monotone functions and morphisms, user-defined ones, tables with them."""

import random

import pytest
from hypothesis import given, settings, strategies as st

from caladan import CaladanError, bloom
from caladan.bloom import LBag, LBool, LMap, LMax, LMin, LPSet, LSet

small = st.integers(-3, 3)
VALUES = {
    LMax: small,
    LMin: small,
    LBool: st.booleans(),
    LSet: st.frozensets(small, max_size=3),
    LPSet: st.frozensets(st.integers(0, 4), max_size=3),
    LBag: st.dictionaries(small, st.integers(1, 3), max_size=3),
    LMap: st.dictionaries(small, small.map(LMax), max_size=3),
}


@pytest.mark.parametrize("lattice", VALUES, ids=lambda each: each.word)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_laws(lattice: type[bloom.Lattice], data: st.DataObject) -> None:
    bloom.check_lattice(lattice, data.draw(st.lists(VALUES[lattice], max_size=4)))


MORPHISMS = {
    "map": (LSet, lambda s: s.map(abs)),
    "filter": (LSet, lambda s: s.filter(lambda i: i > 0)),
    "intersect": (LSet, lambda s: s.intersect({1, 2})),
    "product": (LSet, lambda s: s.product({1, 2})),
    "keys": (LMap, lambda m: m.keys()),
    "at": (LMap, lambda m: m.at(1, LMax())),
    "at a bottom": (LMap, lambda m: m.at(1, LMax)),
    "map with gaps": (LSet, lambda s: s.map(lambda i: i if i > 0 else None)),
    "eqjoin": (LSet, lambda s: s.map(lambda i: (i, i)).eqjoin(LSet([(1, 1), (2, 1)]), {0: 1})),
    "+": (LMax, lambda m: m + 3),
    "bag intersect": (LBag, lambda b: b.intersect(LBag({1: 2}))),
}
MONOTONE = {
    "size": (LSet, lambda s: s.size()),
    "contains": (LSet, lambda s: s.contains(1)),
    "pos_sum": (LPSet, lambda s: s.pos_sum()),
    "threshold": (LMax, lambda m: m > 1),
    "below": (LMin, lambda m: m <= 1),
    "min_of": (LMax, lambda m: m.min_of(1)),
    "max_of": (LMin, lambda m: m.max_of(1)),
    "bag sum": (LBag, lambda b: b + LBag({1: 1})),
    "bag size": (LBag, lambda b: b.size()),
    "multiplicity": (LBag, lambda b: b.multiplicity(1) > 1),
    "map size": (LMap, lambda m: m.size()),
    "apply": (LMap, lambda m: m.apply(lambda value: value + 1)),
    "filter of a map": (LMap, lambda m: m.apply("gt_eq", 1).filter()),
    "merge": (LMax, lambda m: m.merge(LMax(2)).gt(1)),
    "and": (LBool, lambda b: b & True),
}


@pytest.mark.parametrize("name", MORPHISMS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_morphisms(name: str, data: st.DataObject) -> None:
    lattice, function = MORPHISMS[name]
    values = data.draw(st.lists(VALUES[lattice], max_size=4))
    bloom.check_morphism(function, [lattice.of(each) for each in values])
    bloom.check_monotone(function, [lattice.of(each) for each in values])


@pytest.mark.parametrize("name", MONOTONE)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_monotone(name: str, data: st.DataObject) -> None:
    lattice, function = MONOTONE[name]
    values = data.draw(st.lists(VALUES[lattice], max_size=4))
    bloom.check_monotone(function, [lattice.of(each) for each in values])


class LLast(bloom.Lattice):
    """Not a lattice: the last value wins."""

    word = "llast"

    def __init__(self, value: object = None) -> None:
        self.value = value

    @classmethod
    def bottom(cls) -> "LLast":
        return cls()

    def merge(self, other: "LLast") -> "LLast":
        return self if other.value is None else other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LLast) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


def test_what_is_no_lattice_is_found_out() -> None:
    with pytest.raises(AssertionError, match="the order of merging matters"):
        bloom.check_lattice(LLast, [1, 2])
    with pytest.raises(AssertionError, match="gives less for more"):
        bloom.check_monotone(lambda s: LBool(len(s.value) < 2), [LSet([1]), LSet([2])])
    with pytest.raises(AssertionError, match="is not merging after it"):
        bloom.check_morphism(lambda s: s.size(), [LSet([1]), LSet([2])])


def test_a_table_merges_lattices_of_one_key_across_ticks() -> None:
    class Best(bloom.Bloom):
        seen = bloom.input("who", "score")
        best = bloom.table("who", to={"score": bloom.LMax})
        high = bloom.scratch("who")

        @bloom.rules
        def keep(self) -> None:
            self.best |= self.seen
            self.high |= self.best.where(self.best.score >= 10).project("who")

    best = Best()
    for rows in ([("a", 5), ("a", 7)], [("a", 6), ("b", 12)], [("a", 10)]):
        best.insert("seen", rows)
        best.tick()
    assert best["best"].rows() == [("a", 10), ("b", 12)]
    assert best["high"].rows() == [("a",), ("b",)]
    with pytest.raises(CaladanError, match="C032"):
        best.insert("best", [("c", None)])


@pytest.mark.parametrize("safe", [False, True])
def test_a_scratch_of_lattices_forgets(safe: bool) -> None:
    class Most(bloom.Bloom):
        t = bloom.table("k", "v")
        most = bloom.scratch("k", to="v: lmax")

        @bloom.rules
        def keep(self) -> None:
            self.most |= self.t

    most = Most(safe=safe)
    most.insert("t", [(1, 5), (1, 9), (2, 3)])
    assert most.tick()["most"].rows() == [(1, 9), (2, 3)]
    most.delete("t", [(1, 9)])
    assert most.tick()["most"].rows() == [(1, 5), (2, 3)]


def test_shortest_paths_after_a_link_is_gone() -> None:
    """Values go that were reached through it, and come back by what is left; others stay."""

    class Paths(bloom.Bloom):
        link = bloom.table("a", "b", "c")
        path = bloom.scratch("a", "b", to="c: lmin")

        @bloom.rules
        def go(self) -> None:
            self.path |= self.link
            longer = (self.link * self.path).pairs(b="a")
            self.path |= longer.project(self.link.a, self.path.b, self.link.c + self.path.c)

    paths = Paths()
    paths.insert("link", [(1, 2, 1), (2, 3, 1), (1, 3, 5), (3, 1, 1)])
    assert {row[:2]: row[2] for row in paths.tick()["path"].rows()}[1, 3] == 2
    paths.delete("link", [(2, 3, 1)])
    assert {row[:2]: row[2] for row in paths.tick()["path"].rows()}[1, 3] == 5
    assert paths.stats.rebuilt == ()


class Recursive(bloom.Bloom):
    """Recursion through lattices of several kinds, in scratches, which forget, and in a table."""

    e = bloom.table("a", "b", "w")
    given = bloom.input("a", "b", "w")
    path = bloom.scratch("a", "b", to="c: lmin")
    wide = bloom.scratch("a", "b", to="c: lmax")
    reach = bloom.scratch("a", to=["n: lmin", "s: lset"])
    odd = bloom.scratch("a", to="c: lmin")
    even = bloom.scratch("a", to="c: lmin")
    kept = bloom.table("a", "b", to="c: lmin")
    near = bloom.scratch("a", "n")

    @bloom.rules
    def derive(self) -> None:
        e = self.e
        one = bloom.fn(lambda v: LSet([v]))
        self.path |= self.given
        for each in (self.path, self.kept):
            each |= e
            each |= (each * e).pairs(b="a").project(each.a, e.b, each.c + e.w)
        self.wide |= e
        narrow = self.wide.c.method("min_of", e.w)
        self.wide |= (self.wide * e).pairs(b="a").project(self.wide.a, e.b, narrow)
        self.reach |= e.project("a", "w", one(e.b))
        further = (e * self.reach).pairs(b="a")
        self.reach |= further.project(e.a, self.reach.n + e.w, self.reach.s)
        self.odd |= e.where(e.a == 0).project("b", "w")
        self.even |= (self.odd * e).pairs("a").project(e.b, self.odd.c + e.w)
        self.odd |= (self.even * e).pairs("a").project(e.b, self.even.c + e.w)
        self.near |= self.path.where(self.path.c <= 2).group(["a"], bloom.count())


@pytest.mark.parametrize("seed", range(4))
def test_recursion_through_lattices_while_facts_come_and_go(seed: int) -> None:
    draw = random.Random(seed)
    modes = [{}, {"repair": "never"}, {"safe": True}]
    programs = [Recursive(**options) for options in modes]  # type: ignore[arg-type]
    held: set[tuple[int, ...]] = set()

    def some(*most: int) -> list[tuple[int, ...]]:
        return [(draw.randrange(6), draw.randrange(6), draw.randrange(4))
                for _ in range(draw.choice(most))]  # fmt: skip

    for _ in range(20):
        more, given = some(0, 1, 2, 5), some(0, 0, 1)
        less = draw.sample(sorted(held), min(len(held), draw.choice((0, 1, 1, 2))))
        held = held - set(less) | set(more)
        for program in programs:
            program.insert("e", more)
            program.insert("given", given)
            program.delete("e", less)
            program.tick()
        lazy, *others = ({n: p[n].rows() for n in p.collections} for p in programs)
        assert all({**other, "clock": None} == {**lazy, "clock": None} for other in others)
    assert "path: repaired 0 times" not in programs[0].explain("ticks")


def test_a_lattice_only_grows() -> None:
    def shrink(self: bloom.Bloom) -> None:
        self.m -= [3]

    made = type("Shrinks", (bloom.Bloom,), {"m": bloom.lmax(), "shrink": bloom.rules(shrink)})
    with pytest.raises(CaladanError, match="a lattice only grows"):
        made()


def lattices(body, **collections):
    return type("Program", (bloom.Bloom,), {**collections, "derive": bloom.rules(body)})


@pytest.mark.parametrize("options", [{}, {"repair": "never"}, {"safe": True}])
def test_maps_of_sets_by_their_functions(options: dict[str, object]) -> None:
    def derive(self) -> None:
        self.m |= self.see.map(lambda row: {row.who: LPSet([row.n])})
        self.sums |= self.m.apply("pos_sum")
        self.large |= self.m.apply("size").apply("gt_eq", 2).filter().keys()
        self.rows |= self.m.each("who", "ns").map(lambda row: (row.who, len(row.ns.value)))
        self.names |= self.m.keys()
        self.ann |= self.m.at("ann", LPSet).merge(LPSet([0])).size() + 10

    program = lattices(
        derive, see=bloom.input("who", "n"), m=bloom.lmap(), sums=bloom.lmap(), large=bloom.lset(),
        rows=bloom.scratch("who", "n"), names=bloom.table("who"), ann=bloom.lmax(),
    )(**options)  # fmt: skip
    assert program.tick().value("ann") == 11
    program.insert("see", [("ann", 3), ("bob", 4)])
    program.tick()
    assert (program.value("sums"), program.value("large")) == ({"ann": 3, "bob": 4}, frozenset())
    program.insert("see", [("ann", 5)])
    program.tick()
    assert (program.value("sums"), program.value("large")) == ({"ann": 8, "bob": 4}, {"ann"})
    assert program["rows"].rows() == [("ann", 2), ("bob", 1)]
    assert program["names"].rows() == [("ann",), ("bob",)], "the items of a set are rows"
    assert program.value("ann") == 13


@pytest.mark.parametrize("options", [{}, {"repair": "never"}, {"safe": True}])
def test_a_lattice_that_nothing_was_merged_into_is_at_its_bottom(
    options: dict[str, object],
) -> None:
    def derive(self) -> None:
        self.m |= self.more
        self.t |= [("m", self.m + 1), ("n", self.n)]
        self.low |= self.go.where(self.m < 5)

    program = lattices(
        derive, m=bloom.lmax(), n=bloom.lmin(), more=bloom.input("v"), go=bloom.table("k"),
        t=bloom.table("k", to="v"), low=bloom.scratch("k"),
    )(**options)  # fmt: skip
    program.insert("go", [(1,)])
    program.tick()
    assert (program["t"].rows(), program["low"].rows()) == ([("m", None), ("n", None)], [(1,)])
    program.insert("more", [(4,), (9,)])
    program.insert("n", 3)
    program.tick()
    assert (program["t"].rows(), program["low"].rows()) == ([("m", 10), ("n", 3)], [])
    assert program.strata["low"] == 1, "what may be taken back is asked when the lattice is done"


def test_values_that_are_none_of_a_lattice() -> None:
    program = lattices(lambda self: None, m=bloom.lmax(), b=bloom.lbag(), h=bloom.lmap())()
    for name, value in [("m", int), ("m", float("nan")), ("b", {"a": -1}), ("h", {"a": 1})]:
        with pytest.raises(CaladanError, match="C032"):
            program.insert(name, [value])


def test_recursion_through_what_is_not_monotone_is_refused() -> None:
    def derive(self) -> None:
        self.m |= self.t.where(self.m < 5)

    with pytest.raises(CaladanError, match=r"C014.*through `<` of `m`"):
        lattices(derive, m=bloom.lmax(), t=bloom.table("v"))()
