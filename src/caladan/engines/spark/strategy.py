"""What a strategy is: one way of evaluating cliques on Spark.

    single    one task evaluates everything with the embedded engine          tasks/
    cubed     one shuffle to the cells of a cyclic body, a task for each      cube/
    pivoted   one shuffle by the pivot, a task for each part of its values    tasks/
    meshed    tasks that exchange what is new, round by round                 mesh/
    frame     DataFrames, a job or more for every round                       frame/

All are called in the same way (`Strategy`). They get a program of their own, made by
`rules/program.py`: for all but *single* it has exactly one clique, and every relation that
earlier cliques derived is given as data. They hand out a table for every relation of the program's
cliques, whose storage is the caller's from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    from caladan.engines.spark.session.workspace import Workspace
    from caladan.engines.spark.sources.table import SparkTable


class CannotServe(Exception):
    """A strategy cannot evaluate these cliques; the reason ends up in events and explain."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Stopping:
    """How a run is asked to end early: strategies put in what tells their tasks to stop.

    The main thread calls `stop` on Ctrl-C or when the time is over; a job whose tasks were told,
    and can hand out what they have derived, is given a while before Spark cancels it.
    """

    is_set: bool = False
    is_late: bool = False  # the time is over; else the user wants to stop
    ask: Callable[[], None] | None = None

    def stop(self, *, is_late: bool) -> None:
        """Ask the tasks that run now, and whoever looks at `is_set`."""
        self.is_set, self.is_late = True, is_late
        if self.ask is not None:
            self.ask()


@dataclass(frozen=True, slots=True)
class Context:
    """What a strategy works with.

    `options` has the limits that hold for this call: the seconds and facts that are left. Parts
    is how many tasks to run, for those strategies that can choose. `limits` are the options once
    more, with the seconds that are left when it is called: when tasks start, inputs are there.
    `asked` are the relations that goals or later cliques read; None if all may be.
    """

    workspace: Workspace
    options: Options
    events: Listener
    parts: int
    stopping: Stopping
    limits: Callable[[], Options]
    asked: frozenset[str] | None = None


class Strategy(Protocol):
    """A way of evaluating the cliques of a program.

    `store` has a table for each relation of the program that takes data. Tells `CliqueStarted`
    (with the strategy's name), `RoundDone` and `CliqueDone` of each clique, but neither
    `RunStarted` nor `RunDone`.

    Raises `CannotServe` before anything was derived, if another strategy should do it;
    `EngineStopped` at a limit or when asked to stop, with SparkTables of what was derived
    so far; CaladanError for what is wrong with the program or its data.
    """

    def __call__(
        self, program: DeltaProgram, store: Mapping[str, SparkTable], context: Context
    ) -> dict[str, SparkTable]:
        """A table for every relation that the program's cliques derive."""
        ...
