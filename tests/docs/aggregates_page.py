"""docs/reference/aggregates.md, made from the table of aggregates.

`python -m tests.docs.aggregates_page` writes the page anew; a test compares.
"""

import textwrap
from pathlib import Path

from caladan.program.aggregates import TABLE, AggregateFunction

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "aggregates.md"

INTRODUCTION = """\
# Aggregates

Every aggregate is one row of the table in `program/aggregates.py`, and this page is made from it.
All engines give the same values. An aggregate ranges over the distinct solutions of its body: two
solutions with the same value count twice, unless the aggregate is idempotent, when it makes no
difference. Names are written with brackets, `median<X>`; a condition stands in parentheses of its
own, `count_if<(X > 1)>`.

Nothing depends on the order of facts. Where an order matters, values go by value: numbers by size,
with NaN last, texts by their characters. `arg_min` and its like say below which of several they
take; `join` has its texts sorted. `approx_count_distinct` is exact here, and the same as `countd`.
Over no solution at all, in a head without group columns, an aggregate with an identity gives that,
and any other gives no fact.

`db.aggregate` adds aggregates of Python: see [the Python interface](python.md).

What the properties mean:

- *idempotent*: the same value again changes nothing.
- *invertible*: a value can be taken out again, so that `watch` need not go through a group anew.
- *improves*: where the value goes as solutions come; of sums, as long as no amount is below 0.
- *distributes over*: what may be done with values along a path, before or after they are combined.
  Recursion uses it: with `+`, `mmin` finds shortest paths. `*` is meant for values of 0 or more.
- *kernel*: what the columns do. *gathered* keeps all solutions of a group; the others keep a number
  or two.
"""

FORMS = {
    "plain": ("Outside recursion", ""),
    "monotone": (
        "Inside recursion",
        "The same rows in the form that recursion may use: a group keeps one value, which is\n\
combined with what is found for it later.\n",
    ),
    "lattice": (
        "Lattices of Bloom",
        "The same rows as types of columns: merging two values combines them.\n",
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
