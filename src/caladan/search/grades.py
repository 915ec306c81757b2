"""Grades of estimate: how well the search knows what is left before it chooses.

| grade | what it compares |
|---|---|
| Jessica | the facts left in a whole constraint |
| Paul | the candidates of the constraint that has fewest, for one variable |
| Ghanima | the candidates that all constraints of the variable agree on |
| Leto | the candidates that extend to full results |

Each row of a frontier binds the variable whose number is smallest. All grades keep the search
within the AGM bound of the body: whoever proposes for a row has no more candidates there than any
constraint of the variable has facts left, and that is what the bound's proof needs. Counting an
intersection (Ghanima) costs as much as proposing it, which is within the bound too.

Leto is exact on acyclic bodies (leto.py); on others it does as Ghanima.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from caladan import thresholds
from caladan.columns.kernels import candidates as kernels
from caladan.errors import did_you_mean, error
from caladan.search.body import Body
from caladan.search.constraint import Counting, Listed
from caladan.search.constraints.relation import Stored
from caladan.search.extend import extend, stacked
from caladan.search.frontier import Counts, Frontier, Var
from caladan.search.leto import knows_all, reduced
from caladan.search.ramp import Ramp
from caladan.search.weights import Weights


class Grade(Protocol):
    """A way to estimate."""

    name: str
    always_fresh: bool  # whether an estimate may change though nothing near it was bound

    def prepare(self, body: Body, seed: Frontier) -> tuple[Body, Frontier]:
        """The body and the seed to search in; the answers must stay the same."""
        ...

    def weigh(self, frontier: Frontier, var: Var, body: Body) -> Weights:
        """What decides who proposes."""
        ...

    def measure(self, frontier: Frontier, var: Var, weights: Weights, body: Body) -> Counts | None:
        """What decides which variable is next; None if this one cannot be."""
        ...


class Paul:
    """The smallest proposal for one variable. The default."""

    name = "paul"
    always_fresh = False

    def prepare(self, body: Body, seed: Frontier) -> tuple[Body, Frontier]:
        """Nothing to prepare."""
        return body, seed

    def weigh(self, frontier: Frontier, var: Var, body: Body) -> Weights:
        """The estimates, and the lists themselves where they cost no more."""
        weights = Weights()
        for place, constraint in enumerate(body.of[var]):
            if isinstance(constraint, Listed) and len(constraint.variables) <= 2:
                lists = constraint.lists(frontier, var)
                if lists is not None:
                    weights.add(place, lists.counts, lists)
                    continue
            counts = constraint.estimate(frontier, var)
            if counts is not None:
                weights.add(place, counts)
        return weights

    def measure(self, frontier: Frontier, var: Var, weights: Weights, body: Body) -> Counts | None:
        """The least of them."""
        del frontier, var, body
        return weights.least


class Jessica(Paul):
    """The facts left in the whole constraint."""

    name = "jessica"

    def weigh(self, frontier: Frontier, var: Var, body: Body) -> Weights:
        """Facts left, where a constraint counts them."""
        weights = Weights()
        for place, constraint in enumerate(body.of[var]):
            if isinstance(constraint, Counting):
                weights.add(place, constraint.rows(frontier))
            elif (counts := constraint.estimate(frontier, var)) is not None:
                weights.add(place, counts)
        return weights


class Ghanima(Paul):
    """The size of the real intersection."""

    name = "ghanima"

    def measure(self, frontier: Frontier, var: Var, weights: Weights, body: Body) -> Counts | None:
        """Propose, confirm, and count what is left."""
        if weights.least is None:
            return None
        counts = weights.least.copy()
        if len(weights.lists) == len(body.of[var]) <= kernels.MOST_LISTS:
            kernels.count_common(*stacked(list(weights.lists.values())), counts)
            return counts
        short = np.flatnonzero(counts <= thresholds.now.search_counted)
        if len(short):
            part = frontier.take(short)
            ramp = Ramp.constant(thresholds.now.search_counting)
            found = np.zeros(len(short), np.int64)
            for candidates in extend(part, var, weights.take(short), body, ramp):
                found += np.bincount(candidates.parents, minlength=len(short))
            counts[short] = found
        return counts


class Leto(Ghanima):
    """How many proposals survive to full results."""

    name = "leto"
    always_fresh = True

    def __init__(self) -> None:
        self.exact = False

    def prepare(self, body: Body, seed: Frontier) -> tuple[Body, Frontier]:
        """Reduce the relations of an acyclic body."""
        smaller = reduced(body, seed)
        self.exact = smaller is not None
        return (body, seed) if smaller is None else smaller

    def measure(self, frontier: Frontier, var: Var, weights: Weights, body: Body) -> Counts | None:
        """The count of an atom that knows all that matters; the variable waits if none does."""
        if not self.exact:
            return super().measure(frontier, var, weights, body)
        for constraint in body.of[var]:
            if isinstance(constraint, Stored) and knows_all(constraint, frontier, body):
                lists = constraint.lists(frontier, var)
                assert lists is not None  # reduced relations have one run
                return lists.counts
        return None


GRADES: Final[dict[str, type[Paul]]] = {
    grade.name: grade for grade in (Jessica, Paul, Ghanima, Leto)
}


def grade_named(name: str) -> Grade:
    """A grade by its name."""
    if name not in GRADES:
        known = ", ".join(GRADES)
        raise error(
            "C050",
            f"there is no search grade `{name}`; there are {known}",
            help=did_you_mean(name, GRADES),
        )
    return GRADES[name]()
