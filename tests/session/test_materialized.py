"""Relations that earlier runs derived are read by later ones, until rules or data change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings, strategies as st

import caladan as cal
from caladan.session.session import Session

CLOSURE = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B)."
STEPS = "near(A, B) <- arc(A, B), A < 3. near(A, C) <- near(A, B), arc(B, C), (A + C) mod 2 = 1."


@pytest.fixture
def db() -> Iterator[Session]:
    with cal.connect("embedded") as session:
        session.add("arc", [(1, 2), (2, 3), (3, 4)])
        yield session


def reused(db: Session, program: str, **options: object) -> list[str]:
    return db.run(program, **options).stats.reused  # type: ignore[arg-type]


def test_a_question_reads_what_a_run_derived(db: Session) -> None:
    db.run(CLOSURE)
    out = db.run("query tc(1, X).")
    assert out.answer.rows() == [(1, 2), (1, 3), (1, 4)]
    assert (out.stats.reused, out.stats.cliques) == (["tc"], [])
    assert "read from earlier runs: tc" in str(out.stats)
    assert "Read from earlier runs: tc" in db.explain("query tc(1, X).", "plan")


def test_rules_read_it_too(db: Session) -> None:
    db.run("pair(A, B) <- arc(A, B), A < 3.")
    out = db.run("first(A) <- pair(A, _). query first(A).")
    assert out.answer.rows() == [(1,), (2,)]
    assert out.stats.reused == ["pair"]
    assert [clique.relations for clique in out.stats.cliques] == [("first",)]
    again = db.run("last(B) <- pair(_, B), first(_). query last(B).")
    assert (again.answer.rows(), again.stats.reused) == ([(2,), (3,)], ["pair", "first"])


def test_a_goal_that_needed_a_part_keeps_nothing(db: Session) -> None:
    db.run(CLOSURE + "query tc(1, X).")
    assert reused(db, "query tc(2, X).") == []


def test_what_a_result_evaluates_later_is_kept(db: Session) -> None:
    out = db.run(CLOSURE + "query tc(1, X).")
    assert out["tc"].count() == 6
    assert reused(db, "query tc(2, X).") == ["tc"]


def test_but_not_if_data_has_changed_since(db: Session) -> None:
    out = db.run(CLOSURE + "query tc(1, X).")
    db.insert("arc", [(4, 5)])
    assert out["tc"].count() == 6
    assert reused(db, "query tc(2, X).") == []
    assert db.query("tc(1, X)").count() == 4


def test_a_change_of_data_drops_what_depends_on_it(db: Session) -> None:
    db.add("other", [(1,)])
    db.run(CLOSURE + "top(A) <- tc(A, _). apart(A) <- other(A).")
    db.insert("arc", [(4, 5)])
    assert reused(db, "query apart(X).") == ["apart"]
    out = db.run("query top(X).")
    assert (out.stats.reused, out.answer.count()) == ([], 4)
    db.delete("arc", [(4, 5)])
    assert db.query("top(X)").count() == 3
    db.add("arc", [(8, 9)])
    assert db.query("tc(X, Y)").rows() == [(8, 9)]


def test_a_change_of_rules_drops_what_depends_on_them(db: Session) -> None:
    db.run("a(X) <- arc(X, _). b(X) <- a(X). c(X) <- arc(_, X).")
    db.run("a(X) <- arc(_, X).")
    out = db.run("query b(X). query c(X).")
    assert out.stats.reused == ["c", "a"]
    assert out.answers[0].rows() == [(2,), (3,), (4,)]


def test_the_same_rules_again_change_nothing(db: Session) -> None:
    db.run("a(X) <- arc(X, _). b(X) <- a(X).")
    db.run("a(X) <- arc(X, _). query a(1).")
    assert reused(db, "query b(X).") == ["b"]


def test_a_program_that_defines_what_it_depends_on_derives_it(db: Session) -> None:
    db.run(CLOSURE)
    out = db.run("arc(7, 8). query tc(7, X).")
    assert (out.answer.rows(), out.stats.reused) == ([(7, 8)], [])


def test_parameters_are_part_of_the_rules(db: Session) -> None:
    db.run("late(A) <- arc(A, B), B > $Least.", {"Least": 3})
    assert db.query("late(X)").rows() == [(3,)]
    db.run("late(A) <- arc(A, B), B > $Least.", {"Least": 2})
    assert db.query("late(X)").rows() == [(2,), (3,)]


def test_a_run_can_do_without(db: Session) -> None:
    db.run(CLOSURE, keep=False)
    assert reused(db, "query tc(X, Y).") == []
    assert reused(db, "query tc(X, Y).", keep=False) == []
    assert reused(db, "query tc(X, Y).") == ["tc"]


def test_rows_that_were_set_aside_count(db: Session, tmp_path: object) -> None:
    from pathlib import Path

    path = Path(str(tmp_path)) / "n.csv"
    path.write_text("1\nx\n")
    db.add("n", path)
    db.run("database({n(A: long)}). m(A) <- n(A).", permissive=True)
    assert reused(db, "query m(X).", permissive=True) == ["m"]
    with pytest.raises(cal.CaladanError, match="C03"):
        db.run("query m(X).")


def test_a_run_that_was_stopped_keeps_nothing(db: Session) -> None:
    with pytest.raises(cal.Stopped):
        db.run("n(1). n(Y) <- n(X), X < 50, Y = X + 1.", max_rounds=5)
    with pytest.raises(cal.Stopped):
        db.run("query n(X).", max_rounds=7)


def test_materialize_and_drop(db: Session) -> None:
    db.run(CLOSURE + "query tc(1, X).")
    db.materialize("tc")
    assert reused(db, "query tc(2, X).") == ["tc"]
    db.drop("tc")
    assert reused(db, "query tc(2, X).") == []
    with pytest.raises(cal.CaladanError, match=r"no rules define `arc`"):
        db.materialize("arc")
    with pytest.raises(cal.CaladanError, match=r"no relation `ark`[\s\S]*did you mean `arc`"):
        db.drop("ark")
    db.drop("arc")
    with pytest.raises(cal.CaladanError, match="C010"):
        db.query("tc(1, X)")


def test_sql_and_find_read_it(db: Session) -> None:
    db.run(CLOSURE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(db), "_evaluate", None)  # whoever derives it again fails
        assert db.sql("SELECT count(*) AS c FROM tc").rows() == [(6,)]
        assert len(list(db.find("a b", "tc(a, b)"))) == 6


def test_what_is_kept_goes_before_anything_else(db: Session) -> None:
    db.add("arc", [(i, 7 * i % 5003) for i in range(5000)])
    db.run("even(A, B) <- arc(A, B), B mod 2 = 0.")
    db.run("odd(A, B) <- arc(A, B), B mod 2 = 1.")
    db.materialize("even")
    db.run("third(A, B) <- arc(A, B), B mod 3 = 0.", memory="160k")
    assert reused(db, "query odd(1, X).") == []


ARCS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=8)


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(["insert", "delete", "add"]), ARCS),
            st.tuples(st.just("run"), st.sampled_from([CLOSURE, STEPS, "tc(A, B) <- arc(B, A)."])),
            st.tuples(
                st.just("ask"),
                st.sampled_from(
                    ["query tc(1, X).", "query near(A, B).", "r(A) <- tc(A, A). query r(A).",
                     "r(A) <- near(A, B), tc(B, _). query r(A)."]
                ),
            ),
        ),
        max_size=8,
    )
)  # fmt: skip
@settings(max_examples=60)
def test_no_history_of_a_session_changes_an_answer(history: list[tuple[str, object]]) -> None:
    keeping, forgetting = cal.connect("embedded"), cal.connect("embedded")
    for db in (keeping, forgetting):
        db.add("arc", [(1, 2), (2, 1), (2, 3)])
        db.run(CLOSURE + STEPS)
    for what, which in history:
        if what in ("insert", "delete", "add"):
            for db in (keeping, forgetting):
                getattr(db, what)("arc", which or [(0, 0)])
        else:
            found = [
                keeping.run(str(which)),
                forgetting.run(str(which), keep=False),
            ]
            if what == "ask":
                assert found[0].answer.rows() == found[1].answer.rows()
