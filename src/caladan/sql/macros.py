"""Spark's functions for DuckDB: what each is there, as macros.

`MACROS` has an entry for every function that embedded knows: a name as Spark has it, and what
stands behind `CREATE MACRO name`. A macro may have several bodies, for arguments of different
types; DuckDB takes the one that fits. A function without an entry is refused, so nothing is
answered by a function of DuckDB that happens to have the same name.

What the entries see to, again and again: the type of the result, NULL, arguments out of range, and
that a failure is an error, as Spark's ANSI mode has it. `needs(name)` lists the macros that a macro
uses. Bodies only speak of their parameters; no text of users ever stands in them. They are in
`casts.py` (with numbers) and `texts.py` (with dates).
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from caladan.sql.casts import CASTS
from caladan.sql.texts import TEXTS

PREFIX: Final = "spark_"
"""Stands before a function's name, so that no macro hides one of DuckDB's own functions."""

MACROS: Final[dict[str, str]] = {**CASTS, **TEXTS}

_OVERLOAD: Final = re.compile(r", (?=\((?:\w+(?: [A-Z]+(?:\(\d+, ?\d+\))?)?(?:, )?)*\) AS )")
_FAILURE: Final = re.compile(r"error\('the value ''' \|\| \w \|\| ''' cannot be cast to \w+'\)")

for _name in (
    "tinyint", "smallint", "int", "bigint", "float", "double", "boolean", "date", "binary",
    "date_of_text", "timestamp_ntz", "timestamp_of_text",
):  # fmt: skip
    _tried = _FAILURE.sub("NULL", MACROS[_name])
    MACROS[f"try_{_name}"] = re.sub(rf"{PREFIX}(\w+_of_text)\(", rf"{PREFIX}try_\1(", _tried)


@cache
def overloads(name: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    """The bodies of a macro, each with the types of its parameters; "" where any will do.

    >>> overloads("later")[0]
    (('DATE', ''), '(a DATE, i) AS CAST(a + i AS DATE)')
    """
    found: list[tuple[tuple[str, ...], str]] = []
    for text in _OVERLOAD.split(MACROS[name]):
        parameters = text[1 : text.index(") AS ")]
        words = [each.split(" ", 1) for each in re.split(r", (?![0-9])", parameters) if each]
        found.append((tuple(word[1] if len(word) > 1 else "" for word in words), text))
    return tuple(found)


@cache
def needs(name: str) -> tuple[str, ...]:
    """The macros that a macro uses, and the macro itself, each after those that it uses."""
    found: dict[str, None] = {}
    for other in re.findall(rf"\b{PREFIX}(\w+)\(", MACROS[name.partition(":")[0]]):
        found.update(dict.fromkeys(needs(other)))
    found[name] = None
    return tuple(found)


@cache
def repeated(name: str) -> tuple[bool, ...]:
    """Whether a macro, or one that it uses, writes an argument out more than once; for each.

    >>> repeated("nullif:0"), repeated("ltrim:0"), repeated("upper:0")
    ((False, False), (False,), (True,))
    """
    found: list[bool] = []
    for _, text in _bodies(name):
        head, _, body = text.partition(") AS ")
        for i, parameter in enumerate(re.findall(r"(\w+)(?: [A-Z][^,]*)?(?:, |$)", head[1:])):
            mention = re.compile(rf"\b{parameter}\b")
            used = [call for call in re.split(r"(?<=\))", body) if mention.search(call)]
            inner = [name for call in used for name in re.findall(rf"{PREFIX}(\w+)\(", call)]
            many = len(mention.findall(body)) > 1 or any(any(repeated(each)) for each in inner)
            found += [False] * (i + 1 - len(found))
            found[i] |= many
    return tuple(found)


def _bodies(name: str) -> tuple[tuple[tuple[str, ...], str], ...]:
    stem, _, number = name.partition(":")
    return (overloads(stem)[int(number)],) if number else overloads(stem)


def spelled(name: str) -> str:
    """What a macro is called in DuckDB; `round:4` is the fifth body of `round`, by itself."""
    return PREFIX + name.replace(":", "_")


def definition(name: str) -> str:
    """The statement that makes a macro.

    A body by itself has no types: where types are to be found out, DuckDB goes through arguments
    twice, and through theirs four times, and so on.

    >>> definition("year:0")
    'CREATE TEMP MACRO spark_year_0(a) AS CAST(year(a) AS INTEGER)'
    """
    stem, _, number = name.partition(":")
    if not number:
        return f"CREATE TEMP MACRO {spelled(name)}{MACROS[stem]}"
    head, _, body = overloads(stem)[int(number)][1].partition(") AS ")
    names = re.sub(r"(\w+) [A-Z]+(?:\(\d+, ?\d+\))?", r"\1", head)
    return f"CREATE TEMP MACRO {spelled(name)}{names}) AS {body}"
