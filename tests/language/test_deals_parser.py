"""DeALS text → nodes, a table for each part of the grammar."""

import pytest

from caladan.language import parse, parse_goal
from caladan.language.deals import unparse
from caladan.language.deals.expressions import AGGREGATES, WITH_PARENTHESES
from caladan.program import (
    Aggregate,
    Arithmetic,
    Atom,
    Call,
    Choice,
    Column,
    Comparison,
    Conditional,
    Constant,
    Declaration,
    Expression,
    Goal,
    Head,
    Literal,
    Negative,
    Parameter,
    Program,
    Rule,
    SortKey,
    Type,
    Variable,
)
from caladan.program.diagnostics import Span
from caladan.program.types import TYPES

A, B, C, D, X, Y = (Variable(name) for name in "ABCDXY")
ANY = Variable("_")
ONE, TWO, THREE, FIVE = (Constant(value) for value in (1, 2, 3, 5))


def rule(text: str) -> Rule:
    (only,) = parse(text, language="deals").rules
    return only


# ── Expressions ──────────────────────────────────────────────────────────────────────────────────

EXPRESSIONS: list[tuple[str, Expression]] = [
    ("1", ONE),
    ("007", Constant(7)),
    ("-5", Constant(-5)),
    ("- 5", Constant(-5)),
    ("9223372036854775807", Constant(2**63 - 1)),
    ("-9223372036854775808", Constant(-(2**63))),
    ("1.5", Constant(1.5)),
    ("1.0", Constant(1.0)),
    ("1e10", Constant(1e10)),
    ("2.5e-3", Constant(0.0025)),
    ("-1.5E+2", Constant(-150.0)),
    ("red", Constant("red")),
    ("count", Constant("count")),
    ("été", Constant("été")),
    ("東京", Constant("東京")),
    ("'New York'", Constant("New York")),
    ('"New York"', Constant("New York")),
    ("''", Constant("")),
    ("'it''s'", Constant("it's")),
    (r"'it\'s'", Constant("it's")),
    ("""'say ""hi""'""", Constant('say ""hi""')),
    ('''"say ""hi"""''', Constant('say "hi"')),
    (r"'\\ \" \n \t \r'", Constant('\\ " \n \t \r')),
    ("'% no comment -- /* '", Constant("% no comment -- /* ")),
    ("true", Constant(True)),
    ("false", Constant(False)),
    ("X", X),
    ("_", ANY),
    ("_x1", Variable("_x1")),
    ("Été", Variable("Été")),
    ("{low}", Parameter("low", "{}")),
    ("{ Low }", Parameter("Low", "{}")),
    ("$Low", Parameter("Low", "$")),
    ("(1)", ONE),
    ("A + 1", Arithmetic("+", A, ONE)),
    ("A - 5", Arithmetic("-", A, FIVE)),
    ("A -5", Arithmetic("-", A, FIVE)),
    ("A - -5", Arithmetic("-", A, Constant(-5))),
    ("-A", Negative(A)),
    ("-(5)", Negative(FIVE)),
    ("- -5", Negative(Constant(-5))),
    ("-A * B", Arithmetic("*", Negative(A), B)),
    ("-(A * B)", Negative(Arithmetic("*", A, B))),
    ("A + B * C", Arithmetic("+", A, Arithmetic("*", B, C))),
    ("A * B + C", Arithmetic("+", Arithmetic("*", A, B), C)),
    ("(A + B) * C", Arithmetic("*", Arithmetic("+", A, B), C)),
    ("A - B - C", Arithmetic("-", Arithmetic("-", A, B), C)),
    ("A - (B - C)", Arithmetic("-", A, Arithmetic("-", B, C))),
    ("A / B * C", Arithmetic("*", Arithmetic("/", A, B), C)),
    ("A + B * C mod D - 1", Arithmetic(
        "-", Arithmetic("+", A, Arithmetic("mod", Arithmetic("*", B, C), D)), ONE)),
    ("A div 2", Arithmetic("div", A, TWO)),
    ("if(A > 1 then 2 else 3)", Conditional((Comparison(">", A, ONE),), TWO, THREE)),
    ("if(A > 1, B ~= 2 then red else X + 1) * 2", Arithmetic("*", Conditional(
        (Comparison(">", A, ONE), Comparison("~=", B, TWO)),
        Constant("red"), Arithmetic("+", X, ONE)), TWO)),
    ("if(A<-5 then 1 else if(A = 1 then 2 else 3))", Conditional(
        (Comparison("<", A, Constant(-5)),), ONE,
        Conditional((Comparison("=", A, ONE),), TWO, THREE))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), EXPRESSIONS)
def test_expression(text: str, expected: Expression) -> None:
    assert rule(f"p({text}).") == Rule(Head("p", (expected,)))
    assert rule(f"p(X) <- X = {text}.").body == (Comparison("=", X, expected),)
    assert rule(f"p(X) <- q({text}).").body == (Atom("q", (expected,)),)
    if text != "count":  # `count <` would open an aggregate
        assert rule(f"p(X) <- {text} < X.").body == (Comparison("<", expected, X),)


AGGREGATE_HEADS: list[tuple[str, Expression]] = [
    *((f"{name}<D>", Aggregate(row.name, (D,))) for name, row in AGGREGATES.items()),
    *((f"{name}(D)", Aggregate(name, (D,))) for name in sorted(WITH_PARENTHESES)),
    ("count(_)", Aggregate("count", (ANY,))),
    ("max ( D )", Aggregate("max", (D,))),
    ("mmin<D, X>", Aggregate("mmin", (D, X))),
    ("max(D, X, Y)", Aggregate("max", (D, X, Y))),
    ("min<(D, X)>", Aggregate("min", (D, X))),
    ("mcount((Y, X))", Aggregate("mcount", (Y, X))),
    ("mcount(Y, X)", Aggregate("mcount", (Y, X))),
    ("msum((Y), A * 2)", Aggregate("msum", (Y, Arithmetic("*", A, TWO)))),
    ("min((A + B) * 2)", Aggregate(
        "min", (Arithmetic("*", Arithmetic("+", A, B), TWO),))),
    ("sum(-D)", Aggregate("sum", (Negative(D),))),
    ("max(C) - min<C>", Arithmetic("-", Aggregate("max", (C,)), Aggregate("min", (C,)))),
    ("if(count(_)>=3 then 1 else 2)", Conditional(
        (Comparison(">=", Aggregate("count", (ANY,)), THREE),), ONE, TWO)),
    ("count<_>", Aggregate("count", (ANY,))),
    ("min< D >", Aggregate("min", (D,))),
    ("mcount<(Y, X)>", Aggregate("mcount", (Y, X))),
    ("countd<(A, B, C)>", Aggregate("countd", (A, B, C))),
    ("msum<(Y, A * 2)>", Aggregate("msum", (Y, Arithmetic("*", A, TWO)))),
    ("min<(D)>", Aggregate("min", (D,))),
    ("mmin<A + B>", Aggregate("mmin", (Arithmetic("+", A, B),))),
    ("min<(A + B) * 2>", Aggregate(
        "min", (Arithmetic("*", Arithmetic("+", A, B), TWO),))),
    ("sum<-D>", Aggregate("sum", (Negative(D),))),
    ("max<-5>", Aggregate("max", (Constant(-5),))),
    ("sum<if(A > 1 then 1 else 0)>", Aggregate(
        "sum", (Conditional((Comparison(">", A, ONE),), ONE, Constant(0)),))),
    ("sum<C> / count<_>", Arithmetic(
        "/", Aggregate("sum", (C,)), Aggregate("count", (ANY,)))),
    ("if(count<_>>=3 then 1 else 2)", Conditional(
        (Comparison(">=", Aggregate("count", (ANY,)), THREE),), ONE, TWO)),
    ("if(count<_>=3 then 1 else 2)", Conditional(
        (Comparison("=", Aggregate("count", (ANY,)), THREE),), ONE, TWO)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), AGGREGATE_HEADS)
def test_aggregate(text: str, expected: Expression) -> None:
    assert rule(f"p(A, {text}, max<X>) <- q(X).").head == Head(
        "p", (A, expected, Aggregate("max", (X,)))
    )


def test_a_relation_may_have_the_name_of_an_aggregate() -> None:
    assert rule("max(X) <- count(X).") == Rule(Head("max", (X,)), (Atom("count", (X,)),))
    assert rule("max(max(X)) <- ~min(X).").head == Head("max", (Aggregate("max", (X,)),))


def test_parentheses_print_as_brackets() -> None:
    printed = unparse(parse("p(X, mmin(D), msum(X, D)) <- q(X, D)."))
    assert "p(X, mmin<D>, msum<(X, D)>) <- q(X, D)." in printed
    assert "p(X, mmin<D, X>) <- q(X, D)." in unparse(parse("p(X, mmin((D, X))) <- q(X, D)."))


CALLED: list[tuple[str, Expression]] = [
    ("concat(X, 'a', Y)", Call("concat", (X, Constant("a"), Y))),
    ("upper(substring(X, 1, A + 1))", Call("upper", (
        Call("substring", (X, ONE, Arithmetic("+", A, ONE))),))),
    ("length(X) * 2", Arithmetic("*", Call("length", (X,)), TWO)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CALLED)
def test_functions_of_text(text: str, expected: Expression) -> None:
    for written, wanted in (
        (f"p({text}) <- q(X, Y, A).", Head("p", (expected,))),
        (f"p(min<{text}>) <- q(X, Y, A).", Head("p", (Aggregate("min", (expected,)),))),
    ):
        assert rule(written).head == wanted
        assert rule(unparse(parse(written))).head == wanted
    assert rule(f"p(X) <- {text} = Y.").body == (Comparison("=", expected, Y),)
    assert rule(f"p(X) <- q(Y), if({text} < Y then q(X) else q(A)).").body[1:] == (
        Choice((Comparison("<", expected, Y),), (Atom("q", (X,)),), (Atom("q", (A,)),)),
    )


def test_a_relation_may_have_the_name_of_a_function() -> None:
    assert rule("length(X) <- upper(X), ~trim(X).") == Rule(
        Head("length", (X,)), (Atom("upper", (X,)), Atom("trim", (X,), negated=True))
    )


# ── Literals ─────────────────────────────────────────────────────────────────────────────────────

LITERALS: list[tuple[str, Literal]] = [
    ("q(X, 1)", Atom("q", (X, ONE))),
    ("Q(X)", Atom("Q", (X,))),
    ("min(X)", Atom("min", (X,))),
    ("q()", Atom("q", ())),
    ("q", Atom("q", ())),
    ("~q(X)", Atom("q", (X,), negated=True)),
    ("~ q(X)", Atom("q", (X,), negated=True)),
    ("~q", Atom("q", (), negated=True)),
    ("q(X + 1)", Atom("q", (Arithmetic("+", X, ONE),))),
    *((f"X {operator} 1", Comparison(operator, X, ONE))
      for operator in ("=", "~=", "<", "<=", ">", ">=")),
    ("X<-5", Comparison("<", X, Constant(-5))),
    ("5 = X", Comparison("=", FIVE, X)),
    ("red = X", Comparison("=", Constant("red"), X)),
    ("(X + 1) * 2 = Y", Comparison(
        "=", Arithmetic("*", Arithmetic("+", X, ONE), TWO), Y)),
    ("if(A > 1 then q(X) else X = 2, ~r(X))", Choice(
        (Comparison(">", A, ONE),), (Atom("q", (X,)),),
        (Comparison("=", X, TWO), Atom("r", (X,), negated=True)))),
    ("if(A > 1 then q else r)", Choice(
        (Comparison(">", A, ONE),), (Atom("q", ()),), (Atom("r", ()),))),
    ("if(A > 1 then if(B > 1 then q else r) else X = 2)", Choice(
        (Comparison(">", A, ONE),),
        (Choice((Comparison(">", B, ONE),), (Atom("q", ()),), (Atom("r", ()),)),),
        (Comparison("=", X, TWO),))),
    ("if(A > 1 then if(B > 1 then 1 else 2) = X else X = 2)", Choice(
        (Comparison(">", A, ONE),),
        (Comparison("=", Conditional((Comparison(">", B, ONE),), ONE, TWO), X),),
        (Comparison("=", X, TWO),))),
    ("if(A > 1 then 2 else 3) = X", Comparison(
        "=", Conditional((Comparison(">", A, ONE),), TWO, THREE), X)),
    ("if(A > 1 then red else if(B > 1 then 1 else 2)) + 1 <-X", Comparison("<", Arithmetic(
        "+", Conditional((Comparison(">", A, ONE),), Constant("red"),
                         Conditional((Comparison(">", B, ONE),), ONE, TWO)), ONE), Negative(X))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), LITERALS)
def test_literal(text: str, expected: Literal) -> None:
    before, after = Atom("a", (X,)), Atom("z", (X,))
    assert rule(f"p(X) <- {text}.").body == (expected,)
    assert rule(f"p(X) <- a(X), {text}, z(X).").body == (before, expected, after)


@pytest.mark.parametrize(
    ("text", "order", "limit"),
    [
        ("sort(X)", (SortKey(X),), None),
        ("sort((X))", (SortKey(X),), None),
        ("sort((X, asc))", (SortKey(X),), None),
        ("sort((X, desc), (Y, ASC), A)", (SortKey(X, True), SortKey(Y), SortKey(A)), None),
        ("limit(10)", (), Constant(10)),
        ("limit({n})", (), Parameter("n")),
        ("limit($N), sort((X, desc))", (SortKey(X, True),), Parameter("N", "$")),
    ],
)
def test_sort_and_limit(text: str, order: tuple[SortKey, ...], limit: Expression | None) -> None:
    q, r = Atom("q", (X,)), Atom("r", (X,))
    for body in (f"q(X), {text}, r(X)", f"{text}, q(X), r(X)", f"q(X), r(X), {text}"):
        assert rule(f"p(X) <- {body}.") == Rule(Head("p", (X,)), (q, r), order, limit)


# ── Statements ───────────────────────────────────────────────────────────────────────────────────

STATEMENTS: list[tuple[str, Program]] = [
    ("p(1, red).", Program(rules=(Rule(Head("p", (ONE, Constant("red")))),))),
    ("p().", Program(rules=(Rule(Head("p", ())),))),
    ("p.", Program(rules=(Rule(Head("p", ())),))),
    ("p <- q.", Program(rules=(Rule(Head("p", ()), (Atom("q", ()),)),))),
    ("Tc(X) <- arc(X).", Program(rules=(Rule(Head("Tc", (X,)), (Atom("arc", (X,)),)),))),
    ("query tc(A, 1).", Program(goals=(Goal(Atom("tc", (A, ONE))),))),
    ("query p(). export tc(A).", Program(
        goals=(Goal(Atom("p", ())), Goal(Atom("tc", (A,)), export=True)))),
    ("query query(A).", Program(goals=(Goal(Atom("query", (A,))),))),
    ("query(A) <- export(A).", Program(
        rules=(Rule(Head("query", (A,)), (Atom("export", (A,)),)),))),
    ("query.", Program(rules=(Rule(Head("query", ())),))),
    ("p(1).p(2).\np(\n3\n)\n.", Program(
        rules=tuple(Rule(Head("p", (Constant(value),))) for value in (1, 2, 3)))),
    ("p(X) <- X = 1.q(2).", Program(
        rules=(Rule(Head("p", (X,)), (Comparison("=", X, ONE),)), Rule(Head("q", (TWO,)))))),
    ("p(1). % a comment\n-- another\n/* and\n * a third */ q(2). --", Program(
        rules=(Rule(Head("p", (ONE,))), Rule(Head("q", (TWO,)))))),
    ("\ufeffp(1).\r\nq(2).\r\n", Program(
        rules=(Rule(Head("p", (ONE,))), Rule(Head("q", (TWO,)))))),
    ("database({arc(A: integer, B: integer), person(Name: string), flag()}).", Program(relations=(
        Declaration("arc", (Column("A", Type.INTEGER), Column("B", Type.INTEGER))),
        Declaration("person", (Column("Name", Type.STRING),)),
        Declaration("flag", ())))),
    ("database({a(x:long)}).database ( { b(Y : DOUBLE) } ) .", Program(relations=(
        Declaration("a", (Column("x", Type.LONG),)),
        Declaration("b", (Column("Y", Type.DOUBLE),))))),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), STATEMENTS)
def test_statement(text: str, expected: Program) -> None:
    assert parse(text) == expected


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        *((kind.name, kind) for kind in TYPES if not kind.is_nested),
        ("Integer", Type.INTEGER),
        ("int", Type.INTEGER),
        ("bigint", Type.LONG),
        ("text", Type.STRING),
        ("varchar", Type.STRING),
        ("bool", Type.BOOLEAN),
        ("timestamp", Type.DATETIME),
        ("numeric", Type.DECIMAL),
        ("bytes", Type.BINARY),
    ],
)
def test_type(word: str, kind: Type) -> None:
    assert parse(f"database({{p(A: {word})}}).").relations[0].columns == (Column("A", kind),)


@pytest.mark.parametrize("text", ["tc(1, X)", "tc(1, X).", "query tc(1, X)", " query tc(1,X) .\n"])
def test_goal(text: str) -> None:
    assert parse_goal(text) == Goal(Atom("tc", (ONE, X)))


def test_goal_on_a_relation_called_query() -> None:
    assert parse_goal("query(1)") == Goal(Atom("query", (ONE,)))


# ── Spans ────────────────────────────────────────────────────────────────────────────────────────


def test_spans() -> None:
    text = (
        "database({arc(A: integer)}).\n"
        "p(X, (A + 1) * -B, min<D>) <- ~q(X), (A) + 1 > {n}, if(A > 1 then r else s(X)), "
        "sort((X, desc)).\nquery p(1, X)."
    )
    program = parse(text, name="a.dl")
    (relation,), (found,), (goal,) = program.relations, program.rules, program.goals
    assert _text(relation.span) == "arc(A: integer)"
    assert _text(relation.columns[0].span) == "A: integer"
    assert _text(found.span) == text[text.index("p(X") : text.index(".\nquery")]
    assert _text(found.head.span) == "p(X, (A + 1) * -B, min<D>)"
    assert [_text(part.span) for part in found.head.arguments] == ["X", "(A + 1) * -B", "min<D>"]
    bodies = ["~q(X)", "(A) + 1 > {n}", "if(A > 1 then r else s(X))"]
    assert [_text(part.span) for part in found.body] == bodies
    assert [_text(key.span) for key in found.order] == ["(X, desc)"]
    assert _text(goal.span) == "p(1, X)"
    assert goal.span is not None
    assert (goal.span.name, goal.span.line, goal.span.column) == ("a.dl", 3, 7)


def test_span_of_an_aggregate_whose_bracket_meets_an_equals_sign() -> None:
    test = rule("p(if(count<_>=3 then 1 else 2)) <- q(X).").head.arguments[0]
    assert isinstance(test, Conditional)
    assert _text(test.condition[0].left.span) == "count<_>"


def _text(span: Span | None) -> str | None:
    return span.text if span else None
