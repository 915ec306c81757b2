"""Grades of estimate: how well the search knows what is left before it chooses.

| grade | what it compares |
|---|---|
| Jessica | the product of the candidates of all unbound variables of a constraint |
| Paul | the candidates of the constraint that has fewest, for one variable |
| Ghanima | the candidates that all constraints of the variable agree on |
| Leto | the candidates that extend to full results |

Each row of a frontier binds the variable whose number is smallest. All grades keep the search
within the AGM bound of the body: whoever proposes for a row has no more candidates there than any
constraint of the variable has facts left, and that is what the bound's proof needs. Counting an
intersection (Ghanima) costs as much as proposing it, which is within the bound too.

Leto is exact on acyclic bodies: semijoins up and down the tree of the body (Yannakakis;
hypergraph.py) leave in every relation the facts that take part in some result. Comparisons and the
like take part if one atom has all their variables. `_knows_all` tells for which atoms the
candidates are then exactly those that survive: the body falls apart where variables are bound; if
all bound variables that touch an atom's part are the atom's own, any fact of it that agrees with
them extends to a result of its part, and the parts do not disturb each other. On other bodies Leto
does as Ghanima.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from caladan.columns.layout import Counts
from caladan.columns.ranks import MOST
from caladan.columns.relation import StoredRelation
from caladan.join.constraints.atom import StoredAtom
from caladan.join.constraints.protocol import keep_allowed
from caladan.join.frontier import Bindings
from caladan.join.hypergraph import join_tree
from caladan.join.statistics import Statistics
from caladan.program import thresholds
from caladan.program.diagnostics import did_you_mean, error
from caladan.program.options import GRADE_ALIASES
from caladan.rules.body import Version

if TYPE_CHECKING:
    from caladan.columns.relation import ColumnDomain
    from caladan.join.intersection import SearchBody, Weights


class Grade(Protocol):
    """A way to estimate."""

    name: str
    always_fresh: bool  # whether an estimate may change though nothing near it was bound

    def prepare(self, body: SearchBody, seed: Bindings) -> tuple[SearchBody, Bindings]:
        """The body and the seed to search in; the answers must stay the same."""
        ...

    def measure(
        self, frontier: Bindings, body: SearchBody, bound: frozenset[str], var: str, of: Weights
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

    def prepare(self, body: SearchBody, seed: Bindings) -> tuple[SearchBody, Bindings]:
        """Nothing to prepare."""
        return body, seed

    def measure(
        self, frontier: Bindings, body: SearchBody, bound: frozenset[str], var: str, of: Weights
    ) -> Counts | None:
        """The least of them."""
        del frontier, body, bound, var
        return of.least

    def next_best(self, proposed: int) -> Grade | None:
        """None: its estimates are lengths of lists."""
        del proposed


class Jessica(Paul):
    """The work that a whole constraint may still be: the product of its unbound counts."""

    name = "jessica"

    def measure(
        self, frontier: Bindings, body: SearchBody, bound: frozenset[str], var: str, of: Weights
    ) -> Counts | None:
        """`|b| * |c|` for an atom with b and c unbound; other constraints estimate."""
        counts = list(of.others.values())
        for atom in body.atoms:
            if var in atom.variables:
                volume = np.ones(frontier.rows)
                for name in atom.variables - bound:
                    volume *= atom.under(bound, (name,)).counts(frontier)
                counts.append(np.minimum(volume, MOST // 2).astype(np.int64))
        return np.minimum.reduce(counts) if counts else None


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
        self, frontier: Bindings, body: SearchBody, bound: frozenset[str], var: str, of: Weights
    ) -> Counts | None:
        """Propose, confirm, and count what is left."""
        if (counts := of.least) is None:
            return None
        self._spent += int(counts.sum())
        if len(body.names[var]) == 1:
            return counts
        short = counts <= thresholds.now.search_counted
        if short.any():
            counts = counts.copy()
            counts[short] = _survivors(frontier.where(short), body, bound, var)
        return counts


def _survivors(frontier: Bindings, body: SearchBody, bound: frozenset[str], var: str) -> Counts:
    """How many values of a variable all constraints agree on, for each row."""
    rows = np.arange(frontier.rows, dtype=np.uint32)
    numbered = Bindings(frontier.rows, {**frontier.columns, "#": rows})
    found: Counts = np.zeros(frontier.rows, np.int64)
    trial = body.intersection(var, bound)
    for longer in trial.run(numbered, frozenset("#"), trial.weigh(numbered)):
        found += np.bincount(longer.columns["#"], minlength=frontier.rows)
    return found


class Leto(Ghanima):
    """How many proposals survive to full results."""

    name = "leto"
    always_fresh = True

    def __init__(self) -> None:
        super().__init__()
        self.exact = False

    def prepare(self, body: SearchBody, seed: Bindings) -> tuple[SearchBody, Bindings]:
        """Reduce the relations of an acyclic body."""
        smaller = _reduce(body, seed)
        self.exact = smaller is not None
        return (body, seed) if smaller is None else smaller

    def measure(
        self, frontier: Bindings, body: SearchBody, bound: frozenset[str], var: str, of: Weights
    ) -> Counts | None:
        """The count of an atom that knows all that matters; the variable waits if none does."""
        if not self.exact:
            return super().measure(frontier, body, bound, var, of)
        for atom in body.atoms:
            if var in atom.variables and _knows_all(atom, bound, body):
                return atom.under(bound, (var,)).counts(frontier)
        return None


def _knows_all(atom: StoredAtom, bound: frozenset[str], body: SearchBody) -> bool:
    """Whether the atom has all bound variables of the part of the body it is connected to."""
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


def _reduce(body: SearchBody, seed: Bindings) -> tuple[SearchBody, Bindings] | None:
    """The body over relations that have only facts of results; None if it cannot be done."""
    seeded = [seed] if seed.columns else []
    names = [*(a.variables for a in body.atoms), *(frozenset(s.columns) for s in seeded)]
    tree = join_tree(names) if body.atoms else None
    if tree is None or not all(any(c.variables <= n for n in names) for c in body.others):
        return None
    tables = [*(atom.table() for atom in body.atoms), *seeded]
    for number, table in enumerate(tables):
        for constraint in body.others:
            if constraint.variables <= names[number] and table.rows:
                table = keep_allowed(constraint, table)
        if not table.rows:
            table = Bindings(0, dict.fromkeys(names[number], np.empty(0, np.uint32)))
        tables[number] = table
    domains = {
        a: atom.relation.domains[i]
        for atom in body.atoms
        for i, a in enumerate(atom.arguments)
        if isinstance(a, str)
    }
    for ear, witness in tree.edges:
        tables[witness] = _semijoin(tables[witness], tables[ear], domains)
    for ear, witness in reversed(tree.edges):
        tables[ear] = _semijoin(tables[ear], tables[witness], domains)
    reduced: list[StoredAtom] = []
    for atom, table in zip(body.atoms, tables, strict=False):
        order = tuple(dict.fromkeys(a for a in atom.arguments if isinstance(a, str)))
        relation = store_columns(table, order, domains)
        reduced.append(StoredAtom(relation, Version.FULL, order, atom.name))
    return body.replaced([*reduced, *body.others]), tables[-1] if seeded else seed


def _semijoin(kept: Bindings, by: Bindings, domains: Mapping[str, ColumnDomain]) -> Bindings:
    """The rows that agree with some row of another table."""
    shared = sorted(kept.columns.keys() & by.columns.keys())
    if not by.rows or not kept.rows or not shared:
        return kept if by.rows else Bindings(0, {name: c[:0] for name, c in kept.columns.items()})
    known = store_columns(by, shared, domains)
    return kept.where(known.contains(tuple(kept.columns[v] for v in shared)))


def store_columns(
    table: Bindings, variables: Sequence[str], domains: Mapping[str, ColumnDomain]
) -> StoredRelation:
    """Some columns of bindings as a relation."""
    batches = [([table.columns[v] for v in variables], table.rows)] if table.rows else []
    return StoredRelation.of([domains[v] for v in variables], batches)


def estimates(body: SearchBody, grade: str, statistics: Statistics) -> Iterator[str]:
    """A table: by variable what its constraints would propose for nothing bound, and the least.

    Behind it, once there was a search, what they did propose, and how much of it was in vain.
    """
    start, graded, nothing = Bindings(1, {}), grade_named(grade), frozenset[str]()
    width = max((len(var) for var in body.variables), default=0)
    yield f"search {grade}: estimates before anything is bound"
    for var in body.variables:
        weights = body.intersection(var, nothing).weigh(start)
        found = [(c, c.estimate(start, var)) for c in body.names[var]]
        shown = (f"{c} {'-' if counts is None else int(counts[0])}" for c, counts in found)
        least = graded.measure(start, body, nothing, var, weights)
        known = "-" if least is None else f"{int(least[0]):,}"
        yield f"  {var:<{width}}  {known:>9}  of {', '.join(shown)}"
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
    """A grade by its name, or by what it compares: rows, values, intersection, exact."""
    name = GRADE_ALIASES.get(name, name)
    if name not in GRADES:
        known = ", ".join((*GRADES, *GRADE_ALIASES))
        raise error(
            "C050",
            f"there is no search grade `{name}`; there are {known}",
            help=did_you_mean(name, (*GRADES, *GRADE_ALIASES)),
        )
    return GRADES[name]()
