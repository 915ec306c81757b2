"""Caladan: Datalog for Python that runs on Spark.

>>> import caladan as cal
>>> db = cal.connect("reference")
>>> db.add("arc", [(1, 2), (2, 3)])
>>> out = db.run("tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(1, B).")
>>> out.answer.rows()
[(1, 2), (1, 3)]

Names are loaded on first use, so importing this package is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from caladan import bloom
    from caladan.data.external import jdbc, stored, table
    from caladan.join.search.specs import between, one_of, predicate
    from caladan.program import Program
    from caladan.program.diagnostics import CaladanError, Diagnostic
    from caladan.program.events import Listener
    from caladan.session.listeners import EventLog
    from caladan.session.result import CaladanWarning, Relation, Result, Stopped
    from caladan.session.runners import DatalogRunner, RaSQLRunner
    from caladan.session.session import Session, connect
    from caladan.session.stream import RunningStream, stream

__version__ = "0.1.0"

__all__ = [
    "CaladanError",
    "CaladanWarning",
    "DatalogRunner",
    "Diagnostic",
    "EventLog",
    "Listener",
    "Program",
    "RaSQLRunner",
    "Relation",
    "Result",
    "RunningStream",
    "Session",
    "Stopped",
    "between",
    "bloom",
    "connect",
    "jdbc",
    "one_of",
    "predicate",
    "stored",
    "stream",
    "table",
]

_HOMES = {
    "CaladanError": "program.diagnostics",
    "CaladanWarning": "session.result",
    "DatalogRunner": "session.runners",
    "Diagnostic": "program.diagnostics",
    "EventLog": "session.listeners",
    "Listener": "program.events",
    "Program": "program",
    "RaSQLRunner": "session.runners",
    "Relation": "session.result",
    "Result": "session.result",
    "Session": "session.session",
    "Stopped": "session.result",
    "RunningStream": "session.stream",
    "between": "join.search.specs",
    "connect": "session.session",
    "jdbc": "data.external",
    "load_ipython_extension": "session.notebook",
    "one_of": "join.search.specs",
    "predicate": "join.search.specs",
    "stored": "data.external",
    "stream": "session.stream",
    "table": "data.external",
}


def __getattr__(name: str) -> object:
    if name == "bloom":
        return import_module(f"{__name__}.bloom")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = _load_connect() if name == "connect" else _load(name)
    globals()[name] = value
    return value


def _load(name: str) -> object:
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def _load_connect() -> object:
    """Load `connect`. Ctrl-C while libraries load raises Stopped, as in a run."""
    from caladan.program.clock import postpone_interrupt

    try:
        with postpone_interrupt():
            return _load("connect")
    except KeyboardInterrupt:
        from caladan.program.diagnostics import Diagnostic
        from caladan.session.result import Result, Stopped

        told = Diagnostic("C043", "interrupted while loading Caladan")
        raise Stopped((told,), Result((), lambda _: None)) from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
