"""Relations that are kept as they were found, as a matrix, and listed by whoever reads them.

    tc over a grid of 22,500 nodes: 128 million facts, some megabytes of ranges

A task that found a relation as a matrix (columns/folded_relation.py) leaves two kinds of files in
the staging folder. `matrix` has the arrays, and the values that the numbers of its second side
stand for. `keys` are Parquet: one row for each number of the first side, with the values of its
columns and the row of the matrix. A frame of the relation reads keys, and has a function of Python
put to each what the matrix has for it:

    keys ─► filter on the columns of keys, by Spark ─► list(row) ─► inline

So Spark's own optimiser brings a filter on those columns down to the keys, and only rows that are
kept are listed; every task lists the keys it reads, and nothing is derived again. (How keys are
partitioned would be of no use: Spark takes the output of a function of Python to be spread anyhow.)

The files hold arrays and Arrow tables, no code.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from caladan.columns.folded import Fold
from caladan.columns.layout import Counts, Words
from caladan.columns.ranks import numpy_of
from caladan.data.schema import ARROW
from caladan.engines.spark.session.staging import create_file, name_in, open_filesystem, write_facts

if TYPE_CHECKING:
    from caladan.columns.folded_relation import FoldedRelation, FoldedSide
    from caladan.columns.matrices import Matrix
    from caladan.engines.embedded.tables import DerivedTable
    from caladan.program import Column

ROW: Final = "row"
"""The column of keys that says where in which matrix their facts are."""

_PART: Final = 33  # bits of a row below the number of the part: a flag, and 32 of a number
_BESIDE: Final = 32  # the flag of facts that stand beside the matrix
_LISTED: Final = 1 << 20  # facts that are listed at a time


@dataclass(frozen=True, slots=True)
class FoldedFiles:
    """What a task left of a relation: the columns of its keys, the matrix, and files of keys."""

    keys: tuple[int, ...]
    matrix: str
    files: tuple[str, ...]
    nbytes: int


def folded_of(table: DerivedTable) -> FoldedRelation | None:
    """The matrix behind a table, if its facts are not listed."""
    from caladan.columns.folded_relation import FoldedRelation
    from caladan.columns.relation import StoredRelation

    layout = table.layout.body if isinstance(table.layout, StoredRelation) else table.layout
    return layout if isinstance(layout, FoldedRelation) else None


# ── Left by a task ───────────────────────────────────────────────────────────────────────────────


def save(table: DerivedTable, folder: str, part: int, shares: int) -> FoldedFiles:
    """Leave a relation that is a matrix in a folder, its keys in so many files."""
    folded = cast("FoldedRelation", folded_of(table))
    first, second = (_values(table, side, n) for side, n in zip(*_sides(folded), strict=True))
    place = name_in(folder, "matrix", "arrays")
    with create_file(place) as stream:
        stream.write(_pack_matrix(folded.matrix, second))
    numbers, rows = _rows(folded.matrix)
    keys = first.take(pa.array(numbers)).append_column(
        ROW, cast("Any", pa.array(rows + (np.int64(part) << np.int64(_PART))))
    )
    files: list[str] = []
    for i in range(shares):
        begin, end = (len(rows) * each // shares for each in (i, i + 1))
        if end > begin:
            mine = keys.slice(begin, end - begin)
            files.append(write_facts(mine.to_batches(), keys.schema, folder))
    width = sum(each.nbytes for each in (*first.columns, *second.columns))
    values = max(first.num_rows * first.num_columns + second.num_rows * second.num_columns, 1)
    nbytes = table.count() * len(table.columns) * width // values
    return FoldedFiles(folded.first.columns, place, tuple(files), nbytes)


def _sides(folded: FoldedRelation) -> tuple[tuple[FoldedSide, FoldedSide], tuple[int, int]]:
    matrix = folded.matrix
    beside = int(np.max(matrix.extra >> np.uint64(32))) + 1 if len(matrix.extra) else 0
    other = int(np.max(matrix.extra & np.uint64(0xFFFFFFFF))) + 1 if len(matrix.extra) else 0
    rows = max(len(matrix.rows.class_of), beside)
    columns = max(len(matrix.columns.class_of), other)
    return (folded.first, folded.second), (rows, columns)


def _values(table: DerivedTable, side: FoldedSide, count: int) -> Any:
    """The values that the numbers of a side stand for, in columns c0 … of the declared types."""
    if side.words is not None:
        count = len(side.words[0]) if side.words else 0
    numbers: Words = np.arange(count, dtype=np.uint32)
    arrays: list[Any] = []
    for column in side.columns:
        domain, type = table.domains[column], ARROW[table.columns[column].type]
        if side.words is None:  # numbers are words
            numbers = numbers[: domain.size]
        arrays.append(domain.arrow(side.of(numbers, column), type).cast(type))
    return pa.Table.from_arrays(arrays, [f"c{column}" for column in side.columns])


def _rows(matrix: Matrix) -> tuple[Words, Any]:
    """The numbers of the first side that have facts, each with its row; twice if beside, too."""
    inside = matrix.rows.words
    weights = matrix.row_weights()
    inside = inside[weights[matrix.rows.class_of[inside]] > 0]
    beside = np.unique(matrix.extra >> np.uint64(32)).astype(np.uint32)
    rows = np.concatenate(
        [inside.astype(np.int64), beside.astype(np.int64) | (np.int64(1) << np.int64(_BESIDE))]
    )
    return np.concatenate([inside, beside]), rows


def _pack_matrix(matrix: Matrix, second: Any) -> bytes:
    """A matrix and the values of its second side as bytes: names, then array after array."""
    found: dict[str, Any] = {}
    for each in fields(matrix):
        value = getattr(matrix, each.name)
        if isinstance(value, Fold):
            found |= {f"{each.name}.{f.name}": getattr(value, f.name) for f in fields(value)}
        else:
            found[each.name] = np.asarray(value)
    sink: Any = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, second.schema) as writer:
        writer.write_table(second)
    found["second"] = np.frombuffer(sink.getvalue(), np.uint8)
    out = io.BytesIO()
    out.write(json.dumps([matrix.form, *found]).encode() + b"\n")
    for array in found.values():
        np.save(out, array, allow_pickle=False)
    return out.getvalue()


# ── Listed by whoever reads ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Unfolded:
    """A matrix, how many facts each of its rows has, and the values of its second side."""

    matrix: Matrix
    weights: Counts
    second: Any


@lru_cache(maxsize=2)
def load_matrix(uri: str) -> Unfolded:
    """A matrix that a task left; a worker that reads several shares of it loads it once."""
    from caladan.columns.matrices import BitRows, RangeRows

    system, path = open_filesystem(uri)
    with system.open_input_stream(path) as stream:
        data = io.BytesIO(stream.read())
    form, *names = json.loads(data.readline())
    arrays = {name: np.load(data, allow_pickle=False) for name in names}
    kind = {each.form: each for each in (BitRows, RangeRows)}[form]
    given: dict[str, Any] = {}
    for each in fields(kind):
        if each.name in arrays:
            found = arrays[each.name]
            given[each.name] = int(found) if each.name == "total" else found
        else:
            given[each.name] = Fold(*(arrays[f"{each.name}.{f.name}"] for f in fields(Fold)))
    second = pa.ipc.open_stream(arrays["second"].tobytes()).read_all()
    matrix = kind(**given)
    return Unfolded(matrix, matrix.row_weights(), second)


def list_facts(rows: Any, uris: Sequence[str]) -> Iterator[Any]:
    """For rows of keys the facts of each, as lists of structs; some keys at a time.

    The lists of all batches together are as many as the rows, in their order.
    """
    at = numpy_of(rows).astype(np.int64)
    begin = 0
    while begin < len(at):
        part = at[begin] >> np.int64(_PART)
        flag = (at[begin] >> np.int64(_BESIDE)) & np.int64(1)
        kind = at >> np.int64(_BESIDE)
        others = np.flatnonzero(kind[begin:] != (part << np.int64(1) | flag))
        end = begin + (int(others[0]) if len(others) else len(at) - begin)
        numbers = (at[begin:end] & np.int64(0xFFFFFFFF)).astype(np.uint32)
        yield from _lists(load_matrix(uris[int(part)]), numbers, is_beside=bool(flag))
        begin = end


def _lists(found: Unfolded, numbers: Words, *, is_beside: bool) -> Iterator[Any]:
    matrix = found.matrix
    low: Any = None
    if is_beside:
        wide = numbers.astype(np.uint64)
        low = np.searchsorted(matrix.extra, wide << np.uint64(32))
        counts = np.searchsorted(matrix.extra, (wide + np.uint64(1)) << np.uint64(32)) - low
    else:
        counts = found.weights[matrix.rows.class_of[numbers]]
    ends = np.cumsum(counts)
    at = 0
    while at < len(numbers):
        before = int(ends[at] - counts[at])
        to = max(int(np.searchsorted(ends, before + _LISTED, side="right")), at + 1)
        if is_beside:
            spans = zip(low[at:to], counts[at:to], strict=True)
            places = np.concatenate([np.arange(b, b + n) for b, n in spans])
            second = (matrix.extra[places] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
        else:
            blocks = matrix.listed(numbers[at:to], int(ends[to - 1]) - before)
            second = np.concatenate([np.empty(0, np.uint32), *(block[1] for block in blocks)])
        offsets = np.append(0, np.cumsum(counts[at:to])).astype(np.int32)
        taken = found.second.take(pa.array(second)).combine_chunks()
        columns: list[Any] = [_flat(column) for column in taken.columns]
        structs = pa.StructArray.from_arrays(columns, names=taken.column_names)
        yield pa.ListArray.from_arrays(pa.array(offsets), structs)
        at = to


def _flat(column: Any) -> Any:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def lister(uris: Sequence[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """The function that Spark maps over the rows of keys: their facts, as lists of structs."""
    places = tuple(uris)

    def facts(rows: Iterator[pa.Array]) -> Iterator[pa.Array]:  # PySpark reads these types
        from caladan.engines.spark.session.daemon import settle
        from caladan.engines.spark.tasks.folded import list_facts

        settle()
        for each in rows:
            yield from list_facts(each, places)

    return facts


def table_lister(
    uris: Sequence[str], columns: Sequence[Column]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The same over batches of keys, as whole facts: for a Spark without functions of Arrow."""
    places, names = tuple(uris), [f"c{i}" for i in range(len(columns))]

    def facts(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from caladan.engines.spark.session.daemon import settle
        from caladan.engines.spark.tasks.folded import list_facts

        settle()
        for batch in batches:
            at = 0
            for lists in list_facts(batch.column(ROW), places):
                keys = batch.slice(at, len(lists))
                counts = np.diff(numpy_of(lists.offsets))
                parents = pa.array(np.repeat(np.arange(len(lists)), counts))
                found = {n: keys.column(n).take(parents) for n in keys.schema.names if n != ROW}
                structs = lists.values
                found |= {f.name: structs.field(f.name) for f in structs.type}
                yield pa.RecordBatch.from_arrays([found[n] for n in names], names)
                at += len(lists)

    return facts
