"""The embedded engine: takes data in through Arrow, runs cliques over words, hands tables out.

`EncodedCache` keeps the data of a session encoded: domains, and relations with the orders made of
them. A run encodes the columns that can meet in its rules as one class (join/classes.py). Another
run in which the same columns meet, or fewer of them, takes the words they have, and the sorted
runs. What a run computes is not kept: a domain that takes in computed values is handed out as it
was after the data was encoded.

What is kept goes when its data does (`db.add` gives other data, and no result needs the old), and
when it is more than a share of the memory that a run may have.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from caladan.analysis.core import CoreGoal
from caladan.columns.domains import CodedDomain, Domain, SortedDomain, fork, word_of
from caladan.columns.kernels import compilations
from caladan.columns.relation import StoredRelation
from caladan.columns.warmup import load_ahead
from caladan.data.missing import complete_table
from caladan.data.schema import arrow_schema, table_of
from caladan.engines.embedded.tables import DerivedTable, LoadedTable, Projection
from caladan.engines.interface import EngineStopped, InProcess, Table
from caladan.fixpoint.blueprint import Blueprint, blueprint
from caladan.fixpoint.fixpoint import Fixpoint
from caladan.fixpoint.limits import Limits, OutOfMemory, Spare
from caladan.join.classes import Class, Classes, ClassNode
from caladan.program import Column, thresholds
from caladan.program.clock import wait_for
from caladan.program.diagnostics import CaladanError
from caladan.program.events import DataRead, Listener, RelationHeld, RunDone, RunStarted
from caladan.program.options import Options
from caladan.rules.failures import LimitReached, MemoryReached, report_interrupt
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    from caladan.data.source import Source
    from caladan.incremental.program import IncrementalProgram

Place = tuple[int, int]  # a table by its number, and a column of it


@dataclass(eq=False, slots=True)
class ClassEntry:
    """A class of columns: its domain as it was when they were encoded."""

    known: Class
    places: frozenset[Place]
    domain: Domain


@dataclass(eq=False, slots=True)
class RelationEntry:
    """The facts of a table, in the words of some classes."""

    table: int
    classes: tuple[ClassEntry, ...]
    relation: StoredRelation


@dataclass(slots=True)
class CacheHit:
    """What a run need not encode: domains by class, relations by name."""

    domains: dict[ClassNode, Domain] = field(default_factory=dict[ClassNode, Domain])
    relations: dict[str, StoredRelation] = field(default_factory=dict[str, StoredRelation])


class EncodedCache:
    """What runs of a session left for the next."""

    def __init__(self) -> None:
        self._numbers: weakref.WeakKeyDictionary[LoadedTable, int] = weakref.WeakKeyDictionary()
        self._next = 0
        self._classes: list[ClassEntry] = []
        self._relations: list[RelationEntry] = []  # the last used one last

    @property
    def nbytes(self) -> int:
        """The bytes of all relations."""
        return sum(each.relation.nbytes for each in self._relations)

    def find(
        self, classes: Classes, tables: Mapping[str, LoadedTable], others: Iterable[str]
    ) -> CacheHit:
        """What is there for a program; `others` are given data that is no table of their own."""
        self._sweep()
        members = classes.members(tables)
        blocked = {root for name in others for root in classes.roots(name)}
        known = {
            root: self._class(each, self._places(nodes, tables))
            for root, (each, nodes) in members.items()
            if nodes and root not in blocked
        }
        kept: dict[str, RelationEntry] = {}
        for name, table in tables.items():
            own = [known.get(root) for root in classes.roots(name)]
            found = next((r for r in self._relations if self._is(r, table, own)), None)
            if found is not None:
                kept[name] = found
        # A class whose words somebody needs is encoded, and with it all that it meets.
        reused = {root for root, each in known.items() if each is not None}
        while True:
            whole = {n for n in kept if reused.issuperset(classes.roots(n))}
            still = {root for root in reused if all(n in whole for n, _ in members[root][1])}
            if still == reused:
                break
            reused = still
        result = CacheHit()
        for root in reused:
            each = known[root]
            assert each is not None
            result.domains[root] = fork(each.domain)
        for name in whole:
            if not classes.roots(name):
                continue
            self._relations.remove(kept[name])
            self._relations.append(kept[name])
            body = kept[name].relation
            domains = [result.domains[root] for root in classes.roots(name)]
            result.relations[name] = StoredRelation.sharing(domains, body)
        return result

    def encoded(
        self, classes: Classes, tables: Mapping[str, LoadedTable]
    ) -> dict[ClassNode, ClassEntry]:
        """The classes of a program that columns of tables are in, as they are now."""
        return {
            root: ClassEntry(each, self._places(nodes, tables), fork(classes.domain(root)))
            for root, (each, nodes) in classes.members(tables).items()
            if nodes
        }

    def keep(
        self,
        classes: Classes,
        made: Mapping[ClassNode, ClassEntry],
        tables: Mapping[str, LoadedTable],
        relations: Mapping[str, StoredRelation],
        most: int,
    ) -> None:
        """Keep relations for the next run, as far as the memory that one may have allows."""
        for name, relation in relations.items():
            own = tuple(made[root] for root in classes.roots(name) if root in made)
            if own and len(own) == relation.arity:
                number = self._number(tables[name])
                self._relations.append(RelationEntry(number, own, relation))
                self._classes += [each for each in own if each not in self._classes]
        while self._relations and self.nbytes * thresholds.now.kept_share > most:
            del self._relations[0]
        self._sweep()

    def outside(self, used: Iterable[StoredRelation]) -> int:
        """The bytes of what a run does not use."""
        own = {relation.body for relation in used}
        return sum(
            each.relation.nbytes for each in self._relations if each.relation.body not in own
        )

    def _class(self, known: Class, places: frozenset[Place]) -> ClassEntry | None:
        for each in reversed(self._classes):
            if (
                each.known.kind is known.kind
                and each.known.computed == known.computed
                and places <= each.places
                and all(self._has(each.domain, value) for value in known.constants)
            ):
                return each
        return None

    def _has(self, domain: Domain, value: object) -> bool:
        """Whether a constant has a word; a domain that grows will give it one."""
        if isinstance(domain, CodedDomain | SortedDomain) or not domain.grows:
            return word_of(value, domain) is not None  # pyright: ignore[reportArgumentType]
        return not domain.kind.is_coded or word_of(value, domain) is not None  # pyright: ignore[reportArgumentType]

    def _is(
        self, kept: RelationEntry, table: LoadedTable, classes: Sequence[ClassEntry | None]
    ) -> bool:
        return kept.table == self._numbers.get(table) and all(
            one is other for one, other in zip(kept.classes, classes, strict=True)
        )

    def _places(
        self, nodes: Iterable[tuple[str, int]], tables: Mapping[str, LoadedTable]
    ) -> frozenset[Place]:
        return frozenset((self._number(tables[name]), column) for name, column in nodes)

    def _number(self, table: LoadedTable) -> int:
        if table not in self._numbers:
            self._next += 1
            self._numbers[table] = self._next
        return self._numbers[table]

    def _sweep(self) -> None:
        """Let go of what is of data that nobody has any more, and of classes of no relation."""
        alive = set(self._numbers.values())
        self._relations = [each for each in self._relations if each.table in alive]
        used = {own for each in self._relations for own in each.classes}
        self._classes = [each for each in self._classes if each in used]


class EmbeddedEngine(InProcess):
    """Evaluates delta programs in this process."""

    name = "embedded"

    spare: Spare | None = None

    def __init__(self) -> None:
        self._cache = EncodedCache()

    def is_listed(self, table: Table) -> bool:
        """True if rules can read the table as they read data."""
        return isinstance(table, DerivedTable) and table.is_listed

    def nbytes(self, table: Table) -> int:
        """The bytes that a table holds."""
        return table.nbytes if isinstance(table, DerivedTable) else 0

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, and the rows set aside."""
        from caladan.data.load import load

        started = time.perf_counter()
        load_ahead(source.paths)
        data, rejected = wait_for(
            lambda: load(name, source, columns, permissive=options.permissive)
        )
        data, columns = complete_table(data, columns)
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
        with compilations(events):
            events.tell(RunStarted(self.name, len(program.cliques)))
            plan = blueprint(program)
            store = {name: _as_data(program, name, table) for name, table in store.items()}
            while (done := self._evaluated(program, plan, store, options, events, started)) is None:
                pass  # a table that lost facts that are counted is whole now
        return done

    def _evaluated(
        self,
        program: DeltaProgram,
        plan: Blueprint,
        store: Mapping[str, Table],
        options: Options,
        events: Listener,
        started: float,
    ) -> dict[str, Table] | None:
        """Tables for every derived relation; None if a table cannot do without some columns."""
        limits = Limits(options)
        classes = Classes(program)
        derived = {name for clique in program.cliques for name in clique.relations}
        projection = Projection(program, _find_lasting(program, store, derived))
        tables = projection.tables
        unread = {name for name, table in store.items() if isinstance(table, DerivedTable)}
        given = given_facts(program, store, unread)
        others = [n for n in given if n not in tables and program.relations[n].takes_data]
        found = self._cache.find(classes, tables, others)
        words = classes.encode(given, found.domains, found.relations, projection.unread)
        made = self._cache.encoded(classes, tables)
        encoded = {name: [(columns, given[name].num_rows)] for name, columns in words.items()}
        evaluation = Fixpoint(plan, classes, encoded, limits, events, options.search)
        limits.memory.outside = self._cache.outside(found.relations.values())
        limits.memory.spare = self.spare
        limits.memory.watch(classes.dictionaries())
        evaluation.adopt(found.relations)
        relations: tuple[str, ...] = ()
        is_memory = False
        try:
            for name in program.relations:
                if name not in derived and name not in found.relations and name not in unread:
                    evaluation.load(name)
            counts = {name: evaluation.relation(name).count() for name in tables}
            if not projection.is_faithful(counts):
                return None
            for name, count in counts.items():
                table = store[name]
                # Where columns are left out, no fact was lost if there are as many as rows.
                if isinstance(table, LoadedTable) and (
                    not any(each == name for each, _ in projection.unread)
                    or count == table.rows_given
                ):
                    table.facts = count
            fresh = {n: evaluation.relation(n) for n in tables if n not in found.relations}
            self._cache.keep(classes, made, tables, fresh, limits.memory.most)
            _tell_reading(store, evaluation, events)
            for clique in program.cliques:
                relations = clique.origins
                evaluation.clique(clique)
            _tell_held(program, evaluation, events)
            tables = _tables(program, evaluation, classes)
        except LimitReached as reached:
            why, is_memory = reached.diagnostics[0], isinstance(reached, MemoryReached)
        except MemoryError:
            why, is_memory = limits.out_of_memory().diagnostics[0], True
        except KeyboardInterrupt:
            why = report_interrupt(relations)
        else:
            events.tell(RunDone(time.perf_counter() - started))
            return tables
        for name, info in program.relations.items():
            if info.is_derived and name not in evaluation.layouts():
                with suppress(OutOfMemory):  # what is given is stored by then, and can be read
                    evaluation.load(name)
        derived_so_far = _tables(program, evaluation, classes)
        raise EngineStopped(why, derived_so_far, is_out_of_memory=is_memory)

    def watch(
        self,
        program: DeltaProgram,
        store: Mapping[str, Table],
        options: Options,
        events: Listener,
    ) -> IncrementalProgram:
        """The relations of a program, to be kept true while facts come and go."""
        from caladan.incremental.program import IncrementalProgram

        started = time.perf_counter()
        events.tell(RunStarted(self.name, len(program.cliques)))
        try:
            with compilations(events):
                maintained = IncrementalProgram(
                    program, given_facts(program, store), options, events
                )
        except LimitReached as reached:
            raise CaladanError(*reached.diagnostics) from None
        except MemoryError:
            raise CaladanError(*Limits(options).out_of_memory().diagnostics) from None
        events.tell(RunDone(time.perf_counter() - started))
        return maintained

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows that match a goal's constants and its repeated variables."""
        if isinstance(table, LoadedTable):
            table = table.distinct
        if not isinstance(table, DerivedTable):  # an empty table that stands in for one
            return table
        return table.answering(goal)


def _find_lasting(
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


def _as_data(program: DeltaProgram, name: str, table: Table) -> Table:
    """A table as rules read it; one that an earlier run derived, and no rule reads, as it is."""
    if not isinstance(table, DerivedTable):
        return table
    is_read = any(name in rule.body.read for rule in program.rules)
    return table.loaded if is_read else table


def given_facts(
    program: DeltaProgram, store: Mapping[str, Table], but: Collection[str] = ()
) -> dict[str, pa.Table]:
    """The facts of every relation, `but` some, from data and from the program's text."""
    given: dict[str, pa.Table] = {}
    for name, info in program.relations.items():
        if name in but:
            continue
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
            is_whole = name in layouts and not table.projection
            facts = layouts[name].count() if is_whole else table.data.num_rows
            events.tell(DataRead(name, facts, table.reading))
            table.reading = None


def _tell_held(program: DeltaProgram, evaluation: Fixpoint, events: Listener) -> None:
    """Tell in which form every relation is held, and what of it is on disk."""
    for name, layout in evaluation.layouts().items():
        stored = layout if isinstance(layout, StoredRelation) else None
        spilled = 0 if stored is None else stored.spilled
        columns = [column.name for column in program.relations[name].columns]
        orders = [] if stored is None else stored.arranged(columns)
        events.tell(RelationHeld(name, layout.count(), layout.nbytes, spilled, layout.form, orders))


def _tables(program: DeltaProgram, evaluation: Fixpoint, classes: Classes) -> dict[str, Table]:
    layouts = evaluation.layouts()
    return {
        name: DerivedTable(info.columns, layouts[name], classes.columns(name), info.order)
        for name, info in program.relations.items()
        if info.is_derived
    }
