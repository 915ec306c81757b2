"""The data of a session: what was added, its columns where nobody declares them, and its tables.

A table is loaded when a program first needs it, and kept for the next one. A `snapshot` is what a
result holds on to: relations that it evaluates later see the data of its own run. Session and
snapshots share a `Shelf` of tables; what none of them has a source for any more is let go of.

What leaves is to look as what came in did, and only the data knows how that was. So what is known
of the columns of data flows along the rules into those that are derived, until no rule adds to it:

    origins   the columns of data themselves: whether Spark called them nullable, and their
              datetimes timestamps, is asked of each
    widths    how many digits a column of decimals may have. Inside, every decimal has 38 digits, 18
              of them after the point; on the way out a column gets the width of the data, if its
              values come from one place; the least that holds all of them, if they come from
              several; the full width, if they are computed
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar
from weakref import WeakSet

from caladan.analysis.core import CoreRule, RelationInfo
from caladan.data.missing import find_lacking, values
from caladan.engines.interface import CountsRows, Engine, Table, stoppable
from caladan.engines.missing import shown
from caladan.pipeline import Compiled
from caladan.program import Aggregate, Column, Constant, Expression, Variable
from caladan.program.aggregates import row_of
from caladan.program.diagnostics import Diagnostic, Diagnostics, Span, error
from caladan.program.events import DataRead, Listener
from caladan.program.notation import Widths, width_of
from caladan.program.objects import Objects, first_object
from caladan.program.options import Options
from caladan.program.types import WIDEST, Type, Width, wider
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.data.formats import Look
    from caladan.data.source import Source
    from caladan.session.materialized import Materialized

T = TypeVar("T")

SourceVersion: TypeAlias = tuple[str, int]
"""A column of data: the name that the user has for the relation, and the place of the column."""

MADE: Final[SourceVersion] = ("", 0)
"""The origin of values that a rule computes, or that the program has."""


def origins(program: DeltaProgram) -> dict[str, tuple[frozenset[SourceVersion], ...]]:
    """The origins of all relations' columns."""
    known: dict[tuple[str, int], frozenset[SourceVersion]] = {}
    for name, info in program.relations.items():
        for i in range(info.arity):
            given = {(info.origin, i)} if info.takes_data else set[SourceVersion]()
            known[name, i] = frozenset(given | ({MADE} if program.facts.get(name) else set()))

    def of(argument: Expression, rule: CoreRule) -> frozenset[SourceVersion]:
        places = _places(argument, rule)
        return frozenset().union(*map(known.__getitem__, places)) if places else frozenset({MADE})

    _flow(program, known, of, frozenset.union)
    return {
        name: tuple(known[name, i] for i in range(info.arity))
        for name, info in program.relations.items()
    }


def widths(program: DeltaProgram, given: Mapping[str, Widths]) -> dict[str, Widths]:
    """The widths of all relations' columns; `given` has those of data.

    A column that nothing flows into, and one that is not of decimals, is as wide as can be.
    """
    known: dict[tuple[str, int], Width] = {}
    for name, info in program.relations.items():
        for i, type in enumerate(info.types):
            if type is Type.DECIMAL:
                found = [width_of(fact[i]) for fact in program.facts.get(name, ())]
                if info.takes_data:
                    found.append(given[name][i] if name in given else WIDEST)
                if found:
                    known[name, i] = reduce(wider, found)

    def _width(name: str, i: int) -> Width | None:
        type = program.relations[name].types[i]
        return known.get((name, i)) if type is Type.DECIMAL else type.width

    def of(argument: Expression, rule: CoreRule) -> Width | None:
        if isinstance(argument, Constant):
            return width_of(argument.value)
        places = _places(argument, rule)
        return _in_all(_width(*place) for place in places) if places else WIDEST

    _flow(program, known, of, wider)
    return {
        name: tuple(
            known.get((name, i), WIDEST) if type is Type.DECIMAL else type.width
            for i, type in enumerate(info.types)
        )
        for name, info in program.relations.items()
    }


def _flow(
    program: DeltaProgram,
    known: dict[tuple[str, int], T],
    of: Callable[[Expression, CoreRule], T | None],
    both: Callable[[T, T], T],
) -> None:
    """Have what is known of columns flow into the heads of rules, until no rule adds to it.

    `of` is what is known of an argument, None while that is nothing; `both` holds two of them.
    """
    rules = list({each.rule.place: each.rule for each in program.rules}.values())
    is_growing = True
    while is_growing:
        is_growing = False
        for rule in rules:
            for i, argument in enumerate(rule.arguments):
                found, before = of(_find_carried(argument), rule), known.get((rule.head, i))
                if found is not None:
                    after = found if before is None else both(before, found)
                    known[rule.head, i] = after
                    is_growing |= after != before


def _find_carried(argument: Expression) -> Expression:
    """What the values of an argument are, where its aggregate makes no new ones."""
    if isinstance(argument, Aggregate) and row_of(argument).is_selective:
        return argument.terms[-1]
    return argument


def _places(argument: Expression, rule: CoreRule) -> list[tuple[str, int]]:
    """The columns that a variable is bound by; none for what is computed."""
    return [
        (atom.relation, i)
        for atom in rule.positive
        for i, term in enumerate(atom.arguments)
        if isinstance(argument, Variable) and term == argument
    ]


def _in_all(found: Iterable[Width | None]) -> Width | None:
    """The width of values that are in several places at once: the narrowest will do."""
    met = list(found)
    if None in met:
        return None
    return reduce(_narrower, (width for width in met if width is not None))


def _narrower(one: Width, other: Width) -> Width:
    scale = min(one[1], other[1])
    whole = min(one[0] - one[1], other[0] - other[1])
    return (whole + scale or 1, scale)


DeclaredColumns: TypeAlias = tuple[Column, ...]


def _find_added(compiled: Compiled) -> dict[str, str]:
    """By relation of data the first aggregate that adds up its facts."""
    found: dict[str, str] = {}
    for rule in compiled.checked.rules:
        for argument in rule.arguments:
            if isinstance(argument, Aggregate) and not row_of(argument).is_idempotent:
                for atom in rule.positive:
                    found.setdefault(atom.relation, argument.function)
    return found


class ValuesMissing(Exception):
    """Data lacks values in columns that a program was compiled without: by relation, which."""

    def __init__(self, nullable: Mapping[str, frozenset[str]]) -> None:
        super().__init__(nullable)
        self.nullable = nullable


class Shelf:
    """What was made of the sources that `stores` have: their columns, their tables."""

    def __init__(self) -> None:
        self.columns: dict[Source, DeclaredColumns] = {}
        self.nulls: dict[Source, frozenset[str]] = {}
        self.tables: dict[tuple[Source, DeclaredColumns, bool], tuple[Table, pa.Table | None]] = {}
        self.suspects: dict[Source, Diagnostic | None] = {}
        """By source of text a warning about its first line."""
        self.stores: WeakSet[Store] = WeakSet()

    def sweep(self) -> None:
        """Let go of what is of a source that no store has."""
        needed = {source for store in self.stores for source in store.sources()}
        self.columns = {s: columns for s, columns in self.columns.items() if s in needed}
        self.nulls = {s: columns for s, columns in self.nulls.items() if s in needed}
        self.suspects = {s: found for s, found in self.suspects.items() if s in needed}
        for key in [key for key in self.tables if key[0] not in needed]:
            self.tables.pop(key)[0].close()

    def close(self) -> None:
        """Let go of every table."""
        for table, _ in self.tables.values():
            table.close()
        self.tables.clear()


class Store:
    """Sources by the name of their relation."""

    def __init__(self, engine: Engine, shelf: Shelf | None = None) -> None:
        self.engine = engine
        self.objects = Objects()
        self._sources: dict[str, Source] = {}
        self.materialized: dict[str, Materialized] = {}
        """Relations that earlier runs derived, and this run reads instead of their rules."""
        self._shelf = shelf or Shelf()
        self._shelf.stores.add(self)

    def add(self, name: str, source: Source) -> None:
        """Give a relation its data, in place of any it had."""
        own = source.objects is self.objects
        self._sources[name] = source if own else replace(source, objects=self.objects)

    def drop(self, name: str) -> None:
        del self._sources[name]

    def sources(self) -> Iterator[Source]:
        """What was given for each relation."""
        yield from self._sources.values()

    def sweep(self) -> None:
        """Let go of data that was replaced, if no result can need it."""
        self._shelf.sweep()

    def source(self, name: str) -> Source | None:
        return self._sources.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._sources

    def __iter__(self) -> Iterator[str]:
        return iter(self._sources)

    def snapshot(self) -> Store:
        """The same data, whatever is added to the session from now on."""
        copy = Store(self.engine, self._shelf)
        copy.objects = self.objects
        copy._sources = dict(self._sources)
        return copy

    def moved(self, engine: Engine) -> Store:
        """The same data for another engine, which loads it when it first needs it."""
        other = Store(engine)
        other.objects = self.objects
        other._sources = dict(self._sources)
        return other

    def columns(self, name: str) -> DeclaredColumns:
        """The columns of a relation, as its data shows them."""
        from caladan.data.infer import infer

        source = self._sources[name]
        known = self._shelf.columns
        if source not in known:
            known[source] = infer(name, source)
        return known[source]

    def nulls(self, source: Source, look: Callable[[], Iterable[str]]) -> frozenset[str]:
        """The columns of some data that have NULL; `look` finds out, once."""
        known = self._shelf.nulls
        if source not in known:
            known[source] = frozenset(look())
        return known[source]

    def table(self, name: str) -> Table:
        """The facts of a relation, in the columns its data shows."""
        columns = self.columns(name)
        self._check_objects(name, columns)
        return shown(self._table(name, columns, Options(), Listener())[0])

    def load(
        self, compiled: Compiled, options: Options, events: Listener, *, may_lack_data: bool = False
    ) -> tuple[dict[str, Table], list[pa.Table]]:
        """A table for each relation that takes data, and the rows that were set aside.

        `ValuesMissing` if columns lack values of which the compiler did not know.
        """
        self.check(compiled, may_lack_data=may_lack_data)
        tables: dict[str, Table] = {}
        aside: dict[str, pa.Table] = {}
        nullable: dict[str, frozenset[str]] = {}
        for name, info in compiled.delta.relations.items():
            if info.origin in self.materialized:
                tables[name] = self.materialized[info.origin].table
            elif info.takes_data:
                tables[name], rejected = self._table(info.origin, info.columns, options, events)
                if rejected is not None:
                    aside[info.origin] = rejected
            if name in tables and len(tables[name].columns) != info.arity:
                nullable[info.origin] = find_lacking(tables[name].columns)
        for name in compiled.complete.asked - {i.origin for i in compiled.delta.relations.values()}:
            if name in self._sources:
                columns = compiled.complete.checked.relations[name].columns
                found = self._table(name, columns, options, events)[0].columns
                if len(found) != len(columns):
                    nullable[name] = find_lacking(found)
        if nullable:
            raise ValuesMissing(nullable)
        self.objects.settle()
        return tables, list(aside.values())

    def warnings(self, compiled: Compiled, tables: Mapping[str, Table]) -> list[Diagnostic]:
        """What to say about data that a program has read: a header, rows that are equal."""
        from caladan.data.problems import equal_rows

        found: list[Diagnostic] = []
        relations = compiled.delta.relations
        added = _find_added(compiled)
        for name, info in relations.items():
            if not info.takes_data or info.origin not in self._sources:
                continue
            source = self._sources[info.origin]
            if (suspect := self._shelf.suspects.get(source)) is not None:
                found.append(suspect)
            table = tables[name]
            function = added.get(info.origin)
            if function is not None and isinstance(table, CountsRows) and table.rows_given:
                equal = table.rows_given - table.count()
                if equal > 0:
                    shown = [column.name for column in values(info.columns)]
                    found.append(equal_rows(info.origin, equal, shown, function))
        return list(dict.fromkeys(found))

    def check(self, compiled: Compiled, *, may_lack_data: bool = False) -> None:
        """Refuse what cannot be loaded, before an engine is asked to."""
        relations = compiled.delta.relations.values()
        for info in sorted(relations, key=lambda each: not each.takes_data):
            self._check_objects(info.origin, info.columns, info.span)
        if not may_lack_data:
            self._require(compiled)

    def widths(self, compiled: Compiled) -> dict[str, Widths]:
        """How many digits the decimals of each relation have."""
        relations = compiled.delta.relations
        if not any(type.is_decimal for info in relations.values() for type in info.types):
            return {}
        return widths(
            compiled.delta,
            {
                name: self._given_widths(info)
                for name, info in relations.items()
                if info.takes_data
                and (info.origin in self.materialized or info.origin in self._sources)
            },
        )

    def _given_widths(self, info: RelationInfo) -> Widths:
        from caladan.data.formats import widths as given

        if info.origin in self.materialized:
            return self.materialized[info.origin].widths
        found = iter(given(info.origin, self._sources[info.origin], values(info.columns)))
        return tuple(next(found) if c.role == "value" else WIDEST for c in info.columns)

    def looks(self, compiled: Compiled) -> dict[str, tuple[Look, ...]]:
        """How the columns of each relation look to Spark, if any data came from there."""
        if not any(source.kind == "spark" for source in self._sources.values()):
            return {}
        from caladan.data.formats import Look, looks

        given: dict[SourceVersion, Look] = {}
        for info in compiled.delta.relations.values():
            source = self._sources.get(info.origin)
            if info.takes_data and source is not None:
                places = [i for i, c in enumerate(info.columns) if c.role == "value"]
                for i, each in zip(
                    places, looks(info.origin, source, values(info.columns)), strict=True
                ):
                    given[info.origin, i] = each

        def look(found: frozenset[SourceVersion]) -> Look:
            met = [given.get(each, Look()) for each in found]
            is_instant = bool(met) and all(each.is_instant for each in met)
            return Look(is_instant, any(each.is_nullable for each in met))

        return {n: tuple(map(look, found)) for n, found in origins(compiled.delta).items()}

    def close(self) -> None:
        self._shelf.close()

    def needs(self, compiled: Compiled) -> list[str]:
        """The relations that what is asked for needs, and that get all their facts from data."""
        read = {info.origin for info in compiled.delta.relations.values() if info.takes_data}
        relations = compiled.checked.relations.items()
        return [name for name, info in relations if name in read and not info.is_derived]

    def lacks(self, compiled: Compiled) -> list[str]:
        """The relations that are needed, and have neither data nor rules nor facts."""
        return [
            name
            for name in self.needs(compiled)
            if name not in self._sources and name not in self.materialized
        ]

    def _require(self, compiled: Compiled) -> None:
        """C034 for relations that are needed, and have neither data nor rules nor facts."""
        from caladan.data.problems import no_data

        found = Diagnostics()
        for name in self.lacks(compiled):
            info = compiled.checked.relations[name]
            found.extend([no_data(name, info.columns, info.span)])
        found.raise_errors()

    def _check_objects(self, name: str, columns: DeclaredColumns, span: Span | None = None) -> None:
        """C051 for objects on spark: they stay in the process that has them."""
        column = first_object(columns) if self.engine.name == "spark" else None
        if column is not None:
            raise error(
                "C051",
                f"column {column.name} of `{name}` holds objects, which the spark engine does "
                "not take",
                span,
                help='use the embedded engine, `cal.connect("embedded")`, or declare the column '
                "with the type that its values have",
            )

    def _table(
        self, name: str, columns: DeclaredColumns, options: Options, events: Listener
    ) -> tuple[Table, pa.Table | None]:
        from caladan.data.source import source

        given = self._sources.get(name)
        if given is None:  # its facts are in the program, or nobody wants to see any
            return self.engine.load(name, source(name, []), columns, options)
        key = (given, columns, options.permissive)
        loaded = self._shelf.tables
        if key not in loaded:
            started = time.perf_counter()
            with stoppable(f"reading `{name}`"):
                loaded[key] = self.engine.load(name, given, columns, options)
            from caladan.data.infer import suspect_header

            if given not in self._shelf.suspects:
                self._shelf.suspects[given] = suspect_header(name, given, values(columns))
            # Under the columns that it turned out to have, too: those of the program, next time.
            loaded[given, loaded[key][0].columns, options.permissive] = loaded[key]
            if self.engine.name == "reference":  # the others tell when they have read it
                count = loaded[key][0].count()
                events.tell(DataRead(name, count, time.perf_counter() - started))
        return loaded[key]
