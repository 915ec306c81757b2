"""Data is encoded once in a session: later runs take what is left, with the same answers."""

import gc
import warnings
from typing import Any

from hypothesis import given, settings
from tests.differential.running import check_same, run
from tests.strategies.random_programs import RandomProgram, random_programs

import caladan
from caladan.language.deals import unparse

CLOSURE = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."


def kept(db: Any) -> list[Any]:
    return db._engine._cache._relations


@settings(max_examples=max(5, settings().max_examples // 5))
@given(random_programs(layers=3), random_programs(layers=3))
def test_runs_of_one_session_agree_with_runs_of_their_own(
    one: RandomProgram, other: RandomProgram
) -> None:
    db = caladan.connect("embedded")
    for name, rows in one.facts.items():
        db.add(name, rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", caladan.CaladanWarning)
        for each in (one, other, one):
            text = unparse(each.program)
            try:
                wanted = run("reference", text, one.facts)
            except caladan.CaladanError:
                continue
            fresh = caladan.connect("embedded")
            fresh._engine = db._engine  # rules of an earlier program would stay with the session
            fresh._store = db._store.snapshot()
            check_same([answer.rows() for answer in fresh.run(text).answers], wanted, each)


def test_relations_and_their_orders_stay() -> None:
    with caladan.connect("embedded") as db:
        db.add("arc", [(a, a * 7919 % 1000) for a in range(1000)])
        first = db.run(CLOSURE).answer.count()
        (left,) = kept(db)
        body, orders = left.relation.body, len(left.relation.arrangements)
        assert db.run(CLOSURE).answer.count() == first
        assert [each.relation.body for each in kept(db)] == [body]
        db.run("back(B, A) <- arc(A, B), arc(B, _), ~arc(B, A). query back(5, A).")
        assert [each.relation.body for each in kept(db)] == [body]
        assert len(left.relation.arrangements) >= orders


def test_computed_values_are_not_left_to_the_next_run() -> None:
    with caladan.connect("embedded") as db:
        db.add("n", [(1,), (2,)])
        grown = db.run("m(X) <- n(X). m(X * 1000) <- m(X), X < 1000000000. query m(X).").answer
        assert grown.count() == 8
        (left,) = kept(db)
        assert left.classes[0].domain.size < 1000
        assert db.run("m(X) <- n(X). m(X + 1) <- m(X), X < 4. query m(X).").answer.count() == 4


def test_data_that_is_replaced_is_let_go_of() -> None:
    with caladan.connect("embedded") as db:
        db.add("arc", [(1, 2)])
        db.run(CLOSURE).close()
        old = kept(db)[0]
        db.add("arc", [(2, 3), (3, 4)])
        gc.collect()
        assert db.run(CLOSURE).answer.count() == 3
        gc.collect()
        db.run(CLOSURE)
        assert old not in kept(db)
        assert len(kept(db)) == 1


def test_what_is_kept_counts_as_memory() -> None:
    with caladan.connect("embedded") as db:
        db.add("big", [(a, a + 1) for a in range(20_000)])
        db.add("small", [(1, 2)])
        db.run("r(A) <- big(A, _). query r(1).")
        assert kept(db)
        db.run("s(A) <- small(A, _). query s(1).", memory=100_000)
        assert all(each.relation.count() == 1 for each in kept(db))
