"""What tasks are to do, and what comes of it: all that the driver needs to know of them.

`task` is the function that Spark maps. It loads the engine where it runs; the driver, which only
names it, need not have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from caladan.data.frames import first_line
from caladan.engines.spark.sources.shipment import Shipment
from caladan.engines.spark.tasks.control import Address
from caladan.program.diagnostics import Diagnostic, error
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram

if TYPE_CHECKING:
    from caladan.engines.spark.tasks.cells import ByCell
    from caladan.engines.spark.tasks.exchange import Pieces, Sent
    from caladan.engines.spark.tasks.folded import FoldedFiles
    from caladan.engines.spark.tasks.shard import ByPivot

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
            help="it refers to an object of this process, such as a lock, an open file or a "
            "SparkSession: create that inside the function, or pass values",
        ) from None


@dataclass(frozen=True, slots=True)
class Retention:
    """How facts are kept, so that nobody derives them again.

    A few bytes travel with a task's result. More go to the `folder`, as Parquet; or, if there is
    none, into the block storage of Spark. What was found as a matrix stays one where to list it
    would take longer than a third of the time that it took to find it, and more than a `moment`:
    then the matrix goes to the folder, in `shares` that tasks list. Relations that nobody has asked
    for yet, if it is known which are `asked` for, are kept where that takes a small part of that
    time; else they are only counted, and derived once more when somebody does ask.
    """

    folder: str | None
    asked: frozenset[str] | None = None
    shares: int = 1
    few_bytes: int = 4 << 20
    unasked_bytes: int = 1 << 16
    unasked_part: float = 0.03
    rate: float = 10e6  # facts of two columns for a second of deriving; 28e6 are written in one
    moment: float = 0.15
    has_blocks: bool = True
    is_asked: bool = True

    def of(self, name: str) -> Retention:
        """How the facts of a relation are kept."""
        if self.asked is None or name in self.asked:
            return self
        rate = self.rate * self.unasked_part
        return replace(self, few_bytes=self.unasked_bytes, rate=rate, moment=0.0, is_asked=False)


@dataclass(frozen=True, slots=True)
class Output:
    """A relation: how many facts; and these themselves, or where they are, or neither.

    They are in a `file`, or files of a matrix (`folded`), or follow in blocks (`is_in_blocks`).
    `nbytes` is what they take in Arrow; `bucket` the part of the pivot's values that they have, if
    they do.
    """

    name: str
    count: int
    stream: bytes | None = None
    file: str | None = None
    folded: FoldedFiles | None = None
    is_in_blocks: bool = False
    nbytes: int = 0
    bucket: int | None = None

    @property
    def is_only_counted(self) -> bool:
        """True if it has facts, and nobody kept them."""
        is_kept = self.stream is not None or self.is_in_blocks or bool(self.files)
        return self.count > 0 and not is_kept

    @property
    def files(self) -> tuple[str, ...]:
        """The files that hold its facts."""
        if self.folded is not None:
            return (self.folded.matrix, *self.folded.files)
        return () if self.file is None else (self.file,)


@dataclass(frozen=True, slots=True)
class Block:
    """Some facts of a relation, as an Arrow stream in columns c0 … of the declared types."""

    name: str
    stream: bytes


@dataclass(frozen=True, slots=True)
class Work:
    """What tasks are to do. Without a `cut` one task does it all; else each has a part, or a cell.

    Tasks read `inputs` whole; of what is cut each gets its share of the `pieces`, which do not
    travel with the work (exchange.py).
    """

    program: DeltaProgram
    inputs: Mapping[str, Shipment]
    options: Options
    keeping: Retention
    cut: ByPivot | ByCell | None = None
    address: Address | None = None
    pieces: Pieces = field(default_factory=dict)

    @property
    def parts(self) -> int:
        """How many tasks share the work."""
        return 1 if self.cut is None else self.cut.parts


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


def task(work: Work, part: int, came: Iterable[Sent]) -> Iterator[TaskOutcome | Block]:
    """The function that Spark maps over partitions: what came of it, then facts in blocks."""
    from caladan.engines.spark.session.daemon import settle
    from caladan.engines.spark.tasks.task import attempt, evaluate_part

    outcome, blocks = evaluate_part(work, part, came if work.pieces else ())
    yield replace(outcome, attempt=attempt())
    yield from blocks
    settle()


def outcomes(found: Iterable[TaskOutcome | Block]) -> Iterator[TaskOutcome]:
    """What came of a task, of all that it handed out."""
    return (each for each in found if isinstance(each, TaskOutcome))


def streams(name: str, found: Iterable[TaskOutcome | Block]) -> Iterator[tuple[bytes]]:
    """The facts of a relation, of all that a task handed out, as rows of one column."""
    return ((each.stream,) for each in found if isinstance(each, Block) and each.name == name)
