"""`insert`, `delete`, `replace` and `watch`, as users call them."""

import time
from typing import Any

import pytest

import caladan as cal

CLOSURE = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B)."


@pytest.fixture
def db() -> Any:
    with cal.connect("embedded") as session:
        session.add("arc", [(1, 2), (2, 3)])
        yield session


def test_inserts_and_deletes_are_seen_by_runs_on_every_engine() -> None:
    for engine in ("embedded", "reference"):
        with cal.connect(engine) as db:
            db.add("arc", [(1, 2), (2, 3)])
            early = db.run(CLOSURE)
            db.insert("arc", [(3, 4), (1, 2)])
            db.delete("arc", [(1, 2), (9, 9)])
            assert db.run(CLOSURE)["tc"].rows() == [(2, 3), (2, 4), (3, 4)]
            assert early["tc"].rows() == [(1, 2), (1, 3), (2, 3)]


def test_values_are_the_same_however_they_are_written() -> None:
    with cal.connect("embedded") as db:
        db.add("w", {"A": [0.0, float("nan"), 2.5], "T": ["a", "b", "c"]})
        db.delete("w", [(-0.0, "a"), (float("nan"), "b")])
        assert db.run("r(A, T) <- w(A, T).")["r"].rows() == [(2.5, "c")]


def test_a_relation_that_comes_and_goes_does_not_grow(db: Any) -> None:
    for _ in range(300):
        db.insert("arc", [(5, 6)])
        db.delete("arc", [(5, 6)])
    assert len(db._store.source("arc").steps) < 70
    assert db.run(CLOSURE)["tc"].rows() == [(1, 2), (1, 3), (2, 3)]


def test_what_is_watched_follows(db: Any) -> None:
    live = db.watch(CLOSURE)
    assert live["tc"].rows() == [(1, 2), (1, 3), (2, 3)]
    db.insert("arc", [(3, 4)])
    db.delete("arc", [(1, 2)])
    assert live["tc"].rows() == [(2, 3), (2, 4), (3, 4)]
    db.replace("arc", [(7, 8)])
    assert live["tc"].rows() == [(7, 8)]
    db.add("arc", [(8, 9)])
    assert live["tc"].count() == 1
    assert list(live) == ["tc", "arc"]
    assert (live.stats.changes, live.stats.cliques[0].upkeep) == (4, "repaired")


def test_facts_come_back_where_rules_read_them_by_another_column() -> None:
    with cal.connect("embedded") as db:
        db.add("f", [(1, "a"), (3, "a"), *((x, "b") for x in range(40))])
        live = db.watch("r(X, T) <- f(X, T). r((X + X) mod 7, T) <- r(X, T), r(_, T).")
        db.delete("f", [(1, "a")])
        assert [x for x, t in live["r"].rows() if t == "a"] == [3, 5, 6]
        db.insert("f", [(1, "a")])
        assert [x for x, t in live["r"].rows() if t == "a"] == [1, 2, 3, 4, 5, 6]


def test_changes_are_those_since_the_last_look(db: Any) -> None:
    live = db.watch(CLOSURE)
    for _ in range(100):
        db.insert("arc", [(3, 4)])
        db.delete("arc", [(3, 4)])
    assert not live.changes("tc")
    db.insert("arc", [(3, 4), (4, 5)])
    db.delete("arc", [(4, 5)])
    change = live.changes("tc")
    assert (change.added.rows(), change.removed.rows()) == ([(1, 4), (2, 4), (3, 4)], [])
    assert not live.changes("tc")


def test_callbacks_are_told_until_they_unsubscribe(db: Any) -> None:
    live = db.watch(f"{CLOSURE} n(A, count<B>) <- tc(A, B).")
    told: list[Any] = []
    stop = live.on_change(lambda changes: told.append(changes))
    db.insert("arc", [(3, 4)])
    db.insert("arc", [(3, 4)])
    stop()
    db.insert("arc", [(4, 5)])
    assert len(told) == 1
    assert set(told[0]) == {"arc", "tc", "n"}
    assert told[0]["n"].removed.rows() == [(1, 2), (2, 1)]


def test_facts_of_the_program_stay_true(db: Any) -> None:
    live = db.watch("arc(5, 6). tc(A, B) <- arc(A, B). tc(0, 0).")
    db.delete("arc", [(5, 6), (1, 2)])
    assert live["tc"].rows() == [(0, 0), (2, 3), (5, 6)]
    db.replace("arc", [])
    assert live["tc"].rows() == [(0, 0), (5, 6)]


def test_values_that_nobody_has_seen() -> None:
    with cal.connect("embedded") as db:
        db.add("p", [("b", 1, 0.5), ("a", 2, 1.5)])
        live = db.watch("q(T, N + 1, D) <- p(T, N, D), T > 'a'. m(max<T>) <- p(T, _, _).")
        db.insert("p", [("zz", 1 << 60, -2.5), ("A", -(1 << 60), 7.0)])
        assert live["q"].rows() == [("b", 2, 0.5), ("zz", (1 << 60) + 1, -2.5)]
        assert live["m"].rows() == [("zz",)]
        db.delete("p", [("zz", 1 << 60, -2.5), ("never seen", 0, 0.0)])
        assert live["m"].rows() == [("b",)]


def test_a_change_that_fails_is_made_up_for() -> None:
    with cal.connect("embedded") as db:
        db.add("n", [(1,)])
        live = db.watch("big(X * 4611686018427387904) <- n(X), X > 0. other(X) <- n(X).")
        with pytest.raises(cal.CaladanError, match="64 bits"):
            db.insert("n", [(4,)])
        db.delete("n", [(4,)])
        db.insert("n", [(0,)])
        assert live["other"].rows() == [(0,), (1,)]
        assert live["big"].rows() == [(4611686018427387904,)]
        assert live.changes("other").added.rows() == [(0,)]


def test_bad_rows_change_nothing(db: Any) -> None:
    live = db.watch(CLOSURE)
    with pytest.raises(cal.CaladanError):
        db.insert("arc", [(3, 4), ("x", "y")])
    assert live["tc"].count() == 3
    assert db.run(CLOSURE)["tc"].count() == 3


def test_mistakes_are_told(db: Any) -> None:
    live = db.watch(CLOSURE)
    with pytest.raises(cal.CaladanError, match=r"C010.*`ct`"):
        live["ct"]
    with pytest.raises(cal.CaladanError, match="C010"):
        db.delete("acr", [(1, 2)])
    with pytest.raises(cal.CaladanError, match="C051"):
        db.watch("SELECT 1", language="rasql")
    with pytest.raises(cal.CaladanError, match="C050"):
        live.on_change("no callback")
    live.close()
    live.close()
    with pytest.raises(cal.CaladanError, match="closed"):
        live["tc"]
    db.insert("arc", [(3, 4)])


def test_only_the_embedded_engine_watches() -> None:
    with cal.connect("reference") as db, pytest.raises(cal.CaladanError, match=r"C051.*reference"):
        db.watch(CLOSURE)


def test_the_budget_of_memory_holds_for_changes(db: Any) -> None:
    live = db.watch("pair(A, B) <- arc(A, _), arc(B, _).", memory=300_000)
    with pytest.raises(cal.CaladanError, match="memory"):
        for start in range(0, 4000, 100):
            db.insert("arc", [(a, 0) for a in range(start, start + 100)])
    live.close()


def test_a_clique_that_loses_much_is_evaluated_anew() -> None:
    with cal.connect("embedded") as db:
        db.add("arc", [(a, a + 1) for a in range(150)])
        live = db.watch(CLOSURE)
        db.delete("arc", [(75, 76)])
        assert live["tc"].count() == 75 * 76 // 2 + 74 * 75 // 2
        assert live.stats.cliques[0].recomputed == 1
        db.insert("arc", [(75, 76)])
        db.delete("arc", [(149, 150)])
        assert live["tc"].count() == 149 * 150 // 2
        assert live.stats.cliques[0].recomputed == 1


def test_best_values_are_improved_by_what_comes() -> None:
    text = "d(A, B, mmin<D>) <- arc(A, B, D). d(A, B, mmin<D + E>) <- d(A, C, D), arc(C, B, E)."
    with cal.connect("embedded") as db:
        db.add("arc", [(1, 2, 5), (2, 3, 5)])
        live = db.watch(text)
        db.insert("arc", [(1, 3, 20), (1, 2, 1), (3, 4, 1)])
        change = live.changes("d")
        assert change.added.rows() == [(1, 2, 1), (1, 3, 6), (1, 4, 7), (2, 4, 6), (3, 4, 1)]
        assert change.removed.rows() == [(1, 2, 5), (1, 3, 10)]
        assert live.stats.cliques[0].recomputed == 0
        db.delete("arc", [(1, 2, 1)])
        assert live["d"].rows()[:3] == [(1, 2, 5), (1, 3, 10), (1, 4, 11)]
        db.insert("arc", [(1, 2, 0)])
        assert live["d"].rows()[0] == (1, 2, 0)
        assert live.stats.cliques[0].recomputed == 0


def test_a_closure_by_doubling_is_kept_as_a_linear_one() -> None:
    """What is given to it, written in the program or derived by its other rules are its steps."""
    text = """
        database({arc(A: integer, B: integer), tc(A: integer, B: integer)}).
        tc(7, 8).
        tc(A, B) <- arc(A, B), A ~= 0.
        tc(A, C) <- tc(B, C), tc(A, B).
        ends(A) <- tc(A, _), ~tc(_, A).
    """
    db = cal.connect("embedded")
    db.add("arc", [(1, 2), (2, 3), (0, 1)])
    db.add("tc", [(3, 4)])
    live = db.watch(text)
    found = {(1, 2), (1, 3), (1, 4), (2, 3), (2, 4), (3, 4)}
    assert set(live["tc"].rows()) == found | {(7, 8)}
    db.insert("tc", [(4, 7)])
    assert set(live["tc"].rows()) == found | {(7, 8)} | {
        (a, b) for a in (1, 2, 3, 4) for b in (7, 8)
    }
    assert live["ends"].rows() == [(1,)]
    db.delete("tc", [(3, 4), (7, 8), (1, 2)])  # one is written, and one derived
    assert set(live["tc"].rows()) == {(1, 2), (1, 3), (2, 3), (7, 8), (4, 7), (4, 8)}
    assert set(live["ends"].rows()) == {(1,), (4,)}
    db.replace("tc", [(3, 1)])
    db.delete("arc", [(1, 2)])
    assert set(live["tc"].rows()) == {(2, 3), (2, 1), (3, 1), (7, 8)}
    assert sum(each.recomputed for each in live.stats.cliques) == 0
    assert set(live) == {"tc", "ends", "arc"}


GROWING = {
    "a product": "q(A, B, C) <- z(A), e(B), e(C). query q(A, B, C).",
    "rounds": "n(X) <- z(X). n(Y) <- n(X), Y = X + 1, Y < 100000000. query n(X).",
    "groups": "q(A, B, C, count<_>) <- z(A), e(B), e(C), e(_). query q(A, B, C, N).",
}


@pytest.mark.parametrize("limit", [{"timeout": 3}, {"max_facts": 20_000}, {"memory": 10_000_000}])
@pytest.mark.parametrize("name", GROWING)
def test_a_change_that_leads_to_too_much_stops(name: str, limit: dict[str, Any]) -> None:
    db = cal.connect("embedded")
    db.add("e", [(i,) for i in range(3000)])
    db.add("z", [(0,)])
    db.delete("z", [(0,)])
    text = GROWING[name]
    live = db.watch(text, **limit)
    started = time.process_time()
    with pytest.raises(cal.CaladanError, match="C042"):
        db.insert("z", [(i,) for i in range(100)])
    assert time.process_time() - started < 3 + 2
    db.delete("z", [(i,) for i in range(100)])
    assert live[text[0]].count() == 0
