"""How many digits decimals have on their way out: as many as what they were made of."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

import caladan as cal
from caladan.program.notation import width_of
from caladan.program.types import WIDEST, Width, wider

NARROW, OTHER = pa.decimal128(10, 2), pa.decimal128(6, 4)


def table(type: pa.DataType, *values: str) -> pa.Table:
    return pa.table({"k": range(len(values)), "x": pa.array(map(Decimal, values), type)})


def out(program: str, **data: Any) -> list[pa.DataType]:
    """The types of the answer's columns."""
    db = cal.connect("embedded")
    for name, each in data.items():
        db.add(name, each)
    return [field.type for field in db.run(program).answer.arrow().schema]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("q(X) <- p(_, X).", NARROW),
        ("q(max<X>) <- p(_, X).", NARROW),
        ("q(X) <- p(_, X). q(X) <- r(_, X).", pa.decimal128(12, 4)),
        ("q(X) <- p(_, X), r(_, X).", OTHER),
        ("q(X) <- p(K, X), ~r(K, X).", NARROW),
        ("q(X) <- p(_, X), X > 2.", NARROW),
        ("q(X) <- p(0, X). q(Y) <- q(X), p(_, X), p(_, Y).", NARROW),
        ("q(X) <- s(_, X).", pa.decimal128(38, 18)),
        ("q(X) <- s(_, X). q(X) <- p(_, X).", pa.decimal128(38, 18)),
    ],
)
def test_a_column_is_as_wide_as_what_flows_into_it(rules: str, expected: pa.DataType) -> None:
    data = {
        "p": table(NARROW, "1.25", "2.50"),
        "r": table(OTHER, "1.25", "0.0001"),
        "s": [(0, Decimal("1.25"))],
    }
    assert out(f"{rules} query q(X).", **data) == [expected]


def test_declared_columns_and_files(tmp_path: Path) -> None:
    """The data says how wide it is, not the program; of several files the widest counts."""
    import pyarrow.parquet as pq

    pq.write_table(table(NARROW, "1.25"), tmp_path / "a.parquet")
    pq.write_table(table(OTHER, "0.0001"), tmp_path / "b.parquet")
    program = "database({p(x: decimal, k: long)}). q(X) <- p(X, _). query q(X)."
    assert out(program, p=tmp_path / "a.parquet") == [NARROW]
    assert out(program, p=tmp_path) == [pa.decimal128(12, 4)]


WIDTHS = st.integers(0, 18).flatmap(lambda s: st.tuples(st.integers(max(s, 1), s + 20), st.just(s)))


@given(WIDTHS, WIDTHS)
def test_wider_holds_both(one: Width, other: Width) -> None:
    both = wider(one, other)
    for each in (one, other):
        assert both[1] >= each[1]
        assert both[0] - both[1] >= each[0] - each[1]
    assert wider(both, one) == both
    assert wider(one, WIDEST) == WIDEST


@given(st.decimals(-(10**20) + 1, 10**20 - 1, places=18))
def test_a_value_fits_its_width(value: Decimal) -> None:
    digits: Sequence[int] = width_of(value)
    assert pa.array([value], pa.decimal128(*digits)).to_pylist() == [value]
