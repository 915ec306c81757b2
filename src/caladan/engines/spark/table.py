"""A relation as the spark engine holds it: a frame, and the runs behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as sf

from caladan.engines.spark.failures import diagnosed
from caladan.engines.spark.layout import SMALL
from caladan.engines.spark.operators import Rows
from caladan.engines.spark.runs import Run, release
from caladan.engines.spark.session import moved
from caladan.engines.spark.types import OUTSIDE, names
from caladan.program import Column

if TYPE_CHECKING:
    import pyarrow as pa


class SparkTable:
    """A relation. `count` is asked of Spark once, if it is not known."""

    def __init__(
        self,
        columns: tuple[Column, ...],
        frame: DataFrame,
        runs: Sequence[Run] = (),
        count: int | None = None,
    ) -> None:
        self._columns = columns
        self.runs = tuple(runs)
        self._count = count
        self.frame = frame
        self.reading: float | None = None
        """Seconds it took to read this from outside, until somebody has been told."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """Names and types."""
        return self._columns

    @property
    def rows(self) -> Rows:
        """The table as an input of a rule."""
        count = self.count()
        if count > SMALL:
            return Rows(self.frame, count, lone=False)
        if all(run.partitions == 1 for run in self.runs) and len(self.runs) == 1:
            return Rows(self.frame, count, lone=True)
        return Rows(self.frame.coalesce(1), count, lone=True)

    def count(self) -> int:
        """How many facts."""
        if self._count is None:
            try:
                self._count = self.frame.count()
            except (PySparkException, Py4JError) as problem:
                raise diagnosed(problem) from None
        return self._count

    def arrow(self, limit: int | None = None) -> pa.Table:
        """The facts, or any `limit` of them, as Arrow."""
        from caladan.data.schema import arrow_schema

        frame = self._outside()
        if limit is not None:
            frame = frame.limit(limit)
        try:
            table = cast("Any", frame).toArrow()
        except (PySparkException, Py4JError) as problem:
            raise diagnosed(problem) from None
        if not self._columns:
            import pyarrow as pa

            # Arrow tables know their length by their columns; this one needs another way.
            return pa.table({"": pa.nulls(table.num_rows)}).select([])
        wanted = arrow_schema(self._columns)
        return table.rename_columns([c.name for c in self._columns]).cast(wanted)

    def spark(self, session: SparkSession) -> DataFrame:
        """The facts as a DataFrame of a session, with the names and types that users know."""
        frame = moved(self._outside(), session)
        return frame.toDF(*(c.name for c in self._columns)) if self._columns else frame.select()

    def renamed(self, columns: tuple[Column, ...], frame: DataFrame) -> SparkTable:
        """A table that shows this one, or part of it, under other names; it owns nothing."""
        return SparkTable(columns, frame, count=self._count if frame is self.frame else None)

    def close(self) -> None:
        """Give back the storage."""
        for run in self.runs:
            release(run)

    def _outside(self) -> DataFrame:
        """Columns of the declared types; names stay positions, for users' may be equal."""
        if not self._columns:
            return self.frame
        pairs = zip(names(self._columns), self._columns, strict=True)
        return self.frame.select(
            *(sf.col(name).cast(OUTSIDE[column.type]).alias(name) for name, column in pairs)
        )
