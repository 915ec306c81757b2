"""The one interface of the search: a constraint estimates, proposes, confirms.

Whatever restricts variables takes part in a search by these four methods: a stored relation, a
comparison, a Python set, a class of yours. Constraints hold no state of the search; they see
batches of bindings, never one at a time. What they promise (join/search/testing.py checks it):

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

The other protocols here are skills that a constraint may have besides; the search asks for them.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from caladan.join.search.frontier import Candidates, Counts, Frontier, Mask, Var, Words


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


@runtime_checkable
class Counting(Protocol):
    """Knows how many of its rows are left: what the grade Jessica goes by."""

    def rows(self, frontier: Frontier) -> Counts:
        """For each binding, how many facts agree with it."""
        ...


class Lists:
    """For each row of a frontier a sorted list of distinct words: `values[lo[i]:hi[i]]`."""

    __slots__ = ("hi", "lo", "values")

    def __init__(self, values: Words, lo: Counts, hi: Counts) -> None:
        self.values = values
        self.lo = lo
        self.hi = hi

    def take(self, rows: Counts | slice) -> Lists:
        """The lists of some rows."""
        return Lists(
            self.values, np.ascontiguousarray(self.lo[rows]), np.ascontiguousarray(self.hi[rows])
        )

    @property
    def counts(self) -> Counts:
        """Their lengths."""
        return self.hi - self.lo


@runtime_checkable
class Listed(Protocol):
    """Has its candidates as sorted lists, so that kernels can intersect them."""

    def lists(self, frontier: Frontier, var: Var) -> Lists | None:
        """The list for each row, or None if there is no such list at hand."""
        ...


def others(variables: frozenset[Var], var: Var) -> frozenset[Var]:
    """The usual influence: if a constraint has a variable, all its other variables."""
    return variables - {var} if var in variables else frozenset()


def allowed(constraint: Constraint, frontier: Frontier) -> Mask:
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
