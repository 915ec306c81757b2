"""What tasks are to do, and what comes of it: all that the driver needs to know of them.

`task` and `lister` are the functions that Spark maps. They load the engine where they run; the
driver, which only names them, need not have it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from caladan.data.frames import first_line
from caladan.engines.spark.sources.shipment import Shipment
from caladan.engines.spark.tasks.control import Address
from caladan.program.diagnostics import Diagnostic, error
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    import pyarrow as pa

TOO_LITTLE_MEMORY: Final = (
    "a task may not have the memory it needs: raise spark.executor.pyspark.memory"
)


def check_sendable(name: str, function: object) -> None:
    """C050 for a function of a user's that tasks cannot be handed."""
    from pyspark import cloudpickle

    try:
        cast("Any", cloudpickle).dumps(function)
    except Exception as problem:  # whatever it holds on to has a word of its own for that
        raise error(
            "C050",
            f"`{name}` cannot be sent to Spark's tasks: {first_line(str(problem))}",
            help="it holds on to something of this process, such as a lock, an open file or a "
            "SparkSession: make that inside of the function, or hand it values",
        ) from None


@dataclass(frozen=True, slots=True)
class Retention:
    """How facts are kept: what travels with a result, where the rest may go, and how quickly.

    Writing may cost a third of the time that deriving took: many facts are only counted. What is
    written in a moment is written in any case: the job that would list it takes as long. Relations
    that nobody has asked for yet, if it is known which are `asked` for, may cost a small part of
    the time that it took to derive them.
    """

    folder: str | None
    asked: frozenset[str] | None = None
    few_bytes: int = 4 << 20
    unasked_bytes: int = 1 << 16
    unasked_part: float = 0.03
    rate: float = 10e6  # facts of two columns for a second of deriving; 28e6 are written in one
    moment: float = 0.15

    def of(self, name: str) -> Retention:
        """How the facts of a relation are kept."""
        if self.asked is None or name in self.asked:
            return self
        rate = self.rate * self.unasked_part
        return replace(self, few_bytes=self.unasked_bytes, rate=rate, moment=0.0)


@dataclass(frozen=True, slots=True)
class Output:
    """A relation: how many facts; and these themselves, or the file they are in, or neither.

    `nbytes` is what the facts of the file take in Arrow; `bucket` the part of the pivot's values
    that they have, if they do.
    """

    name: str
    count: int
    stream: bytes | None = None
    file: str | None = None
    nbytes: int = 0
    bucket: int | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What tasks are to do. `parts` is None if one task does it all, else there are so many.

    With `cut`, the shares of each rule's variables, a part is a cell; else it is one of the pivot's
    values.
    """

    program: DeltaProgram
    inputs: Mapping[str, Shipment]
    options: Options
    keeping: Retention
    parts: int | None = None
    address: Address | None = None
    cut: tuple[Mapping[str, int], ...] | None = None

    @property
    def is_pivoted(self) -> bool:
        """True if each part has some values of the pivot."""
        return self.parts is not None and self.cut is None


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """What came of it; `stopped` tasks hand out what they have, `cannot` says another should.

    `attempt` counts how often Spark had started the task before.
    """

    status: Literal["done", "stopped", "failed", "cannot"]
    outputs: tuple[Output, ...] = ()
    diagnostics: tuple[dict[str, Any], ...] = ()
    attempt: int = 0


def too_little_memory() -> Diagnostic:
    """Why a strategy cannot serve whose tasks run out of memory: the next one is tried."""
    return Diagnostic("C044", TOO_LITTLE_MEMORY)


def task(work: Work, part: int, _: object) -> list[TaskOutcome]:
    """The function that Spark maps over partitions."""
    from caladan.engines.spark.session.daemon import settle
    from caladan.engines.spark.tasks.task import attempt, evaluated

    outcome = replace(evaluated(work, part), attempt=attempt())
    settle()
    return [outcome]


def lister(
    work: Work, relation: str, parts: int, fields: pa.Schema
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function that Spark maps over the numbers of parts, to have a relation listed."""

    def facts(numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from caladan.engines.spark.session.daemon import settle
        from caladan.engines.spark.tasks.task import listed

        settle()  # Spark has loaded pandas for this
        for batch in numbers:
            for part in batch.column(0).to_pylist():
                yield from listed(work, relation, cast("int", part), parts, fields)

    return facts
