"""The session: data and definitions on one side, an engine on the other.

    connect ─► Session ─ add      data for relations
                       ├ run      a program                       ─► Result
                       ├ query    a goal against its rules        ─► Relation
                       ├ explain  every stage of the compiler
                       └ close

The methods that users call are here; course.py runs programs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack, cast

from caladan.analysis.resolve import parameter_names
from caladan.engines import interface
from caladan.engines.interface import Engine, HasViews, Watchable, engine_for, stoppable
from caladan.program import Program, Value
from caladan.program.aggregates import UserCombine
from caladan.program.clock import wait_for
from caladan.program.diagnostics import Diagnostic, did_you_mean, error
from caladan.program.events import Listener
from caladan.program.options import (
    EngineName,
    FileOptions,
    GradeName,
    LanguageName,
    Options,
    RunOptions,
    check_options,
    no_option,
)
from caladan.session import auto, display, inputs
from caladan.session.auto import Mover, SparkWanted
from caladan.session.course import Course, PreparedProgram, check_on_engine
from caladan.session.listeners import CompileNotice
from caladan.session.result import Relation, Result, Stopped
from caladan.session.stats import Stats

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from caladan.data.source import Source
    from caladan.join.search import Found
    from caladan.language.rasql import Script
    from caladan.session.live import Live, RelationChange
    from caladan.session.views import Views


LiveFacts: TypeAlias = "pa.Table | frozenset[str]"
"""The facts of a change, or columns with missing values that a watched program did not expect."""


def connect(
    engine: EngineName | SparkSession | None = None,
    *,
    master: str | None = None,
    conf: Mapping[str, str] | None = None,
    listeners: Sequence[Listener] = (),
    ship: bool | None = None,
    views: bool = False,
) -> Session:
    """Open a session: `cal.connect()`, `cal.connect("embedded")`, `cal.connect(spark)`.

    `engine` is "embedded", "spark", "reference" or a SparkSession. By default the session uses
    Spark if the process has a SparkSession, or if `master`, `conf` or `ship` is given; otherwise it
    starts embedded, and moves to Spark when data or options require it (session/auto.py).

    "spark" adopts the active SparkSession, or starts one on `master` (`local[*]` by default) with
    the settings in `conf`. `listeners` receive the events of runs. `ship=True` sends the package to
    the executors, `False` never does; by default it goes to executors that lack it. `views=True`
    registers relations as temporary views in the SparkSession (session/views.py).
    """
    listeners = (*listeners, CompileNotice())
    try:
        with stoppable("starting the engine"):
            if engine is None and not (master or conf or ship) and not auto.finds_spark():
                embedded = engine_for("embedded", master, conf, ship)
                auto.say_once(auto.STARTED)
                mover = auto.Mover(partial(_start_spark, ship), auto.say_on_stderr)
                return Session(embedded, listeners, mover, views=views)
            return Session(engine_for(engine, master, conf, ship), listeners, views=views)
    except interface.EngineStopped as stopped:
        raise Stopped(stopped.diagnostics, Result((), lambda _: None)) from None


def _start_spark(ship: bool | None, session: object) -> Engine:
    given = "spark" if session is None else cast("SparkSession", session)
    return engine_for(given, None, None, ship)


class Session(Course):
    """Holds data and runs programs over it. `connect` makes it; it is a context manager."""

    def __init__(
        self,
        engine: Engine,
        listeners: Sequence[Listener] = (),
        mover: Mover | None = None,
        *,
        views: bool = False,
    ) -> None:
        super().__init__(engine, listeners, mover, views=views)
        self._watchers: list[Live] = []
        self._spark: Views | None = None
        self._open_views()

    # ── What users call ──────────────────────────────────────────────────────────────────────────

    def add(self, name: str, data: object, **how: Unpack[FileOptions]) -> None:
        """Set the data of a relation: `db.add("arc", "arc.csv")`. Replaces earlier data.

        `data` is a list of tuples, a dict of columns, a pandas or Polars data frame, an Arrow
        table, a Spark DataFrame, or the path of a csv, tsv, facts, json, parquet or orc file, a
        folder or a pattern; on spark also `jdbc(…)`, `table(…)` or `stored(…)`. Paths accept
        `format`, `delimiter` and `header`.
        """
        given, facts = self._given(name, data, how)
        self._put(name, given)
        for live, table in facts:
            if isinstance(table, frozenset):
                self._watch_again(live, name, table)
            else:
                live.replace(name, table)

    replace = add

    def insert(self, name: str, data: object, **how: Unpack[FileOptions]) -> None:
        """Add facts to a relation: `db.insert("arc", [(3, 4)])`. `data` is as for `add`.

        Facts that the relation has already change nothing. Watched relations (`watch`) are up to
        date when this returns.
        """
        self._alter(name, *self._given(name, data, how), is_insert=True)

    def delete(self, name: str, data: object, **how: Unpack[FileOptions]) -> None:
        """Remove facts from a relation: `db.delete("arc", [(3, 4)])`; the opposite of `insert`."""
        self._alter(name, *self._given(name, data, how), is_insert=False)

    def watch(
        self,
        program: str | os.PathLike[str] | Program,
        params: Mapping[str, object] | None = None,
        *,
        language: LanguageName | None = None,
        **options: Unpack[RunOptions],
    ) -> Live:
        """Run a program and keep its relations up to date while the session's data changes.

        The arguments are those of `run`. On spark the driver maintains the relations; `insert`,
        `delete` and `replace` accept DataFrames, and `db.spark` has the relations as views.
        """
        wanted = check_options(options)
        values = inputs.values(params, self._store.objects)
        with self._course(wanted):
            with stoppable("reading the program"):
                read = wait_for(lambda: self._read(program, language))
            engine = self._engine
            if not isinstance(engine, Watchable):
                raise error(
                    "C051", f"`watch` is not available on {self._engine.name}",
                    help='use the embedded engine, `cal.connect("embedded")`; insert, delete and '
                    "replace are there on every engine",
                )  # fmt: skip
            if not isinstance(read, Program):
                raise error(
                    "C051", "a script of SQL cannot be watched",
                    help="write the rules in DeALS, or run the script again after a change",
                )  # fmt: skip
            live = self._watch(engine, self._compile(read, values, wanted, whole=True), wanted)
        self._watchers.append(live)
        if self._wants_views:  # views of our own are brought up to date by who asks for them

            def changed(_: Mapping[str, RelationChange]) -> None:
                for name in live.outdated():
                    self._show(name, live[name])

            live.on_change(changed)
            changed({})
        return live

    def _forget(self, live: Live) -> None:
        self._watchers = [each for each in self._watchers if each is not live]

    @property
    def spark(self) -> SparkSession:
        """A SparkSession in which every relation is a temporary view under its name.

        `db.spark.sql("select * from arc join tc on arc.B = tc.A")`. The views show added data and
        the derived relations that were read. The session is separate from yours and shares its
        catalog.
        """
        self._check_open()
        self._move_if(SparkWanted("which has the views"))
        if not isinstance(self._engine, HasViews):
            raise error(
                "C050", f"the {self._engine.name} engine has no SparkSession",
                help='use the spark engine: cal.connect("spark")',
            )  # fmt: skip
        if self._spark is None:
            from caladan.session.views import Views

            self._spark = Views(self._engine.view_session)
            self._views.append(self._spark)
            with self._course(Options()):
                for name in self._store:
                    self._show_data(name)
                for name in self._asked:
                    if name in self._definitions.derived and name not in self._store:
                        table = self._derive(name, Options())
                        if table is not None:
                            self._show(name, Relation(name, table, session=self._engine.session))
        for live in self._watchers:
            for name in live.outdated():
                self._spark.put(name, live[name])
        return self._spark.session

    def _show_data(self, name: str) -> None:
        """Point the view of a relation at its data."""
        if self._views:
            table, session = self._store.table(name), self._engine.session
            self._show(name, Relation(name, table, session=session, is_lent=True))

    def define(
        self,
        name: str,
        function: object,
        *,
        returns: str | None = None,
        vectorized: Literal["numpy", "arrow"] | None = None,
        arguments: Sequence[str] | None = None,
    ) -> None:
        """Let rules call a Python function: `D = km(A, B)`; `near(A, B)` if it returns a boolean.

        The function must be deterministic: it is called once for each distinct input. A vectorized
        function takes and returns whole columns. `define` also accepts what `find` accepts: a set
        becomes a relation; ranges, predicates and constraints, with their `arguments`, are tests.
        """
        self._check_open()
        inputs.check_text("the name of a function", name)
        if returns is None:
            from caladan.join.search.definitions import facts_of, test_of

            if (facts := facts_of(function)) is not None:
                self.add(name, facts)
                return
            if (test := test_of(function, arguments)) is not None:
                function, vectorized = test
                returns = "boolean"
        self._definitions.define(name, function, returns, vectorized)
        check_on_engine(self._engine, name, function)

    def aggregate(
        self,
        name: str,
        combine: Callable[[Any, Any], Any],
        *,
        identity: Value | None = None,
        idempotent: bool = False,
        monotone: bool = False,
        vectorized: Literal["numpy"] | None = None,
    ) -> None:
        """Let rules aggregate with a Python function: `db.aggregate("gcd", math.gcd)`, `gcd<X>`.

        The function combines two values into one of the same type. It must be commutative and
        associative: engines combine in any order. A vectorized function takes and returns NumPy
        columns. `identity` is the result over no solutions, in a head without group columns;
        without it there is no fact.

        `idempotent=True` says that combining a value with itself gives that value. Recursion allows
        such an aggregate if it is also `monotone`: a group keeps the value combined so far, and
        rules continue with it.
        """
        self._check_open()
        inputs.check_text("the name of an aggregate", name)
        given = UserCombine(name, combine, identity, idempotent, monotone, vectorized)
        self._definitions.aggregate(given)
        if self._engine.name == "spark":
            from caladan.engines.spark.tasks.work import check_sendable

            check_sendable(name, combine)

    def run(
        self,
        program: str | os.PathLike[str] | Program | Script,
        params: Mapping[str, object] | None = None,
        *,
        language: LanguageName | None = None,
        **options: Unpack[RunOptions],
    ) -> Result:
        """Run a program, given as text or as the path of a file, and return its relations.

        `db.run("p(X) <- arc(X, _). query p(X).").answer.rows()`. Options: max_rounds, max_facts,
        timeout, memory, permissive, keep, strategy, search, checkpoint,
        partitions.
        """
        wanted = check_options(options)
        values = inputs.values(params, self._store.objects)
        with self._course(wanted):
            with stoppable("reading the program"):
                read = wait_for(lambda: self._read(program, language))
            if isinstance(read, Program):
                return self._run(read, values, wanted)
            return self._run_script(read, values, wanted)

    def read(
        self,
        program: str | os.PathLike[str] | Program | Script,
        language: LanguageName | None = None,
    ) -> Program | Script:
        """Parse a program from text or a file without running it."""
        self._check_open()
        with self._course(Options()), stoppable("reading the program"):
            return self._read(program, language)

    def defines(self, name: str) -> bool:
        """True if a program of this session defined rules or facts for the relation."""
        return name in self._definitions.derived

    @contextmanager
    def listening(self, *listeners: Listener) -> Generator[None]:
        """Add listeners to those of `connect` for the duration of a `with` statement."""
        before, self._listeners = self._listeners, (*self._listeners, *listeners)
        try:
            yield
        finally:
            self._listeners = before

    def prepare(
        self,
        program: str | os.PathLike[str] | Program | Script,
        *,
        language: LanguageName | None = None,
    ) -> PreparedProgram:
        """Parse and compile a program once, to run it often: `prepared.run(params)`.

        Raises all errors, except those that depend on the values of parameters.
        """
        self._check_open()
        with self._course(Options()), stoppable("compiling the program"):
            read = self._read(program, language)
            is_fixed = isinstance(read, Program) and not parameter_names(read)
            known = (
                self._compile(read, {}, Options())
                if isinstance(read, Program) and is_fixed
                else None
            )
        return PreparedProgram(partial(self._run_again, read), known)

    def query(
        self,
        goal: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RunOptions],
    ) -> Relation:
        """Ask a goal against the rules run so far: `db.query("tc(1, X)")`; options as for `run`."""
        wanted = check_options(options)
        asked = Program(goals=(inputs.goal(goal),))
        values = inputs.values(params, self._store.objects)
        with self._course(wanted):
            return self._run(asked, values, wanted).answer

    def explain(
        self,
        program: str | os.PathLike[str] | Program | Script,
        stage: str = "all",
        *,
        html: str | os.PathLike[str] | None = None,
        params: Mapping[str, object] | None = None,
        language: LanguageName | None = None,
        engine: EngineName | None = None,
        master: str | None = None,
        stats: Stats | None = None,
        **options: Unpack[RunOptions],
    ) -> str:
        """Return the output of each stage of the compiler as text; `html` also writes a page.

        `engine` selects the physical plan, by default that of the session's engine; `master` that
        of a Spark master. If the session has the program's data, the plan includes the decisions
        that depend on it. With the `stats` of a run, rules show what atoms proposed beside the
        estimates.
        """
        from caladan import explain
        from caladan.data.output import write_text

        wanted = check_options(options)
        values = inputs.values(params, self._store.objects)
        shown = stage if html is None else "all"
        setting = partial(self._setting, shown, engine, master, wanted, stats)
        with self._course(wanted), stoppable("compiling the program"):
            read = self._read(program, language)
            if isinstance(read, Program):
                compiled = self._compile(read, values, wanted)
                compiled, given = setting(compiled, self._store_for(compiled))
                text = explain.text(compiled, stage, given)
                title = inputs.title(compiled.program)
                page = partial(explain.html, compiled, title=title, setting=given)
            else:
                outcome, stores = self._compile_script(read, values)
                pairs = zip(outcome.compiled, stores, strict=True)
                findings = [str(finding) for finding in outcome.findings]
                programs = [setting(compiled, store) for compiled, store in pairs]
                parts = explain.ScriptParts(programs, outcome.queries, findings)
                text = explain.script_text(parts, stage)
                page = partial(explain.script_html, parts, title=inputs.title(read))
            if html is not None:
                write_text(html, page())
        return display.PlanText(text)

    def check(
        self,
        program: str | os.PathLike[str] | Program | Script,
        params: Mapping[str, object] | None = None,
    ) -> tuple[Diagnostic, ...]:
        """Compile a program without running it. Returns the warnings; raises all errors."""
        values = inputs.values(params, self._store.objects)
        with self._course(Options()), stoppable("compiling the program"):
            read = self._read(program)
            if isinstance(read, Program):
                return self._compile(read, values, Options()).warnings
            return self._compile_script(read, values)[0].warnings

    def sql(
        self,
        query: str,
        params: Mapping[str, object] | None = None,
        **options: Unpack[RunOptions],
    ) -> Relation:
        """Run RaSQL over the session's relations and return the answer of the last query.

        The options are those of `run`.
        """
        wanted = check_options(options)
        values = inputs.values(params, self._store.objects)
        with self._course(wanted):
            with stoppable("reading the program"):
                script = wait_for(lambda: inputs.script(query))
            return self._run_script(script, values, wanted).answer

    def find(
        self,
        variables: str | Sequence[str],
        body: str = "",
        *constraints: object,
        search: GradeName = "paul",
        **by_variable: object,
    ) -> Found:
        """Search relations for bindings of some variables, one answer after another.

        `db.find("person city", "lives_in(person, city)", city=cal.one_of({"Arrakeen"}))`: the body
        joins relations of the session, keywords constrain single variables, further objects are
        your own constraints. The search runs in this process on every engine, and lazily. `search`
        is the grade of estimate that guides it. A question can also be written in triples:
        `db.find("(find [?person ?city] [?person :lives-in ?city])")`.
        """
        from caladan.join.search import find
        from caladan.join.search.triples import is_triples, triples

        self._check_open()
        mentioned = body
        if is_triples(variables):
            mentioned = f"{triples(cast('str', variables)).body}, {body}"
        with self._course(Options()):
            library, given = self._library(mentioned), cast("dict[str, Any]", by_variable)
        return find(library, variables, body, *constraints, search=search, **given)

    search = find

    def materialize(self, name: str, **options: Unpack[RunOptions]) -> None:
        """Evaluate a relation of the rules run so far in full and keep it: `db.materialize("tc")`.

        Runs keep relations that they derived in full as long as memory allows; materialized ones
        stay longest. A change to its rules or to the data it depends on drops a kept relation.
        """
        wanted = check_options(options)
        inputs.check_text("the name of a relation", name)
        if name not in self._definitions.derived:
            known = tuple(self._definitions.derived)
            raise error(
                "C010", f"no rules define `{name}`, so there is nothing to materialize",
                help=did_you_mean(name, known) or "run a program that has rules for it first",
            )  # fmt: skip
        with self._course(wanted):
            self._derive(name, replace(wanted, keep=True))
        self._kept.pin(name)

    def drop(self, name: str) -> None:
        """Drop the kept facts of a derived relation, or the data of an added one.

        The rules stay: reading a derived relation again evaluates it again.
        """
        self._check_open()
        inputs.check_text("the name of a relation", name)
        if name in self._store:
            self._store.drop(name)
            self._changed(name)
            self._store.sweep()
            for views in self._views:
                views.drop(name)
        elif name in self._definitions.derived:
            self._kept.drop(name)
        else:
            known = (*self._store, *self._definitions.derived)
            raise error("C010", f"there is no relation `{name}`", help=did_you_mean(name, known))

    def forget(self, name: str) -> None:
        """Remove the rules and facts that programs defined for a relation."""
        self._check_open()
        inputs.check_text("the name of a relation", name)
        if name not in self._definitions.derived:
            known = tuple(self._definitions.derived)
            raise error("C010", f"no rules define `{name}`", help=did_you_mean(name, known))
        self._definitions.forget_rules(name)
        self._changed(name)

    def why(self, fact: str) -> str:
        """The proof tree of a fact. Not available yet."""
        raise error("C051", "proof trees (`why`) are not available yet")

    def close(self) -> None:
        """Close the session. Stops only what the session started itself."""
        if self._is_open:
            self._is_open = False
            for live in list(self._watchers):
                live.close()
            for views in self._views:
                views.close()
            for store in (self._store, *self._earlier_stores):
                store.close()
            self._engine.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _repr_html_(self) -> str:
        derived = ((name, "rules") for name in self._definitions.derived)
        rows = [*((name, "data") for name in self._store), *derived]
        return display.html_table(f"Session on {self._engine.name}", ("relation", "from"), rows)

    def __repr__(self) -> str:
        return f"<Session on {self._engine.name}: {', '.join(self._store) or 'no data yet'}>"

    # ── How data changes ─────────────────────────────────────────────────────────────────────────

    def _given(
        self, name: str, data: object, how: FileOptions
    ) -> tuple[Source, list[tuple[Live, LiveFacts]]]:
        """What was given for a relation, and as each that watches it takes the facts."""
        from caladan.data.source import source

        self._check_open()
        inputs.check_text("the name of a relation", name)
        for each in how.keys() - FileOptions.__annotations__:
            raise no_option(each, FileOptions.__annotations__)
        given = source(name, data, **how)
        if self._mover is not None:
            self._move_if(auto.wanted_for_data(name, given, self._store.sources()))
        given = inputs.open_source(name, given, self._engine)
        return given, self._for_watchers(name, given)

    def _alter(
        self, name: str, given: Source, facts: list[tuple[Live, LiveFacts]], *, is_insert: bool
    ) -> None:
        from caladan.data.load import change

        before = self._store.source(name)
        if before is None and not is_insert and not facts:
            raise error(
                "C010", f"`{name}` has no data to delete from",
                help=did_you_mean(name, self._store),
            )  # fmt: skip
        if before is not None:
            given = change(before, given, is_insert=is_insert)
        if before is not None or is_insert:
            self._put(name, given)
        for live, table in facts:
            if isinstance(table, frozenset):
                self._watch_again(live, name, table)
            else:
                live.follow(name, table if is_insert else None, None if is_insert else table)

    def _put(self, name: str, given: Source) -> None:
        if name not in self._store:
            # Data replaces rules that an earlier run had for it.
            self._definitions.forget_rules(name)
        self._store.add(name, given)
        self._changed(name)
        self._store.sweep()
        if self._views:
            with self._course(Options()):
                self._show_data(name)
        if self._searched is not None:
            self._searched[1].pop(name, None)
            self._searched = (self._searched[0].without(name), self._searched[1])

    def _for_watchers(self, name: str, given: Source) -> list[tuple[Live, LiveFacts]]:
        """Facts as each that watches a relation takes them; bad rows are told before any change.

        The columns that lack values instead, if the program was compiled without them.
        """
        supported = [(each, each.columns(name)) for each in self._watchers]
        supported = [(live, columns) for live, columns in supported if columns is not None]
        if not supported:
            return []
        from caladan.data.load import load
        from caladan.data.missing import complete_table, find_lacking

        own = replace(given, objects=self._store.objects)
        found: list[tuple[Live, LiveFacts]] = []
        for live, columns in supported:
            table, both = complete_table(load(name, own, columns)[0], columns)
            found.append((live, table if len(both) == len(columns) else find_lacking(both)))
        return found
