"""Facts written to files: what `write` writes, `db.add` reads.

    csv      comma separated, quoted where need be, without a header line unless asked for
    tsv      tab separated, never quoted (also .facts)
    json     one array of objects; .jsonl and .ndjson one object in each line
    parquet, orc

A name that ends in .gz is compressed (csv, tsv, json). Files appear whole or not at all.
"""

from __future__ import annotations

import csv
import datetime as dt
import gzip
import io
import json
import os
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Final, TextIO, cast

import pyarrow as pa

from caladan.data.external import CatalogTable, Delta, External, Jdbc, named
from caladan.data.source import suffix
from caladan.errors import CaladanError, Place, error
from caladan.program import Value
from caladan.values import written

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


def elsewhere(path: object, format: str | None) -> External | None:
    """The table elsewhere that is meant, None if it is a file or a folder."""
    if isinstance(path, Jdbc | CatalogTable | Delta):
        return path
    return Delta(str(path)) if format == "delta" else named(str(path), "", os.environ)


def write(table: pa.Table, path: Path, format: str, mode: str, *, header: bool = False) -> None:
    """Write a table to a file."""
    check_mode(str(path), mode, exists=path.exists())
    if mode == "append" and path.exists():
        if format in ("parquet", "orc", "json"):
            raise cannot_write(
                str(path), f"a {format} file cannot be appended to",
                "append to a folder, or to a .csv, .tsv or .jsonl file",
            )  # fmt: skip
        _to_file(table, path, format, append=True, header=False)
        return
    # A hidden neighbour first, so that nobody ever sees half a file.
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _to_file(table, draft, format, append=False, header=header)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)
    except OSError as problem:
        raise cannot_write(str(path), problem.strerror or str(problem)) from None


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file that is no data: a report, statistics."""
    try:
        Path(path).expanduser().write_text(text, encoding="utf-8")
    except OSError as problem:
        raise cannot_write(os.fspath(path), problem.strerror or str(problem)) from None


def check_mode(path: str, mode: str, *, exists: bool) -> None:
    """Refuse to write over what is there, unless asked to."""
    if mode not in ("error", "overwrite", "append"):
        raise error("C050", f"unknown mode {mode!r}; known are error, overwrite and append")
    if exists and mode == "error":
        raise cannot_write(path, "it exists already", 'replace it with mode="overwrite"')


def cannot_write(path: str, reason: str, help: str | None = None) -> CaladanError:
    """C037."""
    return error("C037", f"cannot write: {reason}", Place(path), help=help)


def to_text(table: pa.Table, stream: TextIO, format: str, *, header: bool = False) -> None:
    """Write a table as csv, tsv, json or jsonl to a stream of text."""
    names = table.column_names
    if format == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        if header:
            writer.writerow(names)
        writer.writerows([field(value) for value in row] for row in rows(table))
    elif format == "tsv":
        lines = ([names] if header else []), ([field(v) for v in row] for row in rows(table))
        for part in lines:
            for fields in part:
                if fields == [""]:  # readers skip empty lines
                    raise unwritable()
                stream.write("\t".join(_plain(text) for text in fields) + "\n")
    elif format == "jsonl":
        stream.writelines(as_json(names, row) + "\n" for row in rows(table))
    else:
        separator = "[\n"
        for row in rows(table):
            stream.write(separator + as_json(names, row))
            separator = ",\n"
        stream.write("\n]\n" if table.num_rows else "[]\n")


def rows(table: pa.Table) -> Iterator[tuple[object, ...]]:
    """The rows as Python values, a batch at a time."""
    if not table.num_columns:
        yield from [()] * table.num_rows
    for batch in table.to_batches(max_chunksize=65536):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def field(value: object) -> str:
    """A value as text that `values.parse` reads back."""
    return "" if value is None else written(cast("Value", value))  # only answers of SQL have None


def as_json(names: Sequence[str], row: Sequence[object]) -> str:
    """A row as a JSON object; decimals are numbers with all their digits."""
    named = dict(zip(names, row, strict=True))  # of columns with the same name, the last
    cells = (f"{json.dumps(n, ensure_ascii=False)}: {_json(v)}" for n, v in named.items())
    return f"{{{', '.join(cells)}}}"


def _json(value: object) -> str:
    match value:
        case Decimal():
            return written(value)
        case dt.date() | bytes():
            return json.dumps(written(value))
        case _:
            return json.dumps(value, ensure_ascii=False)


def _to_file(table: pa.Table, path: Path, format: str, *, append: bool, header: bool) -> None:
    if format == "parquet":
        import pyarrow.parquet as pq

        pq.write_table(table, path)
        return
    if format == "orc":
        from pyarrow import orc

        orc.write_table(table, str(path))
        return
    mode = "ab" if append else "wb"
    with path.open(mode) as raw:
        compressed = ".gz" in path.suffixes
        # mtime=0: the same facts make the same bytes.
        binary = gzip.GzipFile(fileobj=raw, mode="wb", filename="", mtime=0) if compressed else raw
        with io.TextIOWrapper(binary, encoding="utf-8", newline="") as stream:
            to_text(table, stream, format, header=header)


def unwritable(text: str | None = None) -> CaladanError:
    """C037: a text that would break or lose the columns or lines of a file without quotes."""
    what = "a text that is alone and empty, or" if text is None else f"{text!r}"
    return error(
        "C037",
        f"cannot write: {what} has a tab or a line end, which a .tsv file cannot hold",
        help="write .csv instead",
    )


def _plain(text: str) -> str:
    if any(character in text for character in "\t\n\r"):
        raise unwritable(text)
    return text
