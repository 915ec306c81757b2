"""A tree of lines, drawn the way Spark draws its plans: `:-` and `+-`.

`Once` draws trees below goals in which each relation is drawn in full once: where it is first
needed, and only named after that; one that is very deep down gets a tree of its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from caladan.analysis.core import RelationInfo, Term
from caladan.explain.terms import value
from caladan.program import Constant


@dataclass(frozen=True, slots=True)
class Tree:
    """A line and what stands below it."""

    line: str
    children: tuple[Tree, ...] = ()


def draw(tree: Tree) -> str:
    """The lines of a tree.

    >>> print(draw(Tree("a", (Tree("b", (Tree("c"),)), Tree("d")))))
    a
    :- b
    :  +- c
    +- d
    """
    return "\n".join(_lines(tree, "", ""))


def _lines(tree: Tree, first: str, rest: str) -> Iterator[str]:
    yield first + tree.line
    for number, child in enumerate(tree.children, start=1):
        is_last = number == len(tree.children)
        yield from _lines(
            child, rest + ("+- " if is_last else ":- "), rest + ("   " if is_last else ":  ")
        )


C = TypeVar("C")

_DEEPEST: Final = 50  # relations above each other in one tree


class Once(ABC, Generic[C]):
    """Draws relations; `home` has the clique of each that is derived."""

    def __init__(self, relations: Mapping[str, RelationInfo], home: Mapping[str, C]) -> None:
        self._relations = relations
        self._home = home
        self._drawn: set[str] = set()  # relations
        self._depth = 0
        self._below: list[str] = []  # what is too deep where it is first needed

    @abstractmethod
    def base(self, info: RelationInfo) -> Tree:
        """A relation that nothing derives."""

    @abstractmethod
    def clique(self, clique: C, info: RelationInfo) -> Tree:
        """A relation, with all that its clique derives."""

    def relation(self, name: str) -> Tree:
        """A relation, in full if it was not drawn before."""
        info = self._relations[name]
        clique = self._home.get(name)
        if clique is None:
            return self.base(info)
        if name in self._drawn:
            return Tree(f"Relation {shown(info)}, see above")
        if self._depth >= _DEEPEST:
            if name not in self._below:
                self._below.append(name)
            return Tree(f"Relation {shown(info)}, see below")
        self._drawn.update(each for each, home in self._home.items() if home is clique)
        self._depth += 1
        tree = self.clique(clique, info)
        self._depth -= 1
        return tree

    def below(self) -> Iterable[Tree]:
        """Trees of their own for what was too deep; they may add to it."""
        for name in self._below:  # grows meanwhile
            yield Tree(f"Relation {name}", (self.relation(name),))


def union(inputs: list[Tree]) -> Tree:
    """Several inputs as one."""
    match inputs:
        case []:
            return Tree("Empty")
        case [one]:
            return one
        case _:
            return Tree("Union", tuple(inputs))


def columns(info: RelationInfo) -> str:
    """`A,B`."""
    return ",".join(c.name for c in info.columns)


def shown(info: RelationInfo) -> str:
    """`arc [A,B]`."""
    return f"{info.name} [{columns(info)}]"


def filtered(tree: Tree, arguments: Sequence[Term], names: Sequence[str], mark: str = "") -> Tree:
    """A tree below what constants and repeated variables among some arguments ask of it."""
    found: list[str] = []
    first: dict[str, str] = {}
    for argument, name in zip(arguments, names, strict=True):
        if isinstance(argument, Constant):
            found.append(f"{name} = {value(argument.value)}")
        elif argument.name in first:
            found.append(f"{first[argument.name]} = {name}")
        elif not argument.is_anonymous:
            first[argument.name] = name
    return Tree(f"{mark}Filter ({' and '.join(found)})", (tree,)) if found else tree
