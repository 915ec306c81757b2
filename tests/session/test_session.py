"""The session: data in, programs run, names that outlive them."""

from __future__ import annotations

import datetime as dt
import warnings
from pathlib import Path

import numpy as np
import pytest

import caladan as cal
from caladan.session.session import Session

CLOSURE = """
    database({arc(A: integer, B: integer)}).
    tc(A, B) <- arc(A, B).
    tc(A, B) <- tc(A, C), arc(C, B).
"""
CHAIN = [(1, 2), (2, 3), (3, 4)]
PAIRS = [(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)]


@pytest.fixture(params=["reference", "embedded"])
def db(request: pytest.FixtureRequest) -> Session:
    session = cal.connect(request.param)
    session.add("arc", CHAIN)
    return session


def test_a_query_has_an_answer(db: Session) -> None:
    out = db.run(CLOSURE + "query tc(A, B).")
    assert out.answer.rows() == out["tc"].rows() == PAIRS
    assert out.answer.columns == ("A", "B")


def test_every_query_has_an_answer(db: Session) -> None:
    out = db.run(CLOSURE + "query tc(1, X). query tc(X, 4). query arc(2, X).")
    assert [answer.rows() for answer in out.answers] == [
        [(1, 2), (1, 3), (1, 4)],
        [(1, 4), (2, 4), (3, 4)],
        [(2, 3)],
    ]
    assert out.answer is out.answers[-1]


def test_relations_are_never_truncated(db: Session) -> None:
    out = db.run(CLOSURE + "other(A) <- arc(A, _). query tc(1, X).")
    assert out["tc"].rows() == PAIRS
    assert out["other"].rows() == [(1,), (2,), (3,)]
    assert out["arc"].rows() == CHAIN


def test_what_is_asked_for_later_sees_the_data_of_its_run(db: Session) -> None:
    out = db.run(CLOSURE + "query arc(1, X).")
    db.add("arc", [(7, 8)])
    assert out["tc"].rows() == PAIRS
    assert db.query("tc(X, Y)").rows() == [(7, 8)]


def test_a_program_without_goals_evaluates_everything(db: Session) -> None:
    out = db.run(CLOSURE + "loop(A) <- tc(A, A).")
    assert list(out) == ["tc", "loop"]
    assert (out["tc"].count(), out["loop"].count()) == (6, 0)


def test_parameters(db: Session) -> None:
    out = db.run(CLOSURE + "query tc({start}, X).", {"start": np.int64(2)})
    assert out.answer.rows() == [(2, 3), (2, 4)]
    out = db.run("late(A) <- arc(A, B), B > $Least.", params={"Least": 3})
    assert out["late"].rows() == [(3,)]
    assert db.query("late(X)").rows() == [(3,)]  # the parameter stays bound


def test_undeclared_data_tells_its_own_columns() -> None:
    db = cal.connect("reference")
    db.add("born", {"who": ["paul", "alia"], "when": [dt.date(1975, 1, 1)] * 2})
    out = db.run("year(W) <- born(W, D), D < '1980-01-01'. query year(W).")
    assert out.answer.rows() == [("alia",), ("paul",)]
    assert db.query("born(X, Y)").types == ("string", "date")


# ── Names that outlive a run ─────────────────────────────────────────────────────────────────────


def test_later_programs_and_queries_see_earlier_rules(db: Session) -> None:
    db.run(CLOSURE)
    assert db.run("back(B, A) <- tc(A, B). query back(4, X).").answer.rows() == [
        (4, 1),
        (4, 2),
        (4, 3),
    ]
    assert db.query("back(X, 1)").rows() == [(2, 1), (3, 1), (4, 1)]
    assert db.query("arc(1, X)").rows() == [(1, 2)]


def test_a_later_definition_replaces_the_earlier_one(db: Session) -> None:
    db.run(CLOSURE)
    db.run("tc(A, B) <- arc(B, A).")
    assert db.query("tc(X, Y)").rows() == [(2, 1), (3, 2), (4, 3)]


def test_data_replaces_earlier_rules(db: Session) -> None:
    db.run(CLOSURE)
    db.add("tc", [(9, 9)])
    assert db.query("tc(X, Y)").rows() == [(9, 9)]


def test_declarations_stay() -> None:
    db = cal.connect("reference")
    with pytest.raises(cal.CaladanError, match="C034"):
        db.run("database({p(A: double)}). query p(X).")
    db.add("p", [(1,)])
    assert db.query("p(X)").types == ("double",)
    assert db.run("p(X) <- p(X), X > 9. query p(X).").answer.types == ("double",)
    assert db.run("database({p(A: long)}). query p(X).").answer.types == ("long",)


def test_data_with_other_columns_replaces_a_declaration() -> None:
    db = cal.connect("reference")
    db.add("p", [(1, 2, "a")])
    db.run("database({p(A: integer, B: integer, C: string)}). q(A) <- p(A, _, _).")
    db.add("p", [(1.5, "b")])
    assert db.run("q(B) <- p(_, B). query q(B).").answer.rows() == [("b",)]
    assert db.query("p(A, B)").rows() == [(1.5, "b")]
    with pytest.raises(cal.CaladanError, match=r"C011.*`p` has 2 columns"):
        db.query("p(A)")


def test_rules_may_add_to_data(db: Session) -> None:
    db.run("database({arc(A: integer, B: integer)}). arc(B, A) <- arc(A, B).")
    assert db.query("arc(2, X)").rows() == [(2, 1), (2, 3)]


# ── Programs from files ──────────────────────────────────────────────────────────────────────────


def test_a_program_may_be_a_path(db: Session, tmp_path: Path) -> None:
    path = tmp_path / "tc.dl"
    path.write_text(CLOSURE + "query tc(1, X).")
    assert db.run(path).answer.count() == db.run(str(path)).answer.count() == 3


def test_a_program_may_be_a_program(db: Session) -> None:
    from caladan.language import parse

    assert db.run(parse(CLOSURE))["tc"].count() == 6


def failure(call: object) -> str:
    with pytest.raises(cal.CaladanError) as caught:
        call()  # type: ignore[operator]
    return str(caught.value)


def test_programs_that_cannot_be_read(db: Session, tmp_path: Path) -> None:
    latin = tmp_path / "latin.dl"
    latin.write_bytes(b"p(1).\n% caf\xe9\n")
    assert failure(lambda: db.run("none.dl")) == "none.dl: error[C030]: no such program file"
    assert failure(lambda: db.run(tmp_path)).endswith("cannot read the program: Is a directory")
    assert (
        failure(lambda: db.run(latin)) == f"{latin}:2:6: error[C033]: byte 0xe9 is not UTF-8 text"
    )


# ── What goes wrong ──────────────────────────────────────────────────────────────────────────────


UNASKED = """
    database({a(X: integer), b(X: integer), c(X: integer)}).
    p(X) <- a(X).
    q(X) <- p(X), b(X).
    r(X) <- a(X), ~b(X).
    query p(X).
"""


@pytest.mark.parametrize("engine", ["reference", "embedded"])
def test_only_what_is_asked_for_needs_data(engine: str) -> None:
    db = cal.connect(engine)
    db.add("a", [(1,), (2,)])
    out = db.run(UNASKED)
    assert out.answer.rows() == out["p"].rows() == [(1,), (2,)]
    for name, lacks in (("q", "b"), ("r", "b"), ("b", "b"), ("c", "c")):
        assert f"error[C034]: no data for {lacks}(X)" in failure(lambda name=name: out[name])
    assert "error[C034]: no data for b(X)" in failure(lambda: db.query("q(X)"))
    assert "error[C034]: no data for b(X)" in failure(lambda: db.run("query r(1)."))
    bare = UNASKED.replace("query p(X).", "")  # which asks for every relation with rules
    assert "error[C034]: no data for b(X)" in failure(lambda: db.run(bare))
    db.add("b", [(2,)])
    assert db.query("q(X)").rows() == [(2,)]
    assert db.run(bare)["r"].rows() == [(1,)]


def test_declared_relations_need_data() -> None:
    db = cal.connect("reference")
    message = failure(lambda: db.run(CLOSURE))
    assert message.startswith("<program>:2:15: error[C034]: no data for arc(A, B)\n")
    assert "--data arc=FILE" in message
    assert 'db.add("arc", …)' in message
    db.add("arc", [])
    assert db.run(CLOSURE)["tc"].count() == 0
    facts = "database({p(A: integer)}). p(1). q(X) <- p(X)."
    assert cal.connect("reference").run(facts)["q"].rows() == [(1,)]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda db: db.run(CLOSURE).answer, "error[C050]: the program has no query, so there is"),
        (lambda db: db.run(CLOSURE)["tcc"], "error[C010]: the result has no relation `tcc`"),
        (lambda db: db.run(CLOSURE, max_rounds=0), "error[C050]: max_rounds must be a whole"),
        (lambda db: db.run(CLOSURE, {"x": {1}}), "error[C050]: the parameter `x` is a set, which"),
        (lambda db: db.query("none(X)"), "<goal>:1:1: error[C021]: query on `none`, which has"),
        (lambda db: db.sql("SELECT x"), "<program>:1:8: error[C062]: the SQL engine says: "),
        (lambda db: db.why("tc(1, 2)"), "error[C051]: proof trees (`why`) are not available"),
        (
            lambda db: cal.connect("reference", master="local"),
            "error[C050]: master, conf and ship are",
        ),
        (lambda db: cal.connect("sparc"), "error[C050]: there is no engine 'sparc'; there are"),
        (
            lambda db: db.explain(CLOSURE, "pgc"),
            "error[C050]: there is no stage `pgc`\n  help: did",
        ),
    ],
)
def test_mistakes(db: Session, call: object, expected: str) -> None:
    assert failure(lambda: call(db)).startswith(expected)  # type: ignore[operator]


def test_unknown_names_are_key_errors_too(db: Session) -> None:
    out = db.run(CLOSURE)
    assert out.get("nothing") is None
    with pytest.raises(KeyError, match="C010"):
        out["nothing"]


def test_a_closed_session_says_so(db: Session) -> None:
    with db:
        db.run(CLOSURE)
    assert failure(lambda: db.run(CLOSURE)) == "error[C050]: the session is closed"
    assert failure(lambda: db.add("arc", [])) == "error[C050]: the session is closed"


# ── Limits, warnings, bad rows ───────────────────────────────────────────────────────────────────


def test_a_limit_leaves_what_was_derived(db: Session) -> None:
    with pytest.raises(cal.Stopped) as caught:
        db.run(CLOSURE + "query tc(A, B). late(A) <- tc(A, 4). query late(X).", max_rounds=1)
    assert caught.value.exit_code == 3
    assert caught.value.diagnostics[0].code == "C042"
    out = caught.value.result
    assert set(out.answers[0].rows()) < set(PAIRS)
    assert set(out["tc"].rows()) < set(PAIRS)
    assert out.answers[1].rows() == []


def test_warnings_are_shown_and_kept(db: Session) -> None:
    text = "n(X) <- arc(X, _). n(Y) <- n(X), Y = X + 1. query n(X)."
    with (
        pytest.warns(cal.CaladanWarning, match="W101") as warned,
        pytest.raises(cal.Stopped, match="C042") as caught,
    ):
        db.run(text, max_facts=9)
    assert [Path(each.filename).name for each in warned] == ["test_session.py"]
    assert [warning.code for warning in caught.value.result.warnings] == ["W101"]


def test_no_warnings_for_a_plain_program(db: Session) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert db.run(CLOSURE).warnings == ()


def test_bad_rows_fail_or_are_set_aside() -> None:
    db = cal.connect("reference")
    db.add("arc", [(1, 2), (2, "x"), (3,)])
    assert failure(lambda: db.run(CLOSURE)).startswith("error[C032]: 'x' is not an integer")
    out = db.run(CLOSURE, permissive=True)
    assert out["tc"].rows() == [(1, 2)]
    assert list(out) == ["tc", "_rejected"]
    assert [row[2] for row in out["_rejected"]] == [2, 3]


# ── Explain ──────────────────────────────────────────────────────────────────────────────────────


def test_explain(db: Session, tmp_path: Path) -> None:
    program = CLOSURE + "query tc(1, B)."
    assert db.explain(program, "pcg").startswith("== PCG Tree ==")
    assert "== Delta Program ==" in db.explain(program)
    db.explain(program, html=tmp_path / "plan.html")
    assert "<html" in (tmp_path / "plan.html").read_text()
    assert "C037" in failure(lambda: db.explain(program, html=tmp_path / "no" / "plan.html"))


def test_importing_is_light() -> None:
    import subprocess
    import sys

    code = (
        "import sys, caladan; "
        "heavy = {'pyspark', 'numba', 'numpy', 'pyarrow', 'pandas', 'polars', 'rich'}; "
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_parquet_and_orc_are_read_without_pandas(tmp_path: Path) -> None:
    import subprocess
    import sys

    import pyarrow as pa
    import pyarrow.orc as po
    import pyarrow.parquet as pq

    table = pa.table({"A": [1, 2], "B": [2, 3]})
    pq.write_table(table, tmp_path / "arc.parquet")
    po.write_table(table, tmp_path / "far.orc")
    code = (
        "import sys, caladan; db = caladan.connect('embedded'); "
        "db.add('arc', 'arc.parquet'); db.add('far', 'far.orc'); "
        "print(db.run('p(A, C) <- arc(A, B), far(B, C).')['p'].rows(), 'pandas' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout == "[(1, 3)] False\n", done.stderr


def test_relations_of_earlier_runs_are_offered(db: Session) -> None:
    db.add("arc", [(1, 2)])
    db.run("path(X, Y) <- arc(X, Y).")
    with pytest.raises(cal.CaladanError, match="did you mean `path`"):
        db.query("paths(1, X)")
    assert db.query("path(1, X)").columns == ("X_2", "X")
