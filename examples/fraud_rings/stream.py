"""Fraud rings over a stream of transfers, merged into a Parquet table.

    python examples/fraud_rings/stream.py FOLDER

Files that come into FOLDER/transfers are read as a stream. Each micro-batch is one change: what it
adds to the rings, or takes from them, is merged into FOLDER/rings. Killed and started again, it
goes on with the batch it was at.
"""

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import caladan as cal

HERE = Path(__file__).parent
OWNERS = {"Account": [1, 2, 3, 4, 5], "Person": ["paul", "jessica", "duncan", "gurney", "gurney"]}


def follow(spark: SparkSession, folder: Path, trigger: dict[str, Any]) -> cal.RunningStream:
    """Follow the transfers in a folder."""
    rings = folder / "rings"

    def merge(changes: DataFrame, batch: int) -> None:
        """Have the table hold what it held, without what was deleted, and what was inserted."""
        new = changes.where("_change_type = 'insert'").select("A")
        if rings.exists():
            gone = changes.where("_change_type = 'delete'").select("A")
            new = spark.read.parquet(str(rings)).select("A").subtract(gone).union(new).distinct()
        draft = folder / f"rings-{batch}"
        new.coalesce(1).write.mode("overwrite").parquet(str(draft))
        if rings.exists():
            old = folder / f"rings-before-{batch}"
            if not old.exists():
                rings.rename(old)
        draft.rename(rings)

    (folder / "transfers").mkdir(parents=True, exist_ok=True)
    transfers = spark.readStream.schema("Sender long, Receiver long").parquet(
        str(folder / "transfers")
    )
    return cal.stream(
        spark,
        HERE / "program.dl",
        sources={"transfer": transfers, "owner": OWNERS},
        sinks={"ring": merge},
        checkpoint=folder / "checkpoint",
        trigger=trigger,
    )


if __name__ == "__main__":
    session = SparkSession.builder.appName("fraud rings").getOrCreate()
    follow(session, Path(sys.argv[1]), {"processingTime": "1 second"}).wait()
