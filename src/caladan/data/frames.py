"""DataFrames of Spark as data, for every engine: which are none, and what Spark says when it fails.

`check` refuses a frame that nobody can read: a stream, or one of a session that was stopped.
`collect` brings the rows of one into this process. `spark_failed` is C044 for what Spark, or a
function of the user's in it, raised, with the first line that means something to a person. Loads no
PySpark by itself: whoever has a frame has.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from caladan.data.secrets import scrub
from caladan.program.diagnostics import CaladanError, error

if TYPE_CHECKING:
    import pyarrow as pa

_THREAD: Final = re.compile(r'^Exception in thread "[^"]*" ')
_CLASS: Final = re.compile(r"^(?:[a-z_]+\.)+[A-Z][\w$]*(?:Exception|Error)?:?\s*")
_TASK: Final = re.compile(r"^Job aborted .*?: Lost task \S+ in stage \S+ \(TID \d+\) \([^)]*\): ")
_TRACE: Final = re.compile(r"^(?:\s+at |\s*\.\.\. \d+ more|Driver stacktrace|An error occurred)")
_PYTHON: Final = re.compile(r"Python worker.*\nTraceback .*\n(?:\s.*\n|\n)*(\S.*)")
_WAITED: Final = "Exception thrown in awaitResult:"  # of no interest: its cause is
_HELP: Final = (
    "`--debug` shows what Spark said in full; in Python it is the `__cause__` of this exception"
)
_BATCH: Final = (
    "read the same source with spark.read, or run the program on each batch: "
    "stream.writeStream.foreachBatch(…)"
)


def is_running(session: Any) -> bool:
    """Whether a SparkSession can be used: neither it nor its SparkContext was stopped."""
    from py4j.protocol import Py4JError

    if type(session).__module__.startswith("pyspark.sql.connect."):
        return not session.is_stopped
    context = session.sparkContext._jsc
    try:
        return context is not None and not context.sc().isStopped()
    except (Py4JError, OSError):  # nobody answers: the JVM has died
        return False


def check_running(session: Any) -> None:
    """C050 where Spark was stopped behind the back of who holds something of it."""
    if not is_running(session):
        raise spark_stopped()


def spark_stopped() -> CaladanError:
    """C050: what is asked of Spark is gone."""
    return error(
        "C050", "Spark was stopped, and its data is gone",
        help="connect to a running SparkSession, and add the data again",
    )  # fmt: skip


def check(relation: str, frame: Any) -> None:
    """C050 for a frame whose rows nobody can read."""
    if not is_running(frame.sparkSession):
        raise error(
            "C050", f"the DataFrame given for {relation} belongs to a stopped Spark session",
            help="create it again in a running session",
        )  # fmt: skip
    if frame.isStreaming:
        raise error("C050", f"the DataFrame given for {relation} is a stream", help=_BATCH)


def collect(relation: str, frame: Any) -> pa.Table:
    """The rows of a frame."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    check(relation, frame)
    try:
        return frame.toArrow()
    except (PySparkException, Py4JError, ConnectionError) as problem:
        raise spark_failed(problem, str(problem)) from problem


def spark_failed(problem: BaseException, text: str) -> CaladanError:
    """C044 for an exception of Spark's, of which this is the text."""
    reason = "its JVM is gone" if isinstance(problem, ConnectionError) else first_line(text)
    return error("C044", f"Spark failed: {reason}", help=_HELP)


def first_line(text: str) -> str:
    """The first line of an exception's text that means something to a person.

    Of an exception in Python that is what comes after its stack trace.
    """
    if raised := _PYTHON.search(text):
        return scrub(raised[1])
    for line in text.splitlines():
        told = line.strip().removeprefix(":").removeprefix("Caused by:").strip()
        if told and not _TRACE.match(line) and not told.endswith(_WAITED):
            for prefix in (_THREAD, _CLASS, _TASK, _CLASS):
                told = prefix.sub("", told, count=1)
            return scrub(told or line.strip())
    return "no reason given"
