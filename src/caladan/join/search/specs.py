"""What users write for a variable of `find`: sets, ranges, functions.

    find(…, city=one_of({"Arrakeen", "Carthag"}), age=between(3, 9), name=predicate(str.isupper))

Each becomes a constraint once the kind of its variable is known. Anything else that has a method
`constrain(variables, domains)`, or the four methods of a constraint, can stand in their place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import numpy as np

from caladan.join.constraints.protocol import Codes, Constraint, Mask, Var
from caladan.join.constraints.sets import Between, OneOf, Predicate
from caladan.join.search.library import DICTIONARIES, VariableDomain
from caladan.program.diagnostics import error
from caladan.program.kinds import Kind


@runtime_checkable
class Spec(Protocol):
    """A constraint in the making: it waits for the domains of its variables."""

    def constrain(self, var: Var | None, domains: Mapping[Var, VariableDomain]) -> Constraint:
        """The constraint for the variable it was given for, if it was given for one."""
        ...


@dataclass(frozen=True, slots=True)
class OneOfSpec:
    """See `one_of`."""

    values: tuple[object, ...]

    def constrain(self, var: Var | None, domains: Mapping[Var, VariableDomain]) -> Constraint:
        """The words of the values; a value that no relation has is no word."""
        name = _name(var, "one_of")
        return OneOf(name, domains[name].encode_all(self.values))


@dataclass(frozen=True, slots=True)
class BetweenSpec:
    """See `between`."""

    low: object
    high: object

    def constrain(self, var: Var | None, domains: Mapping[Var, VariableDomain]) -> Constraint:
        """A range of words; of texts, those that the relations have."""
        name = _name(var, "between")
        domain = domains[name]
        if domain.kind in DICTIONARIES:
            try:
                low, high = cast("Any", self.low), cast("Any", self.high)
                known = enumerate(domain.known_values())
                return OneOf(name, [n for n, value in known if low <= value <= high])
            except TypeError:
                said = (
                    f"`{name}` has {domain.kind.value} values that do not compare with these ends"
                )
                raise error("C018", said) from None
        low, high = self.low, self.high
        if domain.kind is Kind.INTEGER:
            low = math.ceil(low) if isinstance(low, float) else low
            high = math.floor(high) if isinstance(high, float) else high
        ends = [domain.encode(low), domain.encode(high)]
        if None in ends:
            raise error("C018", f"the range of `{name}` does not fit in 64 bits")
        return Between(
            name, int(ends[0] or 0), int(ends[1] or 0), proposes=domain.kind is not Kind.FLOAT
        )


@dataclass(frozen=True, slots=True)
class PredicateSpec:
    """See `predicate`."""

    function: Callable[..., Any]
    variables: tuple[Var, ...]
    vectorized: bool

    def constrain(self, var: Var | None, domains: Mapping[Var, VariableDomain]) -> Constraint:
        """A test that decodes what the function is to see."""
        names = self.variables or (_name(var, "predicate"),)
        used = [domains[name] for name in names]

        def test(*words: Codes) -> Mask:
            if self.vectorized:
                columns = (d.decode(w) for d, w in zip(used, words, strict=True))
                return np.asarray(self.function(*columns), np.bool_)
            values = zip(*(d.values(w) for d, w in zip(used, words, strict=True)), strict=True)
            return np.fromiter(
                (bool(self.function(*row)) for row in values), np.bool_, len(words[0])
            )

        test.__name__ = getattr(self.function, "__name__", "predicate")
        return Predicate(names, test)


def one_of(values: Iterable[object]) -> OneOfSpec:
    """The variable has one of these values.

    >>> one_of([3, 1, 2])
    OneOfSpec(values=(3, 1, 2))
    """
    if isinstance(values, str | bytes):
        raise error("C050", "one_of takes a set of values, not one", help="write one_of({…})")
    return OneOfSpec(tuple(values))


def between(low: object, high: object) -> BetweenSpec:
    """The variable has a value from low to high, both included."""
    return BetweenSpec(low, high)


def predicate(
    function: Callable[..., Any], *variables: Var, vectorized: bool = False
) -> PredicateSpec:
    """A function must be true of the variable's value, or of the values of several variables.

    It is called with Python values, one binding at a time; if vectorized, with NumPy arrays, and
    returns an array of booleans.
    """
    return PredicateSpec(function, variables, vectorized)


def _name(var: Var | None, helper: str) -> Var:
    if var is None:
        raise error("C050", f"{helper} needs a variable", help=f"write name={helper}(…)")
    return var
