"""Shares: how many slices each variable is cut into. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TypeAlias

Atom: TypeAlias = "tuple[Sequence[str], int]"
"""The variables of an atom, and how many facts it has."""

Shares: TypeAlias = "Mapping[str, int]"
"""How many slices each variable is cut into; one that is not named is not cut."""


def shares(atoms: Sequence[Atom], cells: int) -> dict[str, int]:
    """The shares of all variables that atoms meet on, for at most so many cells.

    A cell gets of each atom one fact in as many as the shares of its variables multiply to; the
    shares are those that send it the fewest, and of these the ones with the fewest cells. Of equal
    ways, the one that cuts the variables that come first is taken: a search may start there.

    >>> shares([(("x", "y"), 100), (("y", "z"), 100), (("z", "x"), 100)], 8)
    {'x': 2, 'y': 2, 'z': 2}
    >>> shares([(("x", "y"), 1_000_000), (("y", "z"), 10), (("z", "x"), 10)], 4)
    {'x': 2, 'y': 2, 'z': 1}
    """
    seen = Counter(name for variables, _ in atoms for name in variables)
    names = [name for name, count in seen.items() if count > 1]
    ways = (dict(zip(names, way[::-1], strict=True)) for way in _ways(len(names), cells))

    def cost(shares: Shares) -> tuple[float, int]:
        load = sum(size / product(variables, shares) for variables, size in atoms)
        return load, product(names, shares)

    return min(ways, key=cost)


def product(variables: Collection[str], shares: Shares) -> int:
    """The shares of some variables, multiplied."""
    total = 1
    for name in variables:
        total *= shares.get(name, 1)
    return total


def digits(cell: int, shares: Shares) -> dict[str, int]:
    """The slice of each variable in a cell.

    >>> digits(5, {"x": 2, "y": 1, "z": 3})
    {'x': 1, 'y': 0, 'z': 2}
    """
    found: dict[str, int] = {}
    for name, share in shares.items():
        cell, found[name] = divmod(cell, share)
    return found


def _ways(variables: int, cells: int) -> Iterator[tuple[int, ...]]:
    """Shares whose product is at most `cells`; of many cells, powers of two will do."""
    if not variables:
        yield ()
        return
    few = cells <= 64
    steps = range(1, cells + 1) if few else (1 << i for i in range(cells.bit_length()))
    for step in steps:
        for rest in _ways(variables - 1, cells // step):
            yield (step, *rest)
