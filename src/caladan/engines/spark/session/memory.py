"""How much memory facts may have in one task, as far as settings say.

    spark.executor.pyspark.memory       limits the address space of Python workers, by RLIMIT_AS
    spark.executor.memoryOverhead       on YARN and Kubernetes, whose containers end above it
    (neither)                           on one machine what it has, beside the driver's heap

Elsewhere nobody says, and nothing is declined for its size. A worker has the engine and its
libraries loaded before it has any facts: that is taken off.
"""

from __future__ import annotations

from typing import Any, Final

from caladan.engines.spark.choice import TaskMemory, is_local
from caladan.engines.spark.session import internals
from caladan.engines.spark.session.session import machine_memory

_PYSPARK: Final = "spark.executor.pyspark.memory"
_OVERHEAD: Final = "spark.executor.memoryOverhead"
_PROFILE: Final = "resource.pyspark.memory"  # in MB, what a resource profile gives this thread
_ADDRESSES: Final = 600 << 20  # address space of a worker without facts: 520 MB were seen
_LOADED: Final = 100 << 20  # and memory of its own
_LEAST: Final = 384 << 20  # of the overhead, as Spark has it


def task_memory(context: Any) -> TaskMemory | None:
    """What facts may have in one task of a context; None if no setting says."""
    master = context.master
    cores = 1 if is_local(master) else int(context.getConf().get("spark.executor.cores", "1"))
    profile = context.getLocalProperty(_PROFILE)
    if given := int(profile) << 20 if profile else _size(context, _PYSPARK, 0):
        return TaskMemory(max(given // cores - _ADDRESSES, 0), _PYSPARK)
    if is_local(master):
        free = machine_memory() - internals.heap(context) - _LOADED
        return TaskMemory(max(free, 0), "this machine", is_shared=True)
    if master == "yarn" or master.startswith("k8s"):
        heap = _size(context, "spark.executor.memory", 1 << 30)
        usual = max(heap * (4 if master.startswith("k8s") else 1) // 10, _LEAST)
        return TaskMemory(max(_size(context, _OVERHEAD, usual) // cores - _LOADED, 0), _OVERHEAD)
    return None


def _size(context: Any, name: str, default: int) -> int:
    """A setting that is a size, in bytes; a bare number counts megabytes."""
    given = context.getConf().get(name)
    if given is None:
        return default
    bare = given.strip().isdigit()
    return int(given) << 20 if bare else internals.size_setting(context, name, str(default))
