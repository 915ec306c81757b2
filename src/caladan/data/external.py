"""Tables that live elsewhere, and that Spark reads and writes: by JDBC, in its catalog, as files.

`jdbc(…)`, `table(…)` and `stored(…)` name such a table; `db.add` reads it, `relation.write` writes
it. What may be a secret (a password in a URL, in properties) is in no message and in no repr
(secrets.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from caladan.data import secrets
from caladan.program.diagnostics import error

JDBC: Final = "jdbc:"
CATALOG: Final = "table:"

_PART: Final = r'(?:[^\W\d][\w$]*|"[^"]+"|`[^`]+`|\[[^\]]+\])'
_TABLE: Final = re.compile(rf"{_PART}(?:\.{_PART})*")
_OURS: Final = ("url", "dbtable", "query")


@dataclass(frozen=True, slots=True, repr=False)
class Jdbc:
    """A table of a database, or what a query of it gives."""

    url: str
    table: str | None
    query: str | None
    properties: tuple[tuple[str, str], ...]

    @property
    def shown(self) -> str:
        """What to call it."""
        return f"{secrets.shown(self.url)} ({self.table or 'a query'})"

    def hide(self) -> None:
        """Have its secrets kept out of what is told from now on."""
        secrets.hide(self.url, self.properties)

    def __repr__(self) -> str:
        return f"<{self.shown}>"


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table or view that Spark's catalog knows; options are its format's, such as a version."""

    name: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        return f"the table {self.name}"

    def hide(self) -> None:
        """There is no secret in a name."""


@dataclass(frozen=True, slots=True, repr=False)
class StoredFiles:
    """Files, or a folder, in a format that Spark has a reader or writer for."""

    path: str
    format: str
    options: tuple[tuple[str, str], ...] = ()

    @property
    def shown(self) -> str:
        return self.path

    def hide(self) -> None:
        """Have secrets of its options kept out of what is told from now on."""
        if self.options:
            secrets.hide(f"stored:{self.path}", self.options)

    def __repr__(self) -> str:
        return f"<{self.shown} ({self.format})>"


External: TypeAlias = Jdbc | CatalogTable | StoredFiles


def is_url(text: str) -> bool:
    """Whether a text is a URL of a database."""
    return text.lstrip()[: len(JDBC)].lower() == JDBC


def jdbc(
    url: str,
    table: str | None = None,
    *,
    query: str | None = None,
    properties: Mapping[str, object] | None = None,
) -> Jdbc:
    """A table of a database, or what a query gives; the spark engine reads it, and writes tables.

    `properties` are those of the driver (`user`, `password`, …) and Spark's options for JDBC
    (`driver`, `fetchsize`, `partitionColumn`, …). The driver's jar is yours to bring:
    `connect(conf={"spark.jars": "driver.jar"})`.

    >>> jdbc("jdbc:postgresql://ann:sesame@db.example/shop?ssl=true", "sales")
    <jdbc:postgresql://db.example (sales)>
    """
    if not is_url(url):
        raise error("C050", "the URL of a database starts with `jdbc:`", help=_EXAMPLE)
    if (table is None) == (query is None):
        raise error("C050", "name a table of the database, or give a query", help=_EXAMPLE)
    if table is not None and not _TABLE.fullmatch(table):
        raise error(
            "C050", f"{table!r} is not a table name",
            help="quote names with other characters; pass SQL as `query=`",
        )  # fmt: skip
    given = dict(properties or {})
    for name in _OURS:
        if name in given:
            raise error("C050", f"`{name}` is not a property but an argument")
    return Jdbc(url, table, query, _options(given))


def table(name: str, *, options: Mapping[str, object] | None = None) -> CatalogTable:
    """A table or view that Spark's catalog knows by this name: `table("sales.orders")`.

    `options` are those of its format: a snapshot to read, or how it is written.
    """
    if not name.strip():
        raise error("C050", "the name of a table is missing")
    return CatalogTable(name, _options(options))


def stored(path: str, format: str, *, options: Mapping[str, object] | None = None) -> StoredFiles:
    """Files or a folder in any format that this Spark has a reader for: delta, iceberg, avro, …

    `options` go to the reader or the writer as they are. Formats that do not come with Spark need
    their jars: `connect(conf={"spark.jars.packages": …})`.
    """
    if not format.strip():
        raise error("C050", "the name of a format is missing")
    return StoredFiles(str(path), format, _options(options))


def _options(given: Mapping[str, object] | None) -> tuple[tuple[str, str], ...]:
    return tuple((key, _text(value)) for key, value in (given or {}).items())


def parse_name(text: str, relation: str, environment: Mapping[str, str]) -> External | None:
    """What a text names: `jdbc:URL#TABLE` or `table:NAME`; None if it is a path.

    Without `#TABLE` the table is called like the relation. So that a password need not stand on a
    command line, CALADAN_JDBC_USER and CALADAN_JDBC_PASSWORD are asked for what is not in the URL.
    """
    if text.startswith(CATALOG):
        return table(text.removeprefix(CATALOG))
    if not is_url(text):
        return None
    url, _, name = text.rpartition("#") if "#" in text else (text, "", "")
    if name and not _TABLE.fullmatch(name):  # it may be part of a password: it is not told
        raise error("C050", "the text after the last `#` is not a table name", help=_SPELLED)
    found = {
        key: environment[variable]
        for key, variable in (("user", "CALADAN_JDBC_USER"), ("password", "CALADAN_JDBC_PASSWORD"))
        if variable in environment
    }
    return jdbc(url, name or relation, properties=found)


_SPELLED: Final = "as in jdbc:postgresql://host/database#sales; a `#` of the URL is written %23"
_EXAMPLE: Final = 'as in jdbc("jdbc:postgresql://host/database", "sales", properties={…})'


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
