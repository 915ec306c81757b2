"""Tables that live elsewhere, as frames: read and written by Spark's own readers and writers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from caladan.data.external import CatalogTable, Delta, External, Jdbc
from caladan.data.output import cannot_write, check_mode
from caladan.data.problems import cannot_read, not_found
from caladan.data.source import Source
from caladan.engines.spark.failures import first_line, quietly
from caladan.errors import CaladanError, error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DRIVER: Final = (
    'bring the jar of its driver: connect(conf={"spark.jars": "driver.jar"}), '
    "or `--conf spark.jars=driver.jar`"
)
_DELTA: Final = "install delta-spark and start the session with it, as its documentation says"
_ABSENT: Final = ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")
_PRESENT: Final = ("ALREADY_EXISTS", "already exists")
_NO_SOURCE: Final = (
    "DATA_SOURCE_NOT_FOUND",
    "Failed to find data source",
    "ClassNotFoundException",
)


def opened(relation: str, source: Source, session: SparkSession) -> Source:
    """A source that lives elsewhere as a DataFrame; no row has been read yet."""
    place = source.place
    assert place is not None
    try:
        with quietly():
            return replace(source, kind="spark", data=_frame(place, session))
    except (PySparkException, Py4JError) as problem:
        raise unreadable(relation, place, problem) from None


def unreadable(relation: str, place: External, problem: BaseException) -> CaladanError:
    """What Spark said about a table that it cannot read."""
    text = str(problem)
    if any(mark in text for mark in _ABSENT):
        return not_found(relation, place.shown, what="no such table")
    return cannot_read(relation, place.shown, *_reason(place, text))


def write(relation: Any, place: External, format: str | None, mode: str, session: Any) -> None:
    """Write a relation to a table elsewhere."""
    check_mode(place.shown, mode, exists=False)
    if isinstance(place, Jdbc) and place.table is None:
        raise error("C050", "a query cannot be written to", help="name a table")
    if format is not None and not isinstance(place, CatalogTable):
        raise error("C050", f"{place.shown} has its own format, not {format!r}")
    try:
        with quietly():
            _save(relation.spark(session).write.mode(mode), place, format)
    except (PySparkException, Py4JError) as problem:
        text = str(problem)
        if mode == "error" and any(mark in text for mark in _PRESENT):
            check_mode(place.shown, mode, exists=True)
        raise cannot_write(place.shown, *_reason(place, text)) from None


def _frame(place: External, session: SparkSession) -> DataFrame:
    match place:
        case CatalogTable():
            return session.table(place.name)
        case Delta():
            return session.read.format("delta").load(place.path)
        case Jdbc():
            # A timestamp of a database has no zone; the JVM's would be put on it otherwise.
            reader = session.read.format("jdbc").option("preferTimestampNTZ", "true")
            return reader.options(**_options(place)).load()


def _save(writer: Any, place: External, format: str | None) -> None:
    match place:
        case CatalogTable():
            (writer if format is None else writer.format(format)).saveAsTable(place.name)
        case Delta():
            writer.format("delta").save(place.path)
        case Jdbc():
            writer.format("jdbc").options(**_options(place)).save()


def _options(place: Jdbc) -> dict[str, str]:
    what = ("query", place.query) if place.table is None else ("dbtable", place.table)
    return {**dict(place.properties), "url": place.url, what[0]: what[1] or ""}


def _reason(place: External, text: str) -> tuple[str, str | None]:
    """What Spark said, without secrets, and what to do about it."""
    if isinstance(place, Jdbc) and ("No suitable driver" in text or "ClassNotFound" in text):
        return "no driver for this database", _DRIVER
    if isinstance(place, Delta) and any(mark in text for mark in _NO_SOURCE):
        return "this Spark session has no Delta", _DELTA
    return place.scrubbed(first_line(text)), None
