"""What goes wrong inside Spark, as diagnostics.

Rules mark what they raise: `marked(code, number)` is the text of an error that a Spark expression
raises, and `diagnose` finds it again in the exception that comes out of Spark, however deep.
Anything else is C044, as `data/frames.py` says it. Nobody sees a Java stack trace,
also not in what PySpark logs of its own accord: `quietly` keeps it from that. `--debug` shows it,
as the cause of the diagnostic (`SparkSaid`). Neither has secrets of databases.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import Final

from pyspark.logger import PySparkLogger

from caladan.analysis.core import CoreRule
from caladan.data.frames import first_line, spark_failed
from caladan.data.secrets import scrub
from caladan.program.diagnostics import CaladanError, Diagnostic, error
from caladan.program.functions import CallFailed, TooLarge, call, find, read_argument
from caladan.rules.failures import call_failed, division_by_zero, overflow

BAD_ROW: Final = "caladan:bad row"
"""What reading raises at the first row that needs a closer look."""

_MARK: Final = re.compile(r"caladan:(C04[01])(?:/(\w+))?:(\d+):")
_STOPPED: Final = "on a stopped SparkContext"
_NO_JVM: Final = "Could not create the Java Virtual Machine"
CALL_ENDS: Final = ":caladan"
_CALLED: Final = re.compile(r"caladan:call:(\d+):(\w+):(\[.*?\])" + CALL_ENDS, re.DOTALL)
_IN_VAIN: Final = re.compile(r"caladan:C073:(\d+):(\w+):(.*)")


def mark_failure(code: str, rule: int, *, double: bool = False, of: str | None = None) -> str:
    """The text by which an error raised inside Spark tells its code and its rule."""
    kind = "double" if double else of
    return f"caladan:{code}{f'/{kind}' if kind else ''}:{rule}:"


def called_with(rule: CoreRule, function: str) -> str:
    """The same for a function of the table; its arguments follow, as JSON."""
    return f"caladan:call:{rule.number}:{function}:"


def called_in_vain(rule: int, failed: CallFailed) -> str:
    """The same for a function of Python."""
    return f"caladan:C073:{rule}:{failed.function}:{failed.reason}"


def is_bad_row(problem: BaseException) -> bool:
    """Whether reading stopped at a row that needs a closer look."""
    return BAD_ROW in said(problem)


def diagnose(problem: BaseException, rules: Iterable[CoreRule] = ()) -> CaladanError:
    """An exception of Spark's as a diagnostic."""
    text = said(problem)
    mark = _MARK.search(text)
    if mark is not None:
        rule = next((r for r in rules if r.number == int(mark.group(3))), None)
        if rule is not None:
            of = mark.group(2)
            is_division = mark.group(1) == "C040"
            told = overflow(rule, double=of == "double", of=of)
            told = division_by_zero(rule) if is_division else told
            return CaladanError(told)
    call = _CALLED.search(text)
    if call is not None:
        rule = next((r for r in rules if r.number == int(call.group(1))), None)
        if rule is not None:
            return CaladanError(_reason(rule, call.group(2), call.group(3)))
    call = _IN_VAIN.search(text)
    if call is not None:
        rule = next((r for r in rules if r.number == int(call.group(1))), None)
        if rule is not None:
            return CaladanError(call_failed(rule, call.group(2), call.group(3).strip()))
    return spark_failed(problem, text)


def _reason(rule: CoreRule, function: str, arguments: str) -> Diagnostic:
    """What is wrong with a call, which is made once more here, with the arguments of the row."""
    row = find(function)
    given: list[str] = json.loads(arguments)
    for overload in row.overloads:
        if not overload.accepts(len(given)):
            continue
        try:
            values = [read_argument(text, overload.parameter(i)) for i, text in enumerate(given)]
            call(function, values)
        except CallFailed as failed:
            return call_failed(rule, failed.function, failed.reason)
        except ZeroDivisionError:
            return division_by_zero(rule)
        except OverflowError as problem:
            return overflow(rule, double=isinstance(problem, TooLarge))
        except ValueError:
            continue
    return call_failed(rule, function, f"it has no value for {arguments}")


class SparkSaid(Exception):
    """All that Spark said, but for secrets: what `--debug` shows."""

    def __init__(self, problem: BaseException) -> None:
        super().__init__(scrub(said(problem)))


def cannot_start(problem: BaseException, said: str, master: str) -> CaladanError:
    """C044 for a session that did not start; `said` is what its JVM wrote."""
    text = str(problem)
    if _STOPPED in text:  # by itself, once it has asked for a minute
        return error("C044", f"Spark did not start: no cluster answers at {scrub(master)}")
    lines = [line for line in said.splitlines() if line.strip() and "WARN" not in line]
    reason = next((line for line in lines if "rror" in line or "xception" in line), None)
    if reason is not None and _NO_JVM in reason:
        reason = lines[0]  # Java says first which of its options is wrong
    return error(
        "C044",
        f"Spark did not start: {first_line(reason or text)}",
        help="`caladan run` takes settings of Spark as `--conf spark.driver.memory=2g`",
    )


class _Quiet(logging.Filter, threading.local):
    """Drops what is logged on a thread while that thread is in `quietly`."""

    depth = 0

    def filter(self, record: logging.LogRecord) -> bool:
        return not self.depth


_QUIET: Final = _Quiet()
for _name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
    PySparkLogger.getLogger(_name).addFilter(_QUIET)
for _name in ("py4j.clientserver", "py4j.java_gateway"):  # every word of a call, for debugging
    logging.getLogger(_name).addFilter(_QUIET)


@contextmanager
def quietly() -> Generator[None]:
    """For calls whose exceptions become diagnostics: PySpark logs them with their stack traces.

    Py4J logs what goes to the JVM, if somebody debugs it; of calls made here, which may hand over a
    password, it does not.
    """
    _QUIET.depth += 1
    try:
        yield
    finally:
        _QUIET.depth -= 1


def said(problem: BaseException) -> str:
    """The text of an exception of Spark's; the JVM is asked for it, and Py4J logs no word of it."""
    with quietly():
        return str(problem)
