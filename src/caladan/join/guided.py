"""The guided search: every row of a frontier chooses which variable it binds next.

    solve(constraints, wanted)   →   Bindings, Bindings, …

Each row takes the unbound variable with the smallest estimate, compared by bit length; ties go to
the larger influence, then to the order given. Rows are grouped by that choice, and a group is
extended by its variable: for each row whoever has the fewest values proposes, the others confirm.
Atoms do that as in any rule (`ProposeStep`), over the same runs, orders and views; a body in one
order of variables is the case in which all rows choose alike. What comes out is searched to its end
piece by piece, so a caller who stops asking stops the work; pieces grow 1, 8, 64, ….

Estimates live as long as nothing that influences them is bound: they go with the rows, in columns
of their own (`?x`). Where a single atom has all that is left, it is looked up: a plain join is the
last step of a search, not another operator.

What guides the search are grades (grades.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from caladan.columns.index import Matches
from caladan.columns.kernels import meet
from caladan.columns.layout import Counts, Words
from caladan.join.frontier import Bindings
from caladan.join.grades import Grade, grade_named
from caladan.join.parties import Party, StoredAtom, allowed
from caladan.join.statistics import Statistics
from caladan.join.steps import LookupStep, ProposeStep, kept
from caladan.program import thresholds
from caladan.program.diagnostics import error


def solve(
    constraints: Sequence[Party],
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


@dataclass(frozen=True, slots=True)
class Weights:
    """What the constraints of a variable would propose, row by row; it decides who does."""

    matches: Sequence[Matches | None]
    atoms: Counts | None
    others: Mapping[int, Counts]

    @property
    def least(self) -> Counts | None:
        """The fewest; None if nobody can propose."""
        every = [*self.others.values(), *(() if self.atoms is None else (self.atoms,))]
        return np.minimum.reduce(every) if every else None


class Meeting:
    """All that have a variable, where some others are bound: atoms, each under what is bound."""

    def __init__(
        self,
        var: str,
        atoms: Sequence[tuple[str, LookupStep]],
        others: Sequence[Party],
        statistics: Statistics,
    ) -> None:
        self.var = var
        self.others = others
        self.statistics = statistics
        self.step = ProposeStep(
            tuple(lookup for _, lookup in atoms), var, statistics, tuple(name for name, _ in atoms)
        )
        self._reads = frozenset[str]().union(*(each.variables for each in others))

    def weigh(self, frontier: Bindings) -> Weights:
        """What each would propose."""
        matches = self.step.matches(frontier)
        counted = ((i, each.estimate(frontier, self.var)) for i, each in enumerate(self.others))
        return Weights(
            matches,
            self.step.counts(matches, frontier.rows).min(axis=0) if matches else None,
            {i: counts for i, counts in counted if counts is not None},
        )

    def run(self, frontier: Bindings, weights: Weights, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer bindings, with the variables to keep."""
        needed = keep | self._reads | {self.var}
        if not weights.others:
            for longer in self.step.run(frontier, needed, weights.matches):
                yield kept(self._confirmed(longer, self.others), keep)
            return
        least = weights.least
        undecided = np.ones(frontier.rows, np.bool_)
        if weights.atoms is not None:
            undecided = weights.atoms != least
            for longer in self.step.run(frontier.where(~undecided), needed):
                yield kept(self._confirmed(longer, self.others), keep)
        for number, counts in weights.others.items():
            mine = undecided & (counts == least)
            undecided &= ~mine
            proposer = self.others[number]
            others = [each for i, each in enumerate(self.others) if i != number]
            for longer in proposer.propose(frontier.where(mine), self.var, counts[mine]):
                made = longer.rows
                self.statistics.share(self.var, (str(proposer),), (made,), made)
                longer = self.step.confirmed(longer)
                self.statistics.count(self.var, made, longer.rows)
                yield kept(self._confirmed(longer, others), keep)

    def _confirmed(self, longer: Bindings, others: Sequence[Party]) -> Bindings:
        before = longer.rows
        for each in others:
            if longer.rows:
                longer = each.confirm(longer, self.var)
        if longer.rows < before:
            self.statistics.count(self.var, 0, longer.rows - before)
        return longer


class SearchBody:
    """Constraints with what the search looks up about them; fixed before the search starts."""

    def __init__(self, constraints: Sequence[Party], order: Iterable[str]) -> None:
        self.constraints = tuple(constraints)
        self.atoms = tuple(c for c in constraints if isinstance(c, StoredAtom))
        self.others = tuple(c for c in constraints if not isinstance(c, StoredAtom))
        names = dict.fromkeys(order)
        names.update(dict.fromkeys(v for c in constraints for v in sorted(c.variables)))
        self.variables: tuple[str, ...] = tuple(names)
        self.influence: dict[str, frozenset[str]] = {
            v: frozenset[str]().union(*(c.influence(v) for c in constraints if v in c.variables))
            for v in self.variables
        }
        # How ties between equal estimates are broken: by influence, then by the order given.
        self.ranked: tuple[str, ...] = tuple(
            sorted(self.variables, key=lambda v: -len(self.influence[v]))
        )
        self._under: dict[tuple[str, frozenset[str]], list[tuple[str, LookupStep]]] = {}

    def meeting(
        self, var: str, bound: frozenset[str], statistics: Statistics | None = None
    ) -> Meeting:
        """Those that have a variable, where some are bound; one for trial counts for itself."""
        key = (var, bound & self.influence[var])
        if key not in self._under:
            having = [atom for atom in self.atoms if var in atom.variables]
            self._under[key] = [(str(atom), atom.under(bound, (var,))) for atom in having]
        others = [c for c in self.others if var in c.variables]
        return Meeting(var, self._under[key], others, statistics or Statistics())

    def replaced(self, constraints: Sequence[Party]) -> SearchBody:
        """The body with others in the place of its constraints."""
        return SearchBody(constraints, self.variables)

    def open(self, unbound: frozenset[str]) -> list[Party]:
        """The constraints that some unbound variables still matter to."""
        return [c for c in self.constraints if c.variables & unbound]

    @cached_property
    def names(self) -> dict[str, list[Party]]:
        """The constraints of each variable."""
        return {v: [c for c in self.constraints if v in c.variables] for v in self.variables}


def forget_unused(constraints: Sequence[Party], wanted: frozenset[str]) -> list[Party]:
    """Drop the variables that nobody wants and only one atom has: any value will do for them."""
    uses: dict[str, int] = {}
    for constraint in constraints:
        for var in constraint.variables:
            uses[var] = uses.get(var, 0) + 1
    unused = frozenset(v for v, count in uses.items() if count == 1 and v not in wanted)
    return [
        c.forget(unused) if isinstance(c, StoredAtom) and c.variables & unused else c
        for c in constraints
    ]


class Search:
    """A search with everything it looks up; `run` starts it."""

    def __init__(
        self,
        constraints: Sequence[Party],
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
        kept_ones = forget_unused(constraints, self.wanted | seed.columns.keys())
        body = SearchBody(kept_ones, wanted)
        self.body, self._seed = self.grade.prepare(body, seed)
        for var in self.wanted:
            if var not in seed.columns and not self.body.names.get(var):
                raise unbounded([var])
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
                    part = allowed(constraint, part)
            for found in self._descend(part, bound, unbound):
                self.statistics.results += found.rows
                yield kept(found, self.wanted)

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
            meeting = self.body.meeting(var, bound, self.statistics)
            weights = weights or self._weigh(part, bound, var)
            for longer in meeting.run(part, weights, keep):
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
                raise unbounded([only])
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
            raise unbounded(sorted(unbound))
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
        return self.body.meeting(var, bound, self.statistics).weigh(frontier)

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
                self.statistics.share(var, (str(atom),), (longer.rows,), longer.rows)
            yield longer


@dataclass(frozen=True, slots=True)
class ConsultStep:
    """A variable that atoms have, and a constraint of the user's, which may propose it."""

    meeting: Meeting

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        others = (each.variables for each in self.meeting.others)
        return self.meeting.step.reads.union(*others) - self.binds

    @property
    def binds(self) -> frozenset[str]:
        """The variable."""
        return frozenset((self.meeting.var,))

    def least(self, frontier: Bindings) -> Counts:
        """How many values the one with the fewest has, for each solution."""
        least = self.meeting.weigh(frontier).least
        assert least is not None  # there is an atom
        return least

    def run(self, frontier: Bindings, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer solutions, with the variables to keep."""
        yield from self.meeting.run(frontier, self.meeting.weigh(frontier), keep)


@dataclass(frozen=True, slots=True)
class SearchStep:
    """All atoms that are left of a rule, by the search; tests and negated atoms take part."""

    atoms: tuple[StoredAtom, ...]
    cuts: Sequence[Party]
    grade: str
    counting: bool
    statistics: Statistics

    @property
    def reads(self) -> frozenset[str]:
        """The variables that may be bound already."""
        return self.binds.union(*(each.variables for each in self.cuts))

    @property
    def binds(self) -> frozenset[str]:
        """The variables of the atoms."""
        return frozenset[str]().union(*(atom.variables for atom in self.atoms))

    def run(self, frontier: Bindings, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer solutions, with the variables to keep."""
        wanted = frozenset(name for name in keep if name in self.binds or name in frontier.columns)
        atoms = [atom.listed() if atom.is_fleeting else atom for atom in self.atoms]
        found = solve(
            [*atoms, *self.cuts],
            sorted(wanted | self.binds if self.counting else wanted),
            frontier,
            grade=self.grade,
            statistics=self.statistics,
        )
        for longer in found:
            yield kept(longer, wanted)


def _held(var: str) -> str:
    """The column in which rows have their estimate of a variable."""
    return f"?{var}"


def unbounded(variables: Sequence[str]) -> Exception:
    """The diagnostic for variables that nothing lists values for."""
    names = ", ".join(f"`{v}`" for v in variables)
    return error(
        "C013",
        f"nothing in the body gives values to {names}",
        help="add an atom, a set or a range that has it",
    )
