"""`search=`: cyclic bodies by the guided search instead of the propose step."""

from random import Random
from typing import Any

import pytest

import caladan
from caladan.join import adaptive
from caladan.join.estimates import GRADES
from caladan.join.search import find

ARCS = [(x, (x * x + k) % 23) for x in range(23) for k in (1, 4, 9)] + [(7, 7)]
CYCLES = """
database({arc(A: integer, B: integer)}).
cycle(X, Y, Z) <- arc(X, Y), arc(Y, Z), arc(Z, X), X ~= 3, ~arc(Y, X).
long(X, Y, Z) <- cycle(X, Y, Z).
long(X, Y, W) <- long(X, Y, Z), arc(Y, Z), arc(Z, W), arc(W, Y), N = Z + 1, N > 2.
ways(X, count<Z>) <- arc(X, Y), arc(Y, Z), arc(Z, X).
query long(X, Y, Z).
query ways(X, N).
"""


@pytest.mark.parametrize("grade", GRADES)
def test_every_grade_gives_the_same(grade: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[str] = []
    solve = adaptive.solve

    def noted(*arguments: Any, grade: str, **options: Any) -> object:
        searches.append(grade)
        return solve(*arguments, grade=grade, **options)

    monkeypatch.setattr(adaptive, "solve", noted)
    db = caladan.connect("embedded")
    db.add("arc", ARCS)
    plain = [sorted(answer.rows()) for answer in db.run(CYCLES).answers]
    assert not searches
    assert [sorted(a.rows()) for a in db.run(CYCLES, search=grade).answers] == plain
    assert set(searches) == {grade}
    assert len(plain[0]) > 20


def test_stats_tell_what_was_proposed() -> None:
    """Triangles over a hub: what is proposed for a variable is confirmed or wasted."""
    db = caladan.connect("embedded")
    db.add("e", [(0, i) for i in range(1, 50)] + [(i, 0) for i in range(1, 50)] + [(1, 2)])
    out = db.run("t(X, Y, Z) <- e(X, Y), e(Y, Z), e(Z, X).", search="leto")
    (rule,) = out.stats.cliques[0].rules
    assert len(out["t"]) == 3
    assert {each.variable for each in rule.search} <= {"X", "Y", "Z"}
    assert all(each.proposed >= each.confirmed > 0 for each in rule.search)
    assert sum(each.proposed for each in rule.search) < 500  # pairs over the hub are 49 * 49
    assert "proposed" in str(out.stats)
    (rule,) = (
        db.run("query t(X, Y, Z).", keep=False).stats.cliques[0].rules
    )  # without `search=` likewise
    assert {each.variable for each in rule.search} == {"Z"}
    assert all(500 > each.proposed >= each.confirmed > 0 for each in rule.search)


def test_an_unknown_grade_is_refused() -> None:
    with pytest.raises(caladan.CaladanError, match="search must be one of"):
        caladan.connect("embedded").run("p(1). query p(X).", search="duncan")


def hub(n: int) -> list[tuple[int, int]]:
    spokes = range(1, n + 1)
    return [e for i in spokes for e in ((0, i), (i, 0), (i, i % n + 1))]


def proposed(out: Any) -> dict[str, tuple[int, int]]:
    """By variable what was proposed, and how much of it was wasted."""
    (rule,) = out.stats.cliques[-1].rules
    return {each.variable: (each.proposed, each.proposed - each.confirmed) for each in rule.search}


@pytest.mark.parametrize("grade", GRADES)
def test_tests_and_negation_cut_proposals(grade: str) -> None:
    """What `find` proposes is what the same body in a rule proposes, comparisons and all."""
    db = caladan.connect("embedded")
    db.add("e", hub(300))
    whole = db.run("t(X, Y, Z) <- e(X, Y), e(Y, Z), e(Z, X).", search=grade)
    few = db.run("t(X, Y, Z) <- e(X, Y), e(Y, Z), e(Z, X), X < 3, ~e(X, Z), Y ~= 0.", search=grade)
    assert len(few["t"]) < len(whole["t"])
    assert sum(n for n, _ in proposed(few).values()) * 2 < sum(
        n for n, _ in proposed(whole).values()
    )


def test_leto_is_exact_on_acyclic_bodies_of_rules() -> None:
    db = caladan.connect("embedded")
    random = Random(5)
    db.add("e", [(random.randrange(300), random.randrange(300)) for _ in range(400)])
    rule = "t(A, D) <- e(A, B), e(B, C), e(C, D)."
    paul, leto = (proposed(db.run(rule, search=grade)) for grade in ("paul", "leto"))
    assert set(leto) == {"A", "B", "C", "D"}
    assert sum(wasted for _, wasted in paul.values()) > 0
    assert sum(wasted for _, wasted in leto.values()) == 0


def test_what_search_does_is_explained() -> None:
    """Explain, with data and without, says the steps that stats say were taken."""
    program = """
    database({e(A: integer, B: integer)}).
    t(X, Y) <- e(X, Y), e(Y, Z), Z > 3, ~e(Z, X).
    p(X, Z) <- e(X, Z).
    p(X, Z) <- p(X, Y), e(Y, Z), e(Z, W), X < W.
    n(X, Z) <- e(X, Y), Z = Y + 1, e(Z, W), e(W, X).
    query t(X, Y). query p(X, Y). query n(X, Y).
    """
    db = caladan.connect("embedded")
    told = db.explain(program, stage="plan", search="ghanima")
    db.add("e", hub(40))
    also = db.explain(program, stage="plan", search="ghanima")
    stats = db.run(program, search="ghanima").stats
    plans = [plan for clique in stats.cliques for rule in clique.rules for plan in rule.plans]
    assert sum(step.startswith("search ") for plan in plans for step in plan) == 3
    for step in (step for plan in plans for step in plan):
        assert step in told
        assert step in also


def test_a_grade_that_costs_more_than_it_saves_steps_down() -> None:
    random = Random(1)
    edges = [(random.randrange(100), random.randrange(100)) for _ in range(3000)]
    body = "e(x, y), e(y, z), e(z, x), e(z, w), e(w, x)"
    paul, ghanima = (
        find({"e": edges}, "x y z w", body, search=grade) for grade in ("paul", "ghanima")
    )
    assert paul.count() == ghanima.count()
    assert ghanima.statistics.grade == "ghanima, then paul"
    assert ghanima.statistics.proposed.total() <= paul.statistics.proposed.total()
