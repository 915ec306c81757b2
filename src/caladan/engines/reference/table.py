"""A relation in the reference engine's hands: a set of Python tuples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from caladan.data.schema import arrow_schema
from caladan.engines.reference.values import Row, canonical, row_key
from caladan.program import Column, Value

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class ReferenceTable:
    """Rows with typed columns."""

    columns: tuple[Column, ...]
    rows: frozenset[Row]

    def count(self) -> int:
        """How many facts."""
        return len(self.rows)

    def arrow(self, limit: int | None = None) -> pa.Table:
        """The facts, sorted by their columns from the left, so that every run shows the same."""
        import pyarrow as pa

        rows = sorted(self.rows, key=row_key)[:limit]
        schema = arrow_schema(self.columns)
        if not self.columns:
            return pa.table({"": pa.nulls(len(rows))}).select([])
        arrays = [
            pa.array([row[i] for row in rows], type=field.type) for i, field in enumerate(schema)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    def spark(self, session: Any) -> Any:
        """The facts as a DataFrame of a Spark session."""
        return session.createDataFrame(self.arrow())

    def close(self) -> None:
        """There is nothing to let go of."""


def from_arrow(table: pa.Table, columns: tuple[Column, ...]) -> ReferenceTable:
    """The rows of an Arrow table, each once."""
    values: list[list[Value]] = [[canonical(v) for v in c.to_pylist()] for c in table.columns]
    rows = zip(*values, strict=True) if columns else [()] * table.num_rows
    return ReferenceTable(columns, frozenset(rows))
