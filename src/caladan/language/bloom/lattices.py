"""Lattices that come along: LMax LMin LBool LSet LPSet LBag LMap; `reveal()` gives the plain value.

All are immutable and can be hashed, so that a fact may hold them. A *morphism* commutes with
`merge`; a *monotone function* gives more where it is given more. Methods say which they are: rules
that use these alone never take anything back, and need no coordination.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, ClassVar, Final, Self, cast

from caladan.language.bloom.values import Lattice, freeze
from caladan.program.aggregates import AggregateFunction, lookup


class _Single(Lattice):
    """A lattice around one value, which tells equal ones."""

    __slots__ = ("value",)
    word: ClassVar[str]

    @classmethod
    def row(cls) -> AggregateFunction:
        """What merging is: a row of the table of aggregates."""
        return lookup(cls.word)

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
    """A lattice of values in an order; bottom is None, and stays None whatever is added to it."""

    __slots__ = ()

    @property
    def is_largest(self) -> bool:
        """Whether larger values are more, so that bottom is below all of them."""
        return self.row().improves == "rises"

    @classmethod
    def lifted(cls, value: Any) -> Self:
        try:
            has_order = not isinstance(value, bool | type(None)) and (value < value) is False
        except TypeError:
            has_order = False
        if not has_order or value != value:  # what is not itself never stops growing
            raise ValueError(f"{value!r} is no value of {cls.word}")
        return cls(value)

    def merge(self, other: Any) -> Self:
        if self.value is None or other.value is None:
            return other if self.value is None else self
        return self if self.row().combine(self.value, other.value) == self.value else other

    def __add__(self, other: object) -> Self:
        """Monotone."""
        return self._both(operator.add, other)

    __radd__ = __add__

    def __sub__(self, other: object) -> Self:
        """Monotone in the left."""
        return self._both(operator.sub, other)

    def _both(self, function: Callable[[Any, Any], Any], other: object) -> Self:
        value = _plain(other)
        is_bottom = self.value is None or value is None
        return type(self)(None if is_bottom else function(self.value, value))

    def __gt__(self, bound: object) -> LBool:
        """Of the largest value monotone: once it is above, it stays so."""
        return self._compared(operator.gt, bound, is_above=True)

    def __ge__(self, bound: object) -> LBool:
        """Of the largest value monotone."""
        return self._compared(operator.ge, bound, is_above=True)

    def __lt__(self, bound: object) -> LBool:
        """Of the smallest value monotone: once it is below, it stays so."""
        return self._compared(operator.lt, bound, is_above=False)

    def __le__(self, bound: object) -> LBool:
        """Of the smallest value monotone."""
        return self._compared(operator.le, bound, is_above=False)

    def _compared(
        self, compare: Callable[[Any, Any], bool], bound: object, *, is_above: bool
    ) -> LBool:
        if self.value is None:
            return LBool(is_above is not self.is_largest)
        return LBool(compare(self.value, _plain(bound)))

    gt, gt_eq, lt, lt_eq = __gt__, __ge__, __lt__, __le__

    def min_of(self, other: object) -> Self:
        """The smaller of this and another value. Monotone, and of the smallest a morphism."""
        return self._both(min, other) if self.is_largest else self.merge(self.of(other))

    def max_of(self, other: object) -> Self:
        """The larger of this and another value. Monotone, and of the largest a morphism."""
        return self.merge(self.of(other)) if self.is_largest else self._both(max, other)


class LMax(_Number):
    """The largest value so far."""

    __slots__ = ()
    word = "lmax"
    monotone = frozenset({">", ">=", "gt", "gt_eq", "+", "-", "merge", "min_of", "max_of"})


class LMin(_Number):
    """The smallest value so far."""

    __slots__ = ()
    word = "lmin"
    monotone = frozenset({"<", "<=", "lt", "lt_eq", "+", "-", "merge", "min_of", "max_of"})


class LBool(_Single):
    """False until it is true."""

    __slots__ = ()
    word = "lbool"
    monotone = frozenset({"&", "|", "merge", "when_true"})

    def __init__(self, value: object = False) -> None:
        super().__init__(bool(_plain(value)))

    def merge(self, other: Any) -> Self:
        return type(self)(self.row().combine(self.value, other.value))

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
    monotone = frozenset(
        {"contains", "size", "map", "filter", "intersect", "product", "eqjoin", "each", "merge"}
        | {"group_count"}
    )

    def __init__(self, items: Iterable[Hashable] = ()) -> None:
        super().__init__(frozenset(items))

    @classmethod
    def lifted(cls, value: Any) -> Self:
        if isinstance(value, set | frozenset):
            return cls(freeze(item) for item in value)  # pyright: ignore[reportUnknownVariableType]
        return cls([freeze(value)])  # an element; a list is a tuple that is one

    def merge(self, other: Any) -> Self:
        made = self.row().combine(self.value, other.value)
        return self if made is self.value else type(self)(made)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.value)

    def contains(self, item: Hashable) -> LBool:
        """Monotone."""
        return LBool(item in self.value)

    def size(self) -> LMax:
        """Monotone."""
        return LMax(len(self.value))

    def map(self, function: Callable[[Any], Hashable]) -> LSet:
        """What a function makes of every item; None is left out. A morphism."""
        made = (freeze(function(item)) for item in self.value)
        return LSet(each for each in made if each is not None)

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
        return self.eqjoin(other, {}, function)

    def eqjoin(
        self,
        other: Iterable[Any],
        on: Mapping[int, int],
        function: Callable[[Any, Any], Hashable] | None = None,
    ) -> LSet:
        """The same of pairs of tuples that agree: `on` says which place of one with which of the
        other. A morphism in either."""
        places = _pairs(on) or {}
        by: dict[tuple[Any, ...], list[Any]] = {}
        for right in other:
            by.setdefault(tuple(right[place] for place in places.values()), []).append(right)
        made = function or (lambda left, right: (left, right))
        pairs = (
            freeze(made(left, right))
            for left in self.value
            for right in by.get(tuple(left[place] for place in places), ())
        )
        return LSet(pair for pair in pairs if pair is not None)

    def group_count(self, places: Iterable[int]) -> LMap:
        """How many tuples agree in some places, by what they have there. Monotone."""
        chosen = tuple(places)
        groups = Counter(tuple(item[place] for place in chosen) for item in self.value)
        return LMap({group: LMax(count) for group, count in groups.items()})


class LPSet(LSet):
    """A set of numbers that are not negative, so that their sum only grows."""

    __slots__ = ()
    word = "lpset"
    monotone = LSet.monotone | {"pos_sum"}

    def __init__(self, items: Iterable[Hashable] = ()) -> None:
        super().__init__(items)
        for item in self.value:
            if isinstance(item, bool) or not isinstance(item, int | float) or item < 0:
                raise ValueError(f"{item!r} is not a number of 0 or more")

    def pos_sum(self) -> LMax:
        """The sum. Monotone."""
        return LMax(sum(self.value))


class LBag(_Single):
    """A multiset; merging keeps the larger multiplicity of each item."""

    __slots__ = ()
    word = "lbag"
    monotone = frozenset({"contains", "size", "multiplicity", "intersect", "+", "merge"})

    def __init__(
        self, counts: Mapping[Hashable, int] | Iterable[tuple[Hashable, int]] = ()
    ) -> None:
        super().__init__(frozenset((item, n) for item, n in dict(counts).items() if n > 0))

    @classmethod
    def lifted(cls, value: Any) -> Self:
        counts = _pairs(value)
        if counts is None or not all(type(n) is int and n >= 0 for n in counts.values()):
            raise ValueError(f"{value!r} is not a mapping of items to their numbers")
        return cls({freeze(k): n for k, n in counts.items()})

    def reveal(self) -> dict[Any, int]:
        return dict(self.value)

    def merge(self, other: Any) -> Self:
        return type(self)(self.row().combine(self.reveal(), other.reveal()))

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
    monotone = frozenset(
        {"keys", "size", "at", "contains", "intersect", "apply", "filter", "each", "merge"}
    )

    def __init__(self, items: Mapping[Hashable, Lattice] | Iterable[Any] = ()) -> None:
        made = {freeze(k): v for k, v in dict(items).items()}
        for key, value in made.items():
            if not isinstance(value, Lattice):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ValueError(f"the value of {key!r} is {value!r}, which is of no lattice")
        super().__init__(frozenset(made.items()))

    @classmethod
    def lifted(cls, value: Any) -> Self:
        items = _pairs(value)
        if items is None:
            raise ValueError(f"{value!r} is not a mapping of keys to lattice values")
        return cls(items)

    def _items(self) -> dict[Any, Any]:
        return dict(self.value)

    def reveal(self) -> dict[Any, Any]:
        return {key: value.reveal() for key, value in self.value}

    def merge(self, other: Any) -> Self:
        return type(self)(self.row().combine(self._items(), dict(other.value)))

    def keys(self) -> LSet:
        """A morphism."""
        return LSet(key for key, _ in self.value)

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self.value)

    def at(self, key: Hashable, default: Lattice | type[Lattice] | None = None) -> Any:
        """The value of a key; before it has one, a default or the bottom of a lattice. A morphism.

        Without either, there is no value: that the key is not there would not be known to stay.
        """
        found = self._items().get(key, default)
        if found is None:
            raise ValueError(f"{key!r} is not there yet; `at({key!r}, LMax)` starts at a bottom")
        return found.bottom() if isinstance(found, type) else found

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

    def apply(self, function: Callable[..., Lattice] | str, *arguments: object) -> Self:
        """A monotone function, or a method by its name, on every value. Monotone."""
        if isinstance(function, str):
            return type(self)({k: getattr(v, function)(*arguments) for k, v in self.value})
        return type(self)({key: function(value, *arguments) for key, value in self.value})

    def filter(self, keep: Callable[[Any], object] = bool) -> Self:
        """The keys whose value is true, or for whose value a monotone function is. Monotone."""
        return type(self)({key: value for key, value in self.value if keep(value)})


LATTICES: Final[dict[str, type[Lattice]]] = {
    each.word: each for each in (LMax, LMin, LBool, LSet, LPSet, LBag, LMap)
}
"""The lattices that come along, by the word that declares a column of one."""


def _pairs(value: Any) -> dict[Any, Any] | None:
    """A mapping, also as the pairs that stand for one in a fact."""
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, tuple) and all(isinstance(p, tuple) and len(p) == 2 for p in value):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        return dict(cast("tuple[tuple[Any, Any], ...]", value))
    return None
