"""The search, asked from a session."""

import pytest

import caladan as cal


@pytest.fixture(params=["embedded", "reference"])
def db(request: pytest.FixtureRequest) -> cal.Session:
    db = cal.connect(request.param)
    db.add("lives_in", [("paul", "arrakeen"), ("jessica", "arrakeen"), ("leia", "carthag")])
    db.add("parent", [("paul", "jessica"), ("leia", "paul")])
    return db


def test_a_join_asked_from_python(db: cal.Session) -> None:
    found = db.find(
        "person parent city",
        "lives_in(person, city), parent(person, parent), lives_in(parent, city)",
    )
    assert list(found) == [("paul", "jessica", "arrakeen")]


def test_constraints_as_objects(db: cal.Session) -> None:
    found = db.find("person", "lives_in(person, city)", city=cal.one_of({"carthag", "caladan"}))
    assert list(found) == [("leia",)]
    db.add("age", [("paul", 15), ("leia", 2)])
    assert list(db.find("person", "age(person, age)", age=cal.between(3, 20))) == [("paul",)]


def test_derived_relations_take_part(db: cal.Session) -> None:
    db.run("elder(X, Y) <- parent(X, Y). elder(X, Z) <- elder(X, Y), parent(Y, Z).")
    assert sorted(db.find("old", "elder(leia, old)")) == [("jessica",), ("paul",)]


def test_new_data_is_seen(db: cal.Session) -> None:
    assert sorted(db.find("p", "parent(p, X)")) == [("leia",), ("paul",)]
    db.add("parent", [("alia", "jessica")])
    assert list(db.find("p", "parent(p, X)")) == [("alia",)]


def test_only_what_is_asked_for_is_searched(db: cal.Session) -> None:
    db.add("n", [(i,) for i in range(3000)])
    first = next(iter(db.search("a b c", "n(a), n(b), n(c)")))
    assert len(first) == 3


def test_an_unknown_relation(db: cal.Session) -> None:
    with pytest.raises(cal.CaladanError, match="C010"):
        db.find("x", "nobody(x)")
