"""Lattices: values that only grow, whatever order they are merged in.

    LMax LMin LBool LSet LPSet LBag LMap   values; `reveal()` gives the plain one
    Lattice                                what one of your own extends: `merge`, `bottom`
    check_lattice, check_monotone, check_morphism   whether the laws hold, on values you give

All are immutable and can be hashed, so that a fact may hold them. A *morphism* commutes with
`merge`; a *monotone function* gives more where it is given more. Methods say which they are: rules
that use these alone never take anything back, and need no coordination.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from itertools import product
from typing import Any, ClassVar, Final, Self, TypeVar

L = TypeVar("L", bound="Lattice")


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


class _Single(Lattice):
    """A lattice around one value, which tells equal ones."""

    __slots__ = ("value",)

    def __init__(self, value: Hashable = None) -> None:
        self.value: Any = value.reveal() if isinstance(value, Lattice) else value

    @classmethod
    def bottom(cls) -> Self:
        return cls()

    def reveal(self) -> Any:
        return self.value

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.value == self.value

    def __hash__(self) -> int:
        return hash((self.word, self.value))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


def _plain(value: object) -> Any:
    return value.reveal() if isinstance(value, Lattice) else value


class _Number(_Single):
    """A lattice of numbers; bottom is None, and stays None whatever is added to it."""

    __slots__ = ()

    @classmethod
    def lifted(cls, value: Any) -> Self:
        if value is None or isinstance(value, bool) or not hasattr(value, "__lt__"):
            raise ValueError(f"{value!r} is no value of {cls.word}")
        return cls(value)

    def __add__(self, other: object) -> Self:
        """Monotone."""
        more = _plain(other)
        return type(self)(None if self.value is None or more is None else self.value + more)

    __radd__ = __add__

    def __sub__(self, other: object) -> Self:
        """Monotone in the left."""
        less = _plain(other)
        return type(self)(None if self.value is None or less is None else self.value - less)


class LMax(_Number):
    """The largest value so far."""

    __slots__ = ()
    word = "lmax"
    monotone = frozenset({">", ">=", "+", "-", "min_of", "max_of"})

    def merge(self, other: Any) -> Self:
        if self.value is None:
            return other
        return self if other.value is None or other.value <= self.value else other

    def __gt__(self, bound: object) -> LBool:
        """Monotone: once it is above, it stays so."""
        return LBool(self.value is not None and self.value > _plain(bound))

    def __ge__(self, bound: object) -> LBool:
        """Monotone."""
        return LBool(self.value is not None and self.value >= _plain(bound))

    def min_of(self, other: object) -> LMax:
        """The smaller of this and another value. Monotone."""
        value = _plain(other)
        return LMax(None if self.value is None or value is None else min(self.value, value))

    def max_of(self, other: object) -> LMax:
        """The larger of this and another value. A morphism."""
        return self.merge(LMax.of(other))


class LMin(_Number):
    """The smallest value so far."""

    __slots__ = ()
    word = "lmin"
    monotone = frozenset({"<", "<=", "+", "-", "min_of", "max_of"})

    def merge(self, other: Any) -> Self:
        if self.value is None:
            return other
        return self if other.value is None or other.value >= self.value else other

    def __lt__(self, bound: object) -> LBool:
        """Monotone: once it is below, it stays so."""
        return LBool(self.value is not None and self.value < _plain(bound))

    def __le__(self, bound: object) -> LBool:
        """Monotone."""
        return LBool(self.value is not None and self.value <= _plain(bound))

    def max_of(self, other: object) -> LMin:
        """The larger of this and another value. Monotone."""
        value = _plain(other)
        return LMin(None if self.value is None or value is None else max(self.value, value))

    def min_of(self, other: object) -> LMin:
        """The smaller of this and another value. A morphism."""
        return self.merge(LMin.of(other))


class LBool(_Single):
    """False until it is true."""

    __slots__ = ()
    word = "lbool"
    monotone = frozenset({"&", "|", "when_true"})

    def __init__(self, value: object = False) -> None:
        super().__init__(bool(_plain(value)))

    def merge(self, other: Any) -> Self:
        return self if self.value else other

    def __bool__(self) -> bool:
        return bool(self.value)

    def __and__(self, other: object) -> LBool:
        """Monotone."""
        return LBool(self.value and bool(other))

    def __or__(self, other: object) -> LBool:
        """A morphism."""
        return LBool(self.value or bool(other))


class LSet(_Single):
    """A set that only grows."""

    __slots__ = ()
    word = "lset"
    monotone = frozenset({"contains", "size", "map", "filter", "intersect", "product", "each"})

    def __init__(self, items: Iterable[Hashable] = ()) -> None:
        super().__init__(frozenset(items))

    @classmethod
    def lifted(cls, value: Any) -> Self:
        if isinstance(value, set | frozenset):
            return cls(frozen(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
        return cls([frozen(value)])  # an element; a list is a tuple that is one

    def merge(self, other: Any) -> Self:
        return self if other.value <= self.value else type(self)(self.value | other.value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def contains(self, item: Hashable) -> LBool:
        """Monotone."""
        return LBool(item in self.value)

    def size(self) -> LMax:
        """Monotone."""
        return LMax(len(self.value))

    def map(self, function: Callable[[Any], Hashable]) -> LSet:
        """A morphism."""
        return LSet(frozen(function(item)) for item in self.value)

    def filter(self, keep: Callable[[Any], object]) -> Self:
        """A morphism."""
        return type(self)(item for item in self.value if keep(item))

    def intersect(self, other: Iterable[Hashable]) -> Self:
        """A morphism in either argument."""
        return type(self)(self.value.intersection(other))

    def product(
        self, other: Iterable[Hashable], function: Callable[[Any, Any], Hashable] | None = None
    ) -> LSet:
        """Every pair, or what a function makes of it; None is left out. A morphism in either."""
        made = function or (lambda left, right: (left, right))
        pairs = (frozen(made(left, right)) for left, right in product(self.value, other))
        return LSet(pair for pair in pairs if pair is not None)


class LPSet(LSet):
    """A set of numbers that are not negative, so that their sum only grows."""

    __slots__ = ()
    word = "lpset"
    monotone = LSet.monotone | {"pos_sum"}

    def __init__(self, items: Iterable[Hashable] = ()) -> None:
        super().__init__(items)
        for item in self.value:
            if isinstance(item, bool) or not isinstance(item, int | float) or item < 0:
                raise ValueError(f"{item!r} is no number of 0 or more")

    def pos_sum(self) -> LMax:
        """The sum. Monotone."""
        return LMax(sum(self.value))


class LBag(_Single):
    """A multiset; merging keeps the larger multiplicity of each item."""

    __slots__ = ()
    word = "lbag"
    monotone = frozenset({"contains", "size", "multiplicity", "intersect", "+"})

    def __init__(
        self, counts: Mapping[Hashable, int] | Iterable[tuple[Hashable, int]] = ()
    ) -> None:
        super().__init__(frozenset((item, n) for item, n in dict(counts).items() if n > 0))

    @classmethod
    def lifted(cls, value: Any) -> Self:
        if isinstance(value, Mapping):
            return cls({frozen(k): n for k, n in dict[Any, int](value).items()})
        raise ValueError(f"{value!r} is no mapping of items to how often they occur")

    def reveal(self) -> dict[Any, int]:
        return dict(self.value)

    def merge(self, other: Any) -> Self:
        mine, theirs = self.reveal(), other.reveal()
        return type(self)({k: max(mine.get(k, 0), theirs.get(k, 0)) for k in mine | theirs})

    def intersect(self, other: LBag) -> Self:
        """The smaller multiplicity of each. A morphism in either argument."""
        mine, theirs = self.reveal(), other.reveal()
        return type(self)({k: min(n, theirs.get(k, 0)) for k, n in mine.items()})

    def __add__(self, other: LBag) -> Self:
        """The sum of multiplicities. Monotone."""
        mine, theirs = self.reveal(), other.reveal()
        return type(self)({k: mine.get(k, 0) + theirs.get(k, 0) for k in mine | theirs})

    def multiplicity(self, item: Hashable) -> LMax:
        """How often an item occurs. Monotone."""
        return LMax(self.reveal().get(item, 0))

    def contains(self, item: Hashable) -> LBool:
        """Monotone."""
        return LBool(item in self.reveal())

    def size(self) -> LMax:
        """With repetitions. Monotone."""
        return LMax(sum(self.reveal().values()))


class LMap(_Single):
    """Keys with values of lattices; merging merges the values of a key."""

    __slots__ = ()
    word = "lmap"
    monotone = frozenset({"keys", "size", "at", "contains", "intersect", "apply"})

    def __init__(self, items: Mapping[Hashable, Lattice] | Iterable[Any] = ()) -> None:
        made = {frozen(k): v for k, v in dict(items).items()}
        for key, value in made.items():
            if not isinstance(value, Lattice):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"the value of {key!r} is {value!r}, which is of no lattice")
        super().__init__(frozenset(made.items()))

    @classmethod
    def lifted(cls, value: Any) -> Self:
        if isinstance(value, Mapping):
            return cls(value)  # pyright: ignore[reportUnknownArgumentType]
        raise ValueError(f"{value!r} is no mapping of keys to values of lattices")

    def _items(self) -> dict[Any, Any]:
        return dict(self.value)

    def reveal(self) -> dict[Any, Any]:
        return {key: value.reveal() for key, value in self.value}

    def merge(self, other: Any) -> Self:
        mine = self._items()
        for key, value in other.value:
            mine[key] = mine[key].merge(value) if key in mine else value
        return type(self)(mine)

    def keys(self) -> LSet:
        """A morphism."""
        return LSet(key for key, _ in self.value)

    def at(self, key: Hashable, default: Lattice | None = None) -> Any:
        """The value of a key, or a default that is its bottom. A morphism."""
        return self._items().get(key, default)

    def contains(self, key: Hashable) -> LBool:
        """Monotone."""
        return LBool(key in self._items())

    def size(self) -> LMax:
        """Monotone."""
        return LMax(len(self.value))

    def intersect(self, other: LMap) -> Self:
        """The keys of both, with their values merged. Monotone."""
        mine, theirs = self._items(), dict(other.value)
        return type(self)({k: mine[k].merge(theirs[k]) for k in mine.keys() & theirs.keys()})

    def apply(self, function: Callable[[Any], Lattice]) -> Self:
        """A monotone function on every value. Monotone."""
        return type(self)({key: function(value) for key, value in self.value})


LATTICES: Final[dict[str, type[Lattice]]] = {
    each.word: each for each in (LMax, LMin, LBool, LSet, LPSet, LBag, LMap)
}
"""The lattices that come along, by the word that declares a column of one."""


def frozen(value: Any) -> Any:
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
        made = tuple(map(frozen, value))  # pyright: ignore[reportUnknownArgumentType]
        return made if kind is tuple else value
    if isinstance(value, list):
        return tuple(map(frozen, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, set | frozenset):
        return frozenset(map(frozen, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, dict):
        pairs = ((k, frozen(v)) for k, v in dict[Any, Any](value).items())
        return tuple(sorted(pairs, key=lambda pair: repr(pair[0])))
    return value


_ATOMS: Final = frozenset({int, str, float, bool, type(None), bytes})


def revealed(value: Any) -> Any:
    """A value as users see it: lattices are revealed, inside of tuples too."""
    if isinstance(value, Lattice):
        return revealed(value.reveal())
    if type(value) is tuple:
        return tuple(map(revealed, value))  # pyright: ignore[reportUnknownArgumentType]
    return value


# ── Laws ─────────────────────────────────────────────────────────────────────────────────────────


def check_lattice(lattice: type[Lattice], values: Iterable[object]) -> None:
    """AssertionError with an example where `merge` is not one of a lattice.

    Every pair and triple of the values is tried, and what merging them gives; bottom is added.

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
