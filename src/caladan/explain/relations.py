"""Stage `relations`: the relations that take data, declared by the program or known as data."""

from __future__ import annotations

from caladan.explain.terms import columns
from caladan.pipeline import Compiled


def relations(compiled: Compiled) -> str:
    """One `database({…}).` with every relation that takes data."""
    lines = [
        f"{info.name}({columns(info)})"
        for info in compiled.checked.relations.values()
        if info.takes_data
    ]
    if not lines:
        return "(no relation takes data)"
    if len(lines) == 1:
        return f"database({{{lines[0]}}})."
    return "database({\n" + ",\n".join(f"    {line}" for line in lines) + "\n})."
