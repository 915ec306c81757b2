"""Which copies there are, and which columns own a relation."""

import pytest

from caladan.engines.spark.mesh.placement import Copy, Placement, RuleBody, placement
from caladan.language import parse
from caladan.pipeline import compile_program

ARC = "database({arc(A: integer, B: integer)}).\n"


def placed(rules: str) -> tuple[Placement, list[RuleBody]]:
    """Where the facts of the last recursive clique of a program live."""
    program = compile_program(parse(ARC + rules), {}, {}, demand=False).delta
    clique = [each for each in program.cliques if each.is_recursive][-1]
    own = {name: program.relations[name] for name in clique.relations}
    bodies = [RuleBody.of(rule) for rule in clique.delta_rules]
    return placement(bodies, own), bodies


def test_what_is_derived_stays_where_it_is() -> None:
    """Both rules carry the first column: no candidate ever travels."""
    found, _ = placed("tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B).")
    assert found.owners == {"tc": Copy("tc", (0,))}
    assert found.others == ()


def test_where_nothing_stays_facts_are_spread_evenly() -> None:
    found, _ = placed(
        "sg(A, B) <- arc(P, A), arc(P, B).\n"
        "sg(A, B) <- arc(C, A), sg(C, D), arc(D, B). query sg(A, B)."
    )
    assert found.owners == {"sg": Copy("sg", (0, 1))}
    assert found.others == ()


def test_alternatives_are_placed_apart() -> None:
    """They have the number of their rule in common, but not the variable in which atoms meet."""
    found, rules = placed(
        "tc(A, B) <- arc(A, B).\n"
        "tc(A, B) <- tc(A, C), if(A < C then tc(C, B) else tc(B, A)). query tc(A, B)."
    )
    assert sorted(rule.rule for rule in rules) == [1, 1, 2, 2]
    read = {
        rule.rule: {
            found.read(rule, scan).by for scan in rule.recursive if scan.arguments[0].name == "A"
        }
        for rule in rules
    }
    assert read == {1: {(1,)}, 2: {(0,)}}


def test_two_atoms_meet_in_a_variable() -> None:
    """Each reads the copy by its column of C; one of them is the owner."""
    found, rules = placed("tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B).")
    copies = {found.owners["tc"], *found.others}
    assert copies == {Copy("tc", (0,)), Copy("tc", (1,))}
    for rule in rules:
        read = {str(scan.arguments[0]): found.read(rule, scan).by for scan in rule.recursive}
        assert set(read.values()) == {(0,), (1,)}


def test_both_delta_rules_of_a_rule_read_the_same_copies() -> None:
    """Else two facts could miss each other: each would arrive before the other, somewhere."""
    found, rules = placed(
        "p(A, B) <- arc(A, B). p(A, D) <- p(A, B), p(B, C), p(C, D). query p(A, B)."
    )
    assert len(rules) == 3
    reads = [{scan.arguments: found.read(rule, scan) for scan in rule.recursive} for rule in rules]
    assert reads[0] == reads[1] == reads[2]


def test_an_atom_that_shares_nothing_is_read_whole() -> None:
    found, _ = placed("p(A) <- arc(A, _). p(B) <- p(A), p(C), arc(A, B), C < A. query p(A).")
    assert Copy("p", None) in found.others


def test_the_value_of_an_aggregate_owns_nothing() -> None:
    """It changes, and the fact would have to move."""
    found, _ = placed(
        "d(A, mmin<C>) <- arc(A, _), C = 0. d(B, mmin<C>) <- d(A, D), arc(A, B), C = D + 1.\n"
        "query d(A, B)."
    )
    assert found.owners == {"d": Copy("d", (0,))}


@pytest.mark.parametrize(
    ("total", "relations"),
    [("mcount<A>", {"n", "held_n_2"}), ("mmax<A>", {"n"})],  # what a sum counts is watched
)
def test_without_groups_the_first_task_owns_it(total: str, relations: set[str]) -> None:
    found, _ = placed(f"n({total}) <- arc(A, _). n({total}) <- n(C), arc(C, A). query n(A).")
    assert found.owners["n"] == Copy("n", ())
    assert found.owners.keys() == relations


def test_mutual_recursion_carries_a_column_through_both() -> None:
    found, _ = placed(
        "p(A, B) <- arc(A, B). q(A, B) <- p(A, C), arc(C, B). p(A, B) <- q(A, C), arc(C, B).\n"
        "query p(A, B)."
    )
    assert found.owners == {"p": Copy("p", (0,)), "q": Copy("q", (0,))}
