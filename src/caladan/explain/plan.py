"""Stage `plan`: how an engine goes about it.

spark       a tree below each goal: cliques as `Recursion` with their exchanges, everything else as
            the DataFrame operations it becomes
connect     the same with Spark Connect, where one task evaluates a program, or frames do
embedded    strategies, layouts and steps of the delta rules, and the arrangements they look up
reference   one line: it evaluates every rule over all facts until nothing is new
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from caladan.engines.interface import Table
from caladan.engines.spark.choice import is_one_task, outlooks
from caladan.explain.frames import frames, one_task
from caladan.explain.terms import commas
from caladan.pipeline import Compiled
from caladan.program.options import Options
from caladan.rules.program import DeltaClique


def plan(compiled: Compiled, setting: Setting, *, by_column: bool = False) -> str:
    """The plan of an engine; where there is data, decided from it."""
    match setting.engine:
        case "reference":
            return _reference(compiled)
        case "embedded":
            return _embedded(compiled, setting)
        case _:
            return _spark(compiled, setting, by_column)


def _embedded(
    compiled: Compiled, setting: Setting, exchanging: Collection[DeltaClique] = ()
) -> str:
    from caladan.engines.embedded.engine import given_facts
    from caladan.explain.embedded import embedded

    data = setting.data
    given = None if data is None else given_facts(compiled.delta, data)
    return embedded(compiled, given, setting.options, exchanging)


def _spark(compiled: Compiled, setting: Setting, by_column: bool) -> str:
    program, wanted = compiled.delta, compiled.demanded.wanted
    seen = outlooks(
        program,
        setting.sizes,
        setting.tasks,
        setting.options,
        has_rdds=setting.engine != "connect",
    )
    if is_one_task(seen):
        tree, title = one_task(program, wanted, seen), "In the task the embedded engine goes"
    else:
        tree = frames(program, wanted, seen, setting.tasks, setting.sizes, by_column=by_column)
        title = "In each task the embedded engine goes"
        taken = {each.large.strategy for each in seen if each.is_decided}
        if setting.data is None or taken.isdisjoint({"pivoted", "meshed"}):
            return tree
    exchanging = [e.clique for e in seen if e.is_decided and e.large.strategy == "meshed"]
    inside = _embedded(compiled, setting, exchanging)
    return "\n\n".join([tree, f"{title} about it like this:", inside])


def _reference(compiled: Compiled) -> str:
    lines = ["Naive evaluation: all rules of a clique over all facts, until nothing is new."]
    for number, clique in enumerate(compiled.delta.cliques, start=1):
        how = "until nothing is new" if clique.is_recursive else "once"
        lines.append(f"{number}) {commas(clique.relations)}: {how}")
    return "\n".join(lines)


@dataclass(frozen=True)
class Setting:
    """An engine, how many tasks it runs at once, and the data it would run over.

    What is None is not known: then what depends on it is shown with its alternatives. `options`
    are those of the run; `spark_plans` are Spark's own plans, as pairs of a title and a text.
    """

    engine: str = "spark"
    tasks: int | None = None
    data: Mapping[str, Table] | None = None
    options: Options = field(default_factory=Options)
    spark_plans: Sequence[tuple[str, str]] | None = None

    @cached_property
    def sizes(self) -> Mapping[str, int] | None:
        """How many facts each relation of the data has."""
        if self.data is None:
            return None
        return {name: table.count() for name, table in self.data.items()}
