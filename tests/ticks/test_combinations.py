"""Operators in combinations that no example has, tick by tick, in every mode.

What must come out is derived by hand. A script is a list of ticks: what is inserted, deleted or
upserted before one (`+name`, `-name`, `*name`), and what collections hold after it.
"""

from collections.abc import Callable
from typing import Any

import pytest
from tests.ticks.test_suite import MODES

from caladan import bloom
from caladan.bloom import LMax, LSet, input, output, scratch, table  # noqa: A004

Script = list[dict[str, Any]]
COMBINATIONS: list[tuple[str, type[bloom.Bloom], Script]] = []
HANDED = {"+": "insert", "-": "delete", "*": "upsert"}


def combination(*script: dict[str, Any]) -> Callable[[type[bloom.Bloom]], type[bloom.Bloom]]:
    def add(program: type[bloom.Bloom]) -> type[bloom.Bloom]:
        COMBINATIONS.append((program.__name__, program, list(script)))
        return program

    return add


@combination(
    {"+l": [(1, "a"), (2, "b"), (3, "b")], "+r": [("a", 10), ("a", 20)], "n": [("a", 2), ("b", 0)]},
    {"-r": [("a", 20)], "+r": [("b", 5)], "n": [("a", 1), ("b", 2)]},
    {"-r": [("a", 10), ("b", 5)], "n": [("a", 0), ("b", 0)]},
)
class GroupsOfAnOuterJoin(bloom.Bloom):
    l = table("id", "k")  # noqa: E741
    r = table("k", "v")
    n = scratch("k", to="partners")

    @bloom.rules
    def derive(self):
        both = (self.l * self.r).outer("k")
        one = bloom.fn(lambda v: 0 if v is None else 1)
        self.n |= both.project("id", "k", "v", hit=one(both.v)).group(["k"], bloom.sum("hit"))


@combination(
    {"+t": [("c", 3), ("a", 1), ("b", 2)], "o": [("a", 1, 2), ("b", 2, 1), ("c", 3, 0)]},
    {"-t": [("b", 2)], "o": [("a", 1, 1), ("c", 3, 0)]},
    {"+t": [("d", 3)], "o": [("a", 1, 2), ("c", 3, 1), ("d", 3, 0)]},
    {"-t": [("a", 1), ("c", 3), ("d", 3)], "o": []},
)
class PlacesFromTheEnd(bloom.Bloom):
    t = table("k", "v")
    o = scratch("k", "v", to="place")

    @bloom.rules
    def derive(self):
        self.o |= self.t.sort().each_with_index("v", name="place", reverse=True)


@combination(
    {"+t": [("x", 1, 5), ("x", 2, 5), ("y", 3, 1)], "b": [("x", 1, 5), ("x", 2, 5), ("y", 3, 1)]},
    {"+t": [("x", 4, 6)], "b": [("x", 4, 6), ("y", 3, 1)]},
    {"-t": [("x", 4, 6), ("y", 3, 1)], "b": [("x", 1, 5), ("x", 2, 5)]},
    {"-t": [("x", 1, 5)], "+t": [("x", 9, 0)], "b": [("x", 2, 5)]},
)
class BestWithTies(bloom.Bloom):
    t = table("g", "id", "v")
    b = scratch("g", "id", "v")

    @bloom.rules
    def derive(self):
        self.b |= self.t.argmax(["g"], "v")


@combination(
    {"+pay": [(1, "ann", 60), (2, "ann", 50), (3, "bob", 70)], "poor": [("bob", 70)]},
    {"-pay": [(1, "ann", 60)], "poor": [("ann", 50), ("bob", 70)]},
    {"+pay": [(4, "bob", 30)], "poor": [("ann", 50)]},
)
class AbsentFromAGroup(bloom.Bloom):
    """Who has earned less than a hundred: those whose sum is not among the large ones."""

    pay = table("id", to=["who", "amount"])
    poor = scratch("who", to="total")

    @bloom.rules
    def derive(self):
        total = self.pay.group(["who"], total=bloom.sum("amount"))
        rich = total.where(total.total >= 100)
        self.poor |= total.notin(rich, "who")


@combination(
    {"+t": [("a", 1)], "t": [("a", 1)]},
    {"-t": [("a", 1)], "*t": [("a", 2)], "t": [("a", 2)]},
    {"-t": [("a", 2)], "+t": [("a", 3)], "t": [("a", 3)]},
    {"-t": [("a", 9)], "t": [("a", 3)]},
    {"-t": [("a", 3)], "+t": [("a", 3)], "t": [("a", 3)], "seen": [("a",)]},
)
class TakenAndPutAtOnce(bloom.Bloom):
    t = table("k", to="v")
    seen = scratch("k")

    @bloom.rules
    def derive(self):
        self.seen |= self.t.project("k")


@combination(
    {"+go": [(1,)], "b": [], "c": [], "log": []},
    {"b": [(2,)], "c": [], "log": []},
    {"b": [], "c": [(4,)], "log": []},
    {"c": [], "log": [(4, 3)]},
    {"log": [(4, 3)]},
)
class StepsThroughTicks(bloom.Bloom):
    go = input("n")
    b = scratch("n")
    c = scratch("n")
    log = table("n", to="tick")

    @bloom.rules
    def derive(self):
        self.b += self.go.project(self.go.n * 2)
        self.c += self.b.project(self.b.n * 2)
        self.log += self.c.project("n", bloom.now() + 1)


@combination(
    {"+doc": [(1, ("x", "y", "x")), (2, ("y",))], "w": [("x", 1), ("y", 2)], "u": [("x",), ("y",)]},
    {"-doc": [(1, ("x", "y", "x"))], "w": [("y", 1)], "u": [("y",)]},
    {"+doc": [(3, ())], "w": [("y", 1)]},
    {"-doc": [(2, ("y",))], "w": [], "u": []},
)
class WordsOfDocuments(bloom.Bloom):
    doc = table("id", to="words")
    w = scratch("word", to="documents")
    u = scratch("word")

    @bloom.rules
    def derive(self):
        each = self.doc.flat_map("words", "word")
        self.w |= each.group(["word"], bloom.count())
        self.u |= each.project("word")


@combination(
    {
        "+t": [("a", 1, True), ("a", 2, False), ("b", 3, True)],
        "s": [("a", frozenset({1, 2}), False, True, 1.5), ("b", frozenset({3}), True, True, 3.0)],
    },
    {
        "-t": [("a", 2, False)],
        "s": [("a", frozenset({1}), True, True, 1.0), ("b", frozenset({3}), True, True, 3.0)],
    },
    {
        "-t": [("a", 1, True)],
        "+t": [("b", 4, False)],
        "s": [("b", frozenset({3, 4}), False, True, 3.5)],
    },
)
class ManyAggregates(bloom.Bloom):
    t = table("g", "v", "ok")
    s = scratch("g", to=["vs", "all_", "any_", "mean"])

    @bloom.rules
    def derive(self):
        self.s |= self.t.group(
            ["g"],
            bloom.accum("v"),
            all_=bloom.bool_and("ok"),
            any_=bloom.bool_or("ok"),
            mean=bloom.avg("v"),
        )


@combination(
    {"n": [], "r": [(0,)], "p": []},
    {"+t": [("a", 2), ("b", 3)], "n": [(2,)], "r": [(5,)], "p": [("a", 2), ("b", 3)]},
    {"-t": [("a", 2)], "n": [(1,)], "r": [(3,)], "p": [("b", 3)]},
    {"-t": [("b", 3)], "n": [], "r": [(0,)], "p": []},
)
class FoldsOverNothing(bloom.Bloom):
    """A count of nothing is no fact; a fold without groups is what it starts with."""

    t = table("k", "v")
    n = scratch("n")
    r = scratch("r")
    p = scratch("k", "v")

    @bloom.rules
    def derive(self):
        self.n |= self.t.group([], bloom.count())
        self.r |= self.t.reduce(0, lambda so_far, row: so_far + row.v)
        self.p |= self.t.reduce(0, lambda so_far, row: so_far + row.v, by=["k"])


@combination(
    {"+t": [(1,), (7,)], "top": LMax(7), "high": [(1,), (7,)]},
    {"-t": [(7,)], "top": LMax(7), "high": [(1,)]},
    {"+t": [(3,)], "top": LMax(7), "high": [(1,), (3,)]},
)
class ALatticeKeepsItsValue(bloom.Bloom):
    t = table("v")
    top = bloom.lmax()
    high = scratch("v")

    @bloom.rules
    def derive(self):
        self.top |= self.t.project("v")
        self.high |= self.t.where(self.top > 5)


@combination(
    {
        "+e": [("a", "b", 1), ("b", "c", 1), ("a", "c", 5)],
        "d": [("a", "b", 1), ("b", "c", 1), ("a", "c", 2)],
    },
    {"-e": [("b", "c", 1)], "d": [("a", "b", 1), ("a", "c", 5)]},
    {
        "+e": [("c", "a", 1)],
        "d": [
            ("a", "b", 1),
            ("a", "c", 5),
            ("c", "a", 1),
            ("c", "b", 2),
            ("a", "a", 6),
            ("c", "c", 6),
        ],
    },
)
class LeastCostsThatRise(bloom.Bloom):
    """Scratches forget: a cost rises where the cheapest way is gone."""

    e = table("a", "b", "w")
    d = scratch("a", "b", to="w: lmin")

    @bloom.rules
    def derive(self):
        e, d = self.e, self.d
        d |= e
        both = (d * e).pairs(b="a")
        d |= both.project(d.a, e.b, d.w + e.w)


@combination(
    {"+e": [(1, 2), (2, 3)], "p": [(1, 2), (1, 3), (2, 3)], "end": [(3,)]},
    {"+block": [(2,)], "p": [(1, 2), (2, 3)], "end": [(2,), (3,)]},
    {"+e": [(1, 4), (4, 3)], "p": [(1, 2), (1, 3), (1, 4), (2, 3), (4, 3)], "end": [(2,), (3,)]},
    {"-block": [(2,)], "-e": [(2, 3)], "p": [(1, 2), (1, 3), (1, 4), (4, 3)], "end": [(2,), (3,)]},
)
class PathsAroundBlocks(bloom.Bloom):
    """Recursion over what is not blocked; ends are where no path goes on from, blocks included."""

    e = table("a", "b")
    block = table("n")
    p = scratch("a", "b")
    end = scratch("n")

    @bloom.rules
    def derive(self):
        e, p = self.e, self.p
        p |= e
        on = (p * e).pairs(b="a").project(p.a, via=p.b, to=e.b)
        p |= on.notin(self.block, via="n").project("a", "to")
        self.end |= p.project(n=p.b).notin(p.where(p.a == p.a).notin(self.block, a="n"), n="a")


@combination(
    {"+t": [(1, 2), (2, 3), (3, 5)], "o": [(1, 2, 3), (2, 3, 5)]},
    {"+t": [(5, 8), (3, 8)], "o": [(1, 2, 3), (2, 3, 5), (3, 5, 8)]},
    {"-t": [(2, 3)], "o": [(3, 5, 8)]},
)
class JoinedOnASum(bloom.Bloom):
    """(a, b) and (b, c) with a + b = c."""

    t = table("a", "b")
    o = scratch("a", "b", "c")

    @bloom.rules
    def derive(self):
        one, two = self.t, self.t.alias()
        both = (one * two).pairs(one.b == two.a, one.a + one.b == two.b)
        self.o |= both.project(one.a, one.b, two.b)


@combination(
    {"+t": [(1,), (2,)], "odd": [(1,)], "even": []},
    {"odd": [(1,)], "even": []},
    {"-t": [(1,)], "+t": [(3,)], "odd": [(3,)], "even": []},
)
class MadeByAFunction(bloom.Bloom):
    """A function gives no row for even numbers."""

    t = table("n")
    odd = scratch("n")
    even = scratch("n")

    @bloom.rules
    def derive(self):
        odd = self.t.map(lambda row: (row.n,) if row.n % 2 else None, "n")
        self.odd |= odd
        self.even |= odd.where(odd.n % 2 == 0)


@combination(
    {"+flip": [(1,)], "state": []},
    {"+flip": [(2,)], "state": [("on",)]},
    {"state": []},
    {"+flip": [(3,)], "state": []},
    {"state": [("on",)]},
)
class ASwitch(bloom.Bloom):
    """It depends on its own absence, through the next tick."""

    flip = input("n")
    state = table("word")

    @bloom.rules
    def derive(self):
        wanted = self.flip.project(word=bloom.const("on"))
        self.state += wanted.notin(self.state)
        self.state -= (self.state * self.flip).lefts()


@combination(
    {
        "+a": [(1, "x", 1), (2, "y", 1)],
        "+b": [("x", 1, "p"), ("y", 2, "q")],
        "o": [(1, "x", 1, "p")],
    },
    {"+b": [("y", 1, "r")], "o": [(1, "x", 1, "p"), (2, "y", 1, "r")]},
    {"-a": [(1, "x", 1)], "-b": [("y", 1, "r")], "o": []},
)
class OnAllThatIsShared(bloom.Bloom):
    a = table("id", "k", "n")
    b = table("k", "n", "w")
    o = scratch("id", "k", "n", "w")

    @bloom.rules
    def derive(self):
        both = (self.a * self.b).matches()
        self.o |= both.project("id", self.a.k, self.a.n, "w")


class Counter(bloom.Module):
    inc = input("by")
    total = table("key", to="n")
    now = output("n")

    @bloom.rules
    def count(self):
        add = self.inc.group([], bloom.sum("by"))
        self.total <<= (self.total * add).project(self.total.key, self.total.n + add.by)
        self.now |= self.total.project("n")

    @bloom.bootstrap
    def zero(self):
        self.total |= [("t", 0)]


@combination(
    {"+hit": [(1, 2), (2, 3)], "left.total": [("t", 0)], "right.total": [("t", 0)], "sum": [(0,)]},
    {"+hit": [(3, 4)], "left.total": [("t", 5)], "right.total": [("t", 10)], "sum": [(15,)]},
    {"left.total": [("t", 9)], "right.total": [("t", 18)], "sum": [(27,)]},
)
class TwoCounters(bloom.Bloom):
    """One module twice; the second is fed twice as much."""

    left = bloom.imports(Counter)
    right = bloom.imports(Counter)
    hit = input("id", "by")
    sum = output("n")

    @bloom.rules
    def feed(self):
        by = self.hit.group([], bloom.sum("by"))
        self.left.inc |= by
        self.right.inc |= by.project(by.by * 2)
        both = self.left.now * self.right.now
        self.sum |= both.project(self.left.now.n + self.right.now.n)


class Doubling(Counter):
    @bloom.rules
    def count(self):
        self.total <<= (self.total * self.inc).project(self.total.key, self.total.n + 2)
        self.now |= self.total.project("n")


@combination(
    {"+inc": [(7,)], "total": [("t", 0)], "now": [(0,)]},
    {"total": [("t", 2)], "now": [(2,)]},
)
class AnOverriddenGroup(bloom.Bloom, Doubling):
    pass


@combination(
    {
        "+t": [(None, 1), ("x", None), (1, "x")],
        "n": [("x", None)],
        "o": [(None, 1), ("x", None), (1, "x")],
    },
    {"-t": [("x", None)], "n": [], "o": [(None, 1), (1, "x")]},
)
class ValuesOfSeveralTypes(bloom.Bloom):
    t = table("a", "b")
    n = scratch("a", "b")
    o = scratch("a", "b")

    @bloom.rules
    def derive(self):
        self.n |= self.t.where(bloom.fn(lambda b: b is None)(self.t.b))
        self.o |= self.t.sort()


@combination(
    {"+put": [("a", 1), ("a", 1), ("b", 2)], "t": []},
    {"t": [("a", 1), ("b", 2)]},
    {"+put": [("a", 5)], "+drop": [("b",)], "t": [("a", 1), ("b", 2)]},
    {"t": [("a", 5)]},
    {"+put": [("b", 9)], "+drop": [("b",)], "t": [("a", 5)]},
    {"t": [("a", 5), ("b", 9)]},
)
class PutsAndDrops(bloom.Bloom):
    put = input("k", "v")
    drop = input("k")
    t = table("k", to="v")

    @bloom.rules
    def derive(self):
        self.t <<= self.put
        self.t -= (self.t * self.drop).lefts("k")


@combination(
    {"+see": [("a", 1)], "m": {"a": {1}}, "both": frozenset(), "big": False},
    {"+see": [("a", 2), ("b", 1)], "m": {"a": {1, 2}, "b": {1}}, "both": {1}, "big": False},
    {"+see": [("b", 2), ("b", 3)], "m": {"a": {1, 2}, "b": {1, 2, 3}}, "both": {1, 2}, "big": True},
)
class MapsOfSets(bloom.Bloom):
    see = input("who", "what")
    m = bloom.lmap()
    both = bloom.lset()
    big = bloom.lbool()

    @bloom.rules
    def derive(self):
        made = bloom.fn(lambda who, what: {who: LSet([what])})
        self.m |= self.see.project(made(self.see.who, self.see.what))
        shared = self.m.at("a", LSet()).intersect(self.m.at("b", LSet()))
        self.both |= shared
        self.big |= shared.size() > 1


@combination(
    {"+c": [(1, "x")], "shared": [(1, "x")], "lone": []},
    {"+d": [(1, "x")], "shared": [(1, "x")], "lone": []},
    {"-c": [(1, "x")], "shared": [(1, "x")], "lone": [(1, "x")]},
    {"-d": [(1, "x")], "shared": [], "lone": []},
)
class DerivedTwice(bloom.Bloom):
    c = table("a", "b")
    d = table("a", "b")
    shared = scratch("a", "b")
    lone = scratch("a", "b")

    @bloom.rules
    def derive(self):
        self.shared |= self.c
        self.shared |= self.d
        self.lone |= self.shared.notin(self.c)


@combination(
    {"+t": [(1, 5), (2, 3), (3, 9)], "o": [(2, 3), (3, 9)], "first": [(2, 3)]},
    {"-t": [(2, 3)], "o": [(1, 5), (3, 9)], "first": [(1, 5)]},
    {"+t": [(4, 1)], "o": [(3, 9), (4, 1)], "first": [(4, 1)]},
)
class LeastAndMost(bloom.Bloom):
    """Two rows of one table by aggregates of it, and one again by an aggregate of these."""

    t = table("id", "v")
    o = scratch("id", "v")
    first = scratch("id", "v")

    @bloom.rules
    def derive(self):
        self.o |= self.t.argmin([], "v")
        self.o |= self.t.argmax([], "v")
        self.first |= self.o.argmin([], "v")


@combination(
    {
        "+bid": [(1, "ann", 5), (1, "bob", 7), (2, "ann", 1)],
        "won": [("ann", 1), ("bob", 1)],
        "top": [("ann", 1), ("bob", 1)],
    },
    {"+bid": [(3, "ann", 2)], "won": [("ann", 2), ("bob", 1)], "top": [("ann", 2)]},
    {"-bid": [(1, "bob", 7)], "won": [("ann", 3)], "top": [("ann", 3)]},
)
class AggregatesOfAggregates(bloom.Bloom):
    bid = table("item", "who", "price")
    won = scratch("who", to="n")
    top = scratch("who", to="n")

    @bloom.rules
    def derive(self):
        best = self.bid.argmax(["item"], "price")
        wins = best.group(["who"], n=bloom.count())
        self.won |= wins
        self.top |= wins.argmax([], "n")


@combination(
    {"+req": [(1, "here", "hi")], "got": [], "n": []},
    {"got": [("hi", 1)], "n": [(1,)]},
    {"got": [], "n": [(1,)]},
    {"n": [(1,)]},
)
class OverAChannel(bloom.Bloom):
    req = input("id", "to_", "text")
    chan = bloom.channel("@addr", "id", "text")
    got = scratch("text", "id")
    log = table("id")
    n = scratch("n")

    @bloom.rules
    def derive(self):
        self.chan @= self.req.project("to_", "id", "text")
        self.got |= self.chan.payloads.project("text", "id")
        self.log |= self.got.project("id")
        self.n |= self.log.group([], bloom.count())


@combination(
    {
        "+even": [(0,)],
        "+next_": [(i, i + 1) for i in range(4)],
        "ev": [(0,), (2,), (4,)],
        "od": [(1,), (3,)],
        "none": [],
    },
    {"-next_": [(1, 2)], "ev": [(0,)], "od": [(1,)], "none": [(3,), (4,)]},
    {"+next_": [(1, 4)], "ev": [(0,), (4,)], "od": [(1,)], "none": [(3,)]},
)
class TwoThatNeedEachOther(bloom.Bloom):
    even = table("n")
    next_ = table("a", "b")
    ev = scratch("n")
    od = scratch("n")
    none = scratch("n")

    @bloom.rules
    def derive(self):
        step = self.next_
        self.ev |= self.even
        self.od |= (self.ev * step).pairs(n="a").project(step.b)
        self.ev |= (self.od * step).pairs(n="a").project(step.b)
        self.none |= step.project(n=step.b).notin(self.ev).notin(self.od)


@combination(
    {
        "+t": [("a", 1), ("b", 2)],
        "s": [("a", 1), ("b", 2)],
        "pairs": [(frozenset({("a", 1), ("b", 2)}),)],
    },
    {"*t": [("a", 7)], "s": [("a", 7), ("b", 2)], "pairs": [(frozenset({("a", 7), ("b", 2)}),)]},
    {"-t": [("a", 7), ("b", 2)], "s": [], "pairs": []},
)
class AccumulatedPairs(bloom.Bloom):
    t = table("k", to="v")
    s = scratch("k", to="v")
    pairs = scratch("all_")

    @bloom.rules
    def derive(self):
        self.s |= self.t
        self.pairs |= self.s.group([], bloom.accum_pair("k", "v"))


@combination(
    {"+x": [(1,)], "+y": [(1,)], "o": [(1, 1)], "r": [(1, 1)]},
    {"o": [], "r": [(1, 1)]},
    {"+x": [(2,)], "o": [], "r": [(1, 1)]},
    {"+x": [(2,)], "+y": [(3,)], "o": [(2, 3)], "r": [(1, 1), (2, 3)]},
)
class InputsOfOneTick(bloom.Bloom):
    """Only what comes in together meets."""

    x = input("n")
    y = input("n")
    o = output("a", "b")
    r = table("a", "b")

    @bloom.rules
    def derive(self):
        both = (self.x * self.y).project(self.x.n, self.y.n)
        self.o |= both
        self.r |= both


@combination(
    {"+ask": [(1, 10)], "+ok": [(2,)], "yes": [], "no": [(1, 10)]},
    {"+ask": [(2, 20), (3, 30)], "yes": [(2, 20)], "no": [(3, 30)]},
    {"+ask": [(2, 25)], "-ok": [(2,)], "yes": [], "no": [(2, 25)]},
)
class InOrNotIn(bloom.Bloom):
    ask = input("id", "n")
    ok = table("id")
    yes = output("id", "n")
    no = output("id", "n")

    @bloom.rules
    def derive(self):
        self.yes |= self.ask.exists(self.ok, "id")
        self.no |= self.ask.notin(self.ok, "id")


@combination(
    {"+t": [(5,), (1,), (3,)], "gap": [(1, 3), (3, 5)], "largest": [(1, 3), (3, 5)]},
    {"+t": [(9,)], "gap": [(1, 3), (3, 5), (5, 9)], "largest": [(5, 9)]},
    {"-t": [(3,)], "gap": [(1, 5), (5, 9)], "largest": [(1, 5), (5, 9)]},
)
class NeighboursByPlace(bloom.Bloom):
    """Rows joined with the next one, by their places."""

    t = table("n")
    gap = scratch("a", "b")
    largest = scratch("a", "b")

    @bloom.rules
    def derive(self):
        placed = self.t.each_with_index("n", name="i")
        one, two = placed, placed.alias()
        both = (one * two).pairs(one.i + 1 == two.i).project(a=one.n, b=two.n)
        self.gap |= both
        wide = both.project("a", "b", w=both.b - both.a)
        self.largest |= wide.argmax([], "w").project("a", "b")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", [name for name, _, _ in COMBINATIONS])
def test_combination(name: str, mode: str) -> None:
    (found,) = [(made, script) for each, made, script in COMBINATIONS if each == name]
    made, script = found
    program = made(**MODES[mode], network=bloom.Network(), address="here")
    for number, tick in enumerate(script):
        for key, rows in tick.items():
            if key[0] in HANDED:
                getattr(program, HANDED[key[0]])(key[1:], rows)
        program.tick()
        for key, rows in tick.items():
            if key[0] in HANDED:
                continue
            contents = program[key]
            if isinstance(rows, list):
                assert set(contents.rows()) == set(rows), (number, key)
            else:
                assert contents.value == getattr(rows, "reveal", lambda rows=rows: rows)()
