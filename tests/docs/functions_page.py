"""docs/reference/functions.md, made from the table of functions.

`python -m tests.docs.functions_page` writes the page anew; a test compares.
"""

import textwrap
from pathlib import Path

from caladan.program.functions import ROWS, FunctionRow
from caladan.program.functions.conversion import text_of

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "functions.md"

INTRODUCTION = """\
# Functions

Functions have the names and the values of Spark SQL, on every engine, in rules and in RaSQL.
Aliases come from SQL and Soufflé. `db.define` adds Python functions and overrides functions of the
same name.

- A function that returns a boolean can be a literal: `p(X) <- q(X), contains(X, "a")`.
- A function that returns several rows follows `in`: `p(X) <- q(N), X in range(0, N)`.
- Arguments convert from integer to double or decimal, from date to datetime, and from a literal
  text to a date: `year("2024-01-31")`.
- A function of a missing value is missing.
- If a function has no value, as `ln(0)`, the run ends with C073, C040 or C041, which names the rule
  and the value.

In a signature `?` marks an optional argument and `...` a repeated one. This page is generated from
the table in `program/functions/`.
"""


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for family in dict.fromkeys(row.family for row in ROWS):
        parts.append(f"## {family}\n")
        parts += [_section(row) for row in ROWS if row.family == family]
    return "\n".join(parts)


def _section(row: FunctionRow) -> str:
    lines = [f"### {row.name}", ""]
    lines += [f"    {row.name}{overload}" for overload in row.overloads]
    lines += ["", textwrap.fill(row.summary, 100), ""]
    made = f"`{_shown(row.example[1])}`"
    shown = (
        f"`{row.example[0]}` is {made}" if row.rows is None else f"`X in {row.example[0]}`: {made}"
    )
    lines.append(f"Example: {shown}.")
    others = [*row.aliases, *(f"{name} (SQL)" for name in row.sql)]
    if others:
        lines.append(textwrap.fill(f"Also: {', '.join(others)}.", 100))
    if "spark" in row.lacks and row.rows is None:
        lines.append(
            textwrap.fill(f"On Spark a Python worker evaluates it: {row.lacks['spark']}.", 100)
        )
    return "\n".join([*lines, ""])


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, str):
        return f'"{value}"'
    return value.hex() if isinstance(value, bytes) else text_of(value)  # pyright: ignore[reportArgumentType]


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
