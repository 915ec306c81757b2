"""Demand: bound goals rewrite the program, and what no goal needs is dropped."""

import pytest
from tests.analysis.support import compiled, rules_text

ARC = "database({arc(A: integer, B: integer)}). "
LEFT = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). "
GENERATION = "sg(A, B) <- arc(P, A), arc(P, B). sg(A, B) <- arc(C, A), sg(C, D), arc(D, B). "


def demanded(text: str, **options: object) -> list[str]:
    return rules_text(compiled(ARC + text, **options).demanded.checked)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (LEFT + "query tc(A, B).", ["tc(A, B) <- arc(A, B).", "tc(A, B) <- tc(A, C), arc(C, B)."]),
        (
            LEFT + "query tc(1, B).",
            [
                "tc_bf(A, B) <- demand_tc_bf(A), arc(A, B).",
                "tc_bf(A, B) <- demand_tc_bf(A), tc_bf(A, C), arc(C, B).",
                "demand_tc_bf(1,)",
            ],
        ),
        (
            GENERATION + "query sg(1, B).",
            [
                "sg_bf(A, B) <- demand_sg_bf(A), arc(P, A), arc(P, B).",
                "sg_bf(A, B) <- demand_sg_bf(A), arc(C, A), sg_bf(C, D), arc(D, B).",
                "demand_sg_bf(C) <- demand_sg_bf(A), arc(C, A).",
                "demand_sg_bf(1,)",
            ],
        ),
        (
            LEFT + "from_one(X) <- tc(1, X). query from_one(X).",
            [
                "tc_bf(A, B) <- demand_tc_bf(A), arc(A, B).",
                "tc_bf(A, B) <- demand_tc_bf(A), tc_bf(A, C), arc(C, B).",
                "from_one(X) <- tc_bf(1, X).",
                "demand_tc_bf(1,)",
            ],
        ),
        (
            LEFT + "query tc(1, B). query tc(2, B).",
            [
                "tc_bf(A, B) <- demand_tc_bf(A), arc(A, B).",
                "tc_bf(A, B) <- demand_tc_bf(A), tc_bf(A, C), arc(C, B).",
                "demand_tc_bf(1,)",
                "demand_tc_bf(2,)",
            ],
        ),
    ],
)
def test_rewriting(text: str, expected: list[str]) -> None:
    assert demanded(text) == expected


def test_a_relation_needed_whole_is_not_rewritten() -> None:
    rules = demanded(LEFT + "all(count<X>) <- tc(X, _). query all(N). query tc(1, B).")
    assert rules[:2] == ["tc(A, B) <- arc(A, B).", "tc(A, B) <- tc(A, C), arc(C, B)."]


def test_what_is_negated_is_needed_whole() -> None:
    rules = demanded(LEFT + "no(A, B) <- arc(A, B), ~tc(B, A). query no(1, B).")
    assert "tc(A, B) <- arc(A, B)." in rules
    assert "no_bf(A, B) <- demand_no_bf(A), arc(A, B), ~tc(B, A)." in rules


def test_rules_no_goal_needs_are_dropped() -> None:
    assert demanded("p(X) <- arc(X, _). q(X) <- arc(_, X). query q(X).") == ["q(X) <- arc(_1, X)."]


def test_without_goals_everything_is_evaluated() -> None:
    assert len(demanded("p(X) <- arc(X, _). q(X) <- arc(_, X).")) == 2


def test_wanted_relations_are_evaluated_whole_besides_the_goals() -> None:
    assert demanded(LEFT + "query tc(1, B).", wanted=("tc",)) == [
        "tc(A, B) <- arc(A, B).",
        "tc(A, B) <- tc(A, C), arc(C, B).",
    ]


def test_demand_can_be_switched_off() -> None:
    assert demanded(LEFT + "query tc(1, B).", demand=False) == [
        "tc(A, B) <- arc(A, B).",
        "tc(A, B) <- tc(A, C), arc(C, B).",
    ]


def test_aggregate_columns_are_never_bound() -> None:
    rules = demanded("d(A, count<B>) <- arc(A, B). query d(1, 2).")
    assert rules == ["d_bf(A, count<_>) <- demand_d_bf(A), arc(A, B).", "demand_d_bf(1,)"]


def test_final_values_are_not_read_while_they_still_change() -> None:
    """`far` asks for distances of what `far` finds: the distances must be complete before."""
    text = """
    d(X, Y, mmin<D>) <- arc(X, Y), D = 1.
    d(X, Y, mmin<D>) <- d(X, Z, E), arc(Z, Y), D = E + 1.
    far(X, Y) <- d(X, Y, D), D > 2.
    far(X, Z) <- far(X, Y), d(Y, Z, D), D > 2.
    query far(1, X).
    """
    out = compiled(ARC + text).demanded.checked
    home = {name: clique for clique in out.cliques for name in clique.relations}
    for clique in out.cliques:
        if any(name.startswith("far") for name in clique.relations):
            assert not any(out.relations[n].has_aggregates for n in clique.relations)
    assert any(name.startswith("d") for name in home)


def test_a_recursion_is_asked_by_images_of_another_that_reads_it() -> None:
    text = LEFT + "t(A, B) <- arc(A, B). t(A, B) <- t(A, C), tc(C, B). query t(1, B)."
    assert demanded(text) == [
        "tc_bf(A, B) <- demand_tc_bf(A), arc(A, B).",
        "image_tc_bf(B) <- demand_tc_bf(A), arc(A, B).",
        "tc_bf(A, B) <- demand_tc_bf(A), tc_bf(A, C), arc(C, B).",
        "image_tc_bf(B) <- image_tc_bf(C), arc(C, B).",
        "t_bf(A, B) <- demand_t_bf(A), arc(A, B).",
        "image_t_bf(B) <- demand_t_bf(A), arc(A, B).",
        "t_bf(A, B) <- demand_t_bf(A), t_bf(A, C), tc_bf(C, B).",
        "image_t_bf(B) <- image_tc_bf(B).",
        "demand_tc_bf(C) <- image_t_bf(C).",
        "demand_t_bf(1,)",
    ]


@pytest.mark.parametrize("facts", ["tc(5, 6). ", "tc(A, B) <- tc(A, C), arc(C, D), B = D + 1. "])
def test_facts_and_computed_values_have_no_images(facts: str) -> None:
    text = LEFT + facts + "t(A, B) <- arc(A, B). t(A, B) <- t(A, C), tc(C, B). query t(1, B)."
    assert not any("image" in rule for rule in demanded(text))


def test_names_are_kept_apart_from_the_users() -> None:
    rules = demanded(LEFT + "tc_bf(X) <- arc(X, _). query tc(1, B). query tc_bf(X).")
    assert "tc_bf_2(A, B) <- demand_tc_bf(A), arc(A, B)." in rules


def test_demand_that_would_go_on_for_ever_is_not_passed_on() -> None:
    """9 would ask for 8, 0 for -1, and so on; while the facts themselves end."""
    counting = "n(0). n(Y) <- n(X), Y = X + 1, Y <= 9. query n(9)."
    assert demanded(counting) == ["n(Y) <- n(X), Y = X + 1, Y <= 9.", "n(0,)"]


def test_demand_may_end_where_the_facts_do_not() -> None:
    rules = demanded("f(0, 1). f(N, F) <- f(M, G), N = M + 1, F = G * N. query f(5, F).")
    assert any(rule.startswith("demand_f_bf(M) <- demand_f_bf(N)") for rule in rules)
