"""A SparkSession to work in.

`adopt` takes the session it is given, or the active one, or starts one. `start` starts one with
sane settings, quietly. `child` makes the session that evaluation happens in: it shares the
context of its parent, and has SQL settings of its own, so that a user's settings are neither
changed nor relied on. `move_frame` brings a frame of one session into another.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, cast

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from caladan.data.frames import is_running
from caladan.engines.spark.choice import is_local
from caladan.engines.spark.session import archive, connect, internals
from caladan.engines.spark.session.failures import cannot_start
from caladan.engines.spark.session.java import java_home
from caladan.program.clock import TimeOver, look, wait_for
from caladan.program.diagnostics import error

_LOCAL: Final = "local[*]"

_GLANCE: Final = 0.05  # seconds between two looks at whether a JVM has started

_STARTED: Final = {
    "spark.app.name": "caladan",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.python.worker.reuse": "true",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # A barrier stage that finds fewer slots than it has tasks is given up in seconds, not minutes.
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "1s",
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "10",
    # A round of a few rules is compiled into some forty classes; Spark keeps a hundred in all.
    "spark.sql.codegen.cache.maxEntries": "1000",
    # Where every DataFrame call was made is not for users of Caladan to know, and takes time.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

_EVALUATING: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Rounds are many and small; how they are spread is decided from counts that we know.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    # A relation partitioned by one of its columns meets what is partitioned by the same column.
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}


def adopt(
    given: SparkSession | None, master: str | None, conf: Mapping[str, str] | None
) -> tuple[SparkSession, bool]:
    """The session to use, and whether it was started for us."""
    try:
        session = given or active()
    except (Py4JError, ConnectionError):
        raise error(
            "C044", "the JVM of this process has died, and PySpark starts no other",
            help="restart Python",
        ) from None  # fmt: skip
    if session is None:
        return start(master, conf), True
    if not is_running(session):
        raise error(
            "C050", "this SparkSession was stopped",
            help="start another: SparkSession.builder.getOrCreate()",
        )  # fmt: skip
    if connect.is_connect(session):
        connect.check()
    _check_same(session, master, conf or {})
    return session, False


def start(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A new session: quiet, without UI, with the memory this machine can spare."""
    if master is not None and master.startswith(connect.URL):
        return connect.start_session(master, dict(conf or {}))
    settings = {**_STARTED, "spark.driver.memory": _driver_memory(), **(conf or {})}
    settings["spark.master"] = master or settings.get("spark.master", _LOCAL)
    if is_local(settings["spark.master"]):  # where the executors have what we have
        settings.setdefault("spark.python.daemon.module", "caladan.engines.spark.session.daemon")
    quiet = "spark.log.level" not in settings
    options = settings.get("spark.driver.extraJavaOptions", "")
    options = f"{options} {archive.option(options)}".strip()
    if quiet:
        log = Path(__file__).with_name("log4j2.properties").as_uri()
        options = f"{options} -Dlog4j2.configurationFile={log}".strip()
    if options:
        settings["spark.driver.extraJavaOptions"] = options
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    with tempfile.TemporaryFile() as said:
        try:
            _launch(settings, said if quiet else None)
            builder = cast("Any", SparkSession.builder)
            return wait_for(builder.config(map=settings).getOrCreate)
        except (PySparkException, Py4JError, RuntimeError, OSError) as problem:
            said.seek(0)
            told = said.read().decode(errors="replace")
            raise cannot_start(problem, told, settings["spark.master"]) from None


def child(session: SparkSession) -> SparkSession:
    """A session for evaluation, beside the given one."""
    made = beside(session)
    for key, value in {**_inherit_settings(session), **_EVALUATING}.items():
        made.conf.set(key, value)
    return made


def _inherit_settings(session: SparkSession) -> dict[str, str]:
    """What a child has of its parent's settings: how to reach the user's files, and our own."""
    is_connect = connect.is_connect(session)
    given = cast("Any", session).conf.getAll if is_connect else internals.settings(session)
    return {name: given[name] for name in given if name.startswith(("fs.", "spark.caladan."))}


def beside(session: SparkSession) -> SparkSession:
    """A session that shares the driver with another, and no setting."""
    return connect.beside(session) if connect.is_connect(session) else session.newSession()


def create_frame(
    session: SparkSession, data: object, schema: StructType | None = None
) -> DataFrame:
    """A frame of data. PySpark makes the session that does this the active one; here none is."""
    if connect.is_connect(session):
        return cast("Any", session).createDataFrame(data, schema)
    with internals.kept_active(session):
        return cast("Any", session).createDataFrame(data, schema)


def move_frame(frame: DataFrame, session: SparkSession) -> DataFrame:
    """A frame of another session as one of this session, whose settings then govern it."""
    if frame.sparkSession is session:
        return frame
    if connect.is_connect(session):
        return connect.move_frame(frame, session)
    found = internals.rehome(frame, session)
    if found is None:
        # A union belongs to the session of its first input; but of an empty one Spark does not know
        # that it is, and takes the whole to be huge.
        found = create_frame(session, [], frame.schema).union(frame)
    return found


def active() -> SparkSession | None:
    """The SparkSession of this process, whichever thread has started it."""
    found = SparkSession.getActiveSession()
    if found is not None:
        return found
    # The active session is a matter of threads; another thread may have started one.
    other = cast("Any", SparkSession)._instantiatedSession
    return other if other is not None and is_running(other) else None


def _check_same(session: SparkSession, master: str | None, conf: Mapping[str, str]) -> None:
    """C050 where settings were asked for that the running session does not have."""
    asked = {**conf, **({"spark.master": master} if master else {})}
    for key, value in asked.items():
        if session.conf.get(key, None) != value:
            raise error(
                "C050",
                f"a Spark session is running, and its {key} is not {value}",
                help="stop it first, or use it as it is: connect(spark)",
            )


def _launch(settings: Mapping[str, str], said: IO[bytes] | None) -> None:
    """Start a JVM, unless one runs already, whose chatter goes to `said`."""
    context = cast("Any", SparkContext)
    if context._gateway is not None:
        return
    conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    context._ensure_initialized(gateway=_gateway(conf, said))


def _gateway(conf: SparkConf, said: IO[bytes] | None) -> Any:
    """The way to a new JVM.

    PySpark starts it on a thread of its own: were PySpark interrupted half way, nobody would know
    of the JVM, which cannot write down where it listens then, and stays for ever.
    """
    found: list[Any] = []
    problems: list[BaseException] = []
    done, abandoned = threading.Event(), threading.Event()

    def launch() -> None:
        try:
            with _java():
                found.append(launch_gateway(conf, {} if said is None else {"stderr": said}))
            if abandoned.is_set():
                found[0].shutdown()
                found[0].proc.stdin.close()  # at which it ends
        except BaseException as problem:
            problems.append(problem)
        finally:
            done.set()

    threading.Thread(target=launch, name="caladan-launch", daemon=True).start()
    try:
        while not done.wait(_GLANCE):
            look()
    except (KeyboardInterrupt, TimeOver):
        abandoned.set()
        raise
    if problems:
        raise problems[0]
    return found[0]


@contextmanager
def _java() -> Generator[None]:
    """JAVA_HOME set for the process that is started meanwhile, if it has to be."""
    home, before = java_home(), os.environ.get("JAVA_HOME")
    if home is not None:
        os.environ["JAVA_HOME"] = home
    try:
        yield
    finally:
        if home is not None:
            if before is None:
                del os.environ["JAVA_HOME"]
            else:
                os.environ["JAVA_HOME"] = before


def _driver_memory() -> str:
    """Half of what this machine, or its container, has; at least 1 GB and at most 32."""
    return f"{min(max(machine_memory() // 2**31, 1), 32)}g"


def machine_memory() -> int:
    """The bytes that this machine, or its container, has."""
    available = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no container, or one without a limit ("max")
        available = min(available, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return available
