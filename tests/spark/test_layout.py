"""How relations are spread over partitions."""

from caladan.engines.spark.choice import FULL, SMALL, WAVES, find_partitioning, partitions
from caladan.language import parse
from caladan.pipeline import compile_program

ARCS = "database({arc(A: integer, B: integer)}).\n"


def keys(text: str, relation: str) -> tuple[int, ...]:
    delta = compile_program(parse(ARCS + text), {}, {}).delta
    clique = next(c for c in delta.cliques if relation in c.relations)
    return find_partitioning(clique, delta.relations[relation])


def test_a_carried_column_is_the_key() -> None:
    text = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."
    assert keys(text, "tc") == (0,)


def test_without_one_all_columns_that_tell_facts_apart() -> None:
    text = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), tc(C, B). query tc(A, B)."
    assert keys(text, "tc") == (0, 1)
    text = """path(A, B, mmin<D>) <- arc(A, B), D = 1.
    path(A, B, mmin<D>) <- path(A, C, D1), path(C, B, D2), D = D1 + D2. query path(A, B, D)."""
    assert keys(text, "path") == (0, 1)


def test_partitions_follow_the_number_of_facts() -> None:
    assert partitions(0, 64) == 1
    assert partitions(SMALL, 64) == 1
    assert partitions(SMALL + 1, 64) == 2
    assert partitions(5 * FULL, 64) == 8
    assert partitions(SMALL + 1, 1) == 1


def test_tasks_take_turns_before_partitions_grow() -> None:
    assert partitions(5 * FULL, 2) == 8
    assert partitions(10**12, 2) == 2 * WAVES
    assert partitions(10**12, 1_000) == 2_048  # each may have to send to each
    assert partitions(10**12, 5_000) == 5_000
