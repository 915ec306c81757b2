"""Laws of lattices, tried on values: what is wrong is an AssertionError with an example."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import product
from typing import TypeVar

from caladan.language.bloom.values import Lattice

L = TypeVar("L", bound="Lattice")


def check_lattice(lattice: type[Lattice], values: Iterable[object]) -> None:
    """AssertionError with an example where `merge` is not one of a lattice.

    Every pair and triple of the values is tried, and what merging them gives; bottom is added.

    >>> from caladan.bloom import LMax
    >>> check_lattice(LMax, [1, 5, 3])
    """
    bottom = lattice.bottom()
    some = list(dict.fromkeys([bottom, *(lattice.of(value) for value in values)]))
    for one in some:
        _law(one.merge(one) == one, "merging a value with itself changes it", one)
        _law(hash(one) == hash(lattice.of(one)), "equal values have different hashes", one)
        _law(one.merge(bottom) == one and bottom.merge(one) == one, "bottom changes a value", one)
    for one, other in product(some, some):
        _law(one.merge(other) == other.merge(one), "the order of merging matters", one, other)
        both = one.merge(other)
        _law(both.at_least(one) and both.at_least(other), "merging loses something", one, other)
    for one, other, third in product(some, some, some):
        _law(
            one.merge(other).merge(third) == one.merge(other.merge(third)),
            "what is merged first matters", one, other, third,
        )  # fmt: skip


def check_monotone(function: Callable[[L], Lattice], values: Iterable[L]) -> None:
    """AssertionError with an example where a function gives less for more."""
    for one, other in product(some := list(values), some):
        more = one.merge(other)
        _law(function(more).at_least(function(one)), "the function gives less for more", one, more)


def check_morphism(function: Callable[[L], Lattice], values: Iterable[L]) -> None:
    """AssertionError with an example where merging before a function is not merging after it."""
    for one, other in product(some := list(values), some):
        _law(
            function(one.merge(other)) == function(one).merge(function(other)),
            "merging before the function is not merging after it", one, other,
        )  # fmt: skip


def _law(holds: bool, law: str, *values: object) -> None:
    if not holds:
        raise AssertionError(f"{law}: {', '.join(map(repr, values))}")
