"""Types spread from columns and constants; conflicts show both sides."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest
from hypothesis import example, given, settings, strategies as st
from tests.analysis.support import compiled, refused

from caladan.analysis.core import CoreRule
from caladan.language import parse
from caladan.pipeline import STAGES, Request, compile_until
from caladan.program import Type, Variable, variables
from caladan.program.diagnostics import CaladanError

ARC = "database({arc(A: integer, B: integer, W: double)}). "


def types_of(text: str, relation: str) -> list[str]:
    return [str(c.type) for c in compiled(text).checked.relations[relation].columns]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("p(A, B) <- arc(A, B, _).", ["integer", "integer"]),
        ("p(A, W) <- arc(A, _, W).", ["integer", "double"]),
        ("p(A, S) <- arc(A, B, _), S = A + B.", ["integer", "long"]),
        ("p(A, S) <- arc(A, _, W), S = A + W.", ["integer", "double"]),
        ("p(S) <- arc(A, B, _), S = A / B.", ["double"]),
        ("p(S) <- arc(A, B, _), S = A div B.", ["long"]),
        ("p(A, count<B>) <- arc(A, B, _).", ["integer", "long"]),
        ("p(A, sum<B>) <- arc(A, B, _).", ["integer", "long"]),
        ("p(A, sum<W>) <- arc(A, _, W).", ["integer", "double"]),
        ("p(A, avg<B>) <- arc(A, B, _).", ["integer", "double"]),
        ("p(A, min<B>) <- arc(A, B, _).", ["integer", "integer"]),
        ("p(1). p(2.5).", ["double"]),
        ("p(1). p(5000000000).", ["long"]),
        ("p(A, 'x') <- arc(A, _, _).", ["integer", "string"]),
        ("p(A, true) <- arc(A, _, _).", ["integer", "boolean"]),
        (
            "p(X, 0) <- arc(X, _, _). p(Y, D) <- p(X, E), arc(X, Y, W), D = E + W.",
            ["integer", "double"],
        ),
        ("p(Z) <- arc(A, B, _), B = A + Z.", ["long"]),
        ("p(Y) <- arc(A, _, _), if(A > 3 then Y = 'big' else Y = 'small').", ["string"]),
    ],
)
def test_inferred_types(rules: str, expected: list[str]) -> None:
    assert types_of(ARC + rules, "p") == expected


def test_a_recursive_column_is_as_wide_as_its_widest_rule() -> None:
    text = "p(1). p(Y) <- p(X), X < 5, Y = X + 0.5."
    assert types_of(text, "p") == ["double"]


def test_constants_take_the_type_of_their_column() -> None:
    text = """
    database({e(Name: string, Start: datetime, Share: float)}).
    p(N) <- e(N, S, F), S >= '2020-02-01', F = 0.1.
    q(N) <- e(N, '2021-01-01', _).
    """
    first, second = compiled(text).checked.rules
    assert str(first.comparisons[0].right.value) == "2020-02-01 00:00:00"  # type: ignore[union-attr]
    assert first.comparisons[1].right.value != 0.1  # type: ignore[union-attr]  # rounded to 32 bits
    assert str(second.atoms[0].arguments[1].value) == "2021-01-01 00:00:00"  # type: ignore[union-attr]


def test_a_conflict_shows_both_sides() -> None:
    assert (
        refused("database({p(A: string), q(B: integer)}).\nr(X) <- p(X), q(X).")
        == """\
t.dl:2:17: error[C012]: `X` is integer in `q` but string elsewhere in the rule
  2 | r(X) <- p(X), q(X).
    |                 ^
  t.dl:2:11: `X` is string in `p`
  2 | r(X) <- p(X), q(X).
    |           ^
  t.dl:1:27: `q` declares column B as integer
  1 | database({p(A: string), q(B: integer)}).
    |                           ^^^^^^^^^^"""
    )


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("p(X) <- arc(X, _, W), X = W, arc(W, _, _).", "`W` is integer in `arc` but double"),
        ("p(X) <- arc(X, _, _), X > 'a'.", "an integer cannot be compared with a string"),
        ("p(Y) <- arc(X, _, _), Y = X + 'a'.", "`+` needs numbers, not a string"),
        ("p(Y) <- arc(_, _, W), Y = W mod 2.", "`mod` needs whole numbers, not a double"),
        ("p(X) <- arc('a', X, _).", "`arc` has an integer here, not a string"),
        ("p(X) <- arc(X, _, _). p('a').", "gets a string where it has an integer"),
        ("p(sum<S>) <- q(S). q('a').", "`sum` needs numbers, not a string"),
        ("p(Y) <- arc(X, _, _), Y = if(X > 1 then 'a' else 2).", "the branches of `if` are"),
        ("p(X) <- arc(X, _, _). p(Y) <- arc(X, _, _), Y = 'a'.", "gets a string here"),
    ],
)
def test_conflicts(rules: str, message: str) -> None:
    told = refused(ARC + rules)
    assert "C012" in told
    assert message in told


def test_a_constant_out_of_range() -> None:
    told = refused("database({p(A: byte)}). q(X) <- p(X), p(300).")
    assert "C018" in told
    assert "300" in told


def test_what_nothing_reaches_is_an_integer() -> None:
    out = compiled("p(X) <- p(X).")
    assert out.checked.relations["p"].types == (Type.INTEGER,)
    assert [w.code for w in out.warnings] == ["W103"]


@pytest.mark.parametrize(
    ("rules", "type"),
    [
        ("p(X) <- p(X). q(X) <- p(X), t(X).", Type.STRING),
        ("p(X) <- p(X). q(X) <- t(X), ~p(X).", Type.STRING),
        ("p(X) <- p(X). q(1) <- p('a').", Type.STRING),
        ("p(X) <- p(X). query p('a').", Type.STRING),
        ("p(X) <- p(X), X > 'a'.", Type.STRING),
        ("p(X) <- p(Y), X = if(Y = 1.5 then Y else Y).", Type.DOUBLE),
        ("p(X) <- q(X). q(X) <- p(X). r(X) <- p(X), q(Y), X = Y. query r('a').", Type.STRING),
        ("p(X) <- p(Y), X = Y + 1.", Type.LONG),
    ],
)
def test_what_nothing_reaches_is_of_the_type_it_is_used_with(rules: str, type: Type) -> None:
    out = compiled("database({t(A: string)}). " + rules)
    assert out.checked.relations["p"].types == (type,)
    assert all(v.name in rule.types for rule in out.checked.rules for v in _variables(rule))


def test_uses_of_what_nothing_reaches_must_agree() -> None:
    told = refused("database({t(A: string), n(A: integer)}). p(X) <- p(X). q(X) <- p(X), t(X). "
                   "q(X) <- t(X), p(Y), n(Y).")  # fmt: skip
    assert "C012" in told
    assert "`X` is string in `t` but integer elsewhere in the rule" in told


def _variables(rule: CoreRule) -> Iterator[Variable]:
    for comparison in rule.comparisons:
        yield from variables(comparison)
    for argument in rule.arguments:
        yield from variables(argument)


DECLARED = (
    "database({e(A: integer, B: integer), f(A: double), s(A: string), d(A: date), "
    "m(A: decimal(9, 2))}).\n"
)
VALUES = ["0", "7000000000", "2.5", "a", "'2024-01-02'", "X", "Y", "X + 1", "Y * 1.5", "-X"]
LITERALS = [
    "e(X, Y)", "e(0, X)", "f(X)", "s(X)", "d(Y)", "m(X)", "r0(X)", "r1(X, Y)", "r1(0, X)",
    "r1(0, a)", "r2(Y)", "r2('2024-01-02')", "X = X", "X = Y", "Y = 1", "Y = X + 1", "Y + 1 = X",
    "Y = X / 2", "X = '2024-01-02'", "X > 2.5", "Y < b",
]  # fmt: skip


@st.composite
def untyped_rules(draw: st.DrawFn) -> list[str]:
    """Rules for relations that nothing declares; most of them do not go together."""
    rules: list[str] = []
    for _ in range(draw(st.integers(2, 6))):
        name, arity = draw(st.sampled_from([("r0", 1), ("r1", 2), ("r2", 1)]))
        head = draw(st.lists(st.sampled_from(VALUES), min_size=arity, max_size=arity))
        body = draw(st.lists(st.sampled_from(LITERALS), max_size=3))
        rules.append(f"{name}({', '.join(head)})" + (f" <- {', '.join(body)}." if body else "."))
    return rules


def outcome(rules: Sequence[str]) -> tuple[object, frozenset[str]]:
    """The types of all relations, None if the rules are refused, and the codes of diagnostics."""
    try:
        program = parse(DECLARED + "\n".join(rules))
        found = compile_until(STAGES[0], Request(program, {}, {})).checked
    except CaladanError as problem:
        return None, frozenset(each.code for each in problem.diagnostics)
    types = {name: info.types for name, info in found.relations.items() if not info.is_internal}
    return types, frozenset(each.code for each in found.warnings)


@settings(max_examples=300)
@given(untyped_rules(), st.randoms(use_true_random=False))
@example(["r1(0, S) <- r1(0, a), r1(0, S), e(0, _), S = S.", "r1(0, a) <- e(0, 0)."], Random(0))
@example(["r0('2024-01-02').", "r0(X) <- r2(X).", "r2(X) <- d(X)."], Random(0))
@example(["r0(X) <- r0(X).", "r1(X, 0) <- r0(X), X > 2.5.", "r1(X, 0) <- r0(X), X > 2."], Random(0))
def test_the_order_of_rules_does_not_matter(rules: list[str], random: Random) -> None:
    wanted = outcome(rules)
    for _ in range(3):
        shuffled = random.sample(rules, len(rules))
        assert outcome(shuffled) == wanted, shuffled
    assert outcome(rules[::-1]) == wanted


def test_a_literal_takes_the_type_that_rules_give_its_column() -> None:
    types, _ = outcome(["r0('2024-01-02').", "r0(X) <- r2(X).", "r2(X) <- d(X)."])
    assert types == outcome(["r2(X) <- d(X).", "r0(X) <- r2(X).", "r0('2024-01-02')."])[0]
    assert types is not None


def test_only_whole_numbers_are_solved_for() -> None:
    """`X + 1.5 = Y` gave the bits of a double as a whole number."""
    assert outcome(["r0(X) <- e(Y, _), X + 1.5 = Y."]) == (None, frozenset({"C013"}))
    assert outcome(["r0(X) <- e(Y, _), X + Y / 2 = Y."]) == (None, frozenset({"C013"}))
