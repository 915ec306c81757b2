"""Programs of the suite of behaviours, by the names that the suite gives them."""

# Columns are expressions; the classes are read by name, so nothing here is called.
from collections.abc import Callable
from typing import Final

from caladan import bloom
from caladan.bloom import LMax, const, fn, input, output, scratch, table  # noqa: A004

PROGRAMS: Final[dict[str, Callable[[], type[bloom.Bloom]]]] = {}


def case(made: Callable[[], type[bloom.Bloom]]) -> Callable[[], type[bloom.Bloom]]:
    PROGRAMS[made.__name__] = made
    return made


@case
def delta_chain_through_scratch():
    class Program(bloom.Bloom):
        orig = table("k1", "k2")
        scr = scratch("k1", "k2")
        result = table("k1", "k2")

        @bloom.rules
        def chain(self):
            self.scr |= self.orig
            self.result |= self.scr

    return Program


@case
def push_simple_persist():
    class Program(bloom.Bloom):
        r1 = table()
        r2 = table()

        @bloom.rules
        def copy(self):
            self.r2 |= self.r1

    return Program


@case
def push_thru_scratch():
    class Program(bloom.Bloom):
        r1 = table()
        r2 = table()
        sc = scratch()

        @bloom.rules
        def copy(self):
            self.r1 |= self.sc
            self.r2 |= self.r1

    return Program


@case
def push_join_late_data():
    class Program(bloom.Bloom):
        r1 = table()
        r2 = table()
        t1 = table()

        @bloom.rules
        def join(self):
            both = (self.r1 * self.r2).pairs("key")
            self.t1 |= both.project("key", self.r1.val + self.r2.val)

    return Program


@case
def push_three_way_chain_join():
    class Program(bloom.Bloom):
        r1 = table()
        r2 = table()
        r3 = table()
        t1 = table()

        @bloom.rules
        def join(self):
            three = (self.r1 * self.r2 * self.r3).combos("key")
            self.t1 |= three.project("key", self.r1.val + self.r2.val + self.r3.val)

    return Program


@case
def group_sum_by_key():
    class Program(bloom.Bloom):
        groupin = table("key", "val")
        result = table()

        @bloom.rules
        def add(self):
            self.result |= self.groupin.group(["key"], bloom.sum("val"))

    return Program


@case
def delete_rescan_orphan():
    class Program(bloom.Bloom):
        src = table("str")
        sink = table("str")

        @bloom.rules
        def copy(self):
            self.sink |= self.src

    return Program


@case
def delete_needs_whole_row():
    class Program(bloom.Bloom):
        t1 = table("k", to="v")
        del_buf = table("k", "v")

        @bloom.rules
        def delete_rows(self):
            self.t1 -= self.del_buf

    return Program


@case
def join_replay():
    class Program(bloom.Bloom):
        t1 = table()
        t2 = table()
        x1 = scratch()
        x2 = scratch()
        x3 = scratch()

        @bloom.rules
        def join(self):
            self.x1 |= (self.t1 * self.t2).project(self.t1.key, self.t2.val)
            self.x1 |= (self.x2 * self.x3).project(self.x2.key, self.x3.val)

    return Program


@case
def reduce_replay():
    class Program(bloom.Bloom):
        t1 = table("v", "x")
        x1 = scratch("res")
        x2 = scratch("v", "x")

        @bloom.rules
        def fold(self):
            self.x1 |= self.t1.reduce(True, lambda so_far, row: so_far and row.v)
            self.x1 |= self.x2.reduce(True, lambda so_far, row: so_far and row.v)

    return Program


@case
def outer_join_replay():
    class Program(bloom.Bloom):
        t1 = table()
        t2 = table()
        s1 = scratch()

        @bloom.rules
        def join(self):
            both = (self.t1 * self.t2).outer("key")
            self.s1 |= both.map(
                lambda r: (r.key + 1, r.val + 1) if r.key_2 is None else (r.key, r.val)
            )

    return Program


@case
def sort_rescan():
    class Program(bloom.Bloom):
        t1 = table()
        s1 = scratch()
        sort_res = scratch()

        @bloom.rules
        def order(self):
            self.sort_res |= self.t1.sort()
            self.sort_res |= self.s1

    return Program


@case
def argagg_rescan():
    class Program(bloom.Bloom):
        heartbeat = scratch("dst", "src")
        heartbeat_buffer = table("src")
        heartbeat_log = table("src", "time")
        last_aa = scratch("src", to="time")
        last_gp = scratch("src", to="time")
        hb_timer = scratch("val")

        @bloom.rules
        def log(self):
            self.heartbeat_buffer |= self.heartbeat.project("src")
            both = self.hb_timer * self.heartbeat_buffer
            self.heartbeat_buffer -= both.project("src")
            self.heartbeat_log |= both.project("src", fn(float)(self.hb_timer.val))
            newest = self.heartbeat_log.argmax(["src"], "time")
            self.last_aa |= newest.project("src", newest["time"] + 1.0)
            largest = self.heartbeat_log.group(["src"], bloom.max("time"))
            self.last_gp |= largest.project("src", largest["time"] + 2.0)

    return Program


class Joins(bloom.Module):
    r = table("x", "y1")
    s = table("x", "y1")
    t = table("x", "y1")
    mismatches = table("x", "y1")


@case
def equijoin_two_predicates():
    class Program(bloom.Bloom, Joins):
        out = scratch("x", "y1", "y2")

        @bloom.rules
        def join(self):
            both = (self.r * self.s).pairs("x", "y1")
            self.out |= both.project("x", self.r.y1, self.s.y1)

    return Program


@case
def left_outer_join():
    class Program(bloom.Bloom, Joins):
        out = scratch("x1", "x2", "y1", "y2")

        @bloom.rules
        def join(self):
            both = (self.mismatches * self.s).outer("x")
            self.out |= both.project("x", "x_2", "y1", "y1_2")

    return Program


@case
def self_join_same_table_twice_many_predicates():
    class Program(bloom.Bloom):
        explicit_tc = scratch("from_", "to")
        use_tiebreak = scratch("from_", "to")
        sem_hist = scratch("from_", "to")
        result = scratch("from_", "to")

        @bloom.rules
        def join(self):
            s, t, e = self.sem_hist, self.use_tiebreak, self.explicit_tc
            three = (s * t * e).combos(s.from_ == t.from_, e.from_ == s.to, e.to == s.from_)
            self.result |= three.project(s.to, t.to)

    return Program


@case
def shared_join_two_heads():
    class Program(bloom.Bloom):
        t1 = table()
        t2 = table()
        out1 = scratch("k1", "k2", to="val")
        out2 = scratch()

        @bloom.rules
        def join(self):
            both = (self.t1 * self.t2).pairs("val")
            self.out1 |= both.project(self.t1.key, self.t2.key, "val")
            self.out2 |= both.lefts()

    return Program


@case
def key_violation_in_join_output():
    class Program(bloom.Bloom):
        tab = scratch("k", to="name")

        @bloom.rules
        def elect(self):
            self.tab |= [(2000, "bush")]
            self.tab |= [(2000, "gore")]

    return Program


@case
def schema_copy_keeps_keys():
    class Program(bloom.Bloom):
        inputt = scratch("a", "b")
        t1 = scratch("a", to="b")
        t2 = bloom.like(t1)

        @bloom.rules
        def copy(self):
            self.t1 |= self.inputt
            self.t2 |= self.inputt

    return Program


@case
def empty_primary_key():
    class Program(bloom.Bloom):
        t1 = table(to=["foo", "bar"])

        @bloom.rules
        def stay(self):
            self.t1 |= self.t1

    return Program


@case
def notin_with_inequality():
    class Program(bloom.Bloom):
        foo = table("c1", "c2")
        bar = table("c1", "c2")
        outsie = table("c1", "c2")

        @bloom.rules
        def negate(self):
            larger = lambda foo, bar: foo.c2 <= bar.c2  # noqa: E731
            self.outsie |= self.foo.notin(self.bar, "c1", where=larger)

    return Program


@case
def notin_whole_row_and_columns():
    class Program(bloom.Bloom):
        foo = table("c1", "c2")
        bar = table("c3", "c4")
        o1 = table()
        o2 = table("key", "val")
        o3 = table()

        @bloom.rules
        def negate(self):
            self.o1 |= self.foo.notin(self.bar)
            self.o2 |= self.foo.notin(self.bar, c1="c3")
            self.o3 |= self.foo.notin(self.bar, c2="c4")

    return Program


@case
def negation_after_recursion():
    class Program(bloom.Bloom):
        link = table("from_", "to")
        path = table("from_", "to")
        final_path = table("from_", "to")
        fp = scratch("from_", "to")
        excludes = table("from_", "why")

        @bloom.rules
        def paths(self):
            self.path |= self.link
            longer = (self.link * self.path).pairs(to="from_")
            self.path |= longer.project(self.link.from_, self.path.to)
            self.fp |= self.path.notin(self.excludes, "from_")
            self.final_path |= self.fp

    return Program


@case
def unstratifiable_negation():
    class Program(bloom.Bloom):
        link = table("from_", "to")
        path = table("from_", "to")

        @bloom.rules
        def paths(self):
            self.path |= self.link.notin(self.path)

    return Program


@case
def unstratifiable_negation_indirect():
    class Program(bloom.Bloom):
        resp_log = table()
        req_log = table()
        did_resp = table()
        need_resp = scratch()

        @bloom.rules
        def answer(self):
            self.resp_log |= self.need_resp
            self.need_resp |= self.req_log.notin(self.did_resp)
            self.did_resp |= self.resp_log

    return Program


@case
def negation_of_positive_cycle_ok():
    class Program(bloom.Bloom):
        r2 = scratch()
        t4 = table()
        t5 = scratch()
        t20 = table()

        @bloom.rules
        def negate(self):
            self.r2 |= self.t4.notin(self.t5)
            self.t5 |= (self.t5 * self.t20).lefts()

    return Program


@case
def notin_after_argmax():
    class Program(bloom.Bloom):
        lside = table()
        rside = table("key", "val")
        result = table()

        @bloom.rules
        def negate(self):
            self.result |= self.rside.argmax(["key"], "val").notin(self.lside)

    return Program


@case
def notin_self():
    class Program(bloom.Bloom):
        t1 = table("ident", to="foo")
        res = scratch("ident", to="foo")

        @bloom.rules
        def negate(self):
            self.res |= self.t1.notin(self.t1, foo="ident")

    return Program


@case
def notin_chain():
    class Program(bloom.Bloom):
        t1 = scratch()
        t2 = table("a", "b")
        t3 = table("a", "b")
        t4 = table("a", "b")
        t5 = scratch()
        t2i = scratch()

        @bloom.rules
        def negate(self):
            self.t1 |= self.t2.notin(self.t3, a="b").notin(self.t4, "a")
            self.t2i |= self.t2
            self.t5 |= self.t2i.notin(self.t3, key="b").notin(self.t4, key="a")

    return Program


@case
def notin_over_join():
    class Program(bloom.Bloom):
        t1 = table()
        t2 = table()
        t3 = table()
        res1 = table()
        res2 = table()

        @bloom.rules
        def negate(self):
            self.res1 |= (self.t1 * self.t2).lefts(val="key").notin(self.t3)
            both = (self.t1 * self.t3).pairs(val="key")
            self.res2 |= both.project(self.t1.key + 1, self.t1.val + 1).notin(self.t3)

    return Program


@case
def notin_double_with_delete():
    class Program(bloom.Bloom):
        t1 = table("x", "y")
        t2 = table("a", "b", "c", "d")
        seal_t1 = table("ignored")
        r1 = scratch("a", "b", "c", "d")
        in_buf = scratch("lx", "ly", "rx", "ry")
        match_buf = scratch("lx", "ly", "rx", "ry")
        missing = scratch("lx", "ly", "rx", "ry")

        @bloom.rules
        def negate(self):
            other = self.t1.alias()
            both = (self.t1 * other).pairs(x="y").flatten()
            self.r1 |= both.notin(self.t2)
            self.in_buf |= both
            self.match_buf |= (self.in_buf * self.t2).lefts(lx="a", ly="b", rx="c", ry="d")
            self.missing |= both.notin(self.match_buf)
            sealed = (self.t1 * self.seal_t1).lefts()
            self.t1 -= sealed.notin(self.missing, x="lx", y="ly").notin(
                self.missing, x="rx", y="ry"
            )

    return Program


@case
def shortest_paths_stratified():
    class Program(bloom.Bloom):
        link = table("from_", "to", "cost")
        path = table("from_", "to", "nxt", "cost")
        shortest = table("from_", "to", to=["nxt", "cost"])

        @bloom.rules
        def paths(self):
            self.path |= self.link.project("from_", "to", "to", "cost")
            longer = (self.link * self.path).pairs(to="from_")
            self.path |= longer.project(
                self.link.from_, self.path.to, self.link.to, self.link.cost + self.path.cost
            )
            least = self.path.argmin(["from_", "to"], "cost")
            self.shortest |= least.argmax(["from_", "to"], "nxt")

    return Program


class Employees(bloom.Module):
    emp = table("ename", "dname", to="sal")


@case
def avg_then_filter_and_next():
    class Program(bloom.Bloom, Employees):
        shoes = table("dname", to="usualsal")
        next_shoes = table("dname", to="usualsal")

        @bloom.rules
        def salaries(self):
            means = self.emp.group(["dname"], bloom.avg("sal"))
            shoe = means.where(means.dname == "shoe")
            self.shoes |= shoe
            self.next_shoes += shoe

    return Program


@case
def join_with_max():
    class Program(bloom.Bloom, Employees):
        richsal = scratch("sal")
        rich = scratch("ename", "dname", to="sal")
        argrich = scratch("ename", "dname", to="sal")

        @bloom.rules
        def salaries(self):
            self.richsal |= self.emp.group([], bloom.max("sal"))
            self.rich |= (self.richsal * self.emp).rights("sal")
            self.argrich |= self.emp.argmax([], "sal")

    return Program


@case
def group_over_join():
    class Program(bloom.Bloom, Employees):
        shoes = table("dname", to="usualsal")
        funny = scratch("dname", to=["max_sal", "usual_sal"])

        @bloom.rules
        def salaries(self):
            both = (self.emp * self.shoes).pairs("dname")
            self.funny |= both.group(["dname"], bloom.max("sal"), bloom.max("usualsal"))

    return Program


@case
def argmin_chain():
    class Program(bloom.Bloom):
        t1 = scratch("a", "b", "c")
        t2 = scratch("a", "b", "c")
        t3 = scratch("a", "b", "c")

        @bloom.rules
        def least(self):
            self.t2 |= self.t1.argmin([], "a")
            self.t3 |= self.t2.argmin([], "b")

    return Program


@case
def reduce_default_on_empty():
    class Program(bloom.Bloom):
        t1 = scratch("v", "x")
        t2 = scratch("res")

        @bloom.rules
        def fold(self):
            self.t2 |= self.t1.reduce(True, lambda so_far, row: so_far and row.v)

    return Program


@case
def agg_over_join_duplicate_elimination():
    class Program(bloom.Bloom):
        sum_tbl = table("sum_v")
        cnt_tbl = table("cnt_v")
        t1 = table()
        t2 = table()

        @bloom.rules
        def add(self):
            rows = (self.t1 * self.t2).lefts()
            self.sum_tbl |= rows.group([], bloom.sum("val"))
            self.cnt_tbl |= rows.group([], bloom.count())

    return Program


@case
def sum_not_distinct_on_value():
    class Program(bloom.Bloom):
        sum_tbl = table("cnt")
        t1 = table()

        @bloom.rules
        def add(self):
            self.sum_tbl |= self.t1.group([], bloom.sum("val"))

    return Program


@case
def temp_next():
    class Program(bloom.Bloom):
        inski = scratch("c1", "c2", to=["c3", "c4"])
        wait = bloom.like(inski)
        out = bloom.like(inski)

        @bloom.rules
        def later(self):
            tmpy = self.temp("tmpy", "c1", "c2", "c3", "c4")
            tmpy |= self.inski
            waity = self.temp("waity", "c1", "c2", "c3", "c4")
            waity += self.wait
            self.out |= tmpy
            self.out |= waity

    return Program


@case
def temp_of_cross_product():
    class Program(bloom.Bloom):
        t1 = table()
        t2 = table()
        t3 = scratch()
        t5 = scratch()
        k = bloom.temp("a", "b", "c", "d")

        @bloom.rules
        def product(self):
            k = self.k
            k |= (self.t1 * self.t2).flatten()
            self.t3 |= k.project(k.a + k.c, k.b + k.d)
            self.t5 |= k.where(k.d > 100).project("a", "b")

    return Program


@case
def bootstrap_rederived_each_tick():
    class Program(bloom.Bloom):
        t1 = table()
        t2 = scratch()
        t3 = scratch()

        @bloom.rules
        def more(self):
            self.t2 |= self.t1.project(self.t1.key + 1, self.t1.val + 1)
            self.t3 |= self.t2.project(self.t2.key + 1, self.t2.val + 1)

    return Program


@case
def constant_rule_with_clock():
    class Program(bloom.Bloom):
        his = table()

        @bloom.rules
        def greet(self):
            self.his |= [(bloom.now(), "hi")]

    return Program


@case
def flatten_and_renest():
    class Program(bloom.Bloom):
        nested = table("p_id", "first", "last", "hobbies")
        flat = scratch("p_id", "first", "last", "hobby")
        renested = scratch("p_id", "first", "last", "hobbies")

        @bloom.rules
        def nest(self):
            self.flat |= self.nested.flat_map("hobbies", "hobby")
            self.renested |= self.flat.group(["p_id", "first", "last"], bloom.accum("hobby"))

    return Program


@case
def lmax_threshold():
    class Program(bloom.Bloom):
        m = bloom.lmax()
        done = bloom.lbool()

        @bloom.rules
        def watch(self):
            self.done |= self.m > 12

    return Program


@case
def lmax_of_lmax():
    class Program(bloom.Bloom):
        in_t = scratch("v")
        m1 = bloom.lmax()
        m2 = bloom.lmax()
        m3 = bloom.lmax()
        done = bloom.lbool()

        @bloom.rules
        def watch(self):
            self.m1 |= self.in_t.where(self.in_t.v % 2 == 0)
            self.m2 |= self.in_t.where(self.in_t.v % 2 == 1)
            self.m3 |= self.m1
            self.m3 |= self.m2
            self.done |= self.m3 > 20

    return Program


class Costs(bloom.Module):
    link = table("from_", "to", "c")
    path = table("from_", "to", "next_hop", to="c: lmin")
    min_cost = table("from_", "to", to={"c": bloom.LMin})

    @bloom.rules
    def paths(self):
        self.path |= self.link.project("from_", "to", const("direct"), "c")
        longer = (self.link * self.path).pairs(to="from_")
        self.path |= longer.project(
            self.link.from_, self.path.to, self.link.to, self.link.c + self.path.c
        )
        self.min_cost |= self.path.project("from_", "to", "c")


@case
def shortest_path_lmin_in_recursion():
    class Program(bloom.Bloom, Costs):
        pass

    return Program


@case
def shortest_path_lmin_cyclic():
    return shortest_path_lmin_in_recursion()


@case
def max_capacity_paths_incremental():
    class Program(bloom.Bloom):
        link = table("from_", "to", to="c")
        path = table("from_", "to", "next_hop", to="c: lmax")
        max_cap = table("from_", "to", to="c: lmax")

        @bloom.rules
        def paths(self):
            self.path |= self.link.project("from_", "to", const("direct"), "c")
            longer = (self.link * self.path).pairs(to="from_")
            least = self.path.c.method("min_of", self.link.c)
            self.path |= longer.project(self.link.from_, self.path.to, self.link.to, least)
            self.max_cap |= self.path.project("from_", "to", "c")

    return Program


@case
def lset_transitive_closure_with_costs():
    class Program(bloom.Bloom):
        link = bloom.lset()
        path = bloom.lset()

        @bloom.rules
        def paths(self):
            self.path |= self.link
            path, link = self.path.each("f", "t", "c"), self.link.each("t", "t2", "c2")
            longer = (path * link).pairs("t")
            self.path |= longer.project("f", "t2", path.c + link.c2)

    return Program


@case
def lmap_of_lmax():
    class Program(bloom.Bloom):
        h = bloom.lmap()
        m1 = bloom.lmax()
        m2 = bloom.lmax()
        hkeys = bloom.lset()
        in_t = scratch("v")

        @bloom.rules
        def fill(self):
            self.h |= {"x": self.m1, "y": self.m1}
            self.h |= self.in_t.project(fn(lambda v, m: {v: m})(self.in_t.v, self.m2))
            self.hkeys |= self.h.keys()

    return Program


@case
def lpset_positive_sum_threshold():
    class Program(bloom.Bloom):
        in_t = scratch("which", "v")
        s1 = bloom.lpset()
        s2 = bloom.lpset()
        s3 = bloom.lpset()
        done = bloom.lbool()

        @bloom.rules
        def watch(self):
            self.s1 |= self.in_t.where(self.in_t.which == "s1").project("v")
            self.s2 |= self.in_t.where(self.in_t.which == "s2").project("v")
            self.s3 |= self.s1
            self.s3 |= self.s2
            self.done |= self.s3.pos_sum() + 5 > 25

    return Program


@case
def lbag_union_intersect_sum():
    class Program(bloom.Bloom):
        b1 = bloom.lbag()
        b2 = bloom.lbag()
        b_union = bloom.lbag()
        b_intersect = bloom.lbag()
        b_sum = bloom.lbag()
        size = bloom.lmax()
        has_foo = bloom.lbool()
        done = bloom.lbool()

        @bloom.rules
        def bags(self):
            self.b_union |= self.b1
            self.b_union |= self.b2
            self.b_intersect |= self.b1.intersect(self.b2)
            self.b_sum |= self.b1 + self.b2
            self.size |= self.b_sum.size()
            self.has_foo |= self.b_sum.contains("foo")
            self.done |= self.b_intersect.multiplicity("foo") > 2

    return Program


@case
def rescan_from_lattice_into_scratch():
    class Program(bloom.Bloom):
        s1 = scratch("a", "b")
        s1n = scratch("a", "b")
        set_in = bloom.lset()
        set_d = bloom.lset()

        @bloom.rules
        def fill(self):
            self.set_d |= self.set_in.map(lambda i: i + 1)
            each = self.set_d.each("i")
            self.s1 |= each.project("i", each.i + 2)
            self.s1n += each.project("i", each.i + 2)

    return Program


@case
def lattice_read_inside_join_head():
    class Program(bloom.Bloom):
        t1 = table()
        t2 = table()
        t3 = table()
        m1 = bloom.lmax()
        m2 = bloom.lmax()

        @bloom.rules
        def fill(self):
            self.t1 |= (self.t2 * self.t3).project(self.t2.key, self.m1)
            self.m1 |= self.m2

    return Program


@case
def lattice_read_inside_aggregate():
    class Program(bloom.Bloom):
        t1 = table("v1", "v2", to="embed")
        t2 = table("v1", "v2")
        s1 = bloom.lset()

        @bloom.rules
        def fill(self):
            self.t1 |= self.t2.group(["v1"], bloom.max("v2")).project("v1", "v2", self.s1)

    return Program


@case
def pending_lattice_merge():
    class Program(bloom.Bloom):
        m1 = bloom.lmap()
        s1 = scratch()

        @bloom.rules
        def fill(self):
            made = fn(lambda key, val: {key: LMax(val)})
            self.m1 += self.s1.project(made(self.s1.key, self.s1.val))

    return Program


@case
def logical_clock_by_lmax():
    class Program(bloom.Bloom):
        cloq = bloom.lmax()
        truth = table(to="val")

        @bloom.rules
        def count(self):
            self.cloq += self.truth.project(self.cloq + 1)

    return Program


@case
def loopback_countdown():
    class Program(bloom.Bloom):
        loop_chan = bloom.loopback("cnt")
        mcast = bloom.channel("@addr", "cnt")
        loopback_done = scratch("n")
        mcast_done = scratch("n")

        @bloom.rules
        def count(self):
            small = self.loop_chan.where(self.loop_chan.cnt < 6)
            self.loop_chan @= small.project(self.loop_chan.cnt + 1)
            self.loopback_done |= self.loop_chan.where(self.loop_chan.cnt == 5)
            self.mcast @= small.project(const("here"), "cnt")
            self.mcast_done |= self.mcast.where(self.mcast.cnt == 5).project("cnt")

    return Program


@case
def channel_filter_drop_and_batch():
    class Program(bloom.Bloom):
        chn = bloom.channel("@addr", "val")
        input_t = scratch("addr", "val")

        @bloom.rules
        def pass_on(self):
            self.chn @= self.input_t

    return Program


@case
def module_import_twice():
    class Parent(bloom.Module):
        t1 = table()
        t2 = table()

        @bloom.bootstrap
        def boot(self):
            self.t1 |= [(5, 10)]

        @bloom.rules
        def copy(self):
            self.t2 |= self.t1

    class Program(bloom.Bloom):
        xx = bloom.imports(Parent)
        yy = bloom.imports(Parent)
        t4 = table()
        t5 = table()

        @bloom.rules
        def read(self):
            t2 = self.yy.t2
            self.t4 |= t2.project(t2.key + 10, t2.val + 10)
            self.t5 |= self.xx.t2

    return Program


@case
def module_override_rule_block():
    class Base(bloom.Module):
        t1 = table()
        t2 = table()
        t3 = table()

        @bloom.rules
        def foo(self):
            self.t2 |= self.t1

    class Program(bloom.Bloom, Base):
        @bloom.rules
        def foo(self):
            self.t3 |= self.t1

    return Program


@case
def temporal_stratification_of_delete():
    class Program(bloom.Bloom):
        foo = scratch("loc", "a")
        foo_persist = table("loc", "a")
        foo_cnt = scratch("a", to="cnt")

        @bloom.rules
        def count(self):
            self.foo_persist |= self.foo
            self.foo_cnt |= self.foo_persist.group(["loc"], bloom.count())
            three = self.foo_cnt.where(self.foo_cnt.a == "xyz", self.foo_cnt.cnt == 3)
            self.foo_persist -= (self.foo_persist * three).lefts()

    return Program


@case
def clock_constant_within_tick():
    class Program(bloom.Bloom):
        t1 = table()
        in1 = scratch("val")
        in2 = scratch("val")

        @bloom.rules
        def stamp(self):
            self.t1 |= self.in1.project("val", bloom.wall_clock())
            self.t1 |= self.in2.project("val", bloom.wall_clock())

    return Program


@case
def disorderly_cart():
    class Program(bloom.Bloom):
        action = input("session", "reqid", to=["item", "cnt"])
        checkout = input("session")
        action_log = table("session", "reqid", to=["item", "cnt"])
        item_sum = scratch("session", "item", to="num")
        response = scratch("session", to="items")

        @bloom.rules
        def shop(self):
            self.action_log |= self.action
            wanted = (self.checkout * self.action_log).rights("session")
            sums = wanted.group(["session", "item"], num=bloom.sum("cnt"))
            self.item_sum |= sums.where(sums.num > 0)
            self.response |= self.item_sum.group(["session"], bloom.accum_pair("item", "num"))

    return Program


@case
def impure_rule_reruns_every_tick():
    class Program(bloom.Bloom):
        t1 = table("x")
        t2 = table("tstamp", "x")

        @bloom.rules
        def stamp(self):
            self.t2 |= self.t1.project(bloom.now(), "x")

    return Program


@case
def delete_rescan():
    class Program(bloom.Bloom):
        src = table("str")
        sink = table("str")
        dummy = scratch("str")
        event_src = scratch("str")

        @bloom.rules
        def copy(self):
            self.sink |= self.src
            self.sink |= self.event_src
            self.dummy |= self.sink

    return Program


@case
def scan_replay():
    class Program(bloom.Bloom):
        t1 = table()
        x1 = scratch()
        x2 = scratch()

        @bloom.rules
        def copy(self):
            self.x2 |= self.t1
            self.x2 |= self.x1

    return Program


@case
def agg_replay():
    class Program(bloom.Bloom):
        t1 = table()
        x1 = scratch()
        x2 = scratch()

        @bloom.rules
        def largest(self):
            self.x1 |= self.t1.group(["key"], bloom.max("val"))
            self.x1 |= self.x2.group(["key"], bloom.max("val"))

    return Program


@case
def notin_rescan_tables():
    class Program(bloom.Bloom):
        in_t = table()
        not_in = table()
        res_t = scratch()

        @bloom.rules
        def negate(self):
            self.res_t |= self.in_t.notin(self.not_in)

    return Program


@case
def kvs_last_put_wins():
    class Program(bloom.Bloom):
        kvput = input("client", "key", to=["reqid", "value"])
        kvget = input("reqid", to="key")
        kvdel = input("key", to="reqid")
        kvget_response = output("reqid", to=["key", "value"])
        kvstate = table("key", to="value")

        @bloom.rules
        def store(self):
            self.kvstate <<= self.kvput.project("key", "value")
            found = (self.kvget * self.kvstate).pairs("key")
            self.kvget_response |= found.project("reqid", "key", "value")
            self.kvstate -= (self.kvstate * self.kvdel).lefts("key")

    return Program
