"""What a task of the mesh does: read its inputs, meet its peers, go through the rounds, hand out.

A task that cannot go on because of the program or its data says so in its outcome, and all tasks
end together. A peer that is lost is an exception: Spark then tries the whole stage again, and the
tasks of the new attempt meet anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from caladan.engines.embedded.engine import given_facts
from caladan.engines.embedded.tables import LoadedTable
from caladan.engines.interface import Table
from caladan.engines.spark.mesh.checkpoint import Checkpoint, CheckpointFiles, folder_of
from caladan.engines.spark.mesh.encryption import Identity, Secure
from caladan.engines.spark.mesh.exchange import FailedElsewhere, MeshExchange
from caladan.engines.spark.mesh.handshake import Door, Doorway
from caladan.engines.spark.mesh.links import Links
from caladan.engines.spark.mesh.recovery import Recovery
from caladan.engines.spark.mesh.shard import Shard
from caladan.engines.spark.mesh.skew import SkewLimits
from caladan.engines.spark.tasks.control import Line
from caladan.engines.spark.tasks.output import Effort, blocks_of, output
from caladan.engines.spark.tasks.relay import Relay, pack_diagnostics
from caladan.engines.spark.tasks.work import Block, TaskOutcome, Work, too_little_memory
from caladan.fixpoint.exchange import Tally
from caladan.fixpoint.fixpoint import run
from caladan.fixpoint.limits import Limits
from caladan.program.diagnostics import CaladanError, Diagnostic
from caladan.program.events import (
    BytesShuffled,
    CheckpointLost,
    Resumed,
    RoundDone,
    ValuesSplit,
    to_plain,
)
from caladan.program.options import Options
from caladan.rules.failures import LimitReached, MemoryReached, report_interrupt

_PATIENCE: Final = 5.0  # seconds to wait for the driver to bring tasks together
_SHOWN: Final = 16  # values that are split of which the driver is told


@dataclass(frozen=True, slots=True)
class Mesh:
    """The work of the tasks, and how they are to meet.

    `host` is where tasks listen, None if Spark is to say; `patience` the seconds after which a
    silent peer is given up; `local` whether tasks go on alone while they can; `splitting` which
    values are split; `checkpoint` where they save what they have, if they do; `identity` what they
    encrypt with, if they do.
    """

    work: Work
    tasks: int
    host: str | None
    patience: float
    local: bool
    splitting: SkewLimits
    checkpoint: Checkpoint | None = None
    identity: Identity | None = None


def task(mesh: Mesh, _: Iterable[int]) -> Iterator[tuple[int, TaskOutcome | Block]]:
    """The function that Spark maps over partitions: what came of it, then facts in blocks."""
    from pyspark import BarrierTaskContext

    context: Any = BarrierTaskContext.get()
    me = context.partitionId()
    outcome, blocks = _evaluate(mesh, me, context)
    yield me, outcome
    for block in blocks:
        yield me, block


def _evaluate(mesh: Mesh, me: int, context: Any) -> tuple[TaskOutcome, Iterable[Block]]:
    work = mesh.work
    assert work.address is not None
    host = mesh.host or _host(context.getTaskInfos()[me].address)
    doorway = Doorway(host, mesh.tasks)
    # Spark numbers the tasks of an attempt in the order of their partitions.
    attempt = context.taskAttemptId() - me
    door = [doorway.door.host, doorway.door.port, doorway.door.nonce]
    line = Line.connect(work.address, {"part": me, "attempt": attempt, "door": door})
    try:
        doors = _doors(line, context, door)
        secure = None if mesh.identity is None else Secure(mesh.identity)
        met = doorway.meet(me, doors, work.address.key, mesh.patience, secure)
        links = Links(met, mesh.patience)
        try:
            outcome = _together(mesh, me, line, links, _attempt(doors))
        finally:
            links.close()
        return outcome
    finally:
        doorway.close()
        line.close()


def _doors(line: Line, context: Any, door: list[Any]) -> list[Door]:
    """Where everybody listens: from the driver, or, should that not do, from Spark itself."""
    try:
        answer = line.receive(_PATIENCE)
    except TimeoutError:
        line.send({"gather": True})
        answer = line.receive(_PATIENCE)
    if "doors" in answer:
        found = answer["doors"]
    else:
        found = [json.loads(each) for each in context.allGather(json.dumps(door))]
    return [Door(*each) for each in found]


def _attempt(doors: Sequence[Door]) -> str:
    """A name that only the tasks that meet have in common."""
    return hashlib.sha256("".join(door.nonce for door in doors).encode()).hexdigest()[:16]


def _together(
    mesh: Mesh, me: int, line: Line, links: Links, attempt: str
) -> tuple[TaskOutcome, Iterable[Block]]:
    work = mesh.work
    options = work.options
    effort = Effort()
    relay = Relay(line if me == 0 else None)
    limits = TaskLimits(options, line, links)

    def tell(number: int, tally: Tally, seconds: float) -> None:
        if number:
            relay.tell(RoundDone(number, tally.new, tally.facts, seconds))

    try:
        relations = work.program.relations
        store: dict[str, Table] = {
            name: LoadedTable(relations[name].columns, shipment.read())
            for name, shipment in work.inputs.items()
        }
        given = given_facts(work.program, store)
        part = Shard(
            work.program, given, me, mesh.tasks, limits, mesh.splitting, options.search,
            local=mesh.local,
        )  # fmt: skip
    except CaladanError as problem:  # every task finds the same
        cannot = problem.diagnostics[0].code == "C051"  # what kernels do not do
        return TaskOutcome(
            "cannot" if cannot else "failed", (), _pack(problem.diagnostics, work)
        ), ()

    def tell_split() -> None:
        # The line to the driver is not encrypted; where links are, values are not for it.
        shown = part.heavy_values(_SHOWN) if mesh.identity is None else ()
        relay.tell(ValuesSplit(part.heavy, shown))

    if part.heavy:
        tell_split()
    keeper = None
    if mesh.checkpoint is not None:
        name = folder_of(part.fingerprint())
        line.send({"part": me, "checkpoint": name})
        keeper = Recovery(
            CheckpointFiles(f"{mesh.checkpoint.folder.rstrip('/')}/{name}", links.beat),
            attempt,
            mesh.checkpoint.seconds,
            lambda number: relay.tell(Resumed(number)),
            lambda reason: line.send({"events": [to_plain(CheckpointLost(reason))]}),
        )
    part.tell = tell
    exchange = MeshExchange(part, links, keeper, tell_split)
    status, problem = "done", None
    try:
        run(part, exchange, limits, tell)
    except FailedElsewhere:
        return TaskOutcome(status), ()
    except LimitReached as reached:
        if isinstance(reached, MemoryReached) and work.options.memory is None:
            return TaskOutcome("cannot", (), _pack([too_little_memory()], work)), ()
        status, problem = "stopped", reached
    except CaladanError as failure:
        return TaskOutcome("failed", (), _pack(failure.diagnostics, work)), ()
    finally:
        links.farewell()
        relay.close()
        totals = [*part.told(), BytesShuffled(links.sent)]
        line.send({"totals": me, "events": [to_plain(event) for event in totals]})
    (clique,) = work.program.cliques
    # What a shape has found one task finds again, if somebody wants to see it.
    seconds, tables = effort.seconds, {name: part.owned(name) for name in clique.relations}
    outputs = tuple(
        output(name, table, work, seconds, me, is_final=part.is_shaped)
        for name, table in tables.items()
    )
    diagnostics = () if problem is None else _pack(problem.diagnostics, work)
    blocks = (blocks_of(each.name, tables[each.name]) for each in outputs if each.is_in_blocks)
    return TaskOutcome(status, outputs, diagnostics), chain.from_iterable(blocks)


class TaskLimits(Limits):
    """Those of a task that peers wait for, and that the driver may stop."""

    def __init__(self, options: Options, line: Line, links: Links) -> None:
        super().__init__(options)
        self._line, self._links = line, links

    def glance(self) -> None:
        """Say that this task is alive; stop if the user has had enough."""
        self._links.beat()
        if self._line.is_stopped:
            raise LimitReached(report_interrupt(self.relations))


def _pack(diagnostics: Iterable[Diagnostic], work: Work) -> tuple[dict[str, Any], ...]:
    return tuple(pack_diagnostics(diagnostics, work.program))


def _host(address: str) -> str:
    """The host of an address as Spark writes it, with a port or without.

    >>> _host("worker-3:41234"), _host("10.0.0.7"), _host("[fd00::7]:41234")
    ('worker-3', '10.0.0.7', 'fd00::7')
    """
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.partition(":")[0] if address.count(":") == 1 else address
