"""Random programs of what the compiler rewrites, for the oracle, which reads them as written.

`if` literals and alternatives whose branches look things up and bind variables of the rule; several
aggregates in a head, and arithmetic of them; best values with witnesses, also in recursion; `sort`
and `limit` over all of that; variables that are repeated in an atom and stand nowhere else; atoms
that share nothing with the rest.

Values are small, or those that go wrong first: the ends of 64 bits, whole numbers far apart, and of
doubles NaN, the infinities, zeros of both signs and the least and largest. There is little
arithmetic with these, for its overflow is an error.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from hypothesis import strategies as st
from tests.strategies.random_programs import Facts

T = TypeVar("T")

STORED = {"a": "i", "e": "ii", "f": "ii", "g": "id", "w": "iii", "s": "is"}
WORDS = {"i": "long", "d": "double", "s": "string"}
LEAST, MOST = -(2**63), 2**63 - 1
WHOLE: dict[str, Sequence[int]] = {
    "small": (0, 1, 2, 3, -4),
    "ends": (LEAST, LEAST + 1, -1, 0, MOST - 1, MOST),
    "far apart": (0, 1, 10**6, 10**12, -(10**15), 2**40 + 1),
}
DOUBLES: dict[str, Sequence[float]] = {
    "small": (0.0, 0.5, 1.0, -2.5),
    "ends": (float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.5),
    "far apart": (1e308, -1e308, 5e-324, 0.5, 1e-9, float(2**53)),
}
TEXTS = ("a", "b", "", "ab")
NAMES = {"i": ("X", "Y", "Z", "U"), "d": ("D", "E"), "s": ("S", "T")}
COMPARED = ("=", "~=", "<", "<=", ">", ">=")


@dataclass(frozen=True)
class WrittenCase:
    """A program as text, with the facts of what it stores."""

    text: str
    facts: Facts

    def __repr__(self) -> str:
        facts = "\n".join(f"% {name}: {rows}" for name, rows in self.facts.items())
        return f"\n{self.text}\n{facts}\n"


Scope = dict[str, list[str]]
"""The variables that a body binds, by kind."""


@dataclass
class Draft:
    """Draws rules over stored relations and those derived before."""

    draw: st.DrawFn
    values: str
    known: dict[str, str] = field(default_factory=lambda: dict(STORED))
    derived: dict[str, str] = field(default_factory=dict[str, str])
    lines: list[str] = field(default_factory=list)
    fresh: int = 0

    def one(self, of: Sequence[T]) -> T:
        return self.draw(st.sampled_from(of))

    def number(self, least: int, most: int) -> int:
        return self.draw(st.integers(least, most))

    def constant(self, kind: str) -> str:
        if kind == "s":
            return repr(self.one(TEXTS))
        if kind == "d":
            return repr(self.one((0.5, 1.0, -2.5)))
        return str(self.one(WHOLE[self.values]))

    def new(self, kind: str) -> str:
        self.fresh += 1
        return f"{kind.upper()}{self.fresh}"

    def value(self, kind: str, scope: Scope) -> str:
        return self.one(scope[kind]) if scope[kind] and self.number(0, 5) else self.constant(kind)

    # ── Bodies ───────────────────────────────────────────────────────────────────────────────────

    def atom(self, name: str, scope: Scope) -> str:
        """An atom, which may share variables with the scope, or with nothing."""
        kinds = self.known[name]
        how = self.number(0, 11)
        if how == 0 and len(set(kinds)) < len(kinds):  # repeated, and nowhere else
            own = {kind: self.new(kind) for kind in kinds}
            return f"{name}({', '.join(own[kind] for kind in kinds)})"
        terms: list[str] = []
        for kind in kinds:
            choice = 9 if how == 1 else self.number(0, 9)  # a product with all the rest
            if choice == 0:
                terms.append(self.constant(kind))
            elif choice == 1:
                terms.append("_")
            elif choice == 9:
                terms.append(self.new(kind))
                scope[kind].append(terms[-1])
            else:
                terms.append(self.one(NAMES[kind]))
                if terms[-1] not in scope[kind]:
                    scope[kind].append(terms[-1])
        return f"{name}({', '.join(terms)})"

    def comparison(self, scope: Scope) -> str:
        kind = self.one([k for k in "iids" if scope[k]] or ["i"])
        return f"{self.value(kind, scope)} {self.one(COMPARED)} {self.value(kind, scope)}"

    def absent(self, scope: Scope) -> str:
        name = self.one(sorted(self.known))
        terms = ["_" if self.number(0, 2) == 0 else self.value(k, scope) for k in self.known[name]]
        return f"~{name}({', '.join(terms)})"

    def branch(self, scope: Scope, bound: Sequence[tuple[str, str]], depth: int) -> str:
        """Literals that bind some variables, and may have others of their own."""
        own = {kind: list(names) for kind, names in scope.items()}
        literals: list[str] = []
        for kind, variable in bound:
            if self.number(0, 2):
                name = self.one([n for n, kinds in sorted(self.known.items()) if kind in kinds])
                terms = [
                    "_" if self.number(0, 3) == 0 else self.value(k, own) for k in self.known[name]
                ]
                terms[self.known[name].index(kind)] = variable
                literals.append(f"{name}({', '.join(terms)})")
            else:
                literals.append(f"{variable} = {self.value(kind, scope)}")
            own[kind].append(variable)
        if not literals or self.number(0, 1):
            literals.append(self.extra(own, depth))
        return ", ".join(literals)

    def extra(self, scope: Scope, depth: int) -> str:
        """A literal that binds nothing for the rest of its rule."""
        own = {kind: list(names) for kind, names in scope.items()}
        how = self.number(0, 5 if depth else 3)
        if how == 0:
            return self.absent(scope)
        if how == 1:
            return self.atom(self.one(sorted(self.known)), own)
        if how == 4:
            return self.choice(scope, (), depth - 1)
        if how == 5:
            return self.either(scope, (), depth - 1)
        return self.comparison(scope)

    def choice(self, scope: Scope, bound: Sequence[tuple[str, str]], depth: int) -> str:
        condition = ", ".join(self.comparison(scope) for _ in range(self.number(1, 2)))
        then, otherwise = (self.branch(scope, bound, depth) for _ in range(2))
        return f"if({condition} then {then} else {otherwise})"

    def either(self, scope: Scope, bound: Sequence[tuple[str, str]], depth: int) -> str:
        count = self.number(2, 3)
        return f"({' ; '.join(self.branch(scope, bound, depth) for _ in range(count))})"

    def body(self, reads: Sequence[str] = ()) -> tuple[list[str], Scope]:
        scope: Scope = {kind: [] for kind in NAMES}
        names = [*reads, *(self.one(sorted(self.known)) for _ in range(self.number(1, 2)))]
        literals = [self.atom(name, scope) for name in names]
        for _ in range(self.number(0, 2)):
            how = self.number(0, 4)
            kind = self.one("iis")
            bound = [(kind, self.new(kind))] if how > 1 and self.number(0, 1) else []
            if how < 2:
                literals.append(self.extra(scope, 1))
            elif how < 4:
                literals.append(self.choice(scope, bound, 1))
            else:
                literals.append(self.either(scope, bound, 1))
            for each, variable in bound:
                scope[each].append(variable)
        return list(self.draw(st.permutations(literals))), scope

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def say(self, head: str, body: Sequence[str]) -> None:
        self.lines.append(f"{head} <- {', '.join(body)}.")

    def add(self, name: str, kinds: str) -> None:
        self.derived[name] = kinds
        if "r" not in kinds:  # what is rounded is compared loosely, and read by nobody
            self.known[name] = kinds

    def plain(self, name: str) -> None:
        kinds = self.one(("i", "ii", "is", "id"))
        for _ in range(self.number(1, 2)):
            body, scope = self.body()
            self.say(f"{name}({', '.join(self.value(k, scope) for k in kinds)})", body)
        self.add(name, kinds)

    def recursive(self, name: str) -> None:
        kinds = self.one(("i", "ii", "is"))
        for read in ((), (name,), *([(name, name)] * self.number(0, 1))):
            body, scope = self.body(read)
            self.say(f"{name}({', '.join(self.value(k, scope) for k in kinds)})", body)
            self.known[name] = kinds
        self.add(name, kinds)

    def cut(self, name: str) -> None:
        kinds = self.one(("i", "ii", "id", "is"))
        body, scope = self.body()
        head = [self.value(k, scope) for k in kinds]
        body += self.cuts([v for names in scope.values() for v in names])
        self.say(f"{name}({', '.join(head)})", body)
        self.add(name, kinds)

    def cuts(self, names: Sequence[str]) -> list[str]:
        found = (
            self.draw(st.lists(st.sampled_from(sorted(set(names))), max_size=2, unique=True))
            if names
            else []
        )
        keys = [f"({each}, {self.one(('asc', 'desc'))})" for each in found]
        sort = [f"sort({', '.join(keys)})"] if keys else []
        return [*sort, f"limit({self.number(0, 3)})"]

    def aggregate(self, scope: Scope) -> tuple[str, str, str]:
        """An aggregate, its kind, and the variable it ranges over."""
        kind = self.one([k for k in "iids" if scope[k]] or ["i"])
        over = self.value(kind, scope)
        functions = ["min", "max", "countd", "count"]
        if kind != "s" and self.values == "small":
            functions += ["sum", "sum", "avg"]
        function = self.one(functions)
        made = {"count": "i", "countd": "i", "avg": "r"}.get(function, kind)
        return f"{function}<{'_' if function == 'count' else over}>", made, over

    def group(self, scope: Scope) -> tuple[list[str], str]:
        kinds = self.one(("", "i", "s"))
        return [self.value(k, scope) for k in kinds], kinds

    def aggregates(self, name: str) -> None:
        body, scope = self.body()
        head, kinds = self.group(scope)
        keys = [each for each in head if each[0].isalpha() and each[0].isupper()]
        for _ in range(self.number(1, 3)):
            term, kind, over = self.aggregate(scope)
            keys += [over] if over[0].isupper() and "_" not in term else []
            head.append(term)
            kinds += kind
        if self.number(0, 2) == 0:
            body += self.cuts(keys)
        self.say(f"{name}({', '.join(head)})", body)
        self.add(name, kinds)

    def computed(self, name: str) -> None:
        """Arithmetic of aggregates."""
        body, scope = self.body()
        head, kinds = self.group(scope)
        numbers = [self.value("i", scope) for _ in range(2)]
        one = self.one(
            ("count<_>", f"countd<{numbers[0]}>", f"min<{numbers[0]}>", f"sum<{numbers[0]}>")
        )
        two = self.one(("count<_>", f"max<{numbers[1]}>", "2"))
        operator = self.one(("+", "-", "*"))
        if self.number(0, 4) == 0:
            made, kind = f"sum<{numbers[0]}> / count<_>", "r"
        else:
            made, kind = f"{one} {operator} {two}", "i"
        if self.values != "small":
            made, kind = f"count<_> {operator} countd<{numbers[0]}>", "i"
        self.say(f"{name}({', '.join([*head, made])})", body)
        self.add(name, kinds + kind)

    def witness(self, name: str) -> None:
        body, scope = self.body()
        value, *others = (self.value("i", scope) for _ in range(self.number(2, 3)))
        head, kinds = self.group(scope)
        best = f"{self.one(('min', 'max'))}<{', '.join([value, *others])}>"
        self.say(f"{name}({', '.join([*head, best])})", body)
        self.add(name, kinds + "i" * (1 + len(others)))

    def nearest(self, name: str) -> None:
        """Best values with a witness in recursion."""
        best = self.one(("mmin", "mmax"))
        cost = "if(C > W then C else W)" if best == "mmin" else "if(C < W then C else W)"
        step = self.one(("w(X, Y, W)", "w(Y, X, W)", "w(X, Y, W), (a(X) ; e(X, Y))",
                         "w(X, Y, V), if(V > 1 then W = V else e(X, W))"))  # fmt: skip
        self.say(f"{name}(X, {best}<D, X>)", ["e(X, D)"])
        self.say(f"{name}(Y, {best}<{cost}, X>)", [f"{name}(X, C, _)", step])
        self.add(name, "iii")

    def labels(self, name: str) -> None:
        """Labels that are handed on, of whole numbers or doubles."""
        best, start = self.one(("mmin", "mmax")), self.one(("e(X, L)", "g(X, L)"))
        self.say(f"{name}(X, {best}<L>)", [start])
        self.say(f"{name}(Y, {best}<L>)", [f"{name}(X, L)", self.one(("e(X, Y)", "f(Y, X)"))])
        self.add(name, "ii" if start[0] == "e" else "id")

    def closure(self, name: str) -> None:
        """A closure, and a recursive rule that asks for a loop in it, or for nothing of it."""
        edge = self.one("ef")
        self.say(f"{name}c(X, Y)", [f"{edge}(X, Y)"])
        self.say(f"{name}c(X, Z)", [f"{name}c(X, Y)", f"{edge}(Y, Z)"])
        self.add(f"{name}c", "ii")
        asked = self.one((f"{name}c(I, I)", f"{name}c(I, J), I = J", f"{name}c(_, _)",
                          f"{name}c(I, J)", f"{name}c(X, X)", f"{name}c(X, I), a(I)"))  # fmt: skip
        self.say(f"{name}(X)", ["a(X)"])
        self.say(f"{name}(Y)", [f"{name}(X)", self.one(("e(X, Y)", "f(X, Y)")), asked])
        self.add(name, "i")

    def goal(self, name: str) -> str:
        terms = [
            self.constant(kind) if kind in "is" and self.number(0, 9) == 0 else f"V{i}"
            for i, kind in enumerate(self.derived[name])
        ]
        return f"query {name}({', '.join(terms)})."


LAYERS = (
    "plain", "recursive", "cut", "aggregates", "aggregates", "computed", "computed", "witness",
    "nearest", "labels", "closure",
)  # fmt: skip


@st.composite
def written_programs(draw: st.DrawFn, layers: int = 3, most: int = 7) -> WrittenCase:
    """Programs of some layers, over at most so many facts in each stored relation."""
    values = draw(st.sampled_from(["small", "small", "ends", "far apart"]))
    draft = Draft(draw, values)
    for number in range(draw(st.integers(1, layers))):
        getattr(draft, draw(st.sampled_from(LAYERS)))(f"r{number}")
    pools: dict[str, Sequence[Any]] = {"i": WHOLE[values], "d": DOUBLES[values], "s": TEXTS}
    facts = {
        name: draw(st.lists(st.tuples(*(st.sampled_from(pools[k]) for k in kinds)), max_size=most))
        for name, kinds in STORED.items()
    }
    columns = (
        f"{name}({', '.join(f'C{i}: {WORDS[k]}' for i, k in enumerate(kinds))})"
        for name, kinds in STORED.items()
    )
    declared = f"database({{{', '.join(columns)}}})."
    goals = [draft.goal(name) for name in draft.derived]
    return WrittenCase("\n".join([declared, *draft.lines, *goals]), facts)


Limits: TypeAlias = dict[str, Any]
"""Options of a run that has to stop."""


@st.composite
def random_limits(draw: st.DrawFn) -> Limits:
    """A limit on time, facts or memory; never none, for the time is limited anyhow."""
    found: Limits = {"timeout": draw(st.sampled_from([1, 2]))}
    if draw(st.booleans()):
        found["max_facts"] = draw(st.sampled_from([1, 1000, 100_000]))
    if draw(st.booleans()):
        found["memory"] = draw(st.sampled_from([1 << 24, 1 << 28]))
    return found


@st.composite
def unbounded_products(draw: st.DrawFn) -> WrittenCase:
    """Rules whose atoms share nothing, over some hundred facts each: a forgotten condition."""
    count = draw(st.integers(2, 5))
    size = draw(st.sampled_from([40, 300, 1500]))
    far = draw(st.sampled_from([1, 10**9, 2**40]))
    atoms = [f"{draw(st.sampled_from('ef'))}(X{i}, Y{i})" for i in range(count)]
    extra = draw(
        st.sampled_from([
            [], ["X0 < Y1"], ["~a(X0)"], ["X0 + X1 = Y0"], ["(a(X0) ; a(Y1))"], ["e(I, I)"],
            ["if(X0 > Y1 then a(X0) else X1 > 0)"], ["p(X0)"],
        ])
    )  # fmt: skip
    names = [name for i in range(count) for name in (f"X{i}", f"Y{i}")]
    head = draw(
        st.sampled_from([
            ", ".join(names[:3]), ", ".join(names), "X0", "count<_>", "X0, count<_>",
            "sum<X0> / count<_>", "X0, mmax<Y1>", "min<X0, Y1>",
        ])
    )  # fmt: skip
    arity = 2 if head in ("X0, count<_>", "X0, mmax<Y1>", "min<X0, Y1>") else head.count(",") + 1
    first = "" if "p(X0)" not in extra else "p(X) <- a(X). p(Y) <- p(X), e(X, Y).\n"
    answer = ", ".join(f"V{i}" for i in range(arity))
    text = (
        "database({a(A: long), e(A: long, B: long), f(A: long, B: long)}).\n"
        f"{first}q({head}) <- {', '.join([*atoms, *extra])}.\nquery q({answer})."
    )
    pairs = [(i * far, (i * 7 % size) * far) for i in range(size)]
    return WrittenCase(text, {"a": [(i * far,) for i in range(size)], "e": pairs, "f": pairs})
