"""Random bodies, from cycles with atoms that hang on them to products, against the reference.

Facts have hubs, duplicates, or are missing; thresholds and the grade of search are drawn as well.
Bodies compute, compare, negate and choose; heads list, aggregate, or are part of a recursion.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import caladan
from caladan.join.estimates import GRADES
from caladan.program import thresholds

Rows = dict[str, list[tuple[Any, ...]]]

VALUES: dict[str, list[Any]] = {
    "i": list(range(-1, 5)),
    "d": [-1.5, 0.0, 0.5, 2.0, 4.0],
    "s": ["", "a", "b", "aa"],
}
TYPES = {"i": "integer", "d": "double", "s": "string"}
NAMES = {"i": list("ABCDEF"), "d": list("UV"), "s": list("ST")}
SMALL = {
    "room": (1, 3), "sample": (1, 3), "grouping": (0, 4), "accumulate": (0, 1),
    "worth_sampling": (0,), "repeats": (0, 1), "narrowing": (0, 1), "semijoin": (1,),
    "rollup_start": (1,), "selective": (0,), "small_rounds": (0, 1 << 40), "key_bits": (0, 8),
    "projection": (1, 9), "search_width": (1,), "shape": (0, 1 << 40),
}  # fmt: skip


class Drawn:
    """A program, drawn rule by rule."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        kinds = ["ii", "".join(self.random.choices("iiiids", k=self.random.randint(1, 4)))]
        kinds += ["".join(self.random.choices("iiids", k=self.random.randint(1, 3)))]
        self.kinds = {f"r{i}": each for i, each in enumerate(kinds)}
        self.data: Rows = {name: self.facts(each) for name, each in self.kinds.items()}
        self.rules: list[str] = []

    def facts(self, kinds: str) -> list[tuple[Any, ...]]:
        draw = self.random
        hub = {kind: draw.choice(values) for kind, values in VALUES.items()}
        share = draw.choice((0, 0.4))
        return [
            tuple(hub[k] if draw.random() < share else draw.choice(VALUES[k]) for k in kinds)
            for _ in range(draw.choice((0, 12, 25, 40, 40)))
        ]

    def literal(self, kind: str) -> str:
        return repr(self.random.choice(VALUES[kind]))

    def atom(self, name: str, known: dict[str, list[str]], first: str = "") -> str:
        """An atom; `first` are variables for its first columns of whole numbers."""
        given, terms = list(first), list[str]()
        for kind in self.kinds[name]:
            odds = self.random.random()
            if kind == "i" and given:
                terms.append(given.pop(0))
            else:
                named = self.random.choice(NAMES[kind])
                terms.append("_" if odds < 0.2 else self.literal(kind) if odds < 0.3 else named)
            if terms[-1] in NAMES[kind] and terms[-1] not in known[kind]:
                known[kind].append(terms[-1])
        return f"{name}({', '.join(terms)})"

    def body(self, must: str | None = None) -> tuple[str, dict[str, list[str]]]:
        draw = self.random
        known: dict[str, list[str]] = {"i": [], "d": [], "s": []}
        corners = "ABCDE"[: draw.randint(2, 5)]
        around = [a + b for a, b in zip(corners, corners[1:] + corners[:1], strict=True)]
        pairs = draw.choice((around, around, around[:-1], []))
        parts = [self.atom(draw.choice(["r0", *self.kinds]), known, pair) for pair in pairs]
        parts += [self.atom(draw.choice(list(self.kinds)), known) for _ in range(not pairs or 1)]
        parts += [self.atom(must, known)] if must else []
        if known["i"]:
            parts += draw.sample(self.tests(known), draw.choice((0, 1, 2, 3)))
        draw.shuffle(parts)
        return ", ".join(parts), known

    def tests(self, known: dict[str, list[str]]) -> list[str]:
        a, b, c, d = self.random.choices(known["i"], k=4)
        name, kinds = self.random.choice(sorted(self.kinds.items()))
        absent = [self.random.choice([*known[k], "_", "_"]) for k in kinds]
        found = [
            f"{a} < {b}", f"{a} <= {b} + {c}, {d} >= {c}", f"{a} ~= {b}", f"{a} = {b} + {c}",
            f"{a} + {b} = {c} + {d}", f"{a} * {b} = {c}", f"{a} * {a} + {b} * {b} = 5",
            f"{a} mod 3 = {b} mod 3", f"{a} div 2 = {b}", f"({a} < {b} ; {c} = {d})",
            f"(r0({a}, _) ; r0(_, {b}), {a} > 1)", f"G = {a} + {b}, G > {c}",
            f"if({a} < {b} then {c} else {d}) = {a}", *[f"~{name}({', '.join(absent)})"] * 3,
        ]  # fmt: skip
        for s, t in zip(known["s"], reversed(known["s"]), strict=True):
            found += [f"upper({s}) = upper({t})", f"length({s}) = {a}"]
        for u, v in zip(known["d"], reversed(known["d"]), strict=True):
            found += [f"{u} = {v} * 2.0", f"{u} = {a}", f"{u} < {v}"]
        return found

    def program(self) -> str:
        draw = self.random
        body, known = self.body()
        every = [name for names in known.values() for name in names] or ["1"]
        head = [draw.choice([*every, "7"]) for _ in range(draw.randint(0, 3))]
        kind = draw.choice(("plain", "aggregate", "aggregate", "recursive"))
        if kind == "aggregate" and known["i"]:
            a, b = draw.choices(known["i"], k=2)
            amounts = ("count<_>", f"countd<{draw.choice(every)}>", f"sum<{a}>", f"sum<{a} * {b}>",
                       f"min<{a} - {b}>", f"max<{draw.choice(every)}>", f"avg<{a}>")  # fmt: skip
            head = [*head[:2], *draw.sample(amounts, draw.randint(1, 3))]
        elif kind == "recursive" and known["i"]:
            head = draw.choices(known["i"], k=2)
            self.kinds["p"] = "ii"
            again, others = self.body("p")
            ends = ", ".join(draw.choices(others["i"], k=2)) if others["i"] else "1, 2"
            self.rules.append(f"p({ends}) <- {again.replace('~p(', '~r0(')}.")
        columns = ", ".join(f"X{i}" for i in range(len(head)))
        declared = ", ".join(
            f"{name}({', '.join(f'C{i}: {TYPES[k]}' for i, k in enumerate(self.kinds[name]))})"
            for name in self.data
        )
        rules = "\n".join([f"p({', '.join(head)}) <- {body}.", *self.rules])
        return f"database({{{declared}}}).\n{rules}\nquery p({columns})."


def outcome(engine: str, text: str, data: Rows, **options: Any) -> list[tuple[Any, ...]] | str:
    db = caladan.connect(engine)
    for name, rows in data.items():
        db.add(name, rows)
    try:
        rows = db.run(text, **options).answer.rows()
    except caladan.CaladanError as problem:
        return str(problem).split("error[")[1][:4]
    near = (tuple(round(v, 9) if isinstance(v, float) else v for v in row) for row in rows)
    return sorted(near, key=repr)


@pytest.mark.parametrize("seed", range(12))
def test_as_the_reference(seed: int) -> None:
    draw = random.Random(seed)
    for number in range(8):
        made = Drawn(100 * seed + number)
        text = made.program()
        changes = {n: draw.choice(v) for n, v in SMALL.items() if draw.random() < 0.3}
        search = {"search": draw.choice(list(GRADES))} if draw.random() < 0.3 else {}
        right = outcome("reference", text, made.data)
        with thresholds.override(**changes):
            found = outcome("embedded", text, made.data, **search)
        assert found == right, (text, made.data, changes, search)


def test_atoms_of_constants_that_wait() -> None:
    """The first atom of the order is bound by a constant, and has no step of its own yet."""
    text = """
    database({r(A: integer, B: integer, C: integer), s(A: integer, B: integer, C: integer),
      e(A: integer, B: integer), n(A: integer)}).
    p(U) <- e(C, D), r(E, E, 5), s(7, A, B), s(B, C, B), D * A + E * E = 25, n(U).
    query p(U).
    """
    data: Rows = {
        "r": [(-2, 8, -2), (3, 3, 5)],
        "s": [(4, 7, 7), (4, 7, 0), (7, 2, 1), (1, 6, 1)],
        "e": [(3, 3), (6, 8)],
        "n": [(0,), (1,)],
    }
    assert outcome("embedded", text, data) == outcome("reference", text, data) == [(0,), (1,)]
