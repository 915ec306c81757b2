"""Arithmetic on words that are integers.

`Plus(x, y, z)` is x + y = z and proposes any one of the three from the other two; `Times` proposes
the product; `Computed` proposes its target from whatever a function makes of its inputs. A sum that
does not fit in 64 bits is no word, so it is nobody's value; where the equation alone defines the
variable (`defines`), that would lose answers, so it is an error instead (C041).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from caladan.join.search.constraint import completes, others
from caladan.join.search.constraints.terms import Term, column, one_each, variables_of
from caladan.join.search.frontier import Candidates, Counts, Frontier, Mask, Var, Words
from caladan.program.diagnostics import error

Result: TypeAlias = tuple[Words, Mask | None]  # words, and where they are defined (None: all)


class Computed:
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
                (z, Computed(z, (x, y), add, defines=z in defines)),
                (x, Computed(x, (z, y), subtract, defines=x in defines)),
                (y, Computed(y, (z, x), subtract, defines=y in defines)),
            )
            if isinstance(target, str)
        }
        self._sum = Computed(z, (x, y), add)

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


class Times(Computed):
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
