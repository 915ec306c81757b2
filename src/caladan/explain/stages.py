"""The stages to show, and the text of each; those that are a few lines are written here.

    relations   the relations that take data, declared by the program or known as data
    rules       the rules and goals, as they were written
    plan        how an engine goes about it, for a `Setting`: on spark a tree below each goal, on
                embedded strategies, layouts and steps (embedded.py)
    spark       Spark's own plans of every frame it was handed

A RaSQL script shows the stages of its rules, and what stays SQL:

    sql         the queries that a SQL engine runs, in order
    aggregates  whether min and max may be applied at every step

`page` has all of them as one page of HTML: no scripts, no fonts, nothing fetched from elsewhere.

A program may hold thousands of facts; of a stretch of facts of one relation the first few are
shown, and how many follow.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import groupby
from typing import Final, Protocol, TypeAlias

from caladan.engines.interface import Table
from caladan.engines.spark.choice import TaskMemory, is_one_task, outlooks
from caladan.explain.delta import delta
from caladan.explain.frames import frames, one_task
from caladan.explain.logical import describe_analyzed, describe_optimized, logical
from caladan.explain.operators import operators
from caladan.explain.pcg import pcg
from caladan.explain.terms import columns
from caladan.language import unparse
from caladan.language.deals.printer import commas
from caladan.pipeline import AGGREGATES, SCRIPT_STAGES, SQL, STAGES, Compiled, Stage
from caladan.program import Goal, Program, Rule
from caladan.program.diagnostics import Span, did_you_mean, error
from caladan.program.notation import count_things
from caladan.program.options import Options
from caladan.rules.program import DeltaClique


def plan(compiled: Compiled, setting: Setting) -> str:
    """The plan of an engine; where there is data, decided from it."""
    match setting.engine:
        case "reference":
            return _reference(compiled)
        case "embedded":
            return _describe_embedded(compiled, setting)
        case _:
            return _spark(compiled, setting)


def _describe_embedded(
    compiled: Compiled, setting: Setting, exchanging: Collection[DeltaClique] = ()
) -> str:
    from caladan.engines.embedded.engine import given_facts
    from caladan.explain.embedded import describe_embedded

    data = setting.data
    given = None if data is None else given_facts(compiled.delta, data)
    return describe_embedded(compiled, given, setting.options, exchanging, setting.searched)


def _spark(compiled: Compiled, setting: Setting) -> str:
    program, wanted = compiled.delta, compiled.demanded.wanted
    seen = outlooks(
        program,
        setting.sizes,
        setting.tasks,
        setting.options,
        has_rdds=setting.engine != "connect",
        memory=setting.memory,
    )
    if is_one_task(seen):
        tree, title = one_task(program, wanted, seen), "In the task the embedded engine goes"
    else:
        partitions = setting.options.partitions
        tree = frames(compiled.optimized, seen, setting.tasks, setting.sizes, partitions)
        title = "In each task the embedded engine goes"
        taken = {each.large.strategy for each in seen if each.is_decided}
        if setting.data is None or taken.isdisjoint({"pivoted", "meshed"}):
            return tree
    exchanging = [e.clique for e in seen if e.is_decided and e.large.strategy == "meshed"]
    inside = _describe_embedded(compiled, setting, exchanging)
    return "\n\n".join([tree, f"{title} about it like this:", inside])


def _reference(compiled: Compiled) -> str:
    from caladan.engines.reference.fixpoint import cliques

    lines = ["Naive evaluation: all rules of a clique as written, until nothing is new."]
    for number, clique in enumerate(cliques(compiled.written), start=1):
        how = "until nothing is new" if clique.is_recursive else "once"
        lines.append(f"{number}) {commas(clique.relations)}: {how}")
    return "\n".join(lines)


class Proposals(Protocol):
    """What a run had proposed for a variable of a rule, and by whom (session/stats.py)."""

    variable: str
    proposed: int
    confirmed: int
    by: dict[str, int]


Searched: TypeAlias = Mapping[tuple[tuple[str, ...], int, str | None], Sequence[Proposals]]
"""By the relations of a clique, and the number and the seed of its rule."""


@dataclass(frozen=True)
class Setting:
    """An engine, how many tasks it runs at once, and the data it would run over.

    What is None is not known: then what depends on it is shown with its alternatives. `options`
    are those of the run; `spark_plans` are Spark's own plans, as pairs of a title and a text;
    `searched` is what the rules of a run had proposed; `memory` what facts may have in a task.
    """

    engine: str = "spark"
    tasks: int | None = None
    data: Mapping[str, Table] | None = None
    options: Options = field(default_factory=Options)
    spark_plans: Sequence[tuple[str, str]] | None = None
    searched: Searched | None = None
    memory: TaskMemory | None = None

    @cached_property
    def sizes(self) -> Mapping[str, int] | None:
        """How many facts each relation of the data has."""
        if self.data is None:
            return None
        return {name: table.count() for name, table in self.data.items()}


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
            yield f"% and {count_things(len(found) - len(shown), 'more fact')} of {relation}"


def _rule(node: Rule) -> str:
    """A rule as it was written; one that the compiler made of a part of it, as it would be."""
    if node.span is None or not node.span.text.startswith(node.head.relation):
        return unparse(Program(rules=(node,))).strip()
    return _read_source(node.span)


def _goal(node: Goal) -> str:
    if node.span is None:
        return unparse(Program(goals=(node,))).strip()
    return f"{'export' if node.export else 'query'} {_read_source(node.span)}"


def _read_source(span: Span) -> str:
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


def choose_stages(name: str) -> Sequence[Stage]:
    """The stages of a name, or all of them; C050 if there is none."""
    found = [s for s in STAGES if name in (s.name, "all")]
    if not found:
        names = ("all", *(s.name for s in (*STAGES, *SCRIPT_STAGES)))
        problem = "only scripts of SQL have a" if name in names else "there is no"
        raise error(
            "C050",
            f"{problem} stage `{name}`",
            help=did_you_mean(name, names) or f"the stages are {', '.join(names)}",
        )
    return found


def bodies(
    compiled: Compiled, stages: Sequence[Stage], setting: Setting
) -> list[tuple[Stage, str]]:
    """Each stage with its text."""
    show = {
        "relations": lambda: relations(compiled),
        "rules": lambda: rules(compiled),
        "pcg": lambda: pcg(compiled),
        "operators": lambda: operators(compiled),
        "delta": lambda: delta(compiled),
        "logical": lambda: logical(compiled),
        "analyzed": lambda: describe_analyzed(compiled),
        "optimized": lambda: describe_optimized(compiled),
        "plan": lambda: plan(compiled, setting),
        "spark": lambda: spark(setting.spark_plans),
    }
    return [(stage, show[stage.name]()) for stage in stages]


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
    queries = "\n\n".join(f"-- {title}\n{query}" for title, query in parts.queries)
    notes = {SQL: queries, AGGREGATES: "\n".join(parts.aggregates)}
    if stage in (SQL.name, AGGREGATES.name):
        return [(each, body or "(none)") for each, body in notes.items() if each.name == stage]
    stages: Sequence[Stage] = choose_stages(stage)
    found: list[tuple[Stage, str]] = []
    for compiled, setting in parts.programs:
        found += bodies(compiled, stages, setting)
    shown = {"all": SCRIPT_STAGES, "rules": (AGGREGATES,)}.get(stage, ())
    found += [(each, notes[each]) for each in shown if notes[each]]
    if not found:
        hint = f"stage `{SQL.name}` shows the queries that a SQL engine runs"
        raise error("C050", f"nothing is recursive here, so there is no stage `{stage}`", help=hint)
    return found


_STYLE: Final = """
:root { color-scheme: light dark; --line: #8884; --faint: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 76rem; padding: 1.5rem; }
h1 { font-size: 1.4rem; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin-bottom: 1rem; }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .7rem 0; }
summary { cursor: pointer; padding: .5rem .8rem; }
summary b { margin-right: .6rem; }
summary span { opacity: .7; }
pre { background: var(--faint); font: 13px/1.5 ui-monospace, monospace; margin: 0;
      overflow-x: auto; padding: .8rem; tab-size: 4; }
"""


def page(title: str, bodies: Sequence[tuple[Stage, str]]) -> str:
    """A page with one part for each stage, all of them open."""
    links = "\n".join(
        f'<a href="#{escape(stage.name)}">{escape(stage.heading)}</a>' for stage, _ in bodies
    )
    parts = "\n".join(_part(stage, body) for stage, body in bodies)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<nav>
{links}
</nav>
{parts}
</body>
</html>
"""


def _part(stage: Stage, body: str) -> str:
    return (
        f'<details open id="{escape(stage.name)}">\n'
        f"<summary><b>{escape(stage.heading)}</b><span>{escape(stage.shows)}</span></summary>\n"
        f"<pre>{escape(body)}</pre>\n"
        "</details>"
    )
