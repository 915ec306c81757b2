"""The spark engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession, functions as sf

from caladan.analysis.core import CoreGoal
from caladan.data.source import Source
from caladan.delta.program import DeltaProgram
from caladan.engines.interface import Stopped, Table
from caladan.engines.problems import interrupted, limit
from caladan.engines.spark import plans, sources
from caladan.engines.spark.attend import Attended, Cancelled, TimeOver
from caladan.engines.spark.failures import diagnosed
from caladan.engines.spark.frame import Evaluation, LimitReached
from caladan.engines.spark.runs import Workspace
from caladan.engines.spark.session import adopt, child
from caladan.engines.spark.table import SparkTable
from caladan.engines.spark.types import literal
from caladan.errors import error
from caladan.events import Events
from caladan.options import Options
from caladan.program import Column, Constant

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class SparkEngine:
    """Evaluates delta programs on Spark."""

    name = "spark"

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
    ) -> None:
        self.session, self._is_ours = adopt(session, master, conf)
        self._child = child(self.session)

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, read once, and the rows set aside."""
        started = time.perf_counter()

        def work(check: Callable[[], None]) -> tuple[SparkTable, pa.Table | None]:
            workspace = Workspace(self._child, check)
            try:
                found = sources.load(
                    name, source, columns, workspace, permissive=options.permissive
                )
                workspace.keep(*found[0].runs)
                return found
            finally:
                workspace.close()

        try:
            table, rejected = self._attended(work)
        except KeyboardInterrupt:
            raise Stopped(interrupted([name]), {}) from None
        table.reading = time.perf_counter() - started
        return table, rejected

    def run(
        self,
        program: DeltaProgram,
        store: Mapping[str, Table],
        options: Options,
        events: Events,
    ) -> dict[str, Table]:
        """Tables for every derived relation of the program."""
        if options.strategy not in (None, "frame"):
            raise error(
                "C051", f"strategy {options.strategy!r} is not there yet", help='there is "frame"'
            )
        started, clock = time.perf_counter(), time.monotonic()
        events.run_started(self.name, len(program.cliques))
        tables = cast("Mapping[str, SparkTable]", store)
        _tell_reading(tables, events)
        deadline = None if options.timeout is None else clock + options.timeout
        workspace = Workspace(self._child)
        evaluation = Evaluation(program, tables, options, events, workspace)

        def work(check: Callable[[], None]) -> None:
            workspace.check = check
            evaluation.run()

        try:
            self._attended(work, deadline, evaluation)
        except LimitReached as reached:
            raise Stopped(reached.diagnostics[0], evaluation.tables()) from None
        except TimeOver:
            reached = limit("timeout", cast("float", options.timeout), evaluation.current)
            raise Stopped(reached, evaluation.tables()) from None
        except KeyboardInterrupt:
            raise Stopped(interrupted(evaluation.current), evaluation.tables()) from None
        else:
            derived = evaluation.tables()
        finally:
            workspace.close()
        events.run_done(time.perf_counter() - started)
        return dict(derived)

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows that match a goal's constants and its repeated variables."""
        if not isinstance(table, SparkTable):  # an empty table that stands in for one
            return table
        frame = table.frame
        first: dict[str, int] = {}
        for i, argument in enumerate(goal.arguments):
            column = sf.col(f"c{i}")
            if isinstance(argument, Constant):
                frame = frame.where(column == literal(argument.value, table.columns[i].type))
            elif not argument.is_anonymous and argument.name in first:
                frame = frame.where(column == sf.col(f"c{first[argument.name]}"))
            else:
                first[argument.name] = i
        return table.renamed(goal.columns, frame)

    def plans(
        self, program: DeltaProgram, store: Mapping[str, Table], options: Options
    ) -> list[tuple[str, str]]:
        """Spark's own plans of every frame it would be handed, with a title each."""
        tables = cast("Mapping[str, SparkTable]", store)
        try:
            return plans.plans(program, tables, Workspace(self._child))
        except (PySparkException, Py4JError) as problem:
            raise diagnosed(problem) from None

    def close(self) -> None:
        """Stop the session, if it was started here."""
        if self._is_ours:
            self.session.stop()

    def _attended(
        self,
        work: Callable[[Callable[[], None]], T],
        deadline: float | None = None,
        evaluation: Evaluation | None = None,
    ) -> T:
        """Do work that can be interrupted; what fails inside Spark becomes a diagnostic."""
        rules = () if evaluation is None else evaluation.rules
        try:
            return Attended(self._child.sparkContext, work).run(deadline)
        except (PySparkException, Py4JError, Cancelled) as problem:
            raise diagnosed(problem, rules) from problem


def _tell_reading(store: Mapping[str, SparkTable], events: Events) -> None:
    """Tell of data that was read since the last run."""
    for name, table in store.items():
        if table.reading is not None:
            events.data_read(name, table.count(), table.reading)
            table.reading = None
