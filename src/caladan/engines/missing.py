"""Tables with missing values as users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caladan.data.missing import merge_pairs, values
from caladan.data.schema import LocalTable
from caladan.engines.interface import KnowsFirst, KnowsMissing, Table

if TYPE_CHECKING:
    import pyarrow as pa


class MergedTable(LocalTable):
    """A table of this process as users see it: with nulls, and without what says where they are."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.columns = values(table.columns)

    def count(self) -> int:
        return self._table.count()

    def arrow(self, limit: int | None = None) -> pa.Table:
        return merge_pairs(self._table.arrow(limit), self._table.columns)

    def first(self, rows: int) -> pa.Table | None:
        found = self._table.first(rows) if isinstance(self._table, KnowsFirst) else None
        return None if found is None else merge_pairs(found, self._table.columns)

    def close(self) -> None:
        self._table.close()


def shown(table: Table) -> Table:
    """A table as users see it."""
    if all(column.role == "value" for column in table.columns):
        return table
    return table.merged() if isinstance(table, KnowsMissing) else MergedTable(table)
