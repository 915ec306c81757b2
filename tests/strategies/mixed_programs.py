"""Random programs of what `random_programs` has little of, written as text.

Stored relations of drawn widths, up to six columns of whole numbers, doubles, texts and booleans;
rules with constants in heads, variables repeated within an atom, functions of text, alternatives
within alternatives, negation of what negates, `if`; aggregates over joins of several atoms; goals
with constants and repeated variables, several on one relation; `sort` and `limit`; and recursion
of all this, with values that stay within bounds.

Whole numbers stay small, and doubles are eighths, so that sums are exact in any order.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any, TypeAlias, TypeVar

from hypothesis import strategies as st
from tests.strategies.random_programs import Facts
from tests.strategies.recursions import Recursion

from caladan.program.functions import ROWS, CallFailed, FunctionRow, call

T = TypeVar("T")
TYPES = {"i": "integer", "d": "double", "s": "string", "b": "boolean"}
POOLS: dict[str, Sequence[Any]] = {
    "i": (0, 1, 2, 3, -4),
    "d": (0.0, 0.5, 2.0, -1.25),
    "s": ("a", "b", "ab", "", "Ba"),
    "b": (False, True),
}
COMPARED = ("=", "~=", "<", "<=", ">", ">=")
Scope: TypeAlias = dict[str, list[str]]
"""The variables bound so far, by kind."""


KINDS = {"long": "i", "double": "d", "string": "s", "boolean": "b"}


def is_tame(row: FunctionRow, kinds: str) -> bool:
    """Whether a function gives values for all of the pools, small ones and no thirds."""
    for values in product(*(POOLS[kind] for kind in kinds)):
        try:
            made = call(row.name, values)
        except (CallFailed, ZeroDivisionError, OverflowError):
            return False
        if not isinstance(made, str | int | float):  # several values, each a row
            return False
        size = len(made) if isinstance(made, str) else abs(made) if made == made else math.inf
        if size > 64 or (isinstance(made, float) and made * 8 != int(made * 8)):
            return False
    return True


def tame_calls() -> dict[tuple[str, bool], list[tuple[str, str]]]:
    """The functions of the table that programs may call, by what they give; and if only those
    are wanted that make no more and more new values."""
    found: dict[tuple[str, bool], list[tuple[str, str]]] = {}
    cases = [(row, overload, kind) for row in ROWS for overload in row.overloads for kind in "ids"]
    for row, overload, kind in cases:
        letters = [{**KINDS, "T": kind}.get(word, "") for word in overload.parameters]
        result = {**KINDS, "T": kind}.get(overload.result)
        if result is None or row.fails or not all(letters) or not letters:
            continue
        if "T" in overload.parameters or kind == "i":
            kinds = "".join(letters)
            for bounded in (False,) if row.grows else (False, True):
                if is_tame(row, kinds):
                    found.setdefault((result, bounded), []).append((row.name, kinds))
    return found


CALLS = tame_calls()


@dataclass(frozen=True)
class Shape:
    """A relation and the kinds of its columns; averages (`a`) are read by nobody."""

    name: str
    kinds: str


@dataclass
class Maker:
    """Draws statements; `known` are the relations that rules may read."""

    draw: st.DrawFn
    known: list[Shape] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    fresh: int = 0

    # ── Choices ──────────────────────────────────────────────────────────────────────────────────

    def one(self, of: Sequence[T]) -> T:
        return self.draw(st.sampled_from(of))

    def number(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))

    def seldom(self, times: int) -> bool:
        """True once in so many times."""
        return self.number(0, times - 1) == times - 1

    def kinds(self, least: int, most: int) -> str:
        return "".join(self.one("iiissdb") for _ in range(self.number(least, most)))

    # ── Values ───────────────────────────────────────────────────────────────────────────────────

    def constant(self, kind: str) -> str:
        return written(self.one(POOLS[kind]))

    def variable(self, kind: str) -> str:
        self.fresh += 1
        return f"{kind.upper()}{self.fresh}"

    def value(self, kind: str, scope: Scope) -> str:
        """A variable, or now and then a constant."""
        if scope[kind] and not self.seldom(6):
            return self.one(scope[kind])
        return self.constant(kind)

    def computed(self, kind: str, scope: Scope, *, bounded: bool) -> str:
        """Something computed; where `bounded`, one of finitely many values."""
        one = self.value(kind, scope)
        how = self.number(0, 7)
        if how < 3:
            return one
        if how > 5 or kind == "b":
            return self.call(kind, scope, bounded=bounded)
        if how == 3:
            test = self.comparison(scope)
            return f"if({test} then {one} else {self.value(kind, scope)})"
        if kind == "i":
            return self.whole(one, scope, bounded=bounded)
        if kind == "d":
            other = self.value("d", scope)
            return one if bounded else f"{one} {self.one('+-*')} {other}"
        return self.call("s", scope, bounded=bounded)

    def call(self, kind: str, scope: Scope, *, bounded: bool) -> str:
        """A function of the table that gives such a value."""
        name, kinds = self.one(CALLS[kind, bounded])
        return f"{name}({', '.join(self.value(each, scope) for each in kinds)})"

    def whole(self, one: str, scope: Scope, *, bounded: bool) -> str:
        if self.seldom(4):
            made = f"length({self.value('s', scope)})"
        elif self.seldom(4):
            made = f"{one} div {self.one((2, 3, -2))}"
        else:
            made = f"{one} {self.one('+-*')} {self.value('i', scope)}"
        return f"({made}) mod {self.one((3, 7))}" if bounded or self.seldom(3) else made

    def comparison(self, scope: Scope) -> str:
        kind = self.one([k for k in "iiisdb" if scope[k]] or ["i"])
        operators = COMPARED[:2] if kind == "b" else COMPARED
        right = self.computed(kind, scope, bounded=True)
        return f"{self.value(kind, scope)} {self.one(operators)} {right}"

    # ── Literals ─────────────────────────────────────────────────────────────────────────────────

    def atom(self, shape: Shape, scope: Scope) -> str:
        """An atom; what it binds joins the scope at once, so a variable may stand twice."""
        arguments: list[str] = []
        for kind in shape.kinds:
            how = self.number(0, 9)
            if how == 9 and self.seldom(2):
                arguments.append(self.constant(kind))
            elif how == 8:
                arguments.append("_")
            elif how > 4 and scope[kind]:
                arguments.append(self.one(scope[kind]))
            else:
                arguments.append(self.variable(kind))
                scope[kind].append(arguments[-1])
        return f"{shape.name}({', '.join(arguments)})"

    def absent(self, scope: Scope) -> str:
        shape = self.one(self.known)
        arguments = ["_" if self.seldom(4) else self.value(kind, scope) for kind in shape.kinds]
        return f"~{shape.name}({', '.join(arguments)})"

    def test(self, scope: Scope, depth: int) -> str:
        """A literal that binds nothing that the rest of the rule may use."""
        how = self.number(0, 5)
        if how < 2 or (depth == 0 and how > 3):
            return self.comparison(scope)
        if how == 2:
            return self.absent(scope)
        if how == 3:
            return self.atom(self.one(self.known), copied(scope))
        if how == 4:
            condition = self.comparison(scope)
            then, otherwise = (self.test(copied(scope), depth - 1) for _ in range(2))
            return f"if({condition} then {then} else {otherwise})"
        return self.either(scope, depth)

    def either(self, scope: Scope, depth: int) -> str:
        """Alternatives; those that bind something bind the same variable in every branch."""
        kind = self.one("is")
        made = self.variable(kind) if self.seldom(2) else None
        branches: list[str] = []
        for _ in range(self.number(2, 3)):
            inner = copied(scope)
            parts = [self.test(inner, depth - 1)]
            if made is not None:
                readers = [s for s in self.known if kind in s.kinds]
                if readers and not self.seldom(4):
                    parts.insert(0, self.binding(self.one(readers), kind, made, inner))
                else:
                    parts.append(f"{made} = {self.computed(kind, scope, bounded=True)}")
            branches.append(", ".join(parts))
        if made is not None:
            scope[kind].append(made)
        return f"({' ; '.join(branches)})"

    def binding(self, shape: Shape, kind: str, made: str, scope: Scope) -> str:
        """An atom that binds this variable."""
        place = self.one([i for i, k in enumerate(shape.kinds) if k == kind])
        arguments = [
            made if i == place else "_" if self.seldom(2) else self.value(k, scope)
            for i, k in enumerate(shape.kinds)
        ]
        return f"{shape.name}({', '.join(arguments)})"

    def body(self, reads: Sequence[Shape], *, bounded: bool) -> tuple[list[str], Scope]:
        scope: Scope = {kind: [] for kind in POOLS}
        count = self.number(0 if reads else 1, 2)
        atoms = [*reads, *(self.one(self.known) for _ in range(count))]
        body = [self.atom(shape, scope) for shape in atoms]
        for _ in range(self.number(0, 2)):
            if self.seldom(3):
                kind = self.one("iisd")
                value = self.computed(kind, scope, bounded=bounded)
                made = self.variable(kind)
                body.append(f"{made} = {value}" if self.seldom(2) else f"{value} = {made}")
                scope[kind].append(made)
            else:
                body.append(self.test(scope, 2))
        return list(self.draw(st.permutations(body))), scope

    # ── Relations ────────────────────────────────────────────────────────────────────────────────

    def rule(self, shape: Shape, reads: Sequence[Shape], *, bounded: bool) -> None:
        body, scope = self.body(reads, bounded=bounded)
        head = ", ".join(self.computed(k, scope, bounded=bounded) for k in shape.kinds)
        self.lines.append(f"{shape.name}({head}) <- {', '.join(body)}.")

    def plain(self, name: str) -> list[Shape]:
        made = Shape(name, self.kinds(1, 4))
        for _ in range(self.number(1, 2)):
            self.rule(made, [], bounded=True)
        return [made]

    def recursive(self, name: str) -> list[Shape]:
        made = Shape(name, self.kinds(1, 3))
        self.rule(made, [], bounded=True)
        for _ in range(self.number(1, 2)):
            self.rule(made, [made] * self.one((1, 1, 2)), bounded=True)
        return [made]

    def mutual(self, name: str) -> list[Shape]:
        one, other = Shape(f"{name}a", self.kinds(1, 3)), Shape(f"{name}b", self.kinds(1, 3))
        self.rule(one, [], bounded=True)
        self.rule(other, [one], bounded=True)
        self.rule(one, [other, *[one] * self.number(0, 1)], bounded=True)
        return [one, other]

    def aggregate(self, name: str) -> list[Shape]:
        body, scope = self.body([], bounded=True)
        groups = self.kinds(0, 2)
        head = [self.computed(kind, scope, bounded=True) for kind in groups]
        results = ""
        for _ in range(self.number(1, 3)):
            function = self.one(("min", "max", "sum", "count", "countd", "avg"))
            kind = self.one("id" if function in ("sum", "avg") else "ids")
            value = self.computed(kind, scope, bounded=True)
            head.append(f"{function}<{value}>")
            results += {"count": "i", "countd": "i", "avg": "a"}.get(function, kind)
        self.lines.append(f"{name}({', '.join(head)}) <- {', '.join(body)}.")
        return [Shape(name, groups + results)]

    def best(self, name: str) -> list[Shape]:
        """Least costs or largest widths, by keys of any kind."""
        graphs = [s for s in self.known if len(s.kinds) > 1 and s.kinds[0] in s.kinds[1:]]
        if not graphs:
            return self.plain(name)
        graph = self.one(graphs)
        kind = graph.kinds[0]
        there = self.one([i for i, k in enumerate(graph.kinds) if i and k == kind])
        arguments = ["X", *("Y" if i == there else "_" for i in range(1, len(graph.kinds)))]
        step = f"{graph.name}({', '.join(arguments)})"
        start = f"{graph.name}(X{', _' * (len(graph.kinds) - 1)})"
        least = self.seldom(2)
        value = f"C + {self.number(0, 3)}" if least else "if(C < 5 then C + 1 else 5)"
        way = "mmin" if least else "mmax"
        further = f", {self.test({**{k: [] for k in POOLS}, kind: ['X', 'Y']}, 1)}"
        self.lines.append(f"{name}(X, {way}<0>) <- {start}.")
        tail = further if self.seldom(2) else ""
        self.lines.append(f"{name}(Y, {way}<{value}>) <- {name}(X, C), {step}{tail}.")
        return [Shape(name, kind + "i")]

    def cut(self, name: str) -> list[Shape]:
        made = Shape(name, self.kinds(1, 3))
        body, scope = self.body([], bounded=True)
        head = [self.value(kind, scope) for kind in made.kinds]
        keys = sorted({v for v in head if v[0] in "ISD" and v[1:].isdigit()})
        ways = ", ".join(f"({key}, {self.one(('asc', 'desc'))})" for key in keys)
        cut = [f"sort({ways})"] * bool(keys) + [f"limit({self.number(0, 4)})"]
        self.lines.append(f"{name}({', '.join(head)}) <- {', '.join([*body, *cut])}.")
        return [made]

    def goal(self, shape: Shape) -> None:
        arguments: list[str] = []
        for i, kind in enumerate(shape.kinds):
            same = [a for a, k in zip(arguments, shape.kinds, strict=False) if k == kind]
            if kind != "a" and self.seldom(6):
                arguments.append(self.constant(kind))
            elif kind != "a" and same and self.seldom(6):
                arguments.append(same[0])
            else:
                arguments.append(f"V{i}")
        self.lines.append(f"query {shape.name}({', '.join(arguments)}).")


KINDS = ("plain", "recursive", "mutual", "aggregate", "best", "cut")


@st.composite
def mixed_programs(draw: st.DrawFn, layers: int = 5, most: int = 16) -> Recursion:
    """A program with its facts."""
    maker = Maker(draw)
    stored = [Shape(f"s{n}", maker.kinds(1, 6)) for n in range(maker.number(1, 4))]
    maker.known += stored
    declared = ", ".join(
        f"{s.name}({', '.join(f'C{i}: {TYPES[k]}' for i, k in enumerate(s.kinds))})" for s in stored
    )
    maker.lines.append(f"database({{{declared}}}).")
    derived: list[Shape] = []
    for number in range(maker.number(1, layers)):
        made: list[Shape] = getattr(maker, maker.one(KINDS))(f"r{number}")
        derived += made
        maker.known += [shape for shape in made if "a" not in shape.kinds]
    for shape in derived:
        for _ in range(1 + maker.seldom(4)):
            maker.goal(shape)
    facts: Facts = {}
    for s in stored:
        rows = st.tuples(*(st.sampled_from(POOLS[k]) for k in s.kinds))
        least = 0 if maker.seldom(5) else most // 2
        facts[s.name] = sorted(set(draw(st.lists(rows, min_size=least, max_size=most))))
    return Recursion("\n".join(maker.lines) + "\n", facts)


def copied(scope: Scope) -> Scope:
    return {kind: list(names) for kind, names in scope.items()}


def written(value: Any) -> str:
    """A constant as a program has it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
