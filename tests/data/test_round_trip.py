"""What is written is read back, whatever the text; what a format cannot hold is refused."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pyarrow import orc

from caladan.data.formats import ORC_MOMENTS
from caladan.data.load import load
from caladan.data.output import write
from caladan.data.source import source
from caladan.program import Column, Type
from caladan.program.diagnostics import CaladanError
from caladan.program.types import TYPES

TEXT = st.text(
    st.characters(codec="utf-8") | st.sampled_from('\0\r\n\t",; \u2028\ufeff\x85\\'), max_size=8
)
PAIR = (Column("One", Type.STRING), Column("Two", Type.STRING))
FORMATS = ["csv", "tsv", "json", "jsonl", "parquet", "orc"]
SUFFIXES = [".csv", ".csv.gz", ".CSV.GZ", ".csv.bz2", ".csv.zst", ".json", ".jsonl.gz", ".parquet"]


def back(path: Path, columns: tuple[Column, ...], **options: object) -> list[tuple[object, ...]]:
    table, rejected = load("p", source("p", path, **options), columns)  # type: ignore[arg-type]
    assert rejected is None
    return [tuple(row.values()) for row in table.to_pylist()]


def table_of(rows: list[tuple[object, ...]], columns: tuple[Column, ...]) -> pa.Table:
    return load("p", source("p", rows), columns)[0]


def is_plain(row: tuple[str, ...]) -> bool:
    """Whether tabs between columns leave a row whole."""
    broken = any(c in text for text in row for c in "\t\r\n")
    return not broken and row != ("",) and not any(text.startswith("\ufeff") for text in row)


@pytest.mark.parametrize("format", FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(TEXT, TEXT), max_size=6))
def test_any_text_in_two_columns(format: str, rows: list[tuple[str, str]], tmp_path: Path) -> None:
    kept = [row for row in rows if is_plain(row)] if format == "tsv" else rows
    path = tmp_path / f"p.{format}"
    write(table_of([*kept], PAIR), path, format, "overwrite")
    options = {"header": False} if format in ("csv", "tsv") else {}
    assert back(path, PAIR, **options) == kept


@pytest.mark.parametrize("format", FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(st.tuples(TEXT), max_size=6))
def test_any_text_alone_in_its_line(format: str, rows: list[tuple[str]], tmp_path: Path) -> None:
    kept = [row for row in rows if is_plain(row)] if format == "tsv" else rows
    path = tmp_path / f"p.{format}"
    write(table_of([*kept], PAIR[:1]), path, format, "overwrite")
    options = {"header": False} if format in ("csv", "tsv") else {}
    assert back(path, PAIR[:1], **options) == kept


@pytest.mark.parametrize("text", ["a\tb", "a\nb", "a\rb", "", "\ufeffa"])
def test_tabs_refuse_what_they_cannot_hold(text: str, tmp_path: Path) -> None:
    with pytest.raises(CaladanError, match="C037"):
        write(table_of([(text,)], PAIR[:1]), tmp_path / "p.tsv", "tsv", "error")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_compressed_as_the_name_says(suffix: str, tmp_path: Path) -> None:
    rows = [("a\rb", 'x "y"'), ("", " z ")]
    path = tmp_path / f"p.gz{suffix}"
    format = "csv" if "csv" in suffix.lower() else suffix.removesuffix(".gz")[1:]
    write(table_of([*rows], PAIR), path, format, "error")
    assert back(path, PAIR) == rows
    is_zipped = path.read_bytes()[:2] == b"\x1f\x8b"
    assert is_zipped == suffix.lower().endswith(".gz")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".csv.bz2", ".csv.zst", ".jsonl"])
def test_appended_rows_are_read_too(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"p{suffix}"
    format = "csv" if "csv" in suffix else "jsonl"
    for row in (("a", "b"), ("c\r", "d")):
        write(table_of([row], PAIR), path, format, "append")
    assert back(path, PAIR) == [("a", "b"), ("c\r", "d")]


@pytest.mark.parametrize("name", ["p.csv", "p.csv.gz"])
def test_append_after_a_last_line_without_an_end(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"a,b") if name.endswith("gz") else b"a,b")
    write(table_of([("c", "d")], PAIR), path, "csv", "append")
    assert back(path, PAIR) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("name", ["p.parquet.gz", "p.orc.gz"])
def test_columnar_files_are_not_zipped(name: str, tmp_path: Path) -> None:
    with pytest.raises(CaladanError, match="compressed inside"):
        write(table_of([("a", "b")], PAIR), tmp_path / name, name.split(".")[1], "error")


def test_missing_values_and_empty_texts_of_sql_differ(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    write(pa.table({"A": ["", None, "x"], "B": ["1", "2", None]}), path, "csv", "error")
    assert path.read_text() == '"",1\n,2\nx,\n'


def test_json_is_json_also_of_numbers_that_it_lacks(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    columns = (Column("X", Type.DOUBLE),)
    write(
        table_of([(math.inf,), (-math.inf,), (math.nan,), (0.5,)], columns), path, "json", "error"
    )
    json.loads(path.read_text(), parse_constant=lambda word: pytest.fail(word))
    found = [row[0] for row in back(path, columns)]
    assert found[:2] == [math.inf, -math.inf]
    assert found[3] == 0.5
    assert math.isnan(float(str(found[2])))


def test_json_loses_no_column(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    two = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(CaladanError, match="two columns named x"):
        write(two, path, "json", "error")
    same = pa.Table.from_arrays([pa.array([1]), pa.array([1])], names=["x", "x"])
    write(same, path, "json", "error")
    assert json.loads(path.read_text()) == [{"x": 1}]


@pytest.mark.parametrize("format", ["orc", "parquet"])
@pytest.mark.parametrize(
    "type", [t for t in TYPES if t is not Type.OBJECT and not t.is_nested], ids=str
)
def test_every_type_is_read_back(type: Type, format: str, tmp_path: Path) -> None:
    values = {
        bool: [True, False],
        int: [0, 7],
        float: [-0.5, math.inf],
        str: ["", "x\0"],
        bytes: [b"", b"\0"],
        Decimal: [Decimal("-0.25"), Decimal("1e19")],
        dt.date: [dt.date.min, dt.date.max],
        dt.datetime: [*ORC_MOMENTS],
        dt.timedelta: [dt.timedelta(days=-3, microseconds=1), dt.timedelta(0)],
    }[type.python]
    columns = (Column("X", type),)
    write(table_of([(v,) for v in values], columns), tmp_path / f"p.{format}", format, "error")
    assert back(tmp_path / f"p.{format}", columns) == [(v,) for v in values]


@pytest.mark.parametrize("at", [0, 1])
def test_datetimes_that_cannot_be_read_back_from_orc_are_not_written(
    at: int, tmp_path: Path
) -> None:
    beyond = ORC_MOMENTS[at] + (-1, 1)[at] * dt.timedelta(microseconds=1)
    columns = (Column("X", Type.DATETIME),)
    with pytest.raises(CaladanError, match=r"C037.* outside of 1677-09-21 to 2262-04-11"):
        write(table_of([(beyond,)], columns), tmp_path / "p.orc", "orc", "error")
    assert list(tmp_path.iterdir()) == []
    orc.write_table(pa.table({"X": [beyond]}), tmp_path / "p.orc")
    with pytest.raises(CaladanError, match=r"C035.* before 1677 or after 2262"):
        back(tmp_path / "p.orc", columns)
