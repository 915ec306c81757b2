"""Options: how a run is to be done, and where it must stop.

`RunOptions` is what can be said, `check_options` the one place that looks at it, from Python and
from the command line alike, `Options` what engines read.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, SupportsIndex, TypeAlias, TypedDict, cast, get_args

from caladan.program.diagnostics import CaladanError, Diagnostics, did_you_mean, error

EngineName: TypeAlias = Literal["spark", "embedded", "reference"]
LanguageName: TypeAlias = Literal["deals", "souffle", "rasql"]
WriteMode: TypeAlias = Literal["error", "overwrite", "append"]
FileFormat: TypeAlias = Literal["csv", "tsv", "json", "jsonl", "parquet", "orc", "delta"]
StrategyName: TypeAlias = Literal["single", "cubed", "pivoted", "meshed", "frame"]
GradeName: TypeAlias = Literal[
    "jessica", "paul", "ghanima", "leto", "rows", "values", "intersection", "exact"
]

STRATEGIES: Final[tuple[str, ...]] = get_args(StrategyName)
"""The ways of running a clique on Spark."""

GRADE_ALIASES: Final = {
    "rows": "jessica",
    "values": "paul",
    "intersection": "ghanima",
    "exact": "leto",
}
"""Plain names for the grades of estimate: what each of them compares."""

GRADES: Final = tuple(GRADE_ALIASES.values())
"""The grades of estimate of the guided search."""

_SIZE: Final = re.compile(r"\s*(\d+)\s*([kmg]?)(?:i?b)?\s*", re.IGNORECASE | re.ASCII)
_UNITS: Final = {"": 0, "k": 10, "m": 20, "g": 30}


class RunOptions(TypedDict, total=False):
    """The keywords of `Session.run` and its kin; what they mean stands at `Options`."""

    max_rounds: int | None
    max_facts: int | None
    timeout: float | None
    permissive: bool
    strategy: StrategyName | None
    memory: int | str | None
    search: GradeName | None
    checkpoint: str | os.PathLike[str] | None
    partitions: int | None
    keep: bool


class FileOptions(TypedDict, total=False):
    """The keywords of `Session.add` and its kin, for files; what they mean stands at `Source`."""

    format: FileFormat | None
    delimiter: str | None
    header: bool | None


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may ask of a run. A limit that is None does not exist.

    `max_rounds` bounds the rounds of each clique, `max_facts` the facts derived by the whole run,
    `timeout` its seconds. A run that meets a limit ends with diagnostic C042; what was derived so
    far stays readable. `memory` bounds the bytes of relations that the embedded engine holds in
    memory: most of what the machine has, without it; runs beyond that go to disk. `permissive` sets
    bad rows of input files aside instead of failing. `strategy` forces a way of running cliques on
    Spark. `search` sends cyclic bodies through the
    guided search on the embedded engine, by a grade of estimate: jessica, paul, ghanima or leto,
    or by what each compares: rows, values, intersection, exact.
    `checkpoint` is a folder, or the URI of one, in which recursion on Spark is saved now and then
    by strategy *meshed*, so that what is tried or run again goes on from there. `partitions` is how
    many strategy *frame* makes of every relation, whatever its size. With `keep` False a
    run neither reads relations that earlier runs derived, nor keeps its own for later ones.
    """

    max_rounds: int | None = None
    max_facts: int | None = None
    timeout: float | None = None
    permissive: bool = False
    strategy: str | None = None
    memory: int | None = None
    search: str | None = None
    checkpoint: str | None = None
    partitions: int | None = None
    keep: bool = True


def check_options(given: Mapping[str, Any]) -> Options:
    """Options that make sense, or C050 with all that do not."""
    found = Diagnostics()
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in _CHECKS:
            found.extend(no_option(name, _CHECKS).diagnostics)
            continue
        try:
            values[name] = None if value is None else _CHECKS[name](value)
        except ValueError as problem:
            known = _KNOWN.get(name, ())
            near = did_you_mean(value, known) if isinstance(value, str) else None
            found.add("C050", f"{name} must be {problem}, not {value!r}", help=near)
    if values.get("strategy") == "frame" and values.get("search") is not None:
        said = "strategy frame cannot take search: its joins are Spark's own plans"
        found.add("C050", said, help="leave out one of the two")
    found.raise_errors()
    for name in _FLAGS:
        if values.get(name, True) is None:
            del values[name]
    return Options(**values)


def no_option(name: str, known: Collection[str]) -> CaladanError:
    """C050: a keyword that means nothing."""
    message = f"there is no option {name!r}; there are {', '.join(known)}"
    return error("C050", message, help=did_you_mean(name, known))


def _whole(given: object) -> int:
    """A count of at least 1; numbers of NumPy are as good as Python's."""
    wanted = "a whole number greater than 0"
    if isinstance(given, bool) or not hasattr(given, "__index__"):
        raise ValueError(wanted)
    try:
        number = int(cast("SupportsIndex", given).__index__())
    except TypeError:  # arrays of NumPy have the method, and refuse
        raise ValueError(wanted) from None
    if number <= 0:
        raise ValueError(wanted)
    return number


def _seconds(given: object) -> float | None:
    wanted = "a number of seconds greater than 0"
    if isinstance(given, bool | str | bytes) or not hasattr(given, "__float__"):
        raise ValueError(wanted)
    try:
        seconds = float(cast("Any", given))
    except (TypeError, ValueError, OverflowError):
        raise ValueError(wanted) from None
    if not seconds > 0:  # which NaN is not either
        raise ValueError(wanted)
    return None if math.isinf(seconds) else seconds


def _size(given: object) -> int:
    """Bytes, as a number or as text; k, m and g are powers of 1024.

    >>> _size("500m") == _size(500 << 20)
    True
    """
    if isinstance(given, str) and (found := _SIZE.fullmatch(given)):
        given = int(found[1]) << _UNITS[found[2].lower()]
    try:
        return _whole(given)
    except ValueError:
        raise ValueError("a number of bytes greater than 0, or a size such as '500m'") from None


def _flag(given: object) -> bool:
    if isinstance(given, bool) or type(given).__name__ in ("bool_", "bool"):
        return bool(given)
    raise ValueError("True or False")


def _one_of(names: Iterable[str]) -> Callable[[object], str]:
    def check(given: object) -> str:
        if isinstance(given, str) and given in names:
            return given
        raise ValueError(f"one of {', '.join(names)}")

    return check


def _grade(given: object) -> str:
    """A grade by its name or by what it compares.

    >>> _grade("exact")
    'leto'
    """
    known = _one_of((*GRADES, *GRADE_ALIASES))(given)
    return GRADE_ALIASES.get(known, known)


def _folder(given: object) -> str:
    """A URI as it is, a path in full: tasks have other working directories."""
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else ""
    if not isinstance(text, str) or not text:
        raise ValueError("the path or URI of a folder")
    return text if "://" in text else str(Path(text).expanduser().absolute())


_KNOWN: Final = {"strategy": STRATEGIES, "search": (*GRADES, *GRADE_ALIASES)}

_FLAGS: Final = ("permissive", "keep")

_CHECKS: Final[dict[str, Callable[[object], object]]] = {
    "max_rounds": _whole,
    "max_facts": _whole,
    "timeout": _seconds,
    "permissive": _flag,
    "keep": _flag,
    "strategy": _one_of(STRATEGIES),
    "memory": _size,
    "search": _grade,
    "checkpoint": _folder,
    "partitions": _whole,
}

KNOWN: Final = frozenset(_CHECKS)
"""The names of all options."""
