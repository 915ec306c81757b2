"""What one cell of a clique evaluates, and which facts go there.

Shares (choice.py) say how many slices each variable is cut into. The number of a cell is made of
one digit for each variable that is cut, its slice. Of every atom a cell has the facts that agree
with its digits; of a variable that the atom does not have, all do.

A value that many facts have would fill its slice. So for a variable with such heavy values, one of
its atoms is the *anchor*: there, facts with a heavy value are dealt out over all slices, by a hash
of the whole fact, and of the other atoms such facts are in every slice. Each solution is still
found in one cell: the one to which the facts of the anchors went.

`ByCell` says which relations have shares, `spread` cuts facts into them, a cell at a time, and
`in_cell` makes a program like any other: its scans read relations that have the facts of the cell
(`arc#0`), and whoever evaluates it need not know of cells. Heavy values are found in samples that
were taken wherever facts are (`sample_column`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, TypeAlias, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from caladan.columns.ranks import arrow_of
from caladan.data.schema import empty_table, table_of
from caladan.engines.spark.choice import Shares, product
from caladan.engines.spark.tasks.shard import group_facts, hashes, mix_bits, only, slices
from caladan.rules.body import Scan
from caladan.rules.program import DeltaProgram, DeltaRule

Hashes: TypeAlias = NDArray[np.uint64]
CellMask: TypeAlias = NDArray[np.bool_]
_UNEVEN: Final = 1.25  # times the facts that a slice should have
_HEAVY: Final = 4  # a heavy value has so many times less than a slice, or more


CellColumn: TypeAlias = "tuple[str, int]"


@dataclass(frozen=True, slots=True)
class HashSample:
    """Hashes of some values of a column: one of every `step`."""

    hashed: Hashes
    step: int


Samples: TypeAlias = "Mapping[CellColumn, HashSample]"


@dataclass(frozen=True, slots=True)
class CellCut:
    """A column of an atom that is cut: a cell has the facts of slice (cell // stride) % share.

    `heavy` are hashes of its heavy values; the anchor deals facts that have one out, and of other
    atoms they are in every slice.
    """

    column: int
    share: int
    stride: int
    heavy: tuple[int, ...] = ()
    is_anchor: bool = False

    def digit(self, cell: int) -> int:
        """The slice that a cell has."""
        return cell // self.stride % self.share

    def mask(self, cell: int, hashed: _Hashed) -> CellMask:
        """Which facts a cell has."""
        values, digit = hashed.column(self.column), self.digit(cell)
        mine = slices(values, self.share) == digit
        if not self.heavy:
            return mine
        heavy = np.isin(values, np.array(self.heavy, np.uint64))
        everywhere: Any = slices(hashed.dealt, self.share) == digit if self.is_anchor else True
        return np.where(heavy, everywhere, mine)


@dataclass(frozen=True, slots=True)
class CellShare:
    """A relation `name` of which each cell has those facts of relation `of` that all cuts leave."""

    name: str
    of: str
    cuts: tuple[CellCut, ...]


@dataclass(frozen=True, slots=True)
class ByCell:
    """How the facts of a clique are cut into cells.

    `reads` has for each rule, and each atom of it, the relation that the atom reads in a cell.
    """

    shares: tuple[CellShare, ...]
    whole: frozenset[str]
    """The relations that every cell has whole."""
    parts: int
    reads: tuple[tuple[str, ...], ...]
    cut: tuple[Shares, ...]

    @staticmethod
    def of(program: DeltaProgram, cut: Sequence[Shares], samples: Samples) -> ByCell:
        """That of the one clique of a program, given the shares of each rule's variables."""
        (clique,) = program.cliques
        names: dict[tuple[str, tuple[CellCut, ...]], str] = {}
        reads: list[tuple[str, ...]] = []
        whole: set[str] = set(clique.relations)
        for rule, shares in zip(clique.exit_rules, cut, strict=True):
            mine: list[str] = []
            for number, cuts in enumerate(_cuts(rule.body.atoms, shares, samples)):
                of = rule.body.atoms[number].relation
                if cuts:
                    mine.append(names.setdefault((of, cuts), f"{of}#{len(names)}"))
                else:
                    mine.append(of)
                    whole.add(of)
            reads.append(tuple(mine))
            whole.update(scan.relation for scan in rule.body.absents)
        found = tuple(CellShare(name, of, cuts) for (of, cuts), name in names.items())
        cells = max(product(list(each), each) for each in cut)
        return ByCell(found, frozenset(whole), cells, tuple(reads), tuple(cut))

    @property
    def sources(self) -> frozenset[str]:
        """The relations whose facts are cut."""
        return frozenset(share.of for share in self.shares)

    def spread(self, name: str, facts: pa.Table) -> Iterator[tuple[int, str, pa.Table]]:
        """Some facts of a relation, cut: the cell, the name of the share, and what it has."""
        mine = [share for share in self.shares if share.of == name]
        if not mine or not facts.num_rows:
            return
        hashed = _Hashed(facts)
        for share in mine:
            if any(cut.heavy for cut in share.cuts):
                for cell in range(self.parts):
                    mask: Any = True
                    for cut in share.cuts:
                        mask &= cut.mask(cell, hashed)
                    if mask.any():
                        yield cell, share.name, only(facts, mask)
                continue
            code = np.zeros(facts.num_rows, np.int64)
            for cut in share.cuts:
                code = code * cut.share + slices(hashed.column(cut.column), cut.share)
            found = dict(group_facts(facts, code))
            for cell in range(self.parts):
                wanted = 0
                for cut in share.cuts:
                    wanted = wanted * cut.share + cut.digit(cell)
                if wanted in found:
                    yield cell, share.name, found[wanted]


class _Hashed:
    """Hashes of facts, by column and of whole facts, once somebody asks for them."""

    def __init__(self, facts: pa.Table) -> None:
        self._facts = facts
        self._columns: dict[int, Hashes] = {}

    def column(self, number: int) -> Hashes:
        """Hashes of the values of a column."""
        if number not in self._columns:
            self._columns[number] = hashes(cast("Any", self._facts).column(number))
        return self._columns[number]

    @cached_property
    def dealt(self) -> Hashes:
        """Hashes of whole facts."""
        total = np.zeros(self._facts.num_rows, np.uint64)
        for number in range(self._facts.num_columns):
            total = mix_bits(total + self.column(number))
        return total


def sampled_columns(program: DeltaProgram, cut: Sequence[Shares]) -> frozenset[CellColumn]:
    """The columns that are cut, of which samples are wanted."""
    (clique,) = program.cliques
    found: set[CellColumn] = set()
    for rule, shares in zip(clique.exit_rules, cut, strict=True):
        for atom in rule.body.atoms:
            places = ((name, _place(atom, name)) for name, share in shares.items() if share > 1)
            found.update((atom.relation, place) for _, place in places if place is not None)
    return frozenset(found)


def sample_column(facts: pa.Table, column: int, step: int) -> Hashes:
    """Hashes of the values of a column in every `step`-th fact."""
    rows = np.arange(0, facts.num_rows, step)
    return hashes(cast("Any", facts).column(column).take(arrow_of(rows)))


def in_cell(
    program: DeltaProgram, shared: Mapping[str, pa.Table], cell: int, cut: ByCell
) -> tuple[DeltaProgram, dict[str, pa.Table]]:
    """The program of a cell, and its facts, given its shares and what all cells have whole."""
    (clique,) = program.cliques
    (head,) = clique.relations
    origins = {share.name: share.of for share in cut.shares}
    rules: list[DeltaRule] = []
    for rule, names, shares in zip(clique.exit_rules, cut.reads, cut.cut, strict=True):
        if cell < product(list(shares), shares):
            atoms = [replace(a, relation=n) for a, n in zip(rule.body.atoms, names, strict=True)]
            rules.append(replace(rule, body=rule.body.with_atoms(atoms)))
    relations = {head: program.relations[head]}
    store: dict[str, pa.Table] = {}
    written = dict[str, Any]()
    if cell:  # what the head is given is no solution of any rule
        relations[head] = replace(relations[head], takes_data=False)
    elif head in program.facts:
        written[head] = program.facts[head]
    if relations[head].takes_data:
        store[head] = shared[head]
    for name in {name for rule in rules for name in rule.body.read}:
        of = origins.get(name, name)
        info = program.relations[of]
        store[name] = shared.get(name, empty_table(info.columns))
        if rows := program.facts.get(of):
            facts = table_of(rows, info.columns)
            mine = [facts]
            if name in origins:
                mine = [f for c, to, f in cut.spread(of, facts) if (c, to) == (cell, name)]
            store[name] = pa.concat_tables([store[name], *mine])
        relations[name] = replace(info, name=name, takes_data=True, is_derived=False)
    own = replace(clique, exit_rules=tuple(rules))
    return replace(program, relations=relations, facts=written, cliques=(own,)), store


def _cuts(atoms: Sequence[Scan], shares: Shares, samples: Samples) -> Iterator[tuple[CellCut, ...]]:
    """For each atom of a body the cuts of its columns."""
    found: list[list[CellCut]] = [[] for _ in atoms]
    stride = 1
    for variable, share in shares.items():
        if share > 1:
            anchor, heavy = _heavy(atoms, variable, share, samples)
            hashed = tuple(map(int, heavy))
            for number, atom in enumerate(atoms):
                if (place := _place(atom, variable)) is not None:
                    is_anchor = bool(hashed) and number == anchor
                    found[number].append(CellCut(place, share, stride, hashed, is_anchor))
        stride *= share
    return (tuple(cuts) for cuts in found)


def _place(atom: Scan, variable: str) -> int | None:
    """The column of an atom that has a variable; None if none has."""
    named = (i for i, a in enumerate(atom.arguments) if getattr(a, "name", None) == variable)
    return next(named, None)


def _heavy(
    atoms: Sequence[Scan], variable: str, share: int, samples: Samples
) -> tuple[int, Hashes]:
    """The anchor of a variable, and its heavy values; the anchor is -1 if it has none."""
    met: list[tuple[float, int, Hashes]] = []
    for number, atom in enumerate(atoms):
        place = _place(atom, variable)
        sample = None if place is None else samples.get((atom.relation, place))
        if sample is None or not sample.hashed.size:
            continue
        size = sample.hashed.size
        sizes = np.bincount(slices(sample.hashed, share), minlength=share)
        if sizes.max() * share <= _UNEVEN * size:
            continue
        found, counts = np.unique(sample.hashed, return_counts=True)
        is_heavy = counts > max(size / (_HEAVY * share), 1)
        met.append((float(counts[is_heavy].sum()) * sample.step, number, found[is_heavy]))
    some = [each for each in met if each[2].size]
    if not some:
        return -1, np.zeros(0, np.uint64)
    anchor = max(some, key=lambda each: each[0])[1]
    return anchor, np.unique(np.concatenate([each[2] for each in some]))
