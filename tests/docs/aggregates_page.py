"""docs/reference/aggregates.md, made from the table of aggregates.

`python -m tests.docs.aggregates_page` writes the page anew; a test compares.
"""

import textwrap
from pathlib import Path

from caladan.program.aggregates import TABLE, AggregateFunction

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "aggregates.md"

INTRODUCTION = """\
# Aggregates

An aggregate ranges over the distinct solutions of its body: two solutions with the same value count
twice. Write the term in brackets, `median<X>`, and a condition in parentheses, `count_if<(X > 1)>`.

Results do not depend on the order of facts. Numbers are ordered by size, with NaN last, and texts
by their characters. `approx_count_distinct` is exact. In a head without group columns, over no
solutions, an aggregate with an identity returns the identity, and any other aggregate no fact.

[`db.aggregate`](python.md#sessionaggregate) adds Python aggregates.

Properties:

- *idempotent*: combining the same value again changes nothing.
- *invertible*: a value can be removed, so `watch` need not re-evaluate the group.
- *improves*: the direction in which the value changes as solutions arrive; for sums of non-negative
  amounts.
- *distributes over*: an operation that can be applied before or after combining. Recursion uses it:
  `mmin` over `+` finds shortest paths. `*` is for non-negative values.
- *kernel*: the implementation. *gathered* keeps all solutions of a group; the others keep one or
  two numbers.

This page is generated from the table in `program/aggregates.py`.
"""

FORMS = {
    "plain": ("Outside recursion", ""),
    "monotone": (
        "Inside recursion",
        "In recursion a group keeps one value, and combines it with every value found later.\n",
    ),
    "lattice": (
        "Lattices of Bloom",
        "The same aggregates as column types: merging combines two values.\n",
    ),
}


def page() -> str:
    """The whole page."""
    parts = [INTRODUCTION]
    for form, (title, text) in FORMS.items():
        parts.append(f"## {title}\n")
        parts += [text] if text else []
        parts += [_section(row) for row in TABLE.values() if row.form == form and row.names]
    return "\n".join(parts)


def _section(row: AggregateFunction) -> str:
    names = list(dict.fromkeys(n for each in row.names.values() for n in each))
    lines = [f"### {row.name}", "", textwrap.fill(row.summary, 100), ""]
    if row.example is not None and "deals" in row.names:
        given = ", ".join(map(_shown, row.example.values))
        own = row.names["deals"][0]
        lines.append(
            f"Example: `{own}<{row.example.terms}>` of {given} is {_shown(row.example.gives)}."
        )
    if others := [name for name in names if name != row.name]:
        lines.append(f"Also: {', '.join(others)}.")
    if row.base:
        lines.append(f"It has the definition of `{row.base}`.")
    lines += ["", textwrap.fill(f"Properties: {', '.join(_properties(row))}.", 100), ""]
    return "\n".join(lines)


def _properties(row: AggregateFunction) -> list[str]:
    found = [f"kernel {row.kernel}"]
    found += ["idempotent"] if row.is_idempotent else []
    found += ["invertible"] if row.invert is not None else []
    found += [f"identity {row.identity}"] if row.identity is not None else []
    found += [f"improves as it {row.improves}"] if row.improves is not None else []
    over = (*row.distributes_over, *row.distributes_if_not_negative)
    found += [f"distributes over {' '.join(over)}"] if over else []
    found += [f"in DuckDB `{row.duckdb}`"] if row.duckdb is not None else []
    return found


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"({', '.join(map(_shown, value))})"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(_shown, value))) + "}"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}" if value % 1 else f"{value:.1f}"
    return f'"{value}"' if isinstance(value, str) else str(value)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
