"""Facts that a task hands out.

`Retention` says how they are kept: with the task's result, in files, as a matrix, in Spark's block
storage; or only counted, where nobody asked for them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from caladan.data.schema import ARROW
from caladan.engines.embedded.tables import DerivedTable
from caladan.engines.spark.columns.physical import physical_schema, stored_schema
from caladan.engines.spark.session.staging import write_facts
from caladan.engines.spark.sources.shipment import stream_of
from caladan.engines.spark.tasks.folded import folded_of, save
from caladan.engines.spark.tasks.shard import ByPivot
from caladan.engines.spark.tasks.work import Block, Output, Retention, Work
from caladan.program import Type

_BYTES: Final = {Type.BYTE: 1, Type.SHORT: 2, Type.INTEGER: 4, Type.FLOAT: 4, Type.BOOLEAN: 1}


class Effort:
    """How long something takes: by the clock, or by the processor where others have that too.

    On a busy machine the clock runs on while a task waits its turn; that is no work to be saved.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        """Seconds so far."""
        clock, processor = self._started
        return min(time.perf_counter() - clock, time.process_time() - processor)


def output(
    name: str, table: DerivedTable, work: Work, seconds: float, part: int, *, is_final: bool
) -> Output:
    """Hand out a relation that took so many seconds; if final, it can be derived again."""
    count, keeping = table.count(), work.keeping.of(name)
    is_pivoted = isinstance(work.cut, ByPivot)
    bucket = part if is_pivoted else None
    if is_small(table, keeping):
        stream = stream_of(table.arrow()) if table.columns else None
        return Output(name, count, stream, bucket=bucket)
    is_quick = is_slow(table, keeping, seconds)
    if is_final and not is_quick and not keeping.is_asked:
        return Output(name, count, bucket=bucket)
    if keeping.folder is None:
        if keeping.has_blocks:
            return Output(name, count, is_in_blocks=True, bucket=bucket)
        return Output(name, count, stream_of(table.arrow()), bucket=bucket)
    if is_final and not is_quick and folded_of(table) is not None:
        files = save(table, keeping.folder, part, 1 if is_pivoted else keeping.shares)
        return Output(name, count, folded=files, nbytes=files.nbytes, bucket=bucket)
    fields, size = stored_schema(table.columns), Size()
    listed = size.of(batches(table, fields=fields))
    uri = write_facts(listed, fields, keeping.folder, bucket)
    return Output(name, count, file=uri, nbytes=size.nbytes, bucket=bucket)


def blocks_of(name: str, table: DerivedTable) -> Iterator[Block]:
    """The facts of a relation for Spark's block storage."""
    fields = stored_schema(table.columns)
    for batch in batches(table, fields=fields):
        yield Block(name, stream_of(pa.Table.from_batches([batch])))


class Size:
    """Adds up the bytes of batches that pass by."""

    def __init__(self) -> None:
        self.nbytes = 0

    def of(self, passing: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches."""
        for batch in passing:
            self.nbytes += batch.nbytes
            yield batch


def is_slow(table: DerivedTable, keeping: Retention, seconds: float) -> bool:
    """Whether to derive a relation took far longer than to write it would, or than a moment."""
    most = max(seconds, keeping.moment) * keeping.rate
    return table.count() * len(table.columns) / 2 < most


def is_small(table: DerivedTable, keeping: Retention) -> bool:
    """Whether a relation is so small that it travels with a task's result."""
    width = sum(_BYTES.get(column.type, 8) for column in table.columns)
    return table.count() * width <= keeping.few_bytes


def batches(
    table: DerivedTable, part: int = 0, parts: int = 1, fields: pa.Schema | None = None
) -> Iterator[pa.RecordBatch]:
    """The facts, or one part of so many, in columns c0 … of some types; else of evaluation's."""
    wanted: Any = fields
    if wanted is None:
        wanted = physical_schema(table.columns)
    if not table.columns:
        rows = [True] * (table.count() if part == 0 else 0)
        yield pa.RecordBatch.from_arrays([pa.array(rows, pa.bool_())], schema=wanted)
        return
    for number, block in enumerate(table.layout.blocks()):
        if number % parts == part:
            columns = zip(table.domains, block, table.columns, wanted, strict=True)
            arrays: list[Any] = [
                domain.arrow(words, ARROW[column.type]).cast(field.type)
                for domain, words, column, field in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=wanted)
