"""Parts of a clique side by side in one process, each on a thread, exchanging through memory."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from caladan.engines.spark.mesh.exchange import FailedElsewhere, MeshExchange
from caladan.engines.spark.mesh.recovery import Recovery
from caladan.engines.spark.mesh.shard import Shard
from caladan.engines.spark.mesh.skew import SkewLimits
from caladan.fixpoint.exchange import Tally
from caladan.fixpoint.fixpoint import run
from caladan.fixpoint.limits import Limits
from caladan.program.diagnostics import CaladanError
from caladan.program.options import Options
from caladan.rules.failures import LimitReached
from caladan.rules.program import DeltaProgram


class Lost(Exception):
    """A task is lost."""


class Room:
    """Where threads meet: everybody puts its messages down, waits, and takes those for it."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks
        self.table: dict[tuple[int, int], bytearray] = {}
        self.barrier = threading.Barrier(tasks, timeout=60)


class Seat:
    """The place of one task in the room."""

    def __init__(self, room: Room, me: int, lasting: int | None = None) -> None:
        self.room, self.me = room, me
        self.bytes = 0
        self.left = lasting

    def exchange(self, messages: Sequence[Sequence[Any] | None]) -> list[bytearray | None]:
        if self.left is not None:
            if not self.left:
                raise Lost
            self.left -= 1
        for task, buffers in enumerate(messages):
            if task != self.me and buffers is not None:
                self.room.table[self.me, task] = bytearray(b"".join(buffers))
                self.bytes += len(self.room.table[self.me, task])
        self.room.barrier.wait()
        came = [
            None if task == self.me else self.room.table[task, self.me]
            for task in range(self.room.tasks)
        ]
        self.room.barrier.wait()
        return came


@dataclass
class Ending:
    """How the rounds ended for a task: what it says of a limit, or of a mistake of the program."""

    rounds: int = 0
    facts: int = 0
    reached: LimitReached | None = None
    failure: CaladanError | None = None


def ended(part: Shard, exchange: MeshExchange) -> Ending:
    """The rounds of a part, and how they ended."""
    ending = Ending()

    def tell(number: int, tally: Tally, _: float) -> None:
        ending.rounds, ending.facts = number, tally.facts

    try:
        run(part, exchange, part.limits, tell)
    except LimitReached as reached:
        ending.reached = reached
    except FailedElsewhere:
        pass
    except CaladanError as failure:
        ending.failure = failure
    return ending


def run_parts(
    program: DeltaProgram,
    tables: Mapping[str, pa.Table],
    tasks: int,
    options: Options = Options(),  # noqa: B008
    *,
    local: bool = False,
    keeper: Callable[[Shard, int], Recovery | None] = lambda _, __: None,
    lasting: int | None = None,
    splitting: SkewLimits = SkewLimits(),  # noqa: B008
) -> tuple[list[Shard], list[Ending]]:
    """The parts after their last round, and how it ended for each.

    `keeper` makes those of the parts; after `lasting` exchanges the tasks are lost.
    """
    room = Room(tasks)
    parts: list[Shard | None] = [None] * tasks
    endings: list[Ending | None] = [None] * tasks
    failures: list[BaseException] = []

    def work(me: int) -> None:
        try:
            part = parts[me] = Shard(
                program, tables, me, tasks, Limits(options), splitting, local=local
            )
            seat = Seat(room, me, lasting)
            endings[me] = ended(part, MeshExchange(part, seat, keeper(part, me)))
        except BaseException as failure:
            if not isinstance(failure, threading.BrokenBarrierError):
                failures.append(failure)
            if not isinstance(failure, Lost):  # all are lost at the same moment
                room.barrier.abort()

    threads = [threading.Thread(target=work, args=(me,)) for me in range(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [p for p in parts if p is not None], [e for e in endings if e is not None]
