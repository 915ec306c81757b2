"""Programs in files: their text, and where a file that one of them includes is.

A name in an `include` is relative to the folder of the file it stands in; in a text that came from
no file, to the folder that Caladan runs in. Regular files with text are included, and nothing else,
from below the folder of the program that is run, or below a folder that CALADAN_INCLUDE names: a
program that somebody sent reads no other file of whoever runs it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from caladan.program.diagnostics import Place, RelatedSpan, Span, error

ALLOWED: Final = "CALADAN_INCLUDE"
"""The environment variable with further folders to include from, as PATH has them."""


def root_of(name: str) -> str:
    """The folder that a program of this name may include from: its own, links resolved."""
    return os.path.realpath("." if is_unnamed(name) else os.path.dirname(_expand(name)) or ".")  # noqa: PTH120


def is_below(name: str, folder: str) -> bool:
    """Whether a file is below a folder, wherever links lead.

    >>> is_below("/srv/a/rules/b.dl", "/srv/a"), is_below("/srv/a/../b.dl", "/srv/a")
    (True, False)
    """
    return Path(identity(name)).is_relative_to(folder)


def require_allowed(name: str, root: str, included: Span) -> None:
    """Raise C035 for a file that is neither below a program's folder nor below an allowed one."""
    further = filter(None, os.environ.get(ALLOWED, "").split(os.pathsep))
    if any(is_below(name, os.path.realpath(folder)) for folder in (root, *further)):
        return
    raise error(
        "C035",
        f"cannot read `{name}`: it is not below the folder of the program",
        included,
        help=f"move it there, or name its folder in the environment variable {ALLOWED}",
    )


def text_of(name: str, included: Span | None = None) -> str:
    """The text of a file; `included` is where it is asked for, if that is a program."""
    path = Path(_expand(name))
    place = included or Place(name)
    what = "the program" if included is None else f"`{name}`"
    try:
        if included is not None and path.exists() and not path.is_file():
            raise error("C035", f"cannot read {what}: it is not a regular file", place)
        data = path.read_bytes()
        if included is not None and b"\0" in data:
            raise error("C035", f"cannot read {what}: it is not text", place)
        return decode(data, name, included)
    except FileNotFoundError:
        missing = "no such program file" if included is None else f"there is no file {what}"
        raise error("C030", missing, place) from None
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or "it cannot be read"
        raise error("C035", f"cannot read {what}: {reason}", place) from None


def decode(data: bytes, name: str, included: Span | None = None) -> str:
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
    return os.path.realpath(_expand(name))


def is_unnamed(name: str) -> bool:
    """Whether a program came from no file: `<program>`, `<stdin>`."""
    return name.startswith("<")


def _expand(name: str) -> str:
    """A path with `~` replaced, where there is such a home."""
    return os.path.expanduser(name)  # noqa: PTH111 # pathlib's raises where there is none
