"""The barrier job: all its tasks at once, brought together by the driver.

A barrier stage that feeds a shuffle is tried again as a whole if one of its tasks is lost; a
barrier stage that ends a job is not. So the tasks' outcomes go through a shuffle on their way here.

A barrier job that has more tasks than there are slots would wait for ever: slots are counted first.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeAlias

from caladan.engines.spark.choice import is_local
from caladan.engines.spark.mesh import task as task_module
from caladan.engines.spark.mesh.checkpoint import Checkpoint
from caladan.engines.spark.mesh.encryption import certificate
from caladan.engines.spark.mesh.skew import SkewLimits
from caladan.engines.spark.mesh.task import Mesh
from caladan.engines.spark.session import internals
from caladan.engines.spark.session.workers import with_python
from caladan.engines.spark.strategy import CannotServe, Context
from caladan.engines.spark.tasks.control import Message, Peer
from caladan.engines.spark.tasks.job import JobResult, control_tasks
from caladan.engines.spark.tasks.work import Work
from caladan.program.diagnostics import error

Hear: TypeAlias = Callable[[Message], None]

PATIENCE: Final = "spark.caladan.mesh.patience"
"""The setting with the seconds after which a silent task is given up."""
LOCAL: Final = "spark.caladan.mesh.local"
"""The setting, true or false, by which tasks go on alone while they can before they exchange."""
ENCRYPT: Final = "spark.caladan.mesh.encrypt"
"""The setting, true or false, by which tasks encrypt what they send."""
_ENCRYPTING: Final = (ENCRYPT, "spark.network.crypto.enabled", "spark.ssl.rpc.enabled")
SPLIT: Final = "spark.caladan.mesh.split"
"""The setting with the share of a task's work from which a value is split; 0 for never."""
APART: Final = "spark.caladan.mesh.checkpoint"
"""The setting with the seconds between two rounds that are saved, where a checkpoint is given."""
_PATIENCE: Final = 60.0
_APART: Final = 30.0
_EXECUTORS: Final = 20.0  # seconds to wait for executors that are still starting


def slots(context: Context) -> int:
    """How many tasks can run at the same time; CannotServe where Spark is set up against it."""
    spark: Any = context.workspace.session.sparkContext
    conf = spark.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false") == "true":
        raise CannotServe("Spark runs no barrier jobs while it allocates executors dynamically")
    deadline = time.monotonic() + _EXECUTORS
    while True:
        found = internals.slots(spark)
        if found or time.monotonic() > deadline:
            return found
        context.workspace.check()
        time.sleep(0.1)


def run(work: Work, tasks: int, hear: Hear, context: Context) -> JobResult:
    """What comes of each task; `hear` is told what tasks say, but for how they meet."""
    spark: Any = context.workspace.session.sparkContext
    conf = spark.getConf()
    folder = context.options.checkpoint
    meeting = Rendezvous(tasks, hear)
    with control_tasks(context, meeting.heard) as control:
        mesh = Mesh(
            replace(work, address=control.address, options=context.limits()),
            tasks,
            "127.0.0.1" if is_local(spark.master) else None,
            _number(conf, PATIENCE, _PATIENCE),
            conf.get(LOCAL, "false") == "true",
            SkewLimits(_number(conf, SPLIT, SkewLimits().share)),
            None if folder is None else Checkpoint(folder, _number(conf, APART, _APART)),
            certificate(spark) if _encrypts(conf) else None,
        )
        stage = spark.parallelize(range(tasks), tasks).barrier()
        body = partial(task_module.task, mesh)
        made = with_python(spark, lambda: stage.mapPartitions(body).partitionBy(tasks).values())
        found = JobResult.of(made, work)
        control.drain()
    if control.failure is not None:
        raise control.failure
    return found


def _encrypts(conf: Any) -> bool:
    """Whether tasks are to encrypt what they send: where Spark does, or where asked to."""
    return any(conf.get(name, "false") == "true" for name in _ENCRYPTING)


def _number(conf: Any, name: str, default: float) -> float:
    """A setting that is a number, not below 0."""
    given = conf.get(name, str(default))
    try:
        number = float(given)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise error("C050", f"{name} must be a number from 0 on, not {given!r}")
    return number


class Rendezvous:
    """Brings the tasks of an attempt together.

    PySpark does not tell a task which attempt it belongs to. But the numbers that Spark gives to
    tasks follow those of their partitions, in a barrier stage without gaps, so the difference is
    the same within an attempt and differs between attempts. Should that not hold somewhere, no
    group is ever complete; tasks then say so, and all find each other through Spark, which is slow.
    """

    def __init__(self, tasks: int, hear: Hear) -> None:
        self._tasks = tasks
        self._hear = hear
        self._waiting: dict[int, dict[int, Peer]] = {}
        self._gathers = False

    def heard(self, peer: Peer, message: Message) -> None:
        """What a task says: where it listens, that it waits in vain, or how it goes."""
        if "door" in message:
            if self._gathers:
                peer.send({"gather": True})
                return
            group = self._waiting.setdefault(int(message["attempt"]), {})
            group[int(message["part"])] = peer
            if len(group) == self._tasks:
                doors = [group[part].hello["door"] for part in range(self._tasks)]
                for each in group.values():
                    each.send({"doors": doors})
                del self._waiting[int(message["attempt"])]
        elif "gather" in message:
            if not self._gathers and any(peer in g.values() for g in self._waiting.values()):
                self._gathers = True
                for group in self._waiting.values():
                    for each in group.values():
                        each.send({"gather": True})
        else:
            self._hear(message)
