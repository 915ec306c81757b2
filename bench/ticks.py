"""Ticks: what one costs, as tables grow, as programs are lazy or safe, as ticks go by.

    python -m bench.ticks                 everything but what takes minutes
    python -m bench.ticks --whole         tables of ten million facts, closures of ten million

Every row compares two things in one run, by CPU seconds, and says what has to hold. Rows are the
best of several, since noise only adds.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import caladan as cal
from caladan import bloom


class KVS(bloom.Bloom):
    """A store: puts replace, gets are answered in their tick."""

    put = bloom.input("request", "key", "value")
    get = bloom.input("request", "key")
    reply = bloom.output("request", to="value")
    state = bloom.table("key", to="value")

    @bloom.rules
    def store(self) -> None:
        self.state <<= self.put.project("key", "value")
        self.reply |= (self.get * self.state).pairs("key").project("request", "value")


JOIN = """
    table r(a, b).
    table s(b, c).
    scratch t(a, c).
    t(A, C) <- r(A, B), s(B, C).
"""

STEPS = """
    table step(a, b).
    input start(a).
    scratch reached(a).
    reached(A) <- start(A).
    reached(B) <- reached(A), step(A, B).
"""

CLOSURE = """
    table arc(a, b).
    scratch tc(a, b).
    tc(A, B) <- arc(A, B).
    tc(A, C) <- tc(A, B), arc(B, C).
"""

BATCH = """
    tc(A, B) <- arc(A, B).
    tc(A, C) <- tc(A, B), arc(B, C).
    query tc(A, B).
"""


@dataclass(frozen=True)
class Row:
    """What was compared, the numbers, and whether it is as it must be."""

    what: str
    found: str
    must: str
    holds: bool


def main() -> None:
    """Print a line for each comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--whole", action="store_true", help="the sizes that take minutes too")
    whole = parser.parse_args().whole
    for row in rows(whole=whole):
        print(f"{'ok ' if row.holds else 'NO '} {row.what}: {row.found} (must: {row.must})")


def rows(*, whole: bool) -> list[Row]:
    """All comparisons; smaller ones if not `whole`."""
    large = 10_000_000 if whole else 1_000_000
    return [
        store(),
        growth_of_a_table(large),
        lazy_against_safe(20_000 if whole else 5_000),
        many_steps(30_000),
        *closure(100 if whole else 4),
        steady(100_000 if whole else 20_000),
    ]


def cpu(action: Callable[[], object], times: int = 3) -> float:
    """The least CPU seconds that something takes."""
    best = float("inf")
    for _ in range(times):
        started = time.process_time()
        action()
        best = min(best, time.process_time() - started)
    return best


def ticked(kvs: KVS, ticks: int, keys: int) -> None:
    """A put and a get in each tick."""
    for i in range(ticks):
        kvs.insert("put", [(i, i % keys, i)])
        kvs.insert("get", [(i, (i - 1) % keys)])
        kvs.tick()


def store() -> Row:
    """Ticks a second of the key-value store."""
    kvs = KVS()
    ticked(kvs, 500, 100)
    rate = 2000 / cpu(lambda: ticked(kvs, 2000, 100), 5)
    return Row(
        "key-value store, one put and one get a tick", f"{rate:,.0f} ticks/s", ">= 3,000",
        rate >= 3000,
    )  # fmt: skip


def growth_of_a_table(large: int) -> Row:
    """The same tick against a small and against a large table."""
    seconds: list[float] = []
    for size in (10_000, large):
        kvs = KVS()
        gc.disable()
        kvs.insert("state", [(i, i) for i in range(size)])
        kvs.tick()
        gc.enable()
        gc.freeze()
        ticked(kvs, 500, 100)
        seconds.append(cpu(partial(ticked, kvs, 2000, size), 5))
        kvs.stop()
        del kvs
        gc.unfreeze()
        gc.collect()
    ratio = seconds[1] / seconds[0]
    return Row(
        f"a tick against {large:,} facts, and against 10,000",
        f"{seconds[1] / 2000 * 1e6:.0f} us and {seconds[0] / 2000 * 1e6:.0f} us, ratio {ratio:.2f}",
        "<= 1.5", ratio <= 1.5,
    )  # fmt: skip


def lazy_against_safe(size: int) -> Row:
    """A join of two tables with one match; one fact goes and comes back."""
    seconds: list[float] = []
    for safe, ticks in ((False, 200), (True, 4)):
        join = bloom.program(JOIN, safe=safe)
        join.insert("r", [(i, i) for i in range(size)])
        join.insert("s", [(i + size - 1, i) for i in range(size)])
        join.tick()
        assert join["t"].rows() == [(size - 1, 0)]

        def go(join: bloom.Bloom = join, ticks: int = ticks) -> None:
            for _ in range(ticks // 2):
                join.delete("r", [(size - 1, size - 1)])
                join.tick()
                join.insert("r", [(size - 1, size - 1)])
                join.tick()

        seconds.append(cpu(go) / ticks)
    ratio = seconds[1] / seconds[0]
    return Row(
        f"a fact of a {size:,} x {size:,} join deleted and inserted, lazy and safe",
        f"{seconds[0] * 1e6:.0f} us and {seconds[1] * 1e3:.1f} ms, ratio {ratio:,.0f}",
        ">= 50", ratio >= 50,
    )  # fmt: skip


def many_steps(steps: int) -> Row:
    """A chain of derivations in one tick."""
    chain = bloom.program(STEPS)
    chain.insert("step", [(i, i + 1) for i in range(steps)])
    chain.tick()

    def go() -> None:
        chain.insert("start", [(0,)])
        chain.tick()
        assert chain["reached"].count() == steps + 1
        chain.tick()

    seconds = cpu(go)
    return Row(f"{steps:,} steps in one tick", f"{seconds:.2f} s", "< 2 s", seconds < 2)


def closure(chains: int) -> list[Row]:
    """An edge more and an edge less of a closure, in ticks and watched, beside the whole of it.

    The whole is what a tick takes for it, what it takes to watch it, a batch run that lists it, and
    one that only counts it, for which the embedded engine keeps ranges and lists nothing.
    """
    length = 447
    arcs = [(c * 1000 + i, c * 1000 + i + 1) for c in range(chains) for i in range(length)]
    edge = [(length, length + 1)]
    facts, whole, in_ticks = _closure_in_ticks(arcs, edge)
    db = cal.connect("embedded")
    db.add("arc", arcs)

    def watch() -> None:
        db.watch(BATCH).close()

    def listed() -> None:
        assert db.run(BATCH)["tc"].arrow().num_rows == facts

    def counted() -> None:
        assert db.run(BATCH)["tc"].count() == facts

    parts = {"a tick": whole, "watch": cpu(watch), "a list": cpu(listed), "a count": cpu(counted)}
    live = db.watch(BATCH)
    insert, delete = partial(db.insert, "arc", edge), partial(db.delete, "arc", edge)
    watched = best_of(lambda: cpu(insert, 1), lambda: cpu(delete, 1))
    assert live["tc"].count() == facts
    found: list[Row] = []
    for how, seconds, whose in (("in ticks", in_ticks, "a tick"), ("watched", watched, "watch")):
        for what, each, must in zip(("added to", "deleted from"), seconds, (100, 10), strict=True):
            ratios = "; ".join(f"{n} {w:.2f} s: {w / each:,.0f}" for n, w in parts.items())
            found.append(
                Row(
                    f"an edge {what} a closure of {facts:,} facts, {how}",
                    f"{each * 1e3:.1f} ms; {ratios}",
                    f">= {must} ({whose})",
                    parts[whose] / each >= must,
                )
            )
    return found


def _closure_in_ticks(
    arcs: list[tuple[int, int]], edge: list[tuple[int, int]]
) -> tuple[int, float, list[float]]:
    """The facts of the closure, the seconds of the tick that has them all, and of changes."""
    tc = bloom.program(CLOSURE)
    tc.insert("arc", arcs)
    gc.disable()
    whole = cpu(tc.tick, 1)
    facts = tc["tc"].count()

    def tick(change: Callable[[str, list[tuple[int, int]]], None]) -> float:
        change("arc", edge)
        return cpu(tc.tick, 1)

    changed = best_of(lambda: tick(tc.insert), lambda: tick(tc.delete))
    gc.enable()
    assert tc["tc"].count() == facts
    return facts, whole, changed


def best_of(*turns: Callable[[], float]) -> list[float]:
    """The least seconds of each of some actions that take turns."""
    times = [[turn() for turn in turns] for _ in range(5)]
    return [min(each) for each in zip(*times, strict=True)]


def steady(ticks: int) -> Row:
    """Memory and time of a program that goes on and on."""
    kvs = KVS()
    part = ticks // 10
    ticked(kvs, part, 1000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    first = cpu(lambda: ticked(kvs, part, 1000), 2)
    for _ in range(5):
        ticked(kvs, part, 1000)
    last = cpu(lambda: ticked(kvs, part, 1000), 2)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return Row(
        f"{ticks:,} ticks of a steady program",
        f"{grown / 1024:.1f} MB more at the peak, last ticks {last / first:.2f} times the first",
        "no growth", grown < 2048 and last < 1.3 * first,
    )  # fmt: skip


if __name__ == "__main__":
    main()
