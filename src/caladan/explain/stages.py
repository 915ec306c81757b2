"""The stages to show, and the text of each; those that are a few lines are written here.

    relations   the relations that take data, declared by the program or known as data
    rules       the rules and goals, as they were written
    spark       Spark's own plans of every frame it was handed

A program may hold thousands of facts; of a stretch of facts of one relation the first few are
shown, and how many follow.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

from caladan.explain.delta import delta
from caladan.explain.logical import logical, optimized
from caladan.explain.operators import operators
from caladan.explain.pcg import pcg
from caladan.explain.plan import plan
from caladan.explain.setting import Setting
from caladan.explain.terms import columns, counted
from caladan.language import unparse
from caladan.pipeline import STAGES, Compiled, Stage
from caladan.program import Goal, Program, Rule
from caladan.program.diagnostics import Span, did_you_mean, error


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


_FACTS_SHOWN: Final = 10


def rules(compiled: Compiled) -> str:
    """Every rule and goal."""
    program = compiled.program
    lines = [*_rules(program.rules), *(_goal(g) for g in program.goals)]
    return "\n".join(lines) or "(no rules)"


def _rules(nodes: Sequence[Rule]) -> Iterator[str]:
    for relation, stretch in groupby(nodes, lambda r: None if r.body else r.head.relation):
        found = list(stretch)
        shown = found if relation is None else found[:_FACTS_SHOWN]
        yield from (_rule(r) for r in shown)
        if len(found) > len(shown):
            yield f"% and {counted(len(found) - len(shown), 'more fact')} of {relation}"


def _rule(node: Rule) -> str:
    return _written(node.span) if node.span else unparse(Program(rules=(node,))).strip()


def _goal(node: Goal) -> str:
    if node.span is None:
        return unparse(Program(goals=(node,))).strip()
    return f"{'export' if node.export else 'query'} {_written(node.span)}"


def _written(span: Span) -> str:
    """The source text, its continuation lines indented as they were relative to its start."""
    first, *rest = span.text.rstrip().removesuffix(".").splitlines()
    if not rest:
        return f"{first}."
    margin = " " * (span.column - 1)
    return textwrap.dedent("\n".join((margin + first, *rest))) + "."


def spark(plans: Sequence[tuple[str, str]] | None) -> str:
    """Each plan below its title."""
    if not plans:
        return "(Spark's plans need the spark engine and the program's data)"
    return "\n\n".join(f"-- {title}\n{text.strip()}" for title, text in plans)


def chosen(name: str) -> Sequence[Stage]:
    """The stages of a name, or all of them; C050 if there is none."""
    found = [s for s in STAGES if name in (s.name, "all")]
    if not found:
        names = ("all", *(s.name for s in STAGES))
        raise error(
            "C050",
            f"there is no stage `{name}`",
            help=did_you_mean(name, names) or f"the stages are {', '.join(names)}",
        )
    return found


def bodies(
    compiled: Compiled, stages: Sequence[Stage], setting: Setting, *, by_column: bool = False
) -> list[tuple[Stage, str]]:
    """Each stage with its text; `by_column` for rules that were made of SQL."""
    show = {
        "relations": lambda: relations(compiled),
        "rules": lambda: rules(compiled),
        "pcg": lambda: pcg(compiled),
        "operators": lambda: operators(compiled),
        "delta": lambda: delta(compiled),
        "logical": lambda: logical(compiled, by_column=by_column),
        "optimized": lambda: optimized(compiled, by_column=by_column),
        "plan": lambda: plan(compiled, setting, by_column=by_column),
        "spark": lambda: spark(setting.spark_plans),
    }
    return [(stage, show[stage.name]()) for stage in stages]
