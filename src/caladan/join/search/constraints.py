"""Constraints over values, as users write them: they estimate, propose and confirm (constraint.py).

| kind | proposes | confirms |
|---|---|---|
| `ComparisonConstraint`, `Equal` | the other side of `=` | once both sides are bound |
| `Plus`, `Times`, `FunctionConstraint` | one side from the others | once all are bound |
| `Between` | every word from low to high | by comparing |
| `OneOf` | its members | by binary search |
| `Predicate` | — | by a Python function |

Words are ranks here: integers are themselves, and words of one domain compare as their values do. A
sum or product that does not fit in 64 bits is no word, so it is nobody's value; where the equation
alone defines the variable (`defines`), that would lose answers, so it is an error instead (C041).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from caladan.join.constraint import (
    Candidates,
    Counts,
    Frontier,
    Mask,
    Var,
    Words,
    as_words,
    completes,
    others,
)
from caladan.program.diagnostics import error

Term: TypeAlias = Var | int
Operator: TypeAlias = Literal["=", "~=", "<", "<=", ">", ">="]
Result: TypeAlias = tuple[Words, Mask | None]  # words, and where they are defined (None: all)

_MOST: Final = int(np.iinfo(np.int64).max)


def variables_of(*terms: Term) -> frozenset[Var]:
    """The variables among some terms."""
    return frozenset(term for term in terms if isinstance(term, str))


def column(batch: Frontier | Candidates, term: Term) -> Words:
    """The words of a term for each row or candidate of a batch."""
    if not isinstance(term, str):
        return np.full(len(batch), term, np.int64)
    return batch.column(term) if isinstance(batch, Candidates) else batch.columns[term]


class ConfirmOnly:
    """The half of a constraint that cannot propose."""

    def estimate(self, frontier: Frontier, var: Var) -> None:
        """It has no candidates to offer."""
        del frontier, var

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """Never asked, for there is no estimate."""
        raise NotImplementedError(f"{type(self).__name__} has no candidates for {var}")

    def influence(self, var: Var) -> frozenset[Var]:
        """No estimates, so none that change."""
        del var
        return frozenset()


def one_each(frontier: Frontier, var: Var, words: Words, defined: Mask | None) -> Candidates:
    """At most one candidate a row: its word, where it is defined."""
    rows = np.arange(len(frontier), dtype=np.int64)
    if defined is not None:
        rows = rows[defined]
        words = words[defined]
    return Candidates.of(frontier, var, words, rows)


COMPARE: Final[dict[Operator, Callable[[Words, Words], Mask]]] = {
    "=": np.equal,
    "~=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


class ComparisonConstraint(ConfirmOnly):
    """`left operator right`, confirmed once both sides are bound."""

    def __init__(self, left: Term, operator: Operator, right: Term) -> None:
        self.left, self.right = left, right
        self.operator: Operator = operator
        self.variables = variables_of(left, right)

    def __repr__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates for which it does not hold."""
        if completes(self.variables, candidates):
            sides = column(candidates, self.left), column(candidates, self.right)
            candidates.keep(COMPARE[self.operator](*sides))


class Equal:
    """`left = right`: one side, once the other is bound."""

    def __init__(self, left: Term, right: Term) -> None:
        self.left, self.right = left, right
        self.variables = variables_of(left, right)

    def __repr__(self) -> str:
        return f"{self.left} = {self.right}"

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """One, if the other side has a value."""
        return np.ones(len(frontier), np.int64) if self._other(frontier, var) is not None else None

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """The value of the other side."""
        other = self._other(frontier, var)
        assert other is not None
        return one_each(frontier, var, column(frontier, other), None)

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates that differ."""
        if completes(self.variables, candidates):
            candidates.keep(column(candidates, self.left) == column(candidates, self.right))

    def influence(self, var: Var) -> frozenset[Var]:
        """The other side."""
        return others(self.variables, var)

    def _other(self, frontier: Frontier, var: Var) -> Term | None:
        other = self.right if var == self.left else self.left
        known = other != var and (not isinstance(other, str) or other in frontier.columns)
        return other if known else None


class FunctionConstraint:
    """`target = function(inputs)`: the target, once all inputs are bound.

    The function takes an array of words for each input. It returns the words of the target and a
    mask of those that are defined.
    """

    def __init__(
        self,
        target: Term,
        inputs: Sequence[Term],
        function: Callable[..., Result],
        *,
        defines: bool = False,
    ) -> None:
        self.target, self.inputs, self.function = target, tuple(inputs), function
        self.defines = defines
        self.variables = variables_of(target, *inputs)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", "function")
        return f"{self.target} = {name}({', '.join(map(str, self.inputs))})"

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """One, if everything it is computed from is bound."""
        return np.ones(len(frontier), np.int64) if self._ready(frontier, var) else None

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """The value, where there is one."""
        words, defined = self.function(*(column(frontier, i) for i in self.inputs))
        if self.defines and defined is not None and not defined.all():
            raise overflow(self)
        return one_each(frontier, var, words, defined)

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates for which the equation does not hold."""
        if not completes(self.variables, candidates):
            return
        words, defined = self.function(*(column(candidates, i) for i in self.inputs))
        same = column(candidates, self.target) == words
        candidates.keep(same if defined is None else same & defined)

    def influence(self, var: Var) -> frozenset[Var]:
        """All the other variables."""
        return others(self.variables, var)

    def _ready(self, frontier: Frontier, var: Var) -> bool:
        needed = variables_of(*self.inputs)
        return var == self.target and var not in needed and needed <= frontier.bound


class Plus:
    """`x + y = z`."""

    def __init__(self, x: Term, y: Term, z: Term, *, defines: frozenset[Var] = frozenset()) -> None:
        self.x, self.y, self.z = x, y, z
        self.variables = variables_of(x, y, z)
        self._sides = {
            target: side
            for target, side in (
                (z, FunctionConstraint(z, (x, y), add, defines=z in defines)),
                (x, FunctionConstraint(x, (z, y), subtract, defines=x in defines)),
                (y, FunctionConstraint(y, (z, x), subtract, defines=y in defines)),
            )
            if isinstance(target, str)
        }
        self._sum = FunctionConstraint(z, (x, y), add)

    def __repr__(self) -> str:
        return f"{self.x} + {self.y} = {self.z}"

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """One, if the other two are bound."""
        return self._sides[var].estimate(frontier, var)

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """The one value that makes it true."""
        return self._sides[var].propose(frontier, var)

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates for which it does not hold."""
        self._sum.confirm(candidates)

    def influence(self, var: Var) -> frozenset[Var]:
        """The other sides."""
        return others(self.variables, var)


class Times(FunctionConstraint):
    """`x * y = z`: proposes z; confirms whatever comes last."""

    def __init__(self, x: Term, y: Term, z: Term, *, defines: bool = False) -> None:
        super().__init__(z, (x, y), multiply, defines=defines)


def add(x: Words, y: Words) -> Result:
    """x + y, defined where it fits in 64 bits."""
    total = x + y
    return total, ((x ^ total) & (y ^ total)) >= 0


def subtract(x: Words, y: Words) -> Result:
    """x - y, defined where it fits in 64 bits."""
    left = x - y
    return left, ((x ^ y) & (x ^ left)) >= 0


def multiply(x: Words, y: Words) -> Result:
    """x * y, defined where it fits in 64 bits."""
    product = x * y
    # Wrapped products divide back to something else; -1 * -2**63 is the one case that does not.
    with np.errstate(divide="ignore"):
        back = np.where(x == 0, y, product // np.where(x == 0, 1, x))
    lowest = np.iinfo(np.int64).min
    wrapped = ((x == -1) & (y == lowest)) | ((y == -1) & (x == lowest))
    return product, (back == y) & ~wrapped


def overflow(constraint: object) -> Exception:
    """The diagnostic for a result that does not fit."""
    return error("C041", f"the result of `{constraint}` does not fit in 64 bits")


class Between:
    """`low <= var <= high`; low and high are words or variables.

    With `proposes=False` it only confirms: for words, such as those of doubles, of which there are
    too many between any two.
    """

    def __init__(self, var: Var, low: Term, high: Term, *, proposes: bool = True) -> None:
        self.var, self.low, self.high = var, low, high
        self.proposes = proposes
        self.variables = variables_of(var, low, high)

    def __repr__(self) -> str:
        return f"{self.low} <= {self.var} <= {self.high}"

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """How many words there are, if both ends are known."""
        if not self.proposes or var != self.var or not self._ends() <= frontier.bound:
            return None
        low, high = column(frontier, self.low), column(frontier, self.high)
        size = high - low + 1
        # high - low is too large for a word only if it wraps around to something below 1.
        return np.where(high < low, 0, np.where(size < 1, _MOST, size))

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """Every word of every row's range."""
        sizes = self.estimate(frontier, var)
        assert sizes is not None
        parents = np.repeat(np.arange(len(frontier), dtype=np.int64), sizes)
        first = np.repeat(np.cumsum(sizes) - sizes, sizes)
        offsets = np.arange(len(parents), dtype=np.int64) - first
        return Candidates.of(frontier, var, column(frontier, self.low)[parents] + offsets, parents)

    def propose_part(self, frontier: Frontier, var: Var, skip: int, limit: int) -> Candidates:
        """A stretch of one range."""
        low = int(column(frontier, self.low)[0])
        high = int(column(frontier, self.high)[0])
        take = max(min(limit, high - low + 1 - skip), 0)
        first = low + skip if take else 0
        words = first + np.arange(take, dtype=np.int64)
        return Candidates.of(frontier, var, words, np.zeros(take, np.int64))

    def confirm(self, candidates: Candidates) -> None:
        """Kill what is outside, as soon as an end is known."""
        if candidates.var not in self.variables or self.var not in candidates.bound:
            return
        words = candidates.column(self.var)
        for end, inside in ((self.low, np.greater_equal), (self.high, np.less_equal)):
            if variables_of(end) <= candidates.bound:
                candidates.keep(inside(words, column(candidates, end)))

    def influence(self, var: Var) -> frozenset[Var]:
        """The ends decide how many values there are."""
        return others(self.variables, var)

    def _ends(self) -> frozenset[Var]:
        return variables_of(self.low, self.high) - {self.var}


class OneOf:
    """`var` is one of the given words."""

    def __init__(self, var: Var, words: ArrayLike) -> None:
        self.var = var
        self.words: Words = np.unique(as_words(words))
        self.variables = frozenset((var,))

    def __repr__(self) -> str:
        return f"{self.var} in {len(self.words)} words"

    def estimate(self, frontier: Frontier, var: Var) -> Counts:
        """The size of the set."""
        del var
        return np.full(len(frontier), len(self.words), np.int64)

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """The members, for every row."""
        parents = np.repeat(np.arange(len(frontier), dtype=np.int64), len(self.words))
        return Candidates.of(frontier, var, np.tile(self.words, len(frontier)), parents)

    def propose_part(self, frontier: Frontier, var: Var, skip: int, limit: int) -> Candidates:
        """Some members."""
        words = self.words[skip : skip + limit]
        return Candidates.of(frontier, var, words, np.zeros(len(words), np.int64))

    def confirm(self, candidates: Candidates) -> None:
        """Kill what is no member."""
        if candidates.var != self.var:
            return
        candidates.keep(np.isin(candidates.values, self.words))

    def influence(self, var: Var) -> frozenset[Var]:
        """There are no other variables."""
        del var
        return frozenset()


class Predicate(ConfirmOnly):
    """`function` takes an array of words for each variable and says which rows pass.

    It sees living candidates only.
    """

    __test__ = False  # the name is no invitation to pytest

    def __init__(self, variables: Sequence[Var], function: Callable[..., Mask]) -> None:
        self.order = tuple(variables)
        self.variables = frozenset(variables)
        self.function = function

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"{name}({', '.join(self.order)})"

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates that fail."""
        if not completes(self.variables, candidates):
            return
        alive = np.flatnonzero(candidates.alive)
        if not len(alive):
            return
        passed = np.zeros(len(candidates), np.bool_)
        passed[alive] = self.function(*(candidates.column(v)[alive] for v in self.order))
        candidates.keep(passed)
