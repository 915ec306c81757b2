"""The search over relations of an engine: for bodies whose atoms form a cycle.

An engine that joins atom by atom may pile up far more partial solutions than a cyclic body has
results. It hands such atoms to `solve_atoms` instead: with what it has bound so far as columns of
words, it gets back longer columns, in batches, and with each row the number of the row it came
from. `is_cyclic` (hypergraph.py) tells which bodies are worth it.

Packed runs are read where they are. The tries made of a run live as long as the run does, so a
relation that does not change is sorted once for each order, however often it is searched.

`CyclicSearch` is that as a step of a body, where a run asks for a grade of it; tests and negated
atoms of the body take part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from caladan.columns import runs as columnar
from caladan.columns.layout import Counts, Mask, Words as EngineWords
from caladan.columns.relation import StoredRelation
from caladan.join.frontier import Bindings
from caladan.join.search.constraint import Constraint, completes
from caladan.join.search.constraints.relation import atom
from caladan.join.search.constraints.terms import Term
from caladan.join.search.frontier import Candidates, Frontier, Var, as_words
from caladan.join.search.relation import SearchRelation, TrieRun
from caladan.join.search.solve import solve
from caladan.join.statistics import Statistics
from caladan.join.steps import AbsentStep, Step, TestStep
from caladan.program import thresholds
from caladan.rules.body import Version

_ADOPTED: WeakKeyDictionary[columnar.Run, TrieRun] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class StoredAtom:
    """An atom: a version of a relation, and for each column a variable, a word, or None."""

    relation: StoredRelation
    version: Version
    arguments: tuple[Term | None, ...]
    name: str = "atom"


def solve_atoms(
    atoms: Sequence[StoredAtom],
    wanted: Sequence[Var],
    seed: Mapping[Var, EngineWords],
    rows: int = 1,
    *,
    cuts: Sequence[Step] = (),
    grade: str = "paul",
    width: int | None = None,
    statistics: Statistics | None = None,
    poll: Callable[[], None] | None = None,
) -> Iterator[tuple[Counts, dict[Var, EngineWords]]]:
    """For each batch of results the rows of the seed they extend, and the wanted columns.

    `seed` has the columns bound so far, all with `rows` rows; without columns it is one row.
    Variables that are not wanted and that one atom alone has are not bound at all, so a result
    comes once however many values they could have.
    """
    constraints: list[Constraint] = [
        atom(relation_of(a.relation, a.version), a.arguments, a.name) for a in atoms
    ]
    constraints += map(StepConstraint, cuts)
    columns = {v: as_words(words) for v, words in seed.items()}
    start = Frontier(columns, np.arange(rows, dtype=np.int64))
    width = width or thresholds.now.search_width
    batches = solve(
        constraints, wanted, start, grade=grade, width=width, first=width,
        statistics=statistics, poll=poll,
    )  # fmt: skip
    for batch in batches:
        yield batch.tags, {v: batch.columns[v].astype(np.uint32) for v in wanted}


def relation_of(stored: StoredRelation, version: Version) -> SearchRelation:
    """A version of an engine's relation as the search reads it."""
    if (packed := stored.packed()) is not None and not packed.is_hiding:
        runs = packed.index((), version).runs
        return SearchRelation(stored.arity, [_adopted(run) for run in runs])
    index = stored.index((), version)
    parts: list[tuple[EngineWords, ...]] = []
    for hits in stored.scan(version):
        alive = index.alive(hits)
        kept = hits if alive is None else hits[alive]
        parts.append(tuple(index.column(kept, c) for c in range(stored.arity)))
    columns = [np.concatenate([p[c] for p in parts]) for c in range(stored.arity) if parts]
    return SearchRelation(stored.arity, [TrieRun(columns, sum(len(p[0]) for p in parts if p))])


def _adopted(run: columnar.Run) -> TrieRun:
    if run not in _ADOPTED:
        packing = run.packing
        widths = [packing.widths[c] for c in packing.order]
        _ADOPTED[run] = TrieRun.of_keys(run.keys, packing.order, widths)
    return _ADOPTED[run]


@dataclass(frozen=True, slots=True)
class CyclicSearch:
    """All atoms that are left, at once; each row decides which variable is bound next."""

    atoms: tuple[StoredAtom, ...]
    cuts: Sequence[Step]
    grade: str
    counting: bool
    statistics: Statistics

    @property
    def reads(self) -> frozenset[str]:
        """The variables that may be bound already."""
        return self.binds.union(*(step.reads for step in self.cuts))

    @property
    def binds(self) -> frozenset[str]:
        """The variables of the atoms."""
        return frozenset(a for atom in self.atoms for a in atom.arguments if isinstance(a, str))

    def run(self, frontier: Bindings, keep: frozenset[str]) -> Iterator[Bindings]:
        """The longer solutions, with the variables to keep."""
        seed = {name: words for name, words in frontier.columns.items() if name in self.reads}
        new = self.binds - seed.keys()
        wanted = sorted(new if self.counting else new & keep)
        found = solve_atoms(
            self.atoms, wanted, seed, frontier.rows, cuts=self.cuts, grade=self.grade,
            statistics=self.statistics,
        )  # fmt: skip
        old = [name for name in frontier.columns if name in keep]
        for rows, columns in found:
            longer = frontier.at(rows.astype(np.uint32), old)
            longer.update((name, words) for name, words in columns.items() if name in keep)
            yield Bindings(len(rows), longer)


class StepConstraint:
    """A test or a negated atom of a body: it kills candidates once all its variables are bound."""

    def __init__(self, step: Step) -> None:
        self._step = step
        self.variables = step.reads

    def estimate(self, frontier: Frontier, var: Var) -> Counts | None:
        """Nothing: it has no values to propose."""
        del frontier, var

    def propose(self, frontier: Frontier, var: Var) -> Candidates:
        """Never asked, for it estimates nothing."""
        raise AssertionError(f"a test proposes no {var} for {len(frontier)} rows")

    def confirm(self, candidates: Candidates) -> None:
        """Kill what the step would throw out; arithmetic that fails is left to the step itself."""
        if not completes(self.variables, candidates):
            return
        rows = np.flatnonzero(candidates.alive)
        columns = {v: candidates.column(v)[rows].astype(np.uint32) for v in self.variables}
        columns["#"] = rows.astype(np.uint32)
        assert isinstance(self._step, AbsentStep | TestStep)
        try:
            left = self._step.apply(Bindings(len(rows), columns))
        except ArithmeticError:
            return
        holds: Mask = np.zeros(len(candidates), np.bool_)
        if left.rows:
            holds[left.columns["#"]] = True
        candidates.keep(holds)

    def influence(self, var: Var) -> frozenset[Var]:
        """Nobody's estimates change."""
        del var
        return frozenset()
