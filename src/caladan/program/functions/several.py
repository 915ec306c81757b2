"""Functions that give several rows: `X in range(1, 4)`, and the functions that they are made of."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from caladan.program.functions.row import FunctionRow


def _range(start: int, end: int, step: int = 1) -> range:
    if step == 0:
        raise ValueError("a range needs a step that is not 0")
    return range(start, end, step)


def _range_size(start: int, end: int, step: int = 1) -> int:
    if step == 0:
        raise ValueError("a range needs a step that is not 0")
    return max(-((start - end) // step), 0)


def _range_item(start: int, _end: int, *rest: int) -> int:
    *step, place = rest
    return start + place * (step[0] if step else 1)


def _numpy_size(np: Any, start: Any, end: Any, step: Any = 1) -> Any:
    sizes = [np.abs(np.asarray(each, np.float64)) for each in (start, end)]
    if np.any(step == 0) or any(np.any(size > 2.0**61) for size in sizes):
        return None
    return np.maximum(-((np.asarray(start) - end) // step), 0)


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else list(text)


_several = partial(FunctionRow, family="Rows")
_RULES: Final = "rules derive its rows"
_BY_VALUE: Final = "it is called once for each distinct value"

ROWS: Final = (
    _several(
        name="range", signature="(long, long, long?) -> long", rows=("range_size", "range_item"),
        summary="The whole numbers from the first up to the second, without it; the third is the "
        "step from one to the next.",
        example=("range(1, 4)", [1, 2, 3]), scalar=lambda *given: list(_range(*given)),
        duckdb="range({0}, {1})", lacks={"arrow": _RULES, "spark": _RULES}, fails=True, grows=True,
    ),
    _several(
        name="range_size", signature="(long, long, long?) -> long",
        summary="The number of values in a range.", example=("range_size(1, 4)", 3),
        scalar=_range_size, numpy=_numpy_size, fails=True,
        duckdb="len(range({0}, {1}))", lacks={"spark": "it has none"},
    ),
    _several(
        name="range_item",
        signature="(long, long, long) -> long | (long, long, long, long) -> long",
        summary="The value at a position of a range, from 0.",
        example=("range_item(1, 4, 2)", 3), scalar=_range_item, grows=True,
        duckdb="range({0}, {1})[{2} + 1]",
        lacks={"arrow": _BY_VALUE, "spark": "it has none"},
    ),
    _several(
        name="split", signature="(string, string) -> string", rows=("split_size", "split_item"),
        summary="The parts of a text between separators; its characters if the separator is empty.",
        example=('split("a,b", ",")', ["a", "b"]), scalar=_split, duckdb="string_split",
        lacks={"arrow": _RULES, "spark": _RULES},
    ),
    _several(
        name="split_size", signature="(string, string) -> long",
        summary="The number of parts between separators.",
        example=('split_size("a,b", ",")', 2),
        scalar=lambda text, separator: len(_split(text, separator)),
        duckdb="len(string_split({0}, {1}))",
        lacks={"arrow": _BY_VALUE, "spark": "Spark's separators are regular expressions"},
    ),
    _several(
        name="split_item", signature="(string, string, long) -> string",
        summary="The part at a position, from 0; empty if there are fewer.",
        example=('split_item("a,b", ",", 1)', "b"),
        scalar=lambda text, separator, place: (
            parts[place] if 0 <= place < len(parts := _split(text, separator)) else ""
        ),
        duckdb="string_split({0}, {1})[{2} + 1]",
        lacks={"arrow": _BY_VALUE, "spark": "Spark's separators are regular expressions"},
    ),
)  # fmt: skip
