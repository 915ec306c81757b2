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

Leto is exact on acyclic bodies (`reduced`); on others it does as Ghanima.

What Leto knows: an acyclic body reduced to the facts of its results.

`reduced` makes every relation of an acyclic body hold only facts that take part in some result;
comparisons and the like take part if one atom has all their variables. `knows_all` tells for which
atoms the candidates are then exactly those that survive: the body falls apart where variables are
bound; if all bound variables that touch an atom's part are the atom's own, any fact of it that
agrees with them extends to a result of its part, and the parts do not disturb each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol

import numpy as np

from caladan.columns.kernels import candidates as kernels
from caladan.join.hypergraph import join_tree
from caladan.join.search.body import SearchBody, reduce_fully
from caladan.join.search.constraint import Counting, Listed, allowed
from caladan.join.search.constraints.one_of import OneOf
from caladan.join.search.constraints.relation import Stored
from caladan.join.search.extend import Weights, extend, stacked
from caladan.join.search.frontier import Counts, Frontier, Ramp, Var, Words
from caladan.join.search.relation import SearchRelation, TrieRun
from caladan.join.search.trie import distinct_rows
from caladan.join.statistics import Statistics
from caladan.program import thresholds
from caladan.program.diagnostics import did_you_mean, error


def knows_all(atom: Stored, frontier: Frontier, body: SearchBody) -> bool:
    """Whether the atom has all bound variables of the part of the body it is connected to."""
    bound = frontier.bound
    inside = atom.variables - bound
    touched = atom.variables
    grown = True
    while grown:
        grown = False
        for other in body.constraints:
            if other.variables & inside and not other.variables <= touched:
                inside |= other.variables - bound
                touched |= other.variables
                grown = True
    return touched & bound <= atom.variables


def reduced(body: SearchBody, seed: Frontier) -> tuple[SearchBody, Frontier] | None:
    """The body over relations that have only facts of results; None if it cannot be done."""
    atoms = [c for c in body.constraints if isinstance(c, Stored | OneOf)]
    rest = [c for c in body.constraints if not isinstance(c, Stored | OneOf)]
    seeded = [seed.columns] if seed.columns else []
    names = [*(c.variables for c in atoms), *(frozenset(s) for s in seeded)]
    tree = join_tree(names) if atoms else None
    if tree is None or not all(any(c.variables <= n for n in names) for c in rest):
        return None
    tables = [_table(c) for c in atoms]
    counts = [count for _, count in tables] + [len(seed)] * len(seeded)
    columns = [table for table, _ in tables] + seeded
    for number, table in enumerate(columns):
        tags = np.arange(counts[number], dtype=np.int64)
        keep = np.ones(counts[number], np.bool_)
        for constraint in rest:
            if constraint.variables <= names[number]:
                keep &= allowed(constraint, Frontier(table, tags))
        columns[number] = {v: c[keep] for v, c in table.items()}
        counts[number] = int(np.count_nonzero(keep))
        if seeded and number == len(columns) - 1:
            seed = seed.take(np.flatnonzero(keep))
    masks = reduce_fully(columns, counts, tree)
    stored = [
        _stored({v: c[mask] for v, c in table.items()}, int(np.count_nonzero(mask)), of)
        for table, mask, of in zip(columns, masks, atoms, strict=False)
    ]
    if seeded:
        seed = seed.take(np.flatnonzero(masks[-1]))
    return SearchBody([*stored, *rest], body.variables), seed


def _table(atom: Stored | OneOf) -> tuple[dict[Var, Words], int]:
    """The distinct bindings an atom allows."""
    if isinstance(atom, OneOf):
        return {atom.var: atom.words}, len(atom.words)
    if not atom.variables:
        return {}, int(atom.holds(Frontier.start())[0])
    at = [i for i, a in enumerate(atom.arguments) if isinstance(a, str)]
    parts: list[list[Words]] = []
    for run in atom.relation.runs:
        keep = np.ones(run.count, np.bool_)
        for i, argument in enumerate(atom.arguments):
            if isinstance(argument, int):
                keep &= run.columns[i] == argument
        parts.append([run.columns[i][keep] for i in at])
    joined = [
        np.concatenate([np.empty(0, np.int64), *(p[k] for p in parts)]) for k in range(len(at))
    ]
    rows = distinct_rows(joined)
    return {str(atom.arguments[i]): c for i, c in zip(at, rows, strict=True)}, len(rows[0])


def _stored(table: dict[Var, Words], count: int, of: Stored | OneOf) -> Stored:
    name = of.name if isinstance(of, Stored) else str(of)
    if table:
        return Stored(SearchRelation.of(list(table.values())), list(table), name)
    return Stored(SearchRelation(0, [TrieRun([], count)]), [], name)


class Grade(Protocol):
    """A way to estimate."""

    name: str
    always_fresh: bool  # whether an estimate may change though nothing near it was bound

    def prepare(self, body: SearchBody, seed: Frontier) -> tuple[SearchBody, Frontier]:
        """The body and the seed to search in; the answers must stay the same."""
        ...

    def weigh(self, frontier: Frontier, var: Var, body: SearchBody) -> Weights:
        """What decides who proposes."""
        ...

    def measure(
        self, frontier: Frontier, var: Var, weights: Weights, body: SearchBody
    ) -> Counts | None:
        """What decides which variable is next; None if this one cannot be."""
        ...

    def next_best(self, proposed: int) -> Grade | None:
        """A cheaper grade to go on with, if estimates cost more than all that was proposed."""
        ...


class Paul:
    """The smallest proposal for one variable. The default."""

    name = "paul"
    always_fresh = False

    def prepare(self, body: SearchBody, seed: Frontier) -> tuple[SearchBody, Frontier]:
        """Nothing to prepare."""
        return body, seed

    def weigh(self, frontier: Frontier, var: Var, body: SearchBody) -> Weights:
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

    def measure(
        self, frontier: Frontier, var: Var, weights: Weights, body: SearchBody
    ) -> Counts | None:
        """The least of them."""
        del frontier, var, body
        return weights.least

    def next_best(self, proposed: int) -> Grade | None:
        """None: its estimates are lengths of lists."""
        del proposed


class Jessica(Paul):
    """The facts left in the whole constraint."""

    name = "jessica"

    def weigh(self, frontier: Frontier, var: Var, body: SearchBody) -> Weights:
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

    def __init__(self) -> None:
        self._spent = 0

    def next_best(self, proposed: int) -> Grade | None:
        """Paul, if far more was looked at for estimates than for proposals, on the first rows."""
        chosen = thresholds.now
        saves = self._spent <= max(chosen.search_sample, chosen.search_price * proposed)
        return None if saves else Paul()

    def measure(
        self, frontier: Frontier, var: Var, weights: Weights, body: SearchBody
    ) -> Counts | None:
        """Propose, confirm, and count what is left."""
        if weights.least is None:
            return None
        self._spent += int(weights.least.sum())
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
        super().__init__()
        self.exact = False

    def prepare(self, body: SearchBody, seed: Frontier) -> tuple[SearchBody, Frontier]:
        """Reduce the relations of an acyclic body."""
        smaller = reduced(body, seed)
        self.exact = smaller is not None
        return (body, seed) if smaller is None else smaller

    def measure(
        self, frontier: Frontier, var: Var, weights: Weights, body: SearchBody
    ) -> Counts | None:
        """The count of an atom that knows all that matters; the variable waits if none does."""
        if not self.exact:
            return super().measure(frontier, var, weights, body)
        for constraint in body.of[var]:
            if isinstance(constraint, Stored) and knows_all(constraint, frontier, body):
                lists = constraint.lists(frontier, var)
                assert lists is not None  # reduced relations have one run
                return lists.counts
        return None


def estimates(body: SearchBody, grade: str, statistics: Statistics) -> Iterator[str]:
    """A table: by variable what its constraints would propose for nothing bound, and the least.

    Behind it, once there was a search, what they did propose, and how much of it was in vain.
    """
    start, graded = Frontier.start(), grade_named(grade)
    width = max((len(var) for var in body.variables), default=0)
    yield f"search {grade}: estimates before anything is bound"
    for var in body.variables:
        found = [(c, c.estimate(start, var)) for c in body.of[var]]
        shown = (f"{c} {'-' if counts is None else int(counts[0])}" for c, counts in found)
        least = graded.measure(start, var, graded.weigh(start, var, body), body)
        stored = "-" if least is None else f"{int(least[0]):,}"
        yield f"  {var:<{width}}  {stored:>9}  of {', '.join(shown)}"
    if not statistics.steps:
        return
    yield f"searched by {statistics.grade}: {statistics.results:,} results"
    for var in body.variables:
        said = [
            f"{n:,} by {who}" for (of, who), n in statistics.proposers.most_common() if of == var
        ]
        proposed, wasted = statistics.proposed[var], statistics.wasted[var]
        asked = f"{statistics.estimated[var]:,} estimates"
        counts = f"{proposed:,} proposed, {wasted:,} wasted, {asked}"
        yield f"  {var:<{width}}  {counts}{': ' if said else ''}{', '.join(said)}"


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
