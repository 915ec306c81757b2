"""Functions of SQL with too many or too few arguments: told, and never dropped without a word."""

from __future__ import annotations

import doctest

import pytest

import caladan as cal
from caladan.language.rasql import dialect
from caladan.language.rasql.dialect import ARGUMENTS

WORDS = ("position", "substr", "substring", "overlay")  # may be written without commas


@pytest.fixture(scope="module")
def db() -> cal.Session:
    db = cal.connect("embedded")
    db.add("t", {"a": [7], "s": ["abc"]})
    return db


@pytest.mark.parametrize("name", ARGUMENTS)
def test_so_many_and_no_more(db: cal.Session, name: str) -> None:
    least, most = ARGUMENTS[name]
    wrong = [] if most is None else [most + 1, most + 2]
    wrong += [] if name in WORDS or not least else [least - 1]
    for count in wrong:
        with pytest.raises(cal.CaladanError) as raised:
            db.sql(f"SELECT {name}({', '.join(['a'] * count)}) FROM t")
        assert f"1:8: error[C001]: `{name}` takes " in str(raised.value)
        assert f", not {count}" in str(raised.value)


@pytest.mark.parametrize(
    "step", ["mod(r.a, 2, 3)", "mod((r.a), (2 + 1), abs(3))", "length(r.s, 1)"]
)
def test_in_a_recursive_step(db: cal.Session, step: str) -> None:
    recursive = "WITH recursive r(a, s) AS (SELECT a, s FROM t) UNION (SELECT {}, r.s FROM r)"
    with pytest.raises(cal.CaladanError, match=r"error\[C001\]: `(mod|length)` takes [12] arg"):
        db.sql(f"{recursive.format(step)} SELECT a FROM r")


def test_commas_inside_of_arguments_are_not_counted(db: cal.Session) -> None:
    assert db.sql("SELECT mod(greatest(a, 1, 2), least(9, 4)) AS m FROM t").rows() == [(3,)]
    assert db.sql("SELECT abs((SELECT max(a) FROM t WHERE a IN (7, 8))) AS m FROM t").rows() == [
        (7,)
    ]
    assert db.sql("SELECT substring(s FROM 2 FOR 1) AS m FROM t").rows() == [("b",)]
    assert db.sql("SELECT length(',,,)(') AS m FROM t").rows() == [(5,)]


def test_doctests() -> None:
    assert doctest.testmod(dialect) == (0, 1)
