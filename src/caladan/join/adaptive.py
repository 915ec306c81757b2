"""The guided search: every row of a frontier chooses which variable it binds next.

    solve(constraints, wanted)   →   Bindings, Bindings, …

Each row takes the unbound variable with the smallest estimate, compared by bit length; ties go to
the larger influence, then to the order given. Rows are grouped by that choice, and a group is
extended by its variable: for each row whoever has the fewest values proposes, the others confirm.
Atoms do that as in any rule (`Intersection`), over the same runs, orders and views; a body in one
order of variables is the case in which all rows choose alike. What comes out is searched to its end
piece by piece, so a caller who stops asking stops the work; pieces grow 1, 8, 64, ….

Estimates live as long as nothing that influences them is bound: they go with the rows, in columns
of their own (`?x`). Where a single atom has all that is left, it is looked up: a plain join is the
last step of a search, not another operator.

What guides the search are grades (estimates.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from caladan.columns.kernels import meet
from caladan.columns.layout import Counts, Words
from caladan.join.constraints.atom import StoredAtom
from caladan.join.constraints.lookup import projection
from caladan.join.constraints.protocol import JoinConstraint, keep_allowed
from caladan.join.estimates import Grade, grade_named
from caladan.join.frontier import Bindings
from caladan.join.intersection import SearchBody, Weights, forget_unused
from caladan.join.statistics import Statistics
from caladan.program import thresholds
from caladan.program.diagnostics import error


def solve(
    constraints: Sequence[JoinConstraint],
    wanted: Sequence[str],
    seed: Bindings | None = None,
    *,
    grade: str | Grade = "paul",
    width: int | None = None,
    first: int | None = None,
    statistics: Statistics | None = None,
    poll: Callable[[], None] | None = None,
) -> Iterator[Bindings]:
    """All bindings that satisfy the constraints, in batches that have the wanted columns.

    `seed` holds bindings to start from. Wanted variables are bound, and all others that two
    constraints share, so the wanted columns of two results may be the same. Pieces grow from
    `first` to `width` rows. `poll` is called at every step and may raise to end the search.
    """
    search = Search(constraints, wanted, seed or Bindings(1, {}), grade, statistics, poll)
    width = width or thresholds.now.search_width
    return search.run(min(first or width, width), width)


class Search:
    """A search with everything it looks up; `run` starts it."""

    def __init__(
        self,
        constraints: Sequence[JoinConstraint],
        wanted: Sequence[str],
        seed: Bindings,
        grade: str | Grade,
        statistics: Statistics | None,
        poll: Callable[[], None] | None,
    ) -> None:
        self.grade = grade_named(grade) if isinstance(grade, str) else grade
        self.statistics = statistics if statistics is not None else Statistics()
        self.statistics.grade = self.grade.name
        self.wanted = frozenset(wanted)
        self._poll = poll
        needed = forget_unused(constraints, self.wanted | seed.columns.keys())
        body = SearchBody(needed, wanted)
        self.body, self._seed = self.grade.prepare(body, seed)
        for var in self.wanted:
            if var not in seed.columns and not self.body.names.get(var):
                raise unbounded_variables([var])
        self._width, self._most = 1, 1

    def run(self, first: int, width: int) -> Iterator[Bindings]:
        """The results."""
        self._width, self._most = first, width
        bound = frozenset(self._seed.columns)
        unbound = frozenset(self.body.variables) - bound
        settled = [c for c in self.body.constraints if not c.variables & unbound]
        for part in self._pieces(self._seed):
            for constraint in settled:
                if part.rows:
                    part = keep_allowed(constraint, part)
            for found in self._descend(part, bound, unbound):
                self.statistics.results += found.rows
                yield projection(found, self.wanted)

    def _pieces(self, frontier: Bindings) -> Iterator[Bindings]:
        """A frontier, few rows at first, more of them once a piece was searched to its end."""
        at = 0
        while at < frontier.rows:
            if not at and frontier.rows <= self._width:
                yield frontier
                return
            end = min(at + self._width, frontier.rows)
            yield Bindings(end - at, {n: c[at:end] for n, c in frontier.columns.items()})
            at = end
            self._width = min(self._width * thresholds.now.search_ramp, self._most)

    def _descend(
        self, frontier: Bindings, bound: frozenset[str], unbound: frozenset[str]
    ) -> Iterator[Bindings]:
        """The results that extend the rows of a frontier."""
        if not frontier.rows:
            return
        if not unbound:
            yield frontier
            return
        if self._poll is not None:
            self._poll()
        self.statistics.steps += 1
        alone = self._alone(unbound)
        if alone is not None:
            for longer in self._joined(alone, frontier, bound, unbound):
                yield from self._pieces(longer)
            return
        for var, part, weights in self._choose(frontier, bound, unbound):
            left = unbound - {var}
            keep = self.wanted.union(*(c.variables for c in self.body.open(left)))
            lasting = left - self.body.influence[var]
            if not self.grade.always_fresh:
                keep |= {_held(v) for v in lasting}
            having = self.body.intersection(var, bound, self.statistics)
            weights = weights or self._weigh(part, bound, var)
            for longer in having.run(part, keep, weights):
                for piece in self._pieces(longer):
                    yield from self._descend(piece, bound | {var}, left)

    def _choose(
        self, frontier: Bindings, bound: frozenset[str], unbound: frozenset[str]
    ) -> Iterator[tuple[str, Bindings, Weights | None]]:
        """Groups of rows with the variable they bind next, and who may propose, if known."""
        if len(unbound) == 1:
            (only,) = unbound
            weights = self._weigh(frontier, bound, only)
            if weights.least is None:
                raise unbounded_variables([only])
            yield only, frontier, weights
            return
        made: dict[str, Weights] = {}
        measures: dict[str, Counts] = {}
        told: dict[str, Words] = {}
        for var in unbound:
            if (held := frontier.columns.get(_held(var))) is not None:
                measures[var] = held.astype(np.int64)
                continue
            made[var] = self._weigh(frontier, bound, var)
            counts = self.grade.measure(frontier, self.body, bound, var, made[var])
            if counts is not None:
                measures[var] = counts
                told[_held(var)] = np.minimum(counts, (1 << 32) - 1).astype(np.uint32)
        if (cheaper := self.grade.next_best(self.statistics.proposed.total())) is not None:
            self.grade = cheaper
            self.statistics.grade += f", then {cheaper.name}"
        ready = [var for var in self.body.ranked if var in measures]
        if not ready:
            raise unbounded_variables(sorted(unbound))
        choice = np.empty(frontier.rows, np.int64)
        meet.choose(np.stack([measures[var] for var in ready]), choice)
        frontier = Bindings(frontier.rows, {**frontier.columns, **told})
        for number, var in enumerate(ready):
            mine = choice == number
            if mine.all():
                yield var, frontier, made.get(var)
                return
            if mine.any():
                yield var, frontier.where(mine), None

    def _weigh(self, frontier: Bindings, bound: frozenset[str], var: str) -> Weights:
        self.statistics.asked(var, frontier.rows)
        return self.body.intersection(var, bound, self.statistics).weigh(frontier)

    def _alone(self, unbound: frozenset[str]) -> StoredAtom | None:
        """The atom that alone decides all that is left, if it is so."""
        open_ones = self.body.open(unbound)
        if len(unbound) > 1 and len(open_ones) == 1:
            (only,) = open_ones
            if isinstance(only, StoredAtom):
                return only if unbound <= only.variables else None
        return None

    def _joined(
        self,
        atom: StoredAtom,
        frontier: Bindings,
        bound: frozenset[str],
        unbound: frozenset[str],
    ) -> Iterator[Bindings]:
        lookup = atom.under(bound, tuple(v for v in self.body.ranked if v in unbound))
        for longer in lookup.run(frontier, self.wanted):
            for var in unbound:
                self.statistics.count(var, longer.rows, longer.rows)
                self.statistics.proposals(var, (str(atom),), (longer.rows,))
            yield longer


def _held(var: str) -> str:
    """The column in which rows have their estimate of a variable."""
    return f"?{var}"


def unbounded_variables(variables: Sequence[str]) -> Exception:
    """The diagnostic for variables that nothing lists values for."""
    names = ", ".join(f"`{v}`" for v in variables)
    return error(
        "C013",
        f"nothing in the body binds {names}",
        help="add an atom, a set or a range that has it",
    )
