"""The examples that are PySpark jobs."""

import runpy
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

FOLDER = Path(__file__).parents[2] / "examples"


def test_company_control_in_a_job(spark: SparkSession) -> None:
    found = runpy.run_path(str(FOLDER / "company_control" / "job.py"))["main"](spark)
    rows = [tuple(row) for row in found.collect()]
    assert rows[0][0] == "atreides"
    assert rows[0][1] >= 2
    assert not spark.catalog.tableExists("control")


def test_fraud_rings_over_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    made = runpy.run_path(str(FOLDER / "fraud_rings" / "stream.py"))

    def come(number: int, transfers: list[tuple[int, int]]) -> list[int]:
        (tmp_path / "transfers").mkdir(exist_ok=True)
        columns = dict(zip(("Sender", "Receiver"), zip(*transfers, strict=True), strict=True))
        pq.write_table(pa.table(columns), tmp_path / "transfers" / f"{number}.parquet")
        with made["follow"](spark, tmp_path, {"availableNow": True}) as stream:
            assert stream.wait(120)
        rings = tmp_path / "rings"
        return (
            sorted(row[0] for row in spark.read.parquet(str(rings)).collect())
            if rings.exists()
            else []
        )

    assert come(1, [(1, 2), (2, 3), (4, 5), (5, 4)]) == []  # 4 and 5 are one person's
    assert come(2, [(3, 1)]) == [1, 2, 3]
    assert come(3, [(2, 4), (4, 1)]) == [1, 2, 3, 4]
