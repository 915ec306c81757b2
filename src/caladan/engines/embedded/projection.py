"""Projection: columns of a large table that no rule reads are left out of its facts.

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
from collections.abc import Iterator, Mapping

from caladan.engines.embedded.tables import LoadedTable
from caladan.program import Constant, thresholds
from caladan.rules.body import Body, Scan, names
from caladan.rules.program import DeltaProgram


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
