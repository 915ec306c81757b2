"""Rows, as functions of users take and give them."""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Iterable
from typing import Any

from caladan.language.bloom.expressions import Expr
from caladan.language.bloom.values import frozen


def is_function(value: object) -> bool:
    """Whether a user's function stands where an expression could."""
    return callable(value) and not isinstance(value, Expr) and not hasattr(value, "query")


def row_type(columns: Iterable[str]) -> Callable[..., Any]:
    """What a function is given for a row: a tuple whose columns have names."""
    return namedtuple("Row", columns, rename=True)  # pyright: ignore[reportUntypedNamedTuple]


def as_row(made: Any) -> Any:
    """What a function gave for a row, as a fact; None for none at all."""
    if made is None:
        return None
    return frozen(tuple(made)) if isinstance(made, tuple | list) else (frozen(made),)


def several(made: Any) -> Any:
    """What a function gave for several rows."""
    return [] if made is None else [as_row(each) for each in made]


def items(value: Any) -> Any:
    """What a value holds, one by one."""
    return [] if value is None else list(value)


def takes_one(code: Callable[..., Any]) -> bool:
    """Whether a function wants one row, whatever is joined."""
    try:
        given = inspect.signature(code).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = [each.kind for each in given if each.default is each.empty]
    return len(kinds) == 1 and kinds[0] in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    )
