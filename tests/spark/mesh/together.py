"""Parts of a clique side by side in one process, each on a thread, exchanging through memory."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from caladan.delta.program import DeltaProgram
from caladan.engines.spark.mesh.part import Part
from caladan.engines.spark.mesh.rounds import Bounds, Ending, rounds


class Room:
    """Where threads meet: everybody puts its messages down, waits, and takes those for it."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks
        self.table: dict[tuple[int, int], bytearray] = {}
        self.barrier = threading.Barrier(tasks, timeout=60)


class Seat:
    """The place of one task in the room."""

    def __init__(self, room: Room, me: int) -> None:
        self.room, self.me = room, me
        self.bytes = 0

    def exchange(self, messages: Sequence[Sequence[Any] | None]) -> list[bytearray | None]:
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


def run_parts(
    program: DeltaProgram,
    tables: Mapping[str, pa.Table],
    tasks: int,
    bounds: Bounds = Bounds(),  # noqa: B008
    *,
    local: bool = False,
) -> tuple[list[Part], list[Ending]]:
    """The parts after their last round, and how it ended for each."""
    room = Room(tasks)
    parts: list[Part | None] = [None] * tasks
    endings: list[Ending | None] = [None] * tasks
    failures: list[BaseException] = []

    def work(me: int) -> None:
        try:
            part = parts[me] = Part(program, tables, me, tasks, lambda: None)
            endings[me] = rounds(part, Seat(room, me), bounds, local=local)
        except BaseException as failure:
            if not isinstance(failure, threading.BrokenBarrierError):
                failures.append(failure)
            room.barrier.abort()

    threads = [threading.Thread(target=work, args=(me,)) for me in range(tasks)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return [p for p in parts if p is not None], [e for e in endings if e is not None]
