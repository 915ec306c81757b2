"""What may be a secret stays out of what is told: of URLs of databases only scheme and host remain.

Every driver writes user and password its own way (`?password=`, `;password={…}`, `(password=…)`,
`/USER=…,PASSWORD=…`, `:user=…;password=…`, `user/password@`), and a new one may know another. So
nothing is searched for passwords here; what is known to be harmless is kept.

    shown(url)        scheme and host, or the scheme alone where the host cannot be told for sure
    hide(url, …)      from now on `scrub` takes out what may be a secret of this database
    scrubbed(text)    a text of Spark's or of a driver's, without secrets of databases in use
    without_urls(…)   a text that nobody has taken apart yet, such as a command line
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Final
from urllib.parse import quote, quote_plus, unquote, unquote_plus

from caladan.program.diagnostics import without_user

_SCHEME: Final = re.compile(r"\s*(?i:jdbc)(?::([A-Za-z][\w+.-]*)(?=:))?:?")
_NAME: Final = r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?"
_HOST: Final = rf"(?P<host>{_NAME}|\[[0-9A-Fa-f:.]+\])(?::\d+)?(?=[/?;:,\\#]|$)"
_USER: Final = r"(?:[^@/?;&,(){}\s]*@)?"
_WITH_HOST: Final = re.compile(rf"(?:[A-Za-z][\w+.-]*:)*//{_USER}{_HOST}")
_ORACLE: Final = re.compile(rf"\w+:[^@?;=&]*@(?:tcps?:)?(?://)?{_HOST}")  # user/password@host:1521
_DATABASE: Final = re.compile(r"(?::\d+)?/([\w.-]+)(?:[?;]|$)")
_IN_TEXT: Final = re.compile(r"(?i:\bjdbc):\S.*")

_DELIMITER: Final = re.compile(r"""[?;&,(){}\[\]=/@:"'\\#\s]""")
_SECRET: Final = re.compile(r"(?i)pass|pwd|pw|pin|secret|token|cred|key|auth|sig|private|wallet")
_HARMLESS: Final = frozenset(
    {
        "user", "username", "uid", "database", "databasename", "db", "host", "hostname", "server",
        "servername", "port", "portnumber", "driver", "fetchsize", "batchsize", "partitioncolumn",
        "lowerbound", "upperbound", "numpartitions", "querytimeout", "isolationlevel", "truncate",
        "customschema", "service_name", "sid", "protocol",
        "sslmode", "ssl", "encrypt", "trustservercertificate", "informixserver",
    }
)  # fmt: skip
_COMMON: Final = re.compile(r"(?i)true|false|yes|no|on|off|\d{1,5}")
_SHORT: Final = 4  # characters: a shorter piece is in too many words to be taken out of a text
_MOST: Final = 100  # delimiters of a URL

_GONE: Final = "…"
_WITHHELD: Final = "the message of the database may contain secrets and is not shown"
_STAND_IN: Final = "\x00{}\x00"

_hidden: dict[tuple[str, tuple[tuple[str, str], ...]], tuple[str, ...] | None] = {}


def shown(url: str) -> str:
    """The scheme and the host of a URL of a database.

    >>> shown("jdbc:postgresql://ann:sesame@db.example:5432/shop?ssl=true")
    'jdbc:postgresql://db.example'
    >>> shown("jdbc:oracle:thin:scott/tiger@db.example:1521:shop")
    'jdbc:oracle://db.example'
    >>> shown("jdbc:mysql://(host=db.example,password=sesame)/shop")
    'jdbc:mysql'
    """
    scheme, rest = _split_scheme(url)
    host = _host(scheme, rest)
    return scheme if host is None else f"{scheme}://{host['host']}"


def hide(url: str, properties: Iterable[tuple[str, str]]) -> None:
    """Have `scrub` take out what may be a secret of a database that is in use from now on."""
    given = (url, tuple(properties))
    if given not in _hidden:
        scheme, rest = _split_scheme(url)
        if len(_DELIMITER.findall(rest)) > _MOST:
            _hidden[given] = None
            return
        found = {*_of_url(scheme, rest), *_of_properties(given[1])}
        _hidden[given] = tuple(sorted(found, key=len, reverse=True))


def scrub(text: str) -> str:
    """A text without what may be a secret of a database that was in use."""
    urls: list[str] = []
    for (url, _), secrets in _hidden.items():
        if secrets is None:
            return _WITHHELD
        if url in text:
            text = text.replace(url, _STAND_IN.format(len(urls)))
            urls.append(shown(url))
        for secret in secrets:
            if secret in text or secret.lower() in text.lower():
                text = re.sub(re.escape(secret), _GONE, text, flags=re.IGNORECASE)
    text = without_user(without_urls(text))
    for i, url in enumerate(urls):
        text = text.replace(_STAND_IN.format(i), url)
    return text


def without_urls(text: str) -> str:
    """A text with nothing but scheme and host of a URL, wherever that may end in its line.

    >>> without_urls("unrecognized arguments: --dat p=jdbc:mysql://db/shop?password=open sesame")
    'unrecognized arguments: --dat p=jdbc:mysql://db'
    """
    return _IN_TEXT.sub(lambda found: shown(found[0]), text)


def _split_scheme(url: str) -> tuple[str, str]:
    """The scheme of a URL, and what follows."""
    start = _SCHEME.match(url)
    if start is None:
        return "a database", url
    return f"jdbc:{start[1].lower()}" if start[1] else "jdbc", url[start.end() :]


def _host(scheme: str, rest: str) -> re.Match[str] | None:
    """Where the host is; None if some `@` leaves open what is before it and what behind."""
    found = _WITH_HOST.match(rest)
    if found is None and scheme == "jdbc:oracle":
        found = _ORACLE.match(rest)
    return found if found is not None and "@" not in rest[found.end() :] else None


def _of_url(scheme: str, rest: str) -> Iterator[str]:
    """The pieces of a URL that may be secrets, alone and with what stands between them."""
    host = _host(scheme, rest)
    harmless: set[tuple[int, int]] = set()
    if host is not None:
        harmless.add(host.span("host"))
        database = _DATABASE.match(rest, host.end("host"))
        if database is not None:
            harmless.add(database.span(1))
    cuts = [-1, *(found.start() for found in _DELIMITER.finditer(rest)), len(rest)]
    pieces = [(a + 1, b) for a, b in pairwise(cuts) if b > a + 1]
    told = [span in harmless or _is_harmless(rest, *span) for span in pieces]
    for i, (start, _) in enumerate(pieces):
        for j in range(i, len(pieces)):
            if not all(told[i : j + 1]):
                yield from _spellings(rest[start : pieces[j][1]])
    # A piece may start or end with a delimiter of its own: all from a `=` on, whatever it is.
    for found in re.finditer("=", rest):
        if _SECRET.search(_key(rest, found.start())):
            yield from (s for cut in cuts for s in _spellings(rest[found.end() : max(cut, 0)]))


def _is_harmless(rest: str, start: int, end: int) -> bool:
    """Whether a piece between two delimiters is the name of a setting, or no secret by its name."""
    piece = rest[start:end]
    if rest[end : end + 1] == "=":
        return bool(_SECRET.search(piece)) or piece.lower() in _HARMLESS or len(piece) < _SHORT
    key = _key(rest, start - 1) if rest[start - 1 : start] == "=" else ""
    return _is_plain(key, piece)


def _key(rest: str, at: int) -> str:
    """The word before a `=`."""
    return _DELIMITER.split(rest[:at])[-1]


def _of_properties(properties: Iterable[tuple[str, str]]) -> Iterator[str]:
    for key, value in properties:
        if value and not _is_plain(key, value):
            yield from _spellings(value)


def _is_plain(key: str, value: str) -> bool:
    """Whether the value of a setting is to be left in a text."""
    if _SECRET.search(key):
        return False
    return key.lower() in _HARMLESS or len(value) < _SHORT or bool(_COMMON.fullmatch(value))


def _spellings(secret: str) -> Iterator[str]:
    """A secret as a driver, Spark or Python may write it."""
    if secret:
        yield from {
            secret, unquote(secret), unquote_plus(secret), quote(secret, errors="replace"),
            quote(secret, safe="", errors="replace"), quote_plus(secret, errors="replace"),
            secret.encode("unicode_escape").decode(), repr(secret)[1:-1],
        }  # fmt: skip
