"""Columns of objects: any Python value that can be hashed, through programs and back."""

import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import caladan as cal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Person:
    name: str


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Size(str, Enum):  # noqa: UP042, for what it was before StrEnum
    SMALL = "small"


ANN, BEN, CY, DEE = (Person(name) for name in ("ann", "ben", "cy", "dee"))
KNOWS = [(ANN, BEN), (BEN, CY), (CY, ANN), (DEE, ANN)]
PATHS = "path(X, Y) <- knows(X, Y). path(X, Y) <- path(X, Z), knows(Z, Y).\n"


@pytest.fixture(params=["reference", "embedded"])
def db(request: pytest.FixtureRequest) -> Iterator[cal.Session]:
    with cal.connect(request.param) as session:
        yield session


def answer(db: cal.Session, program: str, **params: object) -> list[tuple[object, ...]]:
    return db.run(program, params).answer.rows()


# ── What programs do with them ───────────────────────────────────────────────────────────────────


def test_a_closure_over_frozen_dataclasses(db: cal.Session) -> None:
    db.add("knows", KNOWS)
    out = db.run(PATHS + "query path(X, Y).").answer
    everyone = [ANN, BEN, CY, DEE]
    assert set(out.rows()) == {(x, y) for x in everyone for y in (ANN, BEN, CY)}
    assert out.types == ("object", "object")
    assert out.rows()[0][0] is ANN, "the very value comes back"


def test_bound_goals_and_parameters(db: cal.Session) -> None:
    db.add("knows", KNOWS)
    assert answer(db, PATHS + "query path($who, Y).", who=DEE) == [
        (DEE, ANN),
        (DEE, BEN),
        (DEE, CY),
    ]
    assert db.query("path(X, $who)", {"who": Person("dee")}).rows() == []
    assert db.query("path($who, X)", {"who": Person("nobody")}).rows() == []


def test_negation_and_inequality(db: cal.Session) -> None:
    db.add("knows", KNOWS)
    lonely = "known(Y) <- knows(_, Y). lonely(X) <- knows(X, _), ~known(X). query lonely(X)."
    assert answer(db, lonely) == [(DEE,)]
    friends = "both(X, Y) <- knows(X, Z), knows(Y, Z), X ~= Y. query both(X, Y)."
    assert answer(db, friends) == [(CY, DEE), (DEE, CY)]


def test_aggregates_group_by_objects_and_count_them(db: cal.Session) -> None:
    db.add("likes", [(ANN, Colour.RED, 3), (BEN, Colour.RED, 4), (ANN, Colour.BLUE, 5)])
    assert answer(db, "n(C, count<P>) <- likes(P, C, _). query n(C, N).") == [
        (Colour.RED, 2),
        (Colour.BLUE, 1),
    ]
    assert answer(db, "n(countd<P>) <- likes(P, _, _). query n(N).") == [(2,)]
    assert answer(db, "n(P, max<S>, sum<S>) <- likes(P, _, S). query n(P, S, T).") == [
        (ANN, 5, 8),
        (BEN, 4, 4),
    ]


def test_a_monotone_count_of_objects_in_recursion(db: cal.Session) -> None:
    """Who comes if at least two of those they know come."""
    db.add("knows", [(CY, ANN), (CY, BEN), (DEE, CY), (DEE, ANN), (Person("eve"), DEE)])
    db.add("organiser", [(ANN,), (BEN,)])
    coming = """
        coming(X) <- organiser(X).
        coming(X) <- friends(X, N), N >= 2.
        friends(X, mcount<Y>) <- knows(X, Y), coming(Y).
        query coming(X).
    """
    assert set(answer(db, coming)) == {(ANN,), (BEN,), (CY,), (DEE,)}


def test_conditions_choose_between_objects(db: cal.Session) -> None:
    db.add("likes", [("ann", Colour.RED), ("ben", Colour.BLUE)])
    chosen = "p(X, if(C = $old then $new else C)) <- likes(X, C). query p(X, C)."
    assert answer(db, chosen, old=Colour.RED, new=(1, 2)) == [("ann", (1, 2)), ("ben", Colour.BLUE)]
    assert answer(db, "p(X) <- likes(X, _), $a ~= $b. query p(X).", a=ANN, b=ANN) == []
    assert answer(db, "p(X) <- likes(X, _), $a = 5. query p(X).", a=ANN) == []


def test_literals_stand_for_objects(db: cal.Session) -> None:
    db.add("thing", [(1, "one"), ("two", (2,)), (2.5, Decimal("0.5")), ((), "none")])
    assert answer(db, "p(Y) <- thing('two', Y). query p(Y).") == [((2,),)]
    assert answer(db, "p(Y) <- thing(X, Y), X = 2.5. query p(Y).") == [(Decimal("0.5"),)]
    assert answer(db, "query thing(1, Y).") == [(1, "one")]


def test_objects_in_the_text_of_a_program(db: cal.Session) -> None:
    facts = "database({p(A: object)}). p(2). p('x'). p(2.0). p(1.5). q(X) <- p(X). query q(X)."
    assert answer(db, facts) == [(2,), ("x",), (1.5,)]
    assert answer(db, "p($a). p($b). query p(X).", a=ANN, b=(1,)) == [(ANN,), ((1,),)]


# ── Equality and order ───────────────────────────────────────────────────────────────────────────


def test_equality_is_that_of_python(db: cal.Session) -> None:
    """And of equal values, the one that came first stands for all, as it does for `find`."""
    db.add("thing", [(True, "a"), ((), "b"), (1, "c"), (1.0, "d")])
    rows = answer(db, "query thing(X, Y).")
    assert rows == [(True, "a"), (True, "c"), (True, "d"), ((), "b")]
    assert rows[1][0] is True
    assert sorted(map(repr, db.find("x y", "thing(x, y)"))) == sorted(map(repr, rows))


def test_what_a_program_mentions_does_not_change_what_data_shows(db: cal.Session) -> None:
    db.add("thing", [((),), (True,)])
    (row,) = answer(db, "p(X) <- thing(X), X = 1. query p(X).")
    assert row[0] is True
    more = "database({p(A: object)}). p(X) <- thing(X). p(7). p(1.0). query p(X)."
    assert answer(db, more) == [((),), (True,), (7,)]


def test_every_nan_is_one_value(db: cal.Session) -> None:
    db.add("thing", [(math.nan,), ((),), (float("nan"),)])
    (first, second) = answer(db, "query thing(X).")
    assert math.isnan(first[0])  # type: ignore[arg-type]
    assert second == ((),)


def test_rows_come_in_the_order_in_which_values_appeared(db: cal.Session) -> None:
    db.add("pair", [((2,), (1,)), ((1,), (3,)), ((3,), (2,))])
    out = db.run("p(Y, X) <- pair(X, Y). query p(X, Y).").answer
    assert out.rows() == [((2,), (3,)), ((1,), (2,)), ((3,), (1,))]
    assert out.head(1) == [((2,), (3,))]
    cut = "p(X, Y) <- pair(X, Y), limit(2). query p(X, Y)."
    assert answer(db, cut) == [((2,), (1,)), ((1,), (3,))]


# ── Where they come from ─────────────────────────────────────────────────────────────────────────


def objects(*values: object) -> np.ndarray:
    """An array of objects; NumPy alone would take tuples apart."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    "data",
    [
        [(ANN, 1), ((1, 2), 2)],
        [{"x": ANN, "y": 1}, {"x": (1, 2), "y": 2}],
        {"x": [ANN, (1, 2)], "y": [1, 2]},
        {"x": objects(ANN, (1, 2)), "y": np.array([1, 2])},
        pd.DataFrame({"x": [ANN, (1, 2)], "y": [1, 2]}),
    ],
    ids=["tuples", "dicts", "columns", "arrays", "pandas"],
)
def test_data_in_memory_of_every_form(db: cal.Session, data: object) -> None:
    db.add("thing", data)
    out = db.run("query thing(X, Y).").answer
    assert out.types == ("object", "long")
    assert out.rows() == [(ANN, 1), ((1, 2), 2)]


@pytest.mark.parametrize(
    "values",
    [
        [(1, 2), (3,)],
        [frozenset({1}), frozenset()],
        [Colour.BLUE, Colour.RED],
        [uuid.UUID(int=1), uuid.UUID(int=0)],
        [1, "one", (2,)],
        [2**70, 3],
        [int, str],
    ],
    ids=["tuples", "sets", "enums", "uuids", "mixed", "large", "classes"],
)
def test_what_no_other_type_holds_is_an_object(db: cal.Session, values: list[object]) -> None:
    db.add("thing", [(value,) for value in values])
    out = db.run("p(X) <- thing(X). query p(X).").answer
    assert out.types == ("object",)
    assert [value for (value,) in out.rows()] == values


def test_tuples_in_a_data_frame_stay_tuples(db: cal.Session) -> None:
    db.add("thing", pd.DataFrame({"x": [(1, 2), (3,)], "y": ["a", "b"]}))
    assert answer(db, "query thing(X, Y).") == [((1, 2), "a"), ((3,), "b")]


def test_a_declared_column_takes_what_is_there(db: cal.Session) -> None:
    db.add("thing", {"x": np.array([2, 1])})
    out = db.run("database({thing(X: object)}). query thing(X).").answer
    assert (out.types, out.rows()) == (("object",), [(2,), (1,)])


def test_texts_with_a_name_are_texts(db: cal.Session) -> None:
    db.add("shirt", [(Size.SMALL,)])
    assert answer(db, "query shirt(X).") == [("small",)]
    assert answer(db, "query shirt($s).", s=Size.SMALL) == [("small",)]


def test_sessions_share_nothing(db: cal.Session) -> None:
    with cal.connect("reference") as other:
        other.add("thing", [(CY,), (BEN,), (ANN,)])
        assert answer(other, "query thing(X).") == [(CY,), (BEN,), (ANN,)]
        db.add("thing", [(ANN,), (BEN,)])
        assert answer(db, "query thing(X).") == [(ANN,), (BEN,)]


def test_find_searches_them(db: cal.Session) -> None:
    db.add("knows", KNOWS)
    assert set(db.find("x", "knows(x, y)", y=cal.one_of({CY, ANN}))) == {(BEN,), (CY,), (DEE,)}
    db.run(PATHS + "query path(X, Y).")
    assert set(db.find("y", "path(x, y)", x=cal.one_of({DEE}))) == {(ANN,), (BEN,), (CY,)}


# ── What cannot be done ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("p(X) <- knows(X, Y), X < Y.", "`<` needs values that have an order, not an object"),
        ("p(X) <- knows(X, _), X >= 3.", "`>=` needs values that have an order, not an object"),
        ("p(min<X>) <- knows(X, _).", "`min` needs values that have an order, not an object"),
        ("p(mmax<X>) <- knows(X, _).", "`mmax` needs values that have an order, not an object"),
        ("p(X) <- knows(X, _), sort((X, asc)).", "`sort` needs values that have an order"),
        ("p(sum<X>) <- knows(X, _).", "`sum` needs numbers, not an object"),
        ("p(X + 1) <- knows(X, _).", "`+` needs numbers, not an object"),
        ("q(1). p(X) <- knows(X, _), q(X).", "`X` is integer in `q` but object elsewhere"),
        ("q(1). p(X) <- knows(X, _), q(Y), X = Y.", "an object cannot be compared with an integer"),
    ],
)
def test_what_programs_cannot_do(rule: str, message: str) -> None:
    with cal.connect("reference") as db:
        db.add("knows", KNOWS)
        with pytest.raises(cal.CaladanError, match="C012") as caught:
            db.run(rule)
        assert message in str(caught.value)
        assert "`X` is object in `knows`" in str(caught.value)


def test_values_that_cannot_be_hashed(db: cal.Session) -> None:
    db.add("thing", [(ANN, 1), ([1], 2), (None, 3)])
    with pytest.raises(cal.CaladanError, match="C032") as caught:
        db.run("query thing(X, Y).")
    assert "[1] cannot be hashed" in str(caught.value)
    assert "(column c1 of thing) (row 2 of the data of thing)" in str(caught.value)
    out = db.run("query thing(X, Y).", permissive=True)
    assert sorted(out.answer.rows(), key=str) == [(None, 3), (ANN, 1)]
    assert [(line, reason) for *_, line, _, _, reason in out["_rejected"]] == [
        (2, "[1] cannot be hashed (unhashable type: 'list') (column c1 of thing)"),
    ]
    with pytest.raises(cal.CaladanError, match=r"C050.*`p` is a set, which is not a value"):
        db.run("query thing($p, Y).", {"p": {1}})


def test_where_facts_cannot_go(db: cal.Session, tmp_path: Path) -> None:
    db.add("knows", KNOWS)
    out = db.run(PATHS + "query path(X, Y).")["path"]
    doors = [
        out.arrow, out.pandas, out.polars, out.ordered, out.__arrow_c_stream__, out.spark,
        lambda: out.write(tmp_path / "path.csv"), lambda: out.write(tmp_path / "path"),
    ]  # fmt: skip
    for door in doors:
        with pytest.raises(cal.CaladanError, match=r"C012.*column X of `path` holds objects"):
            door()
    assert list(tmp_path.iterdir()) == []


def test_files_hold_none(db: cal.Session, tmp_path: Path) -> None:
    (tmp_path / "thing.csv").write_text("1\n")
    db.add("thing", tmp_path / "thing.csv")
    with pytest.raises(cal.CaladanError, match=r"C035.*column X is object, and files hold no"):
        db.run("database({thing(X: object)}). query thing(X).")


def test_sql_has_none(db: cal.Session) -> None:
    db.add("knows", KNOWS)
    db.add("likes", [("ann", 1)])
    db.run(PATHS + "query path(X, Y).")
    for query in ("SELECT * FROM knows", "SELECT X FROM path"):
        with pytest.raises(cal.CaladanError, match=r"C065.*holds objects, which SQL cannot"):
            db.sql(query)
    with pytest.raises(cal.CaladanError, match=r"C065.*the parameter `p` is an object"):
        db.sql("SELECT * FROM likes WHERE c1 = :p", {"p": ANN})


def test_spark_takes_none(spark: "SparkSession") -> None:
    db = cal.connect(spark)
    db.add("knows", KNOWS)
    with pytest.raises(cal.CaladanError, match=r"C051.*column c1 of `knows` holds objects"):
        db.run(PATHS + "query path(X, Y).")
    with pytest.raises(cal.CaladanError, match=r"C051.*column c1 of `knows` holds objects"):
        db.find("x y", "knows(x, y)")


# ── How they look ────────────────────────────────────────────────────────────────────────────────


def test_they_can_be_shown(db: cal.Session, capsys: pytest.CaptureFixture[str]) -> None:
    db.add("knows", KNOWS)
    out = db.run("query knows(X, Y).").answer
    out.show()
    assert "Person(name='dee')" in capsys.readouterr().out
    assert "Person(name=&#x27;dee&#x27;)" in out._repr_html_()
    asked = db.run("query knows($who, 'x').", {"who": ANN}).answer
    assert asked.name == "knows(Person(name='ann'), 'x')"


def test_explain_shows_values_not_numbers(db: cal.Session) -> None:
    db.add("knows", KNOWS)
    text = db.explain("p(X) <- knows(X, $who), X ~= 'me'. query p(X).", params={"who": CY})
    assert "Person(name='cy')" in text
    assert "'me'" in text
