"""From the tables of a run to the Result that users hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from caladan.analysis.core import CoreGoal
from caladan.engines.interface import Engine, EngineStopped, Table
from caladan.engines.missing import shown as as_shown
from caladan.pipeline import Compiled
from caladan.program import Constant, Program
from caladan.session.result import REJECTED, Relation, Result
from caladan.session.stats import Stats
from caladan.session.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.data.formats import Look
    from caladan.program.diagnostics import Diagnostic
    from caladan.program.notation import Widths


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What came of evaluating a program: tables of data, derived tables, rows set aside."""

    compiled: Compiled
    base: Mapping[str, Table]
    derived: Mapping[str, Table]
    rejected: Sequence[pa.Table] = ()
    stopped: EngineStopped | None = None
    widths: Mapping[str, Widths] = field(default_factory=dict[str, "Widths"])
    """How many digits the decimals of each relation have, if any has some."""
    looks: Mapping[str, tuple[Look, ...]] = field(default_factory=dict[str, "tuple[Look, ...]"])
    """How the columns of each relation look to Spark, if data came from there."""
    warnings: Sequence[Diagnostic] = ()
    """What there is to say about the data."""


def wrap(
    program: Program,
    run: FinishedRun,
    engine: Engine,
    stats: Stats,
    complete: Callable[[str], FinishedRun],
    store: Store,
) -> Result:
    """The Result of a run over what a store has.

    `complete` evaluates a relation in full that was not needed in full.
    """
    goals = run.compiled.delta.goals
    evaluated = [run]

    def relation(
        shown: str, table: Table, name: str, found: FinishedRun, *, is_lent: bool = False
    ) -> Relation:
        kept = [i for i, column in enumerate(table.columns) if column.role == "value"]
        widths, looks = found.widths.get(name, ()), found.looks.get(name, ())
        return Relation(
            shown,
            as_shown(table),
            _order(run, name),
            engine.session,
            widths=tuple(widths[i] for i in kept) if widths else (),
            looks=tuple(looks[i] for i in kept) if looks else (),
            objects=store.objects,
            needs=(store,),
            is_lent=is_lent,
        )

    def answer(goal: CoreGoal) -> Relation:
        table = engine.answer(goal, _table(run, goal.relation))
        return relation(goal_text(goal), table, goal.relation, run)

    def fetch(name: str) -> Relation | None:
        found, table = run, _whole(run, name)
        if table is None and _is_users(run.compiled, name):
            if run.stopped:
                table = _partial(run, name)
            else:
                found = complete(name)
                evaluated.append(found)
                table = _whole(found, name)
        if table is None:
            return None
        is_lent = any(table is each for each in found.base.values())
        return relation(name, table, name, found, is_lent=is_lent)

    return Result(
        _names(program, run),
        fetch,
        answers=[answer(goal) for goal in goals if not goal.export],
        exports=[goal.name for goal in goals if goal.export],
        stats=stats,
        warnings=(*run.compiled.warnings, *run.warnings),
        release=lambda: _close(evaluated),
    )


def goal_text(goal: CoreGoal) -> str:
    """A goal as it is written."""
    arguments = ", ".join(
        _write(argument.value) if isinstance(argument, Constant) else argument.name
        for argument in goal.arguments
    )
    return f"{goal.name}({arguments})"


def _names(program: Program, run: FinishedRun) -> Iterator[str]:
    """Names in program order: goals, then what else is derived, then rows set aside."""
    yield from (goal.name for goal in run.compiled.delta.goals)
    yield from (rule.head.relation for rule in program.rules)
    if run.rejected:
        yield REJECTED


def _whole(run: FinishedRun, name: str) -> Table | None:
    """A relation that was evaluated in full, or given."""
    if name == REJECTED and run.rejected:
        import pyarrow as pa

        from caladan.data.schema import wrap as wrap_arrow

        return wrap_arrow(pa.concat_tables(run.rejected))
    if not _is_users(run.compiled, name):
        return None
    return run.derived.get(name, run.base.get(name))


def _partial(run: FinishedRun, name: str) -> Table:
    """What a run that was stopped had derived of a relation, also of a version that is bound."""
    for found, info in run.compiled.delta.relations.items():
        own = [column for column in info.columns if column.role == "value"]
        if info.origin == name and len(own) == run.compiled.checked.relations[name].arity:
            return _table(run, found)
    return _empty(run, name)


def _table(run: FinishedRun, name: str) -> Table:
    table = run.derived.get(name, run.base.get(name))
    return _empty(run, name) if table is None else table


def _empty(run: FinishedRun, name: str) -> Table:
    """A relation that a stopped run did not come to."""
    from caladan.data.schema import empty

    return empty(run.compiled.relations[name].columns)


def _is_users(compiled: Compiled, name: str) -> bool:
    info = compiled.checked.relations.get(name)
    return info is not None and not info.is_internal


def _order(run: FinishedRun, name: str) -> tuple[tuple[int, bool], ...]:
    """The order of a relation's columns as users see them."""
    info = run.compiled.relations.get(name)
    if info is None or not info.order:
        return ()
    kept = [i for i, column in enumerate(info.columns) if column.role == "value"]
    return tuple((kept.index(i), descending) for i, descending in info.order if i in kept)


def _close(runs: Sequence[FinishedRun]) -> None:
    for run in runs:
        for table in run.derived.values():
            table.close()


def _write(value: object) -> str:
    from caladan.session.display import cell

    return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else cell(value)
