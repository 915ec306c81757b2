"""Files: what is read, and the exact words about what is not."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import math
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from caladan.data import formats, text
from caladan.data.load import load
from caladan.data.problems import BadRow
from caladan.data.source import Source, source
from caladan.program import Column, Type
from caladan.program.diagnostics import CaladanError
from caladan.program.types import TYPES

ARC = (Column("A", Type.INTEGER), Column("B", Type.INTEGER))
WORD = (Column("Id", Type.LONG), Column("Text", Type.STRING))


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(
    path: str, columns: tuple[Column, ...] = ARC, **options: object
) -> list[tuple[object, ...]]:
    table, rejected = load("arc", source("arc", path, **options), columns)  # type: ignore[arg-type]
    assert rejected is None
    return [tuple(row.values()) for row in table.to_pylist()]


def complaint(path: str, columns: tuple[Column, ...] = ARC, **options: object) -> str:
    with pytest.raises(CaladanError) as caught:
        load("arc", source("arc", path, **options), columns)  # type: ignore[arg-type]
    return str(caught.value)


READS = [
    ("edges.csv", b"1,2\n2,3\n", {}),
    ("edges.csv", b"1,2\r\n2,3", {}),
    ("edges.csv", b"\xef\xbb\xbf1,2\n\n2,3\n\n", {}),
    ("edges.csv", b"A,B\n1,2\n2,3\n", {}),
    ("edges.csv", b'"A","B"\n"1",2\n2, 3\n', {}),
    ("edges.csv", b"B,A,weight\n2,1,9\n3,2,9\n", {"header": True}),
    ("edges.csv", b"src,dst\n1,2\n2,3\n", {"header": True}),
    ("edges.csv", b"1;2\n+2;3\n", {"delimiter": ";"}),
    ("edges.tsv", b"1\t2\n2\t3\n", {}),
    ("edges.facts", b"1\t2\n2\t3\n", {}),
    ("edges.data", b"1\t2\n2\t3\n", {"format": "tsv"}),
    ("edges.csv.gz", gzip.compress(b"1,2\n2,3\n", mtime=0), {}),
    ("edges.jsonl", b'{"A": 1, "B": 2}\n\n{"B": 3, "A": 2, "C": 4}\n', {}),
    ("edges.ndjson", b'{"a": 1, "b": 2}\n{"b": 3, "a": 2}\n', {}),
    ("edges.json", b'[{"A": 1, "B": 2},\n {"B": 3, "A": 2}]\n', {}),
    ("edges.json", b"[[1, 2], [2, 3]]", {}),
    ("edges.json", b"[1, 2]\n[2, 3]", {}),
    ("edges.jsonl.gz", gzip.compress(b'{"A": 1, "B": 2}\n{"A": 2, "B": 3}\n', mtime=0), {}),
]


@pytest.mark.parametrize(("name", "content", "options"), READS)
def test_reads(name: str, content: bytes, options: dict[str, object]) -> None:
    Path(name).write_bytes(content)
    assert rows(name, **options) == [(1, 2), (2, 3)]


@pytest.mark.parametrize("name", ["none.csv", "none.json", "none.csv.gz", "none.parquet"])
def test_empty_files_are_fine(name: str) -> None:
    Path(name).write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    assert rows(name) == []
    assert rows(name, header=True) == []


def test_parquet_by_name_and_by_position() -> None:
    pq.write_table(pa.table({"B": [2, 3], "A": [1, 2], "C": ["x", "y"]}), "named.parquet")
    pq.write_table(pa.table({"src": [1, 2], "dst": [2, 3]}), "strange.parquet")
    assert rows("named.parquet") == rows("strange.parquet") == [(1, 2), (2, 3)]


def test_folders_and_patterns() -> None:
    Path("parts/day=1").mkdir(parents=True)
    Path("parts/day=1/a.csv").write_text("1,2\n")
    Path("parts/b.csv").write_text("2,3\n")
    Path("parts/_SUCCESS").write_text("")
    Path("parts/README").write_text("not data")
    Path("parts/.b.csv.crc").write_text("?")
    assert sorted(rows("parts")) == [(1, 2), (2, 3)]
    assert sorted(rows("parts/**/*.csv")) == [(1, 2), (2, 3)]
    Path("bare").mkdir()
    Path("bare/part-0").write_text("1,2\n2,3\n")
    assert rows("bare") == [(1, 2), (2, 3)]
    Path("nothing").mkdir()
    assert rows("nothing") == []


def test_partitions_of_parquet_folders_are_columns() -> None:
    Path("parts/A=1").mkdir(parents=True)
    pq.write_table(pa.table({"B": [2, 3]}), "parts/A=1/x.parquet")
    assert rows("parts") == [(1, 2), (1, 3)]


def test_quotes_hold_delimiters_and_line_ends() -> None:
    Path("words.csv").write_text('1,"a,""b"""\n2,"two\nlines"\n3,5" disk\n')
    assert rows("words.csv", WORD) == [(1, 'a,"b"'), (2, "two\nlines"), (3, '5" disk')]


def test_tabs_have_no_quotes() -> None:
    Path("words.tsv").write_text('1\t"a"\n2\t"\n')
    assert rows("words.tsv", WORD) == [(1, '"a"'), (2, '"')]


def test_every_type() -> None:
    columns = tuple(Column(t.name, t) for t in TYPES if t is not Type.OBJECT and not t.is_nested)
    values = '0.1,NaN,"",TRUE,2024-01-31,2024-01-31,90 minutes,1.50,cafe'
    Path("all.csv").write_text(f"1,2,3,4,5,6,7,8,{values}\n")
    (row,) = rows("all.csv", columns)
    assert row[:9] == (1, 2, 3, 4, 5, 6, 7, 8, pytest.approx(0.1))
    assert math.isnan(row[9])  # type: ignore[arg-type]
    assert row[10:] == (
        "", True, dt.datetime(2024, 1, 31), dt.date(2024, 1, 31), dt.timedelta(minutes=90),
        Decimal("1.5"), b"\xca\xfe",
    )  # fmt: skip


COMPLAINTS = [
    (
        "edges.csv",
        b"1,2\n3,x7\n",
        {},
        (
            "edges.csv:2:3: error[C032]: 'x7' is not an integer (column B of arc)\n"
            "  help: `B` is declared as integer"
        ),
    ),
    (
        "edges.csv",
        b"1,2\n3,0x7\n",
        {},
        (
            "edges.csv:2:3: error[C032]: '0x7' is not an integer (column B of arc)\n"
            "  help: `B` is declared as integer"
        ),
    ),
    (
        "edges.csv",
        b'1,2\n"3\n",99999999999\n',
        {},
        (
            "edges.csv:2:1: error[C032]: '3\\n' is not an integer (column A of arc)\n"
            "  help: `A` is declared as integer"
        ),
    ),
    (
        "edges.csv",
        b"1, \n",
        {},
        (
            "edges.csv:1:3: error[C032]: ' ' is not an integer (column B of arc)\n"
            "  help: `B` is declared as integer"
        ),
    ),
    (
        "edges.csv",
        b"1,2\n\n3\n",
        {},
        "edges.csv:3:1: error[C031]: 1 column where arc has 2 (A, B)",
    ),
    (
        "edges.csv",
        b"1,2,3\n",
        {},
        "edges.csv:1:1: error[C031]: 3 columns where arc has 2 (A, B)",
    ),
    (
        "edges.csv",
        b"1\t2\n",
        {},
        (
            "edges.csv:1:1: error[C031]: 1 column where arc has 2 (A, B)\n"
            '  help: if columns are separated by "\\t", say so: `--delimiter "\\t"` on the command '
            'line, delimiter="\\t" in Python'
        ),
    ),
    (
        "edges.csv",
        b"1,2\n3,\xff4\n",
        {},
        (
            "edges.csv:2:3: error[C033]: byte 0xff is not UTF-8 text (data of arc)\n"
            "  help: convert the file to UTF-8, for example with `iconv -f latin1 -t utf-8`"
        ),
    ),
    (
        "edges.csv",
        b'1,2\n3,"4\n',
        {},
        "edges.csv: error[C035]: a quote opens in line 2 and is not closed (data of arc)",
    ),
    (
        "edges.csv",
        b"a,b\n1,2\n",
        {},
        (
            "edges.csv:1:1: error[C032]: 'a' is not an integer (column A of arc)\n"
            "  help: if the first line is a header, use `--header` on the command line or "
            "header=True in Python"
        ),
    ),
    (
        "edges.csv",
        b"A,to\n1,2\n",
        {"header": True},
        "edges.csv: error[C031]: no column B in the data of arc; it has A, to",
    ),
    (
        "edges.jsonl",
        b'{"A": 1, "B": 2.5}\n',
        {},
        (
            "edges.jsonl:1: error[C032]: 2.5 is not an integer (column B of arc)\n"
            "  help: `B` is declared as integer"
        ),
    ),
    (
        "edges.jsonl",
        b'{"A": 1, "B": 2}\n{"A": 1,\n',
        {},
        (
            "edges.jsonl:2:9: error[C035]: not JSON: expecting property name enclosed in double "
            "quotes (data of arc)\n"
            "  help: each line holds one JSON object, or the file is one array of objects"
        ),
    ),
    (
        "edges.json",
        b'[{"A": 1, "B": 2},\n',
        {},
        "edges.json: error[C035]: the JSON array is broken at its end (data of arc)",
    ),
    (
        "edges.parquet",
        b"not parquet",
        {},
        "edges.parquet: error[C035]: not a readable parquet file (data of arc)",
    ),
    (
        "edges.csv.gz",
        b"not gzip",
        {},
        "edges.csv.gz: error[C035]: not a readable gz file (data of arc)",
    ),
    (
        "edges.dat",
        b"1,2",
        {},
        (
            "edges.dat: error[C035]: its name does not show the format (data of arc)\n"
            '  help: name the format: format="csv" (or tsv, json, parquet, orc)'
        ),
    ),
    ("edges.csv", b"1,2", {"delimiter": "::"}, "error[C050]: the delimiter of arc must be one"),
    ("edges.csv", b"1,2", {"format": "xls"}, "error[C050]: unknown format 'xls'"),
]


@pytest.mark.parametrize(("name", "content", "options", "expected"), COMPLAINTS)
def test_complaints(name: str, content: bytes, options: dict[str, object], expected: str) -> None:
    Path(name).write_bytes(content)
    found = complaint(name, **options)
    assert found.startswith(expected) if "C050" in expected else found == expected


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("none.csv", "none.csv: error[C030]: no such file or folder (data of arc)"),
        ("no*.csv", "no*.csv: error[C030]: no file matches this pattern (data of arc)"),
        ("s3://bucket/a.csv", "s3://bucket/a.csv: error[C035]: only the spark engine reads remote"),
    ],
)
def test_files_that_are_not_there(path: str, expected: str) -> None:
    assert complaint(path).startswith(expected)


def test_parquet_complaints_name_the_row() -> None:
    pq.write_table(pa.table({"A": [1, None], "B": [2**40, 2]}), "a.parquet")
    pq.write_table(pa.table({"A": ["x"], "B": [2]}), "b.parquet")
    assert complaint("a.parquet").startswith(
        "a.parquet:1: error[C032]: 1099511627776 does not fit in integer "
        "(-2147483648 to 2147483647) (column B of arc)"
    )
    required = tuple(replace(column, is_required=True) for column in ARC)
    assert "a.parquet:2: error[C036]: a value is missing (column A of arc)" in complaint(
        "a.parquet", required
    )
    assert complaint("b.parquet") == (
        "b.parquet: error[C032]: column A of arc is integer, but the data has string"
    )


def test_many_bad_rows_are_counted() -> None:
    Path("edges.csv").write_text("1,2\n" + "x,1\n" * 20)
    lines = complaint("edges.csv").splitlines()
    assert len([line for line in lines if "'x' is not an integer" in line]) == 5
    assert lines[-2:] == [
        "error[C032]: … and 15 more bad rows in the data of arc",
        "  help: `--permissive` (permissive=True in Python) sets bad rows aside and goes on",
    ]


def test_permissive_sets_bad_rows_aside() -> None:
    Path("edges.csv").write_bytes(b"1,2\nx,1\n3\n\xff,1\n5,6\n")
    table, rejected = load("arc", source("arc", "edges.csv"), ARC, permissive=True)
    assert table.to_pylist() == [{"A": 1, "B": 2}, {"A": 5, "B": 6}]
    assert rejected is not None
    assert [(r["file"], r["line"], r["column"], r["text"]) for r in rejected.to_pylist()] == [
        ("edges.csv", 2, 1, "x"),
        ("edges.csv", 3, 1, "3"),
        ("edges.csv", 4, 1, "\\xff,1"),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_one_bad_row_among_many(end: str) -> None:
    lines = ["A,B"] + [f"{i},{i}" for i in range(100_000)] + ["x,1", "1,2", ""]
    Path("edges.csv").write_text(end.join(lines), newline="")
    table, rejected = load("arc", source("arc", "edges.csv"), ARC, permissive=True)
    assert table.num_rows == 100_001
    assert rejected is not None
    assert rejected.column("line").to_pylist() == [100_002]


FIELD = st.text(st.characters(codec="utf-8") | st.sampled_from('\0\r\n",\t '), max_size=6)


@given(st.lists(st.tuples(FIELD, FIELD), max_size=5))
def test_both_readers_agree_on_quoted_text(data: list[tuple[str, str]]) -> None:
    quoted = [",".join('"' + f.replace('"', '""') + '"' for f in row) for row in data]
    raw = "\n".join(quoted).encode()
    columns = (Column("A", Type.STRING), Column("B", Type.STRING))
    comma = Source("path", "f", ("f",), "csv", header=False)
    bad: list[BadRow] = []
    found = [[f.text for f in fields] for _, _, fields in text.rows("arc", "f", raw, comma, bad)]
    at_once = text.read("arc", "f", raw, comma, columns, bad)
    assert [tuple(row) for row in found] == data
    assert [tuple(r.values()) for r in at_once.to_pylist()] == data
    assert not bad


def test_lines_end_in_three_ways() -> None:
    found = list(formats.lines("r", "f", b"a\nb\r\n\rc", []))
    assert found == [(1, "a", "\n"), (2, "b", "\r\n"), (3, "", "\r"), (4, "c", "")]


def test_json_and_text_take_the_same_values() -> None:
    Path("a.csv").write_text("1,x\n")
    Path("a.jsonl").write_text(json.dumps({"Id": 1, "Text": "x"}))
    assert rows("a.csv", WORD) == rows("a.jsonl", WORD)
