"""The text of a body, for `find`: as in a rule of DeALS, but any name can be a variable.

    lives_in(person, city), parent(person, other), ~blocked(person), age >= 18, (x = 1 ; x = y + 2)

A name is a variable if it is listed as one, or begins with a capital letter; other names are texts.
`!` may stand for `~`. Values are combined by + - *; what computes more is given as a predicate.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

from caladan.language.deals import literals
from caladan.language.deals.cursor import Cursor, SyntaxFailure
from caladan.language.deals.tokens import END
from caladan.program import (
    Arithmetic,
    Atom,
    Comparison,
    Constant,
    Disjunction,
    Literal,
    Negative,
    Variable,
)
from caladan.program.diagnostics import Diagnostics, SourceText, error
from caladan.program.transform import replace_in, walk

_TEXT_OR_MARK: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|!""", re.DOTALL)
_KNOWN: Final = (Atom, Comparison, Disjunction, Variable, Constant, Negative, Arithmetic)


def parse_body(text: str, variables: Collection[str], name: str = "<find>") -> tuple[Literal, ...]:
    """The literals of a body; names among `variables` are variables."""
    plain = _TEXT_OR_MARK.sub(lambda each: "~" if each[0] == "!" else each[0], text)
    found = Diagnostics()
    cursor = Cursor(SourceText(name, plain), found, whole="body")
    if cursor.kind == END:
        found.raise_errors()
        return ()
    try:
        body, cut = literals.body(cursor)
        if cursor.kind != END:
            cursor.fail("a comma or the end")
    except SyntaxFailure:
        found.raise_errors()
        raise
    found.raise_errors()
    if cut.order or cut.limit is not None:
        raise error("C051", "`find` hands out answers while they are taken: it sorts none")
    for node in walk(*body):
        if not isinstance(node, _KNOWN) or (
            isinstance(node, Arithmetic) and node.operator not in ("+", "-", "*")
        ):
            raise error("C051", "`find` does not compute this", node.span, help="give a predicate")

    def named(node: Any) -> Variable | None:
        if isinstance(node, Constant) and node.span is not None and node.span.text in variables:
            return Variable(node.span.text, node.span)
        return None

    return replace_in(body, named)
