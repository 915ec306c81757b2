"""Waiting until what nobody has any more is gone: from Python, from the JVM, from disks."""

import gc
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from caladan.engines.spark.session.staging import Readers


def settles(spark: SparkSession, is_so: Callable[[], bool], times: int = 50) -> bool:
    """Whether something becomes true once both sides have looked for garbage."""
    context: Any = spark.sparkContext
    for _ in range(times):
        gc.collect()
        spark.range(1).count()  # Spark remembers the last plan it ran
        context._jvm.java.lang.System.gc()
        time.sleep(0.1)
        Readers.of(spark.sparkContext).sweep()
        if is_so():
            return True
    return False
