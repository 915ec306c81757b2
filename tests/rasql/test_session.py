"""RaSQL in a session: what it finds there, what it leaves, and how it is asked."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import caladan as cal
from caladan.cli import main

EDGES = [(1, 2), (2, 3), (3, 4)]
CLOSURE = """
WITH recursive tc(From, To) AS
  (SELECT From, To FROM edge) UNION
  (SELECT tc.From, edge.To FROM tc, edge WHERE tc.To = edge.From)
"""


@pytest.fixture
def db() -> cal.Session:
    session = cal.connect("reference")
    session.add("edge", {"From": [1, 2, 3], "To": [2, 3, 4]})
    return session


def test_reserved_words_are_columns(db: cal.Session) -> None:
    out = db.run(CLOSURE + "SELECT From, count(*) AS N FROM tc WHERE From < 3 GROUP BY From")
    assert out.answer.columns == ("From", "N")
    assert out.answer.rows() == [(1, 3), (2, 2)]
    assert out["tc"].columns == ("From", "To")
    assert out["tc"].count() == 6
    assert list(out) == ["tc"]


def test_language_is_detected_or_given(db: cal.Session) -> None:
    query = "SELECT count(*) FROM edge"
    assert db.run(query).answer.rows() == db.run(query, language="rasql").answer.rows() == [(3,)]


def test_order_is_kept(db: cal.Session) -> None:
    rows = db.sql("SELECT To FROM edge ORDER BY To DESC").rows()
    assert rows == [(4,), (3,), (2,)]


def test_several_queries_have_several_answers(db: cal.Session) -> None:
    out = db.run("SELECT 1 AS a; SELECT 2 AS b;")
    assert [answer.rows() for answer in out.answers] == [[(1,)], [(2,)]]
    assert out.answer.columns == ("b",)


def test_names_in_any_case(db: cal.Session) -> None:
    assert db.sql('SELECT COUNT(*) FROM EDGE AS "E" WHERE e."from" = 1').rows() == [(1,)]


def test_parameters_are_values(db: cal.Session) -> None:
    db.add("names", {"N": ["a", "it's", "x' OR '1'='1"]})
    for text in ("it's", "x' OR '1'='1", "a\\"):
        found = db.sql("SELECT N FROM names WHERE N = {n} OR N = :n", {"n": text}).rows()
        assert found == [(text,)] * (text != "a\\")


def test_views_and_tables_stay(db: cal.Session) -> None:
    db.run("CREATE TABLE person(Name string); CREATE VIEW far AS SELECT To FROM edge WHERE To > 2")
    db.add("person", [("ann",)])
    assert db.sql("SELECT * FROM far ORDER BY To").rows() == [(3,), (4,)]
    assert db.sql("SELECT * FROM person").types == ("string",)
    assert db.sql("CREATE VIEW far AS SELECT 1 AS X; SELECT * FROM far").rows() == [(1,)]


def test_relations_of_rules_are_tables(db: cal.Session) -> None:
    db.run("database({edge(A: integer, B: integer)}). up(B, A) <- edge(A, B).")
    assert db.sql("SELECT B, A FROM up WHERE A = 1").rows() == [(2, 1)]


def test_sql_sees_bags_and_recursion_sets() -> None:
    db = cal.connect("reference")
    db.add("t", {"A": [1, 1, None], "B": [2, 2, 3]})
    assert db.sql("SELECT count(*), count(A) FROM t").rows() == [(3, 2)]
    view = "WITH recursive s(A, sum() AS N) AS (SELECT A, B FROM t WHERE A > 0) SELECT * FROM s"
    assert db.sql(view).rows() == [(1, 2)]


def test_a_view_between_two_recursions(db: cal.Session) -> None:
    out = db.run(
        CLOSURE
        + """, sizes AS (SELECT From AS Node, count(*) AS N FROM tc GROUP BY From),
        recursive down(N) AS (SELECT max(N) FROM sizes) UNION (SELECT N - 1 FROM down WHERE N > 0)
        SELECT down.N, sizes.Node FROM down LEFT JOIN sizes ON sizes.N = down.N ORDER BY down.N"""
    )
    assert out.answer.rows() == [(0, None), (1, 3), (2, 2), (3, 1)]
    assert list(out) == ["tc", "down"]


def test_limits_leave_what_was_found(db: cal.Session) -> None:
    with pytest.raises(cal.Stopped) as stopped, pytest.warns(cal.CaladanWarning, match="W101"):
        db.run(
            "WITH recursive n(X) AS (SELECT 1) UNION (SELECT X + 1 FROM n) SELECT * FROM n",
            max_rounds=3,
        )
    assert stopped.value.diagnostics[0].code == "C042"
    assert (2,) in stopped.value.result["n"].rows()


def test_hints_are_read(db: cal.Session) -> None:
    assert db.sql("-- hint: broadcast\n" + CLOSURE + "SELECT count(*) FROM tc").rows() == [(6,)]
    with pytest.raises(cal.CaladanError, match="there is no hint `brodcast`"):
        db.sql("-- hint: brodcast\nSELECT 1")


def test_explain_shows_rules_and_sql(db: cal.Session) -> None:
    text = db.explain(
        """CREATE VIEW big AS SELECT From AS A, To AS B FROM edge WHERE To > 2;
        WITH recursive d(X, min() AS D) AS (SELECT 1, 0) UNION
          (SELECT big.B, d.D + 1 FROM d, big WHERE d.X = big.A AND upper('x') = 'X')
        SELECT avg(D) FROM d"""
    )
    assert "d(B, mmin<D + 1>) <- d(X, D), big(X, B)" in text
    assert "== SQL ==" in text
    assert "AVG(D)" in text
    assert "d: pre-mappable. Keeping the least D of each group" in text


def test_warnings(db: cal.Session) -> None:
    query = """WITH recursive d(X, max() AS D) AS (SELECT 1, 0) UNION
      (SELECT edge.To, 5 - d.D FROM d, edge WHERE d.X = edge.From) SELECT * FROM d"""
    with pytest.warns(cal.CaladanWarning, match="W104"):
        out = db.run(query)
    assert [warning.code for warning in out.warnings] == ["W104"]
    assert [warning.code for warning in db.check(query)] == ["W104"]
    assert "not shown to be pre-mappable" in db.explain(query, "aggregates")


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edge.csv").write_text("1,2\n2,3\n")
    (tmp_path / "q.sql").write_text(
        "CREATE TABLE edge(From integer, To integer);" + CLOSURE + "SELECT * FROM tc ORDER BY 2, 1"
    )
    query = str(tmp_path / "q.sql")
    arguments = ["--engine", "reference", "--facts", str(tmp_path), "--format", "csv"]
    assert main(["run", query, *arguments]) == 0
    assert capsys.readouterr().out == "1,2\n1,3\n2,3\n"
    assert main(["explain", query, "--stage", "rules"]) == 0
    assert "tc(From, To) <- tc(From, To_2), edge(To_2, To)." in capsys.readouterr().out
    assert main(["check", query]) == 0
    assert "ok, 2 statements" in capsys.readouterr().out


def test_with_spark(spark: Any) -> None:
    """DataFrames and temporary views come in, results go out as temporary views."""
    db = cal.connect(spark)
    db.add("edge", spark.createDataFrame(EDGES, ["From", "To"]))
    spark.createDataFrame([(1, "one"), (4, "four")], ["Id", "Name"]).createOrReplaceTempView("name")
    out = db.run(
        "-- hint: broadcast\n" + CLOSURE + "SELECT Name, To FROM tc JOIN name ON Id = From"
    )
    assert out.answer.rows() == [("one", 2), ("one", 3), ("one", 4)]
    out["tc"].spark().createOrReplaceTempView("closure")
    assert spark.sql("SELECT count(*) FROM closure").collect()[0][0] == 6
    answer = out.answer.spark()
    assert answer.filter(answer.To > 2).count() == 2
    assert [row.name for row in spark.catalog.listTables()] == ["closure", "name"]
    spark.catalog.dropTempView("closure")
    spark.catalog.dropTempView("name")


@pytest.mark.parametrize("head", ["tc(A, B)", "tc(A, sum() AS B)"])
def test_alternatives_are_counted_before_they_are_multiplied_out(head: str) -> None:
    choices = " AND ".join(f"(tc.A = {i} OR arc.B = {i})" for i in range(20))
    query = f"WITH recursive {head} AS (SELECT A, B FROM arc) UNION "
    query += f"(SELECT tc.A, arc.B FROM tc, arc WHERE tc.B = arc.A AND {choices}) SELECT * FROM tc"
    db = cal.connect("reference")
    db.add("arc", {"A": [1], "B": [2]})
    with pytest.raises(cal.CaladanError, match="more than 256 alternatives"):
        db.sql(query)


def test_what_nobody_named_is_not_called_by_functions_of_ours() -> None:
    db = cal.connect("embedded")
    db.add("p", {"id": [1, 2], "boss": [None, "x"], "name": ["x", "y"]})
    step = "SELECT p.name FROM t JOIN p ON p.name = t.x"
    base = f"WITH RECURSIVE t(x) AS (SELECT {{}} FROM p UNION {step})"
    for value, told in (
        ("upper(CAST(boss AS STRING))", "a computed value is NULL"),
        ("boss", "`boss` is NULL"),
    ):
        with pytest.raises(cal.CaladanError, match=rf"C064\]: {told}"):
            db.sql(f"{base.format(value)} SELECT x FROM t")


def test_a_column_is_looked_for_where_it_is_said_to_be() -> None:
    """What another table calls by that name is no help."""
    db = cal.connect("embedded")
    db.add("w", [(1, 2, 3)])
    with pytest.raises(cal.CaladanError, match="the columns are c1, c2, c3"):
        db.sql(
            "WITH recursive d(B, min() AS W) AS (SELECT 1, 0) UNION "
            "(SELECT w.B, d.W + w.c3 FROM d, w WHERE d.B = w.c1) SELECT B, W FROM d"
        )


def test_data_is_looked_through_for_nulls_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from caladan.sql.duck import DuckDB

    looked: list[object] = []
    nulls = DuckDB.nulls

    def counting(self: DuckDB, frame: Any) -> list[str]:
        looked.append(frame)
        return nulls(self, frame)

    monkeypatch.setattr(DuckDB, "nulls", counting)
    pq.write_table(pa.table({"A": [1, 2], "B": [2, 3]}), tmp_path / "arc.parquet")
    query = """
        WITH recursive tc(A, B) AS (SELECT A, B FROM arc) UNION
            (SELECT tc.A, arc.B FROM tc, arc WHERE tc.B = arc.A)
        SELECT count(*) AS n FROM tc
    """
    with cal.connect("embedded") as db:
        db.add("arc", tmp_path / "arc.parquet")
        assert [db.sql(query).rows() for _ in range(3)] == [[(3,)]] * 3
        assert len(looked) == 1
        pq.write_table(pa.table({"A": [1, None], "B": [2, 3]}), tmp_path / "arc.parquet")
        db.add("arc", tmp_path / "arc.parquet")
        assert db.sql(query.replace("FROM arc)", "FROM arc WHERE A IS NOT NULL)")).rows() == [(1,)]
