"""Tables that live elsewhere, and that Spark reads and writes: by JDBC, in its catalog, of Delta.

`jdbc(…)` and `table(…)` name such a table; `db.add` reads it, `relation.write` writes it. What may
be a secret (a password in a URL, in properties) is in no message and in no repr.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from caladan.errors import error

JDBC: Final = "jdbc:"
CATALOG: Final = "table:"

_PART: Final = r'(?:[^\W\d][\w$]*|"[^"]+"|`[^`]+`|\[[^\]]+\])'
_TABLE: Final = re.compile(rf"{_PART}(?:\.{_PART})*")
_SECRET: Final = re.compile(r"(?i)pass|pwd|secret|token|credential|key")
_IN_URL: Final = re.compile(r"[?;&]([^=?;&]+)=([^?;&]*)")
_START: Final = re.compile(r"jdbc:(?:[\w-]+:)*(?://)?")
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
        return f"{_without_secrets(self.url)} ({self.table or 'a query'})"

    def scrubbed(self, text: str) -> str:
        """A text without what may be a secret."""
        text = text.replace(self.url, _without_secrets(self.url))
        for secret in sorted(self._secrets(), key=len, reverse=True):
            text = text.replace(secret, "…")
        return text

    def _secrets(self) -> Iterator[str]:
        for key, value in (*self.properties, *_IN_URL.findall(self.url)):
            if value and _SECRET.search(key):
                yield value
        _, at, _ = self.url.partition("?")[0].rpartition("@")
        if at:
            user = self.url.partition("?")[0].rpartition("@")[0]
            yield re.split("[:/]", _START.sub("", user, count=1), maxsplit=1)[-1]

    def __repr__(self) -> str:
        return f"<{self.shown}>"


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table or view that Spark's catalog knows."""

    name: str

    @property
    def shown(self) -> str:
        """What to call it."""
        return f"the table {self.name}"

    def scrubbed(self, text: str) -> str:
        """There is no secret in a name."""
        return text


@dataclass(frozen=True, slots=True)
class Delta:
    """A folder with a table of Delta."""

    path: str

    @property
    def shown(self) -> str:
        """What to call it."""
        return self.path

    def scrubbed(self, text: str) -> str:
        """There is no secret in a path."""
        return text


External: TypeAlias = Jdbc | CatalogTable | Delta


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
    <jdbc:postgresql://db.example/shop (sales)>
    """
    if not url.startswith(JDBC):
        raise error("C050", "the URL of a database starts with `jdbc:`", help=_EXAMPLE)
    if (table is None) == (query is None):
        raise error("C050", "name a table of the database, or give a query", help=_EXAMPLE)
    if table is not None and not _TABLE.fullmatch(table):
        raise error(
            "C050", f"{table!r} is no name of a table",
            help="names with other characters are quoted; for SQL there is `query=`",
        )  # fmt: skip
    given = dict(properties or {})
    for name in _OURS:
        if name in given:
            raise error("C050", f"`{name}` is no property: it has an argument of its own")
    return Jdbc(url, table, query, tuple((key, _text(value)) for key, value in given.items()))


def table(name: str) -> CatalogTable:
    """A table or view that Spark's catalog knows by this name: `table("sales.orders")`."""
    if not name.strip():
        raise error("C050", "the name of a table is missing")
    return CatalogTable(name)


def named(text: str, relation: str, environment: Mapping[str, str]) -> External | None:
    """What a text names: `jdbc:URL#TABLE` or `table:NAME`; None if it is a path.

    Without `#TABLE` the table is called like the relation. So that a password need not stand on a
    command line, CALADAN_JDBC_USER and CALADAN_JDBC_PASSWORD are asked for what is not in the URL.
    """
    if text.startswith(CATALOG):
        return table(text.removeprefix(CATALOG))
    if not text.startswith(JDBC):
        return None
    url, _, name = text.partition("#")
    found = {
        key: environment[variable]
        for key, variable in (("user", "CALADAN_JDBC_USER"), ("password", "CALADAN_JDBC_PASSWORD"))
        if variable in environment
    }
    return jdbc(url, name or relation, properties=found)


_EXAMPLE: Final = 'as in jdbc("jdbc:postgresql://host/database", "sales", properties={…})'


def _without_secrets(url: str) -> str:
    """A URL without parameters, and without a user and a password before the host."""
    address = re.split("[?;]", url, maxsplit=1)[0]
    _, at, host = address.rpartition("@")
    start = _START.match(address)
    return f"{start[0]}{host}" if at and start else address


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
