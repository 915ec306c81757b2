"""Facts written to a folder: by Spark, if there is a session, else as one file inside it."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from caladan.data import output
from caladan.data.frames import first_line
from caladan.data.source import suffix
from caladan.program.diagnostics import error

if TYPE_CHECKING:
    import pyarrow as pa


class Writable(Protocol):
    """What is written: facts that can leave as Arrow or as a DataFrame."""

    def arrow(self) -> pa.Table:
        """All facts."""
        ...

    def frame(self, session: Any) -> Any:
        """All facts, for Spark."""
        ...


@dataclass(frozen=True, slots=True)
class Spread:
    """How Spark spreads what it writes: a folder for each value, files by a hash of columns."""

    folders: tuple[str, ...] = ()
    buckets: int = 0
    by: tuple[str, ...] = ()


NOT_SPREAD: Final = Spread()


def spread(
    columns: Sequence[str],
    partition_by: str | Sequence[str],
    bucket_by: tuple[int, str | Sequence[str]] | None,
) -> Spread:
    """What a user asks for; C050 if a relation has no such columns."""
    folders = _names(partition_by)
    buckets, given = bucket_by if bucket_by is not None else (0, ())
    by = _names(given)
    for name in (*folders, *by):
        if name not in columns:
            raise error("C050", f"there is no column {name!r}; there are {', '.join(columns)}")
    if bucket_by is not None and (buckets < 1 or not by):
        raise error("C050", "bucket_by takes a number and a column: bucket_by=(8, 'A')")
    return Spread(folders, buckets, by)


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def spread_over(writer: Any, spread: Spread) -> Any:
    """A writer of Spark's that spreads what it writes."""
    if spread.folders:
        writer = writer.partitionBy(*spread.folders)
    return writer.bucketBy(spread.buckets, *spread.by) if spread.buckets else writer


_UNWRITABLE: Final = "caladan: a text that a file without quotes cannot hold"

_PART: Final = re.compile(r"part-.*|_SUCCESS|_temporary|\.(part-.*|_SUCCESS)\.crc|\w+=.*")
"""What a folder of facts holds: parts, marks, checksums, partitions."""

_SPARK_FORMAT: Final = {"tsv": "csv", "jsonl": "json"}

_MOMENTS: Final = {
    # Left to itself, Spark drops microseconds; and seconds of the offsets that zones once had.
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]'Z'",
    "timeZone": "UTC",
}
_AS_WE_WRITE: Final = {
    # Left to itself, Spark drops blanks, and escapes quotes with backslashes.
    "csv": {
        **_MOMENTS,
        "ignoreLeadingWhiteSpace": False,
        "ignoreTrailingWhiteSpace": False,
        "escape": '"',
    },
    "json": _MOMENTS,
}


def is_folder(path: str) -> bool:
    """Whether a path means a folder: a URI, a trailing slash, no suffix, or one that is there."""
    return "://" in path or path.endswith("/") or not suffix(path) or Path(path).is_dir()


def write(
    relation: Writable,
    path: str,
    format: str,
    mode: str,
    session: Any,
    spread: Spread = NOT_SPREAD,
    *,
    header: bool,
) -> None:
    """Write a relation into a folder."""
    format = output.format_of(path, format)
    if spread.buckets:
        raise error("C050", "Spark supports buckets for catalog tables only: cal.table(…)")
    if session is not None:
        _with_spark(relation, path, format, mode, session, spread, header=header)
        return
    if spread.folders:
        raise output.cannot_write(path, "only the spark engine partitions what it writes")
    if "://" in path:
        raise output.cannot_write(path, "only the spark engine writes remote files")
    target = Path(path).expanduser()
    _check(path, mode)
    if mode == "overwrite" and target.is_dir():
        for entry in target.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    name = f"part-{uuid.uuid4().hex[:8]}.{format}"
    output.write(relation.arrow(), target / name, format, "error", header=header)


def _with_spark(
    relation: Writable,
    path: str,
    format: str,
    mode: str,
    session: Any,
    spread: Spread,
    *,
    header: bool,
) -> None:
    if "://" not in path:
        _check(path, mode)
    else:
        output.check_mode(path, mode, exists=False)
    kind = _SPARK_FORMAT.get(format, format)
    frame = relation.frame(session)
    if kind in _AS_WE_WRITE:
        frame = _as_text(frame, tabbed=format == "tsv")
    writer = frame.write.mode(mode).format(kind).options(**_AS_WE_WRITE.get(kind, {}))
    if kind == "csv":
        writer = writer.options(sep="\t" if format == "tsv" else ",", header=header)
    if format == "tsv":
        writer = writer.options(quote="", emptyValue="")
    try:
        spread_over(writer, spread).save(path)
    except Exception as problem:
        if _UNWRITABLE in str(problem):
            raise output.unwritable() from None
        if mode == "error" and "ALREADY_EXISTS" in str(problem):
            output.check_mode(path, mode, exists=True)
        raise output.cannot_write(path, first_line(str(problem))) from None


def _as_text(frame: Any, *, tabbed: bool) -> Any:
    """Bytes as hexadecimal digits; where tabs part columns, an error for texts that would break."""
    from pyspark.sql import functions as sf

    columns: list[Any] = []
    for i, field in enumerate(frame.schema):
        column, kind = sf.col(f"c{i}"), field.dataType.simpleString()
        if kind == "binary":
            column = sf.lower(sf.hex(column))
        if kind in ("string", "binary") and tabbed:
            broken = column.rlike("[\t\n\r]" if len(frame.columns) > 1 else "[\t\n\r]|^$")
            column = sf.when(broken, sf.raise_error(sf.lit(_UNWRITABLE))).otherwise(column)
        columns.append(column.alias(field.name))
    # Positions for names: users' may need quoting, or be equal.
    numbered = frame.toDF(*(f"c{i}" for i in range(len(columns))))
    return numbered.select(*columns) if columns else frame


def _check(path: str, mode: str) -> None:
    """Refuse to write over what is there, and ever to empty a folder that holds other things."""
    target = Path(path).expanduser()
    entries = list(target.iterdir()) if target.is_dir() else []
    output.check_mode(path, mode, exists=bool(entries) or target.is_file())
    strange = next((e.name for e in entries if not _PART.fullmatch(e.name)), None)
    if mode == "overwrite" and strange is not None:
        raise output.cannot_write(
            path, f"the folder holds {strange!r}, which is no output of ours or of Spark",
            "choose another folder, or empty it yourself",
        )  # fmt: skip
