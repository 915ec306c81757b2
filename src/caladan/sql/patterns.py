"""Patterns of Java as DuckDB has them: regular expressions, and formats of dates.

A pattern is translated where both mean the same, and refused (None) where they do not. Only
patterns that are written out can be looked at.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPES: Final = frozenset("dDwWbBntrf")
_BLANKS: Final = r"\t\n\x0B\f\r "
_LINE_ENDS: Final = r"\n\r\x{85}\x{2028}\x{2029}"


def regular_expression(pattern: str) -> str | None:
    r"""A regular expression of Java for RE2.

    >>> regular_expression(r"\s+x$")
    '[\\t\\n\\x0B\\f\\r ]+x$'
    >>> regular_expression("(?=x)") is None
    True
    """
    if re.search(r"\(\?[=!<>]|&&|[*+?}]\+", pattern):
        return None  # looking around, groups with names, intersections, possessive repetition
    found: list[str] = []
    inside = False
    at = 0
    while at < len(pattern):
        c = pattern[at]
        if c == "\\":
            at += 1
            escaped = pattern[at : at + 1]
            if escaped == "s":
                found.append(_BLANKS if inside else f"[{_BLANKS}]")
            elif escaped == "S" and not inside:
                found.append(f"[^{_BLANKS}]")
            elif escaped in _ESCAPES or (escaped and not escaped.isalnum()):
                found.append("\\" + escaped)
            else:
                return None
        elif inside:
            if c == "[":
                return None
            inside = c != "]"
            found.append(c)
        elif c == "[":
            inside = True
            found.append(c)
        else:
            found.append(f"[^{_LINE_ENDS}]" if c == "." else c)
        at += 1
    return None if inside else "".join(found)


def replacement(text: str) -> str | None:
    r"""What a match is replaced by.

    >>> replacement("$2-$1")
    '\\2-\\1'
    """
    found: list[str] = []
    at = 0
    while at < len(text):
        c = text[at]
        if c == "$":
            if not re.match(r"\d(?!\d)", text[at + 1 :]):
                return None
            found.append("\\" + text[at + 1])
            at += 1
        elif c == "\\":
            at += 1
            if at == len(text) or text[at].isdigit():
                return None
            found.append("\\\\" if text[at] == "\\" else text[at])
        else:
            found.append(c)
        at += 1
    return "".join(found)


# A field of a format: what writes it, and what it looks like where it is read.
_FIELDS: Final = {
    "yyyy": ("%Y", "[0-9]{4}"),
    "yy": ("%y", "[0-9]{2}"),
    "MM": ("%m", "[0-9]{2}"),
    "dd": ("%d", "[0-9]{2}"),
    "HH": ("%H", "[0-9]{2}"),
    "mm": ("%M", "[0-9]{2}"),
    "ss": ("%S", "[0-9]{2}"),
    "DDD": ("%j", "[0-9]{3}"),
}


def date_format(pattern: str) -> tuple[str, str] | None:
    """A format of dates as DuckDB writes it, and a pattern that texts in that format match.

    >>> date_format("dd/MM/yyyy")
    ('%d/%m/%Y', '[0-9]{2}/[0-9]{2}/[0-9]{4}')
    """
    parts = re.findall(r"([A-Za-z])(\1*)|'((?:[^']|'')*)'|([^A-Za-z'])", pattern)
    written: list[str] = []
    seen: list[str] = []
    for letter, more, quoted, plain in parts:
        if letter:
            if letter + more not in _FIELDS:
                return None
            one, other = _FIELDS[letter + more]
        else:
            text = quoted.replace("''", "'") or plain or "'"
            if plain and plain in "[]{}#":
                return None
            one, other = text.replace("%", "%%"), re.escape(text)
        written.append(one)
        seen.append(other)
    length = sum(len("".join(part)) for part in parts)
    quotes = pattern.count("'")
    return ("".join(written), "".join(seen)) if quotes % 2 == 0 and length else None
