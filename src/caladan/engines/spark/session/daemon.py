"""The process from which Spark forks its Python workers, with the engine loaded beforehand.

Loading numpy, Arrow and compiled kernels takes longer than most tasks do. Done once here, every
worker has them from its first task on. Spark collects garbage after each task; what was loaded is
exempt from that, for it would cost each task more than its own work. So is what a task loads later.

Sessions that Caladan starts on one machine use this. On a cluster where it is installed, set

    spark.python.daemon.module    caladan.engines.spark.session.daemon
"""

from __future__ import annotations

import gc
import importlib
import sys
from typing import Final

_NEEDED: Final = (
    "pyspark.cloudpickle",
    "pyspark.sql.pandas.serializers",
    "pyspark.worker",
    "caladan.engines.spark.tasks.task",
    "caladan.engines.spark.mesh.task",
)


def preload() -> None:
    """Load what tasks need. A worker that lacks something says so better than this process can."""
    try:
        for name in _NEEDED:
            importlib.import_module(name)
        from caladan.columns import warmup

        warmup.preload()
    except Exception as problem:
        print(f"caladan: not all could be loaded: {problem!r}", file=sys.stderr)  # noqa: T201
    settle()


def settle() -> None:
    """Have the garbage collector leave alone what was loaded since it was last told to."""
    if len(sys.modules) > _Settlement.modules:
        gc.collect()
        gc.freeze()
        _Settlement.modules = len(sys.modules)


class _Settlement:
    modules = 0
    """How many modules there were when the collector was told."""


if __name__ == "__main__":
    from pyspark.daemon import manager

    preload()
    manager()
