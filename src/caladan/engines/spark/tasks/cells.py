"""What one cell of a clique evaluates, taken from all facts. No exchange: every task has them all.

`shares` says how many slices each variable is cut into. The number of a cell is made of one digit
for each variable that is cut, its slice. Of every atom a cell has the facts that agree with its
digits; of a variable that the atom does not have, all do.

A value that many facts have would fill its slice. So for a variable with such heavy values, one of
its atoms is the *anchor*: there, facts with a heavy value are dealt out over all slices, by a hash
of the whole fact, and of the other atoms such facts are in every slice. Each solution is still
found in one cell: the one to which the facts of the anchors went.

`in_cell` makes a program like any other: its scans read relations that have the facts of the cell
(`arc#0`), and whoever evaluates it need not know of cells.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from caladan.data.schema import table_of
from caladan.engines.spark.tasks.shard import hashes, mixed, only, slices
from caladan.rules.body import Scan
from caladan.rules.program import DeltaProgram, DeltaRule

Hashes: TypeAlias = NDArray[np.uint64]
Mask: TypeAlias = NDArray[np.bool_]
Atom: TypeAlias = "tuple[Sequence[str], int]"
"""The variables of an atom, and how many facts it has."""

Shares: TypeAlias = "Mapping[str, int]"
"""How many slices each variable is cut into; one that is not named is not cut."""

SAMPLED: Final = 50_000  # facts of an atom that are looked at for heavy values
_UNEVEN: Final = 1.25  # times the facts that a slice should have
_HEAVY: Final = 4  # a heavy value has so many times less than a slice, or more


def shares(atoms: Sequence[Atom], cells: int) -> dict[str, int]:
    """The shares of all variables that atoms meet on, for at most so many cells.

    A cell gets of each atom one fact in as many as the shares of its variables multiply to; the
    shares are those that send it the fewest, and of these the ones with the fewest cells. Of equal
    ways, the one that cuts the variables that come first is taken: a search may start there.

    >>> shares([(("x", "y"), 100), (("y", "z"), 100), (("z", "x"), 100)], 8)
    {'x': 2, 'y': 2, 'z': 2}
    >>> shares([(("x", "y"), 1_000_000), (("y", "z"), 10), (("z", "x"), 10)], 4)
    {'x': 2, 'y': 2, 'z': 1}
    """
    seen = Counter(name for variables, _ in atoms for name in variables)
    names = [name for name, count in seen.items() if count > 1]
    ways = (dict(zip(names, way[::-1], strict=True)) for way in _ways(len(names), cells))

    def cost(shares: Shares) -> tuple[float, int]:
        load = sum(size / product(variables, shares) for variables, size in atoms)
        return load, product(names, shares)

    return min(ways, key=cost)


def product(variables: Collection[str], shares: Shares) -> int:
    """The shares of some variables, multiplied."""
    total = 1
    for name in variables:
        total *= shares.get(name, 1)
    return total


def digits(cell: int, shares: Shares) -> dict[str, int]:
    """The slice of each variable in a cell.

    >>> digits(5, {"x": 2, "y": 1, "z": 3})
    {'x': 1, 'y': 0, 'z': 2}
    """
    found: dict[str, int] = {}
    for name, share in shares.items():
        cell, found[name] = divmod(cell, share)
    return found


def _ways(variables: int, cells: int) -> Iterator[tuple[int, ...]]:
    """Shares whose product is at most `cells`; of many cells, powers of two will do."""
    if not variables:
        yield ()
        return
    few = cells <= 64
    steps = range(1, cells + 1) if few else (1 << i for i in range(cells.bit_length()))
    for step in steps:
        for rest in _ways(variables - 1, cells // step):
            yield (step, *rest)


def in_cell(
    program: DeltaProgram, facts: Mapping[str, pa.Table], cell: int, cut: Sequence[Shares]
) -> tuple[DeltaProgram, dict[str, pa.Table]]:
    """The program and the facts of a cell; for each rule of its one clique there are shares."""
    (clique,) = program.cliques
    (head,) = clique.relations
    given = _CellFacts(program, facts)
    rules: list[DeltaRule] = []
    for rule, shares in zip(clique.exit_rules, cut, strict=True):
        if cell < product(list(shares), shares):
            rules.append(_within(rule, _Body(given, rule.body.atoms, shares), cell))
    relations = {head: program.relations[head]}
    store: dict[str, pa.Table] = {}
    if cell == 0:  # what the head is given is no solution of any rule
        written = {head: program.facts[head]} if head in program.facts else {}
    else:
        relations[head] = replace(relations[head], takes_data=False)
        written = {}
    if relations[head].takes_data:
        store[head] = facts[head]
    for name in {name for rule in rules for name in rule.body.read}:
        origin, mask = given.chosen.get(name, (name, None))
        whole = given.table(origin)
        store[name] = whole if mask is None else only(whole, mask)
        info = program.relations[origin]
        relations[name] = replace(info, name=name, takes_data=True, is_derived=False)
    own = replace(clique, exit_rules=tuple(rules))
    made = replace(program, relations=relations, facts=written, cliques=(own,))
    return made, store


@dataclass(frozen=True, slots=True)
class _CellFacts:
    """The facts that all cells have, and what was taken from them for this one."""

    program: DeltaProgram
    facts: Mapping[str, pa.Table]
    chosen: dict[str, tuple[str, Mask]] = field(default_factory=dict)
    _hashed: dict[tuple[str, int], Hashes] = field(default_factory=dict)

    def table(self, name: str) -> pa.Table:
        """The facts of a relation, from data and from the program."""
        rows = self.program.facts.get(name)
        data = [self.facts[name]] if name in self.facts else []
        if rows or not data:
            data.append(table_of(rows or (), self.program.relations[name].columns))
        return pa.concat_tables(data) if len(data) > 1 else data[0]

    def hashed(self, name: str, column: int) -> Hashes:
        """Hashes of a column's values."""
        found = self._hashed.get((name, column))
        if found is None:
            found = self._hashed[name, column] = hashes(self.table(name).column(column))
        return found

    def dealt(self, name: str) -> Hashes:
        """Hashes of whole facts."""
        total = np.zeros(self.table(name).num_rows, np.uint64)
        for column in range(len(self.program.relations[name].columns)):
            total = mixed(total + self.hashed(name, column))
        return total

    def choose(self, name: str, mask: Mask) -> str:
        """A name for some facts of a relation; the same facts have the same name."""
        for known, (origin, other) in self.chosen.items():
            if origin == name and np.array_equal(other, mask):
                return known
        made = f"{name}#{len(self.chosen)}"
        self.chosen[made] = name, mask
        return made


@dataclass(frozen=True, slots=True)
class _Body:
    """A rule's atoms, and the shares of its variables."""

    given: _CellFacts
    atoms: Sequence[Scan]
    shares: Shares

    def hashed(self, number: int, variable: str) -> Hashes | None:
        """Hashes of a variable's values in an atom; None if the atom does not have it."""
        atom = self.atoms[number]
        for column, argument in enumerate(atom.arguments):
            if getattr(argument, "name", None) == variable:
                return self.given.hashed(atom.relation, column)
        return None

    def heavy(self, variable: str) -> tuple[int, Hashes]:
        """The anchor of a variable, and its heavy values; the anchor is -1 if it has none."""
        share = self.shares[variable]
        met: list[tuple[float, int, Hashes]] = []
        for number in range(len(self.atoms)):
            values = self.hashed(number, variable)
            if values is None or not values.size:
                continue
            sample = values[:: max(values.size // SAMPLED, 1)]
            sizes = np.bincount(slices(sample, share), minlength=share)
            if sizes.max() * share <= _UNEVEN * sample.size:
                continue
            found, counts = np.unique(sample, return_counts=True)
            is_heavy = counts > max(sample.size / (_HEAVY * share), 1)
            facts = float(counts[is_heavy].sum()) / sample.size * values.size
            met.append((facts, number, found[is_heavy]))
        some = [each for each in met if each[2].size]
        if not some:
            return -1, np.zeros(0, np.uint64)
        return max(some, key=lambda each: each[0])[1], np.concatenate([each[2] for each in some])


def _within(rule: DeltaRule, body: _Body, cell: int) -> DeltaRule:
    """The rule, with scans that read what the cell has of their relations."""
    masks: dict[int, Mask] = {}
    for variable, digit in digits(cell, body.shares).items():
        share = body.shares[variable]
        if share == 1:
            continue
        anchor, heavy = body.heavy(variable)
        for number, atom in enumerate(body.atoms):
            values = body.hashed(number, variable)
            if values is None:
                continue
            mine = slices(values, share) == digit
            if heavy.size:
                is_heavy = np.isin(values, heavy)
                everywhere: Any = True
                if anchor == number:
                    everywhere = slices(body.given.dealt(atom.relation), share) == digit
                mine = np.where(is_heavy, everywhere, mine)
            masks[number] = masks[number] & mine if number in masks else mine
    atoms = list(body.atoms)
    for number, mask in masks.items():
        name = body.given.choose(atoms[number].relation, mask)
        atoms[number] = replace(atoms[number], relation=name)
    return replace(rule, body=rule.body.with_atoms(atoms))
