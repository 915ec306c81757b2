"""Engines by their names: `engine_for` starts one, `Deferred` when it is first needed.

Spark takes seconds to start. A program with a mistake, or whose data is not there, is told of it
before that: the compiler needs no engine, and the store looks for data before it loads any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from caladan.analysis.core import CoreGoal
from caladan.engines.interface import Engine, Table, stoppable
from caladan.program import Column
from caladan.program.diagnostics import did_you_mean, error
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

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


def engine_for(
    engine: str | SparkSession | None,
    master: str | None,
    conf: Mapping[str, str] | None,
    ship: bool | None = None,
) -> Engine:
    """The engine that a user names, started."""
    check_connection(engine, master)
    if cast("object", ship) not in (None, True, False):
        raise error("C050", f"ship is True or False, not {ship!r}")
    settings = settings_of(conf)
    if isinstance(engine, str) and engine != "spark" and (master or conf or ship):
        raise error("C050", f"master, conf and ship are for the spark engine, not for {engine}")
    if engine == "reference":
        from caladan.engines.reference import ReferenceEngine

        return ReferenceEngine()
    if engine == "embedded":
        from caladan.engines.embedded.engine import EmbeddedEngine

        return EmbeddedEngine()
    if isinstance(engine, str) and engine != "spark":
        raise error(
            "C050",
            f"there is no engine {engine!r}; there are spark, embedded and reference",
            help=did_you_mean(engine, ("spark", "embedded", "reference")),
        )
    from caladan.engines.spark.engine import SparkEngine

    session = None if isinstance(engine, str) else engine
    return SparkEngine(session, master=master, conf=settings, ship=ship)


def check_connection(engine: object, master: object) -> None:
    """C050 for what is no engine, or no master."""
    is_session = hasattr(engine, "createDataFrame") and not isinstance(engine, type)
    if not (engine is None or isinstance(engine, str) or is_session):
        raise error("C050", f"an engine is a name or a SparkSession, not a {type(engine).__name__}")
    if not (master is None or isinstance(master, str)):
        raise error("C050", f"master is the URL of a Spark master, not a {type(master).__name__}")


def settings_of(conf: object) -> dict[str, str]:
    """Settings of Spark as text, which is what they are; C050 for what cannot be one."""
    if conf is not None and not isinstance(conf, Mapping):
        raise error(
            "C050", f"conf maps names of Spark's settings to values, not a {type(conf).__name__}"
        )
    found: dict[str, str] = {}
    for name, value in cast("Mapping[object, object]", conf or {}).items():
        if not (isinstance(name, str) and isinstance(value, str | int | float)):
            raise error("C050", f"conf has {value!r} for {name!r}, which is no setting of Spark's")
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
