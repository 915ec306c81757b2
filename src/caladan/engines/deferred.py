"""An engine that is started when it is first needed.

Spark takes seconds to start. A program with a mistake, or whose data is not there, is told of it
before that: the compiler needs no engine, and the store looks for data before it loads any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from caladan.analysis.core import CoreGoal
from caladan.engines.interface import Engine, Table, stoppable
from caladan.program import Column
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    import pyarrow as pa

    from caladan.data.source import Source


class Deferred:
    """Stands for an engine of a name; whatever it is asked to do starts that."""

    def __init__(self, name: str, start: Callable[[], Engine]) -> None:
        self.name = name
        self._start = start
        self._engine: Engine | None = None

    def start(self) -> None:
        """Start the engine, unless it has been."""
        self._started()

    def _started(self) -> Engine:
        if self._engine is None:
            with stoppable("starting the engine"):
                self._engine = self._start()
        return self._engine

    @property
    def session(self) -> Any:
        """The SparkSession of the engine."""
        return self._started().session

    @property
    def variant(self) -> str:
        """What plans are for."""
        return self._started().variant

    @property
    def tasks(self) -> int | None:
        """How many tasks run at the same time."""
        return self._started().tasks

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, and the rows set aside."""
        return self._started().load(name, source, columns, options)

    def run(
        self,
        program: DeltaProgram,
        store: Mapping[str, Table],
        options: Options,
        events: Listener,
    ) -> dict[str, Table]:
        """Tables for every derived relation of the program."""
        return self._started().run(program, store, options, events)

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows of a table that match a goal; an engine that never ran has given none."""
        return table if self._engine is None else self._engine.answer(goal, table)

    def plans(
        self,
        program: DeltaProgram,
        store: Mapping[str, Table],
        options: Options,
        *,
        is_all_there: bool,
    ) -> Sequence[tuple[str, str]]:
        """The engine's own plans."""
        return self._started().plans(program, store, options, is_all_there=is_all_there)

    def close(self) -> None:
        """End what was started."""
        if self._engine is not None:
            self._engine.close()
