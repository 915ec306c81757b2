"""Functions of missing values: what they give does not go missing with their arguments.

The compiler decides them where it knows what is there (analysis/missing.py); what is left is
evaluated like any other function.
"""

from __future__ import annotations

from typing import Any, Final

from caladan.program.functions.row import FunctionRow


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


ROWS: Final = (
    FunctionRow(
        name="missing", family="missing values", signature="(any) -> boolean",
        summary="True if the value is missing.", example=("missing(1)", False),
        scalar=lambda value: value is None, spark="isnull", duckdb="({0} IS NULL)",
        takes_missing=True, lacks={"arrow": "the compiler decides it"},
    ),
    FunctionRow(
        name="present", family="missing values", signature="(any) -> boolean",
        summary="True if there is a value.", example=("present(1)", True),
        scalar=lambda value: value is not None, spark="isnotnull", duckdb="({0} IS NOT NULL)",
        takes_missing=True, lacks={"arrow": "the compiler decides it"},
    ),
    FunctionRow(
        name="coalesce", family="missing values", signature="(T, T...) -> T",
        summary="The first argument that is not missing.", example=("coalesce(3, 7)", 3),
        scalar=_first, spark="coalesce", duckdb="coalesce",
        takes_missing=True, lacks={"arrow": "the compiler decides it"},
    ),
)  # fmt: skip
