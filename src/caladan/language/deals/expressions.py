"""Expressions: constants, variables, parameters, arithmetic, `if(…)` and aggregates.

    expression   unary (operator unary)…          `* / div mod` before `+ -`, all from the left
    unary        - unary | primary                `-5` is a constant, `-(5)` a sign and a constant
    primary      number | text | word | true | false | variable | parameter
                 | ( expression ) | if( condition then expression else expression )
                 | function( expression, … )
                 | aggregate< term, … > | aggregate< (term, …) > | aggregate( term, … )

Comparisons are no expressions, so the `>` that closes an aggregate is never taken for one. `<-` and
`>=` are split where an aggregate's bracket meets a sign or an equals sign.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NoReturn, TypeVar, cast

from caladan.language.deals import slips
from caladan.language.deals.body_aggregates import RangingAggregate
from caladan.language.deals.cursor import Cursor
from caladan.language.deals.tokens import (
    END,
    FLOAT,
    INTEGER,
    NAMES,
    PARAMETER,
    VARIABLE,
    Token,
    unquote,
)
from caladan.program import (
    NULL,
    Aggregate,
    Arithmetic,
    ArithmeticOperator,
    Call,
    Comparison,
    ComparisonOperator,
    Conditional,
    Constant,
    Expression,
    Literal,
    Negative,
    Parameter,
    Variable,
)
from caladan.program.aggregates import AggregateFunction, find_row, names_in
from caladan.program.diagnostics import Span, did_you_mean
from caladan.program.functions import FUNCTIONS, NO_FUNCTIONS, call_type, type_of_value
from caladan.program.values import fit

T = TypeVar("T")

PRECEDENCE: Final[dict[str, int]] = {"+": 1, "-": 1, "*": 2, "/": 2, "div": 2, "mod": 2}

COMPARISONS: Final = frozenset({"=", "~=", "<", "<=", ">", ">=", "<-"})
"""What may stand between two sides; `<-` is `<` and `-` here, as in `X<-5`."""

_MIN_INTEGER: Final = -(2**63)
_MAX_INTEGER: Final = 2**63 - 1
_MAX_DIGITS: Final = 19

AGGREGATES: Final = {name: row for name in names_in("deals") if (row := find_row("deals", name))}
"""The aggregates, by what they are called."""
_FAR_AHEAD: Final = 64  # tokens within which the `:` of an aggregate in a body comes
WITH_PARENTHESES: Final = frozenset(names_in("deals", "monotone")) | {
    "min", "max", "sum", "count", "countd", "avg",
}  # fmt: skip
"""Those that are also written with parentheses; other names are those of functions there."""
TESTS: Final = ("missing", "present")
"""Functions that may stand alone in the condition of an `if`."""
_VALUE: Final = "a value"


def expression(cursor: Cursor) -> Expression:
    """A whole expression."""
    if cursor.depth == 0:
        cursor.operators = 0
    start = cursor.current.start
    return arithmetic(cursor, unary(cursor), start)


def arithmetic(cursor: Cursor, left: Expression, start: int, weakest: int = 1) -> Expression:
    """What follows a first operand, written at `start`; only operators not weaker than this."""
    while (precedence := PRECEDENCE.get(cursor.kind, 0)) >= weakest:
        token = cursor.advance()
        cursor.count_operator(token)
        right_start = cursor.current.start
        right = unary(cursor)
        if PRECEDENCE.get(cursor.kind, 0) > precedence:
            right = arithmetic(cursor, right, right_start, precedence + 1)
        operator = cast("ArithmeticOperator", token.kind)
        left = Arithmetic(operator, left, right, cursor.since(start))
    return left


def comparison(cursor: Cursor, left: Expression, start: int) -> Comparison:
    """What follows the left side of a comparison, written at `start`: an operator is there."""
    token = cursor.split("<") if cursor.kind == "<-" else cursor.advance()
    right = expression(cursor)
    operator = cast("ComparisonOperator", token.kind)
    return Comparison(operator, left, right, cursor.since(start))


def condition(cursor: Cursor) -> tuple[Comparison, ...]:
    """Comparisons joined by `,`, up to `then`."""
    return tuple(cursor.several(_test))


def _test(cursor: Cursor) -> Comparison:
    start = cursor.current.start
    left = expression(cursor)
    if cursor.kind not in COMPARISONS:
        if isinstance(left, Call) and left.function in TESTS:
            return Comparison("=", left, Constant(True, left.span), left.span)
        cursor.fail("a comparison operator in the condition of `if`", help=slips.CHOICE)
    return comparison(cursor, left, start)


def choice(
    cursor: Cursor, read: Callable[[Cursor], T], before: str, what: str
) -> tuple[Token, tuple[Comparison, ...], T, T]:
    """`if(condition then … else …)`: its first token, its condition, and what is read twice."""
    cursor.enter()
    token = cursor.advance()
    opening = cursor.expect("(", "`(` after `if`")
    test = condition(cursor)
    cursor.expect("then", "`,` or `then` after a condition")
    then = read(cursor)
    cursor.expect("else", f"{before} or `else` after {what}")
    otherwise = read(cursor)
    cursor.close(opening, ")", f"{before} or `)` after {what}")
    cursor.depth -= 1
    return token, test, then, otherwise


def arguments(cursor: Cursor) -> tuple[Expression, ...]:
    """`(expression, …)`, perhaps empty."""
    opening = cursor.advance()
    if cursor.accept(")"):
        return ()
    found = cursor.several(expression)
    _close_arguments(cursor, opening)
    return tuple(found)


def _close_arguments(cursor: Cursor, opening: Token) -> None:
    help = slips.NAMED_COLUMN if cursor.kind == "=" else None
    cursor.close(opening, ")", "`,` or `)` after an argument", help=help)


def named_arguments(cursor: Cursor) -> tuple[tuple[Expression, ...], tuple[str, ...]]:
    """`(expression, …)`, or `(column: expression, …)` with the names of the columns."""
    if not (cursor.peek(1) in NAMES and cursor.peek(2) == ":"):
        return arguments(cursor), ()
    opening = cursor.advance()
    names: list[str] = []

    def argument(at: Cursor) -> Expression:
        if not (at.kind in NAMES and at.next_kind == ":"):
            at.fail(
                "the name of a column and `:`",
                help="name all arguments, as in `org(id: X, vat: V)`, or none of them",
            )
        names.append(at.text(at.advance()))
        at.advance()
        return expression(at)

    found = cursor.several(argument)
    _close_arguments(cursor, opening)
    return tuple(found), tuple(names)


def is_function(cursor: Cursor, name: str) -> bool:
    """Whether a name is that of a function: of the table, or one that was defined."""
    return name in FUNCTIONS or name in cursor.functions


def parse_call(cursor: Cursor, function: str, given: tuple[Expression, ...], token: Token) -> Call:
    """A function whose name has been read, with its arguments."""
    span = cursor.since(token.start)
    row = cursor.functions.get(function) or FUNCTIONS[function]
    complaint = row.complaint(len(given))
    if complaint is not None:
        cursor.fail_at(span, f"`{function}` {complaint}")
    if row.rows is not None:
        cursor.fail_at(span, f"`{function}` gives several rows", help=f"`X in {function}(…)`")
    return replace(row.called(given), span=span)


def unary(cursor: Cursor) -> Expression:
    """A primary, perhaps with a sign; the sign of a number belongs to it."""
    if cursor.kind != "-":
        return primary(cursor)
    if cursor.next_kind in (INTEGER, FLOAT):
        sign = cursor.advance()
        return _number(cursor, sign)
    cursor.enter()
    sign = cursor.advance()
    operand = unary(cursor)
    cursor.depth -= 1
    return Negative(operand, cursor.since(sign.start))


def primary(cursor: Cursor) -> Expression:
    """An expression without operators at its top."""
    match cursor.kind:
        case "integer" | "float":
            return _number(cursor)
        case "variable" if cursor.next_kind != "(":
            token = cursor.current
            is_aggregate = cursor.text(token).lower() in AGGREGATES
            if is_aggregate and cursor.next_kind in ("<", "<-") and _is_bracket(cursor):
                near = did_you_mean(cursor.text(token), AGGREGATES)
                told = f"there is no aggregate `{cursor.text(token)}`"
                cursor.fail_at(cursor.span(token), told, help=near)
            cursor.advance()
            return inside(cursor, Variable(cursor.text(token), cursor.span(token)))
        case "word" | "variable":
            found = _word(cursor)
            return inside(cursor, found) if isinstance(found, Call) else found
        case "text":
            return _text(cursor)
        case "true" | "false":
            token = cursor.advance()
            return Constant(token.kind == "true", cursor.span(token))
        case "{" if cursor.next_kind in NAMES and cursor.peek(2) == ":":
            return inside(cursor, _struct(cursor))
        case "[":
            return inside(cursor, _list(cursor))
        case "parameter" | "{":
            return inside(cursor, _parameter(cursor))
        case "(":
            return inside(cursor, _parenthesis(cursor))
        case "if":
            return _conditional(cursor)
        case "." if cursor.next_kind == INTEGER:
            cursor.fail(_VALUE, help="a number begins with a digit, as in `0.5`")
        case _:
            cursor.fail(_VALUE)


def inside(cursor: Cursor, value: Expression) -> Expression:
    """What follows a value to look inside of it: `[0]` of a list, `.name` of a struct."""
    start = cursor.current.start if value.span is None else value.span.start
    while True:
        if cursor.kind == "[" and _is_glued(cursor):
            cursor.enter()
            opening = cursor.advance()
            place = expression(cursor)
            cursor.close(opening, "]", "`]` after the place of an element")
            cursor.depth -= 1
            value = Call("item", (value, place), cursor.since(start))
        elif _is_field(cursor):
            cursor.advance()
            token = cursor.advance()
            name = Constant(cursor.text(token), cursor.span(token))
            value = Call("field", (value, name), cursor.since(start))
        else:
            return value


def _is_glued(cursor: Cursor) -> bool:
    """Whether no blank stands before the token."""
    return cursor.index > 0 and cursor.tokens.ends[cursor.index - 1] == cursor.current.start


def _is_field(cursor: Cursor) -> bool:
    """Whether a `.` is followed by the name of a field, and not by the head of another rule."""
    if cursor.kind != "." or not _is_glued(cursor) or cursor.next_kind not in NAMES:
        return False
    after = cursor.tokens.starts[cursor.index + 1] == cursor.current.end
    return after and cursor.peek(2) not in ("(", "<-")


def _list(cursor: Cursor) -> Call | Constant:
    """`[expression, …]`, perhaps empty."""
    cursor.enter()
    opening = cursor.advance()
    items: list[Expression] = []
    if cursor.kind != "]":
        items = cursor.several(expression)
    cursor.close(opening, "]", "`,` or `]` after an element")
    cursor.depth -= 1
    return _constant_of(Call("list", tuple(items), cursor.since(opening.start)))


def _struct(cursor: Cursor) -> Call | Constant:
    """`{name: expression, …}`"""
    cursor.enter()
    opening = cursor.advance()
    given: list[Expression] = []

    def field(at: Cursor) -> None:
        if not (at.kind in NAMES and at.next_kind == ":"):
            at.fail("the name of a field and `:`")
        token = at.advance()
        at.advance()
        given.extend((Constant(at.text(token), at.span(token)), expression(at)))

    cursor.several(field)
    cursor.close(opening, "}", "`,` or `}` after a field")
    cursor.depth -= 1
    return _constant_of(Call("struct", tuple(given), cursor.since(opening.start)))


def _constant_of(node: Call) -> Call | Constant:
    """A list or a struct of constants as one; what has no type on its own stays as it is."""
    if not all(isinstance(each, Constant) for each in node.arguments):
        return node
    plain = list(map(_value_of, node.arguments))
    type = call_type(node, lambda each: type_of_value(_value_of(each)))
    if type is None:
        return node
    made: Any = (
        plain if node.function == "list" else dict(zip(plain[::2], plain[1::2], strict=True))
    )
    try:
        return Constant(fit(made, type), node.span)
    except ValueError:
        return node


def _value_of(node: Expression) -> object:
    assert isinstance(node, Constant)
    return None if node.value is NULL else node.value


def _number(cursor: Cursor, sign: Token | None = None) -> Constant:
    token = cursor.advance()
    text = cursor.text(token)
    span = cursor.since(sign.start if sign else token.start)
    value = float(text) if token.kind == FLOAT else _integer(text)
    if sign:
        value = -value
    if isinstance(value, int) and not _MIN_INTEGER <= value <= _MAX_INTEGER:
        help = f"integers range from {_MIN_INTEGER} to {_MAX_INTEGER}"
        cursor.found.add("C003", "this number does not fit into 64 bits", span, help=help)
    elif not math.isfinite(value):
        help = "the largest is about 1.8e308"
        cursor.found.add("C003", "this number is too large for a double", span, help=help)
    return Constant(value, span)


def _integer(digits: str) -> int:
    """The value of digits; Python refuses thousands of them, so one too many is as good as all."""
    digits = digits.lstrip("0") or "0"
    return int(digits[: _MAX_DIGITS + 1])


def _word(cursor: Cursor) -> Expression:
    token = cursor.current
    text = cursor.text(token)
    is_open = cursor.next_kind in ("<", "<-", "<>")
    if text in AGGREGATES and cursor.read_body is not None and _ranges(cursor):
        return _parse_range(cursor, AGGREGATES[text], cursor.read_body)
    if is_open and (text in AGGREGATES or cursor.no_aggregates is None):
        return _aggregate(cursor, AGGREGATES.get(text), text)
    if text in WITH_PARENTHESES and cursor.next_kind == "(":
        return _aggregate(cursor, AGGREGATES[text], text)
    if is_function(cursor, text) and cursor.next_kind == "(":
        cursor.advance()
        cursor.enter()
        given = arguments(cursor)
        cursor.depth -= 1
        return parse_call(cursor, text, given, token)
    if cursor.next_kind == "(":
        fail_on_function(cursor, token)
    cursor.advance()
    return Constant(NULL if text == "null" else text, cursor.span(token))


def fail_on_function(cursor: Cursor, token: Token) -> NoReturn:
    """Fail: a name that is called is no function."""
    text, known = cursor.text(token), cursor.known_functions
    near = _suggest(text, known, slips.FUNCTIONS)
    akin = ", ".join(f"`{each}`" for each in sorted(known) if _is_akin(text, each))
    elsewhere = "docs/reference/functions.md lists all functions, and `db.define` adds more"
    some = f"there are {akin}; {elsewhere}" if akin else elsewhere
    cursor.fail_at(
        cursor.span(token), f"there is no function `{text}`",
        help=NO_FUNCTIONS.get(text) or near or f"{some}; or a `)` is missing before a relation",
    )  # fmt: skip


def _is_akin(one: str, other: str) -> bool:
    """True if a word of one name begins a word of the other: `split` and `split_part`."""
    words = [[w for w in name.lower().split("_") if len(w) > 2] for name in (one, other)]
    return any(a.startswith(b) or b.startswith(a) for a in words[0] for b in words[1])


def _suggest(
    text: str, known: Collection[str], elsewhere: Mapping[str, Sequence[str]]
) -> str | None:
    """A help line with what a name of another language is called here, or with a near name."""
    called = [each for each in elsewhere.get(text.lower(), ()) if each in known]
    return f"it is called `{called[0]}` here" if called else did_you_mean(text, known)


def _is_bracket(cursor: Cursor) -> bool:
    """True if the `<` after a name opens an aggregate: its `>` comes before the argument ends."""
    depth = 0
    for kind in islice(cursor.kinds, cursor.index + 2, None):
        depth += (kind == "(") - (kind == ")")
        if depth < 0 or kind in (".", "<-", END):
            return False
        if kind in (">", ">=") and not depth:
            return True
    return False


def _ranges(cursor: Cursor) -> bool:
    """Whether an aggregate with a body of its own begins here: `sum X : {`, `sum<X> : {`."""
    is_open = cursor.next_kind in ("<", "<-")
    if not is_open and cursor.next_kind not in (":", VARIABLE, INTEGER, FLOAT, "-"):
        return False
    for ahead in range(1, _FAR_AHEAD):
        kind = cursor.peek(ahead)
        if kind == ":":
            return cursor.peek(ahead + 1) == "{"
        if kind in (".", "{", "then", "else", END) or (kind == "<-" and not is_open):
            return False
    return False


def _parse_range(
    cursor: Cursor, row: AggregateFunction, read_body: Callable[[Cursor], tuple[Literal, ...]]
) -> Expression:
    """`sum X : { literals }` or `sum<X> : { literals }`, within a body."""
    start = cursor.current.start
    refusal, cursor.no_aggregates = cursor.no_aggregates, None
    terms: tuple[Expression, ...] = (Variable("_"),)
    if cursor.next_kind in ("<", "<-"):
        terms = _aggregate(cursor, row, row.name).terms
    else:
        cursor.advance()
        if cursor.kind != ":":
            cursor.no_aggregates = "aggregates cannot be nested"
            terms = (expression(cursor),)
    cursor.no_aggregates = refusal
    cursor.expect(":", "`:` and the literals that an aggregate ranges over")
    opening = cursor.expect("{", "`{` after `:`")
    cursor.enter()
    literals = read_body(cursor)
    cursor.depth -= 1
    cursor.close(opening, "}", "`,` or `}` after a literal")
    return RangingAggregate(row.name, terms, cursor.since(start), body=literals)


def _text(cursor: Cursor) -> Constant:
    token = cursor.advance()
    span = cursor.span(token)
    text, unknown = unquote(cursor.text(token))
    if unknown is not None:
        at = token.start + cursor.text(token).index(unknown)
        cursor.found.add(
            "C001",
            f"unknown escape `{unknown}` in a text",
            Span(cursor.source, at, at + 2),
            help=r"a backslash is written `\\`; the others are `\'`, `\"`, `\n`, `\t` and `\r`",
        )
    return Constant(text, span)


def _parameter(cursor: Cursor) -> Parameter:
    token = cursor.advance()
    if token.kind == PARAMETER:
        return Parameter(cursor.text(token)[1:], "$", cursor.span(token))
    if cursor.kind not in NAMES:
        cursor.fail("the name of a parameter after `{`")
    name = cursor.text(cursor.advance())
    cursor.close(token, "}", "`}` after the name of a parameter")
    return Parameter(name, "{}", cursor.since(token.start))


def _parenthesis(cursor: Cursor) -> Expression:
    cursor.enter()
    opening = cursor.advance()
    inner = expression(cursor)
    cursor.close(opening, ")", "an operator or `)` after a value")
    cursor.depth -= 1
    return inner


def _conditional(cursor: Cursor) -> Conditional:
    token, test, then, otherwise = choice(cursor, expression, "an operator", "a value")
    return Conditional(test, then, otherwise, cursor.since(token.start))


def _aggregate(cursor: Cursor, row: AggregateFunction | None, name: str) -> Aggregate:
    token = cursor.current
    if cursor.no_aggregates is not None:
        help = "compute it in the head of another rule, and use its relation here"
        cursor.fail_at(cursor.span(token), cursor.no_aggregates, help=help)
    cursor.advance()
    if cursor.kind == "<>":
        cursor.fail("a value within `<` and `>`", help=f"to count solutions write `{name}<_>`")
    opening = cursor.split("<") if cursor.kind == "<-" else cursor.advance()
    closing = ")" if opening.kind == "(" else ">"
    cursor.no_aggregates = "aggregates cannot be nested"
    cursor.enter()
    terms = _terms(cursor, closing, row)
    if closing == ">" and cursor.kind == ">=":
        cursor.split(">")
        end = cursor.current.start
    else:
        after = f"an operator or `{closing}` after the value of an aggregate"
        end = cursor.close(opening, closing, after).end
    cursor.depth -= 1
    cursor.no_aggregates = None
    function = name if row is None else row.name  # what has no row may be of the user's
    return Aggregate(function, terms, Span(cursor.source, token.start, end))


def _terms(cursor: Cursor, closing: str, row: AggregateFunction | None) -> tuple[Expression, ...]:
    """Terms, perhaps in parentheses of their own, where also a condition can stand.

    Only after the first term is it known what a parenthesis was.
    """
    opened = "(" if closing == ")" else "<"
    if cursor.kind in ("*", closing):
        help = f"to count solutions write `{opened}_{closing}`"
        cursor.fail(f"a value within `{opened}` and `{closing}`", help=help)
    start = cursor.current.start
    if cursor.kind == "(":
        opening = cursor.advance()
        found = cursor.several(
            _term_or_test if row is not None and row.takes == "boolean" else expression
        )
        cursor.close(opening, ")", "`,` or `)` after a term")
        if tests := [each for each in found if isinstance(each, Comparison)]:
            span = cursor.since(start)
            if len(tests) < len(found):
                cursor.fail_at(span, "a condition has comparisons alone", help="write `X = true`")
            return (Conditional(tuple(tests), Constant(True), Constant(False), span),)
        terms = [each for each in found if not isinstance(each, Comparison)]
        if len(terms) > 1:
            return tuple(terms)
        terms = [arithmetic(cursor, terms[0], start)]
        if cursor.accept(","):
            terms += cursor.several(expression)
        return tuple(terms)
    return tuple(cursor.several(expression))


def _term_or_test(cursor: Cursor) -> Expression | Comparison:
    start = cursor.current.start
    left = expression(cursor)
    return comparison(cursor, left, start) if cursor.kind in COMPARISONS else left
