"""Cyclic bodies stay within the bound of Atserias, Grohe and Marx, however wide their atoms are.

Proposals are counted, on the default path: for a variable that atoms meet in, no more of them than
the body could have solutions, given the sizes of its relations.
"""

import math
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note, settings, strategies as st

import caladan
from caladan.join.estimates import GRADES
from caladan.join.hypergraph import cyclic_core

Columns = Mapping[str, Any]


def proposals(out: Any) -> int:
    """What the rules of a run proposed, all variables together."""
    rules = (rule for clique in out.stats.cliques for rule in clique.rules)
    return sum(each.proposed for rule in rules for each in rule.search)


# ── Hubs ─────────────────────────────────────────────────────────────────────────────────────────


def hub(n: int) -> tuple[np.ndarray, np.ndarray]:
    """A star there and back, and a rim: 3n edges, and n² pairs of neighbouring ones."""
    spokes, zero = np.arange(1, n + 1), np.zeros(n, np.int64)
    return np.concatenate([zero, spokes, spokes]), np.concatenate([spokes, zero, spokes % n + 1])


def edges(n: int) -> dict[str, Columns]:
    a, b = hub(n)
    return {"e": {"a": a, "b": b}}


def pairs(n: int) -> dict[str, Columns]:
    a, b = hub(n)
    return {"e": {"a": a, "p": a % 7, "b": b, "q": b % 7}}


def labels(n: int) -> dict[str, Columns]:
    a, b = hub(n)
    return {"e": {"a": a, "b": b, "l": (a + b) % 5}}


def twice(n: int) -> dict[str, Columns]:
    a, b = hub(n)
    return {"e": {"a": a, "b": b, "c": a}}


def derived(n: int) -> dict[str, Columns]:
    spokes = np.arange(1, n + 1)
    return {**edges(n), "c": {"x": spokes, "y": spokes % n + 1, "z": np.zeros(n, np.int64)}}


HUBS = {
    "two columns": ("t(X, Y, Z) <- e(X, Y), e(Y, Z), e(Z, X).", edges),
    "pair keys": ("t(X, Y, Z) <- e(X, P, Y, Q), e(Y, Q, Z, R), e(Z, R, X, P).", pairs),
    "labels": ("t(X, Y, Z) <- e(X, Y, _), e(Y, Z, _), e(Z, X, _).", labels),
    "weights": ("t(X, Y, Z, A, B, C) <- e(X, Y, A), e(Y, Z, B), e(Z, X, C).", labels),
    "least": (
        "t(X, min<W>) <- e(X, Y, A), e(Y, Z, B), e(Z, X, C), W = A + B + C.",
        labels,
    ),
    "counted": ("t(X, count<Z>) <- e(X, Y, _), e(Y, Z, _), e(Z, X, _).", labels),
    "a column twice": ("t(X, Y, Z) <- e(X, Y, X), e(Y, Z, Y), e(Z, X, Z).", twice),
    "recursion": ("t(X, Y) <- e(X, Y). t(X, Z) <- c(Y, W, Z), t(X, W), t(X, Y).", derived),
    "recursion by labels": (
        "t(X, Y, L) <- e(X, Y, L). t(X, Y, M) <- t(X, Y, _), t(Y, Z, _), t(Z, X, _), m(M).",
        lambda n: {**labels(n), "m": {"m": np.arange(7, 9)}},
    ),
    "only ends count": (
        "c(X, Z) <- e(X, Y), e(Y, Z), e(Z, W), e(W, X), X < 3, Z < 3. t(X, Y) <- e(X, Y).",
        edges,
    ),
    "an ear": ("t(X, V) <- e(X, Y, A), e(Y, Z, _), e(Z, X, _), f(A, V).", lambda n: {
        **labels(n), "f": {"a": np.arange(5), "v": np.arange(5)}}),
}  # fmt: skip


@pytest.mark.parametrize(("rules", "data"), HUBS.values(), ids=HUBS)
def test_a_hub_costs_what_it_has_edges(rules: str, data: Any) -> None:
    answers: dict[int, int] = {}
    for n in (300, 1200):
        db = caladan.connect("embedded")
        for name, columns in data(n).items():
            db.add(name, columns)
        out = db.run(rules)
        answers[n] = out["t"].count()
        assert 0 < proposals(out) < 30 * n, n  # pairs over the hub are n²
        rules_done = (rule for clique in out.stats.cliques for rule in clique.rules)
        for each in (each for rule in rules_done for each in rule.search):
            assert sum(each.by.values()) == each.proposed, each  # whoever proposed is named
    assert answers[1200] > 3 * answers[300]


def test_groups_that_improve_meet_by_their_keys() -> None:
    rules = """
        t(X, Y, mmin<L>) <- e(X, Y, L).
        t(X, Y, mmin<N>) <- t(X, Y, A), t(Y, Z, _), t(Z, X, _), N = A - 1, N > 0.
        """
    for n in (300, 1200):
        db = caladan.connect("embedded")
        db.add("e", labels(n)["e"])
        out = db.run(rules)
        assert out["t"].count() == 3 * n
        assert 0 < proposals(out) < 100 * n, n
    expected = caladan.connect("reference")
    expected.add("e", labels(30)["e"])
    db.add("e", labels(30)["e"])
    assert sorted(db.run(rules)["t"].rows()) == sorted(expected.run(rules)["t"].rows())


def chained(n: int) -> dict[str, Columns]:
    steps = np.arange(1, n)
    a, b = hub(n)
    labelled = {"a": a, "b": b, "l": (a + b) % 5}
    return {"e": {"a": a, "b": b}, "l": labelled, "next": {"a": steps, "b": steps + 1}}


FINISHED = "t(1, 1). t(Y, 1) <- t(X, _), next(X, Y). t(X, Z) <- t(X, _), "
GROWING = "r(X, Y, L, M) <- l(X, Y, L), X < 2, M = L. t(X, Y) <- r(X, Y, _, _)."
GROWING += "r(X, Y, L, M) <- r(V, _, _, _), next(V, X), l(X, Y, L), M = L. r(X, X, 9, 9) <- "


@pytest.mark.parametrize(
    "rules",
    [
        FINISHED + "e(X, Y), e(Y, Z), e(Z, X).",
        FINISHED + "l(X, Y, _), l(Y, Z, _), l(Z, X, _).",
        GROWING + "r(X, Y, _, _), r(Y, Z, _, _), r(Z, X, _, _).",
        GROWING + "r(X, Y, A, A), r(Y, Z, B, B), r(Z, X, C, C), A + B + C > 0.",
        GROWING + "r(X, Y, A, _), r(Y, Z, B, C), r(Z, X, C, B).",
    ],
    ids=["finished", "labels", "of the clique", "read", "in two columns"],
)
def test_tiny_rounds_meet_too(rules: str) -> None:
    """A fact a round, and each next to the hub: atom by atom that is n² steps."""
    answers: dict[str, list[tuple[Any, ...]]] = {}
    for engine in ("embedded", "reference"):
        db = caladan.connect(engine)
        for name, columns in chained(24).items():
            db.add(name, columns)
        answers[engine] = sorted(db.run(rules)["t"].rows())
    assert answers["embedded"] == answers["reference"]
    seconds: list[float] = []
    for n in (1_000, 16_000):
        db = caladan.connect("embedded")
        for name, columns in chained(n).items():
            db.add(name, columns)
        assert "one fact at a time" in str(db.run(rules).stats)  # and warm
        started = time.process_time()
        db.run(rules)
        seconds.append(time.process_time() - started)
    assert seconds[1] < 40 * seconds[0] + 0.7  # 256 times as many pairs


def test_a_closure_takes_part_and_is_not_listed() -> None:
    n = 2000
    back = np.arange(1, n)
    db = caladan.connect("embedded")
    db.add("arc", {"a": back - 1, "b": back})
    db.add("b", {"a": back, "b": back - 1, "l": back % 3})
    out = db.run("""
        tc(X, Y) <- arc(X, Y).
        tc(X, Y) <- tc(X, Z), arc(Z, Y).
        t(X, Y, Z) <- tc(X, Y), b(Y, Z, _), b(Z, X, _).
        own(X, Z) <- tc(X, X), b(X, Z, _), b(Z, Y, _), tc(Y, X).
        """)
    assert out["t"].count() == n - 2
    assert out["own"].count() == 0
    assert "ranges" in out.stats.cliques[0].layouts.values()
    assert proposals(out) < 5 * n


# ── The bound ────────────────────────────────────────────────────────────────────────────────────


def agm(atoms: Sequence[Collection[str]], sizes: Sequence[int]) -> float:
    """The most solutions that a body can have: its least fractional edge cover, by its dual.

    Maximise the sum of weights of variables so that those of an atom weigh at most the logarithm
    of its size; the simplex method, from the origin, by Bland's rule.
    """
    names = sorted(frozenset[str]().union(*atoms))
    rows, columns = len(atoms), len(names)
    table = np.zeros((rows + 1, columns + rows + 1))
    for row, (atom, size) in enumerate(zip(atoms, sizes, strict=True)):
        table[row, [names.index(v) for v in atom]] = 1
        table[row, columns + row] = 1
        table[row, -1] = math.log(max(size, 1))
    table[-1, :columns] = -1
    while (falling := np.flatnonzero(table[-1, :-1] < -1e-9)).size:
        enter = falling[0]
        ratios = [table[r, -1] / table[r, enter] if table[r, enter] > 1e-9 else math.inf
                  for r in range(rows)]  # fmt: skip
        leave = int(np.argmin(ratios))
        table[leave] /= table[leave, enter]
        for row in range(rows + 1):
            if row != leave:
                table[row] -= table[row, enter] * table[leave]
    return math.exp(table[-1, -1])


def test_the_bound_of_known_bodies() -> None:
    assert agm(["xy", "yz", "zx"], [100] * 3) == pytest.approx(1000)
    assert agm(["xy", "yz", "zx"], [100, 100, 1]) == pytest.approx(100)
    assert agm(["abc", "bcd", "cda", "dab"], [1000] * 4) == pytest.approx(10_000)
    assert agm(["ab", "bc", "cd", "de", "ea"], [100] * 5) == pytest.approx(100_000)


BODIES = {
    "triangle": ["XY", "YZ", "ZX"],
    "4-cycle": ["AB", "BC", "CD", "DA"],
    "5-cycle": ["AB", "BC", "CD", "DE", "EA"],
    "4-clique": ["AB", "AC", "AD", "BC", "BD", "CD"],
    "Loomis-Whitney 4": ["ABC", "BCD", "CDA", "DAB"],
    "wide cycle": ["ABX", "BCX", "CDX", "DAX"],
    "triangle of pairs": ["XPYQ", "YQZR", "ZRXP"],
}


def skewed(random: np.random.Generator, arity: int, size: int) -> np.ndarray:
    """Two regimes: half of the facts have a hub in a random column, the others are spread."""
    facts = random.integers(0, round(size ** (1 / (arity - 0.7))), (size, arity))
    hubs = random.integers(0, arity, size // 2)
    facts[np.arange(size // 2), hubs] = 0
    return np.unique(facts, axis=0)


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("narrow", [3, 40])
@pytest.mark.parametrize("grade", [None, *GRADES])
def test_known_bodies_stay_within_the_bound(
    body: list[str], narrow: int, grade: str | None
) -> None:
    random = np.random.default_rng(narrow)
    db = caladan.connect("embedded")
    sizes: list[int] = []
    for number, atom in enumerate(body):
        facts = skewed(random, len(atom), 400)
        facts[:, 0] %= narrow
        facts = np.unique(facts, axis=0)
        sizes.append(len(facts))
        db.add(f"r{number}", {f"c{i}": column for i, column in enumerate(facts.T)})
    variables = sorted(set("".join(body)))
    atoms = ", ".join(f"r{i}({', '.join(atom)})" for i, atom in enumerate(body))
    out = db.run(f"q({', '.join(variables)}) <- {atoms}.", search=grade)
    (rule,) = out.stats.cliques[0].rules
    assert rule.search
    bound = agm(body, sizes)
    assert 0 < out["q"].count() <= bound * 1.001
    for each in rule.search:
        assert each.proposed <= bound * 1.001, (each, bound)


# ── Random bodies ────────────────────────────────────────────────────────────────────────────────


@dataclass
class RandomBody:
    """A rule `q(…) <- …` over relations r0, r1, …, and their facts."""

    atoms: list[list[str]]
    facts: list[list[tuple[int, ...]]]
    rest: list[str]
    head: str

    @property
    def text(self) -> str:
        body = [f"r{i}({', '.join(atom)})" for i, atom in enumerate(self.atoms)]
        declared = (
            f"r{i}({', '.join(f'C{c}: integer' for c in range(len(atom)))})"
            for i, atom in enumerate(self.atoms)
        )
        rule = f"q({self.head}) <- {', '.join([*body, *self.rest])}."
        return f"database({{{', '.join(declared)}}}).\n{rule}\nquery q({self.goal})."

    @property
    def goal(self) -> str:
        return ", ".join(f"H{i}" for i in range(self.head.count(",") + 1))


NAMES = ("X", "Y", "Z", "W", "V")


@st.composite
def random_bodies(draw: st.DrawFn) -> RandomBody:
    variable = st.sampled_from(NAMES)
    term = variable | variable | variable | variable | st.sampled_from(["_", "1"])
    atoms = draw(st.lists(st.lists(term, min_size=1, max_size=5), min_size=2, max_size=5))
    bound = sorted({name for atom in atoms for name in atom} & set(NAMES)) or ["X"]
    if bound == ["X"] and not any("X" in atom for atom in atoms):
        atoms.append(["X"])
    some = st.sampled_from(bound)
    word = st.integers(0, 3)
    facts = [draw(st.lists(st.tuples(*[word] * len(atom)), max_size=25)) for atom in atoms]
    rest: list[str] = []
    if draw(st.booleans()):
        operator = draw(st.sampled_from(["<", "<=", "~=", ">", "="]))
        rest.append(f"{draw(some)} {operator} {draw(some | st.sampled_from(['2']))}")
    if draw(st.booleans()):
        number = draw(st.integers(0, len(atoms) - 1))
        arguments = [draw(some | st.just("_")) for _ in atoms[number]]
        rest.append(f"~r{number}({', '.join(arguments)})")
    if draw(st.booleans()):
        a, b, c = draw(some), draw(some), draw(some)
        made = [f"{a} + {b} = {c}", f"{a} * {b} = {c}", f"2 * {a} = {b} + {c}", f"odd({a})"]
        rest.append(draw(st.sampled_from(made)))
    if draw(st.booleans()):
        rest.append(f"N = {draw(some)} + {draw(some)}")
        bound.append("N")
    head = ", ".join(draw(st.lists(st.sampled_from(bound), min_size=1, max_size=3)))
    aggregate = draw(st.sampled_from(["", "", "count", "min", "sum"]))
    if aggregate:
        head += f", {aggregate}<{draw(some)}>"
    return RandomBody(atoms, facts, rest, head)


def run(engine: str, body: RandomBody, search: str | None = None) -> Any:
    db = caladan.connect(engine)
    for number, facts in enumerate(body.facts):
        columns = zip(*facts, strict=True) if facts else [[] for _ in body.atoms[number]]
        db.add(f"r{number}", {f"C{c}": list(column) for c, column in enumerate(columns)})
    db.define("odd", lambda number: number % 2 == 1, returns="boolean")
    return db.run(body.text, search=search)


@settings(max_examples=settings().max_examples // 2)
@given(random_bodies(), st.sampled_from([None, None, *GRADES]))
def test_random_bodies(body: RandomBody, grade: str | None) -> None:
    note(body.text)
    found, expected = (run(e, body, grade).answer.rows() for e in ("embedded", "reference"))
    assert sorted(found) == sorted(expected)


@given(random_bodies(), st.sampled_from([None, *GRADES]))
def test_random_cores_stay_within_the_bound(body: RandomBody, grade: str | None) -> None:
    """What is proposed in the core is bounded by the core: other atoms and tests only take away."""
    named = [frozenset(atom) & frozenset(NAMES) for atom in body.atoms]
    core = cyclic_core(named)
    if len(core) < len(named) or "N" in body.text:
        return
    note(body.text)
    bound = agm(named, [len(set(facts)) for facts in body.facts])
    (rule,) = run("embedded", body, grade).stats.cliques[0].rules
    assert all(each.proposed <= bound * 1.001 for each in rule.search)
