"""Stage `plan`: how an engine goes about it.

spark       a tree below each goal: cliques as `Recursion` with their exchanges, everything else as
            the DataFrame operations it becomes
connect     the same with Spark Connect, where there are no tasks of ours
embedded    strategies, layouts and steps of the delta rules, and the arrangements they look up
reference   one line: it evaluates every rule over all facts until nothing is new
"""

from __future__ import annotations

from caladan.explain.frames import frames
from caladan.explain.terms import commas
from caladan.pipeline import Compiled


def plan(compiled: Compiled, engine: str, partitions: int | None) -> str:
    """The plan of an engine."""
    match engine:
        case "reference":
            return _reference(compiled)
        case "embedded":
            from caladan.explain.embedded import embedded

            return embedded(compiled)
        case _:
            wanted, has_tasks = compiled.demanded.wanted, engine != "connect"
            return frames(compiled.delta, wanted, partitions, has_tasks=has_tasks)


def _reference(compiled: Compiled) -> str:
    lines = ["Naive evaluation: all rules of a clique over all facts, until nothing is new."]
    for number, clique in enumerate(compiled.delta.cliques, start=1):
        how = "until nothing is new" if clique.is_recursive else "once"
        lines.append(f"{number}) {commas(clique.relations)}: {how}")
    return "\n".join(lines)
