"""Programs in files: their text, and where a file that one of them includes is.

A name in an `include` is relative to the folder of the file it stands in; in a text that came from
no file, to the folder that Caladan runs in. Regular files are included, and nothing else.
"""

from __future__ import annotations

import os
from pathlib import Path

from caladan.program.diagnostics import Place, RelatedSpan, Span, error


def text_of(name: str, included: Span | None = None) -> str:
    """The text of a file; `included` is where it is asked for, if that is a program."""
    path = Path(_expanded(name))
    place = included or Place(name)
    what = "the program" if included is None else f"`{name}`"
    try:
        if included is not None and path.exists() and not path.is_file():
            raise error("C035", f"cannot read {what}: it is no regular file", place)
        return decoded(path.read_bytes(), name, included)
    except FileNotFoundError:
        missing = "no such program file" if included is None else f"there is no file {what}"
        raise error("C030", missing, place) from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it cannot be read"
        raise error("C035", f"cannot read {what}: {reason}", place) from None


def decoded(data: bytes, name: str, included: Span | None = None) -> str:
    """Bytes as text; C033 at the first that is none."""
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        before = problem.object[: problem.start]
        line = before.count(b"\n") + 1
        column = problem.start - (before.rfind(b"\n") + 1) + 1
        reason = f"byte 0x{problem.object[problem.start]:02x} is not UTF-8 text"
        related = [] if included is None else [RelatedSpan("included here", included)]
        raise error("C033", reason, Place(name, line, column), related=related) from None


def beside(name: str, asked: str) -> str:
    """The name of a file that a program of this name includes."""
    folder = "" if is_unnamed(name) else os.path.dirname(name)  # noqa: PTH120 # `a/../b` is kept
    return str(Path(folder) / asked)


def identity(name: str) -> str:
    """One text for all names of a file; a text that came from no file is unlike all others."""
    if is_unnamed(name) or "\0" in name:  # which no file has in its name
        return name
    return os.path.realpath(_expanded(name))


def is_unnamed(name: str) -> bool:
    """Whether a program came from no file: `<program>`, `<stdin>`."""
    return name.startswith("<")


def _expanded(name: str) -> str:
    """A path with `~` replaced, where there is such a home."""
    return os.path.expanduser(name)  # noqa: PTH111 # pathlib's raises where there is none
