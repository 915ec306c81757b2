"""A script, statement after statement: the table of contents of RaSQL.

    CREATE TABLE    a name and columns for data that is added
    CREATE VIEW     a frame of the SQL engine
    query           its views in order, each after what it reads: SQL where nothing is recursive,
                    else rules, which the engine of the session evaluates; then its SELECT, by SQL

`run` does all that. What rules are evaluated by, and whether they are at all (explain only wants to
see them), is up to the caller. `bind` gives `{name}` and `:name` their values, as literals of the
syntax tree, never as text.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol, cast

from sqlglot import exp

from caladan.analysis.monotone import Finding, premappable
from caladan.engines.interface import EngineStopped, Table
from caladan.language.rasql.script import (
    Group,
    Script,
    Statement,
    TableDeclaration,
    View,
    body,
    groups,
    span_of,
    views,
)
from caladan.language.rasql.translate import column_names, translate
from caladan.pipeline import Compiled
from caladan.program import Atom, Column, Declaration, Null, Object, Program, Value
from caladan.program.diagnostics import CaladanError, Diagnostic, Diagnostics, did_you_mean, error
from caladan.program.transform import fresh
from caladan.program.types import Type
from caladan.program.values import write_value
from caladan.sql.engine import Frame, SqlEngine, name_columns
from caladan.sql.names import SqlInputs, SqlSession, TableNames
from caladan.sql.reading import Demands, ViewReading

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.data.source import Source


@dataclass(frozen=True, slots=True)
class ProgramOutcome:
    """What became of a program: its tables by relation, complete unless it was stopped.

    `whole` has the relations that are there in full, whether or not they were asked for.
    """

    compiled: Compiled
    tables: Mapping[str, Table]
    stopped: EngineStopped | None = None
    whole: frozenset[str] = frozenset()


class Evaluate(Protocol):
    """Evaluates rules over data, as far as `demands` ask for their relations."""

    def __call__(
        self,
        program: Program,
        sources: Mapping[str, Source],
        demands: Demands = ...,
        *,
        is_later: bool = False,
    ) -> ProgramOutcome:
        """Now, or later, when the run is over and somebody asks for more of it."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query; `is_ordered` if it says in which order."""

    table: Table
    is_ordered: bool


@dataclass(slots=True)
class ScriptOutcome:
    """What came of a script: answers, views by name, and how they came about."""

    answers: list[Answer] = field(default_factory=list[Answer])
    views: dict[str, Callable[[], Table]] = field(default_factory=dict[str, "Callable[[], Table]"])
    compiled: list[Compiled] = field(default_factory=list[Compiled])
    findings: list[Finding] = field(default_factory=list[Finding])
    queries: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """What the analysis warns of, and aggregates that are not known to be safe."""
        found = [w for compiled in self.compiled for w in compiled.warnings]
        mine = [w for finding in self.findings if (w := finding.warning()) is not None]
        # Where a comparison was warned of already, the aggregate need not be.
        places = {w.place for w in found}
        return tuple(dict.fromkeys([*found, *(w for w in mine if w.place not in places)]))


class ScriptStopped(CaladanError):
    """A script that met a limit or was interrupted, in its recursion or in its SQL."""

    def __init__(self, stopped: EngineStopped, outcome: ScriptOutcome) -> None:
        super().__init__(*stopped.diagnostics)
        self.outcome = outcome


def run(
    script: Script,
    session: SqlSession,
    engine: SqlEngine,
    evaluate: Evaluate,
    *,
    may_lack_data: bool = False,
) -> ScriptOutcome:
    """Evaluate every statement of a script."""
    names = TableNames(session, engine, script.source, may_lack_data=may_lack_data)
    runner = _Runner(engine, evaluate, ScriptOutcome())
    try:
        for statement in script.statements:
            if isinstance(statement, TableDeclaration):
                names.declare(statement.relation)
                continue
            frame = runner.statement(statement, names)
            if statement.name is not None:
                names.add(statement.name, frame)
                runner.show(statement.name, frame)
            else:
                is_ordered = bool(statement.query.args.get("order"))
                table = engine.result(frame, is_ordered=is_ordered)
                runner.outcome.answers.append(Answer(table, is_ordered))
    except EngineStopped as stopped:
        raise ScriptStopped(stopped, runner.outcome) from None
    return runner.outcome


@dataclass(slots=True)
class _Runner:
    engine: SqlEngine
    evaluate: Evaluate
    outcome: ScriptOutcome
    taken: set[str] = field(default_factory=set[str])

    def statement(self, statement: Statement, names: TableNames) -> Frame:
        """The frame of a query; its views are evaluated first, if one of them is recursive."""
        found = groups(views(statement))
        what = statement.name or "answer"
        if not any(group.is_recursive for group in found):
            tree = statement.query.copy()
            if clause := tree.args.get("with_"):
                clause.set("recursive", None)
            return self._query(what, tree, statement.columns, names)
        local = names.within()
        reading = ViewReading(body(statement), found)
        for group in found:
            if group.is_recursive:
                self._recurse(group, statement, local, reading)
            else:
                view = group.views[0]
                tree = reading.views[view.key]
                local.add(view.name, self._query(view.name, tree, view.columns, local))
        return self._query(what, reading.query, statement.columns, local)

    def show(self, name: str, frame: Frame) -> None:
        """Hand a view out under its name."""
        self.outcome.views[name] = lambda: self.engine.result(frame, is_ordered=False)

    def _query(
        self, what: str, tree: exp.Query, columns: tuple[str, ...], names: TableNames
    ) -> Frame:
        tree = _with_columns(name_columns(tree), what, columns)
        self.outcome.queries.append((what, tree.sql(pretty=True)))
        return self.engine.query(tree, names.frames(tree))

    def _recurse(
        self, group: Group, statement: Statement, names: TableNames, reading: ViewReading
    ) -> None:
        unused = partial(fresh, taken=self.taken, fold=str.lower)
        inputs = SqlInputs(names, self.engine, unused, statement.hint)
        rules = translate(group.views, inputs, unused)
        program = replace(rules, relations=tuple(_find_used(inputs, rules)))
        relations = {
            goal.atom.relation: v for v, goal in zip(group.views, program.goals, strict=True)
        }
        demands = reading.demands(group)
        parts = reading.excerpts(group, program, demands, names, inputs, self.taken)
        for relation, query in inputs.queries.items():
            self.outcome.queries.append((relation, query.sql(pretty=True)))
        program = replace(
            program,
            rules=(*program.rules, *(part.rule for part in parts)),
            goals=(*program.goals, *(part.goal for part in parts)),
        )
        program = replace(program, relations=tuple(_find_used(inputs, program)))
        wanted = {name: demands[view.key] for name, view in relations.items()}
        done = self.evaluate(program, inputs.sources, wanted)
        self.outcome.compiled.append(done.compiled)

        @cache
        def in_full() -> Mapping[str, Table]:
            return self.evaluate(program, inputs.sources, is_later=True).tables

        evaluated = {goal.name: goal.relation for goal in done.compiled.delta.goals}
        for name, view in relations.items():
            found = done.tables.get(evaluated.get(name, name))
            is_whole = evaluated.get(name) == name or name in done.whole
            if found is None or not (is_whole or done.stopped is not None):
                self.outcome.views[view.name] = partial(_later, in_full, name, view)
            else:
                self.outcome.views[view.name] = partial(_itself, _rename(found, view))
            if found is not None and done.stopped is None and wanted[name] is not None:
                names.add(view.name, self.engine.held(_rename(found, view)))
        if done.stopped is None:
            for part in parts:
                table = _under_names(done.tables[evaluated[part.name]], part.columns)
                names.add(part.name, self.engine.held(table))
        columns = {name: column_names(view) for name, view in relations.items()}
        self.outcome.findings += premappable(done.compiled.checked, columns)
        if done.stopped is not None:
            raise ScriptStopped(done.stopped, self.outcome)


def _find_used(inputs: SqlInputs, rules: Program) -> list[Declaration]:
    """The declarations of the relations that rules read."""
    atoms = (part for rule in rules.rules for part in rule.body if isinstance(part, Atom))
    read = {atom.relation for atom in atoms}
    return [relation for name, relation in inputs.relations.items() if name in read]


def _with_columns(tree: exp.Query, name: str, columns: tuple[str, ...]) -> exp.Query:
    """The query with other names for its columns."""
    if not columns:
        return tree
    alias = exp.TableAlias(
        this=exp.to_identifier(name, quoted=True),
        columns=[exp.to_identifier(column, quoted=True) for column in columns],
    )
    return exp.select("*").from_(exp.Subquery(this=tree, alias=alias))


@dataclass(frozen=True, slots=True)
class RenamedTable:
    """A table under other column names: those of its view, or of an excerpt."""

    table: Table
    columns: tuple[Column, ...]

    def count(self) -> int:
        return self.table.count()

    def arrow(self, limit: int | None = None) -> pa.Table:
        return self.table.arrow(limit).rename_columns([column.name for column in self.columns])

    def spark(self, session: Any) -> Any:
        return self.table.spark(session).toDF(*(column.name for column in self.columns))

    def close(self) -> None:
        self.table.close()


def _rename(table: Table, view: View) -> Table:
    """A view's table under the names that its WITH gives the columns."""
    return _under_names(table, column_names(view))


def _under_names(table: Table, names: Sequence[str]) -> Table:
    return RenamedTable(
        table, tuple(Column(n, c.type) for n, c in zip(names, table.columns, strict=True))
    )


def _itself(table: Table) -> Table:
    return table


def _later(in_full: Callable[[], Mapping[str, Table]], name: str, view: View) -> Table:
    return _rename(in_full()[name], view)


def bind(script: Script, values: Mapping[str, Value]) -> Script:
    """The script with literals where parameters stood; C020 for those that have no value."""
    found = Diagnostics()
    statements = tuple(
        replace(s, query=_bound(s, values, found)) if isinstance(s, Statement) else s
        for s in script.statements
    )
    found.raise_errors()
    return replace(script, statements=statements)


def _bound(statement: Statement, values: Mapping[str, Value], found: Diagnostics) -> exp.Query:
    def change(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Placeholder | exp.Parameter):
            return node
        name = node.name
        if name in values:
            return _literal(values[name], node)
        given = ", ".join(f"`{n}`" for n in sorted(values)) or "none"
        found.add(
            "C020",
            f"no value was given for the parameter `{name}` (given: {given})",
            span_of(node, statement.source) or statement.span,
            help=did_you_mean(name, values) or f"pass params={{'{name}': …}}, or --param {name}=…",
        )
        return exp.Literal.number(0)

    return cast("exp.Query", statement.query.transform(change))


def _literal(value: Value, node: exp.Expr) -> exp.Expr:
    """A value as a literal that stands where the parameter stood."""
    match value:
        case bool():
            literal: exp.Expr = exp.Boolean(this=value)
        case int():
            literal = exp.Literal.number(abs(value))
            literal = exp.Neg(this=literal) if value < 0 else literal
        case float() if not math.isfinite(value):
            spelled = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            literal = exp.cast(exp.Literal.string(spelled), "double")
        case float():
            literal = exp.Literal.number(repr(abs(value)))
            literal = exp.Neg(this=literal) if value < 0 else literal
        case dt.datetime():
            text = exp.Literal.string(value.isoformat(sep=" "))
            literal = exp.Cast(this=text, to=exp.DataType.build("timestampntz"))
        case dt.date():
            literal = exp.cast(exp.Literal.string(value.isoformat()), "date")
        case Decimal():
            literal = exp.cast(exp.Literal.string(write_value(value)), Type.DECIMAL.spark)
        case bytes():
            literal = exp.func("unhex", exp.Literal.string(value.hex()))
        case str():
            literal = exp.Literal.string(value)
        case dt.timedelta():
            seconds, parts = divmod(value // dt.timedelta(microseconds=1), 1_000_000)
            text = exp.Literal.string(f"{seconds}.{parts:06}")
            literal = exp.Interval(this=text, unit=exp.var("SECOND"))
        case Null():
            literal = exp.Null()
        case Object():
            raise error(
                "C065", f"the parameter `{node.name}` is an object, which SQL does not support"
            )
    place = next((part.meta for part in node.walk() if "start" in part.meta), None)
    if place is not None:
        for part in literal.walk():
            part.meta.update(place)
    return literal
