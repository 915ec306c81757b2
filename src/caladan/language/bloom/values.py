"""Values, as facts hold them: anything that can be hashed, and values of lattices.

Lattice    what values extend that only grow, whatever order they are merged in
frozen     a value that can stand in a fact; `reveal` is the way back
ordered    one order for values of any types
check_…    the laws of lattices, tried on values: an AssertionError with an example
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import product
from typing import Any, ClassVar, Final, Self, TypeVar


class Lattice:
    """A value of a join semilattice. Subclasses have `bottom`, `merge`, equality and a hash.

    `monotone` names the methods that give more where they are given more.
    """

    __slots__ = ()
    word: ClassVar[str] = "lattice"
    monotone: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def bottom(cls) -> Self:
        """The value that changes nothing when it is merged."""
        raise NotImplementedError

    @classmethod
    def of(cls, value: object) -> Self:
        """A plain value as one of this lattice; ValueError if it is none."""
        if isinstance(value, cls):
            return value
        if isinstance(value, Lattice):
            raise ValueError(f"{value!r} is of another lattice than {cls.word}")
        return cls.lifted(value)

    @classmethod
    def lifted(cls, value: Any) -> Self:
        """A value that is not of a lattice yet."""
        return cls(value)  # pyright: ignore[reportCallIssue]

    def merge(self, other: Any) -> Self:
        """The least value that is no less than both."""
        raise NotImplementedError

    def reveal(self) -> object:
        """The plain value. Not monotone: what is revealed may be outgrown."""
        raise NotImplementedError

    def at_least(self, other: Self) -> bool:
        """Whether this value has grown to another, or beyond it."""
        return self.merge(other) == self


def freeze(value: Any) -> Any:
    """A value that can stand in a fact: lists become tuples, sets frozen sets.

    >>> frozen([1, {2}, {"a": [3]}])
    (1, frozenset({2}), (('a', (3,)),))
    """
    kind = type(value)
    if kind in _ATOMS:
        return value
    if isinstance(value, Lattice):
        return value
    if isinstance(value, tuple):
        made = tuple(map(freeze, value))  # pyright: ignore[reportUnknownArgumentType]
        return made if kind is tuple else value
    if isinstance(value, list):
        return tuple(map(freeze, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, set | frozenset):
        return frozenset(map(freeze, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, dict):
        pairs = ((k, freeze(v)) for k, v in dict[Any, Any](value).items())
        return tuple(sorted(pairs, key=lambda pair: repr(pair[0])))
    return value


_ATOMS: Final = frozenset({int, str, float, bool, type(None), bytes})


def reveal(value: Any) -> Any:
    """A value as users see it: lattices are revealed, inside of tuples too."""
    if isinstance(value, Lattice):
        return reveal(value.reveal())
    if type(value) is tuple:
        return tuple(map(reveal, value))  # pyright: ignore[reportUnknownArgumentType]
    return value


def order_key(value: Any) -> tuple[str, Any]:
    """A key that puts values of any types in one order."""
    if isinstance(value, int | float | Decimal | Fraction):
        return ("", value)
    if isinstance(value, tuple):
        return ("tuple", tuple(map(order_key, value)))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, frozenset):
        return ("set", sorted(map(order_key, value)))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, Lattice):
        return order_key(freeze(value.reveal()))
    kind = type(value)
    has_order = kind.__lt__ is not object.__lt__  # pyright: ignore[reportAttributeAccessIssue]
    return (kind.__name__, value if has_order else repr(value))


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
