"""What a sum was given by a condition that failed later: found out on every engine."""

import warnings
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st
from tests.analysis.support import compiled
from tests.spark.mesh.engine import PartsEngine

import caladan
from caladan.session.session import Session

DATA = "database({bom(P: integer, S: integer, Q: integer), cost(P: integer, C: integer)}). "
START = "t(P, msum<C>) <- cost(P, C). "

WATCHED = [
    "t(P, msum<(S, C)>) <- bom(P, S, _), t(S, C), C > 3.",
    "t(P, msum<X>) <- bom(P, S, Q), t(S, C), X = Q * C, X > 3.",
    "t(P, msum<Q>) <- bom(P, S, Q), t(S, C), 2 * C - 1 ~= Q.",
    "t(P, msum<(S, C)>) <- bom(P, S, C), t(S, C).",  # a join
    "t(P, msum<Q>) <- bom(P, S, Q), t(S, 3).",
    "t(P, msum<Q>) <- bom(P, S, Q), t(S, C), ~cost(S, C).",
    "t(P, msum<(C, Q)>) <- bom(P, S, Q), t(S, C).",  # who contributes
    "t(P, msum<1>) <- bom(P, S, _), t(S, C), C = 3.",
    "t(P, msum<X>) <- bom(P, S, Q), t(S, C), if(C > 3 then bom(S, _, X) else X = 1).",
]
GROUPED = "t(C, msum<Q>) <- bom(P, S, Q), t(S, C)."
LEFT_ALONE = [
    "t(P, msum<(S, C)>) <- bom(P, S, _), t(S, C).",
    "t(P, msum<X>) <- bom(P, S, Q), t(S, C), X = Q * C, Q > 3, S ~= P.",
    "t(P, msum<X>) <- bom(P, S, Q), t(S, C), X = if(C > 3 then C else 0).",
    "t(P, msum<Q>) <- bom(P, S, Q), t(S, _).",
]


@pytest.mark.parametrize("rule", [*WATCHED, GROUPED])
def test_rules_that_look_at_what_changes_are_watched(rule: str) -> None:
    out = compiled(DATA + START + rule + " query t(P, C).")
    assert {each.rule.number for each in out.supported.rules} == {2}
    for each in out.supported.rules:
        assert out.delta.relations[each.lost].is_internal


@pytest.mark.parametrize("rule", LEFT_ALONE)
def test_other_rules_are_left_alone(rule: str) -> None:
    out = compiled(DATA + START + rule + " query t(P, C).")
    assert not out.supported.rules
    assert [clique.relations for clique in out.delta.cliques] == [("t",)]


def test_bests_and_plain_facts_are_not_taken_back_and_not_watched() -> None:
    text = DATA + START + "t(P, msum<Q>) <- big(S), bom(P, S, Q). big(P) <- t(P, C), C > 3. "
    assert not compiled(text + "query t(P, C).").supported.rules


def outcome(engine: Any, text: str, facts: dict[str, list[tuple[int, ...]]]) -> Any:
    """The answer, or the code of the failure."""
    db = Session(engine) if isinstance(engine, PartsEngine) else caladan.connect(engine)
    for name, rows in facts.items():
        db.add(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        try:
            return sorted(db.run(text).answer.rows())
        except caladan.CaladanError as failure:
            return failure.diagnostics[0].code


numbers = st.integers(-4, 6)
parts = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), numbers), max_size=8)


@pytest.mark.parametrize("rule", WATCHED)
@given(bom=parts, cost=st.dictionaries(st.integers(0, 5), numbers, min_size=1))
@settings(max_examples=25)
def test_engines_agree_on_sums_that_lose_something(
    rule: str, bom: list[tuple[int, int, int]], cost: dict[int, int]
) -> None:
    """Parts are made of later ones, so that there is an answer wherever nothing is lost."""
    text = DATA + START + rule + " query t(P, C)."
    facts = {
        "bom": [(p, s, q) for p, s, q in bom if p < s] or [(8, 9, 1)],
        "cost": list(cost.items()),
    }
    wanted = outcome("reference", text, facts)
    assert outcome("embedded", text, facts) == wanted
    assert outcome(PartsEngine(2), text, facts) == wanted


def test_a_condition_that_stays_true_is_no_problem() -> None:
    text = DATA + START + WATCHED[0] + " query t(P, C)."
    falls = {"bom": [(1, 2, 1), (2, 3, 1)], "cost": [(1, 100), (2, 20), (3, -9)]}
    kept = {"bom": [(1, 2, 1), (2, 3, 1)], "cost": [(1, 100), (2, 20), (3, 5)]}
    grown = [(1, 125), (2, 25), (3, 5)]
    for engine in ("reference", "embedded", PartsEngine(2)):
        assert outcome(engine, text, kept) == grown
        assert outcome(engine, text, falls) == [(1, 120), (2, 20), (3, -9)]
        again = text.replace("C > 3", "C ~= 5")
        assert outcome(engine, again, falls) == [(1, 111), (2, 11), (3, -9)]
        again = text.replace("C > 3", "C > 15 - 30 * (S - 2)")
        assert outcome(engine, again, falls) == "C047"
        other = {"bom": [(1, 2, 1), (2, 3, 5)], "cost": [(2, 20), (3, 2)]}
        assert outcome(engine, DATA + START + GROUPED + " query t(P, C).", other) == "C047"
        assert outcome(engine, again.replace("query t(P", "query t(1"), falls) == "C047"


def test_recursive_views_of_sql_are_watched_too() -> None:
    for engine in ("reference", "embedded"):
        db = caladan.connect(engine)
        db.add("bom", pa.table({"P": [1, 2], "S": [2, 3]}))
        db.add("cost", pa.table({"P": [1, 2, 3], "C": [100, 10, -9]}))
        with pytest.raises(caladan.CaladanError, match="C047"):
            db.sql("""
                WITH recursive t(P, sum() AS C) AS (SELECT P, C FROM cost) UNION
                    (SELECT bom.P, t.C FROM bom, t WHERE bom.S = t.P AND t.C * t.C > 9)
                SELECT P, C FROM t
            """).rows()
