"""How deeply a program may be nested: deeper than anybody writes by hand, and never a stack trace.

Parsers and the passes over their trees recurse. `nested` gives them room, and turns what is too
deep even so into a diagnostic.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from caladan.program.diagnostics import CaladanError, Span, error

_FRAMES: Final = 8_000  # what the stack of a thread has room for


@contextmanager
def nested(what: str = "the program", place: Span | None = None) -> Generator[None]:
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
