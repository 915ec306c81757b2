"""The reference engine: cliques in order, each by plain evaluation, over sets of tuples.

It is the oracle of the tests: it evaluates the program as it was written (analysis/written.py), and
shares no rewrite with the other engines, so that a mistake in one shows as a difference. A relation
in its hands is a set of Python tuples.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from caladan.analysis.core import CoreGoal
from caladan.analysis.missing import stand_in
from caladan.analysis.written import WrittenProgram
from caladan.data.load import load
from caladan.data.missing import complete_table
from caladan.data.schema import LocalTable, arrow_schema
from caladan.data.source import Source
from caladan.engines.interface import EngineStopped, InProcess, Table
from caladan.engines.reference.body import FactStore, Row, canonical, row_key, same, widen_value
from caladan.engines.reference.fixpoint import (
    NaiveFixpoint,
    NaiveLimits,
    cliques,
    evaluate_clique,
)
from caladan.program import NULL, Column, Value
from caladan.program.clock import wait_for
from caladan.program.events import CliqueDone, CliqueStarted, Listener, RunDone, RunStarted
from caladan.program.options import Options
from caladan.rules.failures import LimitReached, report_interrupt
from caladan.rules.program import Totals

if TYPE_CHECKING:
    import pyarrow as pa


class ReferenceEngine(InProcess):
    """Evaluates programs slowly and plainly."""

    name = "reference"

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, and the rows set aside."""
        table, rejected = wait_for(
            lambda: load(name, source, columns, permissive=options.permissive)
        )
        return from_arrow(*complete_table(table, columns)), rejected

    def evaluate(
        self,
        program: WrittenProgram,
        totals: Mapping[str, Totals | None],
        store: Mapping[str, Table],
        options: Options,
        events: Listener,
    ) -> dict[str, Table]:
        """Tables for every derived relation of the program."""
        started = time.perf_counter()
        found = cliques(program)
        events.tell(RunStarted(self.name, len(found)))
        given = {name: _list_given(program, store, name) for name in program.relations}
        facts = FactStore(given)
        run = NaiveFixpoint(program.relations, given, facts, totals, NaiveLimits(options), events)
        relations: tuple[str, ...] = ()
        try:
            for clique in found:
                relations = clique.relations
                clique_started = time.perf_counter()
                events.tell(CliqueStarted(relations, clique.is_recursive, "naive"))
                rounds = evaluate_clique(run, clique)
                seconds = time.perf_counter() - clique_started
                events.tell(CliqueDone(relations, rounds, facts.count(relations), seconds))
        except LimitReached as reached:
            raise EngineStopped(reached.diagnostics[0], _tables(program, facts)) from None
        except KeyboardInterrupt:
            raise EngineStopped(report_interrupt(relations), _tables(program, facts)) from None
        events.tell(RunDone(time.perf_counter() - started))
        return _tables(program, facts)

    def split(
        self, tables: Mapping[str, Table], columns: Mapping[str, tuple[Column, ...]]
    ) -> dict[str, Table]:
        """Tables with the columns that the compiler gave them: two for those that lack values."""
        return {
            name: split(table, columns[name])
            if name in columns and isinstance(table, ReferenceTable)
            else table
            for name, table in tables.items()
        }

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows that match a goal's constants and its repeated variables."""
        if not isinstance(table, ReferenceTable):  # an empty table that stands in for one
            return table
        rows = frozenset(row for row in table.rows if _matches(goal, row))
        return ReferenceTable(goal.columns, rows)


def _list_given(program: WrittenProgram, store: Mapping[str, Table], name: str) -> set[Row]:
    """A relation's facts from data and from the program's text."""
    info = program.relations[name]
    rows: set[Row] = {
        tuple(canonical(widen_value(v, t)) for v, t in zip(row, info.types, strict=True))
        for row in program.facts.get(name, ())
    }
    if info.takes_data:
        table = store[name]
        assert isinstance(table, ReferenceTable)
        rows |= merge_missing(table)
    return rows


def merge_missing(table: ReferenceTable) -> frozenset[Row]:
    """The rows with NULL for what is missing, without columns that tell of it."""
    if all(column.role != "present" for column in table.columns):
        return table.rows
    return frozenset(
        tuple(
            NULL if i and table.columns[i - 1].role == "present" and not row[i - 1] else row[i]
            for i, column in enumerate(table.columns)
            if column.role != "present"
        )
        for row in table.rows
    )


def split(table: ReferenceTable, columns: tuple[Column, ...]) -> ReferenceTable:
    """The same rows, with columns that tell whether there is a value where `columns` has some."""
    if len(columns) == len(table.columns):
        return table
    places: list[tuple[int, Column]] = []
    for column in columns:
        places.append((sum(c.role != "present" for _, c in places), column))
    rows = (
        tuple(
            row[i] is not NULL
            if column.role == "present"
            else canonical(stand_in(column.type))
            if row[i] is NULL and j and columns[j - 1].role == "present"
            else row[i]
            for j, (i, column) in enumerate(places)
        )
        for row in table.rows
    )
    return ReferenceTable(columns, frozenset(rows), table.rows_given)


def _tables(program: WrittenProgram, facts: FactStore) -> dict[str, Table]:
    return {
        name: ReferenceTable(info.columns, frozenset(facts[name]))
        for name, info in program.relations.items()
        if info.is_derived
    }


def _matches(goal: CoreGoal, row: Row) -> bool:
    return all(same(canonical(value), row[i]) for i, value in goal.constants) and all(
        same(row[one], row[other]) for one, other in goal.repeated
    )


@dataclass(frozen=True, slots=True)
class ReferenceTable(LocalTable):
    """Rows with typed columns."""

    columns: tuple[Column, ...]
    rows: frozenset[Row]
    rows_given: int | None = None

    def count(self) -> int:
        """How many facts."""
        return len(self.rows)

    def arrow(self, limit: int | None = None) -> pa.Table:
        """The facts, sorted by their columns from the left, so that every run shows the same."""
        import pyarrow as pa

        rows = sorted(self.rows, key=row_key)[:limit]
        schema = arrow_schema(self.columns)
        if not self.columns:
            return pa.table({"": pa.nulls(len(rows))}).select([])
        arrays = [
            pa.array([None if row[i] is NULL else row[i] for row in rows], type=field.type)
            for i, field in enumerate(schema)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)


def from_arrow(table: pa.Table, columns: tuple[Column, ...]) -> ReferenceTable:
    """The rows of an Arrow table, each once."""
    values: list[list[Value]] = [[canonical(v) for v in c.to_pylist()] for c in table.columns]
    rows = zip(*values, strict=True) if columns else [()] * table.num_rows
    return ReferenceTable(columns, frozenset(rows), table.num_rows)
