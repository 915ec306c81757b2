"""Notations of other languages, and what to write in DeALS instead.

    `!=`, `\\+ p(X)`, `X := Y + 1`, `X in {1, 2}`, `?- p(X).`

`SYMBOLS` and `WORDS` have the help for a token that cannot stand where it stands; `PAIRS` for two
tokens that only together tell what was meant. `FUNCTIONS` has what functions are
called elsewhere: a name in there is suggested only if Caladan has it. The page
docs/reference/notations.md shows all of them, which a test compares with this table.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

_NOT_EQUAL: Final = "for not equal write `~=`"
_NEGATION: Final = "for negation write `~`, as in `~p(X)`"
_COMMENT: Final = "a comment begins with `%` or `--`, or is between `/*` and `*/`"
_OR: Final = "for `or` write `;` in parentheses, as in `(p(X) ; q(X))`, or one rule for each case"
_AND: Final = "for `and` write `,`"
_EQUAL: Final = "for equal write `=`"
_ASK: Final = "to ask write `query p(X).`; at the prompt, `p(X)?`"
_HEAD_FIRST: Final = "the head of a rule comes first: `p(X) <- q(X).`"
_IF: Final = "for a choice write `if(X > Y then X else Y)`"
_IN: Final = "for one of several values write `X in [1, 2]`, or join a relation that has them"
_BETWEEN: Final = "for a range write two comparisons: `X >= 1, X <= 9`"

SYMBOLS: Final[dict[str, str]] = {
    ":-": "in DeALS write `<-`",
    "!=": _NOT_EQUAL,
    "<>": _NOT_EQUAL,
    "\\=": _NOT_EQUAL,
    "==": _EQUAL,
    "=<": "for at most write `<=`",
    "=>": "for at least write `>=`",
    "!": _NEGATION,
    ";": "`;` separates the branches of a body, `.` ends it",
    "|": _OR,
    "&": _AND,
    "//": f"for whole division write `div`; {_COMMENT}",
    "#": _COMMENT,
    "^": "",  # power_help
}

WORDS: Final[dict[str, str]] = {
    "not": _NEGATION,
    "is": _EQUAL,
    "or": _OR,
    "and": _AND,
    "in": _IN,
    "between": _BETWEEN,
    "like": "",  # like_help
}
"""In lower case; they count in capitals, too."""

PAIRS: Final[dict[tuple[str, str], str]] = {
    ("\\", "+"): _NEGATION,
    (":", "="): _EQUAL,
    ("?", "-"): _ASK,
    ("-", ">"): _HEAD_FIRST,
    ("*", "*"): "",  # power_help
}

FUNCTIONS: Final[dict[str, tuple[str, ...]]] = {
    "len": ("length",),
    "size": ("length",),
    "strcat": ("concat",),
    "string_concat": ("concat",),
    "str": ("to_string",),
    "tostring": ("to_string",),
    "int": ("to_number",),
    "float": ("to_number",),
    "ifnull": ("coalesce",),
    "nvl": ("coalesce",),
    "isnull": ("missing",),
    "is_null": ("missing",),
    "regexp": ("regexp_like", "matches"),
    "match": ("regexp_like", "matches"),
}
"""Functions of other languages, and what they are called here."""


def power_help(functions: Collection[str]) -> str:
    """The help for `X ^ Y`."""
    return f"for a power write {'`power(X, Y)`' if 'power' in functions else '`X * X`'}"


def like_help(functions: Collection[str]) -> str:
    """The help for `X like 'a%'`."""
    names = [n for n in ("like", "regexp_like", "starts_with", "contains") if n in functions]
    if not names:
        return "rules have no patterns: define a function with `db.define`, or ask in SQL"
    return f"patterns are functions: {' or '.join(f'`{n}(X, …)`' for n in names)}"


def null_help(functions: Collection[str]) -> str:
    """The help for `X is null`."""
    if "missing" in functions:
        return "for a missing value write `missing(X)`, for one that is there `present(X)`"
    return "rules only see values that are there"


def pair_help(first: str, second: str, functions: Collection[str]) -> str | None:
    """The help for two tokens, by their kinds."""
    if (first, second) == ("*", "*"):
        return power_help(functions)
    return PAIRS.get((first, second))


def symbol_help(kind: str, functions: Collection[str]) -> str | None:
    """The help for a symbol."""
    return power_help(functions) if kind == "^" else SYMBOLS.get(kind)


def word_help(word: str, functions: Collection[str], following: str = "") -> str | None:
    """The help for a word, in lower case or in capitals, and the one that follows it."""
    if word not in (word.lower(), word.upper()):
        return None
    if word.lower() == "is" and following.lower() in ("null", "not"):
        return null_help(functions)
    return like_help(functions) if word.lower() == "like" else WORDS.get(word.lower())


HEAD_FIRST: Final = _HEAD_FIRST
NAMED_COLUMN: Final = "name columns with `:`, as in `arc(A: X, B: Y)`"
CHOICE: Final = _IF
