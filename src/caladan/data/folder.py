"""Facts written to a folder: by Spark, if there is a session, else as one file inside it."""

from __future__ import annotations

import re
import shutil
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from caladan.data import output
from caladan.data.secrets import scrubbed
from caladan.data.source import suffix

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


_UNWRITABLE: Final = "caladan: a text that a file without quotes cannot hold"

_PART: Final = re.compile(r"part-.*|_SUCCESS|_temporary|\.(part-.*|_SUCCESS)\.crc|\w+=.*")
"""What a folder of facts holds: parts, marks, checksums, partitions."""

_SPARK_FORMAT: Final = {"tsv": "csv", "jsonl": "json"}

_AS_WE_WRITE: Final = {
    # Left to itself, Spark drops microseconds and blanks, and escapes quotes with backslashes.
    "csv": {
        "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]",
        "ignoreLeadingWhiteSpace": False,
        "ignoreTrailingWhiteSpace": False,
        "escape": '"',
    },
    "json": {"timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss[.SSSSSS]"},
}


def is_folder(path: str) -> bool:
    """Whether a path means a folder: a URI, a trailing slash, no suffix, or one that is there."""
    return "://" in path or path.endswith("/") or not suffix(path) or Path(path).is_dir()


def write(
    relation: Writable, path: str, format: str, mode: str, session: Any, *, header: bool
) -> None:
    """Write a relation into a folder."""
    format = output.format_of(path, format)
    if session is not None:
        _with_spark(relation, path, format, mode, session, header=header)
        return
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
    relation: Writable, path: str, format: str, mode: str, session: Any, *, header: bool
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
        writer.save(path)
    except Exception as problem:
        if _UNWRITABLE in str(problem):
            raise output.unwritable() from None
        if mode == "error" and "ALREADY_EXISTS" in str(problem):
            output.check_mode(path, mode, exists=True)
        first = str(problem).partition("\n")[0]
        raise output.cannot_write(path, scrubbed(first)) from None


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
