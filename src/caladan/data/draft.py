"""Files written whole or not at all.

`created` hands out a draft beside the file, which takes its place once it is complete; `appended`
the file itself, which is cut back to what it was if anything goes wrong. The draft has a name that
nobody can guess and must be new, so that a link put in its way is never followed.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, cast

import pyarrow as pa

from caladan.data.source import compression
from caladan.program.diagnostics import CaladanError, Place, error

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
_CHUNK: Final = 1 << 20


def cannot_write(path: str, reason: str, help: str | None = None) -> CaladanError:
    """C037."""
    return error("C037", f"cannot write: {reason}", Place(path), help=help)


@contextmanager
def created(path: Path) -> Generator[BinaryIO]:
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
def appended(path: Path) -> Generator[BinaryIO]:
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
