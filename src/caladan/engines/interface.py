"""What an engine is: it takes data in, runs a DeltaProgram over tables, and hands tables out.

A `Table` is a relation as an engine holds it (a Spark DataFrame, a set, sorted runs); nobody but
its engine looks inside. `Engine.load` turns a source into a table and reports bad rows;
`Engine.run` evaluates cliques in order and returns a table for every relation it derived;
`Engine.answer` selects a goal's rows. A run that has to stop early raises `EngineStopped`, which
carries what was derived so far.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from caladan.analysis.core import CoreGoal
from caladan.program import Column
from caladan.program.clock import TimeOver
from caladan.program.diagnostics import CaladanError, Diagnostic
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.failures import interrupted_early, late
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.data.source import Source
    from caladan.data.widths import Look
    from caladan.program.notation import Widths


class Table(Protocol):
    """A relation in an engine's hands."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and types."""
        ...

    def count(self) -> int:
        """How many facts."""
        ...

    def arrow(self, limit: int | None = None) -> pa.Table:
        """The facts, or any `limit` of them, decoded, in the Arrow types of their columns."""
        ...

    def spark(self, session: Any) -> Any:
        """The facts as a DataFrame of a Spark session."""
        ...

    def close(self) -> None:
        """Let go of what the table holds; it is not used again."""
        ...


@runtime_checkable
class KnowsFirst(Protocol):
    """A table that may know its first facts without looking at all of them."""

    def first(self, rows: int) -> pa.Table | None:
        """The first facts by their columns from the left; None if only looking at all tells."""
        ...


@runtime_checkable
class SharedStorage(Protocol):
    """A table whose storage is read by frames that users were handed."""

    def framed(self, session: Any, widths: Widths, looks: Sequence[Look]) -> Any:
        """The facts as a DataFrame with columns as wide as they came in, and of the same looks."""
        ...

    def lend(self) -> None:
        """Keep what they read for as long as somebody has one, however this table is let go of."""
        ...


class Engine(Protocol):
    """An evaluator of delta programs."""

    name: str

    @property
    def session(self) -> Any:
        """The SparkSession it works with; None if it works in this process."""
        ...

    @property
    def variant(self) -> str:
        """What plans are for: its name, or that of a way in which it differs."""
        ...

    @property
    def tasks(self) -> int | None:
        """How many tasks run at the same time; None where there are none."""
        ...

    def start(self) -> None:
        """Start what it needs, unless that was done."""
        ...

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, typed as `columns`, and, if permissive, the rows set aside.

        The rows set aside have the columns relation, file, line, column, text, reason.
        """
        ...

    def run(
        self,
        program: DeltaProgram,
        store: Mapping[str, Table],
        options: Options,
        events: Listener,
    ) -> dict[str, Table]:
        """Tables for every derived relation of the program, by name."""
        ...

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows of a table that match a goal, with the goal's column names."""
        ...

    def plans(
        self,
        program: DeltaProgram,
        store: Mapping[str, Table],
        options: Options,
        *,
        is_all_there: bool,
    ) -> Sequence[tuple[str, str]]:
        """What its session would be handed, with a title each; nothing without a session.

        Unless the data `is_all_there`, all that sizes may decide for is told.
        """
        ...

    def close(self) -> None:
        """End what the engine started itself, and nothing else."""
        ...


@runtime_checkable
class Watchable(Protocol):
    """An engine that can keep relations true while facts come and go."""

    def watch(
        self, program: DeltaProgram, store: Mapping[str, Table], options: Options, events: Listener
    ) -> Any:
        """The relations of a program, alive."""
        ...


class InProcess:
    """What engines have in common that need nothing but this process."""

    name: str
    session: Any = None
    tasks: int | None = None

    @property
    def variant(self) -> str:
        """What plans are for."""
        return self.name

    def start(self) -> None:
        """It has started."""

    def plans(
        self, program: DeltaProgram, store: Mapping[str, Table], options: Options, **_: bool
    ) -> Sequence[tuple[str, str]]:
        """Nobody else is handed anything."""
        return ()

    def close(self) -> None:
        """Nothing was started."""


class EngineStopped(CaladanError):
    """A run that met a limit or was interrupted; `store` has what it had derived."""

    def __init__(self, diagnostic: Diagnostic, store: Mapping[str, Table]) -> None:
        super().__init__(diagnostic)
        self.store = dict(store)


@contextmanager
def stoppable(doing: str) -> Generator[None]:
    """Work before evaluation: Ctrl-C and a deadline make it `EngineStopped`, with nothing."""
    try:
        yield
    except KeyboardInterrupt:
        raise EngineStopped(interrupted_early(doing), {}) from None
    except TimeOver as over:
        raise EngineStopped(late(over.seconds, doing), {}) from None
