"""What users hand to a session, read and checked: programs and parameters, and what they define.

`Definitions` outlive a program: what earlier runs of a session defined, later ones can use.
`Definitions.define` takes functions of Python, for programs that are read later.
`Definitions.link(program)` adds to a program the earlier rules and declarations of the relations it
mentions but does not define, and of those that they mention, and so on. They come after the
program's own rules, which so keep their numbers. A later definition of a name replaces the earlier.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from caladan.language import detect, files, parse, parse_goal
from caladan.language.deals.tokens import RESERVED_RELATIONS, RESERVED_WORDS, is_name, is_variable
from caladan.program import Column, Declaration, Goal, Program, Rule, Type, Value, atoms
from caladan.program.aggregates import TABLE, AggregateFunction, UserCombine, user_aggregate
from caladan.program.diagnostics import (
    CaladanError,
    Diagnostic,
    Place,
    SourceText,
    Span,
    did_you_mean,
    error,
    guard_nesting,
)
from caladan.program.functions import RETURNED, Definition
from caladan.program.objects import Objects
from caladan.program.transform import reachable
from caladan.program.types import type_named
from caladan.program.values import fit

if TYPE_CHECKING:
    from caladan.data.source import Source as Data
    from caladan.engines.interface import Engine
    from caladan.language.rasql import Script
    from caladan.session.store import Store

STDIN: Final = "-"

UNNAMED: Final = "<program>"
"""What diagnostics call a program that did not come from a file."""

_SPECIAL: Final[tuple[tuple[type, Type], ...]] = (
    (dt.datetime, Type.DATETIME),
    (dt.date, Type.DATE),
    (dt.timedelta, Type.INTERVAL),
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
        return _parse(files.text_of(name), name, language, seen, functions)
    return _parse(given, UNNAMED, language, seen, functions)


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
        raise error("C050", "`-` can appear once: it reads stdin to its end")
    seen.add(name)
    return _parse(files.decode(sys.stdin.buffer.read(), name), name, language, seen)


def _alone(name: str) -> CaladanError:
    return error(
        "C050", "a script of SQL runs alone", Place(name),
        help="share definitions with CREATE VIEW … in each script",
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
    found = _parse(text, UNNAMED, "rasql")
    assert not isinstance(found, Program)
    return found


def _parse(
    text: str,
    name: str,
    language: str | None,
    seen: set[str] | None = None,
    functions: Mapping[str, Definition] = MappingProxyType({}),
) -> Program | Script:
    source = SourceText(name, text)
    with guard_nesting(place=Span(source, 0, 0)):
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
    with guard_nesting("the goal"):
        return parse_goal(text)


def check_text(what: str, given: object) -> None:
    """C050 unless something is text."""
    if not isinstance(given, str):
        raise error("C050", f"{what} is text, not a {type(given).__name__}")


def open_source(relation: str, source: Data, engine: Engine) -> Data:
    """A source as an engine takes it: a table elsewhere becomes a DataFrame, if there is Spark."""
    if source.kind != "external":
        return source
    from caladan.data.problems import only_spark

    if engine.session is None:
        raise only_spark(relation, source.name)
    from caladan.engines.spark.sources import external

    return external.open_source(relation, source, engine.session)


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
    if isinstance(given, list | dict):
        nested = _nested_value(cast("object", given))
        if nested is not None:
            return nested
    if special is None and not isinstance(given, str):
        with suppress(ValueError):
            return objects.constant(given)
    if isinstance(given, str):
        raise error("C050", f"the parameter `{name}`, {given!a}, is not Unicode text")
    raise error(
        "C050",
        f"the parameter `{name}` is a {type(given).__name__}, which is not a value",
        help="give a number, a string, a boolean, a date, a datetime, a list or a dictionary of "
        "them, or an object that can be hashed",
    )


def _nested_value(given: object) -> Value | None:
    """A list or a dictionary as a value, None if it mixes types."""
    import pyarrow as pa

    from caladan.data.schema import column_type

    try:
        type = column_type(pa.array([given]).type)
        return None if type is None else fit(given, type)
    except (pa.ArrowException, ValueError, OverflowError):
        return None


RESERVED: Final = frozenset(RESERVED_WORDS)


FindKept: TypeAlias = Callable[[str, bool], tuple[Column, ...] | None]
"""The columns of a relation that is kept, None if it is not; rules read it, or goals alone."""


class Definitions:
    """The rules and declarations of a session so far, by the name of their relation."""

    def __init__(self) -> None:
        self._rules: dict[str, tuple[Rule, ...]] = {}
        self._relations: dict[str, Declaration] = {}
        self.functions: dict[str, Definition] = {}
        """Those of Python that programs may call."""
        self.aggregates: dict[str, AggregateFunction] = {}
        """Those that users added."""

    def define(self, name: str, code: object, returns: object, vectorized: object) -> None:
        """Have programs that are read from now on call a function of Python; C050 if none can."""
        if not is_name(name) or is_variable(name) or name in RESERVED:
            raise error(
                "C050",
                f"a function cannot be called `{name}`",
                help="its name must begin with a lower-case letter, and cannot be a reserved word",
            )
        if not callable(code):
            raise error("C050", f"`{name}` is a {type(code).__name__}, not a function")
        if returns is None:
            raise error(
                "C050", f"the type that `{name}` returns is missing", help='returns="double"'
            )
        several = str(returns).endswith("*")
        word = str(returns).removesuffix("*")
        wanted = next((each for each in RETURNED if str(each) == word), None)
        if wanted is None and (nested_type := type_named(word)) and nested_type.is_nested:
            wanted = nested_type
        if wanted is None:
            raise error(
                "C050",
                f"`{name}` cannot return the type `{returns}`",
                help=did_you_mean(str(returns), map(str, RETURNED))
                or f"the types are {', '.join(map(str, RETURNED))}",
            )
        if vectorized not in (None, "numpy", "arrow"):
            raise error("C050", f'vectorized is "numpy", "arrow" or None, not {vectorized!r}')
        if several and vectorized is not None:
            raise error("C050", f"`{name}` returns several rows, so it cannot be vectorized")
        self.functions[name] = Definition(name, code, wanted, vectorized, several)

    def aggregate(self, given: UserCombine) -> None:
        """Have programs that are read from now on aggregate by a function; C050 if none can."""
        name = given.name
        if not is_name(name) or is_variable(name) or name in RESERVED_RELATIONS | {*TABLE}:
            raise error(
                "C050",
                f"an aggregate cannot be called `{name}`",
                help="its name must begin with a lower-case letter, and cannot be a reserved word",
            )
        if not callable(given.code):
            raise error("C050", f"`{name}` is a {type(given.code).__name__}, not a function")
        if given.vectorized not in (None, "numpy"):
            raise error("C050", f'vectorized is "numpy" or None, not {given.vectorized!r}')
        if given.is_monotone and not given.is_idempotent:
            raise error(
                "C050",
                f"`{name}` cannot be used in recursion",
                help="recursion may combine a value twice: set idempotent=True if that is safe",
            )
        self.aggregates[name] = user_aggregate(given)

    def remember(self, program: Program) -> list[str]:
        """Take over what a program defines; what it says about a name replaces what was known.

        Returns the names of which something else is known now.
        """
        changed: list[str] = []
        for relation in program.relations:
            if self._relations.get(relation.name) != relation:
                self._relations[relation.name] = relation
                changed.append(relation.name)
        own: dict[str, list[Rule]] = {}
        for rule in program.rules:
            own.setdefault(rule.head.relation, []).append(rule)
        for name, rules in own.items():
            if self._rules.get(name) != tuple(rules):
                self._rules[name] = tuple(rules)
                changed.append(name)
        return changed

    def reads(self, name: str) -> Iterator[str]:
        """The relations that the rules of a name mention."""
        return (each for rule in self._rules.get(name, ()) for each in _read(rule))

    @property
    def graph(self) -> Mapping[str, Iterator[str]]:
        """Every name that has rules, with the relations that they mention."""
        return {name: self.reads(name) for name in self._rules}

    @property
    def derived(self) -> Iterator[str]:
        """The names that have rules."""
        yield from self._rules

    def columns(self, name: str) -> tuple[Column, ...] | None:
        """The columns of a relation that was declared."""
        found = self._relations.get(name)
        return None if found is None else found.columns

    def forget_rules(self, name: str) -> None:
        """Drop the rules of a name; its declaration stays."""
        self._rules.pop(name, None)

    def link(
        self, program: Program, store: Store, find_kept: FindKept = lambda *_: None
    ) -> tuple[Program, tuple[str, ...]]:
        """The program with the earlier definitions it needs, and the relations it needs none for.

        A relation for which it has rules of its own keeps its earlier declaration if it has data.
        One that is kept, with the columns that `find_kept` gives, is declared instead of derived,
        unless the program defines something that it depends on.
        """
        declared = {relation.name for relation in program.relations}
        derived = {rule.head.relation for rule in program.rules}
        relations = list(program.relations)
        rules = list(program.rules)

        def earlier(name: str) -> Sequence[Rule]:
            return () if name in derived or name in declared else self._rules.get(name, ())

        own = derived | {
            each.name for each in program.relations if self._relations.get(each.name) != each
        }
        starts = (*list_mentioned(program), *derived)
        reused = {
            name: columns
            for name in reachable(
                starts, lambda each: (r for rule in earlier(each) for r in _read(rule))
            )
            if earlier(name) and (columns := find_kept(name, False)) is not None
            if own.isdisjoint(reachable([name], self.reads))
        }

        def read(name: str) -> Iterator[str]:
            rules = () if name in reused else earlier(name)
            return (each for rule in rules for each in _read(rule))

        while True:  # what is read by rules depends on which relations are reused, and they on it
            needed = reachable(starts, read)
            by_rules = {each for rule in program.rules for each in _read(rule)}
            by_rules.update(each for name in needed for each in read(name))
            refused = [n for n in reused if n in by_rules and find_kept(n, True) is None]
            if not refused:
                break
            for name in refused:
                del reused[name]
        for name in needed:
            if name in reused:
                relations.append(Declaration(name, reused[name]))
                continue
            known = self._relations.get(name)
            if known is not None and name not in declared:
                stays = not _is_replaced(known, program, store)
                relations += [known] if stays and (name not in derived or name in store) else []
            rules += earlier(name)
        linked = replace(program, relations=tuple(relations), rules=tuple(rules))
        return linked, tuple(name for name in needed if name in reused)


def list_defined(program: Program) -> Iterator[str]:
    """The names a program declares or has rules for."""
    names = [r.name for r in program.relations] + [r.head.relation for r in program.rules]
    yield from dict.fromkeys(names)


def list_mentioned(program: Program) -> Iterator[str]:
    """The names a program reads, in bodies and goals, in order and without repetitions."""
    bodies = (name for rule in program.rules for name in _read(rule))
    goals = (goal.atom.relation for goal in program.goals)
    yield from dict.fromkeys((*bodies, *goals))


def list_undeclared(program: Program, known: Container[str]) -> Iterator[str]:
    """The names a program uses without declaring them, as far as they are among the known."""
    declared = {relation.name for relation in program.relations}
    for name in dict.fromkeys((*list_mentioned(program), *list_defined(program))):
        if name in known and name not in declared:
            yield name


def _is_replaced(earlier: Declaration, program: Program, store: Store) -> bool:
    """Whether a program reads other columns than a declaration has, and data came that has them."""
    name, size = earlier.name, len(earlier.columns)
    read = [atom for rule in program.rules for atom in atoms(rule.body)]
    read += [goal.atom for goal in program.goals]
    differs = any(len(a.arguments) != size for a in read if a.relation == name and not a.columns)
    return differs and name in store and len(store.columns(name)) != size


def _read(rule: Rule) -> list[str]:
    return [atom.relation for atom in atoms(rule.body)]
