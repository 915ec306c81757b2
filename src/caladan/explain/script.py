"""A RaSQL script, explained: the stages of its rules, and what stays SQL.

== SQL ==                    the queries that a SQL engine runs, in order
== Recursive Aggregates ==   whether min and max may be applied at every step
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from caladan.errors import error
from caladan.explain.page import page
from caladan.explain.stages import bodies, chosen
from caladan.pipeline import STAGES, Compiled, Stage

_SQL = Stage("sql", "SQL", "the queries that a SQL engine runs, in order")
_AGGREGATES = Stage(
    "aggregates", "Recursive Aggregates", "whether min and max may be applied at every step"
)

Plans = Sequence[tuple[str, str]] | None


@dataclass(frozen=True, slots=True)
class ScriptParts:
    """A script's programs with Spark's plans of them, its queries by title, and its aggregates."""

    programs: Sequence[tuple[Compiled, Plans]]
    queries: Sequence[tuple[str, str]]
    aggregates: Sequence[str]


def script_text(parts: ScriptParts, stage: str, *, engine: str) -> str:
    """A stage, or all of them, each below its heading."""
    return "\n\n".join(
        f"== {each.heading} ==\n\n{body}\n" for each, body in _bodies(parts, stage, engine)
    )


def script_html(parts: ScriptParts, *, title: str, engine: str) -> str:
    """All stages as one page."""
    return page(title, _bodies(parts, "all", engine))


def _bodies(parts: ScriptParts, stage: str, engine: str) -> list[tuple[Stage, str]]:
    notes = [
        (_SQL, "\n\n".join(f"-- {title}\n{query}" for title, query in parts.queries)),
        (_AGGREGATES, "\n".join(parts.aggregates)),
    ]
    wanted = [(each, body) for each, body in notes if stage in ("all", each.name) and body]
    if stage in (_SQL.name, _AGGREGATES.name):
        return wanted
    stages: Sequence[Stage] = chosen(stage)
    found: list[tuple[Stage, str]] = []
    for compiled, plans in parts.programs:
        found += bodies(compiled, stages, engine, None, plans)
    if not found and not wanted:
        known = ", ".join(each.name for each in STAGES)
        raise error("C050", f"nothing is recursive here, so there is no stage {stage} (of {known})")
    if stage == "rules":
        wanted = [(each, body) for each, body in notes if each is _AGGREGATES and body]
    return [*found, *wanted]
