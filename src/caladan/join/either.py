"""Alternatives in a body of `find`, and conjunctions with variables of their own.

`Either` holds if one of its alternatives does; it proposes what any of them proposes. `Exists` is a
conjunction that holds if there are values for its hidden variables: inside it is a search of its
own, from what is bound outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from caladan.columns.interner import pairs
from caladan.columns.layout import Counts, Mask, Words
from caladan.join.frontier import Bindings
from caladan.join.guided import solve
from caladan.join.parties import Party, allowed

_MOST = np.iinfo(np.int64).max


class Either:
    """At least one of the alternatives, each a conjunction of constraints."""

    def __init__(self, alternatives: Sequence[Sequence[Party]]) -> None:
        self.alternatives = tuple(tuple(each) for each in alternatives)
        self.variables = frozenset[str]().union(
            *(c.variables for each in self.alternatives for c in each)
        )

    def __str__(self) -> str:
        shown = (", ".join(map(str, each)) for each in self.alternatives)
        return f"({' ; '.join(shown)})"

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """The sum of the least estimates; None if an alternative cannot list values."""
        total: Counts = np.zeros(frontier.rows, np.int64)
        for each in self.alternatives:
            found = _least(each, frontier, var)
            if found is None:
                return None
            total = np.where(total > _MOST - found[0], _MOST, total + found[0])
        return total

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """What the alternatives propose, each value once a row."""
        del counts
        frontier, mark = _numbered(frontier)
        found: list[tuple[Words, Words]] = []
        for each in self.alternatives:
            least = _least(each, frontier, var)
            assert least is not None
            for number, constraint in enumerate(each):
                mine = least[1] == number
                if not mine.any():
                    continue
                for longer in constraint.propose(frontier.where(mine), var, least[0][mine]):
                    left = _agreed(each, longer)
                    if left.rows:
                        found.append((left.columns[mark], left.columns[var]))
        yield from _once(frontier, var, found)

    def confirm(self, frontier: Bindings, var: str) -> Bindings:
        """Without what every alternative rules out."""
        del var
        numbered, mark = _numbered(frontier)
        possible: Mask = np.zeros(frontier.rows, np.bool_)
        for each in self.alternatives:
            left = _agreed(each, numbered)
            if left.rows:
                possible[left.columns[mark]] = True
        return frontier.where(possible)

    def influence(self, var: str) -> frozenset[str]:
        """All variables of all alternatives: a value may rule an alternative out."""
        return self.variables - {var}


class Exists:
    """The constraints hold for some values of the hidden variables."""

    def __init__(self, constraints: Sequence[Party], hidden: frozenset[str]) -> None:
        self.constraints = tuple(constraints)
        self.hidden = hidden
        self._inner = frozenset[str]().union(*(c.variables for c in constraints))
        self.variables = self._inner - hidden

    def __str__(self) -> str:
        return f"some {', '.join(sorted(self.hidden))}: {', '.join(map(str, self.constraints))}"

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """The least estimate inside."""
        found = _least(self._ready(frontier, var), frontier, var)
        return None if found is None else found[0]

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """The values of full answers inside, each once a row."""
        del counts
        numbered, mark = _numbered(frontier)
        inside = solve(self._ready(frontier, var), [var, mark], self._seed(numbered, mark))
        found = [(batch.columns[mark], batch.columns[var]) for batch in inside]
        for longer in _once(frontier, var, found):
            yield _agreed(self.constraints, longer)

    def confirm(self, frontier: Bindings, var: str) -> Bindings:
        """Before all is bound each constraint inside has its say; then all of them together."""
        del var
        frontier = _agreed(self.constraints, frontier)
        if not frontier.rows or not self.variables <= frontier.columns.keys():
            return frontier
        numbered, mark = _numbered(frontier)
        holds: Mask = np.zeros(frontier.rows, np.bool_)
        for found in solve(self.constraints, [mark], self._seed(numbered, mark)):
            holds[found.columns[mark]] = True
        return frontier.where(holds)

    def influence(self, var: str) -> frozenset[str]:
        """All it shows."""
        return self.variables - {var}

    def _ready(self, frontier: Bindings, var: str) -> list[Party]:
        """The constraints that need nothing else from outside."""
        known = self.hidden | frontier.columns.keys() | {var}
        return [c for c in self.constraints if c.variables <= known]

    def _seed(self, frontier: Bindings, mark: str) -> Bindings:
        names = {v: c for v, c in frontier.columns.items() if v in self._inner or v == mark}
        return Bindings(frontier.rows, names)


def _numbered(frontier: Bindings) -> tuple[Bindings, str]:
    """The rows with a column of their numbers, and its name."""
    mark = f"#row{len(frontier.columns)}"
    rows = np.arange(frontier.rows, dtype=np.uint32)
    return Bindings(frontier.rows, {**frontier.columns, mark: rows}), mark


def _once(frontier: Bindings, var: str, found: Sequence[tuple[Words, Words]]) -> Iterator[Bindings]:
    """Rows, by their numbers, with values of a variable, each once."""
    if found:
        keys = np.unique(np.concatenate([pairs(rows, words) for rows, words in found]))
        columns = frontier.at((keys >> np.uint64(32)).astype(np.uint32), frontier.columns)
        yield Bindings(len(keys), {**columns, var: keys.astype(np.uint32)})


def _agreed(constraints: Sequence[Party], frontier: Bindings) -> Bindings:
    """The rows that no constraint rules out, as far as its variables are bound."""
    for constraint in constraints:
        if frontier.rows:
            frontier = allowed(constraint, frontier)
    return frontier


def _least(
    constraints: Sequence[Party], frontier: Bindings, var: str
) -> tuple[Counts, Counts] | None:
    """The least estimate of a conjunction for each row, and whose it is."""
    best: Counts | None = None
    which: Counts = np.zeros(frontier.rows, np.int64)
    for number, constraint in enumerate(constraints):
        counts = constraint.estimate(frontier, var) if var in constraint.variables else None
        if counts is None:
            continue
        if best is None:
            best, which[:] = counts.copy(), number
        else:
            less = counts < best
            best[less] = counts[less]
            which[less] = number
    return None if best is None else (best, which)
