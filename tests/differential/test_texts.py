"""The best of texts that the recursion itself makes: every engine puts them in the same order."""

import warnings
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from tests.spark.mesh.engine import PartsEngine

import caladan
from caladan.session.session import Session

PROGRAM = """CREATE TABLE road(A integer, B integer, T string);
WITH recursive way(N, K, {function}() AS T) AS (SELECT 0, 0, '') UNION
  (SELECT road.B, way.K + 1, concat({text}) FROM way, road WHERE way.N = road.A AND way.K < 4)
SELECT N, K, T FROM way"""

places = st.integers(0, 4)
texts = st.sampled_from(["", "a", "ab", "b", "Z", "é", "\uff3a", "\U0001d11e", "\u0301"])
roads = st.lists(st.tuples(places, places, texts), max_size=10)


def rows(db: Session, program: str, facts: list[Any]) -> list[Any]:
    db.add("road", facts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        return sorted(db.run(program, language="rasql").answer.rows())


@pytest.mark.parametrize("function", ["min", "max"])
@pytest.mark.parametrize("text", ["way.T, road.T", "road.T, way.T", "road.T, '-', way.T"])
@settings(max_examples=8)
@given(facts=roads, tasks=st.integers(1, 3))
def test_best_texts(function: str, text: str, facts: list[Any], tasks: int) -> None:
    program = PROGRAM.format(function=function, text=text)
    wanted = rows(caladan.connect("reference"), program, facts)
    assert rows(caladan.connect("embedded"), program, facts) == wanted
    assert rows(Session(PartsEngine(tasks)), program, facts) == wanted
