"""The guided search: depth first over batches of bindings.

    solve(constraints, wanted)   →   Frontier, Frontier, …

Each row of a frontier takes the unbound variable with the smallest estimate, compared by bit
length; ties go to the larger influence, then to the order given. Rows are grouped by that choice, a
group is extended by its variable in chunks (extend.py), and each chunk is searched to its
end before the next is made. So memory is bounded by width × depth, and a caller who stops asking
stops the work. The width grows 1, 8, 64, … as chunks are finished.

Estimates live as long as nothing that influences them is bound: a child inherits its parent's.
Where a single atom has all that is left, its facts are joined whole: a plain join is the last step
of a search, not another operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from caladan.columns.kernels import candidates as kernels
from caladan.join.search.body import SearchBody, forget_unused
from caladan.join.search.constraint import Constraint, allowed
from caladan.join.search.constraints.relation import Stored
from caladan.join.search.extend import Weights, extend
from caladan.join.search.frontier import Counts, Frontier, Ramp, Rows, Var
from caladan.join.search.grades import Grade, grade_named
from caladan.join.statistics import Statistics
from caladan.program import thresholds
from caladan.program.diagnostics import error


def solve(
    constraints: Sequence[Constraint],
    wanted: Sequence[Var],
    seed: Frontier | Mapping[Var, ArrayLike] | None = None,
    *,
    grade: str | Grade = "paul",
    width: int | None = None,
    first: int = 1,
    statistics: Statistics | None = None,
    poll: Callable[[], None] | None = None,
) -> Iterator[Frontier]:
    """All bindings that satisfy the constraints, in batches that have the wanted columns.

    `seed` holds bindings to start from, as columns; the tags of a result are rows of the seed.
    Wanted variables are bound, and all others that two constraints share, so the wanted columns
    of two results may be the same. Batches grow from `first` to `width` rows. `poll` is called
    at every step and may raise to end the search.
    """
    start = seed if isinstance(seed, Frontier) else Frontier.of(seed) if seed else Frontier.start()
    search = Search(constraints, wanted, start, grade, statistics, poll)
    width = width or thresholds.now.search_width
    return search.run(Ramp(min(first, width), thresholds.now.search_ramp, width))


class Search:
    """A search with everything it looks up; `run` starts it."""

    def __init__(
        self,
        constraints: Sequence[Constraint],
        wanted: Sequence[Var],
        seed: Frontier,
        grade: str | Grade,
        statistics: Statistics | None,
        poll: Callable[[], None] | None,
    ) -> None:
        self.grade = grade_named(grade) if isinstance(grade, str) else grade
        self.statistics = statistics if statistics is not None else Statistics()
        self.statistics.grade = self.grade.name
        self.wanted = tuple(dict.fromkeys(wanted))
        self._poll = poll
        kept = forget_unused(constraints, frozenset(wanted) | seed.bound)
        self.body, self._seed = self.grade.prepare(SearchBody(kept, self.wanted), seed)
        for var in self.wanted:
            if var not in seed.columns and not self.body.of.get(var):
                raise unbounded([var])

    def run(self, ramp: Ramp) -> Iterator[Frontier]:
        """The results."""
        unbound = frozenset(self.body.variables) - self._seed.bound
        settled = [c for c in self.body.constraints if not c.variables & unbound]
        at = 0
        while at < len(self._seed):
            rows = slice(at, at + ramp.width)
            at = rows.stop
            part = self._seed.take(rows)
            for constraint in settled:
                part = part.take(np.flatnonzero(allowed(constraint, part)))
            for found in self._descend(part, {}, unbound, ramp):
                self.statistics.results += len(found)
                yield found.take(slice(None), self.wanted)
            ramp.widen()

    def _descend(
        self,
        frontier: Frontier,
        known: Mapping[Var, Counts],
        unbound: frozenset[Var],
        ramp: Ramp,
    ) -> Iterator[Frontier]:
        """The results that extend the rows of a frontier; `known` are estimates still good."""
        if not len(frontier):
            return
        if not unbound:
            yield frontier
            return
        if self._poll is not None:
            self._poll()
        self.statistics.steps += 1
        alone = self._alone(unbound)
        if alone is not None:
            yield from self._joined(alone, frontier, unbound, ramp)
            return
        estimates = dict(known)
        for var, rows, weights in self._choose(frontier, estimates, unbound):
            group = frontier if rows is None else frontier.take(rows)
            left = unbound - {var}
            keep = self.body.needed(left).union(self.wanted)
            fresh = self.grade.always_fresh
            lasting = {
                v: counts if rows is None else counts[rows]
                for v, counts in estimates.items()
                if not fresh and v in left and v not in self.body.influence[var]
            }
            for candidates in extend(group, var, weights, self.body, ramp, self.statistics):
                if len(candidates):
                    inherited = {v: counts[candidates.parents] for v, counts in lasting.items()}
                    yield from self._descend(candidates.bind(keep), inherited, left, ramp)
                    ramp.widen()

    def _choose(
        self, frontier: Frontier, estimates: dict[Var, Counts], unbound: frozenset[Var]
    ) -> Iterator[tuple[Var, Rows | None, Weights]]:
        """Groups of rows (None: all) with the variable they bind next, and who may propose it.

        Estimates that are missing are made, and put into `estimates`.
        """
        if len(unbound) == 1:
            (only,) = unbound
            weights = self._weigh(frontier, only)
            if weights.least is None:
                raise unbounded([only])
            yield only, None, weights
            return
        made: dict[Var, Weights] = {}
        for var in unbound:
            if var not in estimates:
                made[var] = self._weigh(frontier, var)
                counts = self.grade.measure(frontier, var, made[var], self.body)
                if counts is not None:
                    estimates[var] = counts
        if (cheaper := self.grade.next_best(self.statistics.proposed.total())) is not None:
            self.grade = cheaper
            self.statistics.grade += f", then {cheaper.name}"
        ready = [var for var in self.body.ranked if var in estimates]
        if not ready:
            raise unbounded(sorted(unbound))
        choice = np.empty(len(frontier), np.int64)
        kernels.choose(np.stack([estimates[var] for var in ready]), choice)
        for number, var in enumerate(ready):
            rows = np.flatnonzero(choice == number)
            if not len(rows):
                continue
            if len(rows) == len(frontier):
                yield var, None, made[var] if var in made else self._weigh(frontier, var)
                return
            if var in made:
                yield var, rows, made[var].take(rows)
            else:
                yield var, rows, self._weigh(frontier.take(rows), var)

    def _weigh(self, frontier: Frontier, var: Var) -> Weights:
        self.statistics.asked(var, len(frontier))
        return self.grade.weigh(frontier, var, self.body)

    def _alone(self, unbound: frozenset[Var]) -> Stored | None:
        """The atom that alone decides all that is left, if it is so."""
        open_ones = self.body.open(unbound)
        if len(unbound) > 1 and len(open_ones) == 1:
            (only,) = open_ones
            if isinstance(only, Stored) and len(only.relation.runs) == 1:
                return only if unbound <= only.variables else None
        return None

    def _joined(
        self, atom: Stored, frontier: Frontier, unbound: frozenset[Var], ramp: Ramp
    ) -> Iterator[Frontier]:
        for grown in atom.tuples(frontier, [v for v in self.body.ranked if v in unbound], ramp):
            for var in unbound:
                self.statistics.count(var, len(grown), len(grown))
                if self.statistics.details:
                    self.statistics.proposers[var, str(atom)] += len(grown)
            yield grown
            ramp.widen()


def unbounded(variables: Sequence[Var]) -> Exception:
    """The diagnostic for variables that nothing lists values for."""
    names = ", ".join(f"`{v}`" for v in variables)
    return error(
        "C013",
        f"nothing in the body gives values to {names}",
        help="add an atom, a set or a range that has it",
    )
