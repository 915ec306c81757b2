"""How a run goes: read the program, link what earlier runs defined, compile, load the data that is
needed, evaluate, wrap. Relations that are asked for later are evaluated then.

`Course` has the ways through it that the session's calls share: programs and scripts, compiled
before or not, in full or as far as goals need; what explain shows a plan for, and `find` searches.
"""

from __future__ import annotations

import inspect
import os
import re
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack, cast

from caladan.analysis.resolve import parameters
from caladan.data.missing import values
from caladan.engines import interface
from caladan.engines.interface import (
    Engine,
    Materializing,
    ReadsRules,
    RunsPlans,
    Table,
    Watchable,
    stoppable,
)
from caladan.engines.missing import shown
from caladan.pipeline import (
    Compiled,
    Request,
    compile_again,
    compile_program,
    compile_whole,
    with_missing,
)
from caladan.program import Atom, Column, Goal, Program, Value
from caladan.program.aggregates import define_aggregates
from caladan.program.clock import run_clock, wait_for
from caladan.program.diagnostics import CaladanError, Diagnostic, Diagnostics, error, guard_nesting
from caladan.program.events import Listener, RelationReused, RowsSetAside, RunFailed, Several
from caladan.program.options import Options, RunOptions, check_options
from caladan.rules.failures import lost
from caladan.session import inputs
from caladan.session.auto import Mover, SparkWanted, wanted_for_options
from caladan.session.inputs import Definitions, list_undeclared
from caladan.session.materialized import Materializations, Materialized
from caladan.session.result import CaladanWarning, Relation, Result, Stopped
from caladan.session.stats import Stats
from caladan.session.store import Store, ValuesMissing
from caladan.session.wrap import FinishedRun, wrap

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.data.source import Source
    from caladan.explain import Setting
    from caladan.join.search import Library
    from caladan.language.rasql import Script
    from caladan.session.live import Live
    from caladan.session.scripts import Scripts
    from caladan.session.views import Views
    from caladan.sql.script import ScriptOutcome

_PACKAGE: Final = str(Path(__file__).parents[1])

RunAgain: TypeAlias = Callable[
    [Mapping[str, object] | None, Options, Compiled | None], tuple[Result, Compiled | None]
]


class Course:
    """Data and definitions on one side, an engine on the other, and how programs run between."""

    def __init__(
        self,
        engine: Engine,
        listeners: Sequence[Listener] = (),
        mover: Mover | None = None,
        *,
        views: bool = False,
    ) -> None:
        self._engine = engine
        self._wants_views = views
        self._mover = mover
        """How to get to Spark; None if the user named the engine, or the session has moved."""
        self._earlier_stores: list[Store] = []
        self._listeners = tuple(listeners)
        self._store = Store(engine)
        self._definitions = Definitions()
        self._kept = _materializations(engine)
        self._views: list[Views] = []
        self._asked: dict[str, None] = {}
        """The derived relations that somebody has asked for."""
        self._scripts: Scripts | None = None
        self._searched: tuple[Library, dict[str, Source | None]] | None = None
        self._is_open = True

    @contextmanager
    def _course(self, options: Options) -> Generator[None]:
        """A run from its start to its end: its clock ticks, and it may be stopped at any time."""
        with run_clock(options.timeout):
            try:
                with stoppable("running the program"), guard_nesting():
                    self._move_if(wanted_for_options(options))
                    yield
            except interface.EngineStopped as stopped:  # before there was anything to hand out
                nothing = Result((), lambda _: None)
                raise Stopped(stopped.diagnostics, nothing) from None

    def _move_if(self, wanted: SparkWanted | None) -> None:
        """Move a session whose user named no engine to Spark, with all that it has.

        Results of earlier runs stay with the engine that made them.
        """
        if wanted is None or self._mover is None:
            return
        start, say = self._mover
        say(f"moving to Spark, {wanted.reason}")
        engine = start(wanted.session)
        try:
            for name, each in self._definitions.functions.items():
                check_on_engine(engine, name, each.code)
        except CaladanError:
            engine.close()
            raise
        self._mover, self._engine = None, engine
        self._earlier_stores.append(self._store)
        self._store = self._store.moved(engine)
        self._kept = _materializations(engine)
        self._open_views()
        if self._scripts is not None:
            self._scripts.engine = engine

    def _open_views(self) -> None:
        """Have views in the user's session, if they were asked for and it is there."""
        if self._wants_views and self._engine.session is not None:
            from caladan.session.views import Views

            self._views.append(Views(self._engine.session))

    def _read(
        self, program: str | os.PathLike[str] | Program | Script, language: str | None = None
    ) -> Program | Script:
        read = inputs.program(program, language, functions=self._definitions.functions)
        if not isinstance(read, Program):
            return read
        found = Diagnostics()
        read = define_aggregates(read, self._definitions.aggregates, found)
        found.raise_errors()
        return read

    def _run(self, program: Program, params: Mapping[str, Value], options: Options) -> Result:
        with stoppable("compiling the program"):
            compiled = wait_for(lambda: self._compile(program, params, options))
        return self._run_compiled(program, compiled, options)

    def _run_again(
        self,
        read: Program | Script,
        params: Mapping[str, object] | None,
        options: Options,
        known: Compiled | None,
    ) -> tuple[Result, Compiled | None]:
        """Run what was read before, and compiled if it is known; and what is known of it now."""
        values = inputs.values(params, self._store.objects)
        with self._course(options):
            if not isinstance(read, Program):
                return self._run_script(read, values, options), None
            with stoppable("compiling the program"):
                compiled = wait_for(lambda: self._compile(read, values, options, known=known))
            return self._run_compiled(read, compiled, options), compiled

    def _run_compiled(self, program: Program, compiled: Compiled, options: Options) -> Result:
        params = compiled.request.params
        store = self._store_for(compiled)
        self._changed(*self._definitions.remember(parameters(program, params, Diagnostics())))
        since = self._kept.now
        _warn(compiled.warnings)
        stats = Stats()
        self._store.sweep()  # a result that was dropped since may have been the last to need some
        store.check(compiled)
        self._engine.start()  # the seconds of a run are without that
        started = time.perf_counter()
        run = self._evaluate(compiled, store, options, stats)
        stats.seconds = time.perf_counter() - started
        _warn(run.warnings)
        self._keep(run, options, since)
        complete = self._complete(compiled, params, store, options, since)
        result = wrap(program, run, self._engine, stats, complete, store)
        if run.stopped is not None:
            raise Stopped(run.stopped.diagnostics, result) from None
        self._show_result(compiled, result)
        return result

    def _show_result(self, compiled: Compiled, result: Result) -> None:
        """Have views show what a run was asked for, and the data that it read."""
        asked = [g.relation for g in compiled.delta.goals if not g.is_bound]
        names = [n for n, i in compiled.checked.relations.items() if not i.is_internal]
        self._asked.update(dict.fromkeys(name for name in asked if name in names))
        if self._views:
            data = [name for name in names if name in self._store]
            for name in dict.fromkeys((*asked, *data)):
                if name in names:
                    self._show(name, result[name])

        def fetched(name: str, relation: Relation) -> None:
            if name in names:
                self._asked[name] = None
                self._show(name, relation)

        result.on_fetch = fetched

    def _show(self, name: str, relation: Relation) -> None:
        """Have every view of a name show a relation."""
        for views in self._views:
            views.put(name, relation)

    def _run_script(self, script: Script, params: Mapping[str, Value], options: Options) -> Result:
        from caladan.session.scripts import result

        self._check_open()
        self._engine.start()
        stats = Stats()
        of_data: list[Diagnostic] = []
        started = time.perf_counter()

        def evaluate(compiled: Compiled, store: Store, is_later: bool) -> FinishedRun:
            if not is_later:
                done = self._evaluate(compiled, store, options, stats)
                of_data.extend(done.warnings)
                return done
            return self._in_full(lambda: compiled, store, options)

        self._store.sweep()
        with guard_nesting():
            ran = self._rasql().run(script, params, self._store.snapshot(), evaluate, options)
        stats.seconds = time.perf_counter() - started
        stats.engine = self._engine.name
        known = {each.message for each in of_data}
        of_data += [
            each
            for each in _tell_aside(ran.rejected, Several(stats, *self._listeners))
            if each.message not in known
        ]
        _warn((*ran.outcome.warnings, *of_data))
        found = result(ran, self._engine, stats, of_data)
        if ran.stopped is not None:
            raise Stopped(ran.stopped.diagnostics, found) from None
        return found

    def _compile_script(
        self, script: Script, params: Mapping[str, Value]
    ) -> tuple[ScriptOutcome, list[Store]]:
        self._check_open()
        with guard_nesting():
            return self._rasql().compile(script, params, self._store.snapshot())

    def _rasql(self) -> Scripts:
        from caladan.session.scripts import Scripts

        if self._scripts is None:
            self._scripts = Scripts(self._engine, self._definitions, self._derive)
        return self._scripts

    def _derive(self, name: str, options: Options) -> Table | None:
        """A relation that rules of earlier runs define, in full."""
        if name not in self._definitions.derived:
            return None
        if self._columns_kept(options, name, is_read=False) is not None:
            return shown(self._kept[name].table)
        since = self._kept.now
        asked = Program(goals=(Goal(Atom(name, ())),))
        kept = partial(self._columns_kept, options)
        linked, reused = self._definitions.link(asked, self._store, kept)
        linked = replace(linked, goals=())
        catalog = _catalog(linked, self._store)
        objects = self._store.objects
        request = Request(linked, catalog, {}, wanted=(name,), objects=objects, materialized=reused)
        compiled = compile_again(None, request)
        run = self._evaluate(compiled, self._store_for(compiled), options, Stats())
        if run.stopped is not None:
            raise run.stopped
        self._keep(run, options, since)
        return shown(run.derived[name])

    # ── What is kept of earlier runs ─────────────────────────────────────────────────────────────

    def _changed(self, *names: str) -> None:
        """The rules or the data of some relations are others now."""
        self._kept.invalidate(names, self._definitions.graph)

    def _columns_kept(
        self, options: Options, name: str, is_read: bool
    ) -> tuple[Column, ...] | None:
        if not options.keep:
            return None
        found = self._kept.find(name, permissive=options.permissive, is_read=is_read)
        return None if found is None else values(found.table.columns)

    def _keep(self, run: FinishedRun, options: Options, since: int) -> None:
        """Keep what a run derived in full, if rules and data are those of its beginning."""
        if not options.keep or run.stopped is not None:
            return
        known = frozenset(self._definitions.derived)
        for name, table in run.derived.items():
            info = run.compiled.checked.relations.get(name)
            if info is not None and not info.is_internal and name in known:
                widths = run.widths.get(name, ())
                made = Materialized(name, table, info.order, widths, options.permissive)
                self._kept.keep(made, since, self._definitions.reads)
        if self._kept:
            from caladan.fixpoint.limits import budget

            self._kept.make_room(budget() if options.memory is None else options.memory)

    def _store_for(self, compiled: Compiled) -> Store:
        """The session's data as it is now, and the kept relations that a program reads."""
        store = self._store.snapshot()
        store.materialized = {name: self._kept[name] for name in compiled.request.materialized}
        return store

    def _compile(
        self,
        program: Program,
        params: Mapping[str, Value],
        options: Options,
        *,
        whole: bool = False,
        known: Compiled | None = None,
    ) -> Compiled:
        """A program compiled; if `whole`, with all its relations, whatever the goals need."""
        self._check_open()
        with guard_nesting():
            options = replace(options, keep=options.keep and not whole)
            kept = partial(self._columns_kept, options)
            linked, reused = self._definitions.link(program, self._store, kept)
            catalog = _catalog(linked, self._store)
            heads = tuple(dict.fromkeys(rule.head.relation for rule in linked.rules))
            wanted = heads if whole else None
            objects, names = self._store.objects, (*self._store, *self._definitions.derived)
            request = Request(linked, catalog, params, not whole, wanted, names, objects)
            own = len(program.rules)
            return compile_again(known, replace(request, materialized=reused, own=own))

    def _evaluate(
        self, compiled: Compiled, store: Store, options: Options, stats: Stats
    ) -> FinishedRun:
        events = Several(stats, *self._listeners)
        base: dict[str, Table] = {}
        rejected: list[pa.Table] = []
        ended: interface.EngineStopped | None = None
        reads_rules = isinstance(store.engine, ReadsRules)
        if reads_rules:
            compiled = compile_whole(compiled)
        try:
            with _failures_told(events):
                for name in store.materialized:
                    events.tell(RelationReused(name))
                compiled, base, rejected = _load(compiled, store, options, events)
                with guard_nesting(), stoppable("evaluating the program"):
                    derived = _derive(store.engine, compiled, base, options, events)
            if not reads_rules:
                with guard_nesting(), stoppable("evaluating the program"):
                    check_support(compiled, derived)
        except interface.EngineStopped as stopped:
            derived, ended = stopped.store, stopped
        looks = store.looks(compiled) if store.engine.name == "spark" else {}
        found = [*_tell_aside(rejected, events)]
        if ended is None:
            found += store.warnings(compiled, base)
        return FinishedRun(
            compiled, base, derived, rejected, ended, store.widths(compiled), looks, found
        )

    def _complete(
        self,
        compiled: Compiled,
        params: Mapping[str, Value],
        store: Store,
        options: Options,
        since: int,
    ) -> Callable[[str], FinishedRun]:
        """How to evaluate in full a relation that the goals did not need in full."""
        program = replace(compiled.program, goals=())

        def complete(name: str) -> FinishedRun:
            def again() -> Compiled:
                return compile_program(
                    program, _catalog(program, store), params, wanted=(name,), objects=store.objects
                )

            run = self._in_full(again, store, options)
            if store.engine is self._engine:  # else the session has moved to Spark since
                self._keep(run, options, since)
            return run

        return complete

    def _in_full(
        self, compiled: Callable[[], Compiled], store: Store, options: Options
    ) -> FinishedRun:
        """What somebody asks for when its run is over; stats are about the run itself."""
        self._check_open()
        with self._course(options):
            run = self._evaluate(compiled(), store, options, Stats())
            if run.stopped is not None:
                raise run.stopped
            return run

    def _setting(
        self,
        stage: str,
        engine: str | None,
        master: str | None,
        options: Options,
        stats: Stats | None,
        compiled: Compiled,
        store: Store,
    ) -> tuple[Compiled, Setting]:
        """What the plan of a program is for: data is read only where a stage shows what it does.

        With it the program as it is planned: compiled again if values are missing.
        """
        while True:
            try:
                return compiled, self._setting_of(
                    stage, engine, master, options, stats, compiled, store
                )
            except ValuesMissing as found:
                compiled = with_missing(compiled, found.nullable)

    def _setting_of(
        self,
        stage: str,
        engine: str | None,
        master: str | None,
        options: Options,
        stats: Stats | None,
        compiled: Compiled,
        store: Store,
    ) -> Setting:
        from caladan.engines.spark.choice import tasks_on
        from caladan.explain import Setting

        name = engine or self._engine.variant
        tasks = self._engine.tasks if master is None else tasks_on(master)
        if stage not in ("all", "plan", "spark"):
            return Setting(name, tasks, options=options)
        # What SQL makes of data is not there before it runs.
        lacks = store.lacks(compiled) or any(
            store.source(each) is not self._store.source(each)
            for each in store.needs(compiled)
            if each not in store.materialized
        )
        wants_spark = stage != "plan" and self._engine.session is not None
        tables: Mapping[str, Table] | None = None
        if wants_spark or not lacks:
            tables, _ = store.load(compiled, options, Listener(), may_lack_data=True)
        given: Sequence[tuple[str, str]] | None = None
        if wants_spark and tables is not None:
            given = self._engine.plans(compiled.delta, tables, options, is_all_there=not lacks)
        searched = None if stats is None else stats.searched
        memory = self._engine.memory if master is None else None
        return Setting(name, tasks, None if lacks else tables, options, given, searched, memory)

    def _library(self, body: str) -> Library:
        """The relations a body mentions, for the search; data stays encoded between questions."""
        from caladan.join.search import Library
        from caladan.join.search.library import decode_objects

        if self._searched is None:
            self._searched = (Library({}), {})
        library, placed = self._searched
        for name in dict.fromkeys(re.findall(r"\w+(?=\s*\()", body)):
            source = self._store.source(name)
            if source is not None and placed.get(name) is source:
                continue
            table = self._derive(name, Options()) if source is None else self._store.table(name)
            if table is not None:
                facts = decode_objects(table.arrow(), table.columns, self._store.objects)
                library.put(name, facts)
                placed[name] = source
                if source is None and name not in self._kept:
                    table.close()
        return library

    def _watch(self, engine: Watchable, compiled: Compiled, options: Options) -> Live:
        """The relations of a program, kept true by an engine from now on."""
        from caladan.session.live import Live

        _warn(compiled.warnings)
        if any(c.role == "row" for i in compiled.delta.relations.values() for c in i.columns):
            raise error(
                "C051", "a program that numbers rows cannot be watched",
                help="run it again after a change, or give the rows a key column",
            )  # fmt: skip
        stats = Stats()
        events = Several(stats, *self._listeners)
        with _failures_told(events):
            compiled, tables, rejected = _load(compiled, self._store, options, events)
            _warn(_tell_aside(rejected, events))
            started = time.perf_counter()
            with guard_nesting(), stoppable("evaluating the program"):
                maintained = engine.watch(compiled.delta, tables, options, events)
        stats.seconds = time.perf_counter() - started
        check, session = partial(check_support, compiled), self._engine.session
        live = Live(compiled, maintained, self._store.objects, stats, check, self._forget, session)
        live.options = options
        return live

    def _watch_again(self, live: Live, name: str, columns: frozenset[str]) -> None:
        """Evaluate a watched program anew, over data that lacks values in more columns."""
        engine = self._engine
        assert isinstance(engine, Watchable)
        with self._course(live.options):
            compiled = with_missing(live.compiled, {name: columns})
            compiled, tables, _ = _load(compiled, self._store, live.options, Listener())
            with guard_nesting(), stoppable("evaluating the program"):
                maintained = engine.watch(compiled.delta, tables, live.options, Listener())
        live.restart(compiled, maintained, partial(check_support, compiled))

    def _forget(self, live: Live) -> None:
        """Have nothing more to do with live relations that somebody closed."""
        raise NotImplementedError

    def _check_open(self) -> None:
        if not self._is_open:
            raise error("C050", "the session is closed")


def _tell_aside(rejected: Iterable[pa.Table], events: Listener) -> list[Diagnostic]:
    """Warnings about rows that were set aside; listeners are told how many."""
    from caladan.data.problems import set_aside

    counts: Counter[str] = Counter()
    for table in rejected:
        counts.update(cast("list[str]", table.column("relation").to_pylist()))
    for relation, rows in counts.items():
        events.tell(RowsSetAside(relation, rows))
    return [set_aside(relation, rows) for relation, rows in counts.items()]


def _load(
    compiled: Compiled,
    store: Store,
    options: Options,
    events: Listener,
    *,
    may_lack_data: bool = False,
) -> tuple[Compiled, dict[str, Table], list[pa.Table]]:
    """The data of a program, which is compiled again if values turn out to be missing there."""
    while True:
        try:
            return compiled, *store.load(compiled, options, events, may_lack_data=may_lack_data)
        except ValuesMissing as found:
            with stoppable("compiling the program"), guard_nesting():
                compiled = with_missing(compiled, found.nullable)


def _derive(
    engine: Engine,
    compiled: Compiled,
    base: Mapping[str, Table],
    options: Options,
    events: Listener,
) -> dict[str, Table]:
    """The derived tables: of the plan or, on the reference engine, of the rules as written."""
    if isinstance(engine, ReadsRules):
        found = engine.evaluate(compiled.written, compiled.totals, base, options, events)
        columns = {name: info.columns for name, info in compiled.delta.relations.items()}
        return engine.split(found, columns)
    assert isinstance(engine, RunsPlans)
    return engine.run(compiled.delta, base, options, events)


def _materializations(engine: Engine) -> Materializations:
    """No relation is kept yet; those that will be give way where the engine needs their memory."""
    kept = Materializations(engine)
    if isinstance(engine, Materializing):
        engine.spare = kept
    return kept


def check_on_engine(engine: Engine, name: str, function: object) -> None:
    """C050 for a function of the user's that the tasks of an engine cannot be sent."""
    if engine.name == "spark":
        from caladan.engines.spark.tasks.work import check_sendable

        check_sendable(name, function)


@contextmanager
def _failures_told(events: Listener) -> Generator[None]:
    """Tell listeners of what ends a run early; an error of no code is ours, or a listener's."""
    started = time.perf_counter()
    try:
        yield
    except CaladanError as problem:
        first = problem.diagnostics[0]
        events.tell(RunFailed(first.code, first.message, time.perf_counter() - started))
        raise
    except Exception as problem:
        with suppress(Exception):  # of the listener that raised it
            events.tell(RunFailed("", type(problem).__name__, time.perf_counter() - started))
        raise


def check_support(compiled: Compiled, derived: Mapping[str, Table]) -> None:
    """Fail if a sum has what does not hold in the end."""
    for each in compiled.supported.rules:
        if derived[each.lost].count():
            row = derived[each.lost].arrow(1).to_pylist()[0].values()
            for table in derived.values():
                table.close()
            raise CaladanError(lost(each.rule, dict(zip(each.keys, row, strict=False))))


def _warn(found: Iterable[Diagnostic]) -> None:
    """Tell of warnings, at the line of the user's that the package was called from."""
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    for warning in found:
        warnings.warn(str(warning), CaladanWarning, stacklevel=level)


def _catalog(program: Program, store: Store) -> dict[str, Any]:
    """The columns of data that a program uses without declaring it."""
    return {name: store.columns(name) for name in list_undeclared(program, store)}


class PreparedProgram:
    """A program of a session that is compiled once. Made by `Session.prepare`."""

    def __init__(self, run: RunAgain, known: Compiled | None) -> None:
        self._run = run
        self._known = known

    def run(
        self, params: Mapping[str, object] | None = None, **options: Unpack[RunOptions]
    ) -> Result:
        """Run it, as `Session.run` would.

        It is compiled again if a parameter has a value of another type, and if columns of data or
        rules of other programs that it uses have changed.
        """
        result, self._known = self._run(params, check_options(options), self._known)
        return result
