"""A table in Arrow's hands: what has no engine behind it, such as rows that were set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from caladan.data.schema import column_type, empty_table
from caladan.program import Column, Type


@dataclass(frozen=True, slots=True)
class ArrowTable:
    """An Arrow table with the columns of a relation."""

    columns: tuple[Column, ...]
    data: pa.Table

    def count(self) -> int:
        """How many facts."""
        return self.data.num_rows

    def arrow(self, limit: int | None = None) -> pa.Table:
        """The facts, or the first of them."""
        return self.data if limit is None else self.data.slice(0, limit)

    def spark(self, session: Any) -> Any:
        """The facts as a DataFrame of a Spark session."""
        if self.data.num_rows:
            return session.createDataFrame(self.data)
        from pyspark.sql.pandas.types import from_arrow_schema

        # With Spark Connect an Arrow table without rows has no schema.
        return session.createDataFrame([], from_arrow_schema(self.data.schema))

    def close(self) -> None:
        """There is nothing to let go of."""


def empty(columns: Sequence[Column]) -> ArrowTable:
    """A relation without facts."""
    return ArrowTable(tuple(columns), empty_table(columns))


def wrap(data: pa.Table) -> ArrowTable:
    """An Arrow table as it is."""
    columns = tuple(Column(f.name, column_type(f.type) or Type.STRING) for f in data.schema)
    return ArrowTable(columns, data)
