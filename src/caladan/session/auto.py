"""The engine of a session that was opened without one.

    >>> db = cal.connect()                       # doctest: +SKIP
    caladan: running in this process (engine embedded); cal.connect("spark") starts Spark
    >>> db.add("sales", cal.table("shop.sales"))  # doctest: +SKIP
    caladan: moving to Spark, which reads `sales`

A session starts on the embedded engine, which answers a small program in less time than Spark
needs to start. It starts on Spark if this process has a SparkSession or was started by Spark
(`finds_spark`), and it moves there once, with all its data, rules and functions, when it is given
something that asks for Spark:

    a Spark DataFrame; a table of a database or catalog; files on a remote store
    files that need more memory than the embedded engine may use
    an option that only Spark has: `strategy`, `checkpoint`, `partitions`

It does not move back. Where PySpark is not installed, size alone moves nothing: the embedded
engine spills to disk.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from caladan.program.options import Options

if TYPE_CHECKING:
    from caladan.data.source import Source
    from caladan.engines.interface import Engine

STARTED: Final = 'running in this process (engine embedded); cal.connect("spark") starts Spark'

# Set by spark-submit for the Python programs it starts, and by users of Spark Connect.
_STARTED_BY_SPARK: Final = ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")

_WORD: Final = 8  # bytes of a value in memory
_PACKED: Final = 2  # bytes of text in a byte of a compressed file: random edges by gzip have 2.0


class SparkWanted(NamedTuple):
    """Why a session moves to Spark, and the SparkSession that it must use, if any."""

    reason: str
    session: object = None


class Mover(NamedTuple):
    """Moves a session without a named engine to Spark, and reports it."""

    start: Callable[[object], Engine]
    """Returns a Spark engine on a SparkSession, or for None on any."""
    say: Callable[[str], None]


def say_on_stderr(line: str) -> None:
    """Write a line to stderr, marked as ours."""
    if sys.stderr is not None:
        sys.stderr.write(f"caladan: {line}\n")


@cache
def say_once(line: str) -> None:
    """Write a line to stderr, once in a process."""
    say_on_stderr(line)


def finds_spark() -> bool:
    """True if this process has a running SparkSession, or Spark started the process."""
    if any(os.environ.get(name) for name in _STARTED_BY_SPARK):
        return True
    if "pyspark.sql" not in sys.modules:  # whoever has a session has imported it
        return False
    from caladan.engines.spark.session.session import active

    return active() is not None


def wanted_for_options(options: Options) -> SparkWanted | None:
    """Spark, if an option requires it."""
    for name in ("strategy", "checkpoint", "partitions"):
        if getattr(options, name) is not None:
            return SparkWanted(f"which has the option `{name}`")
    return None


def wanted_for_data(name: str, given: Source, others: Iterable[Source]) -> SparkWanted | None:
    """Spark, if a source requires it, or is too large with the data so far."""
    if given.kind == "spark":
        frame: object = given.data
        return SparkWanted(f"where `{name}` is", getattr(frame, "sparkSession", None))
    if given.kind == "external" or given.is_remote:
        return SparkWanted(f"which reads `{name}`")
    if given.kind != "path" or find_spec("pyspark") is None:
        return None
    from caladan.fixpoint.limits import budget

    need, limit = _memory_of(given) + sum(map(_memory_of, others)), budget()
    if need <= limit:
        return None
    sizes = f"{need / 2**30:,.1f} GiB, and this process may use {limit / 2**30:,.1f}"
    return SparkWanted(f"because with `{name}` the data needs about {sizes}")


def _memory_of(source: Source) -> int:
    """Bytes that the files of a source may need in memory; 0 for data that is there already."""
    if source.kind == "changed":
        return sum(_memory_of(step) for _, step in source.steps)
    if source.kind != "path" or source.is_remote:
        return 0
    from caladan.data.source import files

    found = [path for path in files("", source) if path.is_file()]
    return int(sum(path.stat().st_size for path in found) * _growth(source, found))


def _growth(source: Source, found: list[Path]) -> float:
    """Bytes in memory for a byte in a file, as the first file shows it.

    Text has about as many digits as a word has bytes; files of columns say how many values they
    have.
    """
    from caladan.data.source import compression

    if not found:
        return 1
    if source.format == "parquet":
        from pyarrow import ArrowException
        from pyarrow.parquet import read_metadata

        with suppress(ArrowException, OSError):  # whoever reads it will say what is wrong with it
            about = read_metadata(found[0])
            return about.num_rows * about.num_columns * _WORD / max(found[0].stat().st_size, 1)
    return _PACKED if source.format == "orc" or compression(found[0].name) is not None else 1
