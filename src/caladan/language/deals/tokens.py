"""Tokens: DeALS text cut into words, numbers, quoted texts and symbols.

`tokenize` makes the whole list in one pass of one regular expression, so a large file of facts
costs time in proportion to its length. Blanks and comments vanish here. The kind of a symbol or a
keyword is its own text; the other kinds are the constants below.

Nothing stops the pass. A character that DeALS does not know becomes a token of its own, for the
parser to complain about where it knows what it expected. A quoted text or comment without an end is
reported here (C002) and becomes a BAD token, which the parser skips without a second complaint.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from caladan.program.aggregates import names_in
from caladan.program.diagnostics import Diagnostics, SourceText, Span

WORD: Final = "word"
VARIABLE: Final = "variable"
INTEGER: Final = "integer"
FLOAT: Final = "float"
TEXT: Final = "text"
PARAMETER: Final = "parameter"
BAD: Final = "bad"
END: Final = "end"

NAMES: Final = frozenset({WORD, VARIABLE})
"""What may name a relation or a column."""

KEYWORDS: Final = frozenset({"if", "then", "else", "div", "mod", "true", "false"})
"""Words that never are constants or relations; each is a kind of its own."""

GOALS: Final = frozenset({"sort", "limit"})
"""Body goals that look like atoms, and so cannot name relations."""

RESERVED_RELATIONS: Final = KEYWORDS | GOALS | {"database"}
"""Names that a relation cannot have."""

RESERVED_WORDS: Final = RESERVED_RELATIONS | {"query", "export", "null", *names_in("deals")}
"""Words that the printer puts in quotes when they are constants."""


class Token(NamedTuple):
    """A kind, and where in the text it stands."""

    kind: str
    start: int
    end: int


class Tokens:
    """All tokens of a text, as three columns: a million of them burden no garbage collector."""

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []

    def __getitem__(self, index: int) -> Token:
        return Token(self.kinds[index], self.starts[index], self.ends[index])

    def add(self, kind: str, start: int, end: int) -> None:
        """Put a token after the others."""
        self.kinds.append(kind)
        self.starts.append(start)
        self.ends.append(end)


# Operators of other languages are tokens too, so that the parser can say what to write instead.
_PATTERN: Final = re.compile(
    r"""
      (?P<skip>      [\s\ufeff]+ | %[^\n]* | --[^\n]* | /\*[\s\S]*?\*/ )
    | (?P<name>      [^\W\d]\w* )
    | (?P<float>     [0-9]+ (?: \.[0-9]+ (?: [eE][+-]?[0-9]+ )? | [eE][+-]?[0-9]+ ) )
    | (?P<integer>   [0-9]+ )
    | (?P<text>      ' (?: [^'\\\n] | \\. | '' )*+ ' | " (?: [^"\\\n] | \\. | "" )*+ " )
    | (?P<parameter> \$[^\W\d]\w* )
    | (?P<open>      /\*[\s\S]* | ['"][^\n]* )
    | (?P<symbol>    <- | <= | >= | ~= | :- | != | <> | == | =< | => | \\= | // | [\s\S] )
    """,
    re.VERBOSE,
)

_NAME: Final = re.compile(r"[^\W\d]\w*")

_ESCAPE: Final = re.compile(r"\\.|''|\"\"")
_ESCAPED: Final = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}
_UNESCAPED: Final = str.maketrans({"\\": r"\\", "'": r"\'", "\n": r"\n", "\t": r"\t", "\r": r"\r"})


def tokenize(source: SourceText, found: Diagnostics) -> Tokens:
    """The tokens of a text, the last of kind END."""
    tokens = Tokens()
    for match in _PATTERN.finditer(source.text):
        group = match.lastgroup
        if group == "skip":
            continue
        start, end = match.span()
        if group == "symbol":
            tokens.add(match.group(), start, end)
        elif group == "name":
            tokens.add(_kind_of_name(match.group()), start, end)
        elif group == "open":
            _report_unterminated(source, start, end, tokens, found)
        else:
            tokens.add(group or BAD, start, end)
    tokens.add(END, len(source.text), len(source.text))
    return tokens


def is_name(text: str) -> bool:
    """Whether a text is one name, of a relation, column, variable or parameter."""
    return _NAME.fullmatch(text) is not None


def is_variable(name: str) -> bool:
    """Whether a name is a variable: it begins with a capital or `_`."""
    return name[0] == "_" or name[0].isupper() or name[0].istitle()


def unquote(quoted: str) -> tuple[str, str | None]:
    r"""What a quoted text says, and the first escape in it that means nothing.

    >>> unquote(r"'it''s\n'")
    ("it's\n", None)
    >>> unquote(r"'a\qb'")
    ('aqb', '\\q')
    """
    inner = quoted[1:-1]
    if "\\" not in inner and quoted[0] not in inner:
        return inner, None
    quote, unknown = quoted[0], None

    def said(match: re.Match[str]) -> str:
        nonlocal unknown
        escape = match.group()
        if escape[0] != "\\":
            return quote if escape[0] == quote else escape
        if escape[1] not in _ESCAPED and unknown is None:
            unknown = escape
        return _ESCAPED.get(escape[1], escape[1])

    return _ESCAPE.sub(said, inner), unknown


def quote(text: str) -> str:
    r"""A text in single quotes, the reverse of `unquote`.

    >>> print(quote("it's"))
    'it\'s'
    """
    return f"'{text.translate(_UNESCAPED)}'"


def _kind_of_name(name: str) -> str:
    if name in KEYWORDS:
        return name
    return VARIABLE if is_variable(name) else WORD


def _report_unterminated(
    source: SourceText, start: int, end: int, tokens: Tokens, found: Diagnostics
) -> None:
    """Report a text or comment without an end; a `.` that ends its line still ends a statement."""
    opening = source.text[start]
    if opening == "/":
        place = Span(source, start, start + 2)
        found.add("C002", "this comment has no end", place, help="close it with `*/`")
        tokens.add(BAD, start, end)
        return
    end = start + len(source.text[start:end].rstrip())
    found.add(
        "C002",
        "this text has no closing quote on its line",
        Span(source, start, end),
        help=f"close it with `{opening}`; a line end within a text is written `\\n`",
    )
    dot = source.text[end - 1] == "."
    tokens.add(BAD, start, end - dot)
    if dot:
        tokens.add(".", end - 1, end)
