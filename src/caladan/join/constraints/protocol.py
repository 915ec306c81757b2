"""The interface of constraints over values: estimate, propose, confirm, influence.

Whatever restricts variables takes part in a search by these four methods: a stored relation, a
comparison, a Python set, a class of yours. Constraints hold no state of the search; they see
batches of bindings, never one at a time. What they promise (search/testing.py checks it):

- `estimate(frontier, var)`: for each row, at least as many as `propose` would give; None if this
  constraint cannot list candidates for `var` with what is bound. Estimates steer cost, never the
  answer.
- `propose(frontier, var)`: every value of `var` that the constraint does not rule out, each at most
  once a row, and none that its own `confirm` would kill.
- `confirm(candidates)`: kills candidates that the constraint rules out. It must be exact once the
  candidates complete the constraint's variables; before that it may let doubtful ones live. It
  never adds and never revives.
- `influence(var)`: the variables whose estimates change when `var` gets a value.

A constraint without variables is confirmed once, with candidates for a variable that is nobody's.

`Partial` is a skill that a constraint may have besides; the search asks for it.

A `Frontier` has one array of words for each bound variable; row i of all of them is one partial
binding, and `tags[i]` its number. `Candidates` are values for one more variable, each with the row
it would extend (`parents`) and whether it is still alive. Counts are one int64 for each row. Words
are ranks (columns/ranks.py): the search has others, and translates (values.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from caladan.columns.layout import Counts, Mask
from caladan.join.frontier import Bindings

if TYPE_CHECKING:
    from caladan.join.extend import ExtendStep

Var: TypeAlias = str
Codes: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = NDArray[np.int64]


def as_words(values: ArrayLike) -> Codes:
    """An array of 64-bit words, contiguous; no copy if it is one already."""
    return np.ascontiguousarray(values, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """Partial bindings, column by column. All arrays have one length."""

    columns: Mapping[Var, Codes]
    tags: Rows

    @staticmethod
    def start() -> Frontier:
        """One row that binds nothing: where a search without a seed begins."""
        return Frontier({}, np.zeros(1, np.int64))

    @staticmethod
    def of(columns: Mapping[Var, ArrayLike]) -> Frontier:
        """A seed: the rows of some columns, tagged with their numbers."""
        words = {var: as_words(column) for var, column in columns.items()}
        lengths = {len(column) for column in words.values()}
        if len(lengths) > 1:
            raise ValueError(f"columns of a frontier differ in length: {sorted(lengths)}")
        return Frontier(words, np.arange(lengths.pop() if lengths else 1, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.tags)

    @property
    def bound(self) -> frozenset[Var]:
        """The variables that have values."""
        return frozenset(self.columns)

    def take(self, rows: Rows | slice, keep: Iterable[Var] | None = None) -> Frontier:
        """Some rows, in the order given, of all columns or of those to keep."""
        names = self.columns if keep is None else [v for v in self.columns if v in set(keep)]
        return Frontier({v: self.columns[v][rows] for v in names}, self.tags[rows])

    def rows(self, variables: Iterable[Var]) -> list[tuple[int, ...]]:
        """Each binding as a tuple of the words of some variables."""
        columns = [self.columns[v].tolist() for v in variables]
        return list(zip(*columns, strict=True)) if columns else [()] * len(self)

    def without(self, var: Var) -> Frontier:
        """The same rows as if one variable had no value yet."""
        return Frontier({v: c for v, c in self.columns.items() if v != var}, self.tags)


@dataclass(slots=True, eq=False)
class Candidates:
    """Values for `var`, each tagged with the row of `frontier` it would extend.

    `alive` only ever goes from true to false; `keep` is how a constraint does that.
    """

    frontier: Frontier
    var: Var
    values: Codes
    parents: Rows
    alive: Mask

    @staticmethod
    def of(frontier: Frontier, var: Var, values: ArrayLike, parents: ArrayLike) -> Candidates:
        """Candidates that are all alive."""
        words = as_words(values)
        return Candidates(frontier, var, words, as_words(parents), np.ones(len(words), np.bool_))

    @staticmethod
    def held(frontier: Frontier, var: Var) -> Candidates:
        """The values a frontier already has for a variable, as candidates for it."""
        rows = np.arange(len(frontier), dtype=np.int64)
        return Candidates.of(frontier.without(var), var, frontier.columns[var], rows)

    def __len__(self) -> int:
        return len(self.values)

    def column(self, var: Var) -> Codes:
        """The value of a variable for each candidate: proposed, or taken from its row."""
        return self.values if var == self.var else self.frontier.columns[var][self.parents]

    @property
    def bound(self) -> frozenset[Var]:
        """The variables that have values once a candidate is taken."""
        return self.frontier.bound | {self.var}

    def keep(self, which: Mask) -> None:
        """Kill the candidates that are not among `which`."""
        self.alive &= which

    def living(self) -> Candidates:
        """The candidates that are alive, in order."""
        if self.alive.all():
            return self
        alive = np.flatnonzero(self.alive)
        return Candidates.of(self.frontier, self.var, self.values[alive], self.parents[alive])

    def copy(self) -> Candidates:
        """The same candidates with a life of their own."""
        return Candidates(self.frontier, self.var, self.values, self.parents, self.alive.copy())

    def bind(self, keep: Iterable[Var]) -> Frontier:
        """The frontier in which living candidates are bindings, with the columns to keep."""
        living = self.living()
        wanted = set(keep)
        columns = {v: c[living.parents] for v, c in self.frontier.columns.items() if v in wanted}
        if self.var in wanted:
            columns[self.var] = living.values
        return Frontier(columns, self.frontier.tags[living.parents])


@runtime_checkable
class Constraint(Protocol):
    """Anything in a body that restricts variables."""

    @property
    def variables(self) -> frozenset[Var]:
        """The variables it restricts."""
        ...

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """An upper bound of the candidates for `var`, for each binding."""
        ...

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """Values of `var`, each tagged with the binding it extends."""
        ...

    def confirm(self, candidates: Candidates) -> None:
        """Kill the candidates it rules out."""
        ...

    def influence(self, var: Var) -> frozenset[Var]:
        """Whose estimates change when `var` is bound."""
        ...


@runtime_checkable
class Partial(Protocol):
    """Can propose a part of what it has for one binding: for lists too long to hold."""

    def propose_part(self, frontier: Frontier, var: Var, skip: int, limit: int) -> Candidates:
        """Of the candidates for a frontier of one row, those after `skip`, at most `limit`."""
        ...


def others(variables: frozenset[Var], var: Var) -> frozenset[Var]:
    """The usual influence: if a constraint has a variable, all its other variables."""
    return variables - {var} if var in variables else frozenset()


def find_allowed(constraint: Constraint, frontier: Frontier) -> Mask:
    """Which rows a constraint allows, as far as its variables are bound."""
    bound = constraint.variables & frontier.bound
    if bound:
        held = Candidates.held(frontier, min(bound))
    else:
        nothing = np.zeros(len(frontier), np.int64)
        rows = np.arange(len(frontier), dtype=np.int64)
        held = Candidates.of(frontier, "", nothing, rows)
    if bound or not constraint.variables:
        constraint.confirm(held)
    return held.alive


def completes(variables: frozenset[Var], candidates: Candidates) -> bool:
    """Whether candidates give the last of some variables their values."""
    last = candidates.var in variables or not variables
    return last and variables <= candidates.bound


class JoinConstraint(Protocol):
    """Whatever restricts variables."""

    @property
    def variables(self) -> frozenset[str]:
        """The variables it restricts."""
        ...

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """How many values it has for a variable, at most, for each row; None if it lists none."""
        ...

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """The rows with values of a variable; `counts` is its estimate."""
        ...

    def confirm(self, frontier: Bindings, var: str) -> Bindings:
        """The rows that it does not rule out; `var` got its value last."""
        ...

    def influence(self, var: str) -> frozenset[str]:
        """Whose estimates change when a variable is bound."""
        ...


class BodyConstraint:
    """A `JoinConstraint` at its place in a body, where it is settled what is bound before it.

    It `reads` some variables and `binds` others. One that is `single` gives a row at most one
    solution, by `apply`; one that is `pure` makes no words and may be asked by several threads.
    """

    is_single = True
    is_pure = True

    @property
    def reads(self) -> frozenset[str]:
        """The variables it needs."""
        raise NotImplementedError

    @property
    def binds(self) -> frozenset[str]:
        """The variables it binds."""
        return frozenset()

    @property
    def variables(self) -> frozenset[str]:
        """The variables it restricts."""
        return self.reads | self.binds

    @property
    def part(self) -> Sequence[ExtendStep]:
        """The steps of the part of the body that it stands for."""
        return ()

    def apply(self, frontier: Bindings) -> Bindings:
        """The rows that it allows, with what it binds."""
        raise NotImplementedError

    def estimate(self, frontier: Bindings, var: str) -> Counts | None:
        """One value, if it computes the variable."""
        is_known = var in self.binds and self.reads <= frontier.columns.keys()
        return np.ones(frontier.rows, np.int64) if is_known else None

    def propose(self, frontier: Bindings, var: str, counts: Counts) -> Iterator[Bindings]:
        """The rows with the one value that it computes."""
        del var, counts
        yield self.apply(frontier)

    def confirm(self, frontier: Bindings, var: str = "") -> Bindings:
        """The rows that it allows, once all that it reads is bound."""
        del var
        return self.apply(frontier) if self.reads <= frontier.columns.keys() else frontier

    def influence(self, var: str) -> frozenset[str]:
        """What it computes."""
        return self.binds - {var} if var in self.reads else frozenset()

    def prepare(self) -> None:
        """Make the indexes that it reads, before several threads want them at once."""

    def restart(self) -> None:
        """Forget what was found so far: relations have changed since."""


def keep_allowed(constraint: JoinConstraint, frontier: Bindings) -> Bindings:
    """The rows that a constraint allows, as far as its variables are bound."""
    bound = constraint.variables & frontier.columns.keys()
    if constraint.variables and not bound:
        return frontier
    return constraint.confirm(frontier, min(bound, default=""))
