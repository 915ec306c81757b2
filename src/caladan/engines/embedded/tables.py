"""Tables: relations in the embedded engine's hands, decoded when somebody looks.

A `LoadedTable` is data as it came in, an Arrow table that may hold a fact twice; a `DerivedTable`
is a layout of words with the domains to read them by, perhaps only the part of it that answers a
goal.

A `Projection` leaves columns of a large table that no rule reads out of its facts.

    s(C, sum<Q * V>) <- sale(I, C, P, _, Q, _), prod(P, _, _, V)

Nobody asks which values such a column has. So it gets the same word in every row: facts are shorter
then, and texts that nobody looks at have no dictionary. Where a rule counts its solutions, rows
that differ in nothing else would be counted once; then, which shows when facts have been stored,
the table is taken whole.

A table is projected in one way. Another program that reads other columns of it takes it whole,
and what that encodes serves all that follow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from caladan.analysis.core import CoreGoal
from caladan.columns.domains import Domain, closed_domain, coded_domain, is_ordered, word_of
from caladan.columns.layout import Layout, Words, concatenate, first_rows, gather
from caladan.columns.ranks import CODED, arrow_ranks
from caladan.columns.relation import StoredRelation
from caladan.data.schema import ARROW, LocalTable, arrow_schema, compute as pc, empty_table
from caladan.fixpoint.cut import in_order, sorted_rows
from caladan.program import Column, Constant, thresholds
from caladan.program.kinds import kind_of
from caladan.rules.body import Body, Scan, names
from caladan.rules.program import DeltaProgram


class LoadedTable(LocalTable):
    """Data that was brought in; `reading` is how long that took, until somebody has told."""

    def __init__(
        self, columns: tuple[Column, ...], data: pa.Table, reading: float | None = None
    ) -> None:
        self.columns = columns
        self.data = data
        self.reading = reading
        self.rows_given: int | None = data.num_rows
        self.facts: int | None = None
        """How many facts there are, once a run has counted them."""
        self.projection: frozenset[int] | None = None
        """The columns that `projected` does without, once somebody has asked for it."""

    @cached_property
    def projected(self) -> LoadedTable:
        """The same data under a name of its own, for facts without some columns."""
        return LoadedTable(self.columns, self.data)

    def count(self) -> int:
        if self.facts is None:
            self.facts = self.distinct.count()
        return self.facts

    def arrow(self, limit: int | None = None) -> pa.Table:
        return self.distinct.arrow(limit)

    def first(self, rows: int) -> pa.Table | None:
        return self.distinct.first(rows)

    @cached_property
    def distinct(self) -> DerivedTable:
        """The facts, each once."""
        domains: list[Domain] = []
        words: list[Words] = []
        for column, data in zip(self.columns, self.data.columns, strict=True):
            kind = kind_of(column.type)
            if kind.is_coded:
                domain, encoded = coded_domain(kind, [data])
            else:
                domain, encoded = closed_domain(kind, [arrow_ranks(data, kind)])
            domains.append(domain)
            words += encoded
        relation = StoredRelation.of(domains, [(words, self.data.num_rows)])
        return DerivedTable(self.columns, relation, tuple(domains))


class Projection:
    """The tables of a program without the columns that its rules do not read."""

    def __init__(self, program: DeltaProgram, tables: Mapping[str, LoadedTable]) -> None:
        self.tables = dict(tables)
        self.unread: set[tuple[str, int]] = set()
        self._whole: dict[str, LoadedTable] = {}
        counted = {name for rule in program.rules if rule.body.counting for name in rule.body.read}
        large = {
            name: frozenset(range(len(table.columns)))
            for name, table in tables.items()
            if table.data.num_rows >= thresholds.now.projection
        }
        for body in (rule.body for rule in program.rules) if large else ():
            for name, columns in _read(body):
                if name in large:
                    large[name] -= columns
        for name, columns in large.items():
            table = tables[name]
            if columns and table.projection in (None, columns):
                table.projection = columns
                self.tables[name] = table.projected
                self.unread |= {(name, column) for column in columns}
                if name in counted:
                    self._whole[name] = table
            elif columns:
                table.projection = frozenset()

    def is_faithful(self, counts: Mapping[str, int]) -> bool:
        """Whether facts that are counted are as many as rows; else their tables are whole now."""
        lost = [name for name in self._whole if counts[name] < self._whole[name].data.num_rows]
        for name in lost:
            self._whole[name].projection = frozenset()
        return not lost


def _read(body: Body) -> Iterator[tuple[str, frozenset[int]]]:
    """By atom the columns whose values matter."""
    scans = (*body.atoms, *body.absents)
    uses = Counter(name for scan in scans for name in _variables(scan))
    read = body.needed.union(
        *map(names, body.conditions),
        *({each.variable} | names(each.expression) for each in body.bindings),
        *(absent.variables for absent in body.absents),
        (name for name, times in uses.items() if times > 1),
        # Whoever counts, and names a column, may do so for what tells its facts apart.
        (name for name in uses if body.counting and not name.startswith("_")),
    )
    for scan in scans:
        yield (
            scan.relation,
            frozenset(
                column
                for column, term in enumerate(scan.arguments)
                if isinstance(term, Constant) or term.name in read
            ),
        )


def _variables(scan: Scan) -> list[str]:
    return [term.name for term in scan.arguments if not isinstance(term, Constant)]


class DerivedTable(LocalTable):
    """Facts as words; with a goal, those that match its constants and repeated variables."""

    def __init__(
        self,
        columns: tuple[Column, ...],
        layout: Layout,
        domains: Sequence[Domain],
        order: tuple[tuple[int, bool], ...] = (),
        goal: CoreGoal | None = None,
    ) -> None:
        self.columns = columns
        self.layout = layout
        self.domains = tuple(domains)
        self.order = order
        self._goal = goal

    @property
    def is_listed(self) -> bool:
        """True if every fact has a place of its own: the layout is no shorter than the facts."""
        return isinstance(self.layout, StoredRelation)

    @cached_property
    def loaded(self) -> LoadedTable:
        """The same facts as data, for the rules of a later run."""
        return LoadedTable(self.columns, self.arrow())

    @property
    def nbytes(self) -> int:
        """The bytes of the facts, and of the same facts as data."""
        loaded = self.__dict__.get("loaded")
        return self.layout.nbytes + (0 if loaded is None else loaded.data.nbytes)

    def answering(self, goal: CoreGoal) -> DerivedTable:
        """The facts that match a goal."""
        return DerivedTable(goal.columns, self.layout, self.domains, self.order, goal)

    def count(self) -> int:
        if self._goal is None or not self._goal.is_bound:
            return self.layout.count()
        return sum(_rows(block) for block in self._blocks())

    def arrow(self, limit: int | None = None) -> pa.Table:
        """The facts in their order; without one, as the engine keeps them."""
        if not self.columns:
            rows = self.count() if limit is None else min(limit, self.count())
            return pa.table({"": pa.nulls(rows)}).select([])
        if limit is None and not self.order:  # words of many facts are not held beside their values
            parts = map(self._decoded, gather(self._blocks(), 4 * thresholds.now.block))
            return pa.concat_tables([*parts] or [empty_table(self.columns)])
        if self.order:
            words = concatenate(self._blocks(), len(self.columns))
        else:
            assert limit is not None
            words = first_rows(self._blocks(), len(self.columns), limit)
        if self.order:
            ranks = [in_order(d, d.ranks(w)) for d, w in zip(self.domains, words, strict=True)]
            rows = sorted_rows(ranks, self.order, len(ranks))[:limit]
            words = tuple(column[rows] for column in words)
        return self._decoded(words)

    def first(self, rows: int) -> pa.Table | None:
        """The first facts by value, where facts stand in the order of their values."""
        is_whole = not self.order and (self._goal is None or not self._goal.is_bound)
        packed = self.layout.packed() if isinstance(self.layout, StoredRelation) else None
        if not is_whole or packed is None or not all(map(is_ordered, self.domains)):
            return None
        return self._decoded(packed.first(rows)) if self.columns else None

    def _decoded(self, words: Sequence[Words]) -> pa.Table:
        arrays = [
            domain.arrow(column, ARROW[each.type])
            for domain, column, each in zip(self.domains, words, self.columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=arrow_schema(self.columns))

    def _blocks(self) -> Iterator[tuple[Words, ...]]:
        if self._goal is None or not self._goal.is_bound:
            yield from self.layout.blocks()
            return
        bound: dict[int, int] = {}
        for i, value in self._goal.constants:
            word = word_of(value, self.domains[i])
            if word is None:
                return
            bound[i] = word
        same = self._goal.repeated
        for block in self.layout.select(bound) if bound else self.layout.blocks():
            for one, other in same:
                keep = self._equal(block, one, other)
                block = tuple(column[keep] for column in block)
            yield block

    def _equal(self, block: tuple[Words, ...], one: int, other: int) -> Any:
        left, right = self.domains[one], self.domains[other]
        if left is right:
            return block[one] == block[other]
        if left.kind.is_coded:
            type = CODED[left.kind]
            values = [d.arrow(block[c], type) for d, c in ((left, one), (right, other))]
            return np.array(pc.call_function("equal", values))
        return left.ranks(block[one]) == right.ranks(block[other])


def _rows(block: tuple[Words, ...]) -> int:
    return len(block[0]) if block else 1
