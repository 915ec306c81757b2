"""Questions in triples, as the search was first described:

    (find [?person ?parent ?city]
      [?person :lives-in ?city]
      [?person :parent ?parent]
      [?parent :lives-in ?city])

Each triple is an atom of two columns, `lives_in(person, city)`: what is a hyphen there is an
underscore here. A value may be a variable, a number, `true`, `false`, a text in quotes, or `_`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NoReturn

from caladan.program.diagnostics import SourceText, Span, error

_TOKEN: Final = re.compile(
    r"""[\[\]()]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s\[\]()"',]+|["']""", re.DOTALL
)
_NAME: Final = re.compile(r"[A-Za-z_][\w-]*")
_VALUE: Final = re.compile(r"-?\d+(\.\d+)?([eE][+-]?\d+)?|true|false|_|[\"'].*[\"']", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Triples:
    """The variables that are asked for, all variables, and the body as `find` takes it."""

    asked: tuple[str, ...]
    variables: frozenset[str]
    body: str


def is_triples(text: object) -> bool:
    """Whether a question is written in triples.

    >>> is_triples("(find [?x] [?x :parent ?y])"), is_triples("x y")
    (True, False)
    """
    return isinstance(text, str) and text.lstrip().startswith("(")


def triples(text: str) -> Triples:
    """Read a question in triples.

    >>> triples("(find [?x] [?x :lives-in ?y])").body
    'lives_in(x, y)'
    """
    return _Reader(SourceText("<find>", text)).question()


class _Reader:
    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._tokens = [
            (each[0], Span(source, *each.span())) for each in _TOKEN.finditer(source.text)
        ]
        end = len(source.text)
        self._end = "", Span(source, end, end)
        self._at = 0
        self._names: dict[str, str] = {}  # variables by the name they have here

    def question(self) -> Triples:
        for word in ("(", "find", "["):
            self._expect(word)
        asked: list[str] = []
        while self._peek() != "]":
            asked.append(self._variable())
        self._expect("]")
        atoms: list[str] = []
        while self._peek() == "[":
            atoms.append(self._triple())
        self._expect(")")
        if self._peek():
            self._fail("the end")
        return Triples(tuple(asked), frozenset(self._names), ", ".join(atoms))

    def _triple(self) -> str:
        self._expect("[")
        entity = self._value()
        attribute = self._peek()
        if not attribute.startswith(":") or not _NAME.fullmatch(attribute[1:]):
            self._fail("`:attribute`")
        self._at += 1
        value = self._value()
        self._expect("]")
        return f"{attribute[1:].replace('-', '_')}({entity}, {value})"

    def _value(self) -> str:
        if self._peek().startswith("?"):
            return self._variable()
        value = self._peek()
        if not _VALUE.fullmatch(value):
            self._fail("a variable such as `?x`, or a value")
        self._at += 1
        return value

    def _variable(self) -> str:
        token, place = self._tokens[self._at] if self._peek() else self._end
        if not token.startswith("?") or not _NAME.fullmatch(token[1:]):
            self._fail("a variable such as `?x`")
        self._at += 1
        name = token[1:].replace("-", "_")
        if self._names.setdefault(name, token) != token:
            raise error("C050", f"`{token}` and `{self._names[name]}` would be one name", place)
        return name

    def _peek(self) -> str:
        return self._tokens[self._at][0] if self._at < len(self._tokens) else ""

    def _expect(self, word: str) -> None:
        if self._peek() != word:
            self._fail(f"`{word}`")
        self._at += 1

    def _fail(self, expected: str) -> NoReturn:
        token, place = self._tokens[self._at] if self._peek() else self._end
        found = f"`{token}`" if token else "the end"
        raise error(
            "C001",
            f"expected {expected}, found {found}",
            place,
            help="a question in triples is `(find [?x ?y] [?x :attribute ?y] …)`",
        )
