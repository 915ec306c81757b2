"""Strata: cliques in evaluation order; what negates or aggregates itself is reported.

`strata(rules)` groups the derived relations into cliques, puts each after all it depends on, and
numbers the strata: a clique stands one stratum above whatever it negates or aggregates. C014 draws
the cycle where a relation would have to be finished before it starts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from caladan.analysis.core import Clique, CoreRule
from caladan.analysis.dependency import Edge, components, edges
from caladan.program.diagnostics import Diagnostics, RelatedSpan

_THROUGH = {
    "negated": "negation",
    "aggregated": "an aggregate",
    "limited": "a limit",
}


def strata(
    rules: Sequence[CoreRule], derived: Iterable[str], found: Diagnostics
) -> tuple[Clique, ...]:
    """The cliques of the derived relations, in order."""
    nodes = list(dict.fromkeys(derived))
    dependencies = edges(rules)
    successors: dict[str, list[str]] = {n: [] for n in nodes}
    for edge in dependencies:
        successors[edge.head].append(edge.body)
    groups = components(nodes, successors)
    home = {name: number for number, members in enumerate(groups) for name in members}
    outgoing: list[list[Edge]] = [[] for _ in groups]
    own: list[list[CoreRule]] = [[] for _ in groups]
    for edge in dependencies:
        outgoing[home[edge.head]].append(edge)
    for rule in rules:
        own[home[rule.head]].append(rule)
    cliques: list[Clique] = []
    level: dict[str, int] = {}
    for number, members in enumerate(groups):
        inside = [e for e in outgoing[number] if home.get(e.body) == number]
        for edge in inside:
            if edge.needs_finished:
                _report(edge, inside, found)
        below = [level[e.body] + e.needs_finished for e in outgoing[number] if e.body in level]
        stratum = max(below, default=0)
        for member in members:
            level[member] = stratum
        cliques.append(Clique(members, bool(inside), stratum, tuple(own[number])))
    return tuple(cliques)


def _report(edge: Edge, inside: Sequence[Edge], found: Diagnostics) -> None:
    path = _path(edge.body, edge.head, inside)
    cycle = [edge, *path]
    drawn = " ".join(
        f"{e.head} <- {'~' if e.kind == 'negated' else ''}{e.body}{'' if i else ' (here)'},"
        for i, e in enumerate(cycle)
    ).rstrip(",")
    found.add(
        "C014",
        f"`{edge.head}` depends on itself through {_THROUGH[edge.kind]}: {drawn}",
        edge.atom.span or edge.rule.span,
        related=[
            RelatedSpan(f"`{e.head}` depends on `{e.body}` here", e.atom.span)
            for e in path
            if e.atom.span
        ],
        help=_advice(edge),
    )


def _advice(edge: Edge) -> str:
    match edge.kind:
        case "aggregated":
            return "inside recursion use a monotone aggregate: mmin, mmax, mcount or msum"
        case "limited":
            return "put the limit into a rule outside the recursion"
        case _:
            return f"`{edge.body}` must be complete before `~{edge.body}` can be asked"


def _path(start: str, end: str, inside: Sequence[Edge]) -> list[Edge]:
    """The shortest way from `start` back to `end`."""
    came: dict[str, Edge | None] = {start: None}
    queue = [start]
    for node in queue:
        if node == end:
            break
        for edge in inside:
            if edge.head == node and edge.body not in came:
                came[edge.body] = edge
                queue.append(edge.body)
    return _back(end, came)


def _back(end: str, came: Mapping[str, Edge | None]) -> list[Edge]:
    path: list[Edge] = []
    edge = came.get(end)
    while edge is not None:
        path.append(edge)
        edge = came[edge.head]
    return path[::-1]
