"""A tree of lines, drawn the way Spark draws its plans: `:-` and `+-`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


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
