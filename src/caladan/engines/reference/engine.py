"""The reference engine: cliques in order, each by naive evaluation, over sets of tuples.

It is the oracle of the tests: it reads the rules of a DeltaProgram and nothing the compiler made
of them (no plans, deltas, guards or arrangements), so a mistake there shows as a difference.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from caladan.analysis.core import CoreGoal
from caladan.data.load import load
from caladan.data.source import Source
from caladan.engines.interface import EngineStopped, InProcess, Table
from caladan.engines.reference.body import Facts
from caladan.engines.reference.fixpoint import NaiveFixpoint, evaluate_clique
from caladan.engines.reference.limits import NaiveLimits
from caladan.engines.reference.table import ReferenceTable, from_arrow
from caladan.engines.reference.values import Row, canonical, same, widened
from caladan.program import Column, Constant, Value
from caladan.program.clock import attended
from caladan.program.events import CliqueDone, CliqueStarted, Listener, RunDone, RunStarted
from caladan.program.options import Options
from caladan.rules.failures import LimitReached, interrupted
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    import pyarrow as pa


class ReferenceEngine(InProcess):
    """Evaluates delta programs slowly and plainly."""

    name = "reference"

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, and the rows set aside."""
        table, rejected = attended(
            lambda: load(name, source, columns, permissive=options.permissive)
        )
        return from_arrow(table, columns), rejected

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
        given = {name: _given(program, store, name) for name in program.relations}
        facts = Facts(given)
        run = NaiveFixpoint(program.relations, given, facts, NaiveLimits(options), events)
        relations: tuple[str, ...] = ()
        try:
            for clique in program.cliques:
                relations = clique.relations
                clique_started = time.perf_counter()
                events.tell(CliqueStarted(relations, clique.is_recursive, "naive"))
                rounds = evaluate_clique(run, clique)
                seconds = time.perf_counter() - clique_started
                events.tell(CliqueDone(relations, rounds, facts.count(relations), seconds))
        except LimitReached as reached:
            raise EngineStopped(reached.diagnostics[0], _tables(program, facts)) from None
        except KeyboardInterrupt:
            raise EngineStopped(interrupted(relations), _tables(program, facts)) from None
        events.tell(RunDone(time.perf_counter() - started))
        return _tables(program, facts)

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows that match a goal's constants and its repeated variables."""
        if not isinstance(table, ReferenceTable):  # an empty table that stands in for one
            return table
        rows = frozenset(row for row in table.rows if _matches(goal, row))
        return ReferenceTable(goal.columns, rows)


def _given(program: DeltaProgram, store: Mapping[str, Table], name: str) -> set[Row]:
    """A relation's facts from data and from the program's text."""
    info = program.relations[name]
    rows: set[Row] = {
        tuple(canonical(widened(v, t)) for v, t in zip(row, info.types, strict=True))
        for row in program.facts.get(name, ())
    }
    if info.takes_data:
        table = store[name]
        assert isinstance(table, ReferenceTable)
        rows |= table.rows
    return rows


def _tables(program: DeltaProgram, facts: Facts) -> dict[str, Table]:
    return {
        name: ReferenceTable(info.columns, frozenset(facts[name]))
        for name, info in program.relations.items()
        if info.is_derived
    }


def _matches(goal: CoreGoal, row: Row) -> bool:
    bound: dict[str, Value] = {}
    for argument, value in zip(goal.arguments, row, strict=True):
        if isinstance(argument, Constant):
            wanted = canonical(argument.value)
        elif not argument.is_anonymous:
            wanted = bound.setdefault(argument.name, value)
        else:
            continue
        if not same(wanted, value):
            return False
    return True
