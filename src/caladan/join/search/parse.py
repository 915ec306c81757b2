"""The text of a body, for `find`: atoms, negated atoms, comparisons, alternatives.

    lives_in(person, city), parent(person, other), ~blocked(person), age >= 18, (x = 1 ; x = y + 2)

    body        literal, …                  all must hold
    literal     name(term, …)               an atom; ~ or ! in front negates it
                term < term                 also <= > >= = ~= (or !=)
                (body ; body ; …)           one of them must hold
    term        a name, a number, a "text" or 'text', true, false, _, and + - * between terms

A name is a variable if it is listed as one, or begins with a capital letter; other names are texts,
as in DeALS. The nodes are those of programs (program/program.py), and `Alternatives`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NoReturn, TypeAlias, cast

from caladan.program import (
    Arithmetic,
    ArithmeticOperator,
    Atom,
    Comparison,
    ComparisonOperator,
    Constant,
    Expression,
    Negative,
    Variable,
)
from caladan.program.diagnostics import SourceText, Span, error

_TOKENS: Final = re.compile(
    r"""(?P<blank>\s+|%[^\n]*)
      | (?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
      | (?P<name>[^\W\d]\w*)
      | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
      | (?P<sign><=|>=|!=|~=|[<>=~!+*(),;-])
      | (?P<open>["'])
      | (?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_COMPARISONS: Final[dict[str, ComparisonOperator]] = {
    "=": "=", "~=": "~=", "!=": "~=", "<": "<", "<=": "<=", ">": ">", ">=": ">=",
}  # fmt: skip
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}


@dataclass(frozen=True, slots=True)
class Alternatives:
    """`(body ; body)`: one of several bodies holds."""

    bodies: tuple[tuple[Literal, ...], ...]


Literal: TypeAlias = Atom | Comparison | Alternatives


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    span: Span


def parse_body(text: str, variables: Collection[str], name: str = "<find>") -> tuple[Literal, ...]:
    """The literals of a body; names among `variables` are variables."""
    parser = _Parser(_tokens(SourceText(name, text)), frozenset(variables))
    body = parser.body() if parser.token.kind != "end" else ()
    parser.expect_end()
    return body


def _tokens(source: SourceText) -> list[_Token]:
    tokens: list[_Token] = []
    for match in _TOKENS.finditer(source.text):
        kind = str(match.lastgroup)
        span = Span(source, match.start(), match.end())
        if kind == "open":
            raise error("C002", "this text has no end", span, help="close it with the same quote")
        if kind == "other":
            raise error("C001", f"unexpected `{match.group()}`", span)
        if kind != "blank":
            tokens.append(_Token(kind, match.group(), span))
    end = len(source.text)
    return [*tokens, _Token("end", "", Span(source, end, end))]


class _Parser:
    def __init__(self, tokens: list[_Token], variables: frozenset[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._variables = variables

    @property
    def token(self) -> _Token:
        return self._tokens[self._at]

    def body(self) -> tuple[Literal, ...]:
        literals = [self._literal()]
        while self._accept(","):
            literals.append(self._literal())
        return tuple(literals)

    def expect_end(self) -> None:
        if self.token.kind != "end":
            self._fail("a comma or the end")

    def _literal(self) -> Literal:
        if self._is("~") or self._is("!"):
            self._at += 1
            return self._atom(negated=True)
        if self.token.kind == "name" and self._tokens[self._at + 1].text == "(":
            return self._atom(negated=False)
        if self._is("(") and self._opens_alternatives():
            return self._alternatives()
        left = self._sum()
        operator = _COMPARISONS.get(self.token.text)
        if operator is None or self.token.kind != "sign":
            self._fail("a comparison such as `<` or `=`")
        self._at += 1
        right = self._sum()
        return Comparison(operator, left, right, _between(left, right))

    def _opens_alternatives(self) -> bool:
        """Whether the parenthesis has an atom, a comparison, a `;` or a `,` right inside."""
        depth = 0
        for at in range(self._at, len(self._tokens) - 1):
            token = self._tokens[at]
            if token.kind == "name" and depth == 1 and self._tokens[at + 1].text == "(":
                return True
            if token.kind != "sign":
                continue
            depth += (token.text == "(") - (token.text == ")")
            if depth == 0:
                return False
            if depth == 1 and (token.text in (";", ",", "~", "!") or token.text in _COMPARISONS):
                return True
        return False

    def _alternatives(self) -> Alternatives:
        self._expect("(")
        bodies = [self.body()]
        while self._accept(";"):
            bodies.append(self.body())
        self._expect(")")
        return Alternatives(tuple(bodies))

    def _atom(self, negated: bool) -> Atom:
        name = self.token
        if name.kind != "name":
            self._fail("the name of a relation")
        self._at += 1
        self._expect("(")
        arguments: list[Expression] = []
        if not self._is(")"):
            arguments.append(self._sum())
            while self._accept(","):
                arguments.append(self._sum())
        end = self._expect(")")
        return Atom(name.text, tuple(arguments), negated, name.span.to(end.span))

    def _sum(self) -> Expression:
        left = self._product()
        while self._is("+") or self._is("-"):
            operator = cast("ArithmeticOperator", self._next().text)
            right = self._product()
            left = Arithmetic(operator, left, right, _between(left, right))
        return left

    def _product(self) -> Expression:
        left = self._factor()
        while self._accept("*"):
            right = self._factor()
            left = Arithmetic("*", left, right, _between(left, right))
        return left

    def _factor(self) -> Expression:
        token = self._next()
        if token.kind == "number":
            return Constant(_number(token), token.span)
        if token.kind == "text":
            return Constant(_text(token.text), token.span)
        if token.kind == "name":
            return self._named(token)
        if token.text == "-" and token.kind == "sign":
            operand = self._factor()
            if isinstance(operand, Constant) and isinstance(operand.value, int | float):
                return Constant(-operand.value, token.span)
            return Negative(operand, token.span)
        if token.text == "(" and token.kind == "sign":
            inner = self._sum()
            self._expect(")")
            return inner
        self._at -= 1
        self._fail("a term")

    def _named(self, token: _Token) -> Expression:
        name = token.text
        if name == "_" or name in self._variables or name[0].isupper():
            return Variable(name, token.span)
        if name in ("true", "false"):
            return Constant(name == "true", token.span)
        return Constant(name, token.span)

    def _is(self, text: str) -> bool:
        return self.token.kind == "sign" and self.token.text == text

    def _next(self) -> _Token:
        token = self.token
        self._at += token.kind != "end"
        return token

    def _accept(self, text: str) -> bool:
        found = self._is(text)
        self._at += found
        return found

    def _expect(self, text: str) -> _Token:
        if not self._is(text):
            self._fail(f"`{text}`")
        return self._next()

    def _fail(self, wanted: str) -> NoReturn:
        found = f"`{self.token.text}`" if self.token.kind != "end" else "the end"
        raise error("C001", f"expected {wanted}, found {found}", self.token.span)


def _number(token: _Token) -> int | float:
    if not token.text.isdigit():
        return float(token.text)
    # Python refuses thousands of digits; more than 19 never fit in 64 bits anyway.
    digits = token.text.lstrip("0")
    if len(digits) > 19 or int(digits or "0") >= 2**63:
        raise error("C003", f"{token.text[:25]} does not fit in 64 bits", token.span)
    return int(token.text)


def _text(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), quoted[1:-1], flags=re.DOTALL)


def _between(left: Expression, right: Expression) -> Span | None:
    return left.span.to(right.span) if left.span and right.span else None
