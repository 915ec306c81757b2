"""Near misses: a closure that is answered in a moment, and the same with one thing more.

    python -m bench.cliffs [--against PATH] [--seconds N] [--only NAME…]

The closure of a grid of 150 × 150 nodes (128 M facts) as it stands, and with a condition, a column,
a rule or a type more, or with a rule on top; same generation and distances of grids likewise. Every
case runs in a process of its own, a few times, and the best run counts: its CPU seconds, and
the peak memory of the process. *Ratio* is to the plain case of the group. `--against` names the
`src` of another checkout, which runs the same cases in turn with this one.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
ARC = "database({arc(A: integer, B: integer)}).\n"


@dataclass(frozen=True)
class NearMiss:
    """A program over a grid, and what it comes to; without `facts`, contestants must agree."""

    program: str
    group: str = "closure"
    facts: int | None = None
    options: Mapping[str, int] = field(default_factory=dict)


FULL = 128_233_125  # pairs of nodes of the grid of which one reaches the other


def _closure(
    exits: str = "arc(A, B)", step: str = "tc(A, C), arc(C, B)", rest: str = "", top: str = ""
) -> str:
    goal = "" if "query" in top else "query tc(A, B)."
    return f"{ARC}tc(A, B) <- {exits}. tc(A, B) <- {step}.\n{rest}\n{top}\n{goal}"


def _sql(select: str, tables: str = "") -> NearMiss:
    """The closure as a recursive view, and a query after it."""
    return NearMiss(
        f"CREATE TABLE arc(A integer, B integer); {tables}\n"
        "WITH recursive tc(A, B) AS (SELECT A, B FROM arc) UNION\n"
        f"(SELECT tc.A, arc.B FROM tc, arc WHERE tc.B = arc.A)\n{select}"
    )


def cases() -> dict[str, NearMiss]:
    """All cases by name; the first of a group is the plain one."""
    wide = "database({arc(A: integer, B: integer), src(K: integer, A: integer)}).\n"
    named = "database({arc(A: integer, B: integer), named(S: string, A: integer)}).\n"
    heavy = "database({arc(A: integer, B: integer), heavy(A: integer, V: double)}).\n"
    few = "database({arc(A: integer, B: integer), few(A: integer)}).\n"
    pairs = "database({arc(A: integer, B: integer), pair(A: integer, B: integer)}).\n"
    closure = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B).\n"
    return {
        "plain": NearMiss(_closure(), facts=FULL),
        "right-linear": NearMiss(_closure(step="arc(A, C), tc(C, B)"), facts=FULL),
        "non-linear": NearMiss(_closure(step="tc(A, C), tc(C, B)"), facts=FULL),
        "A > 10": NearMiss(_closure(step="tc(A, C), arc(C, B), A > 10")),
        "A > 10 in the exit": NearMiss(_closure(exits="arc(A, B), A > 10")),
        "B > 10": NearMiss(_closure(step="tc(A, C), arc(C, B), B > 10")),
        "A + 0 ~= 7 and B ~= 9": NearMiss(
            _closure(step="tc(A, C), arc(C, B), A + 0 ~= 7, B ~= 9")
        ),
        "constant column": NearMiss(
            f"{ARC}tc(A, 1, B) <- arc(A, B). tc(A, 1, B) <- tc(A, 1, C), arc(C, B).\n"
            "query tc(A, K, B).",
            facts=FULL,
        ),
        "carried column": NearMiss(
            f"{wide}tc(A, K, B) <- src(K, A), arc(A, B). tc(A, K, B) <- tc(A, K, C), arc(C, B).\n"
            "query tc(A, K, B).",
            facts=FULL,
        ),
        "sources are strings": NearMiss(
            f"{named}tc(S, B) <- named(S, A), arc(A, B). tc(S, B) <- tc(S, C), arc(C, B).\n"
            "query tc(S, B).",
            facts=FULL,
        ),
        "few sources": NearMiss(
            f"{few}tc(A, B) <- few(A), arc(A, B). tc(A, B) <- tc(A, C), arc(C, B).\n"
            "query tc(A, B)."
        ),
        "two recursive rules": NearMiss(
            _closure(rest="tc(A, B) <- tc(A, C), arc(B, C), C < 5.")
        ),
        "an extra rule with a constant": NearMiss(_closure(rest="tc(A, 7) <- tc(A, 3).")),
        "two exit rules": NearMiss(_closure(rest="tc(A, B) <- arc(A, C), arc(C, B), A < 100.")),
        "both ends": NearMiss(
            _closure(exits="arc(A, B), A > 10", rest="tc(A, B) <- arc(A, C), tc(C, B).")
        ),
        "both ends bound": NearMiss(_closure(top="query tc(0, 22499).")),
        "a join as the step": NearMiss(_closure(step="tc(A, C), arc(C, D), arc(D, B)")),
        "max_facts": NearMiss(_closure(), facts=FULL, options={"max_facts": 1 << 40}),
        "max_rounds": NearMiss(_closure(), facts=FULL, options={"max_rounds": 1000}),
        "count<B> on top": NearMiss(_closure(top="n(A, count<B>) <- tc(A, B). query n(A, N).")),
        "countd<B> on top": NearMiss(_closure(top="n(A, countd<B>) <- tc(A, B). query n(A, N).")),
        "count<A> on top": NearMiss(_closure(top="n(B, count<A>) <- tc(A, B). query n(B, N).")),
        "max<B> on top": NearMiss(_closure(top="n(A, max<B>) <- tc(A, B). query n(A, N).")),
        "exists on top": NearMiss(_closure(top="n(A) <- tc(A, _). query n(A).")),
        "join on top": NearMiss(
            f"{pairs}{closure}j(A, B) <- pair(A, C), tc(C, B), pair(_, B). query j(A, B)."
        ),
        "join on top, second column": NearMiss(
            f"{pairs}{closure}j(A, B) <- tc(A, C), pair(C, B). query j(A, B)."
        ),
        "pairs on top": NearMiss(
            f"{pairs}{closure}j(A, B) <- pair(A, B), tc(A, B). query j(A, B)."
        ),
        "negation on top": NearMiss(
            f"{pairs}{closure}j(A, B) <- pair(A, B), ~tc(A, B). query j(A, B)."
        ),
        "negation of a column on top": NearMiss(
            f"{pairs}{closure}j(A) <- pair(A, _), ~tc(A, _). query j(A)."
        ),
        "copy on top": NearMiss(
            _closure(top="c(B, 1, A) <- tc(A, B). query c(B, K, A)."), facts=FULL
        ),
        "filter on top": NearMiss(_closure(top="c(A, B) <- tc(A, B), A > 100. query c(A, B).")),
        "A < B on top": NearMiss(
            _closure(top="c(A, B) <- tc(A, B), A < B. query c(A, B)."), facts=FULL
        ),
        "~pair(A, B) on top": NearMiss(
            f"{pairs}{closure}c(A, B) <- tc(A, B), ~pair(A, B). query c(A, B)."
        ),
        "union on top": NearMiss(
            f"{pairs}{closure}c(A, B) <- tc(A, B). c(A, B) <- pair(A, B). query c(A, B)."
        ),
        "both directions on top": NearMiss(
            _closure(top="c(A, B) <- tc(A, B). c(A, B) <- tc(B, A). query c(A, B)."), facts=2 * FULL
        ),
        "join with the edges on top": NearMiss(
            _closure(top="c(A, B) <- tc(A, C), arc(C, B). query c(A, B).")
        ),
        "join with itself on top": NearMiss(
            _closure(top="c(A, B) <- tc(A, C), tc(C, B). query c(A, B).")
        ),
        "sum<B> on top": NearMiss(_closure(top="n(A, sum<B>) <- tc(A, B). query n(A, N).")),
        "avg<A> by B on top": NearMiss(_closure(top="n(B, avg<A>) <- tc(A, B). query n(B, N).")),
        "count<B>, B > 5 on top": NearMiss(
            _closure(top="n(A, count<B>) <- tc(A, B), B > 5. query n(A, N).")
        ),
        "counts by label on top": NearMiss(
            f"{wide}{closure}n(K, count<B>, countd<B>) <- tc(A, B), src(K, A). query n(K, N, M)."
        ),
        "a closure as the step": NearMiss(
            f"{pairs}{closure}t(A, B) <- pair(A, B). t(A, B) <- t(A, C), tc(C, B). query t(A, B)."
        ),
        "a closure of the closure": NearMiss(
            _closure(top="t(A, B) <- tc(A, B). t(A, B) <- t(A, C), tc(C, B). query t(A, B)."),
            facts=FULL,
        ),
        "a closure as the step, bound": NearMiss(
            _closure(top="t(A, B) <- arc(A, B). t(A, B) <- t(A, C), tc(C, B). query t(0, B).")
        ),
        "~tc(A, B) in another": NearMiss(
            f"{pairs}{closure}t(A, B) <- pair(A, B). t(A, B) <- t(A, C), pair(C, B), ~tc(A, B).\n"
            "query t(A, B)."
        ),
        "A ~= B": NearMiss(_closure(step="tc(A, C), arc(C, B), A ~= B"), facts=FULL),
        "B - A < 4000": NearMiss(_closure(step="tc(A, C), arc(C, B), B - A < 4000")),
        "A < B": NearMiss(_closure(step="tc(A, C), arc(C, B), A < B"), facts=FULL),
        "A + B > 100": NearMiss(_closure(step="tc(A, C), arc(C, B), A + B > 100")),
        "C - A < 4000": NearMiss(_closure(step="tc(A, C), arc(C, B), C - A < 4000")),
        "A + C < B + 9000": NearMiss(_closure(step="tc(A, C), arc(C, B), A + C < B + 9000")),
        "A ~= B by two rules": NearMiss(
            _closure(
                step="tc(A, C), arc(C, B), A ~= B",
                rest="tc(A, B) <- tc(A, C), arc(B, C), B < 5, A ~= B.",
            )
        ),
        "~pair(A, B)": NearMiss(
            f"{pairs}tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B), ~pair(A, B).\n"
            "query tc(A, B)."
        ),
        "K < B, carried": NearMiss(
            f"{wide}tc(A, K, B) <- src(K, A), arc(A, B). "
            "tc(A, K, B) <- tc(A, K, C), arc(C, B), K < B.\nquery tc(A, K, B).",
            facts=FULL,
        ),
        "non-linear, A ~= B": NearMiss(
            _closure(step="tc(A, C), tc(C, B), A ~= B"), facts=FULL
        ),
        "non-linear, A > 10": NearMiss(_closure(step="tc(A, C), tc(C, B), A > 10")),
        "K < L, looked up": NearMiss(
            f"{wide}tc(A, B) <- arc(A, B). "
            "tc(A, B) <- tc(A, C), arc(C, B), src(K, A), src(L, B), K < L + 3.\nquery tc(A, B)."
        ),
        "the same looked up": NearMiss(
            f"{wide}tc(A, B) <- arc(A, B). "
            "tc(A, B) <- tc(A, C), arc(C, B), src(K, A), src(K, B).\nquery tc(A, B)."
        ),
        "computed": NearMiss(
            f"{ARC}tc(A, B, D) <- arc(A, B), D = B + 1. "
            "tc(A, B, D) <- tc(A, C, _), arc(C, B), D = B + 1.\nquery tc(A, B, D).",
            facts=FULL,
        ),
        "a column twice": NearMiss(
            f"{ARC}tc(A, A, B) <- arc(A, B). tc(A, A, B) <- tc(A, A, C), arc(C, B).\n"
            "query tc(A, X, B).",
            facts=FULL,
        ),
        "three atoms": NearMiss(_closure(step="tc(A, C), tc(C, D), tc(D, B)")),
        "non-linear, a step between": NearMiss(_closure(step="tc(A, C), arc(C, D), tc(D, B)")),
        "non-linear, and a step": NearMiss(
            _closure(step="tc(A, C), tc(C, B)", rest="tc(A, B) <- tc(A, C), arc(B, C), C < 5.")
        ),
        "non-linear, constant column": NearMiss(
            f"{ARC}tc(1, A, B) <- arc(A, B). tc(1, A, B) <- tc(1, A, C), tc(1, C, B).\n"
            "query tc(K, A, B).",
            facts=FULL,
        ),
        "both ends, A > 10": NearMiss(
            _closure(
                step="tc(A, C), arc(C, B), A > 10", rest="tc(A, B) <- arc(A, C), tc(C, B)."
            )
        ),
        "both sides in one class": NearMiss(
            f"{wide}{closure}c(A, B) <- tc(A, B), src(K, A), src(K, B). query c(A, B)."
        ),
        "named differences on top": NearMiss(
            _closure(top="n(A, sum<D>) <- tc(A, B), D = B - A. query n(A, N).")
        ),
        "sum<A * B> on top": NearMiss(
            _closure(top="n(A, sum<D>) <- tc(A, B), D = A * B. query n(A, N).")
        ),
        "max<B - A> on top": NearMiss(_closure(top="n(max<B - A>) <- tc(A, B). query n(N).")),
        **{
            f"{best}<B> by labels of both on top": NearMiss(
                f"{wide}{closure}n(K, L, {best}<B>) <- tc(A, B), src(K, A), src(L, B).\n"
                "query n(K, L, N)."
            )
            for best in ("count", "max")
        },
        "count<B> by B - A on top": NearMiss(
            _closure(top="n(D, count<B>) <- tc(A, B), D = B - A. query n(D, N).")
        ),
        **{
            f"{test} on top": NearMiss(_closure(top=f"c(A, B) <- tc(A, B), {test}. query c(A, B)."))
            for test in ("A * B > 100", "(A + B) mod 7 = 0")
        },
        "~tc(A, B) of all pairs": NearMiss(
            _closure(
                rest="n(A) <- arc(A, _). n(B) <- arc(_, B).",
                top="c(A, B) <- n(A), n(B), ~tc(A, B). query c(A, B).",
            ),
            facts=22_500**2 - FULL,
        ),
        "sum of doubles on top": NearMiss(
            f"{heavy}{closure}n(A, sum<V>) <- tc(A, B), heavy(B, V). query n(A, N)."
        ),
        **{
            f"SQL: {select}": _sql(f"SELECT {select}")
            for select in (
                "count(*) FROM tc",
                "A, count(*) FROM tc GROUP BY A",
                "count(DISTINCT B) FROM tc",
                "A, max(B), avg(B) FROM tc WHERE B > 10 GROUP BY A ORDER BY A LIMIT 5",
                "DISTINCT A FROM tc",
                "A, count(DISTINCT B) FROM tc GROUP BY 1 HAVING count(*) > 100",
                "max(B - A), sum(A * B) FROM tc",
                "B - A AS D, count(*) FROM tc GROUP BY D ORDER BY D LIMIT 5",
            )
        },
        "SQL: labels joined, counted": _sql(
            "SELECT s.K, count(*) FROM tc JOIN src AS s ON tc.A = s.A GROUP BY s.K",
            "CREATE TABLE src(K integer, A integer);",
        ),
        "SQL: labels of both joined": _sql(
            "SELECT s.K, t.K, count(*) FROM tc JOIN src AS s ON tc.A = s.A "
            "JOIN src AS t ON tc.B = t.A GROUP BY s.K, t.K",
            "CREATE TABLE src(K integer, A integer);",
        ),
        "SQL: pairs joined": _sql(
            "SELECT p.A, p.B FROM pair AS p JOIN tc ON tc.A = p.A AND tc.B = p.B "
            "WHERE p.A < 1000 ORDER BY p.A, p.B LIMIT 20",
            "CREATE TABLE pair(A integer, B integer);",
        ),
        "hops": NearMiss(
            f"{ARC}p(A, B, 1) <- arc(A, B). p(A, B, N + 1) <- p(A, C, N), arc(C, B).\n"
            "query p(A, B, N).",
            facts=FULL,
        ),
        "hops, N < 20": NearMiss(
            f"{ARC}p(A, B, 1) <- arc(A, B). p(A, B, N + 1) <- p(A, C, N), arc(C, B), N < 20.\n"
            "query p(A, B, N)."
        ),
        "swapped, A < 5": NearMiss(_closure(rest="tc(A, B) <- tc(B, A), A < 5.")),
        "both ends, carried column": NearMiss(
            f"{wide}tc(A, K, B) <- src(K, A), arc(A, B). tc(A, K, B) <- tc(A, K, C), arc(C, B).\n"
            "tc(A, K, B) <- arc(A, C), tc(C, K, B).\nquery tc(A, K, B)."
        ),
        "both ends through two": NearMiss(
            f"{ARC}tc(A, B) <- arc(A, B). q(A, B) <- tc(A, C), arc(C, B).\n"
            "tc(A, B) <- arc(A, C), q(C, B).\nquery tc(A, B)."
        ),
        "non-linear, A < B": NearMiss(_closure(step="tc(A, C), tc(C, B), A < B"), facts=FULL),
        "equivalence": NearMiss(
            _closure(step="tc(A, C), tc(C, B)", rest="tc(A, B) <- tc(B, A)."), facts=22_500**2
        ),
        "both directions": NearMiss(_closure(rest="tc(A, B) <- tc(B, A).")),
        "a relation between": NearMiss(
            _closure(step="mid(A, C), arc(C, B)", rest="mid(A, B) <- tc(A, B)."), facts=FULL
        ),
        "distances": NearMiss(
            ARC + "d(A, B, mmin<D>) <- arc(A, B), D = 1.\n"
            "d(A, B, mmin<D>) <- d(A, C, E), arc(C, B), D = E + 1.\nquery d(A, B, D).",
            "distances",
        ),
        "non-linear distances": NearMiss(
            ARC + "d(A, B, mmin<D>) <- arc(A, B), D = 1.\n"
            "d(A, B, mmin<D>) <- d(A, C, E), d(C, B, F), D = E + F.\nquery d(A, B, D).",
            "distances",
        ),
        "distances, A > 10": NearMiss(
            ARC + "d(A, B, mmin<D>) <- arc(A, B), D = 1.\n"
            "d(A, B, mmin<D>) <- d(A, C, E), arc(C, B), D = E + 1, A > 10.\nquery d(A, B, D).",
            "distances",
        ),
        "distances, computed": NearMiss(
            ARC + "d(A, B, mmin<D>) <- arc(A, B), D = 1.\n"
            "d(A, B, mmin<D>) <- d(A, C, E), arc(C, B), D = E + 2 * B + 1.\nquery d(A, B, D).",
            "distances",
        ),
        **{
            f"distances, {name}": NearMiss(
                ARC + f"d(A, B, {best}<D>) <- arc(A, B), D = {first}.\n"
                f"d(A, B, {best}<D>) <- d(A, C, E), arc(C, B), D = {made}.\nquery d(A, B, D).",
                "distances",
            )
            for name, best, first, made in (
                ("A ~= B", "mmin", "1", "E + 1, A ~= B"),
                ("D < 50", "mmin", "1", "E + 1, D < 50"),
                ("doubles", "mmin", "0.5", "E + B * 0.5"),
                ("longest", "mmax", "1", "E + 1"),
                ("widest", "mmin", "A", "if(E > B then E else B)"),
            )
        },
        "distances, constant column": NearMiss(
            ARC + "d(1, A, B, mmin<D>) <- arc(A, B), D = 1.\n"
            "d(1, A, B, mmin<D>) <- d(1, A, C, E), arc(C, B), D = E + 1.\nquery d(K, A, B, D).",
            "distances",
        ),
        "same generation": NearMiss(_generation("X ~= Y", ""), "generations"),
        "X ~= Y in the rule": NearMiss(_generation("X ~= Y", ", X ~= Y"), "generations"),
        "X > 10 in the rule": NearMiss(_generation("X ~= Y", ", X > 10"), "generations"),
        "two rules": NearMiss(
            _generation("X ~= Y", "", "sg(X, Y) <- arc(X, A), sg(A, B), arc(Y, B), X < 5, Y < 5."),
            "generations",
        ),
        "X < Y in the rule": NearMiss(_generation("X ~= Y", ", X < Y"), "generations"),
        "A ~= B in the rule": NearMiss(_generation("X ~= Y", ", A ~= B"), "generations"),
        "sg swapped": NearMiss(_generation("X ~= Y", "", "sg(X, Y) <- sg(Y, X)."), "generations"),
        "sg, constant column": NearMiss(
            f"{ARC}sg(X, 1, Y) <- arc(P, X), arc(P, Y), X ~= Y.\n"
            "sg(X, 1, Y) <- arc(A, X), sg(A, 1, B), arc(B, Y).\nquery sg(X, K, Y).",
            "generations",
        ),
        "tree: same generation": NearMiss(_generation("X ~= Y", ""), "tree"),
        "tree: X ~= Y in the rule": NearMiss(_generation("X ~= Y", ", X ~= Y"), "tree"),
        "tree: two rules": NearMiss(
            _generation("X ~= Y", "", "sg(X, Y) <- arc(A, X), sg(A, B), arc(Y, B), Y < 5."),
            "tree",
        ),
    }  # fmt: skip


def _generation(exits: str, step: str, rest: str = "") -> str:
    return (
        f"{ARC}sg(X, Y) <- arc(P, X), arc(P, Y), {exits}.\n"
        f"sg(X, Y) <- arc(A, X), sg(A, B), arc(B, Y){step}.\n{rest}\nquery sg(X, Y)."
    )


def grid(side: int) -> tuple[Any, Any]:
    """The edges to the right and down of a grid of nodes."""
    import numpy as np

    node = np.arange(side * side).reshape(side, side)
    first = np.concatenate([node[:, :-1].ravel(), node[:-1, :].ravel()])
    second = np.concatenate([node[:, 1:].ravel(), node[1:, :].ravel()])
    return first, second


def tree(depth: int, seed: int = 1) -> tuple[Any, Any]:
    """The edges of a tree whose nodes have 2 to 6 children."""
    import numpy as np

    chance = np.random.default_rng(seed)
    first, level, total = [], np.array([0]), 1
    for _ in range(depth):
        parents = np.repeat(level, chance.integers(2, 7, len(level)))
        level = np.arange(total, total + len(parents))
        first.append(parents)
        total += len(parents)
    return np.concatenate(first), np.arange(1, total)


def tables(group: str) -> dict[str, Any]:
    """The data of a group of cases."""
    import numpy as np
    import pyarrow as pa

    sides = {"closure": 150, "distances": 100, "generations": 150}
    a, b = tree(7) if group == "tree" else grid(sides[group])
    found = {"arc": pa.table({"A": pa.array(a, pa.int32()), "B": pa.array(b, pa.int32())})}
    if group == "closure":
        nodes = np.arange(150 * 150)
        found["src"] = pa.table({"K": pa.array(nodes % 5), "A": pa.array(nodes)})
        names = pa.array([f"node {n}" for n in nodes])
        found["named"] = pa.table({"S": names, "A": pa.array(nodes)})
        found["heavy"] = pa.table({"A": pa.array(nodes), "V": pa.array(nodes * 0.3)})
        found["few"] = pa.table({"A": pa.array(nodes[::750])})
        chance = np.random.default_rng(1)
        left, right = chance.integers(0, len(nodes), (2, 1000))
        found["pair"] = pa.table({"A": pa.array(left), "B": pa.array(right)})
    return found


def one(name: str) -> None:
    """Run a case a few times in this process, and print what the best run took."""
    import caladan

    case = cases()[name]
    best: dict[str, Any] = {}
    for number in range(7):
        if number > 1 and best["cpu"] > 0.5:
            break
        with caladan.connect("embedded") as db:
            for relation, table in tables(case.group).items():
                if f"{relation}(" in case.program.split("}")[0]:
                    db.add(relation, table)
            before, started = time.process_time(), time.perf_counter()
            out = db.run(case.program, **case.options)
            facts = out.answer.count()
            cpu, wall = time.process_time() - before, time.perf_counter() - started
            clique = next(c for c in out.stats.cliques if c.recursive)
            form = "/".join(sorted({*clique.layouts.values()}))
            if not best or cpu < best["cpu"]:
                best = {"cpu": cpu, "wall": wall, "facts": facts}
                best["how"] = f"{clique.strategy}, {form}"
        best["peak"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(json.dumps(best), flush=True)


def measured(name: str, source: Path, seconds: int) -> dict[str, Any] | None:
    """A case in a process of its own, with the package from a folder; None if it takes too long."""
    environment = {**os.environ, "PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
    code = f"from bench.cliffs import one; one({name!r})"

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))

    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment, cwd="/", capture_output=True, text=True, check=False, preexec_fn=limit,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines and "Traceback" in done.stderr:
        raise SystemExit(done.stderr)
    return json.loads(lines[-1]) if lines else None


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table, line by line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="the src of another checkout")
    parser.add_argument("--seconds", type=int, default=100, help="of CPU for a case")
    parser.add_argument("--only", nargs="*", default=[], help="cases")
    chosen = parser.parse_args(arguments)
    sources = {"now": ROOT / "src"}
    if chosen.against is not None:
        sources["before"] = chosen.against
    titles = [f"{who} {what}" for who in sources for what in ("CPU s", "ratio", "peak GB")]
    print("| case | facts | " + " | ".join(titles) + " | how |")
    print("|---|---:|" + "---:|" * len(titles) + "---|", flush=True)
    plain: dict[tuple[str, str], float] = {}
    for name, case in cases().items():
        if chosen.only and name not in chosen.only and (case.group, "now") in plain:
            continue
        if chosen.only and case.group not in {cases()[n].group for n in chosen.only}:
            continue
        line: list[str] = []
        facts = how = ""
        for who, source in sources.items():
            found = measured(name, source, chosen.seconds)
            if found is None:
                line += [f"> {chosen.seconds}", "", ""]
                continue
            if case.facts not in (None, found["facts"]):
                raise SystemExit(f"{name}: {found['facts']} facts, not {case.facts}")
            base = plain.setdefault((case.group, who), found["cpu"])
            line += [f"{found['cpu']:.3f}", f"{found['cpu'] / base:.1f}"]
            line += [f"{found['peak'] / 1e9:.2f}"]
            if facts and facts != f"{found['facts']:,}":
                raise SystemExit(f"{name}: {facts} facts now, {found['facts']:,} before")
            facts, how = f"{found['facts']:,}", how or found["how"]
        print(f"| {name} | {facts} | {' | '.join(line)} | {how} |", flush=True)


if __name__ == "__main__":
    main()
