"""The spark engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, TypeVar, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from caladan.analysis.core import CoreGoal
from caladan.data.frames import check_running
from caladan.data.source import Source
from caladan.engines.interface import EngineStopped, GivenTables, Table
from caladan.engines.spark.cancellation import Attended, Cancelled, new_tag
from caladan.engines.spark.choice import TaskMemory, outlooks
from caladan.engines.spark.frame import plans
from caladan.engines.spark.run import Cliques
from caladan.engines.spark.session import connect
from caladan.engines.spark.session.failures import SparkSaid, diagnose
from caladan.engines.spark.session.memory import task_memory
from caladan.engines.spark.session.session import adopt, beside, child
from caladan.engines.spark.session.staging import Readers, Staging
from caladan.engines.spark.session.workspace import ShuffleBytes, Workspace, release_abandoned
from caladan.engines.spark.sources import sources
from caladan.engines.spark.sources.table import SparkTable
from caladan.engines.spark.sources.validity import Reading
from caladan.program import Column
from caladan.program.clock import TimeOver, deadline
from caladan.program.events import BytesShuffled, DataRead, Listener, RunDone, RunStarted
from caladan.program.options import Options
from caladan.rules.failures import limit, report_interrupt
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.incremental.program import IncrementalProgram

T = TypeVar("T")

_PATIENCE: Final = 1.0  # seconds for the reading of data to end once its time is over


class SparkEngine:
    """Evaluates delta programs on Spark."""

    name = "spark"

    def __init__(
        self,
        session: SparkSession | None = None,
        *,
        master: str | None = None,
        conf: Mapping[str, str] | None = None,
        ship: bool | None = None,
    ) -> None:
        self._ship = ship
        self.session, self._is_ours = adopt(session, master, conf)
        self._is_connect = connect.is_connect(self.session)
        self.variant = "connect" if self._is_connect else self.name
        """What plans are for: with Spark Connect they differ."""
        self._child = child(self.session)
        self._staging = Staging(self._child)
        self._view_session: SparkSession | None = None

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, read once, and the rows set aside."""
        check_running(self.session)
        started = time.perf_counter()

        def work(check: Callable[[], None]) -> tuple[SparkTable, pa.Table | None]:
            workspace = Workspace(self._child, check, self._staging)
            connect.describe_jobs(self._child, f"reading {name}")
            try:
                reading = Reading(name, source, columns, workspace, options.permissive)
                found = sources.load(reading)
                workspace.keep(*found[0].runs)
                return found
            finally:
                workspace.close()

        table, rejected = self._attended(work, deadline(options.timeout), patience=_PATIENCE)
        table.reading = time.perf_counter() - started
        return table, rejected

    def run(
        self, program: DeltaProgram, store: GivenTables, options: Options, events: Listener
    ) -> dict[str, Table]:
        """Tables for every derived relation of the program."""
        check_running(self.session)
        started = time.perf_counter()
        self._staging.sweep()
        events.tell(RunStarted(self.name, len(program.cliques)))
        tables = cast("Mapping[str, SparkTable]", store)
        _tell_reading(tables, events)
        workspace = Workspace(self._child, staging=self._staging, asked=options.partitions)
        workspace.ship = self._ship
        tag = new_tag()
        if not self._is_connect:
            workspace.shuffle_bytes = ShuffleBytes(self._child.sparkContext, tag)
        cliques = Cliques(program, tables, options, events, workspace)

        def work(check: Callable[[], None]) -> None:
            workspace.check = check
            cliques.run()

        try:
            self._attended(work, deadline(options.timeout), cliques, tag)
        except EngineStopped as stopped:
            raise EngineStopped(stopped.diagnostics[0], cliques.tables()) from None
        except TimeOver:
            reached = limit("timeout", cast("float", options.timeout), cliques.current)
            raise EngineStopped(reached, cliques.tables()) from None
        except KeyboardInterrupt:
            raise EngineStopped(report_interrupt(cliques.current), cliques.tables()) from None
        except BaseException:
            cliques.close()
            raise
        else:
            derived = cliques.tables()
        finally:
            workspace.close()
        if workspace.shuffle_bytes is not None:
            workspace.shuffle_bytes.look()
            if workspace.shuffle_bytes.size is not None:
                events.tell(BytesShuffled(workspace.shuffle_bytes.size))
        events.tell(RunDone(time.perf_counter() - started))
        return dict(derived)

    def watch(
        self, program: DeltaProgram, store: GivenTables, options: Options, events: Listener
    ) -> IncrementalProgram:
        """The relations of a program, kept true in the driver while facts come and go."""
        from caladan.engines.embedded.engine import EmbeddedEngine
        from caladan.engines.embedded.tables import LoadedTable

        check_running(self.session)
        given = {name: LoadedTable(table.columns, table.arrow()) for name, table in store.items()}
        return EmbeddedEngine().watch(program, given, options, events)

    @property
    def view_session(self) -> SparkSession:
        """A session beside the user's, in which relations are views."""
        if self._view_session is None:
            self._view_session = beside(self.session)
        return self._view_session

    def start(self) -> None:
        """It has started; C050 if Spark was stopped since."""
        check_running(self.session)

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows that match a goal's constants and its repeated variables."""
        if not isinstance(table, SparkTable):  # an empty table that stands in for one
            return table
        return table.answering(goal)

    @property
    def tasks(self) -> int:
        """How many tasks run at the same time."""
        check_running(self.session)
        return connect.parallelism(self._child)

    @property
    def memory(self) -> TaskMemory | None:
        """What facts may have in one task; None if no setting says."""
        check_running(self.session)
        return None if self._is_connect else task_memory(self._child.sparkContext)

    def plans(
        self, program: DeltaProgram, store: GivenTables, options: Options, *, is_all_there: bool
    ) -> list[tuple[str, str]]:
        """What Spark would be handed, with a title each: its own plans of frames, or tasks.

        Unless the data `is_all_there`, all strategies that sizes may decide for are told.
        """
        tables = cast("Mapping[str, SparkTable]", store)
        try:
            sizes = {n: table.size for n, table in tables.items()} if is_all_there else None
            has_rdds = not self._is_connect
            seen = outlooks(
                program, sizes, self.tasks, options, has_rdds=has_rdds, memory=self.memory
            )
            workspace = Workspace(self._child, staging=self._staging, asked=options.partitions)
            return plans.plans(program, tables, workspace, seen)
        except (PySparkException, Py4JError) as problem:
            raise diagnose(problem) from None

    def close(self) -> None:
        """Stop the session, if it was started here; remove what was staged."""
        self._staging.close()
        release_abandoned()
        if self._is_connect:
            connect.release(self._child)
            if self._view_session is not None:
                connect.release(self._view_session)
        if self._is_ours:
            ended = None if self._is_connect else Readers.of(self.session.sparkContext)
            self.session.stop()
            if ended is not None:
                ended.end()

    def _attended(
        self,
        work: Callable[[Callable[[], None]], T],
        until: float | None = None,
        cliques: Cliques | None = None,
        tag: str | None = None,
        patience: float | None = None,
    ) -> T:
        """Do work that can be interrupted; what fails inside Spark becomes a diagnostic."""
        rules = () if cliques is None else cliques.rules
        stopping = None if cliques is None else cliques.stopping
        try:
            attended = Attended(connect.jobs(self._child), work, stopping, tag)
            return attended.run(until, patience)
        except (PySparkException, Py4JError, ConnectionError, Cancelled) as problem:
            raise diagnose(problem, rules) from SparkSaid(problem)


def _tell_reading(store: Mapping[str, SparkTable], events: Listener) -> None:
    """Tell of data that was read since the last run."""
    for name, table in store.items():
        if table.reading is not None:
            events.tell(DataRead(name, table.size, table.reading))
            table.reading = None
