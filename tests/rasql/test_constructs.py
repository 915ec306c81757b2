"""Every construct of a recursive view, against DuckDB: the same query as a standard recursive CTE.

`UNION` in DuckDB's recursion works with sets, as ours does, so the texts can be the same.
"""

import warnings
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from tests.programs.compare import difference

import caladan

DATA: dict[str, dict[str, list[Any]]] = {
    "edge": {
        "Src": [1, 2, 3, 4, 1, 5, 6, 3],
        "Dst": [2, 3, 4, 2, 5, 6, 7, 8],
        "Kind": ["a", "b", "a", "c", "b", "a", "c", "b"],
        "Cost": [4.0, 2.5, 7.0, 1.0, 3.0, 2.0, 2.0, 1.5],
        "Open": [True, True, False, True, True, True, False, True],
    },
    "node": {"Id": [1, 2, 3, 4, 5, 6, 7, 8], "Label": ["A", "b", "C", "d", "E", "f", "G", "h"]},
    "closed": {"Id": [4, 7]},
    "holes": {"A": [1, 2, None, 3], "B": [2, None, 3, 4], "C": ["x", None, "y", None]},
}

STEP = "SELECT tc.Src, edge.Dst FROM tc, edge WHERE tc.Dst = edge.Src"


def cases() -> dict[str, str]:
    """The queries of constructs.sql by the names in their comments."""
    text = Path(__file__).with_name("constructs.sql").read_text(encoding="utf-8")
    blocks = [block.partition("\n") for block in text.split("-- case: ")[1:]]
    return {name: query.strip().removesuffix(";") for name, _, query in blocks}


CASES = cases()


def session(engine: Any) -> caladan.Session:
    db = caladan.connect(engine)
    for name, data in DATA.items():
        db.add(name, data)
    return db


def run(db: caladan.Session, sql: str) -> list[tuple[Any, ...]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        return db.sql(sql).rows()


def duck(sql: str) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    for name, data in DATA.items():
        frame = pd.DataFrame({k: pd.array(v) for k, v in data.items()})
        connection.register(name, frame)
    return connection.execute(sql).fetchall()


@pytest.mark.parametrize("engine", ["reference", "embedded"])
@pytest.mark.parametrize("case", CASES)
def test_construct(case: str, engine: str) -> None:
    sql = CASES[case]
    different = difference(run(session(engine), sql), duck(sql), ordered=False)
    assert different is None, different


def test_non_linear_recursion() -> None:
    """DuckDB joins only the newest rows with each other here, and so finds too little."""
    non_linear = "SELECT a.Src, b.Dst FROM tc a, tc b WHERE a.Dst = b.Src"
    sql = "WITH RECURSIVE tc(Src, Dst) AS (SELECT Src, Dst FROM edge UNION {}) SELECT * FROM tc"
    found = run(session("reference"), sql.format(non_linear))
    expected = duck(sql.format(STEP))
    assert difference(found, expected, ordered=False) is None
    assert len(duck(sql.format(non_linear))) < len(expected)


def test_constructs_on_spark(spark: Any) -> None:
    """One session for all of them: a run on Spark takes a second or two."""
    db = session(spark)
    for case, sql in CASES.items():
        different = difference(run(db, sql), duck(sql), ordered=False)
        assert different is None, f"{case}: {different}"
