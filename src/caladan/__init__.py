"""Caladan: Datalog for Python that runs on Spark.

>>> import caladan as cal
>>> db = cal.connect("reference")
>>> db.add("arc", [(1, 2), (2, 3)])
>>> out = db.run("tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(1, B).")
>>> out.answer.rows()
[(1, 2), (1, 3)]

Names are loaded when they are first used, so that importing this package stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from caladan.data.external import jdbc, table
    from caladan.errors import CaladanError, Diagnostic
    from caladan.program import Program
    from caladan.result import CaladanWarning, Relation, Result, Stopped
    from caladan.search.specs import between, one_of, predicate
    from caladan.session import Session, connect

__version__ = "0.1.0"

__all__ = [
    "CaladanError",
    "CaladanWarning",
    "Diagnostic",
    "Program",
    "Relation",
    "Result",
    "Session",
    "Stopped",
    "between",
    "connect",
    "jdbc",
    "one_of",
    "predicate",
    "table",
]

_HOMES = {
    "CaladanError": "errors",
    "CaladanWarning": "result",
    "Diagnostic": "errors",
    "Program": "program",
    "Relation": "result",
    "Result": "result",
    "Session": "session",
    "Stopped": "result",
    "between": "search.specs",
    "connect": "session",
    "jdbc": "data.external",
    "one_of": "search.specs",
    "predicate": "search.specs",
    "table": "data.external",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
