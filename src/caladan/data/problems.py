"""What every reader says about bad data: one function for each problem.

A row that cannot be taken is a `BadRow`. Readers collect them and either raise `report(rows)` or,
when permissive, set them aside as the table `rejected_table(rows)`. Problems with a source as a
whole (it is missing, it cannot be read, it has other columns) are errors at once.

`file` is None for data that came from memory; `line` then counts its rows. Both count from 1.
`column` is the position in the line where the trouble starts, also from 1.
"""

from __future__ import annotations

import codecs
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from caladan.program import Column, Type
from caladan.program.diagnostics import CaladanError, Diagnostic, Place, Span, did_you_mean, error
from caladan.program.notation import count_things

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

SHOWN: Final = 5  # bad rows drawn in full; the others are counted

_HASHABLE: Final = (
    "columns of objects hold hashable values: use a tuple instead of a list, a frozenset "
    "instead of a set"
)
_NO_NULL: Final = (
    "the column is declared with `!`, which forbids missing values: drop such rows, fill in a "
    "value, or remove the `!`"
)
MAYBE_HEADER: Final = (
    "if the first line is a header, use `--header` on the command line or header=True in Python"
)
_DELIMITERS: Final = {"\t": r"\t", ",": ",", ";": ";", "|": "|", " ": " "}


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that was not taken, and why. `text` is the field, or the line if all of it is wrong."""

    relation: str
    file: str | None
    line: int | None
    column: int | None
    text: str
    reason: str
    code: str
    help: str | None = None

    @property
    def diagnostic(self) -> Diagnostic:
        """The row as an error."""
        if self.file is None:
            row = "" if self.line is None else f" (row {self.line} of the data of {self.relation})"
            return Diagnostic(self.code, self.reason + row, help=self.help)
        place = Place(self.file, self.line, self.column)
        return Diagnostic(self.code, self.reason, place, help=self.help)


# ── Rows ─────────────────────────────────────────────────────────────────────────────────────────


def wrong_width(
    relation: str,
    file: str | None,
    line: int | None,
    text: str,
    found: int,
    columns: Sequence[Column],
    delimiter: str | None = None,
) -> BadRow:
    """C031: a row with too few or too many columns."""
    names = ", ".join(c.name for c in columns)
    reason = f"{count_things(found, 'column')} where {relation} has {len(columns)} ({names})"
    return BadRow(
        relation, file, line, 1, text, reason, "C031", _other_delimiter(text, columns, delimiter)
    )


def bad_value(
    relation: str,
    file: str | None,
    line: int | None,
    position: int | None,
    column: Column,
    text: str,
    reason: str,
) -> BadRow:
    """C032: a value that is not of its column's type; `reason` is what `values` said."""
    help = f"`{column.name}` is declared as {column.type}"
    if column.type is Type.OBJECT:
        help = _HASHABLE
    elif column.is_inferred:
        help = (
            f"`{column.name}` is not declared, and its first values are {column.type}; to say what "
            f"it is, declare it: database({{{relation}({column.name}: …)}})."
        )
    return BadRow(
        relation, file, line, position, text,
        f"{reason} (column {column.name} of {relation})", "C032", help,
    )  # fmt: skip


def missing_value(
    relation: str,
    file: str | None,
    line: int | None,
    position: int | None,
    column: Column,
    names: Iterable[str] | None = None,
) -> BadRow:
    """C036: no value where one must be. `names` are those of a row that has none of ours."""
    reason, help = f"a value is missing (column {column.name} of {relation})", _NO_NULL
    if names is not None:
        reason = f"no value named {column.name} (column {column.name} of {relation})"
        help = f"the row has {', '.join(names) or 'none'}"
    return BadRow(relation, file, line, position, "", reason, "C036", help)


def is_utf16(raw: bytes) -> bool:
    """Whether a file begins with the mark of UTF-16."""
    return raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def not_utf8(
    relation: str, file: str, line: int, position: int, raw: bytes, *, wide: bool = False
) -> BadRow:
    """C033: bytes that are not UTF-8 text; `raw` is the line, `position` counts its bytes."""
    byte = raw[position - 1] if position <= len(raw) else 0
    return BadRow(
        relation,
        file,
        line,
        position,
        raw.decode("utf-8", "backslashreplace"),
        f"byte 0x{byte:02x} is not UTF-8 text (data of {relation})",
        "C033",
        "convert the file to UTF-8, for example with "
        f"`iconv -f {'utf-16' if wide else 'latin1'} -t utf-8`",
    )


def not_json(relation: str, file: str, line: int, position: int, text: str, reason: str) -> BadRow:
    """C035: a line that is not JSON, or is JSON but not a row."""
    return BadRow(
        relation, file, line, position, text, f"{reason} (data of {relation})", "C035",
        "each line holds one JSON object, or the file is one array of objects",
    )  # fmt: skip


# ── Sources ──────────────────────────────────────────────────────────────────────────────────────


def not_found(
    relation: str, path: str, *, is_pattern: bool = False, what: str = "no such file or folder"
) -> CaladanError:
    """C030: a file or table that is not there."""
    what = "no file matches this pattern" if is_pattern else what
    return error("C030", f"{what} (data of {relation})", Place(path))


def cannot_read(
    relation: str, path: str | None, reason: str, help: str | None = None
) -> CaladanError:
    """C035: a source that is there but cannot be read."""
    return error("C035", f"{reason} (data of {relation})", _place(path), help=help)


def _place(path: str | None) -> Place | None:
    return None if path is None else Place(path)


@contextmanager
def report_reading(relation: str, path: Path, format: str | None) -> Generator[None]:
    """C035 for whatever a library says about a file that it cannot read."""
    import pyarrow as pa

    try:
        yield
    except (OSError, EOFError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else None
        what = reason or f"not a readable {path.suffix[1:] or format} file"
        help = None
        if "out of range for nanosecond" in str(problem):
            what = (
                "it holds a datetime before 1677 or after 2262, which Arrow does not read from ORC"
            )
            help = "write the data as Parquet"
        raise cannot_read(relation, str(path), what, help) from None


def like_a_header(relation: str, path: str, line: int, names: Sequence[str]) -> CaladanError:
    """C035: a first line that may be data, but reads like the names of columns."""
    return error(
        "C035",
        f"the first line, {', '.join(names)}, looks like a header (data of {relation})",
        Place(path, line),
        help="use `--header` or `--no-header` on the command line, header=True or header=False "
        "in Python",
    )


def several_kinds(relation: str, path: str, kinds: Sequence[str]) -> CaladanError:
    """C035: files that no one reader reads."""
    return cannot_read(
        relation, path, f"files of several kinds: {', '.join(kinds)}",
        f'select one with a pattern such as "*.{kinds[0]}", or with format="{kinds[0]}" in Python',
    )  # fmt: skip


def other_kind(relation: str, path: str, named: str, kinds: Iterable[str]) -> CaladanError:
    """C035: a folder with data, but not of the kind that was asked for."""
    return cannot_read(
        relation, path, f"no {named} files in the folder; it holds {', '.join(sorted(kinds))}"
    )


def only_spark(relation: str, place: str) -> CaladanError:
    """C035: a table that no engine in this process reads."""
    return cannot_read(
        relation, place, "only the spark engine reads tables of databases and catalogs",
        "use the spark engine, or save the table to a file",
    )  # fmt: skip


def other_columns(
    relation: str, place: str | None, found: Sequence[str], columns: Sequence[Column]
) -> CaladanError:
    """C031: named columns that are not those of the relation."""
    declared = [c.name for c in columns]
    absent = [name for name in declared if name not in found]
    where = _place(place)
    has = ", ".join(found) or "none"
    if len(found) != len(declared) and len(absent) == len(declared):
        message = (
            f"{count_things(len(found), 'column')} ({has}) where {relation} has {len(declared)}"
        )
        advice = _other_delimiter(has, columns, ",") if len(found) == 1 else None
        return error("C031", f"{message} ({', '.join(declared)})", where, help=advice)
    return error(
        "C031",
        f"no column {absent[0]} in the data of {relation}; it has {has}",
        where,
        help=did_you_mean(absent[0], [name for name in found if name not in declared]),
    )


def same_name(relation: str, place: str | None, names: Sequence[str]) -> CaladanError:
    """C031: columns that only their names could tell apart, and do not."""
    where = _place(place)
    is_case = len(set(names)) > 1
    alike = f"named {' and '.join(names)}" if is_case else f"named {names[0]}"
    return error(
        "C031",
        f"{len(names)} columns {alike} in the data of {relation}, where the name decides",
        where,
        help="give every column a name of its own",
    )


def wrong_type(relation: str, place: str | None, column: Column, found: str) -> CaladanError:
    """C032: a whole column of another type."""
    where = _place(place)
    message = f"column {column.name} of {relation} is {column.type}, but the data has {found}"
    return error("C032", message, where)


def check_name(what: str, name: str) -> None:
    """C050 for a name that is no text: a lone half of a surrogate pair."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise error("C050", f"the name of {what}, {name!a}, is not Unicode text") from None


def no_data(relation: str, columns: Sequence[Column], span: Span | None = None) -> Diagnostic:
    """C034: a relation that is declared, but nobody said what is in it."""
    return Diagnostic(
        "C034",
        f"no data for {relation}({', '.join(c.name for c in columns)})",
        span,
        help=f"add it: `--data {relation}=FILE` or `--facts FOLDER` on the command line, "
        f'`db.add("{relation}", …)` in Python; an empty file or list is fine',
    )


# ── Many rows ────────────────────────────────────────────────────────────────────────────────────


def report(rows: Sequence[BadRow], total: int | None = None) -> CaladanError:
    """The first bad rows as one error, and how many more there are (`total` counts all)."""
    total = len(rows) if total is None else total
    shown = [row.diagnostic for row in rows[:SHOWN]]
    if total > len(shown):
        more = total - len(shown)
        last = f"… and {count_things(more, 'more bad row')} in the data of {rows[0].relation}"
        advice = "`--permissive` (permissive=True in Python) sets bad rows aside and goes on"
        shown.append(Diagnostic(rows[0].code, last, help=advice))
    return CaladanError(*shown)


def set_aside(relation: str, rows: int) -> Diagnostic:
    """W108: rows that a permissive run left out."""
    return Diagnostic(
        "W108",
        f"{count_things(rows, 'row')} of the data of {relation} {'was' if rows == 1 else 'were'} "
        "set aside",
        help="the relation `_rejected` has them, each with the reason",
    )


def equal_rows(relation: str, rows: int, columns: Sequence[str], function: str) -> Diagnostic:
    """W109: rows that are equal to others, where an aggregate adds up facts."""
    shown = ", ".join(columns)
    return Diagnostic(
        "W109",
        f"{count_things(rows, 'row')} of the data of {relation} {'is' if rows == 1 else 'are'} "
        f"equal to other rows, and `{function}` counts equal rows as one fact",
        help=f"to count every row, bind its number: `{relation}[R]({shown})`",
    )


def maybe_header(relation: str, path: str, names: Sequence[str]) -> Diagnostic:
    """W110: a first line of text over columns of text, which may be the names of columns."""
    return Diagnostic(
        "W110",
        f"the first line, {', '.join(names)}, is read as a fact of {relation}",
        Place(path, 1),
        help="use `--header` or header=True if it is a header, `--no-header` or header=False if "
        "not",
    )


def rejected_table(rows: Sequence[BadRow]) -> pa.Table:
    """Rows set aside, as the output `_rejected` shows them."""
    import pyarrow as pa

    return pa.table(
        {
            "relation": pa.array([r.relation for r in rows], pa.string()),
            "file": pa.array([r.file or "" for r in rows], pa.string()),
            "line": pa.array([r.line or 0 for r in rows], pa.int64()),
            "column": pa.array([r.column or 0 for r in rows], pa.int64()),
            "text": pa.array([r.text for r in rows], pa.string()),
            "reason": pa.array([r.reason for r in rows], pa.string()),
        }
    )


def _other_delimiter(text: str, columns: Sequence[Column], used: str | None) -> str | None:
    """Advice, where another delimiter would have given the right number of columns."""
    if used is None or len(columns) < 2:
        return None
    for delimiter, written in _DELIMITERS.items():
        if delimiter != used and len(text.strip().split(delimiter)) == len(columns):
            return (
                f'if columns are separated by "{written}", say so: `--delimiter "{written}"` on '
                f'the command line, delimiter="{written}" in Python'
            )
    return None
