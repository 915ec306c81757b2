"""Programs as users write them, against what they would write otherwise: CPU seconds.

    python -m bench.users [NAME,NAME,…]

Each case has its data, a program, and a peer: a query for DuckDB, or a function over NumPy arrays
and Python's dictionaries. Embedded runs twice in a process of its own, and the second run counts,
with reading its tables from memory; so does the peer's one run, with two threads for DuckDB. What
takes longer than a minute on the wall is given up. The numbers of answers must agree.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Column = NDArray[Any]
Tables = dict[str, dict[str, Column]]
LONGEST: Final = 60


@dataclass(frozen=True)
class Case:
    """Data, a program, and how many answers somebody else finds."""

    tables: Callable[[], Tables]
    program: str
    peer: str | Callable[[Tables], int]


def table(names: str, *columns: Column) -> dict[str, Column]:
    """Distinct rows."""
    rows = np.unique(np.stack(columns, axis=1), axis=0)
    return {name: rows[:, i].copy() for i, name in enumerate(names.split())}


def graph(nodes: int, edges: int, *, ordered: bool = False, seed: int = 1) -> Tables:
    """Random edges with weights; in an acyclic graph they lead to one of the next 100 nodes."""
    random = np.random.default_rng(seed)
    begin = random.integers(0, nodes, edges)
    end = begin + random.integers(1, 101, edges) if ordered else random.integers(0, nodes, edges)
    found = table("a b", begin, end)
    return {"e": {**found, "w": random.integers(1, 1000, len(found["a"]))}}


def joined(keys: int) -> Tables:
    """Two tables of 100,000 facts that meet in a column of so many values."""
    random = np.random.default_rng(2)
    size = 100_000
    first = table("a b", random.integers(0, 5000, size), random.integers(0, keys, size))
    weights = random.integers(0, 1000, size)
    return {
        "e": first,
        "f": table("b c w", random.integers(0, keys, size), np.arange(size), weights),
    }


def events() -> Tables:
    """100,000 events of 500 users."""
    random = np.random.default_rng(3)
    found = table("u t", random.integers(0, 500, 100_000), random.integers(0, 200_000, 100_000))
    return {"ev": {**found, "k": random.integers(0, 20, len(found["u"]))}}


def flow() -> Tables:
    """Functions of 200 points with branches, each of which defines one variable and uses one."""
    random = np.random.default_rng(4)
    size = 30_000
    point = np.arange(size)
    jump = random.integers(0, size, size // 5)
    to = np.minimum(jump // 200 * 200 + random.integers(0, 200, size // 5), size - 1)
    straight = point[:-1][point[:-1] // 200 == point[1:] // 200]
    of = point // 200 * 30
    return {
        "next": table("a b", np.append(straight, jump), np.append(straight + 1, to)),
        "def": {"p": point, "v": of + random.integers(0, 30, size)},
        "use": {"p": point, "v": of + random.integers(0, 30, size)},
    }


def classes() -> Tables:
    """A hierarchy of 5,000 classes, 50,000 methods and 100,000 calls of 40 signatures."""
    random = np.random.default_rng(5)
    size = 100_000
    kinds, methods = size // 20, size // 2
    every = np.arange(methods)
    signatures = random.integers(0, 40, methods)
    calls = [random.integers(0, most, size) for most in (methods, kinds, 40)]
    made = random.integers(0, methods, methods), random.integers(0, kinds, methods)
    return {
        "extends": {"c": np.arange(1, kinds), "p": np.arange(1, kinds) // 3},
        "declares": table("c s m", random.integers(0, kinds, methods), signatures, every),
        "site": table("i m v s", np.arange(size), *calls),
        "inst": table("m c", *made),
        "main": {"m": np.arange(2000)},
    }


def intervals() -> Tables:
    """20,000 intervals of at most 400 within a million."""
    random = np.random.default_rng(6)
    begin = random.integers(0, 1_000_000, 20_000)
    return {
        "iv": {"i": np.arange(20_000), "s": begin, "e": begin + random.integers(1, 400, 20_000)}
    }


def pairs() -> Tables:
    """Two tables of 20,000 pairs of numbers below 1,000."""
    random = np.random.default_rng(7)
    made = [random.integers(0, 1000, 20_000) for _ in range(4)]
    return {"p": table("x y", *made[:2]), "q": table("z w", *made[2:])}


def points() -> Tables:
    """50,000 points of a square."""
    random = np.random.default_rng(8)
    size = 50_000
    return {
        "p": {
            "i": np.arange(size),
            "x": random.integers(0, 20_000, size),
            "y": random.integers(0, 20_000, size),
        }
    }


def baskets() -> Tables:
    """300,000 items in 50,000 baskets, some items in many of them."""
    random = np.random.default_rng(9)
    items = (random.zipf(1.3, 300_000) - 1) % 2000
    return {"o": table("b i", random.integers(0, 50_000, 300_000), items)}


def sales() -> Tables:
    """A million sales, of which a program reads few columns, and what they are of."""
    random = np.random.default_rng(10)
    size = 1_000_000
    most = {"c": 50_000, "p": 5000, "d": 730, "q": 10, "x": 100_000}
    drawn = {name: random.integers(0, each, size) for name, each in most.items()}
    return {
        "sale": {"i": np.arange(size), **drawn},
        "prod": {"p": np.arange(5000), "k": np.arange(5000) % 60, "v": np.arange(5000) % 97},
        "day": {"d": np.arange(730), "y": 2022 + np.arange(730) // 365},
        "cust": {"c": np.arange(60_000), "r": np.arange(60_000) % 20},
    }


def groups() -> Tables:
    """Users in groups that are parts of others, what groups may see, and who may not."""
    random = np.random.default_rng(11)
    most = {"u": 20_000, "g": 2000, "d": 50_000}

    def drawn(names: str, rows: int) -> dict[str, Column]:
        return table(names, *(random.integers(0, most[n], rows) for n in names.split()))

    return {
        "member": drawn("u g", 60_000),
        "sub": {"g": np.arange(1, 2000), "h": np.arange(1, 2000) // 3},
        "sees": drawn("g d", 20_000),
        "deny": drawn("u d", 20_000),
    }


def people() -> Tables:
    """100,000 names, most of them different."""
    random = np.random.default_rng(12)
    first = np.array(["anna", "bert", "carla", "dirk", "eva", "fritz"])[
        random.integers(0, 6, 100_000)
    ]
    numbers = random.integers(0, 60_000, 100_000).astype(str)
    names = [f"{a} {b}" for a, b in zip(first.tolist(), numbers.tolist(), strict=True)]
    return {"p": {"i": np.arange(100_000), "n": np.array(names)}}


def longest(tables: Tables) -> int:
    """Longest paths, node by node, in the order of their numbers."""
    best: dict[int, int] = {}
    for a, b, w in zip(*(tables["e"][c].tolist() for c in "abw"), strict=True):
        best[b] = max(best.get(b, 0), best.setdefault(a, 0) + w)
    return len(best)


def dispatched(tables: Tables) -> int:
    """Calls by rapid type analysis, with worklists of dictionaries."""
    columns = {
        n: list(zip(*(c.tolist() for c in t.values()), strict=True)) for n, t in tables.items()
    }
    parent = dict(columns["extends"])
    declared: dict[tuple[int, int], list[int]] = {}
    for c, s, m in columns["declares"]:
        declared.setdefault((c, s), []).append(m)
    sites: dict[int, list[tuple[int, int, int]]] = {}
    for i, m, v, s in columns["site"]:
        sites.setdefault(m, []).append((i, v, s))
    makes: dict[int, list[int]] = {}
    for m, c in columns["inst"]:
        makes.setdefault(m, []).append(c)

    def above(c: int) -> list[int]:
        found = [c]
        while found[-1] in parent:
            found.append(parent[found[-1]])
        return found

    live, made, edges = {m for (m,) in columns["main"]}, set[int](), set[tuple[int, int]]()
    waiting: dict[int, list[tuple[int, int]]] = {}  # calls by the class of their receiver
    below: dict[int, list[int]] = {}  # classes that are made, by what they extend
    todo = list(live)

    def link(i: int, s: int, c: int) -> None:
        at = next((k for k in above(c) if (k, s) in declared), None)
        for m in declared.get((c if at is None else at, s), ()):
            edges.add((i, m))
            if m not in live:
                live.add(m)
                todo.append(m)

    while todo:
        method = todo.pop()
        for i, v, s in sites.get(method, ()):
            waiting.setdefault(v, []).append((i, s))
            for c in below.get(v, ()):
                link(i, s, c)
        for c in makes.get(method, ()):
            if c not in made:
                made.add(c)
                for v in above(c):
                    below.setdefault(v, []).append(c)
                    for i, s in waiting.get(v, ()):
                        link(i, s, c)
    return len(edges)


CASES: Final = {
    "count over a join": Case(
        lambda: joined(2000),
        "c(A, count<(B, C)>) <- e(A, B), f(B, C, _). query c(A, N).",
        "select a, count(*) from e join f using (b) group by a",
    ),
    "the same, 100 keys": Case(
        lambda: joined(100),
        "c(A, count<(B, C)>) <- e(A, B), f(B, C, _). query c(A, N).",
        "select a, count(*) from e join f using (b) group by a",
    ),
    "sum, mean, most": Case(
        lambda: joined(100),
        "s(A, sum<W>, avg<W>, max<W>) <- e(A, B), f(B, _, W). query s(A, S, M, X).",
        "select a, sum(w), avg(w), max(w) from e join f using (b) group by a",
    ),
    "paths of three, counted": Case(
        lambda: graph(10_000, 100_000),
        "c(count<_>) <- e(X, Y, _), e(Y, Z, _), e(Z, W, _). query c(N).",
        "select count(*) from e x join e y on x.b = y.a join e z on y.b = z.a",
    ),
    "the next event": Case(
        events,
        "n(U, T, min<S>) <- ev(U, T, _), ev(U, S, _), S > T. query n(U, T, S).",
        "select * from (select u, t, lead(t) over (partition by u order by t) s from ev) "
        "where s is not null",
    ),
    "events within an hour": Case(
        events,
        "n(U, T, count<_>, sum<K>) <- ev(U, T, _), ev(U, S, K), S > T, S - T <= 3600. "
        "query n(U, T, N, K).",
        "select a.u, a.t, count(*), sum(b.k) from ev a join ev b "
        "on a.u = b.u and b.t > a.t and b.t - a.t <= 3600 group by 1, 2",
    ),
    "sessions": Case(
        events,
        "recent(U, T) <- ev(U, T, _), ev(U, S, _), S < T, T - S <= 1800. "
        "first(U, T) <- ev(U, T, _), ~recent(U, T). "
        "s(U, T, max<S>) <- ev(U, T, _), first(U, S), S <= T. n(U, S, count<T>) <- s(U, T, S). "
        "query n(U, S, N).",
        "with a as (select u, t, case when t - lag(t) over (partition by u order by t) <= 1800 "
        "then 0 else 1 end n from ev), b as (select u, t, sum(n) over (partition by u order by t) "
        "s from a) select u, s, count(*) from b group by 1, 2",
    ),
    "intervals that overlap": Case(
        intervals,
        "o(A, B) <- iv(A, S, E), iv(B, T, F), A < B, S <= F, T <= E. query o(A, B).",
        "select a.i, b.i from iv a join iv b on a.i < b.i and a.s <= b.e and b.s <= a.e",
    ),
    "points nearby": Case(
        points,
        "c(I, J) <- p(I, X, Y), p(J, U, V), I < J, U <= X + 20, X <= U + 20, V <= Y + 20, "
        "Y <= V + 20. query c(I, J).",
        "select a.i, b.i from p a join p b on a.i < b.i and b.x between a.x - 20 and a.x + 20 "
        "and b.y between a.y - 20 and a.y + 20",
    ),
    "equal sums": Case(
        pairs,
        "t(X, Y, Z, W) <- p(X, Y), q(Z, W), X + Y = Z + W. query t(X, Y, Z, W).",
        "select x, y, z, w from p join q on x + y = z + w",
    ),
    "bought together": Case(
        baskets,
        "c(X, Y, count<B>) <- o(B, X), o(B, Y), X < Y. s(X, Y, N) <- c(X, Y, N), N >= 5. "
        "query s(X, Y, N).",
        "select x.i, y.i, count(*) from o x join o y on x.b = y.b and x.i < y.i group by 1, 2 "
        "having count(*) >= 5",
    ),
    "revenue": Case(
        sales,
        "s(C, sum<Q * V>) <- sale(I, C, P, _, Q, _), prod(P, _, V). query s(C, S).",
        "select c, sum(q * v) from sale join prod using (p) group by 1",
    ),
    "no orders in a year": Case(
        sales,
        "a(C) <- sale(_, C, _, D, _, _), day(D, 2023). i(C, R) <- cust(C, R), ~a(C). "
        "query i(C, R).",
        "select c, r from cust where c not in (select c from sale join day using (d) "
        "where y = 2023)",
    ),
    "names in upper case": Case(
        people,
        "u(I, T) <- p(I, N), T = concat(upper(N), '!'). query u(I, T).",
        "select i, concat(upper(n), '!') from p",
    ),
    "names by their letters": Case(
        people,
        "u(T, count<I>) <- p(I, N), T = substring(N, 1, 4). query u(T, C).",
        "select substring(n, 1, 4), count(*) from p group by 1",
    ),
    "who may see what": Case(
        groups,
        "in(U, G) <- member(U, G). in(U, H) <- in(U, G), sub(G, H). "
        "may(U, D) <- in(U, G), sees(G, D), ~deny(U, D). n(D, count<U>) <- may(U, D). "
        "query n(D, N).",
        "with recursive i(u, g) as (select u, g from member union select i.u, s.h from i "
        "join sub s on i.g = s.g), may as (select distinct u, d from i join sees using (g) "
        "where not exists (select 1 from deny x where x.u = i.u and x.d = sees.d)) "
        "select d, count(*) from may group by d",
    ),
    "diamonds": Case(
        lambda: graph(20_000, 200_000),
        "d(A, D, count<(B, C)>) <- e(A, B, _), e(B, D, _), e(A, C, _), e(C, D, _), B < C. "
        "query d(A, D, N).",
        "with p as (select x.a, y.b d, count(*) n from e x join e y on x.b = y.a group by 1, 2) "
        "select a, d, n * (n - 1) // 2 from p where n > 1",
    ),
    "longest paths": Case(
        lambda: graph(100_000, 400_000, ordered=True),
        "s(A, mmax<0>) <- e(A, _, _). s(B, mmax<D + W>) <- s(A, D), e(A, B, W). query s(A, D).",
        longest,
    ),
    "uses and definitions": Case(
        flow,
        "out(P, V, P) <- def(P, V). out(Q, V, D) <- next(P, Q), out(P, V, D), ~def(Q, V). "
        "ud(Q, V, D) <- next(P, Q), out(P, V, D), use(Q, V). query ud(P, V, D).",
        "with recursive o(p, v, d) as (select p, v, p from def union select n.b, o.v, o.d from o "
        "join next n on n.a = o.p where not exists "
        "(select 1 from def d where d.p = n.b and d.v = o.v)) select distinct n.b, o.v, o.d "
        "from o join next n on n.a = o.p join use u on u.p = n.b and u.v = o.v",
    ),
    "calls by dispatch": Case(
        classes,
        "sub(C, C) <- extends(C, _). sub(C, C) <- extends(_, C). sub(C, A) <- sub(C, B), "
        "extends(B, A). has(C, S) <- declares(C, S, _). lookup(C, S, M) <- declares(C, S, M). "
        "lookup(C, S, M) <- extends(C, P), lookup(P, S, M), ~has(C, S). live(M) <- main(M). "
        "made(C) <- live(M), inst(M, C). live(T) <- edge(_, T). "
        "edge(I, T) <- live(M), site(I, M, V, S), sub(C, V), made(C), lookup(C, S, T). "
        "query edge(I, T).",
        dispatched,
    ),
}


def mine(case: Case) -> tuple[float, int]:
    """Seconds and answers of the second of two runs."""
    import caladan

    seconds, count = 0.0, 0
    tables = {name: pa.table(columns) for name, columns in case.tables().items()}
    for _ in range(2):
        db = caladan.connect("embedded")
        started = time.process_time()
        for name, each in tables.items():
            db.add(name, each)
        try:
            count = db.run(case.program, timeout=LONGEST).answer.count()
        except caladan.Stopped:
            count = -1
        seconds = time.process_time() - started
        if count < 0:
            break
    return seconds, count


def peers(case: Case) -> tuple[float, int]:
    """Seconds and answers of the peer."""
    tables = case.tables()
    if not isinstance(case.peer, str):
        started = time.process_time()
        return (count := case.peer(tables), time.process_time() - started)[1], count
    from threading import Timer

    import duckdb

    connection = duckdb.connect(config={"threads": 2, "memory_limit": "8GB"})
    for name, columns in tables.items():
        connection.register(name, pa.table(columns))
    timer = Timer(LONGEST, connection.interrupt)
    timer.start()
    started = time.process_time()
    try:
        count = connection.sql(case.peer).to_arrow_table().num_rows
    except duckdb.InterruptException:
        count = -1
    timer.cancel()
    return time.process_time() - started, count


def main() -> None:
    """Print a line for each case; with `--one WHO NAME`, run it here."""
    if sys.argv[1:2] == ["--one"]:
        seconds, count = (mine if sys.argv[2] == "mine" else peers)(CASES[sys.argv[3]])
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(json.dumps((seconds, count, most)))
        return
    names = sys.argv[1].split(",") if len(sys.argv) > 1 else list(CASES)
    print("| case | facts | answers | CPU s (peak) | peer | CPU s (peak) | peer / embedded |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name in names:
        facts = sum(len(next(iter(each.values()))) for each in CASES[name].tables().values())
        results: list[Any] = []
        for who in ("mine", "peer"):
            command = [sys.executable, "-m", "bench.users", "--one", who, name]
            results.append(json.loads(subprocess.check_output(command, text=True).splitlines()[-1]))
        (own, count, most), (other, found, room) = results
        assert count < 0 or found < 0 or count == found, (name, count, found)
        kind = "DuckDB" if isinstance(CASES[name].peer, str) else "Python"
        times = [f"{'> ' if n < 0 else ''}{s:.3f}" for s, n in ((own, count), (other, found))]
        print(
            f"| {name} | {facts:,} | {max(count, found):,} | {times[0]} ({most} MB) | {kind} | "
            f"{times[1]} ({room} MB) | {'> ' if found < 0 else ''}{other / own:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
