"""`local-cluster` is a cluster: executors of their own, no folder for all, results in blocks."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

SCRIPT = """
from functools import partial
import caladan as cal
from caladan.engines.spark.tasks import job
from caladan.engines.spark.tasks.work import Retention

job.Retention = partial(Retention, few_bytes=9)
with cal.connect("spark", master="local-cluster[2,1,1024]") as db:
    db.add("arc", [(i, i + 1) for i in range(50)])
    text = "tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B)."
    assert db._engine._staging.folder is None
    for strategy in ("single", "pivoted"):
        with db.run(text, strategy=strategy) as out:
            assert out.stats.strategy == strategy, out.stats
            frame = out.answer.spark()
            assert frame.count() == 1275
            assert frame.where("A = 40").count() == 10
            assert len(out.answer.rows()) == 1275
print("as a cluster")
"""


def test_results_of_a_local_cluster() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=280,
        check=False,
    )  # fmt: skip
    assert "as a cluster" in done.stdout, done.stderr[-3000:]
