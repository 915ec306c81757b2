"""The functions of text that rules can call, as Python does them: the meaning of `Call`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from caladan.program.program import CallFunction, Value


def call(function: CallFunction, arguments: list[Value]) -> Value:
    """The value of a call.

    >>> call("substring", ["caladan", 2, 3])
    'ala'
    """
    return _FUNCTIONS[function](*arguments)


def _substring(text: str, start: int, length: int) -> str:
    """Counts from 1, 0 is taken for 1, and a negative start counts from the end."""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


_FUNCTIONS: Final[dict[CallFunction, Callable[..., Any]]] = {
    "upper": str.upper,
    "lower": str.lower,
    "length": len,
    "trim": lambda text: text.strip(" "),
    "concat": lambda *texts: "".join(texts),
    "replace": lambda text, old, new: text.replace(old, new) if old else text,
    "substring": _substring,
}
