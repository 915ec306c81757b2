"""Spark starts here, and rows go to Python workers and back as Arrow."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def doubled(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"id": [2 * value.as_py() for value in batch["id"]]})


def test_arrow_round_trip(spark: "SparkSession") -> None:
    frame = spark.range(10).mapInArrow(doubled, "id long")
    assert sorted(frame.toPandas()["id"]) == list(range(0, 20, 2))
