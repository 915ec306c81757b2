"""`search=`: cyclic bodies by the guided search instead of the propose step."""

import pytest

import caladan
from caladan.join.cyclic import CyclicSearch
from caladan.join.search.grades import GRADES

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
    run = CyclicSearch.run

    def noted(self: CyclicSearch, *arguments: object) -> object:
        searches.append(self.grade)
        return run(self, *arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(CyclicSearch, "run", noted)
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
    (rule,) = db.run("query t(X, Y, Z).").stats.cliques[0].rules  # without `search=` likewise
    assert {each.variable for each in rule.search} == {"Z"}
    assert all(500 > each.proposed >= each.confirmed > 0 for each in rule.search)


def test_an_unknown_grade_is_refused() -> None:
    with pytest.raises(caladan.CaladanError, match="search must be one of"):
        caladan.connect("embedded").run("p(1). query p(X).", search="duncan")
