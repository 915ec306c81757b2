"""Tables that live elsewhere, as frames: read and written by Spark's own readers and writers.

By JDBC, Spark asks the driver for values of the type that a column is declared with. Where that
would lose something without a word, `_exact` asks for another: SQLite keeps 64 bits in columns that
its driver calls 32 bits wide, and a number of more digits than Spark's widest decimal is rounded.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

from caladan.data.external import CatalogTable, External, Jdbc, StoredFiles
from caladan.data.folder import NOT_SPREAD, Spread, spread_over
from caladan.data.frames import first_line
from caladan.data.output import cannot_write, check_mode
from caladan.data.problems import cannot_read, not_found
from caladan.data.source import Source
from caladan.engines.spark.columns.types import OUTSIDE
from caladan.engines.spark.session.failures import quietly, said
from caladan.engines.spark.sources.fields import from_text
from caladan.program import Type
from caladan.program.diagnostics import CaladanError, error

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, DataFrameReader, SparkSession

_DRIVER: Final = (
    'bring the jar of its driver: connect(conf={"spark.jars": "driver.jar"}), '
    "or `--conf spark.jars=driver.jar`"
)
_DELTA: Final = "install delta-spark and start the session with it, as its documentation says"
_FORMAT: Final = (
    'bring its jar: connect(conf={"spark.jars.packages": "group:artifact:version"}), '
    "or `--conf spark.jars.packages=…`"
)
_ABSENT: Final = ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_TABLE_NOT_FOUND")
_PRESENT: Final = ("ALREADY_EXISTS", "already exists")
_NO_TABLE: Final = ("no such table", "does not exist", "doesn't exist")
_MAKE_IT: Final = (
    "Spark makes no tables in this database: make it there, then write with mode append"
)
_WIDER: Final = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}
_NO_SOURCE: Final = (
    "DATA_SOURCE_NOT_FOUND",
    "Failed to find data source",
    "ClassNotFoundException",
)


def open_source(relation: str, source: Source, session: SparkSession) -> Source:
    """A source that lives elsewhere as a DataFrame; no row has been read yet."""
    place = source.place
    assert place is not None
    place.hide()
    try:
        with quietly():
            return replace(source, kind="spark", data=_frame(place, session))
    except (PySparkException, Py4JError) as problem:
        raise unreadable(relation, place, problem) from None


def unreadable(relation: str, place: External, problem: BaseException) -> CaladanError:
    """What Spark said about a table that it cannot read."""
    text = said(problem)
    if any(mark in text for mark in _ABSENT):
        return not_found(relation, place.shown, what="no such table")
    return cannot_read(relation, place.shown, *_reason(place, text))


def write(
    relation: Any,
    place: External,
    format: str | None,
    mode: str,
    session: Any,
    spread: Spread = NOT_SPREAD,
) -> None:
    """Write a relation to a table elsewhere."""
    check_mode(place.shown, mode, exists=False)
    if isinstance(place, Jdbc) and place.table is None:
        raise error("C050", "a query cannot be written to", help="name a table")
    if format is not None and not isinstance(place, CatalogTable):
        raise error("C050", f"{place.shown} has its own format, not {format!r}")
    if spread.buckets and not isinstance(place, CatalogTable):
        raise error("C050", "Spark supports buckets for catalog tables only: cal.table(…)")
    place.hide()
    try:
        with quietly():
            writer = spread_over(relation.frame(session).write.mode(mode), spread)
            _save(writer, place, format)
    except (PySparkException, Py4JError) as problem:
        text = said(problem)
        if mode == "error" and any(mark in text for mark in _PRESENT):
            check_mode(place.shown, mode, exists=True)
        reason, help = _reason(place, text)
        if isinstance(place, Jdbc) and any(mark in reason for mark in _NO_TABLE):
            help = _MAKE_IT
        raise cannot_write(place.shown, reason, help) from None


def _frame(place: External, session: SparkSession) -> DataFrame:
    match place:
        case CatalogTable():
            return session.read.options(**dict(place.options)).table(place.name)
        case StoredFiles():
            options = dict(place.options)
            return session.read.format(place.format).options(**options).load(place.path)
        case Jdbc():
            # A timestamp of a database has no zone; the JVM's would be put on it otherwise.
            reader = session.read.format("jdbc").option("preferTimestampNTZ", "true")
            return _exact(place, reader.options(**_options(place)))


def _exact(place: Jdbc, reader: DataFrameReader) -> DataFrame:
    """The rows of a table without any loss; an error in the job that meets a number too long."""
    frame = reader.load()
    is_sqlite = place.url.startswith("jdbc:sqlite:")
    asked: dict[str, str] = {}
    for name, spelled in frame.dtypes:
        if is_sqlite and spelled in _WIDER:
            asked[name] = _WIDER[spelled]
        elif spelled.startswith("decimal(38,"):
            asked[name] = "string"
    if not asked or any(name == "customSchema" for name, _ in place.properties):
        return frame
    fields = ", ".join(f"`{name.replace('`', '``')}` {type}" for name, type in asked.items())
    exact = reader.option("customSchema", fields).load()
    # Columns are told apart by their places: a query may give two of them one name.
    numbered = exact.toDF(*(f"c{i}" for i in range(len(exact.columns))))
    pairs = enumerate(frame.dtypes)
    values = [
        _decimal(sf.col(f"c{i}"), name) if spelled.startswith("decimal(38,") else sf.col(f"c{i}")
        for i, (name, spelled) in pairs
    ]
    return numbered.select(*values).toDF(*frame.columns)


def _decimal(text: Column, name: str) -> Column:
    number = from_text(text, Type.DECIMAL)
    problem = sf.concat(sf.lit(f"column {name} has a number that is no decimal here: "), text)
    wrong = sf.raise_error(problem).cast(OUTSIDE[Type.DECIMAL])
    return sf.when(text.isNull() | number.ok, number.value).otherwise(wrong)


def _save(writer: Any, place: External, format: str | None) -> None:
    match place:
        case CatalogTable():
            writer = writer.options(**dict(place.options))
            (writer if format is None else writer.format(format)).saveAsTable(place.name)
        case StoredFiles():
            writer.format(place.format).options(**dict(place.options)).save(place.path)
        case Jdbc():
            writer.format("jdbc").options(**_options(place)).save()


def _options(place: Jdbc) -> dict[str, str]:
    what = ("query", place.query) if place.table is None else ("dbtable", place.table)
    return {**dict(place.properties), "url": place.url, what[0]: what[1] or ""}


def _reason(place: External, text: str) -> tuple[str, str | None]:
    """What Spark said, without secrets, and what to do about it."""
    if isinstance(place, Jdbc) and ("No suitable driver" in text or "ClassNotFound" in text):
        return "no driver for this database", _DRIVER
    if isinstance(place, StoredFiles) and any(mark in text for mark in _NO_SOURCE):
        if place.format == "delta":
            return "this Spark session has no Delta", _DELTA
        return f"this Spark session has no format {place.format!r}", _FORMAT
    return first_line(text), None
