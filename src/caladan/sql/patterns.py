"""Patterns of Java as DuckDB has them: regular expressions, and formats of dates.

A pattern is translated where both mean the same, and refused (None) where they do not. Only
patterns that are written out can be looked at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_ESCAPES: Final = frozenset("dDwWbBntrf")
_BLANKS: Final = r"\t\n\x0B\f\r "
_RARE_ENDS: Final = r"\x{85}\x{2028}\x{2029}"
_LINE_ENDS: Final = r"\n\r" + _RARE_ENDS


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression for RE2.

    `ends` says which characters at the end of a text `$` would have to look past: on Java it also
    stands before a line break that ends the text, in RE2 at the very end alone.
    """

    text: str
    ends: str = ""


def regular_expression(pattern: str) -> Pattern | None:
    r"""A regular expression of Java for RE2.

    >>> regular_expression(r"\s+x$")
    Pattern(text='[\\t\\n\\x0B\\f\\r ]+x$', ends='\\n\\r\\x{85}\\x{2028}\\x{2029}')
    >>> regular_expression("(?=x)") is None
    True
    """
    if re.search(r"\(\?[=!<>]|&&|[*+?}]\+", pattern):
        return None  # looking around, groups with names, intersections, possessive repetition
    flags = re.match(r"\(\?(i?s?|si)\)", pattern)
    dot = "." if flags and "s" in flags[1] else f"[^{_LINE_ENDS}]"
    found: list[str] = []
    inside = False
    dollars: list[int] = []
    at = flags.end() if flags else 0
    while at < len(pattern):
        c = pattern[at]
        if c == "\\":
            at += 1
            escaped = pattern[at : at + 1]
            if escaped in _ESCAPES or (escaped and not escaped.isalnum()):
                part = "\\" + escaped
            elif escaped == "s":
                part = _BLANKS if inside else f"[{_BLANKS}]"
            elif escaped == "S" and not inside:
                part = f"[^{_BLANKS}]"
            else:
                return None
            found[len(found) - inside :] = ["".join(found[len(found) - inside :]) + part]
        elif inside:
            if c == "[":
                return None
            inside = c != "]"
            found[-1] += c
        elif c == "[":
            inside = True
            found.append(c)
        elif c == "(" and re.match(r"\?(?!:|i\)|i:)", pattern[at + 1 :]):
            return None  # flags: lines, comments, and dots in a part of the pattern
        else:
            if c == "$":
                dollars.append(len(found))
            found.append(dot if c == "." else c)
        at += 1
    if inside or not all(_is_last(found, dollar) for dollar in dollars):
        return None
    text = (flags[0] if flags else "") + "".join(found)
    ends = {_seen_before(found, dollar) for dollar in dollars}
    return Pattern(text, max(ends, key=len, default=""))


def _is_last(parts: list[str], at: int) -> bool:
    """Whether nothing comes after a part, in no alternative that it belongs to."""
    depth = 0
    is_over = False  # past a `|`: what follows, up to the end of the group, is another alternative
    for part in parts[at + 1 :]:
        if part == "(":
            depth += 1
        if part == ")" and depth == 0:
            is_over = False
        elif depth == 0 and part == "|":
            is_over = True
        elif not is_over:
            return False
        if part == ")" and depth > 0:
            depth -= 1
    return True


def _seen_before(parts: list[str], at: int) -> str:
    """What `$` would have to look past; blanks that stand before it take common line breaks."""
    takes = at > 1 and parts[at - 1] in "+*" and parts[at - 2] == f"[{_BLANKS}]"
    return _RARE_ENDS if takes else _LINE_ENDS


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
