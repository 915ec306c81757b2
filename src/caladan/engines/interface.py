"""What an engine is: it takes data in, runs a DeltaProgram over tables, and hands tables out.

A `Table` is a relation as an engine holds it (a Spark DataFrame, a set, sorted runs); nobody but
its engine looks inside. `Engine.load` turns a source into a table and reports bad rows;
`RunsPlans.run` evaluates cliques in order and returns a table for every relation it derived, and so
does `ReadsRules.evaluate` for rules as they were written; `Engine.answer` selects a goal's rows. A
run that has to stop early raises `EngineStopped`, which carries what was derived so far.

`engine_for` starts an engine by its name, `LazyEngine` when it is first needed: Spark takes seconds
to start, and a program with a mistake, or whose data is not there, is told of it before that. The
compiler needs no engine, and the store looks for data before it loads any.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast, runtime_checkable

from caladan.analysis.core import CoreGoal
from caladan.analysis.written import WrittenProgram
from caladan.program import Column
from caladan.program.clock import TimeOver
from caladan.program.diagnostics import CaladanError, Diagnostic, did_you_mean, error
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.failures import interrupted_early, late
from caladan.rules.program import DeltaProgram, Totals

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from caladan.data.formats import Look
    from caladan.data.source import Source
    from caladan.engines.spark.choice import TaskMemory
    from caladan.fixpoint.limits import Spare
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
class CountsRows(Protocol):
    """A table of data that knows how many rows it was made of; equal ones are one fact."""

    rows_given: int | None

    def count(self) -> int:
        """How many facts."""
        ...


@runtime_checkable
class KnowsMissing(Protocol):
    """A table that can hand out its facts with nulls, in place of columns that tell of them."""

    def merged(self) -> Table:
        """The facts as users see them; the table owns nothing."""
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


GivenTables: TypeAlias = Mapping[str, Table]
"""The tables of a program's relations, by name."""


class Engine(Protocol):
    """What holds data and evaluates programs: one that `RunsPlans`, or one that `ReadsRules`."""

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

    @property
    def memory(self) -> TaskMemory | None:
        """What facts may have in one task; None if no setting says."""
        ...

    def start(self) -> None:
        """Start what it needs, unless that was done."""
        ...

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, typed as `columns`, and, if permissive, the rows set aside.

        Where values are missing, the table has more columns, which say where (data/missing.py).
        The rows set aside have the columns relation, file, line, column, text, reason.
        """
        ...

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows of a table that match a goal, with the goal's column names."""
        ...

    def plans(
        self, program: DeltaProgram, store: GivenTables, options: Options, *, is_all_there: bool
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
        self, program: DeltaProgram, store: GivenTables, options: Options, events: Listener
    ) -> Any:
        """The relations of a program, alive."""
        ...


@runtime_checkable
class HasViews(Protocol):
    """An engine with a SparkSession in which relations can be views."""

    @property
    def view_session(self) -> Any:
        """A session beside the user's: views there are in nobody's way."""
        ...


@runtime_checkable
class RunsPlans(Protocol):
    """An engine that runs what the compiler made of a program."""

    def run(
        self, program: DeltaProgram, store: GivenTables, options: Options, events: Listener
    ) -> dict[str, Table]:
        """Tables for every derived relation of the program, by name."""
        ...


@runtime_checkable
class ReadsRules(Protocol):
    """An engine that evaluates a program as it was written, and no plan of it."""

    def evaluate(
        self,
        program: WrittenProgram,
        totals: Mapping[str, Totals | None],
        store: GivenTables,
        options: Options,
        events: Listener,
    ) -> dict[str, Table]:
        """Tables for every derived relation of the program; `totals` tell if sums will settle."""
        ...

    def split(
        self, tables: GivenTables, columns: Mapping[str, tuple[Column, ...]]
    ) -> dict[str, Table]:
        """Tables with the columns that the compiler gave them: two for those that lack values."""
        ...


@runtime_checkable
class Materializing(Protocol):
    """An engine whose derived tables can serve later runs."""

    spare: Spare | None
    """What the session keeps of earlier runs, which a run may ask to go."""

    def is_listed(self, table: Table) -> bool:
        """True if rules can read the table as they read data."""
        ...

    def nbytes(self, table: Table) -> int:
        """The bytes that a table holds."""
        ...


class InProcess:
    """What engines have in common that need nothing but this process."""

    name: str
    session: Any = None
    tasks: int | None = None
    memory: TaskMemory | None = None

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
    """A run that met a limit or was interrupted; `store` has what it had derived.

    `is_out_of_memory` if it was memory that was not enough.
    """

    def __init__(
        self, diagnostic: Diagnostic, store: Mapping[str, Table], *, is_out_of_memory: bool = False
    ) -> None:
        super().__init__(diagnostic)
        self.store = dict(store)
        self.is_out_of_memory = is_out_of_memory


@contextmanager
def stoppable(doing: str) -> Generator[None]:
    """Work before evaluation: Ctrl-C and a deadline make it `EngineStopped`, with nothing."""
    try:
        yield
    except KeyboardInterrupt:
        raise EngineStopped(interrupted_early(doing), {}) from None
    except TimeOver as over:
        raise EngineStopped(late(over.seconds, doing), {}) from None


class LazyEngine:
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

    @property
    def memory(self) -> TaskMemory | None:
        """What facts may have in one task; None if no setting says."""
        return self._started().memory

    def load(
        self, name: str, source: Source, columns: tuple[Column, ...], options: Options
    ) -> tuple[Table, pa.Table | None]:
        """The facts of a source, and the rows set aside."""
        return self._started().load(name, source, columns, options)

    def run(
        self, program: DeltaProgram, store: GivenTables, options: Options, events: Listener
    ) -> dict[str, Table]:
        """Tables for every derived relation of the program."""
        engine = cast("RunsPlans", self._started())
        return engine.run(program, store, options, events)

    def answer(self, goal: CoreGoal, table: Table) -> Table:
        """The rows of a table that match a goal; an engine that never ran has given none."""
        return table if self._engine is None else self._engine.answer(goal, table)

    def plans(
        self, program: DeltaProgram, store: GivenTables, options: Options, *, is_all_there: bool
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
    check_pyspark()
    from caladan.engines.spark.engine import SparkEngine

    session = None if isinstance(engine, str) else engine
    return SparkEngine(session, master=master, conf=settings, ship=ship)


def check_pyspark() -> None:
    """C051 where PySpark is not installed."""
    if find_spec("pyspark") is None:
        raise error("C051", "PySpark is not installed: pip install 'caladan[spark]'")


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
        raise error("C050", f"conf maps settings of Spark to values, not a {type(conf).__name__}")
    found: dict[str, str] = {}
    for name, value in cast("Mapping[object, object]", conf or {}).items():
        if not (isinstance(name, str) and isinstance(value, str | int | float)):
            raise error("C050", f"conf has {value!r} for {name!r}, which is not a setting of Spark")
        found[name] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
