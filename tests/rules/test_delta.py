"""Delta rewriting, contributors, pivots and arrangements."""

from itertools import pairwise

from hypothesis import given, strategies as st
from tests.analysis.support import compiled

from caladan.fixpoint.blueprint import chains, cover
from caladan.rules.body import Body
from caladan.rules.operators import Join, Select, tree

ARC = "database({arc(A: integer, B: integer)}). "


def scans(body: Body) -> list[str]:
    return [f"{scan.version.value} {scan.relation}" for scan in body.atoms]


def test_one_delta_rule_for_each_recursive_atom() -> None:
    out = compiled(ARC + "t(A, B) <- arc(A, B). t(A, D) <- t(A, B), t(B, C), t(C, D).")
    (clique,) = out.delta.cliques
    assert [scans(r.body) for r in clique.delta_rules] == [
        ["delta t", "new t", "new t"],
        ["delta t", "old t", "new t"],
        ["delta t", "old t", "old t"],
    ]
    assert [r.guard for r in clique.delta_rules] == [("t",), ("t",), ("t",)]


def test_improved_values_are_read_as_they_are_now() -> None:
    text = "d(A, B, mmin<1>) <- arc(A, B). d(A, C, mmin<S>) <- d(A, B, X), d(B, C, Y), S = X + Y."
    (clique,) = compiled(ARC + text).delta.cliques
    assert [scans(r.body) for r in clique.delta_rules] == [
        ["delta d", "new d"],
        ["delta d", "new d"],
    ]


def test_selections_stand_where_their_variables_are_bound() -> None:
    (clique,) = compiled(ARC + "p(A, C) <- arc(A, B), arc(B, C), C > 5, A ~= C.").delta.cliques
    plan = tree(clique.exit_rules[0].body)
    assert isinstance(plan.input, Select)
    join = plan.input.input
    assert isinstance(join, Join)
    assert isinstance(join.right, Select)


def pivots(text: str) -> list[object]:
    return [c.pivot for c in compiled(ARC + text).delta.cliques if c.is_recursive]


def test_pivots() -> None:
    base = "t(A, B) <- arc(A, B). "
    assert pivots(base + "t(A, B) <- t(A, C), arc(C, B).") == [{"t": 0}]
    assert pivots(base + "t(A, B) <- arc(A, C), t(C, B).") == [{"t": 1}]
    assert pivots(base + "t(A, B) <- t(A, C), t(C, B).") == [None]
    assert pivots(base + "t(A, B) <- arc(C, A), t(C, D), arc(D, B).") == [None]
    assert pivots(
        "e(A, B) <- arc(A, B). o(B, A) <- e(A, C), arc(C, B). e(A, B) <- o(C, A), arc(C, B)."
    ) == [{"e": 0, "o": 1}]


def test_contributors() -> None:
    text = """
    c(A, B, msum<(A, 1)>) <- arc(A, B).
    c(A, C, msum<(B, N)>) <- c(A, B, N), arc(B, C).
    """
    (clique,) = compiled(ARC + text).delta.cliques
    (exit_rule,), (delta_rule,) = clique.exit_rules, clique.delta_rules
    assert exit_rule.contributors[0].place == delta_rule.contributors[0].place

    text = "n(1, 1). n(B, msum<N>) <- n(A, N), arc(A, B)."
    (clique,) = compiled(ARC + text).delta.cliques
    (rule,) = clique.delta_rules
    assert [v.name for v in rule.body.keys] == ["A"]  # type: ignore[union-attr]


sets = st.lists(st.frozensets(st.integers(0, 4), min_size=1), max_size=10)


@given(sets)
def test_chains_cover_all_sets_and_no_two_could_be_one(found: list[frozenset[int]]) -> None:
    result = chains(found)
    assert sorted(map(sorted, (s for c in result for s in c))) == sorted(map(sorted, set(found)))
    assert all(a < b for c in result for a, b in pairwise(c))
    # As many chains as the largest antichain: no smaller cover exists (Dilworth).
    distinct = list(set(found))
    best = 0
    for mask in range(1 << len(distinct)):
        chosen = [s for i, s in enumerate(distinct) if mask >> i & 1]
        if all(not (a < b or b < a) for a in chosen for b in chosen):
            best = max(best, len(chosen))
    assert len(result) == best


@given(sets)
def test_every_need_is_a_prefix_of_its_order(found: list[frozenset[int]]) -> None:
    orders = cover([("r", s) for s in found], {"r": 5})
    for columns in found:
        order = orders["r", columns].order
        assert set(order[: len(columns)]) == columns
        assert sorted(order) == [0, 1, 2, 3, 4]
