"""A RaSQL script, explained: the stages of its rules, and what stays SQL.

== SQL ==                    the queries that a SQL engine runs, in order
== Recursive Aggregates ==   whether min and max may be applied at every step
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from caladan.explain.page import page
from caladan.explain.setting import Setting
from caladan.explain.stages import bodies, chosen
from caladan.pipeline import STAGES, Compiled, Stage, checked
from caladan.program.diagnostics import error

_SQL = Stage(checked, "sql", "SQL", "the queries that a SQL engine runs, in order")
_AGGREGATES = Stage(
    checked,
    "aggregates",
    "Recursive Aggregates",
    "whether min and max may be applied at every step",
)


@dataclass(frozen=True, slots=True)
class ScriptParts:
    """A script's programs, each with what its plan is for; its queries by title; its aggregates."""

    programs: Sequence[tuple[Compiled, Setting]]
    queries: Sequence[tuple[str, str]]
    aggregates: Sequence[str]


def script_text(parts: ScriptParts, stage: str) -> str:
    """A stage, or all of them, each below its heading."""
    return "\n\n".join(f"== {each.heading} ==\n\n{body}\n" for each, body in _bodies(parts, stage))


def script_html(parts: ScriptParts, *, title: str) -> str:
    """All stages as one page."""
    return page(title, _bodies(parts, "all"))


def _bodies(parts: ScriptParts, stage: str) -> list[tuple[Stage, str]]:
    notes = [
        (_SQL, "\n\n".join(f"-- {title}\n{query}" for title, query in parts.queries)),
        (_AGGREGATES, "\n".join(parts.aggregates)),
    ]
    wanted = [(each, body) for each, body in notes if stage in ("all", each.name) and body]
    if stage in (_SQL.name, _AGGREGATES.name):
        return wanted
    stages: Sequence[Stage] = chosen(stage)
    found: list[tuple[Stage, str]] = []
    for compiled, setting in parts.programs:
        found += bodies(compiled, stages, setting, by_column=True)
    if not found and not wanted:
        known = ", ".join(each.name for each in STAGES)
        raise error("C050", f"nothing is recursive here, so there is no stage {stage} (of {known})")
    if stage == "rules":
        wanted = [(each, body) for each, body in notes if each is _AGGREGATES and body]
    return [*found, *wanted]
