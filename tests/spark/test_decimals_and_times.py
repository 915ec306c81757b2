"""Decimals and times on every strategy of the spark engine, as the embedded engine has them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

import caladan

PROGRAMS = {
    "shortest": "database({d(X: integer, C: decimal(10, 2))}). d(1, 0). "
    "d(Y, mmin<C>) <- d(X, B), arc(X, Y, W), C = B + W. query d(X, Y).",
    "rolled up": "cost(P, msum<(Q, C)>) <- part(P, Q, N), cost(Q, B), C = B * N. "
    "cost(P, msum<(P, C)>) <- price(P, C). query cost(P, C).",
    "sums": "tc(X, Y) <- arc(X, Y, _). tc(X, Z) <- tc(X, Y), arc(Y, Z, _). "
    "q(X, sum<W>, avg<W>, max<W>) <- tc(X, Y), arc(Y, _, W). query q(X, Y, Z, A).",
    "computed": "p(X, Y, W) <- arc(X, Y, W). "
    "p(X, Z, W) <- p(X, Y, V), arc(Y, Z, U), W = V + U, W < 20.00. query p(X, Y, W).",
    "moments": "database({r(X: integer, T: datetime)}). r(1, '2024-01-01'). "
    "r(Y, mmin<T>) <- r(X, S), arc(X, Y, _), T = S + '1 day 1 hour'. query r(X, Y).",
}


def amounts(*texts: str) -> Any:
    return pa.array([Decimal(text) for text in texts], pa.decimal128(12, 2))


def loaded(engine: Any) -> caladan.Session:
    db = caladan.connect(engine)
    weights = amounts("1.25", "2.50", "0.10", "9.99")
    db.add("arc", pa.table({"a": [1, 2, 3, 1], "b": [2, 3, 1, 3], "w": weights}))
    parts = {"a": ["car", "car", "wheel"], "b": ["wheel", "door", "bolt"], "n": [4, 2, 5]}
    db.add("part", pa.table(parts))
    db.add("price", pa.table({"a": ["bolt", "door"], "p": amounts("0.99", "120.00")}))
    return db


@pytest.mark.parametrize("strategy", ["meshed", "cubed", "single", "frame"])
def test_strategies_agree(spark: Any, strategy: str) -> None:
    here, there = loaded("embedded"), loaded(spark)
    for name, program in PROGRAMS.items():
        wanted = here.run(program).answer
        found = there.run(program, strategy=strategy).answer
        assert found.types == wanted.types, name
        assert sorted(found.rows()) == sorted(wanted.rows()), name
