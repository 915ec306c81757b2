"""What explain prints with data is what a run does, with facts enough for shapes and overlays.

The programs of the corpus have few facts, and go in rounds; these are over the closure of a grid.
"""

import re

import pytest
from tests.programs.truth import check_truth

import caladan

SIDE = 20
EDGES = [
    *((i * SIDE + j, i * SIDE + j + 1) for i in range(SIDE) for j in range(SIDE - 1)),
    *((i * SIDE + j, i * SIDE + j + SIDE) for i in range(SIDE - 1) for j in range(SIDE)),
    *((SIDE * SIDE + i, SIDE * SIDE + i + 1) for i in range(400)),
]
LINKS = [(i * 7 % 400, i * 11 % 391) for i in range(1600)]
CLOSURE = """
database({arc(A: integer, B: integer), l(A: integer, B: integer)}).
tc(A, B) <- arc(A, B).
tc(A, B) <- tc(A, C), arc(C, B).
"""
OTHER = "tl(A, B) <- l(A, B). tl(A, B) <- tl(A, C), l(C, B). "

TOPS = {
    "count": ("c(A, count<B>) <- tc(A, B). query c(A, N).", "overlay"),
    "sum of all": ("c(sum<B>) <- tc(A, B). query c(N).", "overlay"),
    "copy of a copy": ("r(B, A) <- tc(A, B). q(A, B) <- r(A, B), A > 3. query q(A, B).", "overlay"),
    "join": ("q(A, B) <- l(A, C), tc(C, B). query q(A, B).", "overlay"),
    "absence": ("q(A, B) <- tc(A, B), ~l(A, B). query q(A, B).", "overlay"),
    "atom between both sides": ("q(A, B) <- tc(A, B), l(A, B). query q(A, B).", "rounds"),
    "sorted": ("q(A, B) <- tc(A, B), sort((A, desc)), limit(3). query q(A, B).", "rounds"),
    "closures one after the other": (OTHER + "q(A, B) <- tc(A, C), tl(C, B). query q(A, B).", ""),
    "closures of the same": (OTHER + "q(A, B) <- tc(A, B), ~tl(A, B). query q(A, B).", ""),
    "closure that starts with one": (
        "t(A, B) <- tc(A, B). t(A, B) <- t(A, C), l(C, B). query t(A, B).",
        "condensed",
    ),
    "closure that steps by one": (
        "t(A, B) <- l(A, B). t(A, B) <- t(A, C), tc(C, B). query t(A, B).",
        "condensed",
    ),
    "few sources": ("query tc(3, B).", "condensed"),
    "steps that are tested": (
        "t(A, B) <- arc(A, B), A < 9. t(A, B) <- t(A, C), arc(C, B), l(A, B). query t(A, B).",
        "blocks",
    ),
    "spreading": ("r(0) <- arc(0, _). r(B) <- r(A), arc(A, B). query r(B).", "condensed"),
    "generations": (
        "s(X, Y) <- arc(P, X), arc(P, Y). s(X, Y) <- arc(A, X), s(A, B), arc(B, Y). query s(X, Y).",
        "blocks",
    ),
    "hops": (
        (
            "h(A, B, 1) <- arc(A, B). h(A, B, N + 1) <- h(A, C, N), arc(C, B), N < 5, A ~= B. "
            "query h(A, B, N)."
        ),
        "blocks",
    ),
    "joined where it rises": (
        "t(A, B) <- l(A, B), B < 300. t(A, B) <- t(A, C), t(C, B), A < B, A < 100. query t(A, B).",
        "blocks",
    ),
    "exchanged through two": (
        (
            "t(A, B) <- l(A, B). u(A, B) <- t(B, A), A > 7. "
            "t(A, B) <- u(A, C), arc(C, B), ~l(A, B). query t(A, B)."
        ),
        "blocks",
    ),
}


@pytest.mark.parametrize("name", TOPS)
def test_shapes_and_overlays(name: str) -> None:
    rules, strategy = TOPS[name]
    with caladan.connect("embedded") as db:
        db.add("arc", EDGES)
        db.add("l", LINKS)
        stats = db.run(CLOSURE + rules).stats
        check_truth(db, CLOSURE + rules, {}, stats)
        assert strategy in stats.cliques[-1].strategy


def test_steps_within_a_step() -> None:
    """Atoms that nobody reads are one step, whichever of several plans it is of."""
    program = """
    database({arc(A: integer, B: integer), l(A: integer, B: integer)}).
    c(Y, count<X>) <- arc(X, Y).
    q(0) <- c(Y, _), l(Y, Y).
    query q(A).
    """
    with caladan.connect("embedded") as db:
        db.add("arc", EDGES[:9])
        db.add("l", [(2, 2)])
        stats = db.run(program).stats
        check_truth(db, program, {}, stats)
        assert stats.cliques[-1].rules[0].plans[0][0].startswith("semijoin (scan l(Y, Y), then ")


def test_what_samples_make_is_told() -> None:
    """A sample of another order may have had a view made: of base relations too."""
    program = """
    database({arc(A: integer, B: integer)}).
    q(A, B, C, D) <- arc(A, B), arc(A, C), arc(A, D), arc(B, C), arc(B, D), arc(C, D).
    query q(A, B, C, D).
    """
    with caladan.connect("embedded") as db:
        db.add("arc", [(i * 7 % 100, i * 11 % 97) for i in range(900)])
        stats = db.run(program).stats
        check_truth(db, program, {}, stats)
        assert "of arc views that samples of other orders look at" in db.explain(program, "plan")


def test_what_a_search_excludes_is_looked_up() -> None:
    program = """
    database({n(A: integer), w(A: integer, B: integer)}).
    q(X, Y) <- n(X), n(Y), ~w(_, Y).
    query q(X, Y).
    """
    with caladan.connect("embedded") as db:
        db.add("n", [(i,) for i in range(9)])
        db.add("w", [(i, i + 3) for i in range(9)])
        stats = db.run(program, search="leto").stats
        check_truth(db, program, {}, stats, search="leto")
        assert "Arrangements: w by (B, A);" in db.explain(program, "plan", search="leto")


HOMES = {
    "lives_in": [(f"p{i}", f"c{i}") for i in range(12)],
    "parent": [(f"p{i}", f"q{i}") for i in range(40)],
    "raised_in": [(f"q{i}", f"c{i}") for i in range(6)],
}
HOME = "home(P, Q, C) <- lives_in(P, C), parent(P, Q), raised_in(Q, C). query home(P, Q, C)."


def test_estimates_stand_beside_what_a_run_proposed() -> None:
    """By variable and constraint; before the run there are estimates alone."""
    with caladan.connect("embedded") as db:
        for name, rows in HOMES.items():
            db.add(name, rows)
        before = db.explain(HOME, "plan", search="paul")
        assert "    P: 12 at most, of lives_in(P, C) 12, parent(P, Q) 40\n" in before
        stats = db.run(HOME, search="paul").stats
        table = """
                        estimated    proposed   confirmed      wasted
    C                           6           6           6           0
      lives_in(P, C)           12           6
      raised_in(Q, C)           6           0
    P                          12           6           6           0
      lives_in(P, C)           12           0
      parent(P, Q)             40           6
    Q                           6           6           6           0
      parent(P, Q)             40           0
      raised_in(Q, C)           6           6
"""
        assert table in db.explain(HOME, "plan", search="paul", stats=stats)


def test_proposals_are_told_of_atoms_with_columns_that_nobody_reads() -> None:
    """Who proposes shows `_` for them; what is derived has no estimate before the run."""
    program = """
    database({e(A: integer, B: integer, C: integer)}).
    d(X, Y, C) <- e(X, Y, C), X < Y.
    q(X, Y, Z) <- d(X, Y, _), e(Y, Z, _), e(Z, X, _).
    query q(X, Y, Z).
    """
    with caladan.connect("embedded") as db:
        db.add("e", [(i * 7 % 50, i * 11 % 47, i % 3) for i in range(900)])
        stats = db.run(program, search="leto").stats
        lines = db.explain(program, "plan", search="leto", stats=stats).splitlines()
        start = next(i for i, line in enumerate(lines) if line.strip().startswith("estimated"))
        rows = [line.split() for line in lines[start + 1 :] if re.match(r" {4}\w", line)]
        found = {row[0]: [*map(_number, row[2:])] for row in rows}
        (search,) = (rule.search for rule in stats.cliques[-1].rules)
        assert found == {
            each.variable: [each.proposed, each.confirmed, each.proposed - each.confirmed]
            for each in search
        }


def _number(text: str) -> int:
    return int(text.replace(",", ""))


SMALL = {
    "r(B) <- arc(0, B). r(B) <- r(A), arc(A, B). query r(B).": (
        "one fact at a time (after 8 in a row"
    ),
    "r(B, 1.5) <- arc(0, B). r(B, W) <- r(A, V), arc(A, B), W = V * 1.0, W < 9. query r(B, W).": (
        "as all others (the computed value is not an integer)"
    ),
}


@pytest.mark.parametrize("rules", SMALL)
def test_small_rounds(rules: str) -> None:
    program = f"database({{arc(A: integer, B: integer)}}). {rules}"
    with caladan.connect("embedded") as db:
        db.add("arc", [(i, i + 1) for i in range(200)])
        stats = db.run(program).stats
        assert f"small rounds: {SMALL[rules]}" in db.explain(program, "plan")
        check_truth(db, program, {}, stats)
        assert bool(stats.cliques[-1].tiny_rounds) == SMALL[rules].startswith("one fact")
