"""Whether two answers are the same, and if not, how they differ.

Doubles may differ in their last digits, for engines add them up in different orders.
"""

import math
from collections.abc import Iterable
from typing import Any

Row = tuple[Any, ...]


def difference(got: Iterable[Row], wanted: Iterable[Row], *, ordered: bool = False) -> str | None:
    """A few rows by which two answers differ, or None."""
    left, right = list(got), list(wanted)
    if not ordered:
        left, right = sorted(left, key=_key), sorted(right, key=_key)
    if len(left) == len(right) and all(map(alike, left, right)):
        return None
    missing = [row for row in right if not any(alike(row, other) for other in left)]
    surplus = [row for row in left if not any(alike(row, other) for other in right)]
    if not missing and not surplus:
        return f"{len(left)} rows for {len(right)}, or another order, from {left[:5]}"
    return f"missing {len(missing)}: {missing[:5]}\nsurplus {len(surplus)}: {surplus[:5]}"


def alike(one: Row, other: Row) -> bool:
    """Whether two rows are the same, types and all."""
    return len(one) == len(other) and all(map(_same, one, other))


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        both_nan = math.isnan(one) and math.isnan(other)
        return both_nan or math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)
    return type(one) is type(other) and one == other


def _key(row: Row) -> tuple[Any, ...]:
    """Exact columns decide before doubles, so that the last digits of a sum do not."""
    exact = [str(value) for value in row if not isinstance(value, float)]
    doubles = [(math.isnan(v), v) for v in row if isinstance(v, float)]
    return (exact, doubles)
