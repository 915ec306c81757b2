"""Databases to test against: SQLite in a file, and a PostgreSQL server that is there meanwhile.

Drivers are looked for in CALADAN_JARS (paths with `:` between), else where Debian keeps them
(libpostgresql-jdbc-java, libxerial-sqlite-jdbc-java). PostgreSQL's programs are looked for on the
path, else where Debian keeps those; the server is made in a temporary folder, listens on a socket
of the loopback address, and asks everybody for a password.
"""

import os
import pwd
import shutil
import socket
import sqlite3
import subprocess
import tempfile
from collections.abc import Generator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DEBIAN = Path("/usr/share/java")
DRIVERS = {"postgresql": "org.postgresql.Driver", "sqlite": "org.sqlite.JDBC"}

USER, PASSWORD = "ann", "open sesame & more"


def jars() -> dict[str, Path]:
    """The jar of each driver that is here."""
    given = [Path(text) for text in os.environ.get("CALADAN_JARS", "").split(os.pathsep) if text]
    found: dict[str, Path] = {}
    for kind in DRIVERS:
        usual = [DEBIAN / f"{kind}.jar", DEBIAN / f"{kind}-jdbc.jar"]
        there = [jar for jar in [*given, *usual] if kind in jar.name and jar.is_file()]
        found.update({kind: there[0]} if there else {})
    return found


@dataclass(frozen=True)
class Database:
    """A database: how JDBC reaches it, and how its own client does."""

    kind: str
    url: str
    properties: dict[str, str]
    place: Path
    client: Sequence[str]

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Have its own client run SQL; rows of text, but of SQLite's values for SQLite."""
        if self.kind == "sqlite":
            with closing(sqlite3.connect(self.place)) as database, database:
                if sql.lstrip().upper().startswith("SELECT"):
                    return database.execute(sql).fetchall()
                database.executescript(sql)
                return []
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        said = subprocess.run(
            [*self.client, "-v", "ON_ERROR_STOP=1", "-qAt", "-F", "\t", "-c", sql],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert said.returncode == 0, said.stderr
        return [tuple(line.split("\t")) for line in said.stdout.splitlines()]


def sqlite(folder: Path) -> Database:
    """A database in a file."""
    place = folder / "shop.db"
    return Database("sqlite", f"jdbc:sqlite:{place}", {"driver": DRIVERS["sqlite"]}, place, ())


def program(name: str) -> str | None:
    """One of PostgreSQL's programs, the newest if there are several."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(debian[-1]) if debian else None)


def user() -> str | None:
    """Whom the server runs as: PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next((name for name in ("postgres", "nobody") if name in names), None)


@contextmanager
def postgresql() -> Generator[Database]:
    """A server that is there meanwhile."""
    runs_as = user()
    with tempfile.TemporaryDirectory(prefix="caladan-") as folder:
        place = Path(folder) / "data"
        secret = Path(folder) / "password"
        secret.write_text(PASSWORD)
        if runs_as is not None:
            shutil.chown(folder, runs_as)
            shutil.chown(secret, runs_as)
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        call(
            runs_as, program("initdb"), "-D", str(place), "-U", USER, f"--pwfile={secret}",
            "-A", "scram-sha-256", "-E", "UTF8", "--no-locale", "--no-sync",
        )  # fmt: skip
        options = f"-c listen_addresses=127.0.0.1 -c unix_socket_directories='' -p {port}"
        control = (program("pg_ctl"), "-D", str(place), "-w", "-s")
        call(runs_as, *control, "-l", f"{folder}/log", "-o", options, "start")
        try:
            client = (str(program("psql")), "-h", "127.0.0.1", "-p", port, "-U", USER, "postgres")
            url = f"jdbc:postgresql://127.0.0.1:{port}/postgres"
            properties = {"user": USER, "password": PASSWORD, "driver": DRIVERS["postgresql"]}
            yield Database("postgresql", url, properties, place, client)
        finally:
            call(runs_as, *control, "-m", "immediate", "stop")


def call(runs_as: str | None, *command: str | None) -> None:
    """Run a program to its end."""
    words = [str(word) for word in command]
    said = subprocess.run(
        words, user=runs_as, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
