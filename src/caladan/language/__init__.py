"""Languages: text → Program, and Program → text.

    detect(text)              which language a text is written in
    parse(text)               its Program (RaSQL: see there, for it takes more than the text)
    parse_goal("tc(1, X)")    a goal for a session, in DeALS
    unparse(program)          a Program as text

Each language is a package of its own beside this file. Comments and quoted texts never count for
`detect`; what it goes by is listed at `_MARKS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from caladan.language import deals
from caladan.program import Goal, Program
from caladan.program.diagnostics import (
    CaladanError,
    Place,
    SourceText,
    Span,
    did_you_mean,
    error,
)
from caladan.program.functions import Definition

LANGUAGES: Final = ("deals", "souffle", "rasql")
"""The languages that programs are written in as text."""

_LATER: Final = "souffle"
"""The language that is recognised and cannot be read yet."""

_SQL: Final = r"\A\s*(?:with|select|create|insert|values)\b\s*"

_MARKS: Final = (
    ("rasql", re.compile(rf"{_SQL}(?!\s|\(|<-|:-|[.,:])", re.IGNORECASE)),
    ("deals", re.compile(r"\bdatabase\s*\(\s*\{")),
    ("souffle", re.compile(r"(?<!\w)\.(?:decl|input|output|printsize|type|comp|include)\b")),
    ("deals", re.compile(r"<-|(?<![\w.])include\s*'")),
    ("souffle", re.compile(r":-")),
    ("rasql", re.compile(rf"{_SQL}\([\s\S]*[^.\s]\s*\Z", re.IGNORECASE)),
    ("deals", re.compile(r"\A\s*(?:[^\W\d]\w*\s*[(.]|(?:query|export|expect|include)\b)")),
)
"""What shows a language, the surest signs first: the first pattern that is found decides."""

_TEXT: Final = r"""'(?:[^'\\\n]|\\.)*+'|"(?:[^"\\\n]|\\.)*+\""""
_UNSEEN: Final = re.compile(
    rf"(?P<text>{_TEXT})|(?:%|--|//)[^\n]*|/\*[\s\S]*?(?:\*/|\Z)|\ufeff",
)


def detect(text: str, *, name: str = "<program>") -> str:
    """The language of a text, one of LANGUAGES; C005 if it looks like none of them."""
    seen = _blank_quotes(text)
    for language, mark in _MARKS:
        if mark.search(seen):
            return language
    if not seen.strip():
        raise error("C005", "the program is empty", Place(name))
    start = len(seen) - len(seen.lstrip())
    first = Span(SourceText(name, text), start, start + len(seen[start:].split(maxsplit=1)[0]))
    raise error(
        "C005",
        "cannot tell which language this is",
        first,
        help="DeALS has `<-` or `database({`, Soufflé `.decl` or `:-`, RaSQL begins with a SQL "
        'keyword; or set language="deals"',
    )


def _blank_quotes(text: str) -> str:
    """A text of the same length without comments and without the insides of quoted texts."""
    return _UNSEEN.sub(lambda part: ("'" if part["text"] else " ") * len(part.group()), text)


def parse(
    text: str,
    *,
    name: str = "<program>",
    language: str | None = None,
    seen: set[str] | None = None,
    functions: Mapping[str, Definition] = MappingProxyType({}),
) -> Program:
    """The Program of a text; `name` is what diagnostics call it, `seen` the files read before.

    `functions` are those of Python that it may call.
    """
    chosen = language or detect(text, name=name)
    _require(chosen, SourceText(name, text))
    if chosen == "rasql":
        raise error(
            "C050",
            "RaSQL needs the columns of its tables to become a Program",
            Place(name),
            help="run it in a session: db.sql(text), or db.run(text)",
        )
    return deals.parse(SourceText(name, text), seen, functions)


def parse_goal(text: str, *, name: str = "<goal>") -> Goal:
    """The Goal that a text asks: `tc(1, X)`, `query tc(1, X).`"""
    return deals.parse_goal(SourceText(name, text))


def unparse(program: Program, language: str = "deals") -> str:
    """A Program as text that `parse` reads back."""
    _require(language, None)
    if language != "deals":
        title = "RaSQL" if language == "rasql" else "Soufflé"
        raise error("C051", f"a program cannot be written as {title} yet")
    return deals.unparse(program)


def _require(language: str, source: SourceText | None) -> None:
    """Refuse what is no language (C050), and what is not here yet (C051)."""
    if language not in LANGUAGES:
        raise error(
            "C050",
            f"there is no language `{language}`",
            help=did_you_mean(language, LANGUAGES) or f"the languages are {', '.join(LANGUAGES)}",
        )
    if language == _LATER and source is not None:
        raise _foreign(source)


def _foreign(source: SourceText) -> CaladanError:
    """C051 at the first sign of Soufflé's or Prolog's notation."""
    text = _blank_quotes(source.text)
    signs = [mark.search(text) for language, mark in _MARKS if language == _LATER]
    first = next((sign for sign in signs if sign is not None), None)
    place = Place(source.name) if first is None else Span(source, first.start(), first.end())
    is_souffle = first is None or first.group() != ":-"
    return error(
        "C051",
        f"this is {'Soufflé' if is_souffle else 'Soufflé or Prolog'}, which cannot be run yet",
        place,
        help="in DeALS write `<-` for `:-`, `~p(X)` for `!p(X)` and `\\+ p(X)`, variables in "
        "capitals, `database({p(A: integer)}).` for `.decl`, and `query p(X).` for `.output` and "
        "`?-`; docs/reference/notations.md has the rest",
    )
