"""Random pipelines of operators, in every mode, beside a model of what they mean: sets of pairs."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from tests.ticks.test_suite import MODES

from caladan import bloom

Pairs = set[tuple[int, int]]
Tree = tuple[Any, ...]


def groups(pairs: Pairs) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for a, b in sorted(pairs):
        found.setdefault(a, []).append(b)
    return found


def folded(pairs: Pairs) -> Pairs:
    return {(b, sum(found) % 5) for b, found in groups({(b, a) for a, b in pairs}).items()}


def numbered(s: Any, k: int) -> Any:
    found = s.sort("b", reverse=bool(k % 2)).each_with_index()
    return found.where(found.index < 2).project("a", "b")


def outer(s: Any, o: Any) -> Any:
    return (s * o).outer(b="a").map(lambda p, q: (p.a, 9 if q.b is None else q.b), "a", "b")


def joined(s: Any, o: Any, *on: Any) -> Any:
    return (s * o).pairs(*on).project(a=s.a, b=o.b)


# Of streams with the columns a and b, and of the sets of pairs that they are; k is a small number.
ONE: dict[str, tuple[Callable[[Any, int], Any], Callable[[Pairs, int], Pairs]]] = {
    "where": (
        lambda s, k: s.where(s.a > k - 1, s.b < 3),
        lambda s, k: {p for p in s if p[0] > k - 1 and p[1] < 3},
    ),
    "either": (
        lambda s, k: s.where((s.a == k) | (s.b == k) | ((s.a > s.b) & (s.b > 0))),
        lambda s, k: {(a, b) for a, b in s if k in (a, b) or a > b > 0},
    ),
    "function": (
        lambda s, k: s.where(lambda r: (r.a + r.b) % 2 == 0),
        lambda s, k: {p for p in s if sum(p) % 2 == 0},
    ),
    "map": (
        lambda s, k: s.map(lambda r: (r.b, r.a) if r.a != k else None, "a", "b"),
        lambda s, k: {(b, a) for a, b in s if a != k},
    ),
    "flat_map": (
        lambda s, k: s.flat_map(lambda r: [(r.a, i) for i in range(r.b % 3)], "a", "b"),
        lambda s, k: {(a, i) for a, b in s for i in range(b % 3)},
    ),
    "max": (
        lambda s, k: s.group(["a"], b=bloom.max("b")),
        lambda s, k: {(a, max(g)) for a, g in groups(s).items()},
    ),
    "sum": (
        lambda s, k: s.group(["a"], b=bloom.sum("b")),
        lambda s, k: {(a, sum(g)) for a, g in groups(s).items()},
    ),
    "count": (
        lambda s, k: s.group("a", b=bloom.count()),
        lambda s, k: {(a, len(g)) for a, g in groups(s).items()},
    ),
    "expression": (
        lambda s, k: s.group([s.a % 2], b=bloom.min(s.b + k)).project(a="c1", b="b"),
        lambda s, k: {(a, min(g)) for a, g in groups({(a % 2, b + k) for a, b in s}).items()},
    ),
    "argmin": (
        lambda s, k: s.argmin(["a"], "b"),
        lambda s, k: {(a, min(g)) for a, g in groups(s).items()},
    ),
    "argmax": (
        lambda s, k: s.argmax([], s.a + s.b),
        lambda s, k: {p for p in s if sum(p) == max(map(sum, s))},
    ),
    "choose": (
        lambda s, k: s.argagg("choose", ["a"], "b"),
        lambda s, k: {(a, min(g)) for a, g in groups(s).items()},
    ),
    "sort": (
        numbered,
        lambda s, k: set(sorted(s, key=lambda p: (p[1], p), reverse=bool(k % 2))[:2]),
    ),
    "reduce": (
        lambda s, k: s.reduce(0, lambda n, r: (n + r.a) % 5, by="b").project(a="b", b="value"),
        lambda s, k: folded(s),
    ),
    "rename": (lambda s, k: s.rename("x", "y").project(a="x", b="y"), lambda s, k: s),
    "distinct": (lambda s, k: s.group(["a", "b"]), lambda s, k: s),
}
TWO: dict[str, tuple[Callable[[Any, Any, int], Any], Callable[[Pairs, Pairs, int], Pairs]]] = {
    "notin": (lambda s, o, k: s.notin(o), lambda s, o, k: s - o),
    "notin a column": (
        lambda s, o, k: s.notin(o, a="b"),
        lambda s, o, k: {p for p in s if p[0] not in {q for _, q in o}},
    ),
    "notin where": (
        lambda s, o, k: s.notin(o, "a", where=lambda p, q: p.b < q.b),
        lambda s, o, k: {(a, b) for a, b in s if not any(p == a and b < q for p, q in o)},
    ),
    "exists": (
        lambda s, o, k: s.exists(o, b="a"),
        lambda s, o, k: {p for p in s if p[1] in groups(o)},
    ),
    "include": (
        lambda s, o, k: s.where(o.include(s.b, s.a)),
        lambda s, o, k: {(a, b) for a, b in s if (b, a) in o},
    ),
    "not include": (
        lambda s, o, k: s.where(~o.include(s.b, s.a)),
        lambda s, o, k: {(a, b) for a, b in s if (b, a) not in o},
    ),
    "some": (
        lambda s, o, k: s.where(o.where(o.a == k).exists()),
        lambda s, o, k: s if k in groups(o) else set(),
    ),
    "none": (
        lambda s, o, k: s.where(~o.where(o.a == k).exists()),
        lambda s, o, k: set() if k in groups(o) else s,
    ),
    "lefts": (
        lambda s, o, k: (s * o).lefts(b="a"),
        lambda s, o, k: {p for p in s if p[1] in groups(o)},
    ),
    "pairs": (
        lambda s, o, k: joined(s, o, s.b == o.a),
        lambda s, o, k: {(a, q) for a, b in s for p, q in o if b == p},
    ),
    "either of two": (
        lambda s, o, k: joined(s, o, (s.b == o.a) | (s.a == o.b)),
        lambda s, o, k: {(a, q) for a, b in s for p, q in o if b == p or a == q},
    ),
    "whole rows": (
        lambda s, o, k: (s * o).pairs(b="a").map(lambda r: (r.a, r.b_2), "a", "b"),
        lambda s, o, k: {(a, q) for a, b in s for p, q in o if b == p},
    ),
    "group of a join": (
        lambda s, o, k: (s * o).pairs("a").group([s.b], a=bloom.max(o.b)).project(a="b", b="a"),
        lambda s, o, k: {
            (b, max(g)) for b, g in groups({(b, q) for a, b in s for p, q in o if p == a}).items()
        },
    ),
    "outer": (
        lambda s, o, k: outer(s, o),
        lambda s, o, k: {(a, q) for a, b in s for q in groups(o).get(b, [9])},
    ),
}


def tree(draw: random.Random, depth: int) -> Tree:
    if not depth:
        return (draw.choice("tuv"),)
    k = draw.randrange(4)
    if draw.random() < 0.5:
        return draw.choice(list(ONE)), tree(draw, depth - 1), k
    return draw.choice(list(TWO)), tree(draw, depth - 1), tree(draw, draw.randrange(depth)), k


def stream(program: Any, node: Tree) -> Any:
    if len(node) == 1:
        return getattr(program, node[0])
    operator, *below, k = node
    streams = [stream(program, each) for each in below]
    if len(streams) == 1:
        return ONE[operator][0](streams[0], k)
    return TWO[operator][0](streams[0], streams[1].alias(), k)


def model(facts: dict[str, Pairs], node: Tree) -> Pairs:
    if len(node) == 1:
        return facts[node[0]]
    operator, *below, k = node
    sets = [model(facts, each) for each in below]
    return (ONE if len(sets) == 1 else TWO)[operator][1](*sets, k)  # type: ignore[operator]


def follow(seed: int) -> None:
    """Facts come and go over twelve ticks."""
    draw = random.Random(seed)
    nodes = [tree(draw, draw.randint(1, 4)) for _ in range(draw.randint(1, 3))]

    def derive(self: Any) -> None:
        for i, node in enumerate(nodes):
            self.collection_named(f"out{i}").now(stream(self, node))

    kinds = {name: draw.choice(["table", "table", "scratch", "input"]) for name in "tuv"}
    made: dict[str, Any] = {name: getattr(bloom, kind)("a", "b") for name, kind in kinds.items()}
    made |= {f"out{i}": bloom.scratch("a", "b") for i in range(len(nodes))}
    program = type("Program", (bloom.Bloom,), {**made, "derive": bloom.rules(derive)})
    running = {mode: program(**options) for mode, options in MODES.items()}
    facts: dict[str, Pairs] = {name: set() for name in kinds}
    for tick in range(12):
        for name, kind in kinds.items():
            more = [
                (draw.randrange(4), draw.randrange(4)) for _ in range(draw.choice((0, 1, 2, 4)))
            ]
            held = sorted(facts[name]) if kind == "table" else []
            less = draw.sample(held, min(len(held), draw.randrange(3)))
            facts[name] = set(held) - set(less) | set(more)
            for each in running.values():
                each.insert(name, more)
                if less:
                    each.delete(name, less)
        for mode, each in running.items():
            each.tick()
            for i, node in enumerate(nodes):
                assert set(each[f"out{i}"].rows()) == model(facts, node), (seed, tick, mode, node)


@pytest.mark.parametrize("seed", range(20))
def test_pipelines_mean_what_they_say(seed: int) -> None:
    follow(seed)


def test_what_is_on_the_left_of_an_outer_join_is_all_of_it() -> None:
    """Conditions that share no column with the left are its own, too."""
    follow_one = ("outer", ("some", ("t",), ("u",), 1), ("v",), 0)
    facts: dict[str, Pairs] = {"t": {(1, 2)}, "u": set(), "v": set()}
    assert model(facts, follow_one) == set()

    class Program(bloom.Bloom):
        t = bloom.table("a", "b")
        u = bloom.table("a", "b")
        v = bloom.table("a", "b")
        out = bloom.scratch("a", "b")

        @bloom.rules
        def derive(self) -> None:
            self.out |= stream(self, follow_one)

    program = Program()
    program.insert("t", [(1, 2)])
    assert program.tick()["out"].rows() == []
    program.insert("u", [(1, 1)])
    assert program.tick()["out"].rows() == [(1, 9)]
