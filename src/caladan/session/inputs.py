"""What users hand to a session, read and checked: programs and parameters."""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, cast

from caladan.language import detect, files, parse, parse_goal
from caladan.program import Goal, Program, Type, Value
from caladan.program.depth import nested
from caladan.program.diagnostics import CaladanError, Diagnostic, Place, SourceText, Span, error
from caladan.program.functions import Definition
from caladan.program.objects import Objects
from caladan.program.values import fit

if TYPE_CHECKING:
    from caladan.data.source import Source as Data
    from caladan.engines.interface import Engine
    from caladan.language.rasql import Script

STDIN: Final = "-"

UNNAMED: Final = "<program>"
"""What diagnostics call a program that did not come from a file."""

_SPECIAL: Final[tuple[tuple[type, Type], ...]] = (
    (dt.datetime, Type.DATETIME),
    (dt.date, Type.DATE),
    (Decimal, Type.DECIMAL),
    (bytes, Type.BINARY),
)
_LOOKS_LIKE_A_PATH: Final = re.compile(r"[^\s()<>{}%]+")


def program(
    given: str | os.PathLike[str] | Program | Script,
    language: str | None = None,
    seen: set[str] | None = None,
    functions: Mapping[str, Definition] = MappingProxyType({}),
) -> Program | Script:
    """A program from itself, from its text, or from a file: a path, or text that names a file.

    What is written in RaSQL is a Script, all else a Program. `seen` are files read before,
    `functions` those of Python that it may call.
    """
    if not isinstance(given, str | os.PathLike):
        return _ready(given)
    if isinstance(given, os.PathLike) or _is_file(given) or _LOOKS_LIKE_A_PATH.fullmatch(given):
        name = os.fspath(given)
        return _parsed(files.text_of(name), name, language, seen, functions)
    return _parsed(given, UNNAMED, language, seen, functions)


def programs(names: Sequence[str], language: str | None = None) -> Program | Script:
    """One program of all that files say; `-` is what comes in on stdin.

    A file that is named twice, or that another one includes, is read once.
    """
    seen: set[str] = set()
    found: list[Program] = []
    problems: list[Diagnostic] = []
    for name in names:
        if name != STDIN and files.identity(name) in seen:
            continue
        try:
            each = _from_stdin(language, seen) if name == STDIN else program(name, language, seen)
        except CaladanError as problem:
            problems += problem.diagnostics
            continue
        if isinstance(each, Program):
            found.append(each)
        elif len(names) == 1:
            return each
        else:
            problems += _alone(name).diagnostics
    if problems:
        raise CaladanError(*problems)
    return Program(
        tuple(relation for each in found for relation in each.relations),
        tuple(rule for each in found for rule in each.rules),
        tuple(goal for each in found for goal in each.goals),
        tuple(expectation for each in found for expectation in each.expectations),
    )


def _from_stdin(language: str | None, seen: set[str]) -> Program | Script:
    name = "<stdin>"
    if name in seen:
        raise error("C050", "`-` can stand once: stdin is read to its end")
    seen.add(name)
    return _parsed(files.decoded(sys.stdin.buffer.read(), name), name, language, seen)


def _alone(name: str) -> CaladanError:
    return error(
        "C050", "a script of SQL is run alone", Place(name),
        help="what several scripts share can be a view: CREATE VIEW … in each of them",
    )  # fmt: skip


def _ready(given: object) -> Program | Script:
    """A program that was read before; C050 for what is none."""
    if isinstance(given, Program):
        return given
    from caladan.language.rasql.script import Script

    if isinstance(given, Script):
        return given
    raise error(
        "C050",
        f"a program is text, or the path of a file, not a {type(given).__name__}",
        help="use pathlib.Path for a path, and decode bytes first",
    )


def script(text: str) -> Script:
    """The Script of a RaSQL text."""
    check_text("a query", text)
    found = _parsed(text, UNNAMED, "rasql")
    assert not isinstance(found, Program)
    return found


def _parsed(
    text: str,
    name: str,
    language: str | None,
    seen: set[str] | None = None,
    functions: Mapping[str, Definition] = MappingProxyType({}),
) -> Program | Script:
    source = SourceText(name, text)
    with nested(place=Span(source, 0, 0)):
        if (language or detect(text, name=name)) == "rasql":
            from caladan.language import rasql

            return rasql.parse(source)
        return parse(text, name=name, language=language, seen=seen, functions=functions)


def title(program: Program | Script) -> str:
    """What to call a program: the name of its file, if it came from one."""
    if not isinstance(program, Program):
        return "Caladan plan" if program.source.name == UNNAMED else program.source.name
    spans = [node.span for node in (*program.rules, *program.goals) if node.span is not None]
    name = spans[0].name if spans else UNNAMED
    return "Caladan plan" if name == UNNAMED else name


def values(params: object, objects: Objects) -> dict[str, Value]:
    """Parameters as values of the language; what no other type holds is one of `objects`."""
    if params is not None and not isinstance(params, Mapping):
        raise error(
            "C050",
            f"params must map names to values, not be a {type(params).__name__}",
            help='for example {"start": 1}',
        )
    named = cast("Mapping[object, object]", params or {})
    for name in named:
        check_text("the name of a parameter", name)
    return {str(name): _value(str(name), value, objects) for name, value in named.items()}


def goal(text: str) -> Goal:
    """The goal that a text asks."""
    check_text("a goal", text)
    with nested("the goal"):
        return parse_goal(text)


def check_text(what: str, given: object) -> None:
    """C050 unless something is text."""
    if not isinstance(given, str):
        raise error("C050", f"{what} is text, not a {type(given).__name__}")


def opened(relation: str, source: Data, engine: Engine) -> Data:
    """A source as an engine takes it: a table elsewhere becomes a DataFrame, if there is Spark."""
    if source.kind != "external":
        return source
    from caladan.data.problems import only_spark

    if engine.session is None:
        raise only_spark(relation, source.name)
    from caladan.engines.spark.sources import external

    return external.opened(relation, source, engine.session)


def _is_file(text: str) -> bool:
    try:
        return "\n" not in text and Path(text).is_file()
    except (OSError, ValueError):  # too long for a name, or no name at all
        return False


def _value(name: str, given: object, objects: Objects) -> Value:
    kinds = (Type.BOOLEAN, Type.LONG, Type.DOUBLE, Type.STRING)
    special = next((type for kind, type in _SPECIAL if isinstance(given, kind)), None)
    for kind in kinds if special is None else (special,):
        try:
            return fit(given, kind)
        except ValueError:
            continue
    if special is None and not isinstance(given, str):
        with suppress(ValueError):
            return objects.constant(given)
    if isinstance(given, str):
        raise error("C050", f"the parameter `{name}`, {given!a}, is not Unicode text")
    raise error(
        "C050",
        f"the parameter `{name}` is a {type(given).__name__}, which is no value",
        help="give a number, a string, a boolean, a date, a datetime, or an object that can be "
        "hashed",
    )
