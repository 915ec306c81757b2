"""What users bring to `find`, for rules: sets as facts, ranges and constraints as tests.

    db.define("town", {"Arrakeen", "Tabr"})              town(X) in a body, as any relation
    db.define("teen", between(13, 19))                   teen(Age), where Age is bound
    db.define("near", Near("p", "q", …), arguments=("p", "q"))

A rule calls a test as it calls any Python function that gives a boolean, on every engine. In a join
a constraint proposes too, where no atom ties a variable (join/route.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from caladan.join.constraints.protocol import Candidates, Constraint, Frontier, Var
from caladan.join.search.specs import BetweenSpec, OneOfSpec, PredicateSpec
from caladan.program.diagnostics import error
from caladan.program.functions import Vectorized


def facts_of(given: object) -> list[tuple[object, ...]] | None:
    """The facts of a set: tuples are facts, other values have one column; None if it is no set."""
    if isinstance(given, OneOfSpec):
        return [(value,) for value in given.values]
    if isinstance(given, Set):
        values = cast("Set[Any]", given)
        return [value if isinstance(value, tuple) else (value,) for value in values]
    return None


def test_of(
    given: object, arguments: Sequence[Var] | None
) -> tuple[Callable[..., object], Vectorized | None] | None:
    """A range, a predicate or a constraint as a function of its values; None if it is none."""
    if isinstance(given, BetweenSpec):
        return _Inside(given), None
    if isinstance(given, PredicateSpec):
        return given.function, "numpy" if given.vectorized else None
    if not isinstance(given, Constraint):
        return None
    names = tuple(given.variables if arguments is None else arguments)
    if frozenset(names) != given.variables or (arguments is None and len(names) > 1):
        raise error(
            "C050",
            f"it must be said in which order the constraint takes {sorted(given.variables)}",
            help="give its variables in that order: arguments=(…)",
        )
    return ConstraintTest(given, names), "numpy"


@dataclass(frozen=True, slots=True)
class _Inside:
    """Whether a value lies in a range."""

    range: BetweenSpec

    def __call__(self, value: Any) -> bool:
        return bool(self.range.low <= value <= self.range.high)


@dataclass(frozen=True, eq=False)
class ConstraintTest:
    """Whether a constraint confirms: whole columns of numbers, as a rule hands them over."""

    constraint: Constraint
    arguments: tuple[Var, ...]

    @property
    def __signature__(self) -> inspect.Signature:
        """It takes as many values as it has arguments."""
        kind = inspect.Parameter.POSITIONAL_ONLY
        return inspect.Signature([inspect.Parameter(name, kind) for name in self.arguments])

    def __call__(self, *columns: NDArray[Any]) -> NDArray[np.bool_]:
        if any(column.dtype.kind not in "iub" for column in columns):
            raise TypeError("a constraint sees whole numbers; a predicate sees any values")
        rows = np.arange(len(columns[0]), dtype=np.int64)
        words = dict(zip(self.arguments, (c.astype(np.int64) for c in columns), strict=True))
        last = self.arguments[-1]
        frontier = Frontier({v: c for v, c in words.items() if v != last}, rows)
        candidates = Candidates.of(frontier, last, words[last], rows)
        self.constraint.confirm(candidates)
        return candidates.alive
