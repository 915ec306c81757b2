"""RaSQL scripts in a session: what they find there, and the Result that comes of them.

`Scripts` brings together the session's data and engine, and `caladan.sql`, which knows how a
script goes. Tables and views that a script creates stay for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from caladan.data.missing import values
from caladan.engines.interface import Engine, Table, stoppable
from caladan.engines.missing import shown
from caladan.language.rasql.script import Script, Statement, TableDeclaration
from caladan.pipeline import Compiled
from caladan.program import Column, Program, Value
from caladan.program.clock import wait_for
from caladan.program.objects import first_object
from caladan.program.options import Options
from caladan.session.inputs import Definitions
from caladan.session.result import REJECTED, Relation, Result
from caladan.session.stats import Stats
from caladan.session.store import Store
from caladan.session.wrap import FinishedRun
from caladan.sql.demand import with_goals
from caladan.sql.engine import SqlEngine, no_objects
from caladan.sql.reading import Demands, compile_views
from caladan.sql.script import (
    Evaluate,
    ProgramOutcome,
    ScriptOutcome,
    ScriptStopped,
    bind,
    run,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.data.source import Source
    from caladan.program.diagnostics import Diagnostic


_ALL: Final[Demands] = {}

EvaluateCompiled: TypeAlias = "Callable[[Compiled, Store, bool], FinishedRun]"
"""How to evaluate rules over data, now, or later, when the run is over."""

Derive: TypeAlias = "Callable[[str, Options], Table | None]"
"""How to evaluate a relation that rules of earlier runs define, in full."""


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """What came of a script, who answered its SQL, what its rules derived, and from which data."""

    outcome: ScriptOutcome
    sql: SqlEngine
    tables: list[Table]
    stores: Sequence[Store]
    stopped: ScriptStopped | None = None
    rejected: Sequence[pa.Table] = ()


@dataclass(slots=True)
class Scripts:
    """The scripts of a session.

    `rules` is what programs defined; `definitions` what scripts created, by name in lower case.
    """

    engine: Engine
    rules: Definitions
    derive: Derive
    definitions: dict[str, TableDeclaration | Statement] = field(
        default_factory=dict[str, "TableDeclaration | Statement"]
    )

    def run(
        self,
        script: Script,
        params: Mapping[str, Value],
        store: Store,
        evaluate: EvaluateCompiled,
        options: Options,
    ) -> ScriptRun:
        """Evaluate a script; a run that was stopped comes with what it had until then.

        What `evaluate` is asked for later, when somebody looks at a whole view, goes there too.
        """

        def rules(
            program: Program,
            sources: Mapping[str, Source],
            demands: Demands = _ALL,
            *,
            is_later: bool = False,
        ) -> ProgramOutcome:
            stores.append(_overlaid(store, sources))
            done = evaluate(_compile(program, demands), stores[-1], is_later)
            tables.extend(done.derived.values())
            aside.extend(done.rejected)
            derived = {name: shown(table) for name, table in done.derived.items()}
            missing = {
                name: _empty(values(info.columns))
                for name, info in done.compiled.relations.items()
                if name not in derived
            }
            whole = frozenset(derived) if done.stopped is None else frozenset()
            return ProgramOutcome(done.compiled, {**missing, **derived}, done.stopped, whole)

        tables: list[Table] = []
        aside: list[pa.Table] = []
        stores = [store]
        bound = bind(self._with_earlier(script), params)
        sql = self._sql(script)
        try:
            outcome = run(bound, self._tables(store, aside, options), sql, rules)
        except ScriptStopped as stopped:
            return ScriptRun(stopped.outcome, sql, tables, stores, stopped, aside)
        self._remember(bound)
        return ScriptRun(outcome, sql, tables, stores, rejected=aside)

    def compile(
        self, script: Script, params: Mapping[str, Value], store: Store
    ) -> tuple[ScriptOutcome, list[Store]]:
        """What becomes of a script, without evaluating its rules; data may be absent."""
        stores: list[Store] = []

        def rules(
            program: Program, sources: Mapping[str, Source], demands: Demands = _ALL, **_: bool
        ) -> ProgramOutcome:
            stores.append(_overlaid(store, sources))
            compiled = _compile(program, demands)
            relations = compiled.relations.items()
            return ProgramOutcome(
                compiled, {name: _empty(values(info.columns)) for name, info in relations}
            )

        bound = bind(self._with_earlier(script), params)
        evaluate: Evaluate = rules
        sql = self._sql(script)
        outcome = run(bound, self._tables(store, [], Options()), sql, evaluate, may_lack_data=True)
        return outcome, stores

    def _sql(self, script: Script) -> SqlEngine:
        if self.engine.session is not None:
            from caladan.sql.spark import SparkSQL

            return SparkSQL(self.engine.session, script.source)
        from caladan.sql.duck import DuckDB

        return DuckDB(script.source)

    def _tables(self, store: Store, aside: list[pa.Table], options: Options) -> SessionTables:
        return SessionTables(self.engine, store, self.rules, self.derive, aside, options)

    def _with_earlier(self, script: Script) -> Script:
        own = {s.name.lower() for s in script.statements if s.name is not None}
        earlier = [s for name, s in self.definitions.items() if name not in own]
        return replace(script, statements=(*earlier, *script.statements))

    def _remember(self, script: Script) -> None:
        for statement in script.statements:
            if statement.name is not None:
                self.definitions[statement.name.lower()] = statement


@dataclass(frozen=True, slots=True)
class SessionTables:
    """The tables that a script finds in its session; rows that are set aside go to `aside`."""

    engine: Engine
    store: Store
    rules: Definitions
    derive: Derive
    aside: list[pa.Table]
    options: Options

    @property
    def names(self) -> Iterator[str]:
        """Relations with data, then those with rules."""
        yield from self.store
        yield from self.rules.derived

    def source(self, name: str) -> Source | None:
        return self.store.source(name)

    def columns(self, name: str) -> tuple[Column, ...]:
        return self.rules.columns(name) or self.store.columns(name)

    def nulls(self, source: Source, look: Callable[[], Iterable[str]]) -> frozenset[str]:
        """The columns of some data that have NULL, which is looked for once."""
        return self.store.nulls(source, look)

    def rows(self, name: str, source: Source, columns: tuple[Column, ...]) -> pa.Table:
        """Data of this machine; bad rows are set aside if the run allows it."""
        from caladan.sql.names import bag

        permissive = self.options.permissive
        with stoppable(f"reading `{name}`"):
            found, rejected = wait_for(lambda: bag(name, source, columns, permissive=permissive))
        if rejected is not None:
            self.aside.append(rejected)
        return found

    def frame(self, name: str, source: Source | None) -> object | None:
        """What only the engine can hand out: frames of Spark, and relations that rules derive."""
        session = self.engine.session
        if source is None:
            table = self.derive(name, self.options)
            if table is not None:
                if (column := first_object(table.columns)) is not None:
                    raise no_objects(name, column)
                return table.arrow() if session is None else table.spark(session)
            return None if session is None else _from_catalog(session, name)
        if session is None:
            return None
        if source.kind == "spark":
            return source.data
        if source.kind == "path" and source.format in ("parquet", "orc"):
            return session.read.format(source.format).load(list(source.paths))
        return None


def result(
    ran: ScriptRun, engine: Engine, stats: Stats, warnings: Sequence[Diagnostic] = ()
) -> Result:
    """The Result of a script: its answers, and its views by name; `warnings` are of its data."""
    outcome = ran.outcome
    session = engine.session
    needs = (*ran.stores, *ran.tables)

    def fetch(name: str) -> Relation | None:
        if name == REJECTED and ran.rejected:
            return Relation(name, _set_aside(ran.rejected), session=session)
        found = outcome.views.get(name)
        return None if found is None else Relation(name, found(), session=session, needs=needs)

    answers = [
        Relation("answer", a.table, session=session, is_ordered=a.is_ordered, needs=needs)
        for a in outcome.answers
    ]

    def release() -> None:
        ran.sql.close()
        for table in ran.tables:
            table.close()

    return Result(
        [*outcome.views, *([REJECTED] if ran.rejected else [])],
        fetch,
        answers=answers,
        stats=stats,
        warnings=(*outcome.warnings, *warnings),
        release=release,
    )


def _compile(program: Program, demands: Demands) -> Compiled:
    """The rules of views, compiled for what is asked of them."""
    whole = compile_views(program)
    columns = {name: info.columns for name, info in whole.checked.relations.items()}
    asked = with_goals(program, demands, columns)
    return whole if asked == program else compile_views(program, asked)


def _set_aside(rejected: Sequence[pa.Table]) -> Table:
    """The rows that were set aside, each once: SQL and rules may have read the same file."""
    import pyarrow as pa

    from caladan.data.schema import wrap

    whole = pa.concat_tables(rejected)
    seen: dict[tuple[object, ...], int] = {}
    for i, row in enumerate(whole.to_pylist()):
        seen.setdefault(tuple(value for key, value in row.items() if key != "relation"), i)
    return wrap(whole.take(list(seen.values())))


def _overlaid(store: Store, sources: Mapping[str, Source]) -> Store:
    """The session's data under the names that a script's rules have for it."""
    copy = store.snapshot()
    for name in list(copy):
        copy.drop(name)
    for name, source in sources.items():
        copy.add(name, source)
    return copy


def _empty(columns: tuple[Column, ...]) -> Table:
    from caladan.data.schema import empty

    return empty(columns)


def _from_catalog(session: Any, name: str) -> object | None:
    """A temporary view or a table of Spark's catalog."""
    from pyspark.errors import AnalysisException, ParseException

    try:
        return session.table(name)
    except (AnalysisException, ParseException):
        return None
