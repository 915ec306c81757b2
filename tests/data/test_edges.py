"""Data at the edges: nothing is merged, cut, mixed up or left out without a word."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

import caladan as cal
from caladan.program.diagnostics import CaladanError

PAIR = "p(X, Y) <- e(X, Y). query p(X, Y)."
XX = pa.Table.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["x", "x"])


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(data: object, program: str = PAIR, **options: object) -> list[tuple[object, ...]]:
    with cal.connect("embedded") as db:
        db.add("e", data, **options)  # type: ignore[arg-type]
        return db.run(program).answer.rows()


def complaint(data: object, program: str = PAIR, **options: object) -> str:
    with pytest.raises(CaladanError) as caught:
        rows(data, program, **options)
    return str(caught.value)


def declared(columns: str) -> str:
    return f"database({{e({columns})}}). query e(X, Y)."


# ── Names that come twice ────────────────────────────────────────────────────────────────────────


def _twice(kind: str) -> object:
    if kind == "parquet":
        pq.write_table(XX, "e.parquet")
    elif kind == "orc":
        orc.write_table(XX, "e.orc")
    elif kind == "csv":
        Path("e.csv").write_text("x,x\n1,3\n2,4\n")
    elif kind == "pandas":
        return pd.DataFrame([[1, 3], [2, 4]], columns=["x", "x"])
    else:
        return XX
    return f"e.{kind}"


@pytest.mark.parametrize("kind", ["arrow", "parquet", "orc", "csv", "pandas"])
def test_columns_of_the_same_name_go_by_position(kind: str) -> None:
    options = {"header": True} if kind == "csv" else {}
    data = _twice(kind)
    assert rows(data, **options) == [(1, 3), (2, 4)]
    assert rows(data, declared("A: integer, B: integer"), **options) == [(1, 3), (2, 4)]


@pytest.mark.parametrize("kind", ["arrow", "parquet", "orc", "csv", "pandas"])
def test_a_name_that_decides_must_be_the_only_one(kind: str) -> None:
    options = {"header": True} if kind == "csv" else {}
    told = complaint(_twice(kind), "database({e(x: integer)}). query e(X).", **options)
    assert "error[C031]: 2 columns named x in the data of e, where the name decides" in told


def test_names_that_differ_in_case_alone() -> None:
    table = pa.table({"id": [1], "ID": [2]})
    assert rows(table, "database({e(ID: integer)}). query e(X).") == [(2,)]
    assert "2 columns named id and ID" in complaint(table, "database({e(Id: long)}). query e(X).")
    assert rows(table) == [(1, 2)]


@pytest.mark.parametrize("table", [XX, pa.table({"x": [1], "X": [2]})])
def test_sql_asks_by_name(table: pa.Table) -> None:
    with cal.connect("embedded") as db:
        db.add("e", table)
        with pytest.raises(CaladanError, match=r"C031.*2 columns named x"):
            db.sql("SELECT x FROM e")


def test_dicts_of_columns_lose_none() -> None:
    assert "2 columns named 1" in complaint({1: [1], "1": [2]})


def test_json_objects_have_each_name_once() -> None:
    Path("e.json").write_text('{"A": 1, "B": 2}\n{"A": 1, "A": 2, "B": 3}\n')
    told = complaint("e.json", declared("A: integer, B: integer"))
    assert told.startswith("e.json:2:1: error[C035]: an object has two values named A")
    Path("e.json").write_text('{"id": 1, "ID": 2, "B": 3}\n')
    told = complaint("e.json", declared("Id: integer, B: integer"))
    assert "id and ID may both be column Id" in told


# ── Numbers ──────────────────────────────────────────────────────────────────────────────────────


def test_whole_numbers_past_64_bits_are_text() -> None:
    Path("e.csv").write_text("12345678901234567890,1\n12345678901234567891,2\n7,3\n")
    assert rows("e.csv") == [
        ("12345678901234567890", 1),
        ("12345678901234567891", 2),
        ("7", 3),
    ]
    Path("f.csv").write_text("9223372036854775807,1\n-9223372036854775808,1.5\n")
    assert rows("f.csv") == [(-(2**63), 1.5), (2**63 - 1, 1.0)]


def test_numbers_with_a_fraction_among_them_are_doubles_if_these_hold_all_that_are_whole() -> None:
    Path("e.csv").write_text("100000000000000000000,1\n0.5,2\n -9007199254740992,3\n")
    assert rows("e.csv") == [(-9007199254740992.0, 3), (0.5, 2), (1e20, 1)]
    Path("f.csv").write_text("9007199254740993,1\n9007199254740992,2\n0.5,3\n")
    assert rows("f.csv") == [("0.5", 3), ("9007199254740992", 2), ("9007199254740993", 1)]


def test_what_first_rows_show_is_not_called_declared() -> None:
    Path("e.csv").write_text("1,2\n" * 1000 + "x,2\n")
    told = complaint("e.csv")
    assert told.startswith("e.csv:1001:1: error[C032]: 'x' is not an integer (column c1 of e)")
    assert "`c1` is not declared, and its first values are long" in told
    assert "`A` is declared as long" in complaint("e.csv", declared("A: long, B: long"))


@pytest.mark.parametrize("kind", ["json", "rows"])
def test_objects_with_other_names_say_which(kind: str) -> None:
    Path("e.json").write_text('[{"x": 1, "y": 2}]')
    told = complaint(
        "e.json" if kind == "json" else [{"x": 1, "y": 2}], declared("A: long, B: long")
    )
    assert "error[C036]: no value named A (column A of e)" in told
    assert "help: the row has x, y" in told


@pytest.mark.parametrize("column", [5, "text", b"text", None, np.array(5), pa.scalar(1)])
def test_a_single_value_is_no_column(column: object) -> None:
    told = complaint({"A": column, "B": column})
    assert told.startswith(f"error[C050]: a {type(column).__name__} is not a column")


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 10_000, "1" * 400])
@pytest.mark.parametrize("form", ['{{"A": {}, "B": 1}}\n', '[{{"A": {}, "B": 1}}]', "[{}, 1]\n"])
def test_json_numbers_that_no_double_holds(number: str, form: str) -> None:
    Path("e.json").write_text(form.format(number))
    told = complaint("e.json", declared("A: double, B: integer"))
    assert told.startswith("e.json:1: error[C032]:")
    assert "does not fit in double" in told
    assert "C03" in complaint("e.json")


# ── Moments ──────────────────────────────────────────────────────────────────────────────────────

FINE = pa.table({"A": pa.array([1_000, 1_001], pa.timestamp("ns")), "B": [1, 2]})


def test_nanoseconds_are_not_cut() -> None:
    pq.write_table(FINE, "e.parquet")
    told = complaint("e.parquet")
    assert told.startswith("e.parquet:2: error[C032]: '1970-01-01T00:00:00.000001001' is finer")
    zoned = FINE.set_column(0, "A", FINE.column(0).cast(pa.timestamp("ns", "Asia/Tokyo")))
    for data in (
        FINE,
        zoned,
        FINE.to_pandas(),
        {"A": FINE.to_pandas()["A"].to_numpy(), "B": [1, 2]},
        [(pd.Timestamp(1), 1)],
        [(np.datetime64(1, "ns"), 1)],
        pd.DataFrame({"A": ["2024-01-31T12:30:00.0000001"], "B": [1]}),
    ):
        told = complaint(data, declared("A: datetime, B: integer"))
        assert "is finer than a microsecond, which no datetime is (column A of e)" in told


def test_nanoseconds_that_are_whole_microseconds_are_right() -> None:
    whole = FINE.slice(0, 1)
    for data in (whole, whole.to_pandas(), [(pd.Timestamp(1000), 1)]):
        assert str(rows(data)[0][0]) == "1970-01-01 00:00:00.000001"


# ── Files of several kinds ───────────────────────────────────────────────────────────────────────


def _folder() -> None:
    Path("d").mkdir()
    Path("d/a.csv").write_text("1,2\n")
    Path("d/b.tsv").write_text("3\t4\n")
    pq.write_table(pa.table({"A": [5], "B": [6]}), "d/c.parquet")


@pytest.mark.parametrize("data", ["d", "d/*", [Path("d/a.csv"), Path("d/c.parquet")]])
def test_a_folder_of_several_kinds(data: object) -> None:
    _folder()
    told = complaint(data)
    assert "error[C035]: files of several kinds: csv, " in told
    assert 'select one with a pattern such as "*.csv", or with format="csv" in Python' in told


def test_which_kind_can_be_said() -> None:
    _folder()
    assert rows("d/*.csv") == rows("d", format="csv") == [(1, 2)]
    assert rows("d", format="tsv") == [(3, 4)]
    assert rows("d", format="parquet") == [(5, 6)]
    assert "no json files in the folder; it holds csv, parquet, tsv" in complaint(
        "d", format="json"
    )


def test_a_kind_that_came_later_is_seen_too() -> None:
    Path("d").mkdir()
    Path("d/a.csv").write_text("1,2\n")
    with cal.connect("embedded") as db:
        db.add("e", "d")
        Path("d/b.tsv").write_text("3\t4\n")
        with pytest.raises(CaladanError, match="files of several kinds: csv, tsv"):
            db.run(PAIR)


def test_a_folder_is_what_is_in_it() -> None:
    Path("e.csv").mkdir()
    pq.write_table(pa.table({"A": [5], "B": [6]}), "e.csv/c.parquet")
    assert rows("e.csv") == [(5, 6)]


# ── What cannot be read ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        (
            "e.csv.gz",
            gzip.compress(b"1,2\n" * 99, mtime=0)[:-9],
            "e.csv.gz: error[C035]: not a readable gz",
        ),
        ("e.csv.gz", b"1,2\n", "e.csv.gz: error[C035]: not a readable gz"),
        ("e.json.bz2", b"{}", "e.json.bz2: error[C035]: not a readable bz2"),
        ("e.parquet", b"PAR1 and PAR1", "e.parquet: error[C035]: not a readable parquet"),
        ("e.orc", b"ORC", "e.orc: error[C035]: not a readable orc"),
        ("e.csv", b"\xff\xfe1\0,\0002\0", "e.csv:1:1: error[C033]: byte 0xff is not UTF-8"),
        ("e.json", b"\xe9", "e.json:1:1: error[C033]: byte 0xe9 is not UTF-8"),
        ("e.json", b"{broken", "e.json:1:2: error[C035]: not JSON"),
        ("e.json", b"[" * 100_000, "e.json: error[C035]: the JSON is nested too deeply"),
        ("e.json", b'{"A": ' + b"[" * 100_000, "e.json:1:1: error[C035]: the JSON is nested too"),
        ("e.json", b'{"A": "\\ud800", "B": 1}', "e.json:1: error[C032]: '\\ud800' has characters"),
    ],
)
def test_damaged_files_of_undeclared_relations(name: str, content: bytes, expected: str) -> None:
    Path(name).write_bytes(content)
    assert complaint(name).startswith(expected)


def test_a_file_that_says_it_is_utf_16() -> None:
    Path("e.csv").write_bytes("1,2\n".encode("utf-16"))
    assert "`iconv -f utf-16 -t utf-8`" in complaint("e.csv")


def test_empty_files_beside_others_are_fine() -> None:
    Path("d").mkdir()
    Path("d/a.parquet").write_bytes(b"")
    pq.write_table(pa.table({"A": [5], "B": [6]}), "d/b.parquet")
    assert rows("d") == [(5, 6)]


# ── Text that is none ────────────────────────────────────────────────────────────────────────────

HALF = "\ud800"


@pytest.mark.parametrize(
    "data",
    [
        [(HALF, 1)],
        {"A": [HALF], "B": [1]},
        {"A": np.array([HALF], object), "B": [1]},
        pd.DataFrame({"A": [HALF], "B": [1]}),
        [{"A": HALF, "B": 1}],
    ],
)
def test_half_characters_in_data(data: object) -> None:
    told = complaint(data)
    assert "error[C032]: '\\ud800' has characters that are not Unicode text" in told
    with cal.connect("embedded") as db:
        db.add("e", data)
        out = db.run(declared("A: string, B: integer"), permissive=True)
        assert out["_rejected"].rows()[0][4] == "\\ud800"


def test_half_characters_elsewhere() -> None:
    with cal.connect("embedded") as db:
        for act, expected in (
            (lambda: db.run(f"p(1).\nq('{HALF}')."), r"<program>:2:4: error\[C033\]"),
            (lambda: db.query(f"p('{HALF}')"), r"error\[C033\]"),
            (lambda: db.sql(f"SELECT '{HALF}'"), r"<program>:1:9: error\[C033\]"),
            (lambda: db.add(HALF, [(1, 2)]), r"error\[C050\]: the name of a relation"),
            (lambda: db.run("p({x}).", {"x": HALF}), r"error\[C050\]: the parameter `x`"),
        ):
            with pytest.raises(CaladanError, match=expected):
                act()
    assert "the name of a column of e" in complaint({HALF: [1], "B": [2]})
    assert "the name of a column of e" in complaint([{HALF: 1, "B": 2}])


def test_numbers_of_thousands_of_digits() -> None:
    told = complaint([(10**5000, 1)], declared("A: integer, B: integer"))
    assert "a number of 5,001 digits does not fit in integer" in told
    assert "C0" in complaint([(10**5000, 1)], declared("A: string, B: integer"))


# ── Header lines ─────────────────────────────────────────────────────────────────────────────────

WORDS = declared("Source: string, Target: string")


@pytest.mark.parametrize(
    "first", ["source,target", " Source , Target ", "TARGET,SOURCE", "'Source','Target'"]
)
def test_nearly_the_declared_names(first: str) -> None:
    Path("e.csv").write_text(f"{first}\nx,y\n")
    told = complaint("e.csv", WORDS)
    assert told.startswith("e.csv:1: error[C035]: the first line, ")
    assert "`--header` or `--no-header` on the command line, header=True or header=False" in told
    assert len(rows("e.csv", WORDS, header=False)) == 2


def test_quotes_in_a_file_without_quotes() -> None:
    Path("e.tsv").write_text('"Source"\t"Target"\nx\ty\n')
    assert "looks like a header" in complaint("e.tsv", WORDS)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_exactly_the_declared_names(mark: str, quote: str) -> None:
    text = f"{mark}{quote}Source{quote},{quote}Target{quote}\nx,y\n"
    Path("e.csv").write_text(text)
    Path("e.csv.gz").write_bytes(gzip.compress(text.encode()))
    assert rows("e.csv", WORDS) == rows("e.csv.gz", WORDS) == [("x", "y")]


def test_letters_are_data() -> None:
    Path("e.csv").write_text("a,b\nb,c\n")
    assert rows("e.csv", declared("A: string, B: string")) == [("a", "b"), ("b", "c")]


def test_a_header_over_numbers_is_asked_about() -> None:
    Path("e.csv").write_text("from,to\n1,2\n")
    told = complaint("e.csv", declared("A: integer, B: integer"))
    assert "e.csv:1:1: error[C032]: 'from' is not an integer" in told
    assert "help: if the first line is a header, use `--header`" in told
    Path("f.csv").write_text("1,2\nfrom,to\n")
    assert "header?" not in complaint("f.csv", declared("A: integer, B: integer"))
    Path("g.csv").write_text(" ,2\n1,2\n")
    assert "header?" not in complaint("g.csv", declared("A: integer, B: integer"))


def test_a_header_of_undeclared_columns_is_asked_about() -> None:
    Path("e.csv").write_text("name,weight\nx,1.5\ny,2\n")
    assert "the first line, name, weight, looks like a header" in complaint("e.csv")
    assert rows("e.csv", header=True) == [("x", 1.5), ("y", 2.0)]
    assert rows("e.csv", header=False)[0] == ("name", "weight")
    Path("f.csv").write_text("x,one\ny,two\n")
    assert rows("f.csv") == [("x", "one"), ("y", "two")]
    Path("g.csv").write_text("x,1\ny,two\n")
    assert rows("g.csv") == [("x", "1"), ("y", "two")]


def test_a_header_with_more_columns_than_are_declared_is_asked_about() -> None:
    Path("e.csv").write_text("Id,Age,Name\n1,30,ada\n")
    assert "looks like a header" in complaint("e.csv", declared("Id: integer, Name: string"))
    assert rows("e.csv", declared("Id: integer, Name: string"), header=True) == [(1, "ada")]


def test_another_delimiter_is_offered_where_there_is_a_header() -> None:
    Path("e.csv").write_text("Id;Name\n1;ada\n")
    found = complaint("e.csv", declared("Id: integer, Name: string"), header=True)
    assert 'say so: `--delimiter ";"` on the command line, delimiter=";" in Python' in found


def test_a_number_is_no_header() -> None:
    Path("e.csv").write_text("1e3,ada\n2,ben\n")
    assert "header" not in complaint("e.csv", declared("Id: integer, Name: string"))


# ── Odd JSON ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["null", " null\n", "null\nnull\n", "nullx", '\nnull\n{"A":1}'])
def test_rows_that_are_null_are_told(text: str) -> None:
    """Arrow crashes on them, so it is not asked."""
    Path("e.json").write_text(text)
    assert "error[C035]" in complaint("e.json", declared("A: integer, B: integer"))


@pytest.mark.parametrize("kind", ["integer", "double", "decimal", "string", None])
@pytest.mark.parametrize("number", ["1e999999999", "-1e99999999", "1e" + "9" * 5000])
def test_huge_exponents_are_told_at_once(number: str, kind: str | None) -> None:
    """Written out, such a number fills the memory of any machine."""
    Path("e.json").write_text(f'{{"A": {number}, "B": 1}}\n')
    program = PAIR if kind is None else declared(f"A: {kind}, B: integer")
    assert "e.json:1: error[C032]" in complaint("e.json", program)


def test_exponents_of_zero_and_of_next_to_nothing() -> None:
    Path("e.json").write_text(f'{{"A": 0e{"9" * 30}, "B": 1e-{"9" * 30}}}\n')
    assert rows("e.json", declared("A: decimal, B: double")) == [(0, 0.0)]
    assert "error[C032]" in complaint("e.json", declared("A: double, B: decimal"))


def test_values_nested_deeply_in_undeclared_json_are_told() -> None:
    Path("e.json").write_text('{"A": ' + '{"a":' * 5000 + "1" + "}" * 5000 + ', "B": 1}')
    assert complaint("e.json").startswith("e.json: error[C035]: column A is nested values")
    Path("f.json").write_text('[{"A": 1, "B": 1}, {"A": "x", "B": 1}]')
    assert complaint("f.json").startswith("f.json: error[C035]: column A mixes values")


# ── Arrays ───────────────────────────────────────────────────────────────────────────────────────


def test_arrays_of_numpy() -> None:
    assert rows(np.array([[1, 2], [3, 4]])) == [(1, 2), (3, 4)]
    assert rows(np.array([[1, 2], [3, 4]]), declared("A: integer, B: double")) == [
        (1, 2.0),
        (3, 4.0),
    ]
    named = np.array([(1, "x"), (2, "y")], dtype=[("B", "i4"), ("A", "U3")])
    assert rows(named, declared("A: string, B: integer")) == [("x", 1), ("y", 2)]
    assert rows(np.array([["a", 1]], dtype=object), declared("A: string, B: integer")) == [("a", 1)]
    assert rows(np.array([5, 6]), "p(X) <- e(X). query p(X).") == [(5,), (6,)]
    assert rows(np.empty((0, 2), dtype=int)) == []
    assert "an array of 3 dimensions is not a relation" in complaint(np.zeros((2, 2, 2)))


def test_names_of_files_that_are_no_text_are_shown() -> None:
    assert complaint("\udcff.csv").encode().startswith(b"\\udcff.csv: error[C030]")
