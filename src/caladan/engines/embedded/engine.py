"""The embedded engine: takes data in through Arrow, runs cliques over words, hands tables out."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from caladan.analysis.core import CoreGoal
from caladan.columns.relation import StoredRelation
from caladan.columns.warmup import load_ahead
from caladan.data.load import load
from caladan.data.schema import arrow_schema, table_of
from caladan.engines.embedded.cache import EncodedCache
from caladan.engines.embedded.tables import DerivedTable, LoadedTable
from caladan.engines.interface import EngineStopped, InProcess, Table
from caladan.fixpoint.blueprint import blueprint
from caladan.fixpoint.fixpoint import Fixpoint
from caladan.fixpoint.limits import Limits
from caladan.fixpoint.living import Living
from caladan.join.classes import Classes
from caladan.program import Column
from caladan.program.clock import attended
from caladan.program.diagnostics import CaladanError
from caladan.program.events import DataRead, Listener, RelationHeld, RunDone, RunStarted
from caladan.program.options import Options
from caladan.rules.failures import LimitReached, interrupted
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    from caladan.data.source import Source


class EmbeddedEngine(InProcess):
    """Evaluates delta programs in this process."""

    name = "embedded"

    def __init__(self) -> None:
        self._cache = EncodedCache()

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, and the rows set aside."""
        started = time.perf_counter()
        load_ahead(source.paths)
        data, rejected = attended(
            lambda: load(name, source, columns, permissive=options.permissive)
        )
        return LoadedTable(columns, data, time.perf_counter() - started), rejected

    def run(
        self,
        program: DeltaProgram,
        store: Mapping[str, Table],
        options: Options,
        events: Listener,
    ) -> dict[str, Table]:
        """Tables for every derived relation of the program."""
        started = time.perf_counter()
        events.tell(RunStarted(self.name, len(program.cliques)))
        limits = Limits(options)
        plan = blueprint(program)
        classes = Classes(program)
        given = given_facts(program, store)
        derived = {name for clique in program.cliques for name in clique.relations}
        tables = _lasting(program, store, derived)
        others = [n for n in given if n not in tables and program.relations[n].takes_data]
        found = self._cache.find(classes, tables, others)
        words = classes.encode(given, found.domains, found.relations)
        made = self._cache.encoded(classes, tables)
        encoded = {name: [(columns, given[name].num_rows)] for name, columns in words.items()}
        evaluation = Fixpoint(plan, classes, encoded, limits, events, options.search)
        limits.memory.outside = self._cache.outside(found.relations.values())
        evaluation.adopt(found.relations)
        relations: tuple[str, ...] = ()
        try:
            for name in program.relations:
                if name not in derived and name not in found.relations:
                    evaluation.load(name)
            fresh = {n: evaluation.relation(n) for n in tables if n not in found.relations}
            self._cache.keep(classes, made, tables, fresh, limits.memory.most)
            _tell_reading(store, evaluation, events)
            for clique in program.cliques:
                relations = clique.origins
                evaluation.clique(clique)
        except LimitReached as reached:
            raise EngineStopped(
                reached.diagnostics[0], _tables(program, evaluation, classes)
            ) from None
        except MemoryError:
            reached = limits.out_of_memory()
            raise EngineStopped(
                reached.diagnostics[0], _tables(program, evaluation, classes)
            ) from None
        except KeyboardInterrupt:
            raise EngineStopped(
                interrupted(relations), _tables(program, evaluation, classes)
            ) from None
        for name, layout in evaluation.layouts().items():
            stored = layout if isinstance(layout, StoredRelation) else None
            spilled = 0 if stored is None else stored.spilled
            columns = [column.name for column in program.relations[name].columns]
            orders = [] if stored is None else stored.arranged(columns)
            held = (layout.count(), layout.nbytes, spilled)
            events.tell(RelationHeld(name, *held, layout.form, orders))
        events.tell(RunDone(time.perf_counter() - started))
        return _tables(program, evaluation, classes)

    def watch(
        self,
        program: DeltaProgram,
        store: Mapping[str, Table],
        options: Options,
        events: Listener,
    ) -> Living:
        """The relations of a program, to be kept true while facts come and go."""
        started = time.perf_counter()
        events.tell(RunStarted(self.name, len(program.cliques)))
        try:
            living = Living(program, given_facts(program, store), options, events)
        except LimitReached as reached:
            raise CaladanError(*reached.diagnostics) from None
        except MemoryError:
            raise CaladanError(*Limits(options).out_of_memory().diagnostics) from None
        events.tell(RunDone(time.perf_counter() - started))
        return living

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows that match a goal's constants and its repeated variables."""
        if isinstance(table, LoadedTable):
            table = table.distinct
        if not isinstance(table, DerivedTable):  # an empty table that stands in for one
            return table
        return table.answering(goal)


def _lasting(
    program: DeltaProgram, store: Mapping[str, Table], derived: Collection[str]
) -> dict[str, LoadedTable]:
    """The tables of relations that have all their facts from data, and are the same next time."""
    found: dict[str, LoadedTable] = {}
    for name, info in program.relations.items():
        if info.takes_data and name not in derived and not program.facts.get(name):
            table = store[name]
            if isinstance(table, LoadedTable) and info.columns:
                found[name] = table
    return found


def given_facts(program: DeltaProgram, store: Mapping[str, Table]) -> dict[str, pa.Table]:
    """The facts of every relation from data and from the program's text."""
    given: dict[str, pa.Table] = {}
    for name, info in program.relations.items():
        parts: list[pa.Table] = []
        if info.takes_data:
            table = store[name]
            data = table.data if isinstance(table, LoadedTable) else table.arrow()
            schema = arrow_schema(info.columns)
            same = not info.columns or data.schema.equals(schema)
            parts.append(data if same else data.cast(schema))
        if rows := program.facts.get(name):
            parts.append(table_of(rows, info.columns))
        if parts:
            given[name] = pa.concat_tables(parts) if len(parts) > 1 else parts[0]
    return given


def _tell_reading(store: Mapping[str, Table], evaluation: Fixpoint, events: Listener) -> None:
    """Tell of data that was read since the last run. What is stored has been counted already."""
    layouts = evaluation.layouts()
    for name, table in store.items():
        if isinstance(table, LoadedTable) and table.reading is not None:
            facts = layouts[name].count() if name in layouts else table.count()
            events.tell(DataRead(name, facts, table.reading))
            table.reading = None


def _tables(program: DeltaProgram, evaluation: Fixpoint, classes: Classes) -> dict[str, Table]:
    layouts = evaluation.layouts()
    tables: dict[str, Table] = {}
    for name, info in program.relations.items():
        if info.is_derived:
            if name not in layouts:
                evaluation.load(name)
                layouts = evaluation.layouts()
            domains = classes.columns(name)
            tables[name] = DerivedTable(info.columns, layouts[name], domains, info.order)
    return tables
