"""Diagnostics: what went wrong, where, and what to do about it.

A user's mistake becomes a `Diagnostic` (code, message, place, related places, help); whoever finds
several collects them in `Diagnostics` and raises once, as a `CaladanError`. `render` draws them the
way a compiler does: `file:line:col: error[C012]: message`, the source line, a caret, "declared
here" lines, a help line. `CODES` is the one table of codes; every code in it has a test.

Exit codes of the command line hang on the exception: 1 wrong program or data, 2 wrong usage, 3 a
limit was hit, 130 interrupted.

Parsers and the passes over their trees recurse. `guard_nesting` gives them room, deeper than
anybody writes by hand, and turns what is too deep even so into a diagnostic instead of a stack
trace.
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

CODES: Final[dict[str, str]] = {
    # 0xx: the text of a program
    "C001": "syntax error",
    "C002": "unterminated text or comment",
    "C003": "number out of range",
    "C004": "unknown type",
    "C005": "language not recognised",
    # 01x-02x: the meaning of a program
    "C010": "unknown relation",
    "C011": "wrong number of arguments",
    "C012": "type conflict",
    "C013": "unsafe variable",
    "C014": "not stratified",
    "C015": "aggregate mixed with other variables",
    "C016": "aggregates of a relation disagree",
    "C017": "relation declared twice",
    "C018": "constant does not fit its column",
    "C020": "unknown parameter",
    "C021": "query on an undefined relation",
    "C022": "sort or limit cannot be used here",
    "C023": "goal arguments must be variables or constants",
    "C024": "too many combinations of alternatives",
    "C025": "null equals nothing",
    "C026": "only data has rows",
    # 03x: data
    "C030": "input not found",
    "C031": "wrong number of columns",
    "C032": "value does not fit its column",
    "C033": "not UTF-8",
    "C034": "relation has no data",
    "C035": "data cannot be read",
    "C036": "missing value",
    "C037": "cannot write the output",
    # 04x: running
    "C040": "division by zero",
    "C041": "overflow",
    "C042": "limit reached",
    "C043": "interrupted",
    "C044": "the engine failed",
    "C045": "no Java found",
    "C046": "expectation does not hold",
    "C047": "a sum includes a solution that no longer holds",
    # 05x: usage
    "C050": "wrong usage",
    "C051": "not available yet",
    # 06x: SQL
    "C060": "not possible in recursive SQL",
    "C062": "rejected by the SQL engine",
    "C063": "unknown or ambiguous column",
    "C064": "NULL in recursion",
    "C065": "type has no counterpart",
    # 07x: ticks
    "C070": "two facts with the same key",
    "C071": "wrong use of a collection",
    "C072": "outputs cannot be read",
    "C073": "a function or comparison failed",
    "C074": "takes effect later, which needs ticks",
    "C090": "internal error",
    # warnings
    "W101": "may not terminate",
    "W102": "aggregate may not be monotone here",
    "W103": "relation can never have facts",
    "W104": "aggregate is applied at every step",
    "W105": "variable that occurs once",
    "W106": "variable spelt like a constant",
    "W107": "no goal needs it",
    "W108": "rows were set aside",
    "W109": "equal rows are one fact",
    "W110": "the first line may be a header",
}

EXIT_USER: Final = 1
EXIT_USAGE: Final = 2
EXIT_LIMIT: Final = 3
EXIT_INTERRUPTED: Final = 130

_QUOTED: Final = 240  # characters of a line that are shown
_USER: Final = re.compile(r"//[^/@\s]*@")

_EXIT_BY_CODE: Final[dict[str, int]] = {
    "C042": EXIT_LIMIT,
    "C043": EXIT_INTERRUPTED,
    "C050": EXIT_USAGE,
    "C051": EXIT_USAGE,
}


@dataclass(frozen=True, slots=True, eq=False)
class SourceText:
    """A text that came in, with the name the user knows it by."""

    name: str
    text: str
    _starts: list[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        starts = [0]
        for offset, character in enumerate(self.text):
            if character == "\n":
                starts.append(offset + 1)
        object.__setattr__(self, "_starts", starts)
        try:
            self.text.encode()
        except UnicodeEncodeError as problem:
            line, column = self.position(problem.start)
            found = f"{self.text[problem.start]!a} is half a character, not Unicode text"
            raise error("C033", found, Place(self.name, line, column)) from None

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line, without its line end."""
        start = self._starts[number - 1]
        end = self._starts[number] if number < len(self._starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a source text: where a node of a program was written."""

    source: SourceText
    start: int
    end: int

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def line(self) -> int:
        return self.source.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.source.position(self.start)[1]

    @property
    def text(self) -> str:
        """What stands there."""
        return self.source.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class Place:
    """A place in data, which is named but not quoted: a file, perhaps a line and a column."""

    name: str
    line: int | None = None
    column: int | None = None


@dataclass(frozen=True, slots=True)
class RelatedSpan:
    """A second place that explains the first: "declared here"."""

    message: str
    place: Span | Place


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding. `code` is a key of CODES; W… are warnings, the rest are errors."""

    code: str
    message: str
    place: Span | Place | None = None
    related: tuple[RelatedSpan, ...] = ()
    help: str | None = None

    @property
    def is_warning(self) -> bool:
        """Warnings are shown but do not stop a run."""
        return self.code.startswith("W")

    @property
    def exit_code(self) -> int:
        """What a command line that ends with this diagnostic returns."""
        return _EXIT_BY_CODE.get(self.code, EXIT_USER)

    def render(self) -> str:
        """The diagnostic as text for a terminal, several lines without a final line end.

        Names of files may hold bytes that are no text: they are shown as escapes.
        """
        return "\n".join(_lines(self)).encode(errors="backslashreplace").decode()

    def __str__(self) -> str:
        return self.render()


class CaladanError(Exception):
    """What a user's mistake, a limit or an interruption raises: one or more diagnostics."""

    __module__ = "caladan"  # where users find it, and so what a traceback should say

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics: tuple[Diagnostic, ...] = diagnostics

    def __str__(self) -> str:
        return render(self.diagnostics)

    def _render_traceback_(self) -> list[str]:
        """What IPython and notebooks show instead of a stack trace."""
        return str(self).splitlines()

    @property
    def exit_code(self) -> int:
        """The exit code of the first diagnostic."""
        return self.diagnostics[0].exit_code if self.diagnostics else EXIT_USER


class Diagnostics:
    """Collects the findings of a pass, so that a file's errors are reported all at once."""

    def __init__(self) -> None:
        self._found: dict[Diagnostic, None] = {}  # a set that keeps its order

    def add(
        self,
        code: str,
        message: str,
        place: Span | Place | None = None,
        *,
        related: Iterable[RelatedSpan] = (),
        help: str | None = None,
    ) -> None:
        """Note a finding; the same finding twice is noted once."""
        diagnostic = Diagnostic(code, message, place, tuple(related), help)
        self._found[diagnostic] = None

    def extend(self, diagnostics: Iterable[Diagnostic]) -> None:
        """Take over the findings of another pass."""
        self._found.update(dict.fromkeys(diagnostics))

    def hide(self, internal: Mapping[str, str]) -> None:
        """Keep the names of relations that the compiler made from users.

        Findings that mention one are dropped if there are others, of which they are echoes; else
        they name the relation that it is a part of, which `internal` has.
        """
        if not internal or not self.errors:
            return
        names = re.compile(rf"\b(?:{'|'.join(map(re.escape, internal))})\b")

        def renamed(text: str) -> str:
            return names.sub(lambda match: internal[match.group()], text)

        def texts(each: Diagnostic) -> str:
            return "\n".join((each.message, each.help or "", *(r.message for r in each.related)))

        echoes = [each for each in self._found if names.search(texts(each))]
        if any(each not in echoes for each in self.errors):
            self._found = {each: None for each in self._found if each not in echoes}
            return
        changed = [
            replace(
                each,
                message=renamed(each.message),
                help=None if each.help is None else renamed(each.help),
                related=tuple(RelatedSpan(renamed(r.message), r.place) for r in each.related),
            )
            for each in self._found
        ]
        self._found = dict.fromkeys(changed)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The findings that stop a run, in source order."""
        return tuple(sorted((d for d in self._found if not d.is_warning), key=_order))

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The findings that do not."""
        return tuple(sorted((d for d in self._found if d.is_warning), key=_order))

    def raise_errors(self) -> None:
        """Raise everything collected so far, if there is an error among it."""
        if self.errors:
            raise CaladanError(*self.errors)


def error(
    code: str,
    message: str,
    place: Span | Place | None = None,
    *,
    related: Iterable[RelatedSpan] = (),
    help: str | None = None,
) -> CaladanError:
    """A CaladanError with one diagnostic, ready to raise."""
    return CaladanError(Diagnostic(code, message, place, tuple(related), help))


def render(diagnostics: Sequence[Diagnostic]) -> str:
    """Several diagnostics, a blank line between them."""
    return "\n\n".join(d.render() for d in diagnostics)


def without_user(text: str) -> str:
    """A URI, or a text about it, without user names and passwords.

    >>> without_user("cannot reach s3://key:secret@bucket/saved")
    'cannot reach s3://bucket/saved'
    """
    return _USER.sub("//", text)


def did_you_mean(name: object, known: Iterable[str]) -> str | None:
    """A help line with the nearest known name, if one is near.

    A name is near if few letters are wrong, missing, too many or swapped: one of four, two of up
    to nine, three of more; or if it is the start of one name alone. Capitals count for nothing.
    `name` may be anything: users hand in all kinds of names.

    >>> did_you_mean("acr", ["arc", "tc"])
    'did you mean `arc`?'
    >>> did_you_mean("to_string", ["substring"])
    """
    if not isinstance(name, str):
        return None
    most = 1 if len(name) <= 4 else 2 if len(name) <= 9 else 3
    others = [each for each in sorted(set(known)) if each != name]
    alike = (each for each in others if abs(len(each) - len(name)) <= most)
    distances = [(_distance(name.lower(), each.lower()), each) for each in alike]
    distance, near = min(distances, default=(most + 1, ""))
    # A name of one letter is as near to every other.
    if distance <= min(most, len(name) - 1):
        return f"did you mean `{near}`?"
    longer = [each for each in others if len(name) > 2 and each.startswith(name)]
    return f"did you mean `{longer[0]}`?" if len(longer) == 1 else None


def _distance(one: str, other: str) -> int:
    """How many letters are wrong, missing, too many or swapped (Damerau and Levenshtein)."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, start=1):
        earlier, before, row = before, row, [i]
        for j, each in enumerate(other, start=1):
            change = before[j - 1] + (letter != each)
            row.append(min(before[j] + 1, row[j - 1] + 1, change))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == each:
                row[j] = min(row[j], earlier[j - 2] + 1)
    return row[-1]


def _order(diagnostic: Diagnostic) -> tuple[str, int]:
    place = diagnostic.place
    if isinstance(place, Span):
        return (place.name, place.start)
    return ("", 0) if place is None else (place.name, place.line or 0)


def _where(place: Span | Place | None) -> str:
    if place is None:
        return ""
    parts = [without_user(place.name)]
    if place.line is not None:
        parts.append(str(place.line))
        if place.column is not None:
            parts.append(str(place.column))
    return ":".join(parts) + ": "


def _lines(diagnostic: Diagnostic) -> Iterator[str]:
    kind = "warning" if diagnostic.is_warning else "error"
    yield f"{_where(diagnostic.place)}{kind}[{diagnostic.code}]: {diagnostic.message}"
    if isinstance(diagnostic.place, Span):
        yield from _quote(diagnostic.place)
    for related in diagnostic.related:
        yield f"  {_where(related.place)}{related.message}"
        if isinstance(related.place, Span):
            yield from _quote(related.place)
    if diagnostic.help:
        yield f"  help: {diagnostic.help}"


def _quote(span: Span) -> Iterator[str]:
    """The source line and a caret under the span's part of it; tabs are shown as one blank.

    Of a line that is too long to be shown, what is around the start of the span.
    """
    line, column = span.source.position(span.start)
    end_line, end_column = span.source.position(span.end)
    text = span.source.line(line).replace("\t", " ")
    width = (end_column if end_line == line else len(text) + 1) - column
    if len(text) > _QUOTED:
        first = min(max(column - 1 - _QUOTED // 3, 0), len(text) - _QUOTED)
        column -= first
        shown = text[first : first + _QUOTED]
        before, after = "…" if first else "", "…" if first + _QUOTED < len(text) else ""
        text, column = f"{before}{shown}{after}", column + len(before)
        width = min(width, len(text) - column + 1)
    number = str(line)
    yield f"  {number} | {text}"
    yield f"  {' ' * len(number)} | {' ' * (column - 1)}{'^' * max(width, 1)}"


_FRAMES: Final = 8_000  # what the stack of a thread has room for


@contextmanager
def guard_nesting(what: str = "the program", place: Span | None = None) -> Generator[None]:
    """Work on a text that may be nested deeply; C001 where it is too deep.

    The limit is that of the whole process: who comes second leaves it alone, so that a thread
    that is given up, and ends at some other time, changes nothing.
    """
    before = sys.getrecursionlimit()
    if before < _FRAMES:
        sys.setrecursionlimit(_FRAMES)
    try:
        yield
    except RecursionError:
        raise too_deep(what, place) from None
    finally:
        if before < _FRAMES:
            sys.setrecursionlimit(before)


def too_deep(what: str, place: Span | None) -> CaladanError:
    """C001 for what nobody has room for."""
    return error(
        "C001",
        f"{what} is nested too deeply",
        place,
        help="name a part of it: a view in SQL, a rule of its own elsewhere",
    )
