"""Cliques in order; the diagnostic draws the cycle that cannot be stratified."""

from tests.analysis.support import compiled, refused

MOVE = "database({move(A: integer, B: integer)}).\n"


def cliques(text: str) -> list[tuple[tuple[str, ...], bool, int]]:
    return [(c.relations, c.is_recursive, c.stratum) for c in compiled(text).checked.cliques]


def test_cliques_come_after_what_they_need() -> None:
    text = (
        MOVE
        + """
    top(X) <- move(X, _), ~reach(X).
    reach(X) <- move(_, X).
    reach(Y) <- reach(X), move(X, Y).
    total(count<X>) <- top(X).
    """
    )
    assert cliques(text) == [
        (("reach",), True, 0),
        (("top",), False, 1),
        (("total",), False, 2),
    ]


def test_mutual_recursion_is_one_clique() -> None:
    text = (
        MOVE + "even(X) <- move(X, _), ~odd0(X). odd0(X) <- move(_, X). "
        "even(Y) <- odd(X), move(X, Y). odd(Y) <- even(X), move(X, Y)."
    )
    assert cliques(text) == [(("odd0",), False, 0), (("even", "odd"), True, 1)]


def test_negation_in_a_cycle_is_drawn() -> None:
    assert (
        refused(MOVE + "win(X) <- move(X, Y), lost(Y).\nlost(X) <- move(X, _), ~win(X).")
        == """\
t.dl:3:24: error[C014]: `lost` depends on itself through negation: \
lost <- ~win (here), win <- lost
  3 | lost(X) <- move(X, _), ~win(X).
    |                        ^^^^^^^
  t.dl:2:23: `win` depends on `lost` here
  2 | win(X) <- move(X, Y), lost(Y).
    |                       ^^^^^^^
  help: `win` must be complete before `~win` can be asked"""
    )


def test_a_plain_aggregate_in_recursion_says_what_to_use() -> None:
    told = refused(MOVE + "d(X, min<D>) <- d(Y, E), move(Y, X), D = E + 1. d(1, 0).")
    assert "C014" in told
    assert "use a monotone aggregate: mmin" in told


def test_a_limit_in_recursion() -> None:
    told = refused(MOVE + "p(X) <- move(X, _). p(Y) <- p(X), move(X, Y), limit(3).")
    assert "through a limit" in told


def test_monotone_aggregates_may_be_recursive() -> None:
    text = MOVE + "d(1, 0). d(X, mmin<D>) <- d(Y, E), move(Y, X), D = E + 1."
    assert cliques(text) == [(("d",), True, 0)]
