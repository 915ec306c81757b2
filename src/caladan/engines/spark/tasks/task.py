"""What a task does: read its inputs, evaluate, hand out. Runs in a Python worker of an executor.

    evaluated    a program, or a part of it; what it derives is handed out, or what is wrong
    evaluation   the same, and what it derives stays here
    listed       the facts of one relation, derived again, as Arrow batches: for Spark Connect

Evaluation can be stopped by the driver, through the line: the engine is interrupted as if by
Ctrl-C, and what it has derived so far is handed out. A driver that cannot be reached is done
without: then there is no progress to see, and stopping means that Spark ends the task.
"""

from __future__ import annotations

import _thread
import os
import signal
import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, cast

from caladan.engines.embedded.engine import EmbeddedEngine
from caladan.engines.embedded.tables import DerivedTable, LoadedTable
from caladan.engines.interface import EngineStopped, Table
from caladan.engines.spark.tasks.cells import ByCell, in_cell
from caladan.engines.spark.tasks.control import Line
from caladan.engines.spark.tasks.exchange import Sent, receive
from caladan.engines.spark.tasks.output import Effort, batches, blocks_of, output
from caladan.engines.spark.tasks.relay import Relay, pack_diagnostics
from caladan.engines.spark.tasks.shard import ByPivot, in_part
from caladan.engines.spark.tasks.work import Block, TaskOutcome, Work, too_little_memory
from caladan.program.diagnostics import CaladanError, Diagnostic
from caladan.program.events import Listener
from caladan.rules.failures import report_interrupt
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class TaskEvaluation:
    """What came of evaluating: tables of what was derived, in so many seconds, or what is wrong."""

    status: Literal["done", "stopped", "failed", "cannot"]
    tables: Mapping[str, DerivedTable]
    seconds: float
    diagnostics: tuple[dict[str, Any], ...] = ()


def evaluate_part(
    work: Work, part: int, came: Iterable[Sent] = ()
) -> tuple[TaskOutcome, Iterator[Block]]:
    """Evaluate a part of the work, and hand out what it derives; facts in blocks come after it.

    What `came` from other tasks are the shares of this one.
    """
    line = _line(work, part)
    relay = Relay(line)
    try:
        found = evaluation(work, part, relay, line, came)
        is_final = found.status == "done"
        try:
            outputs = tuple(
                output(name, table, work, found.seconds, part, is_final=is_final)
                for name, table in found.tables.items()
            )
        except MemoryError:
            said = tuple(pack_diagnostics([too_little_memory()], work.program))
            return TaskOutcome("cannot", (), said), iter(())
    finally:
        relay.close()
        if line is not None:
            line.close()
    blocks = (blocks_of(o.name, found.tables[o.name]) for o in outputs if o.is_in_blocks)
    return TaskOutcome(found.status, outputs, found.diagnostics), chain.from_iterable(blocks)


def evaluation(
    work: Work,
    part: int,
    events: Listener,
    line: Line | None = None,
    came: Iterable[Sent] = (),
) -> TaskEvaluation:
    """Evaluate a part of the work."""
    effort = Effort()

    def derived(tables: Mapping[str, Table]) -> dict[str, DerivedTable]:
        known = work.program.relations
        return {n: t for n, t in tables.items() if isinstance(t, DerivedTable) and n in known}

    def ended(
        status: Literal["stopped", "failed", "cannot"],
        diagnostics: Sequence[Diagnostic],
        tables: Mapping[str, Table] | None = None,
    ) -> TaskEvaluation:
        said = tuple(pack_diagnostics(diagnostics, work.program))
        return TaskEvaluation(status, derived(tables or {}), effort.seconds, said)

    try:
        program, store = _ready(work, part, came)
        try:
            with _stoppable(line), _own_cores(work):
                tables = EmbeddedEngine().run(program, store, work.options, events)
        except EngineStopped as stopped:
            if stopped.is_out_of_memory and work.options.memory is None:  # another may have more
                return ended("cannot", [too_little_memory()])
            return ended("stopped", stopped.diagnostics, stopped.store)
        return TaskEvaluation("done", derived(tables), effort.seconds)
    except CaladanError as problem:
        cannot = problem.diagnostics[0].code == "C051"  # what this engine does not do
        return ended("cannot" if cannot else "failed", problem.diagnostics)
    except MemoryError:  # Arrow's is one
        return ended("cannot", [too_little_memory()])
    except KeyboardInterrupt:  # before anything was derived
        names = [name for clique in work.program.cliques for name in clique.origins]
        return ended("stopped", [report_interrupt(names)])


def list_facts(work: Work, relation: str) -> Iterator[pa.RecordBatch]:
    """The facts of a relation, in the columns of the engine's frames."""
    program, store = _ready(work, 0)
    tables = EmbeddedEngine().run(program, store, work.options, Relay(None))
    return batches(cast("DerivedTable", tables[relation]))


def _ready(
    work: Work, part: int, came: Iterable[Sent] = ()
) -> tuple[DeltaProgram, dict[str, Table]]:
    facts = {name: shipment.read() for name, shipment in work.inputs.items()}
    facts |= receive(came)
    program = work.program
    match work.cut:
        case ByCell():
            program, facts = in_cell(program, facts, part, work.cut)
        case ByPivot():
            program, facts = in_part(program, facts, part, work.cut)
        case None:
            pass
    relations = program.relations
    return program, {n: LoadedTable(relations[n].columns, data) for n, data in facts.items()}


def _line(work: Work, part: int) -> Line | None:
    if work.address is None:
        return None
    try:
        return Line.connect(work.address, {"part": part, "attempt": attempt()})
    except OSError:
        return None


def attempt() -> int:
    """How often Spark has started this task before."""
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else context.attemptNumber()


@contextmanager
def _own_cores(work: Work) -> Generator[None]:
    """One task among several has the cores that Spark gives it; one alone may use all there are."""
    from pyspark import TaskContext

    context = TaskContext.get()
    if work.cut is None or context is None or "CALADAN_THREADS" in os.environ:
        yield
        return
    os.environ["CALADAN_THREADS"] = str(context.cpus())
    try:
        yield
    finally:
        del os.environ["CALADAN_THREADS"]


@contextmanager
def _stoppable(line: Line | None) -> Generator[None]:
    """Have the driver's `stop` interrupt what this thread does meanwhile, and nothing after."""
    if line is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    armed = True

    def handle(_number: int, _frame: object) -> None:
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle)
    line.on_stop(_thread.interrupt_main)
    try:
        yield
    finally:
        armed = False
        line.on_stop(None)
        signal.signal(signal.SIGINT, before or signal.SIG_DFL)
