"""Tables elsewhere: read from and written to by JDBC (Derby comes with Spark), in the catalog."""

import datetime as dt
import json
import logging
import math
import traceback
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

import caladan as cal
from caladan.engines.spark.engine import SparkEngine
from caladan.program.diagnostics import CaladanError

SECRET = "open-sesame"

ROW = (7, Decimal("12345678901234567.89"), dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 12), "é")

PROGRAM = "out(I, A, D, T, N) <- sales(I, A, D, T, N). query out(I, A, D, T, N)."


@pytest.fixture
def db(spark: SparkSession) -> Iterator[cal.Session]:
    with cal.connect(spark) as session:
        yield session


@pytest.fixture
def url(spark: SparkSession, tmp_path: Path) -> str:
    log = str(tmp_path / "derby.log")  # Derby would write it here otherwise, when it starts
    cast("Any", spark)._jvm.java.lang.System.setProperty("derby.stream.error.file", log)
    return f"jdbc:derby:memory:{uuid.uuid4().hex};create=true;user=ann;password={SECRET}"


@pytest.fixture
def sales(db: cal.Session) -> cal.Relation:
    db.add("given", [ROW])
    declared = (
        "database({given(id: long, amount: decimal, day: date, at: datetime, name: string)})."
    )
    return db.run(f"{declared} sales(I, A, D, T, N) <- given(I, A, D, T, N).")["sales"]


def test_jdbc(db: cal.Session, sales: cal.Relation, url: str) -> None:
    table = cal.jdbc(url, "sales")
    sales.write(table)
    db.add("sales", table)
    assert db.run(PROGRAM).answer.rows() == [ROW]
    sales.write(table, mode="append")
    sales.write(table, mode="overwrite")
    counted = cal.jdbc(url, query="SELECT COUNT(*) AS N FROM sales", properties={"fetchsize": 10})
    db.add("n", counted)
    assert db.run("out(N) <- n(N). query out(N).").answer.rows() == [(1,)]
    db.add("sales", f"{url}#APP.sales".replace("APP", "ANN"))
    types = ("long", "decimal(31,11)", "date", "datetime", "string")  # 31 is all that Derby has
    assert db.run(PROGRAM).answer.types == types


def test_jdbc_says_what_is_wrong_but_no_secret(
    db: cal.Session, sales: cal.Relation, url: str
) -> None:
    sales.write(cal.jdbc(url, "sales"))
    said: list[str] = [repr(cal.jdbc(url, "sales"))]
    for place, code in (
        (cal.jdbc(url, "nowhere"), "C035"),
        (cal.jdbc("jdbc:nobody://h/d", "t", properties={"password": SECRET}), "C035"),
        (cal.jdbc(url.replace("memory:", "memory:not/").replace(";create=true", ""), "t"), "C035"),
    ):
        with pytest.raises(CaladanError, match=code) as caught:
            db.add("sales", place)
        said.append(str(caught.value))
    assert "no driver for this database" in said[2]
    assert "spark.jars" in said[2]
    with pytest.raises(CaladanError, match=r"C037.*it exists already") as caught:
        sales.write(cal.jdbc(url, "sales"))
    said.append(str(caught.value))
    assert not [text for text in said if SECRET in text or "java" in text.lower()]


@pytest.mark.parametrize(
    "form",
    [
        "jdbc:mysql://(host=127.0.0.1,password={})/shop",
        "jdbc:oracle:thin:ann/{}@127.0.0.1:1:shop",
        "jdbc:teradata://127.0.0.1/USER=ann,PASSWORD={}",
        "jdbc:db2://127.0.0.1:1/shop:user=ann;password={};",
        "jdbc:informix-sqli://127.0.0.1:1/shop:INFORMIXSERVER=s;user=ann;password={}",
        "jdbc:sqlserver://127.0.0.1:1;user=ann;password={{{}}}",
        "jdbc:postgresql://127.0.0.1:port/shop?password={}",
        "jdbc:derby://127.0.0.1:1/{};user=ann",
        "jdbc:derby:memory:{};user=ann",
        "jdbc:sqlite:/nowhere/{}/shop.db",
    ],
)
def test_spark_tells_no_secret_either(
    db: cal.Session,
    sales: cal.Relation,
    form: str,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    secret = f"sesame-{uuid.uuid4().hex}"
    where = cal.jdbc(form.format(secret), "t", properties={"password": secret})
    told: list[str] = []
    for attempt in (lambda: db.add("t", where), lambda: sales.write(where)):
        with pytest.raises(CaladanError) as caught:
            attempt()
        told += traceback.format_exception(caught.value)
    told += [caplog.text, *capfd.readouterr()]
    assert not [text for text in told if secret in text]


def test_no_output_of_a_run_tells_a_secret(
    db: cal.Session, sales: cal.Relation, url: str, spark: SparkSession, tmp_path: Path
) -> None:
    sales.write(cal.jdbc(url, "sales"))
    db.add("sales", cal.jdbc(url, "sales", properties={"odd": SECRET}))
    out = db.run(PROGRAM)
    page = tmp_path / "plan.html"
    told = [
        repr(db), repr(out), repr(out.answer), str(out.stats), json.dumps(out.stats.to_dict()),
        db.explain(PROGRAM, stage="all", html=str(page)), db.explain(PROGRAM, stage="spark"),
        page.read_text(),
    ]  # fmt: skip
    store = cast("Any", spark)._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    for i in range(executions.size()):  # what Spark's own pages show of its jobs
        each = executions.apply(i)
        told += [each.description(), each.details(), each.physicalPlanDescription()]
    assert executions.size() > 0
    assert not [text for text in told if SECRET in text]


def test_jobs_that_fail_later_tell_no_secret(spark: SparkSession, url: str) -> None:
    """What was read is computed anew where executors are lost: the database may be gone by then."""
    engine = SparkEngine(session=spark)
    cal.jdbc(url, "sales").hide()

    def work(_: object) -> None:
        raise Py4JError(f"Job aborted: cannot reach {url}\n  at java.lang.Thread ({SECRET})")

    with pytest.raises(CaladanError, match=r"C044.*cannot reach jdbc:derby") as caught:
        cast("Any", engine)._attended(work)
    told = "".join(traceback.format_exception(caught.value))
    assert "java.lang.Thread" in told
    assert SECRET not in told


@pytest.mark.parametrize("format", [None, "orc"])
def test_tables_of_the_catalog(
    db: cal.Session, sales: cal.Relation, spark: SparkSession, tmp_path: Path, format: str | None
) -> None:
    name = f"shop_{uuid.uuid4().hex}"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path}'")
    try:
        place = cal.table(f"{name}.sales")
        sales.write(place, format=format)
        with pytest.raises(CaladanError, match=r"C037.*it exists already"):
            sales.write(place, format=format)
        sales.write(place, format=format, mode="append")
        assert spark.table(f"{name}.sales").count() == 2
        sales.write(place, format=format, mode="overwrite")
        db.add("sales", place)
        assert db.run(PROGRAM).answer.rows() == [ROW]
    finally:
        spark.sql(f"DROP DATABASE {name} CASCADE")


def test_views_are_found_by_name(db: cal.Session, spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("three")
    db.add("p", "table:three")
    assert db.run("out(count<X>) <- p(X). query out(N).").answer.rows() == [(3,)]
    spark.catalog.dropTempView("three")
    with pytest.raises(CaladanError, match=r"the table three: error\[C030\]: no such table"):
        db.add("p", cal.table("three"))


def test_delta_is_missed_clearly(db: cal.Session, sales: cal.Relation, tmp_path: Path) -> None:
    with pytest.raises(CaladanError, match=r"C035\]: this Spark session has no Delta"):
        db.add("p", tmp_path, format="delta")
    with pytest.raises(CaladanError, match=r"C037.*this Spark session has no Delta"):
        sales.write(tmp_path / "d", format="delta")


def test_any_format_that_spark_reads_with_its_options(db: cal.Session, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("A|B\n1|2\n2|3\n")
    options = {"sep": "|", "header": True, "inferSchema": True}
    db.add("arc", cal.stored(str(tmp_path / "in.txt"), "csv", options=options))
    answer = db.run("back(B, A) <- arc(A, B). query back(B, A).").answer
    assert answer.rows() == [(2, 1), (3, 2)]
    answer.write(cal.stored(str(tmp_path / "out"), "csv", options={"sep": ";", "quoteAll": True}))
    parts = [part.read_text() for part in (tmp_path / "out").glob("part-*")]
    assert sorted("".join(parts).split()) == ['"2";"1"', '"3";"2"']
    for place in ("nosuch", "avro"):
        with pytest.raises(CaladanError, match=f"C035.*this Spark session has no format '{place}'"):
            db.add("arc", cal.stored(str(tmp_path), place))
    with pytest.raises(CaladanError, match=r"C035.*only the spark engine"):
        cal.connect("embedded").add("arc", cal.stored(str(tmp_path), "avro"))


def test_writes_that_are_partitioned_or_in_buckets(
    db: cal.Session, spark: SparkSession, tmp_path: Path
) -> None:
    db.add("arc", [(i % 3, i) for i in range(9)])
    answer = db.run("database({arc(A: integer, B: integer)}). query arc(A, B).").answer
    answer.write(tmp_path / "parts", partition_by="A")
    assert sorted(p.name for p in (tmp_path / "parts").glob("A=*")) == ["A=0", "A=1", "A=2"]
    assert spark.read.parquet(str(tmp_path / "parts")).where("A = 1").count() == 3
    answer.write(tmp_path / "parts", mode="overwrite", partition_by=["A"])
    name = f"shop_{uuid.uuid4().hex}"
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path / 'tables'}'")
    try:
        answer.write(cal.table(f"{name}.arc"), partition_by=["A"], bucket_by=(2, "B"))
        told = {row[0]: row[1] for row in spark.sql(f"DESCRIBE EXTENDED {name}.arc").collect()}
        assert (told["Num Buckets"], told["Bucket Columns"]) == ("2", "[`B`]")
        db.add("arc", cal.table(f"{name}.arc"))
        assert db.run("n(count<_>) <- arc(A, B). query n(N).").answer.rows() == [(9,)]
    finally:
        spark.sql(f"DROP DATABASE {name} CASCADE")
    for wrong, said in (
        ({"partition_by": "C"}, "there is no column 'C'; there are A, B"),
        ({"bucket_by": (0, "A")}, "bucket_by takes a number and a column"),
        ({"bucket_by": (2, "A")}, "buckets for catalog tables only"),
    ):
        with pytest.raises(CaladanError, match=f"C050.*{said}"):
            answer.write(tmp_path / "more", **wrong)
    with pytest.raises(CaladanError, match=r"C050.*is one file"):
        answer.write(tmp_path / "one.parquet", partition_by="A")


@pytest.mark.parametrize("format", ["csv", "tsv", "json", "parquet", "orc"])
def test_what_spark_writes_is_read_back(db: cal.Session, tmp_path: Path, format: str) -> None:
    rows = [
        (Decimal("0.5"), dt.datetime(2024, 1, 1, 0, 0, 0, 123456), b"\xca\xfe", ' "a", ', 0.1),
        (Decimal(10) ** 19, dt.datetime(1, 1, 1), b"", "", math.inf),
    ]
    db.add("p", rows)
    declared = "database({p(a: decimal, t: datetime, k: binary, n: string, d: double)})."
    program = f"{declared} out(A, T, K, N, D) <- p(A, T, K, N, D). query out(A, T, K, N, D)."
    db.run(program).answer.write(tmp_path / "out", format=format)
    with pytest.raises(CaladanError, match=r"C037.*it exists already"):
        db.run(program).answer.write(tmp_path / "out", format=format)
    db.add("p", tmp_path / "out", format=format)
    assert sorted(db.run(program).answer.rows()) == sorted(rows)
    with cal.connect("embedded") as here:
        here.add("p", tmp_path / "out", format=format)
        assert sorted(here.run(program).answer.rows()) == sorted(rows)


@pytest.mark.parametrize("format", ["csv", "tsv", "json", "jsonl", "parquet", "orc"])
def test_instants_are_written_to_the_microsecond(
    spark: SparkSession, tmp_path: Path, format: str
) -> None:
    """Whatever the zone of the session that they came from."""
    elsewhere = spark.newSession()
    elsewhere.conf.set("spark.sql.session.timeZone", "America/New_York")
    given = elsewhere.sql(
        "SELECT timestamp_micros(m) AS t FROM VALUES (123456L), (-4000000000000000L) AS v(m)"
    )
    program = "database({p(t: datetime)}). out(T) <- p(T). query out(T)."
    with cal.connect(elsewhere) as db:
        db.add("p", given)
        before = db.run(program).answer
        before.write(tmp_path / "out", format=format)
        db.add("p", tmp_path / "out", format=format)
        first = dt.datetime(1970, 1, 1)
        wanted = [first - dt.timedelta(microseconds=4 * 10**15), first.replace(microsecond=123456)]
        assert db.run(program).answer.rows() == before.rows() == [(t,) for t in wanted]


def test_why_nothing_was_written(db: cal.Session, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    db.add("p", [(1,)])
    with pytest.raises(CaladanError, match=r"C037\]: cannot write: (?!An error occurred)\S+"):
        db.query("p(X)").write(tmp_path / "file" / "inside")
    with pytest.raises(CaladanError, match=r"C037\]: cannot write: .*no-such-files"):
        db.query("p(X)").write("no-such-files://host/out")


def test_a_tab_does_not_go_into_a_tsv_file(db: cal.Session, tmp_path: Path) -> None:
    for text in ("a\tb", ""):
        db.add("p", [(text,)])
        found = db.run("database({p(n: string)}). out(N) <- p(N). query out(N).").answer
        with pytest.raises(CaladanError, match=r"C037\]: cannot write: .* has a tab"):
            found.write(tmp_path / "out", format="tsv", mode="overwrite")
        with pytest.raises(CaladanError, match=r"C037\]: cannot write: .* has a tab"):
            found.write(tmp_path / "out.tsv")


def test_only_spark_knows_tables_elsewhere() -> None:
    db = cal.connect("embedded")
    with pytest.raises(CaladanError, match=r"C035\]: only the spark engine reads tables"):
        db.add("p", cal.jdbc("jdbc:derby:memory:x", "p"))
    db.add("p", [(1,)])
    found = db.run("out(X) <- p(X). query out(X).").answer
    with pytest.raises(CaladanError, match=r"C037\]: cannot write: only the spark engine writes"):
        found.write(cal.table("p"))
