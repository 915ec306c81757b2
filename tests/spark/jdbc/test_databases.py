"""Tables of SQLite and PostgreSQL: every type there and back, rows with nulls, modes, secrets."""

import datetime as dt
import logging
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.spark.jdbc.databases import PASSWORD, Database, jars, postgresql, program, sqlite

import caladan as cal
from caladan.program.diagnostics import CaladanError

JARS = jars()

ALL = (
    "database({given(a: byte, b: short, c: integer, d: long, e: float, f: double, g: string, "
    "h: boolean, i: datetime, j: date, k: decimal, l: binary)})."
)
LETTERS = ", ".join("ABCDEFGHIJKL")
BACK = f"{ALL} back({LETTERS}) <- given({LETTERS}). query back({LETTERS})."

ROWS: list[tuple[Any, ...]] = [
    (-128, -32768, -(2**31), -(2**63), -0.5, 1e-300, "it's \"é\" \\ 日本", False,
     dt.datetime(1, 1, 1), dt.date(1, 1, 1), Decimal("-0.000000000000000001"), b""),
    (0, 0, 0, 0, 0.0, 0.1, "tab\tand\nline", True,
     dt.datetime(2024, 2, 29, 12, 30, 0, 123456), dt.date(2024, 2, 29), Decimal("12.50"), b"\\x"),
    (127, 32767, 2**31 - 1, 2**63 - 1, 0.5, 1e300, "", True,
     dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.date(9999, 12, 31),
     Decimal("99999999999999999999.999999999999999999"), b"\x00\xff"),
]  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    if program("initdb") is None:
        pytest.skip("no PostgreSQL on this machine")
    with postgresql() as database:
        yield database


@pytest.fixture
def lite(tmp_path: Path) -> Database:
    """An empty database of SQLite's."""
    if "sqlite" not in JARS:
        pytest.skip("no driver for SQLite; set CALADAN_JARS")
    return sqlite(tmp_path)


@pytest.fixture
def postgres(request: pytest.FixtureRequest) -> Database:
    """An empty database of PostgreSQL's."""
    if "postgresql" not in JARS:
        pytest.skip("no driver for PostgreSQL; set CALADAN_JARS")
    found: Database = request.getfixturevalue("server")
    found.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    return found


@pytest.fixture(params=["lite", "postgres"])
def database(request: pytest.FixtureRequest) -> Database:
    found: Database = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def db(spark: SparkSession) -> Iterator[cal.Session]:
    with cal.connect(spark) as session:
        yield session


def place(database: Database, table: str, **more: str) -> Any:
    return cal.jdbc(database.url, table, properties={**database.properties, **more})


def made(db: cal.Session, rows: list[tuple[Any, ...]]) -> cal.Relation:
    """A relation with a column of every type."""
    db.add("given", rows)
    return db.run(f"{ALL} made({LETTERS}) <- given({LETTERS}).")["made"]


def numbers(db: cal.Session, *given: int) -> cal.Relation:
    db.add("n", [(number,) for number in given])
    return db.run("database({n(id: integer)}). made(N) <- n(N).")["made"]


def read(db: cal.Session, where: Any, *names: str) -> list[tuple[Any, ...]]:
    """What is at a place, whose columns say themselves what they are; sorted."""
    db.add("there", where)
    columns = ", ".join(name.upper() for name in names)
    answer = db.run(f"back({columns}) <- there({columns}). query back({columns}).").answer
    return sorted(answer.rows())


def test_every_type_goes_there_and_back(db: cal.Session, postgres: Database) -> None:
    made(db, ROWS).write(place(postgres, "made"))
    db.add("given", place(postgres, "made"))
    assert sorted(db.run(BACK).answer.rows()) == ROWS


def test_what_postgresql_keeps(db: cal.Session, postgres: Database) -> None:
    postgres.run("""
        CREATE TABLE kept (a int, b bigint, c double precision, d text, e bool, f date,
            g timestamp, h timestamptz, i numeric(10, 2), j numeric, k bytea, l varchar(9), m uuid);
        INSERT INTO kept VALUES (7, 9007199254740993, 0.1, 'é', true, '2024-02-29',
            '2024-02-29 12:00:00.000001', '2024-02-29 12:00:00+02', 1.50, 0.000000000000000001,
            '\\xcafe', 'v', '00000000-0000-0000-0000-00000000002a')
    """)
    assert read(db, place(postgres, "kept"), *"abcdefghijklm") == [
        (7, 9007199254740993, 0.1, "é", True, dt.date(2024, 2, 29),
         dt.datetime(2024, 2, 29, 12, 0, 0, 1), dt.datetime(2024, 2, 29, 10), Decimal("1.5"),
         Decimal("1e-18"), b"\xca\xfe", "v", "00000000-0000-0000-0000-00000000002a"),
    ]  # fmt: skip


def test_what_sqlite_keeps(db: cal.Session, lite: Database) -> None:
    """Its integers have 64 bits and its reals are doubles, whatever their columns are called."""
    lite.run("""
        CREATE TABLE kept (a INTEGER, b BIGINT, c REAL, d TEXT, e BOOLEAN, f BLOB, g SMALLINT);
        INSERT INTO kept VALUES (9007199254740993, -1, 0.1, 'é', 1, x'cafe', 65536)
    """)
    assert read(db, place(lite, "kept"), *"abcdefg") == [
        (9007199254740993, -1, 0.1, "é", True, b"\xca\xfe", 65536)
    ]


def test_what_sqlite_has_no_types_for_is_text_there(db: cal.Session, lite: Database) -> None:
    lite.run("CREATE TABLE kept (i TEXT, j TEXT, k TEXT)")
    lite.run("INSERT INTO kept VALUES ('2024-02-29 12:30:00.123456', '2024-02-29', '12.50')")
    db.add("p", place(lite, "kept"))
    declared = "database({p(i: datetime, j: date, k: decimal)})."
    answer = db.run(f"{declared} q(I, J, K) <- p(I, J, K). query q(I, J, K).").answer
    assert answer.rows() == [tuple(ROWS[1][8:11])]


def test_a_numeric_keeps_its_width(db: cal.Session, postgres: Database) -> None:
    postgres.run("CREATE TABLE price (k numeric(10, 2)); INSERT INTO price VALUES (12.5)")
    db.add("price", place(postgres, "price"))
    db.run("kept(K) <- price(K). query kept(K).").answer.write(place(postgres, "kept"))
    width = (
        "SELECT numeric_precision, numeric_scale FROM information_schema.columns"
        " WHERE table_name = 'kept'"
    )
    assert postgres.run(width) == [("10", "2")]
    assert postgres.run('SELECT "K" FROM kept') == [("12.50",)]


def test_a_number_of_too_many_digits_is_not_rounded(db: cal.Session, postgres: Database) -> None:
    postgres.run("CREATE TABLE long (k numeric); INSERT INTO long VALUES (1), (1e-19)")
    with pytest.raises(CaladanError, match=r"C035.*column k has a number that is no decimal here"):
        read(db, place(postgres, "long"), "k")


def test_rows_with_nulls_where_they_are_forbidden_are_bad_rows(
    db: cal.Session, database: Database
) -> None:
    database.run("CREATE TABLE holes (a int, b text)")
    database.run("INSERT INTO holes VALUES (1, 'x'), (2, NULL), (NULL, 'z')")
    declared = "database({holes(a: integer!, b: string!)})."
    program = f"{declared} q(A, B) <- holes(A, B). query q(A, B)."
    db.add("holes", place(database, "holes"))
    with pytest.raises(CaladanError, match=r"C036.*a value is missing \(column [ab] of holes\)"):
        db.run(program)
    out = db.run(program, permissive=True)
    assert out.answer.rows() == [(1, "x")]
    assert out["_rejected"].count() == 2


def test_modes(db: cal.Session, database: Database) -> None:
    """Spark can make tables in PostgreSQL; those in SQLite have to be there."""
    where = place(database, "made")
    if database.kind == "sqlite":
        with pytest.raises(CaladanError, match="C037") as caught:
            numbers(db, 1).write(where)
        assert "make it there, then write with mode append" in str(caught.value)
        database.run("CREATE TABLE made (N int)")
        numbers(db, 1).write(where, mode="append")
    else:
        numbers(db, 1).write(where)
    with pytest.raises(CaladanError, match=r"C037.*it exists already"):
        numbers(db, 5).write(where)
    numbers(db, 2).write(where, mode="append")
    assert read(db, where, "n") == [(1,), (2,)]
    numbers(db, 3).write(where, mode="overwrite")
    assert read(db, where, "n") == [(3,)]


def test_a_query_read_in_parallel(db: cal.Session, database: Database) -> None:
    database.run("CREATE TABLE wide (n int)")
    database.run(f"INSERT INTO wide VALUES {', '.join(f'({n})' for n in range(100))}")
    parts = {"partitionColumn": "n", "lowerBound": "0", "upperBound": "100", "numPartitions": "3"}
    assert read(db, place(database, "wide", **parts), "n") == [(n,) for n in range(100)]
    asked = cal.jdbc(
        database.url, query="SELECT n FROM wide WHERE n < 2", properties=database.properties
    )
    assert read(db, asked, "n") == [(0,), (1,)]


def test_no_secret_is_told(
    db: cal.Session,
    postgres: Database,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    numbers(db, 1).write(place(postgres, "made"))
    where = place(postgres, "made")
    db.add("there", where)
    told = [
        repr(where),
        db.explain("q(N) <- there(N). query q(N).", stage="all"),
        db.explain("q(N) <- there(N). query q(N).", stage="spark"),
    ]
    for bad in (
        cal.jdbc(postgres.url, "made", properties={**postgres.properties, "user": "nobody"}),
        cal.jdbc(f"{postgres.url}?user=ann&password=wrong+{PASSWORD.split()[0]}", "made"),
        place(postgres, "nowhere"),
        place(postgres, "made", sslmode="require"),
    ):
        with pytest.raises(CaladanError) as caught:
            db.add("there", bad)
        told.append(str(caught.value))
    told += [caplog.text, *capfd.readouterr()]
    assert not [text for text in told if PASSWORD in text or PASSWORD.split()[0] in text]
