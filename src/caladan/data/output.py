"""Facts written to files, whole or not at all: what `write` writes, `db.add` reads.

    csv      comma separated, quoted where need be, without a header line unless asked for
    tsv      tab separated, never quoted (also .facts)
    json     one array of objects; .jsonl and .ndjson one object in each line
    parquet, orc

A name that ends in .gz, .bz2 or the like is compressed (csv, tsv, json).

`create` hands out a draft beside the file, which takes its place once it is complete; `append`
the file itself, which is cut back to what it was if anything goes wrong. The draft has a name that
nobody can guess and must be new, so that a link put in its way is never followed.
"""

from __future__ import annotations

import datetime as dt
import gzip
import io
import json
import math
import os
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any, BinaryIO, Final, TextIO, cast

import pyarrow as pa

from caladan.data.external import CatalogTable, External, Jdbc, StoredFiles, parse_name
from caladan.data.formats import ORC_MOMENTS, ORC_RANGE, SPARK_TYPE
from caladan.data.schema import rows
from caladan.data.source import compression, suffix
from caladan.program import Value
from caladan.program.diagnostics import CaladanError, Place, error
from caladan.program.values import write_value

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_CHUNK: Final = 1 << 20
_ROWS: Final = 1 << 16  # of a batch of ORC


def cannot_write(path: str, reason: str, help: str | None = None) -> CaladanError:
    """C037."""
    return error("C037", f"cannot write: {reason}", Place(path), help=help)


@contextmanager
def create(path: Path) -> Generator[BinaryIO]:
    """A stream whose content becomes that of a file; C037 where that is not possible."""
    try:
        if path.exists() and not path.is_file():  # a terminal, a pipe: it is there to be written to
            with path.open("wb") as stream:
                yield stream
            return
        draft = path.with_name(f".{path.name[:100]}.{os.urandom(8).hex()}")
        with new_file(draft) as stream:
            try:
                yield stream
                stream.close()
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
    except OSError as problem:
        raise cannot_write(str(path), problem.strerror or str(problem)) from None


@contextmanager
def append(path: Path) -> Generator[BinaryIO]:
    """A stream that adds to a file of lines, all or nothing; C037 where that is not possible."""
    try:
        size = path.stat().st_size
        try:
            with path.open("ab") as stream:
                yield stream
        except BaseException:
            with suppress(OSError):
                os.truncate(path, size)
            raise
    except OSError as problem:
        raise cannot_write(str(path), problem.strerror or str(problem)) from None


def new_file(path: Path) -> BinaryIO:
    """A file that was not there, to write to; FileExistsError for whatever was, be it a link."""
    return cast("BinaryIO", os.fdopen(os.open(path, _NEW, 0o666), "wb"))


def ends_with_a_line(path: Path) -> bool:
    """Whether the last line of a text file is whole, or there is none."""
    last = b""
    with pa.OSFile(str(path), "rb") as raw:
        if compression(path.name) is None:
            raw.seek(max(raw.size() - 1, 0))
            last = bytes(raw.read())
        else:
            with pa.input_stream(raw, compression=compression(path.name)) as stream:
                while chunk := bytes(stream.read(_CHUNK)):
                    last = chunk[-1:]
    return last in (b"", b"\n", b"\r")


FORMATS: Final[dict[str, str]] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".facts": "tsv",
    ".json": "json",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".orc": "orc",
}


_COLUMNAR: Final = ("parquet", "orc")
_NEEDS_QUOTES: Final = re.compile(r'[",\r\n]|^\ufeff|^$')  # \ufeff first would pass for a mark
_BREAKS_TABS: Final = re.compile(r"[\t\r\n]|^\ufeff")


def format_of(path: str, asked: str | None) -> str:
    """The format to write: what was asked for, or what the name of the file says."""
    if asked is None:
        known = FORMATS.get(suffix(path))
        if known is None:
            raise cannot_write(
                path, "its name does not tell the format",
                "end it in .parquet, .orc, .csv, .tsv, .json or .jsonl, or name the format",
            )  # fmt: skip
        return known
    if asked not in FORMATS.values():
        known_formats = ", ".join(dict.fromkeys(FORMATS.values()))
        raise error("C050", f"unknown format {asked!r}; known are {known_formats} and delta")
    return asked


def check_path(path: object) -> None:
    """C050 for what names no file, folder or table."""
    if not isinstance(path, str | os.PathLike | Jdbc | CatalogTable | StoredFiles):
        raise error("C050", f"a path is text or a pathlib.Path, not a {type(path).__name__}")


def elsewhere(path: object, format: str | None) -> External | None:
    """The table elsewhere that is meant, None if it is a file or a folder."""
    if isinstance(path, Jdbc | CatalogTable | StoredFiles):
        return path
    return (
        StoredFiles(str(path), "delta")
        if format == "delta"
        else parse_name(str(path), "", os.environ)
    )


def write(table: pa.Table, path: Path, format: str, mode: str, *, header: bool = False) -> None:
    """Write a table to a file."""
    check_mode(str(path), mode, exists=path.exists())
    if format in _COLUMNAR and compression(path.name) is not None:
        raise cannot_write(
            str(path), f"a {format} file is compressed inside, not as a whole",
            f"leave {path.suffix} out of its name",
        )  # fmt: skip
    if mode == "append" and path.exists():
        if format in (*_COLUMNAR, "json"):
            raise cannot_write(
                str(path), f"a {format} file cannot be appended to",
                "append to a folder, or to a .csv, .tsv or .jsonl file",
            )  # fmt: skip
        with append(path) as raw:
            start = "" if ends_with_a_line(path) else "\n"
            _to_stream(table, raw, path.name, format, header=False, start=start)
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise cannot_write(str(path), problem.strerror or str(problem)) from None
    with create(path) as raw:
        _to_stream(table, raw, path.name, format, header=header)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file that is no data: a report, statistics."""
    with create(Path(path).expanduser()) as raw:
        raw.write(text.encode())


def check_mode(path: str, mode: str, *, exists: bool) -> None:
    """Refuse to write over what is there, unless asked to."""
    if mode not in ("error", "overwrite", "append"):
        raise error("C050", f"unknown mode {mode!r}; known are error, overwrite and append")
    if exists and mode == "error":
        raise cannot_write(path, "it exists already", 'replace it with mode="overwrite"')


def to_text(table: pa.Table, stream: TextIO, format: str, *, header: bool = False) -> None:
    """Write a table as csv, tsv, json or jsonl to a stream of text."""
    names = table.column_names
    if format in ("csv", "tsv"):
        _check_missing(table, format)
        line = _csv_line if format == "csv" else _tsv_line
        if header:
            stream.write(line(names))
        if names and all(pa.types.is_integer(each) for each in table.schema.types):
            between = "," if format == "csv" else "\t"
            for batch in table.to_batches(max_chunksize=65536):
                if not any(column.null_count for column in batch.columns):
                    digits = (map(str, column.to_pylist()) for column in batch.columns)
                    stream.writelines(f"{between.join(row)}\n" for row in zip(*digits, strict=True))
                else:
                    stream.writelines(line(row) for row in rows(pa.table(batch)))
            return
        stream.writelines(line(row) for row in rows(table))
        return
    _check_names(table)
    if format == "jsonl":
        stream.writelines(as_json(names, row) + "\n" for row in rows(table))
    else:
        separator = "[\n"
        for row in rows(table):
            stream.write(separator + as_json(names, row))
            separator = ",\n"
        stream.write("\n]\n" if table.num_rows else "[]\n")


def _check_missing(table: pa.Table, format: str) -> None:
    """C037 where a missing text would be read back as an empty one, or as no row at all."""
    columns: list[Any] = table.columns
    for name, column in zip(table.column_names, columns, strict=True):
        is_text = pa.types.is_string(column.type) or pa.types.is_binary(column.type)
        if column.null_count and is_text and (format == "tsv" or len(columns) == 1):
            raise error(
                "C037",
                f"cannot write: values of column {name} are missing, which a .{format} file "
                f"{'of one column ' if format == 'csv' else ''}cannot tell from empty ones",
                help="write .parquet or .json, or replace them with coalesce",
            )


def _csv_line(row: Sequence[object]) -> str:
    """Fields with commas between them; an empty text has quotes, and a missing value none."""
    fields = ["" if value is None else _quote(field(value)) for value in row]
    return ",".join(fields if fields != [""] else ['""']) + "\n"  # readers skip empty lines


def _quote(text: str) -> str:
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if _NEEDS_QUOTES.search(text) else text


def _tsv_line(row: Sequence[object]) -> str:
    fields = [field(value) for value in row]
    if fields == [""]:  # readers skip empty lines
        raise unwritable()
    return "\t".join(_plain(text) for text in fields) + "\n"


def _check_names(table: pa.Table) -> None:
    """C037 where a JSON object would lose a column to another of the same name."""
    first: dict[str, int] = {}
    for i, name in enumerate(table.column_names):
        at = first.setdefault(name, i)
        if at != i and not table.column(at).equals(table.column(i)):
            raise error(
                "C037", f"cannot write: two columns named {name}, and JSON keeps only one",
                help="give every column a name of its own, or write .csv or .parquet",
            )  # fmt: skip


def field(value: object) -> str:
    """A value as text that `values.parse` reads back."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=_write_field)
    return (
        "" if value is None else write_value(cast("Value", value))
    )  # only answers of SQL have None


def _write_field(value: Any) -> str:
    return write_value(value)


def as_json(names: Sequence[str], row: Sequence[object]) -> str:
    """A row as a JSON object; decimals are numbers with all their digits."""
    named = dict(zip(names, row, strict=True))  # columns with the same name are equal
    cells = (f"{json.dumps(n, ensure_ascii=False)}: {_json(v)}" for n, v in named.items())
    return f"{{{', '.join(cells)}}}"


def _json(value: object) -> str:
    match value:
        case Decimal():
            return write_value(value)
        case dt.date() | dt.timedelta() | bytes():
            return json.dumps(write_value(value))
        case list() | dict():
            return json.dumps(value, ensure_ascii=False, default=_write_field)
        case float() if not math.isfinite(value):  # JSON has no such numbers; readers take these
            return json.dumps(write_value(value))
        case _:
            return json.dumps(value, ensure_ascii=False)


def _to_stream(
    table: pa.Table, raw: BinaryIO, name: str, format: str, *, header: bool, start: str = ""
) -> None:
    """Write a table to a stream that stays open, compressed as the file's name says."""
    if format in _COLUMNAR:
        try:
            _write_columnar(table, raw, format)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
            raise cannot_write(name, str(problem).partition("\n")[0]) from None
        return
    with _compress(raw, compression(name)) as binary:
        stream = io.TextIOWrapper(binary, encoding="utf-8", newline="")
        try:
            stream.write(start)
            to_text(table, stream, format, header=header)
        finally:
            stream.detach()  # written out, and left open


def _write_columnar(table: pa.Table, raw: BinaryIO, format: str) -> None:
    if format == "orc":
        _write_orc(table, raw)
        return
    import pyarrow.parquet as pq

    pq.write_table(table, raw)


class _LateErrors(io.RawIOBase):
    """A stream that keeps the first error of another and takes no bytes after it.

    The ORC writer of Arrow ends the process if a write fails, so none may.
    """

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self._problem: BaseException | None = None

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self._problem is None:
            try:
                self._raw.write(data)
            except BaseException as problem:
                self._problem = problem
        return len(data)

    @property
    def failed(self) -> bool:
        """True once a write failed."""
        return self._problem is not None

    def check(self) -> None:
        """Raise the error that was kept."""
        if self._problem is not None:
            raise self._problem


def _write_orc(table: pa.Table, raw: BinaryIO) -> None:
    """Write ORC, batch by batch; intervals are numbers with the mark that Spark gives them."""
    from pyarrow import orc

    held = _held_by_orc(table)
    stream = _LateErrors(raw)
    with orc.ORCWriter(stream) as writer:
        for start in range(0, max(held.num_rows, 1), _ROWS):
            writer.write(held.slice(start, _ROWS))
            if stream.failed:
                break
    stream.check()


_SIGNED: Final[dict[int, Any]] = {8: pa.int16(), 16: pa.int32(), 32: pa.int64(), 64: pa.int64()}
"""The types that hold unsigned integers, by their bits; a `ulong` ends where a long does."""


def _held_by_orc(table: pa.Table) -> pa.Table:
    """The columns of a table as ORC has them; C037 for datetimes that Arrow cannot read back."""
    given: Any = table
    fields: list[Any] = []
    columns: list[Any] = []
    for own, column in zip(given.schema, given.columns, strict=True):
        field = own
        if pa.types.is_timestamp(field.type):
            _check_moments(field.name, column)
        elif pa.types.is_duration(field.type):
            meant = {SPARK_TYPE: "interval day to second"}
            column = column.cast(pa.duration("us")).cast(pa.int64())
            field = pa.field(field.name, pa.int64(), field.nullable, metadata=meant)
        elif pa.types.is_unsigned_integer(field.type):
            field = field.with_type(_SIGNED[field.type.bit_width])
            column = column.cast(field.type)
        fields.append(field)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _check_moments(name: str, column: Any) -> None:
    import pyarrow.compute

    compute: Any = pyarrow.compute
    ends = compute.min_max(column)
    for end in (ends["min"].as_py(), ends["max"].as_py()):
        if end is not None and not ORC_MOMENTS[0] <= end.replace(tzinfo=None) <= ORC_MOMENTS[1]:
            raise error(
                "C037",
                f"cannot write: {end} in column {name} is outside of {ORC_RANGE}, the datetimes "
                "that Arrow reads from ORC",
                help="write .parquet instead",
            )


@contextmanager
def _compress(raw: BinaryIO, kind: str | None) -> Generator[Any]:
    if kind is None:
        yield raw
    elif kind == "gzip":  # mtime=0: the same facts make the same bytes
        with gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) as binary:
            yield binary
    else:
        with (
            pa.PythonFile(raw, "w") as whole,
            pa.CompressedOutputStream(whole, kind) as binary,
        ):
            yield binary


def unwritable(text: str | None = None) -> CaladanError:
    """C037: a text that would break or lose the columns or lines of a file without quotes."""
    what = "a text that is alone and empty, or" if text is None else f"{text!r}"
    return error(
        "C037",
        f"cannot write: {what} has a tab, a line end or a byte order mark, which a .tsv file "
        "cannot hold",
        help="write .csv instead",
    )


def _plain(text: str) -> str:
    if _BREAKS_TABS.search(text):
        raise unwritable(text)
    return text
