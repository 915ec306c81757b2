"""Nodes within nodes: the one walk that visits them, the one that rebuilds them; names.

A node is a frozen dataclass: an expression, a literal, a rule, a body. What is inside of one are
the nodes among its fields, and in tuples, lists and mappings there, in the order of the fields.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from itertools import chain, count
from operator import is_
from types import MappingProxyType
from typing import Any, Final, Generic, TypeVar, cast

from caladan.program.program import Atom, Literal, Variable
from caladan.program.types import Type

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

_INSIDE: dict[type, tuple[str, ...] | None] = {Type: None}  # a row of a table is no node
_PLAIN: Final = (
    "str", "bool", "int", "Value", "Type", "Mapping[str, Type]", "Span | None",
    "Placeholder | None",
    "ArithmeticOperator", "ComparisonOperator",
    "tuple[AggregateFunction | None, ...]", "AggregateFunction | None",
    "tuple[Type, ...]", "tuple[Attribute, ...]", "Mapping[str, Attribute]", "Version", "ScanKind",
)  # fmt: skip
"""Types, as fields are declared with them, that hold no nodes: most fields have one."""


def _inside(kind: type) -> tuple[str, ...] | None:
    """The fields of a kind of node that may hold others; None for what is no node."""
    if kind not in _INSIDE:
        found = fields(kind) if is_dataclass(kind) else None
        named = None if found is None else tuple(f.name for f in found if f.type not in _PLAIN)
        _INSIDE[kind] = named
    return _INSIDE[kind]


def walk(*nodes: object) -> Iterator[Any]:
    """Nodes and all nodes inside of them, each before what is inside of it."""
    waiting: list[Any] = [*reversed(nodes)]
    while waiting:
        node = waiting.pop()
        kind = type(node)
        if kind is tuple or kind is list:
            waiting.extend(reversed(node))
        elif kind is dict or kind is MappingProxyType:
            waiting.extend(reversed(list(node.values())))
        elif (names := _inside(kind)) is not None:
            yield node
            if names:
                waiting.extend([getattr(node, name) for name in reversed(names)])


def variables(*nodes: object) -> Iterator[Variable]:
    """The variables of expressions or literals, in order of appearance, with repetitions."""
    return (node for node in walk(*nodes) if isinstance(node, Variable))


def names(*nodes: object) -> frozenset[str]:
    """The names of these variables."""
    return frozenset(node.name for node in variables(*nodes))


def atoms(body: Iterable[Literal]) -> Iterator[Atom]:
    """The atoms of a body, also those within `if` literals and disjunctions."""
    return (node for node in walk(*body) if isinstance(node, Atom))


def fresh(stem: str, taken: set[str], fold: Callable[[str], str] = str) -> str:
    """A name that is not taken, and now is: the stem, or the stem with a number.

    Names are told apart, and taken, as they are folded.

    >>> fresh("tc", {"tc", "tc_2"})
    'tc_3'
    """
    candidates = chain([stem], (f"{stem}_{i}" for i in count(2)))
    name = next(each for each in candidates if fold(each) not in taken)
    taken.add(fold(name))
    return name


def reachable(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> list[T]:
    """Where one starts, and all that follows from there, each once and the nearest first.

    >>> reachable(["a"], {"a": "bc", "b": "d", "c": "a", "d": "b"}.__getitem__)
    ['a', 'b', 'c', 'd']
    """
    found = dict.fromkeys(starts)
    for each in (queue := list(found)):  # grows meanwhile
        queue += [new for new in dict.fromkeys(following(each)) if new not in found]
        found.update(dict.fromkeys(queue[len(found) :]))
    return queue


class ByIdentity(Generic[K, V]):
    """What is known of objects, each by itself, whatever it is equal to; it keeps them alive."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[K, V]] = {}

    def __contains__(self, key: K) -> bool:
        return id(key) in self._known

    def __getitem__(self, key: K) -> V:
        return self._known[id(key)][1]

    def __setitem__(self, key: K, value: V) -> None:
        self._known[id(key)] = key, value


def replace_in(node: T, change: Callable[[Any], Any]) -> T:
    """The node with every part that `change` answers for replaced, from the outside in.

    What has nothing replaced in it stays the same object, and what was shared is shared again.
    """
    return cast("T", _Rebuild(change).of(node))


class _Rebuild:
    def __init__(self, change: Callable[[Any], Any]) -> None:
        self._change = change
        self._known = ByIdentity[Any, Any]()

    def of(self, node: Any) -> Any:
        kind = type(node)
        if kind is tuple or kind is list:
            made = [self.of(part) for part in node]
            return node if all(map(is_, node, made)) else kind(made)
        if kind is dict or kind is MappingProxyType:
            found = {key: self.of(part) for key, part in node.items()}
            return node if all(map(is_, node.values(), found.values())) else found
        names = _inside(kind)
        if names is None:
            return node
        if not names:
            changed = self._change(node)
            return node if changed is None else changed
        if node not in self._known:
            self._known[node] = self._rebuilt(node, names)
        return self._known[node]

    def _rebuilt(self, node: Any, names: tuple[str, ...]) -> Any:
        changed = self._change(node)
        if changed is not None:
            return changed
        new: dict[str, Any] = {}
        for name in names:
            part = getattr(node, name)
            if (other := self.of(part)) is not part:
                new[name] = other
        return replace(node, **new) if new else node
