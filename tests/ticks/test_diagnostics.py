"""What users are told about Bloom programs: the code, the line, what helps."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from caladan import CaladanError, bloom


def told(make: Callable[[], object]) -> str:
    with pytest.raises(CaladanError) as raised:
        make()
    return str(raised.value)


def rules(
    body: Callable[[bloom.Bloom], None], **collections: bloom.Collection
) -> type[bloom.Bloom]:
    return type("Program", (bloom.Bloom,), {**collections, "group": bloom.rules(body)})


def test_two_facts_with_one_key_are_shown_and_the_tick_did_not_happen() -> None:
    made = rules(lambda self: None, t=bloom.table("k", to="v"))()
    made.insert("t", [(1, "a")])
    made.tick()
    made.insert("t", [(1, "b"), (2, "c")])
    text = told(made.tick)
    assert "error[C070]: two facts of `t` have the same key (k): (1, 'a') and (1, 'b')" in text
    assert "help: `<<=` replaces" in text
    assert made["t"].rows() == [(1, "a")]
    made.insert("t", [(3, "d")])
    assert made.tick()["t"].rows() == [(1, "a"), (3, "d")]


def test_a_key_violation_of_rules_leaves_everything_as_it_was() -> None:
    def group(self: bloom.Bloom) -> None:
        self.s |= self.t

    made = rules(group, t=bloom.table("a", "b"), s=bloom.scratch("a", to="b"))()
    made.insert("t", [(1, 1)])
    made.tick()
    made.insert("t", [(1, 2)])
    text = told(made.tick)
    assert "[C070]" in text
    assert re.search(r"test_diagnostics.py:\d+:9: error", text), "the rule's own line"
    made.insert("t", [(2, 2)])
    assert made.tick()["s"].rows() == [(1, 1), (2, 2)]


def test_inputs_are_not_written_and_outputs_not_read() -> None:
    def writes(self: bloom.Bloom) -> None:
        self.i |= self.t

    def reads(self: bloom.Bloom) -> None:
        self.t |= self.o

    collections = {"i": bloom.input(), "o": bloom.output(), "t": bloom.table()}
    text = told(rules(writes, **collections))
    assert "error[C071]: `i` is an input, which rules do not write" in text
    assert "self.i |= self.t" in text
    assert "error[C072]: `o` is an output, and rules cannot read it" in told(
        rules(reads, **collections)
    )
    made = rules(lambda self: None, **collections)()
    assert "[C071]" in told(lambda: made.insert("o", [(1, 2)]))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("input i(a).\ni(1).", "2:1: error[C071]: `i` is an input"),
        ("output o(a). \nscratch s(a).\ns(X) <- o(X).", "3:9: error[C072]: `o` is an output"),
        (
            "output o(a).\ntable t(a).\nscratch s(a).\ns(X) <- t(X), (t(X) ; o(X)).",
            "4:23: error[C072]",
        ),
        ("scratch s(a).\n@delete s(1).", "facts are deleted from tables alone"),
        ("table t(a).\n@async t(1).", "to which nothing is sent"),
        ("table t(a).\ntable u(a).\nt(X) <- u(X), ~t(X).", "error[C014]: `t` depends on itself"),
        ("table t(a).\nt(X) <- v(X).", "error[C010]: unknown relation `v`"),
        ("table t(a).\nt(X, X) <- t(X).", "error[C011]"),
        ("table t(a).\nt(Y) <- t(X).", "error[C013]: variable `Y`"),
        ("table t(a).\nquery t(X).", "a Bloom program has no goals"),
        ("table t(a, a).", "error[C017]"),
        ("table t(a => b: lmxa).", "1:1: error[C004]: unknown lattice `lmxa`"),
        ("table t(a). scratch t(b).", "1:13: error[C017]: `t` is declared twice"),
        ("table t(a). t(X) <- u(X).", "1 | table t(a). t(X) <- u(X)."),
        ("scratch s(@a).", "a scratch, which has no address"),
        ("periodic p.", "a timer needs a period"),
        ("table t(a).\nscratch s(a).\ns(X) <- t(X), sort(X), limit(1).", "3:1: error[C022]"),
        ("periodic p(soon).", "a timer needs a period"),
        ("table t(a).\nt(count<X>) <- t(X).", "derive it for the next tick"),
    ],
)
def test_text(text: str, expected: str) -> None:
    assert expected in told(lambda: bloom.program(text))


def test_names_that_methods_have() -> None:
    class Hidden(bloom.Module):
        on = bloom.table("a")

    for made in (lambda: bloom.program("table stop(a)."), type("P", (bloom.Bloom, Hidden), {})):
        with pytest.raises(CaladanError, match=r"C050.*cannot be the name of a collection"):
            made()


def test_negation_through_the_next_tick_is_fine() -> None:
    made = bloom.program("table t(a).\nscratch s(a).\n@next t(X) <- s(X), ~t(X).")
    made.insert("s", [(1,)])
    assert made.tick(2)["t"].rows() == [(1,)]


def test_what_a_function_raises_is_shown_with_the_rule() -> None:
    def group(self: bloom.Bloom) -> None:
        self.s |= self.t.map(lambda row: (row.key, 1 + row.val))

    made = rules(group, t=bloom.table(), s=bloom.scratch())()
    made.insert("t", [(1, "one")])
    text = told(made.tick)
    assert "error[C073]: a rule for `s` failed: TypeError" in text
    divides = bloom.program("table t(a).\nscratch s(a).\ns(Y) <- t(X), Y = 1 / X.")
    divides.insert("t", [(0,)])
    assert "3:1: error[C040]" in told(divides.tick)


def test_columns_that_are_not_there() -> None:
    def group(self: bloom.Bloom) -> None:
        self.s |= self.t.project("kee", "val")

    text = told(rules(group, t=bloom.table(), s=bloom.scratch()))
    assert "error[C063]: there is no column `kee`" in text
    assert "did you mean `key`?" in text


def test_wrong_widths_and_unknown_collections() -> None:
    made = rules(lambda self: None, t=bloom.table())()
    assert "[C011]" in told(lambda: made.insert("t", [(1, 2, 3)]))
    assert "did you mean `t`" in told(lambda: made["tt"])
    assert "[C050]" in told(lambda: made.explain("nonsense"))

    def group(self: bloom.Bloom) -> None:
        self.t |= self.t.project("key")

    assert "`t` has 2 columns, but rows of 1" in told(rules(group, t=bloom.table()))


def test_durable_tables_are_asked_for_by_name() -> None:
    assert "error[C051]: durable tables (key, value)" in told(lambda: bloom.sync("key", to="value"))


def test_an_expression_is_not_true_or_false() -> None:
    def group(self: bloom.Bloom) -> None:
        self.t |= self.t.where(self.t.key == 1 and self.t.val == 2)

    assert "write `&`" in told(rules(group, t=bloom.table()))


def test_a_collection_is_declared_once() -> None:
    def body() -> None:
        class Twice(bloom.Bloom):
            t = bloom.table("a")
            t = bloom.scratch("b")  # noqa: PIE794

    def group(self: bloom.Bloom) -> None:
        self.temp("held", "a")
        self.temp("held", "a")

    assert "error[C017]: `t` is declared twice" in told(body)
    assert "error[C017]: `held` is declared twice" in told(rules(group))


def assigned(self: bloom.Bloom) -> None:
    self.t = self.s


WRONG: dict[str, tuple[Callable[[bloom.Bloom], object], str]] = {
    "names of rows": (
        lambda m: m.s.now(m.t.map(lambda r: r).sort()),
        "C063]: the columns that a f",
    ),
    "a presence as a value": (
        lambda m: m.s.now(m.t.project(m.s.exists(), "key")),
        "belongs in where()",
    ),
    "too few values": (lambda m: m.s.now(m.t.where(m.s.include(1))), "C011]: a fact of 2 columns"),
    "not exemplary": (
        lambda m: m.s.now(m.t.argagg("sum", [], "val")),
        "C050]: `sum` is not a value",
    ),
    "a column of another": (
        lambda m: m.s.now(m.t.project(m.s.key, "val")),
        "none of those that are",
    ),
    "names to rename": (lambda m: m.s.now(m.t.rename("a")), "C011]: 2 columns are called by 1"),
    "not rows": (lambda m: m.s.now("ab"), "C050]: `s` takes a collection"),
    "an assignment": (assigned, "is a collection and cannot be assigned"),
    "a missing column": (lambda m: m.s.now(m.t.project("key")), "None fills a column"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_rule_is_told_with_its_line(name: str) -> None:
    body, expected = WRONG[name]
    text = told(rules(body, t=bloom.table(), s=bloom.scratch()))
    assert expected in text
    assert "test_diagnostics.py:" in text or name == "a presence as a value"


SLIPS: dict[str, tuple[Callable[[Any], object], str]] = {
    "<= of lattices": (lambda m: m.largest <= m.other, "`largest <= …` is an expression that no"),
    "<= of a value": (lambda m: m.largest <= 5, "`largest <= …` is an expression"),
    "<= of a collection": (lambda m: m.largest <= m.t, "collection of facts, not a value"),
    "<+ of lattices": (lambda m: m.largest < +m.other, "do not compare whole collections"),
    "<- of lattices": (lambda m: m.largest < -m.other, "`largest < …` is an expression"),
    "<~ of lattices": (lambda m: m.largest < ~m.other, "`largest < …` is an expression"),
    "| of lattices": (lambda m: m.largest | m.other, "`largest | …` is an expression"),
    "+ of a lattice": (lambda m: m.largest + 1, "`largest + …` is an expression"),
    "<= of collections": (lambda m: m.t <= m.u, "do not compare whole collections"),
    "<= of facts": (lambda m: m.t <= [(1, 2)], "do not compare whole collections"),
    "<+": (lambda m: m.t < +m.u, "do not compare whole collections"),
    "<-": (lambda m: m.t < -m.u, "do not compare whole collections"),
    "<~": (lambda m: m.t < ~m.u, "do not compare whole collections"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_what_is_a_rule_in_bud_and_none_in_python_names_the_operators(slip: str) -> None:
    """A comparison is an expression: as a statement of its own it would vanish."""
    make, problem = SLIPS[slip]
    collections = {"t": bloom.table(), "u": bloom.scratch()}
    lattices = {"largest": bloom.lmax(), "other": bloom.lmax(), "over": bloom.lbool()}

    def group(self: Any) -> None:
        self.over |= self.other > 3  # reads an expression
        make(self)

    text = told(rules(group, **collections, **lattices))
    assert "[C050]" in text
    assert problem in text
    assert "`|=` (Bloom's `<=`), `+=` (`<+`), `-=` (`<-`), `<<=` (`<+-`), `@=` (`<~`)" in text
    assert re.search(r"test_diagnostics.py:\d+:", text), "the line of the slip"


def test_expressions_on_lattices_that_rules_read() -> None:
    def group(self: Any) -> None:
        small = (self.m <= 5) & (self.n > 3)  # one lattice in each of a rule's places
        self.t |= self.u.where(small, ~(self.m > 7), self.m != self.n)
        self.t |= self.u.where(self.n + 1 > 9).project("key", val=self.m == 4)
        self.b |= self.m == 4
        self.k |= {"x": self.m + 1}

    made = rules(group, t=bloom.table(), u=bloom.scratch(), m=bloom.lmax(), n=bloom.lmax(),
                 b=bloom.lbool(), k=bloom.lmap())()  # fmt: skip
    made.insert("u", [(1, 2)])
    made.insert("m", [4])
    made.insert("n", [8])
    made.tick()
    assert made.value("b") is True, "`==` of a lattice is an expression too"
    assert made["t"].rows() == [(1, 2)]
    assert "[C050]: `m` is read as a value in rules alone" in told(lambda: made.m <= 5)


def test_iterating_ends() -> None:
    """Collections have columns by name, `t["a"]`, which Python would ask for 0, 1, 2, …"""

    def iterates(self: Any) -> None:
        self.t |= [row for row in self.u]  # noqa: C416

    def iterates_a_stream(self: Any) -> None:
        self.t |= list(self.u.where(self.u.val > 1))

    collections = {"t": bloom.table(), "u": bloom.scratch(), "m": bloom.lset()}
    assert "[C050]: rules do not iterate `u`" in told(rules(iterates, **collections))
    assert "[C050]: a stream is not iterated" in told(rules(iterates_a_stream, **collections))
    Made = rules(lambda self: None, **collections)
    made = Made()
    made.insert("t", [(1, 2), (0, 1)])
    made.insert("m", [{4}])
    made.tick()
    assert list(made.t) == [(0, 1), (1, 2)]
    assert (1, 2) in made.t
    assert [*made.m] == [(frozenset({4}),)]
    assert list(made) == ["t", "u", "m"], "the collections of the user, and no clock"
    assert "[C010]: there is no collection `0`" in told(lambda: made[0])
    assert "[C050]" in told(lambda: list(Made.t))


def test_outer_joins_are_of_two_collections() -> None:
    """As in Bud: of three, the left side would be a product."""

    def three(self: Any) -> None:
        self.t |= (self.t * self.u * self.v).outer("key").project(self.t.key, self.v.val)

    def one_by_one(self: Any) -> None:
        both = (self.t * self.u).outer("key").flatten()
        self.all |= (both * self.v).outer("key").project(both.key, both.val_2, self.v.val)

    names = {name: bloom.table() for name in "tuv"}
    assert "[C050]: outer() joins two collections, not 3" in told(rules(three, **names))
    made = rules(one_by_one, **names, all=bloom.scratch("k", "u", "v"))()
    made.insert("t", [(1, 1), (2, 1), (3, 1)])
    made.insert("u", [(1, 5), (2, 6)])
    made.insert("v", [(2, 7), (3, 8)])
    assert made.tick()["all"].rows() == [(1, 5, None), (2, 6, 7), (3, None, 8)]


def test_what_looks_like_a_condition_or_a_join_and_is_none() -> None:
    def compares(self: Any) -> None:
        self.t |= self.t.where(self.u == 5)

    def multiplies(self: Any) -> None:
        self.t |= self.t * 2

    collections = {"t": bloom.table(), "u": bloom.scratch()}
    assert "[C050]: a condition that is False for every row" in told(rules(compares, **collections))
    assert "[C050]: `*` joins collections, not 2" in told(rules(multiplies, **collections))
