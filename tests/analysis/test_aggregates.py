"""The table of aggregates: rows are what they say they are, and nobody else knows their names."""

import ast
import pickle
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import caladan
from caladan.program import Aggregate, Type, Variable
from caladan.program.aggregates import (
    TABLE,
    AggregateFunction,
    UnknownAggregate,
    evaluate,
    lookup,
    names_in,
    recursive,
    row_of,
)
from caladan.program.nested import pack, unpack
from caladan.program.types import list_of

SOURCE = Path(caladan.__file__).parent
NUMBERS = [0, 1, 2, 3, 7]
SAMPLES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "number": NUMBERS,
    "ordered": NUMBERS,
    "anything": NUMBERS,
    "text": ["a", "b", "c"],
    "size": [2] * 5,
}
FOLDED = [
    row
    for row in TABLE.values()
    if row.example is not None and (row.over is None or not row.is_gathered)
]
BAGS = [row for row in TABLE.values() if row.is_gathered and row.over is not None]


def states(row: AggregateFunction) -> list[Any]:
    values = SAMPLES[row.takes]
    return [row.lift(*([value] * max(row.terms[0], 1))) for value in values]


def handed(row: AggregateFunction, terms: tuple[Any, ...]) -> tuple[Any, ...]:
    """The terms of a solution as the row is handed them: what makes lists gets lists of one."""
    if not row.makes_lists:
        return terms
    place = row.value_term
    return (*terms[:place], pack((terms[place],), list_of(Type.LONG)), *terms[place + 1 :])


@pytest.mark.parametrize("row", [r for r in TABLE.values() if r.example is not None], ids=str)
def test_the_example_of_a_row(row: AggregateFunction) -> None:
    assert row.example is not None
    if row.example.terms not in ("X", "X, Y"):
        pytest.skip("its terms are computed: tests/differential/test_aggregates.py")
    given = [value if isinstance(value, tuple) else (value,) for value in row.example.values]
    found = evaluate(row, [handed(row, each) for each in given])
    assert (unpack(found) if row.makes_lists else found) == row.example.gives


@pytest.mark.parametrize("row", FOLDED, ids=str)
def test_properties_of_a_row_hold(row: AggregateFunction) -> None:
    combine = row.combine
    for one, two, three in product(states(row), repeat=3):
        assert combine(combine(one, two), three) == combine(one, combine(two, three))
        if row.is_commutative:
            assert combine(one, two) == combine(two, one)
        if row.is_selective:
            assert combine(one, two) in (one, two)
        if row.invert is not None:
            assert row.invert(combine(one, two), two) == one
        if row.improves is not None and row.is_selective:
            better = combine(one, two)
            assert better <= one if row.improves == "falls" else better >= one
    for one in states(row):
        assert not row.is_idempotent or combine(one, one) == one


@pytest.mark.parametrize("row", FOLDED, ids=str)
def test_it_distributes_over_what_it_says(row: AggregateFunction) -> None:
    extend = {
        "+": lambda a, b: a + b, "*": lambda a, b: a * b, "min": min, "max": max,
        "first": lambda a, _: a, "and": lambda a, b: a and b,
    }  # fmt: skip
    over = (*row.distributes_over, *row.distributes_if_not_negative)
    for name, (one, two, step) in product(over, product(states(row), repeat=3)):
        times = extend[name]
        together = times(row.combine(one, two), step)
        if name == "first" or row.is_idempotent or name == "*":
            assert together == row.combine(times(one, step), times(two, step)), name


@pytest.mark.parametrize("row", [row for row in BAGS if row.example is not None], ids=str)
def test_the_order_of_solutions_does_not_matter(row: AggregateFunction) -> None:
    also = {"fraction": 0.3, "number": 5, "text": "-", "ordered": 2, "anything": 4}
    values = SAMPLES[row.takes]
    solutions = [handed(row, (value, *(also[each] for each in row.also))) for value in values]
    found = evaluate(row, solutions)
    for turned in (solutions[::-1], solutions[2:] + solutions[:2]):
        assert evaluate(row, turned) == found or found != found


def test_min_mmin_and_lmin_share_one_definition() -> None:
    rows = [lookup(name) for name in ("min", "mmin", "lmin")]
    assert len({(row.combine, row.kernel, row.improves, row.distributes_over) for row in rows}) == 1
    assert [row.in_form("monotone").name for row in rows] == ["mmin"] * 3


def test_rows_travel_by_name() -> None:
    for row in TABLE.values():
        assert pickle.loads(pickle.dumps(row)) is row


def test_unknown_names_raise() -> None:
    for find in (lookup, recursive, lambda name: row_of(Aggregate(name, (Variable("X"),)))):
        with pytest.raises(UnknownAggregate, match="`bogus`"):
            find("bogus")


def test_only_the_table_knows_the_names_of_monotone_aggregates_and_lattices() -> None:
    names = set(names_in("deals", "monotone"))
    found = [
        f"{path.relative_to(SOURCE)}:{node.lineno}: {node.value}"
        for path in SOURCE.rglob("*.py")
        if path.name != "aggregates.py" or path.parent.name != "program"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and node.value in names
    ]
    assert found == []
