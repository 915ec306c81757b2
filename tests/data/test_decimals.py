"""Decimals: the digits of results, rounding and overflow, against Python's decimal and DuckDB."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Context, Decimal

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings, strategies as st

import caladan
from caladan.columns.decimals import DecimalColumn, calculate, decimals_from, decimals_of
from caladan.program import Arithmetic, Type, Variable
from caladan.program.operations import OutOfRange, find, mean_type, operation, sum_type
from caladan.program.types import decimal

WIDE = Context(prec=200, rounding=ROUND_HALF_UP)
TYPES = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: decimal(p, s)))


@st.composite
def numbers(draw: st.DrawFn, type: Type) -> Decimal:
    digits, scale = type.width
    most = 10 ** draw(st.integers(0, digits)) - 1
    return WIDE.scaleb(Decimal(draw(st.integers(-most, most))), -scale)


@st.composite
def operands(draw: st.DrawFn) -> tuple[Type, Type, list[tuple[Decimal, Decimal]]]:
    one, other = draw(TYPES), draw(TYPES)
    pair = st.tuples(numbers(one), numbers(other))
    return one, other, draw(st.lists(pair, min_size=1, max_size=5))


def exact(operator: str, a: Decimal, b: Decimal, type: Type) -> Decimal | None:
    """What Python computes with 200 digits, rounded once; None where it does not fit."""
    computed = {"+": WIDE.add, "-": WIDE.subtract, "*": WIDE.multiply}[operator](a, b)
    made = computed.quantize(Decimal(1).scaleb(-type.width[1]), context=WIDE)
    return made if abs(made) < WIDE.power(10, type.width[0] - type.width[1]) else None


@pytest.mark.parametrize("operator", ["+", "-", "*"])
@settings(phases=[Phase.generate, Phase.shrink])  # to explain failures takes minutes here
@given(operands())
def test_columns_and_values_agree_with_python(
    operator: str, drawn: tuple[Type, Type, list[tuple[Decimal, Decimal]]]
) -> None:
    one, other, rows = drawn
    found = find(operator, one, other)
    assert found is not None
    row, returns = found
    node = Arithmetic(operator, Variable("X"), Variable("Y"))
    made = operation(node, row, [node.left, node.right], [one, other], returns)
    wanted = [exact(operator, a, b, returns) for a, b in rows]
    for (a, b), value in zip(rows, wanted, strict=True):
        if value is None:
            with pytest.raises(OutOfRange):
                made.code(a, b)
        else:
            assert made.code(a, b) == value
    columns = [
        decimals_of(pa.array([row[i] for row in rows], pa.decimal128(*type.width)), type)
        for i, type in enumerate((one, other))
    ]
    if None in wanted:
        with pytest.raises(OutOfRange):
            calculate(made, columns)
    else:
        column = calculate(made, columns)
        assert column is not None and column.python() == wanted
        assert column.arrow().to_pylist() == wanted


@pytest.mark.parametrize(
    ("operator", "one", "other", "returns"),
    [  # as Spark 4 gives them, see `DecimalPrecision`
        ("+", (10, 2), (5, 4), (13, 4)),
        ("-", (38, 18), (38, 18), (38, 17)),
        ("*", (10, 2), (5, 4), (16, 6)),
        ("*", (38, 18), (38, 18), (38, 6)),
        ("/", (10, 2), (5, 4), (20, 8)),
        ("/", (38, 18), (38, 18), (38, 6)),
        ("mod", (10, 2), (5, 4), (5, 4)),
    ],
)
def test_digits_are_those_of_spark(
    operator: str, one: tuple[int, int], other: tuple[int, int], returns: tuple[int, int]
) -> None:
    found = find(operator, decimal(*one), decimal(*other))
    assert found is not None
    assert found[1].width == returns


def test_digits_of_sums_and_means() -> None:
    assert sum_type(decimal(10, 2)) is decimal(20, 2)
    assert sum_type(decimal(30, 2)) is decimal(38, 2)
    assert mean_type(decimal(10, 2)) is decimal(14, 6)
    assert mean_type(Type.DECIMAL) is decimal(38, 22)


@given(st.lists(st.integers(-(10**14), 10**14), min_size=1, max_size=40))
def test_sums_and_means_agree_with_duckdb(cents: list[int]) -> None:
    amounts = [Decimal(each).scaleb(-2) for each in cents]
    amounts_table = pa.table(
        {
            "i": list(range(len(cents))),
            "g": [i % 3 for i in range(len(cents))],
            "v": pa.array(amounts, pa.decimal128(18, 2)),
        }
    )
    db = caladan.connect("embedded")
    db.add("p", amounts_table)
    found = db.run("q(G, sum<V>, min<V>, max<V>) <- p(_, G, V).")["q"].rows()
    wanted = duckdb.sql("SELECT g, sum(v), min(v), max(v) FROM amounts_table GROUP BY g").fetchall()
    assert sorted(found) == sorted(wanted)


def test_numbers_of_more_than_64_bits() -> None:
    large = Decimal("12345678901234567890123456789012.345678")
    column = decimals_from([large, -large], 6)
    assert column.numbers.dtype == np.object_
    assert decimals_of(column.arrow(), decimal(38, 6)).python() == [large, -large]
    assert DecimalColumn(np.array([-1250], np.int64), 2).arrow().to_pylist() == [Decimal("-12.50")]


@pytest.mark.parametrize("engine", ["embedded", "reference"])
@pytest.mark.parametrize(
    ("rule", "code", "said"),
    [
        ("q(X * X) <- p(X).", "C041", "a decimal of too many digits in rule 1"),
        ("q(sum<Y>) <- p(X), Y = X + 0, n(_).", "C041", "a decimal of too many digits in rule 1"),
        ("q(X / (X - X)) <- p(X).", "C040", "division by zero in rule 1"),
        ("q(X div 0.0000001) <- p(X).", "C041", "an integer of more than 64 bits"),
    ],
)
def test_failures_name_the_rule(engine: str, rule: str, code: str, said: str) -> None:
    db = caladan.connect(engine)
    db.add("p", pa.table({"x": pa.array([Decimal(10) ** 37], pa.decimal128(38, 0))}))
    db.add("n", [(i,) for i in range(20)])
    with pytest.raises(caladan.CaladanError, match=said) as caught:
        db.run(rule)["q"].rows()
    assert caught.value.diagnostics[0].code == code


@pytest.mark.parametrize(
    "rule", ["q(X + Y) <- p(X), t(Y).", "q(X) <- p(X), t(Y), X < Y.", "q(sum<Y>) <- t(Y)."]
)
def test_text_is_no_number(rule: str) -> None:
    db = caladan.connect("embedded")
    db.add("p", pa.table({"x": pa.array([Decimal("1.5")])}))
    db.add("t", [("a",)])
    with pytest.raises(caladan.CaladanError) as caught:
        db.run(rule)
    assert caught.value.diagnostics[0].code == "C012"


def test_a_million_amounts() -> None:
    """Whole columns are added at once: a value at a time would take many seconds."""
    cents = np.arange(1_000_000)
    db = caladan.connect("embedded")
    amounts = DecimalColumn(cents, 2).arrow().cast(pa.decimal128(12, 2))
    db.add("p", pa.table({"i": cents, "v": amounts}))
    assert db.run("q(sum<W>) <- p(_, V), W = V * 3.")["q"].rows() == [
        (Decimal(int(cents.sum()) * 3).scaleb(-2),)
    ]
