"""Spark Connect: a session whose driver is elsewhere, and is spoken to by gRPC.

There is no JVM on this side, and there are no RDDs: one task evaluates a program, or frames do, and
there are things that Spark does not tell (how much it shuffles, in how many partitions a frame
lies). What the engine asks of a session, and Connect answers otherwise, is here, but
for the task (`tasks/connect.py`). Loads no PySpark by itself, for workers come by.
"""

from __future__ import annotations

import copy
import re
import uuid
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from caladan.program.diagnostics import error

if TYPE_CHECKING:
    from pyspark import StorageLevel
    from pyspark.sql import DataFrame, SparkSession

URL: Final = "sc://"
_SIZE: Final = re.compile(r"Statistics\(sizeInBytes=([\d.E+]+) (B|[KMGTPE]iB)")
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
_GROUP: Final = "spark.jobGroup.id"

_PARALLELISM: Final[weakref.WeakKeyDictionary[Any, int]] = weakref.WeakKeyDictionary()
_UNUSED: Final[list[Callable[[], object]]] = []
"""What lets go of views and held frames that no plan reads any more.

A finalizer only notes it here: it may be called in the middle of another conversation with the
server, and one more would wait for that for ever.
"""


class Jobs(Protocol):
    """Marks the jobs of a thread, and cancels those with a mark; a SparkContext is one."""

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        """From now on, jobs of this thread have the tag."""
        ...

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        """Cancel jobs."""
        ...


class _Operations:
    """The jobs of a Connect session, which calls them operations."""

    def __init__(self, session: Any) -> None:
        self._session = session

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        self._session.addTag(tag)

    def cancelJobsWithTag(self, tag: str) -> None:  # noqa: N802
        self._session.interruptTag(tag)


def is_connect(of_spark: object) -> bool:
    """Whether a session, or the frame of one, is of Spark Connect."""
    return type(of_spark).__module__.startswith("pyspark.sql.connect.")


def check() -> None:
    """C050 where PySpark makes columns for a driver in this process, and not for Connect."""
    from pyspark.sql import is_remote

    if not is_remote():
        raise error(
            "C050", "PySpark in this process works with a Spark driver, so it cannot use Connect",
            help="start the session with SparkSession.builder.remote(…), or set SPARK_REMOTE",
        )  # fmt: skip


def start_session(url: str, settings: dict[str, str]) -> SparkSession:
    """A session with a server of Spark Connect."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if find_spec("grpc") is None or find_spec("grpc_status") is None:
        # PySpark would end the process here.
        needed = 'pip install "caladan[connect]"'
        raise error("C050", "Spark Connect needs packages that are not installed", help=needed)
    try:
        builder = cast("Any", SparkSession.builder).remote(url)
        return builder.config(map=settings).getOrCreate()
    except PySparkException as problem:
        place, _, _ = url.partition(";")  # what follows may be a token
        reason = _said(problem).replace(url, place)
        raise error("C044", f"no session at {place}: {reason}") from None


def beside(session: SparkSession) -> SparkSession:
    """Another session with the same server, that has no settings of this one."""
    of_it: Any = session
    if "newSession" in dir(type(of_it)):  # PySpark 4.3
        return of_it.newSession()
    connection = copy.deepcopy(of_it.client._builder)
    connection._params.pop("session_id", None)
    return type(of_it)(connection=connection, userId=of_it.client._user_id)


def release(session: SparkSession) -> None:
    """End a session that `beside` made. (Its own `stop` would stop a local server, too.)"""
    client = cast("Any", session).client
    client.set_retry_policies([])  # PySpark would ask a server that is gone for ten minutes
    drop_unused()
    with suppress(Exception):  # a server that is gone has let go of everything
        client.release_session()
    client.close()


def jobs(session: SparkSession) -> Jobs:
    """What cancels the jobs of a session."""
    return cast("Jobs", _Operations(session) if is_connect(session) else session.sparkContext)


def describe_jobs(session: SparkSession, what: str) -> None:
    """Have the jobs of this thread say in Spark's UI what they are for; Connect has no words."""
    if not is_connect(session):
        session.sparkContext.setLocalProperty("spark.job.description", f"caladan: {what}")


def group_jobs(of_jobs: Jobs, tag: str) -> None:
    """Have the jobs of this thread be a group, by which Spark can cancel them.

    The caller's own stands, if there is one.
    """
    context: Any = of_jobs
    if not isinstance(of_jobs, _Operations) and context.getLocalProperty(_GROUP) is None:
        context.setLocalProperty(_GROUP, tag)
        context.setLocalProperty("spark.job.interruptOnCancel", "false")


def parallelism(session: SparkSession) -> int:
    """How many tasks run at the same time."""
    if not is_connect(session):
        return max(session.sparkContext.defaultParallelism, 1)
    if session not in _PARALLELISM:
        from pyspark.sql import functions as sf

        # Spark cuts numbers into as many partitions as it runs tasks, unless told otherwise.
        parts = session.range(0, 1 << 16).select(sf.spark_partition_id().alias("part"))
        _PARALLELISM[session] = cast("Any", parts.agg(sf.max("part")).head())[0] + 1
    return _PARALLELISM[session]


def checkpoint(frame: DataFrame, level: StorageLevel) -> DataFrame:
    """A frame that will be computed once, by the first to read it.

    It goes once no plan reads it. PySpark takes it for one of the active session.
    """
    drop_unused()
    of_thread: Any = cast("Any", type(frame.sparkSession))._active_session
    before = getattr(of_thread, "session", None)
    of_thread.session = frame.sparkSession
    try:
        held: Any = frame.localCheckpoint(eager=False, storageLevel=level)
    finally:
        of_thread.session = before
    held._plan.__class__ = _held_relation()
    return held


@cache
def _held_relation() -> type[object]:
    """PySpark's plan of a held frame, which would speak to the server when it is collected."""
    from pyspark.sql.connect.plan import CachedRemoteRelation

    relation: Any = CachedRemoteRelation

    class HeldRelation(relation):
        def __del__(self) -> None:
            # Made anew, and let go of at once, where nobody is in the middle of anything.
            _UNUSED.append(partial(relation, self._relation_id, self._spark_session))

    return HeldRelation


def estimate_bytes(frame: DataFrame) -> int | None:
    """How many bytes Spark takes a frame to have, as it says in its plan; None if it won't tell."""
    said = str(cast("Any", frame)._explain_string(mode="cost"))
    found = _SIZE.search(said)
    return None if found is None else int(float(found[1]) * 1024 ** _UNITS.index(found[2]))


def move_frame(frame: DataFrame, session: SparkSession) -> DataFrame:
    """A frame of another session with the same server: a view that all its sessions can see.

    The view goes once no plan reads it.
    """
    drop_unused()
    owner: Any = frame.sparkSession
    name = f"caladan_{uuid.uuid4().hex}"
    frame.createGlobalTempView(name)
    found = session.table(f"global_temp.{name}")
    when_unused(found, partial(_drop_view, owner, name))
    return found


def when_unused(frame: DataFrame, drop: Callable[[], object]) -> None:
    """Do something once no plan reads a frame any more."""
    plan = cast("Any", frame)._plan
    weakref.finalize(plan, _UNUSED.append, drop).atexit = False


def drop_unused() -> None:
    """Let go of the views and held frames that no plan reads any more."""
    while _UNUSED:
        with suppress(Exception):  # a session that has ended took its own along
            _UNUSED.pop()()


def _drop_view(owner: Any, name: str) -> None:
    owner.catalog.dropGlobalTempView(name)


def _said(problem: BaseException) -> str:
    return next((line.strip() for line in str(problem).splitlines() if line.strip()), "no reason")
