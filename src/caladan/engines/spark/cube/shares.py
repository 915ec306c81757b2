"""Shares: how many slices each variable is cut into. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Atom: TypeAlias = "tuple[Sequence[str], int]"
"""The variables of an atom, and how many facts it has."""


def shares(atoms: Sequence[Atom], cells: int) -> dict[str, int]:
    """The shares of all variables that atoms meet on, for at most so many cells.

    A cell gets of each atom one fact in as many as the shares of its variables multiply to; the
    shares are those that send it the fewest, and of these the ones with the fewest cells.

    >>> shares([(("x", "y"), 100), (("y", "z"), 100), (("z", "x"), 100)], 8)
    {'x': 2, 'y': 2, 'z': 2}
    >>> shares([(("x", "y"), 1_000_000), (("y", "z"), 10), (("z", "x"), 10)], 4)
    {'x': 2, 'y': 2, 'z': 1}
    """
    seen = Counter(name for variables, _ in atoms for name in variables)
    names = [name for name, count in seen.items() if count > 1]
    best: tuple[float, int, dict[str, int]] | None = None
    for chosen in _ways(len(names), cells):
        found = dict(zip(names, chosen, strict=True))
        load = sum(size / product(variables, found) for variables, size in atoms)
        if best is None or (load, product(names, found)) < best[:2]:
            best = load, product(names, found), found
    assert best is not None
    return best[2]


def product(variables: Sequence[str], shares: Mapping[str, int]) -> int:
    """The shares of some variables, multiplied."""
    total = 1
    for name in variables:
        total *= shares.get(name, 1)
    return total


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
