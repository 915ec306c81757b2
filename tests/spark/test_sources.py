"""Data as Spark reads it: the same facts, and the same words about what is wrong, as elsewhere."""

import datetime as dt
import gzip
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession, functions as sf
from pyspark.sql.types import IntegerType, StructField, StructType

import caladan
from caladan.data import output
from caladan.data.source import source
from caladan.engines.spark.session import internals
from caladan.engines.spark.session.workspace import Workspace
from caladan.engines.spark.sources import files, sources
from caladan.engines.spark.sources.validity import Reading
from caladan.program import Column, Type
from caladan.program.diagnostics import CaladanError

PEOPLE = """database({p(Id: short, Name: string, Score: double, Ok: boolean, Born: datetime)}).
out(I, N, S, O, B) <- p(I, N, S, O, B). query out(I, N, S, O, B)."""

PAIRS = "database({p(A: integer, B: string)}). out(A, B) <- p(A, B). query out(A, B)."

Rows = list[tuple[Any, ...]]


@pytest.fixture(autouse=True)
def by_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files and frames are small here; have Spark read and check them all the same."""
    monkeypatch.setattr(files, "FEW_BYTES", 0)
    monkeypatch.setattr(internals, "estimated_bytes", lambda _: None)


def outcome(engine: Any, program: str, data: object, **options: Any) -> Rows | str:
    """The rows that come of data, or what is said about it."""
    with caladan.connect(engine) as db:
        try:
            db.add("p", data, **options)
            return db.run(program).answer.rows()
        except CaladanError as problem:
            return str(problem)


def write(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


FILES = {
    "plain.csv": "1,a,0.5,true,2024-01-31\n 2 ,b, -1e3,0,2024-01-31T12:30:00.5\n",
    "twice.csv": "1,a,0.5,true,2024-01-31\n1,a,0.5,TRUE,2024-01-31 00:00:00\n",
    "quotes.csv": '1,"a, ""b""",1,1,2024-01-31\n2,"",-0.0,1,2024-01-31\n"3",c"d,nan,1,2024-01-31\n',
    "lines.csv": '1,"two\nlines",1,1,2024-01-31\n2,b,1,1,2024-01-31\n',
    "windows.csv": "1,a,1,1,2024-01-31\r\n\r\n2,b,1,1,2024-01-31\r\n",
    "mark.csv": "\ufeff1,a,1,1,2024-01-31\n",
    "header.csv": "Id,Name,Score,Ok,Born\n1,a,1,1,2024-01-31\n",
    "zones.csv": "1,a,inf,1,2024-01-31T01:00+02:00\n2,a,-Infinity,1,2024-01-31T01:00:00Z\n",
    "tabs.tsv": '1\t"a"\t1\t1\t2024-01-31\n2\t\t1\t1\t2024-01-31\n',
    "odd [name] 100%.csv": "1,a,1,1,2024-01-31\n",
    "_hidden.csv": "1,a,1,1,2024-01-31\n",
    "empty.csv": "",
    "number.csv": "1,a,1,1,2024-01-31\n2,b,x,1,2024-01-31\n",
    "range.csv": "1,a,1,1,2024-01-31\n40000,b,1,1,2024-01-31\n",
    "short.csv": "1,a,1,1,2024-01-31\n2,b,1,1\n",
    "long.csv": "1,a,1,1,2024-01-31,9\n",
    "missing.csv": ",a,1,1,2024-01-31\n",
    "date.csv": "1,a,1,1,2024-02-30\n",
    "huge.csv": "1,a,1e999,1,2024-01-31\n",
    "open.csv": '1,"a,1,1,2024-01-31\n',
    "latin.csv": b"1,a,1,1,2024-01-31\n2,caf\xe9,1,1,2024-01-31\n",
    "replaced.csv": "1,a\ufffd,1,1,2024-01-31\n",
    "many.csv": "".join(f"{i},a,x,1,2024-01-31\n" for i in range(9)),
    "objects.jsonl": '{"Id": 1, "Name": "a", "Score": 1, "Ok": true, "Born": "2024-01-31"}\n',
    "array.json": '[{"Id": 1, "Name": "a", "Score": 1.5, "Ok": true, "Born": "2024-01-31"}]',
    "lists.json": '[1, "a", 2.5e3, false, "2024-01-31"]\n',
    "wrong.json": '{"Id": "1", "Name": "a", "Score": 1, "Ok": true, "Born": "2024-01-31"}\n',
    "broken.json": '{"Id": 1, "Name": \n',
    "null.json": '{"Id": 1, "Name": null, "Score": 1, "Ok": true, "Born": "2024-01-31"}\n',
    "broken.parquet": b"not parquet at all",
    "returns.csv": '1,"a\rb",1,1,2024-01-31\n2,"c\r\nd",1,1,2024-01-31\r3,e,1,1,2024-01-31\n',
    "marked header.csv": "\ufeffId,Name,Score,Ok,Born\n1,a,1,1,2024-01-31\n",
    "huge.json": '{"Id": 1, "Name": "a", "Score": 1e400, "Ok": true, "Born": "2024-01-31"}\n',
    "digits.json": f'[1, "a", {"9" * 9999}, true, "2024-01-31"]\n',
    "twice.json": '{"Id": 1, "Id": 2, "Name": "a", "Score": 1, "Ok": true, "Born": "2024-01-31"}\n',
    "deep.json": f'{{"Id": {"[" * 9999}\n',
    "half.json": '{"Id": 1, "Name": "\\ud800", "Score": 1, "Ok": true, "Born": "2024-01-31"}\n',
    "broken.csv.gz": gzip.compress(b"1,a,1,1,2024-01-31\n" * 99)[:-9],
    "fine.csv": "1,a,1,1,2024-01-31T00:00:00.1234567\n",
}


@pytest.mark.parametrize("name", FILES)
def test_files_mean_the_same_to_spark(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, FILES[name])
    found = outcome(spark, PEOPLE, path)
    assert str(found) == str(outcome("reference", PEOPLE, path))  # as text, for NaN is not NaN
    assert "java" not in str(found).lower()


def test_a_diagnostic_has_file_line_and_column(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", "1,a\nx,b\n3,c,d\n")
    shown = outcome(spark, PAIRS, path)
    assert f"{path}:2:1: error[C032]: 'x' is not an integer (column A of p)" in shown
    assert f"{path}:3:1: error[C031]: 3 columns where p has 2 (A, B)" in shown


def test_folders_patterns_and_compression(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.csv", "A,B\n1,a\n")
    write(tmp_path, "b.csv", "2,b\n")
    write(tmp_path, "c.csv.gz", gzip.compress(b"3,c\n"))
    write(tmp_path, "empty.csv", "")
    rows = [(1, "a"), (2, "b"), (3, "c")]
    assert outcome(spark, PAIRS, tmp_path) == rows
    assert outcome(spark, PAIRS, str(tmp_path / "*.csv")) == rows[:2]
    write(tmp_path, "d.csv", "4,d\nfour,d\n")
    assert outcome(spark, PAIRS, tmp_path) == outcome("reference", PAIRS, tmp_path)


def test_a_header_line_counts_as_one_only_once(spark: SparkSession, tmp_path: Path) -> None:
    program = "database({p(A: string, B: string)}). out(A, B) <- p(A, B). query out(A, B)."
    path = write(tmp_path, "p.csv", "A,B\n1,2\nA,B\n")
    assert outcome(spark, program, path) == [("1", "2"), ("A", "B")]


def test_named_columns_of_a_header_may_stand_anywhere(spark: SparkSession, tmp_path: Path) -> None:
    path = write(tmp_path, "p.csv", "B,C,A\nb,9,1\n")
    assert outcome(spark, PAIRS, path, header=True) == [(1, "b")]


def test_parquet(spark: SparkSession, tmp_path: Path) -> None:
    table = pa.table({"B": ["b", "a"], "A": [2, 1], "C": [0.5, None]})
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    assert outcome(spark, PAIRS, tmp_path / "p.parquet") == [(1, "a"), (2, "b")]
    pyarrow.parquet.write_table(pa.table({"A": [2**40], "B": ["b"]}), tmp_path / "q.parquet")
    pyarrow.parquet.write_table(pa.table({"A": [1], "B": [2.5]}), tmp_path / "r.parquet")
    for name in ("q.parquet", "r.parquet"):
        found = outcome(spark, PAIRS, tmp_path / name)
        assert found == outcome("reference", PAIRS, tmp_path / name)
        assert "C032" in found


NAMED = "database({p(A: integer)}). out(A) <- p(A). query out(A)."


@pytest.mark.parametrize("format", ["parquet", "orc", "csv"])
def test_columns_of_the_same_name(spark: SparkSession, tmp_path: Path, format: str) -> None:
    path = tmp_path / f"p.{format}"
    table = pa.Table.from_arrays([pa.array([1]), pa.array(["b"])], names=["x", "x"])
    output.write(table, path, format, "error", header=True)
    named = tmp_path / f"named.{format}"
    output.write(table.rename_columns(["A", "A"]), named, format, "error", header=True)
    options: dict[str, Any] = {"header": True} if format == "csv" else {}
    assert outcome(spark, PAIRS, path, **options) == [(1, "b")]
    told = outcome(spark, NAMED, named, **options)
    assert "2 columns named A in the data of p" in told
    assert told == outcome("embedded", NAMED, named, **options)


def test_columns_of_the_same_name_in_a_frame(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1 AS x, 'b' AS x")
    assert outcome(spark, PAIRS, frame) == [(1, "b")]
    assert outcome(spark, "out(A, B) <- p(A, B). query out(A, B).", frame) == [(1, "b")]
    assert "2 columns named A" in outcome(spark, NAMED, spark.sql("SELECT 1 AS A, 'b' AS A"))
    with caladan.connect(spark) as db:
        db.add("p", frame)
        with pytest.raises(CaladanError, match="2 columns named x"):
            db.sql("SELECT x FROM p")


def test_nanoseconds_are_not_cut(spark: SparkSession, tmp_path: Path) -> None:
    program = "database({p(A: integer, B: datetime)}). out(A, B) <- p(A, B). query out(A, B)."
    moments = pa.array([1_000, 1_001], pa.timestamp("ns"))
    table = pa.table({"A": [1, 2], "B": moments})
    pyarrow.parquet.write_table(table, tmp_path / "p.parquet")
    pyarrow.parquet.write_table(table.slice(0, 1), tmp_path / "q.parquet")
    told = outcome(spark, program, tmp_path / "p.parquet")
    assert "p.parquet:2: error[C032]: '1970-01-01T00:00:00.000001001' is finer" in told
    assert outcome(spark, program, table).startswith("error[C032]: '1970-01-01T00:00:00.000001001'")
    whole = dt.datetime(1970, 1, 1, 0, 0, 0, 1)
    assert outcome(spark, program, tmp_path / "q.parquet") == [(1, whole)]


def test_files_of_several_kinds(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, "a.csv", "1,a\n")
    write(tmp_path, "b.tsv", "2\tb\n")
    for place in (tmp_path, f"file://{tmp_path}"):
        assert "files of several kinds: csv, tsv" in outcome(spark, PAIRS, place)
        assert outcome(spark, PAIRS, place, format="tsv") == [(2, "b")]


TEXTS = ['a"b', "a,b", "a\rb", "a\nb", "a\r\nb", " a ", "", "\ufeffa", "\\", "a\0b", "ä\u2028", "#"]


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_any_text_goes_through_folders(spark: SparkSession, tmp_path: Path, format: str) -> None:
    rows = [(i, text) for i, text in enumerate(TEXTS)]
    with caladan.connect(spark) as db:
        db.add("p", rows)
        db.run(PAIRS).answer.write(tmp_path / "out", format=format)
    assert outcome(spark, PAIRS, tmp_path / "out") == rows
    assert outcome("embedded", PAIRS, tmp_path / "out") == rows


def test_bad_rows_are_set_aside_if_permissive(spark: SparkSession, tmp_path: Path) -> None:
    bad = write(tmp_path, "bad.csv", "1,a\nx,b\n")
    write(tmp_path, "good.csv", "2,b\n")
    with caladan.connect(spark) as db:
        db.add("p", tmp_path)
        out = db.run(PAIRS, permissive=True)
        assert out.answer.rows() == [(1, "a"), (2, "b")]
        reason = "'x' is not an integer (column A of p)"
        assert out["_rejected"].rows() == [("p", str(bad), 2, 1, "x", reason)]


@pytest.mark.usefixtures("checked")
def test_frames_of_spark(spark: SparkSession) -> None:
    frame = spark.range(3).select(
        sf.col("id").alias("number"), sf.col("id").cast("string").alias("text")
    )
    assert outcome(spark, PAIRS, frame) == [(0, "0"), (1, "1"), (2, "2")]
    assert "1 column (id) where p has 2 (A, B)" in outcome(spark, PAIRS, spark.range(1))


@pytest.fixture(params=["by Spark", "here"])
def checked(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of frames are checked in either way."""
    if request.param == "here":
        monkeypatch.setattr(internals, "estimated_bytes", GUESS)


GUESS = internals.estimated_bytes


@pytest.mark.usefixtures("checked")
def test_missing_values_of_a_frame(spark: SparkSession) -> None:
    schema = StructType([StructField("A", IntegerType()), StructField("B", IntegerType())])
    frame = spark.createDataFrame([(1, 2), (None, 3)], schema)
    program = "database({p(A: integer, B: integer)}). out(A, B) <- p(A, B). query out(A, B)."
    assert outcome(spark, program, frame) == [(None, 3), (1, 2)]
    shown = outcome(spark, program.replace("A: integer", "A: integer!"), frame)
    assert "error[C036]: a value is missing (column A of p)" in shown
    wide = frame.select(sf.lit(2**40).alias("A"), "B")
    assert "does not fit in integer" in outcome(spark, program, wide)
    assert "column B of p is string, but the data has integer" in outcome(spark, PAIRS, frame)


@pytest.mark.usefixtures("checked")
def test_instants_of_a_frame_are_read_as_utc(spark: SparkSession) -> None:
    program = "database({p(T: datetime)}). out(T) <- p(T). query out(T)."
    frame = spark.range(1).select(sf.timestamp_seconds(sf.lit(0)).alias("T"))
    assert outcome(spark, program, frame) == [(dt.datetime(1970, 1, 1),)]


def test_data_in_memory(spark: SparkSession) -> None:
    assert outcome(spark, PAIRS, {"A": [1], "B": ["x"]}) == [(1, "x")]
    assert outcome(spark, PAIRS, []) == []
    assert outcome(spark, PAIRS, [(1, "x"), (2, None)]) == [(1, "x"), (2, None)]
    required = PAIRS.replace("string", "string!")
    assert json.dumps(outcome(spark, required, [(1, "x"), (2, None)])).count("C036") == 1


TYPED = """database({p(Amount: decimal, Day: date, Key: binary)}).
out(A, D, K) <- p(A, D, K). query out(A, D, K)."""

TYPED_FILES = {
    "exact.csv": "12345678901234567.123456789012345678,2024-02-29,cafe\n -.5 , 0001-01-01 ,\n",
    "closer.csv": "1e3,2024-02-29,CAFE\n0.50000000000000000000,2024-02-29,00\n",
    "large.csv": "1,2024-02-29,00\n100000000000000000000,2024-02-29,00\n",
    "small.csv": "0.0000000000000000001,2024-02-29,00\n",
    "february.csv": "1,2024-02-30,00\n",
    "time.csv": "1,2024-02-29T00:00:00,00\n",
    "half.csv": "1,2024-02-29,caf\n",
    "exact.jsonl": '{"Amount": 12345678901234567.123456789012345678, "Day": "2024-02-29", '
    '"Key": ""}\n{"Amount": "0.1", "Day": "2024-02-29", "Key": "ff"}\n'
    '{"Amount": 7, "Day": "2024-02-29", "Key": "00"}\n'
    '{"Amount": 1e3, "Day": "2024-02-29", "Key": "00"}\n',
    "large.jsonl": '{"Amount": 123456789012345678901.5, "Day": "2024-02-29", "Key": ""}\n',
    "small.jsonl": '{"Amount": 0.1234567890123456789, "Day": "2024-02-29", "Key": ""}\n',
}


@pytest.mark.parametrize("name", TYPED_FILES)
def test_digits_days_and_bytes_are_kept(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, TYPED_FILES[name])
    assert outcome(spark, TYPED, path) == outcome("reference", TYPED, path)


@pytest.mark.parametrize("format", ["parquet", "orc"])
def test_types_of_columnar_files_are_kept(spark: SparkSession, tmp_path: Path, format: str) -> None:
    frame = spark.sql(
        "SELECT CAST('12345678901234567.12' AS decimal(30, 2)) AS Amount, DATE '2024-02-29' AS Day,"
        " X'CAFE' AS Key"
    )
    frame.write.format(format).save(str(tmp_path / "p"))
    row = (Decimal("12345678901234567.12"), dt.date(2024, 2, 29), b"\xca\xfe")
    undeclared = "out(A, D, K) <- p(A, D, K). query out(A, D, K)."
    assert outcome(spark, undeclared, tmp_path / "p") == [row]
    assert outcome(spark, undeclared, frame) == [row]
    assert outcome("reference", undeclared, tmp_path / "p") == [row]


@pytest.mark.usefixtures("checked")
def test_decimals_of_a_frame_that_do_not_fit(spark: SparkSession) -> None:
    program = "database({p(X: decimal)}). out(X) <- p(X). query out(X)."
    for spelled, number, is_right in (
        ("decimal(38, 20)", "1.50", True),
        ("decimal(38, 20)", "0.00000000000000000001", False),
        ("decimal(38, 0)", "99999999999999999999", True),
        ("decimal(38, 0)", "123456789012345678901234567890", False),
    ):
        frame = spark.range(1).select(sf.lit(number).cast(spelled).alias("X"))
        found = outcome(spark, program, frame)
        assert found == [(Decimal(number),)] if is_right else "does not fit in decimal" in found


BAD = [(1, "a"), (2**40, "b"), (3, None)]


@pytest.mark.parametrize("format", ["json", "parquet", "orc", "frame", "frame, here"])
def test_bad_rows_of_each_format(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    if format == "frame, here":
        monkeypatch.setattr(internals, "estimated_bytes", GUESS)
        format = "frame"
    frame = spark.createDataFrame(BAD, "A long, B string").coalesce(1)
    if format != "frame":
        frame.write.format(format).option("ignoreNullFields", False).save(str(tmp_path / "p"))
    data = frame if format == "frame" else tmp_path / "p"
    strict = outcome(spark, PAIRS.replace("string", "string!"), data)
    assert "does not fit in integer" in strict
    assert "C036" in strict
    assert format == "frame" or re.search(rf"part-\S+\.{format}:2", strict)
    with caladan.connect(spark) as db:
        db.add("p", data)
        out = db.run(PAIRS, permissive=True)
        assert out.answer.rows() == [(1, "a"), (3, None)]
        assert [row[0] for row in out["_rejected"].rows()] == ["p"]


@pytest.mark.parametrize("format", ["csv", "json", "parquet"])
def test_reading_right_data_takes_one_job(spark: SparkSession, tmp_path: Path, format: str) -> None:
    spark.sql("SELECT 1 AS A, 'a' AS B").write.format(format).save(str(tmp_path / "p"))
    columns = (Column("A", Type.INTEGER), Column("B", Type.STRING))
    given, workspace = source("p", tmp_path / "p"), Workspace(spark.newSession())
    tracker = spark.sparkContext.statusTracker()
    before = set(tracker.getJobIdsForGroup())
    table, _ = sources.load(Reading("p", given, columns, workspace, permissive=False))
    assert table.size == 1  # which are the same shows when somebody asks
    jobs = len(set(tracker.getJobIdsForGroup()) - before)
    assert jobs == (2 if format == "parquet" else 1)  # Spark looks up the schema of Parquet in one
    table.close()


def test_decimals_keep_their_width(spark: SparkSession, tmp_path: Path) -> None:
    """What was decimal(10,2) comes out as that: as a frame, as Arrow, and in what Spark writes."""
    rows = [(Decimal("12.50"), Decimal("0.125")), (Decimal("-99999999.99"), Decimal("9.999"))]
    frame = spark.createDataFrame(rows, "a decimal(10,2), b decimal(4,3)")
    with caladan.connect(spark) as db:
        db.add("p", frame)
        answer = db.run("q(A, max<B>) <- p(A, B). query q(A, B).").answer
        assert answer.spark().dtypes == [("A", "decimal(10,2)"), ("B", "decimal(4,3)")]
        assert answer.arrow().schema.types == [pa.decimal128(10, 2), pa.decimal128(4, 3)]
        assert sorted(answer.rows()) == sorted(rows)
        answer.write(tmp_path / "out", format="parquet")
    assert spark.read.parquet(str(tmp_path / "out")).dtypes[0][1] == "decimal(10,2)"


def test_a_frame_of_which_nothing_is_left_out_is_read_as_it_is(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark has planned it, perhaps; only the order of its columns is made another, here."""
    monkeypatch.setattr(internals, "estimated_bytes", GUESS)
    monkeypatch.setattr(sources, "_choose_columns", None)
    with caladan.connect(spark) as db:
        db.add("p", spark.createDataFrame([(1, "a"), (2, "b")], "n int, t string"))
        out = db.run("database({p(t: string, n: integer)}). q(T, N) <- p(T, N). query q(T, N).")
        assert out.answer.rows() == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(("rows", "is_few"), [(20, True), (200, False)])
@pytest.mark.parametrize("kind", ["rows", "a join", "files", "cached"])
def test_rows_are_counted_before_much_is_collected(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    rows: int,
    is_few: bool,
) -> None:
    """A driver that is sent more than it has room for may never answer."""
    monkeypatch.setattr(internals, "estimated_bytes", GUESS)
    monkeypatch.setattr(sources, "_most", lambda _: 1 << 12)
    frame = spark.createDataFrame([(i, i + 1) for i in range(rows)], "A int, B int")
    if kind == "a join":
        frame = frame.join(frame.selectExpr("A", "B as C"), "A").selectExpr("A", "C as B")
    elif kind == "files":
        frame.coalesce(1).write.parquet(str(tmp_path / "p"))
        frame = spark.read.parquet(str(tmp_path / "p"))
    elif kind == "cached":
        frame = frame.cache()
        assert frame.count() == rows
    workspace = Workspace(spark.newSession())
    columns = (Column("A", Type.INTEGER), Column("B", Type.INTEGER))
    reading = Reading("p", source("p", frame), columns, workspace, permissive=False)
    table, _ = sources.load(reading)
    assert (table.data is not None, table.count()) == (is_few, rows)
    table.close()
    workspace.close()
    assert frame.storageLevel.useMemory == (kind == "cached")
    frame.unpersist()
