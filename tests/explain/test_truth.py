"""What explain prints with data is what a run does, with facts enough for shapes and overlays.

The programs of the corpus have few facts, and go in rounds; these are over the closure of a grid.
"""

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
        "carried",
    ),
    "closure that steps by one": (
        "t(A, B) <- l(A, B). t(A, B) <- t(A, C), tc(C, B). query t(A, B).",
        "carried",
    ),
    "few sources": ("query tc(3, B).", "carried"),
    "steps that are tested": (
        "t(A, B) <- arc(A, B), A < 9. t(A, B) <- t(A, C), arc(C, B), l(A, B). query t(A, B).",
        "carried",
    ),
    "spreading": ("r(0) <- arc(0, _). r(B) <- r(A), arc(A, B). query r(B).", "reached"),
    "generations": (
        "s(X, Y) <- arc(P, X), arc(P, Y). s(X, Y) <- arc(A, X), s(A, B), arc(B, Y). query s(X, Y).",
        "generations",
    ),
    "hops": (
        (
            "h(A, B, 1) <- arc(A, B). h(A, B, N + 1) <- h(A, C, N), arc(C, B), N < 5, A ~= B. "
            "query h(A, B, N)."
        ),
        "carried",
    ),
    "joined where it rises": (
        "t(A, B) <- l(A, B), B < 300. t(A, B) <- t(A, C), t(C, B), A < B, A < 100. query t(A, B).",
        "generations",
    ),
    "exchanged through two": (
        (
            "t(A, B) <- l(A, B). u(A, B) <- t(B, A), A > 7. "
            "t(A, B) <- u(A, C), arc(C, B), ~l(A, B). query t(A, B)."
        ),
        "generations",
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


SMALL = {
    "r(B) <- arc(0, B). r(B) <- r(A), arc(A, B). query r(B).": (
        "one fact at a time (after 8 in a row"
    ),
    "r(B, 1.5) <- arc(0, B). r(B, W) <- r(A, V), arc(A, B), W = V * 1.0, W < 9. query r(B, W).": (
        "as all others (what is computed is no integer)"
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
