"""Strata: cliques in evaluation order; what negates or aggregates itself is reported.

`edges(rules)` lists which relation depends on which, and how: an edge through a negated atom, a
non-monotone aggregate or a limit needs the other relation finished first. `components` finds the
strongly connected components, in the order in which they can be evaluated.

`strata(rules)` groups the derived relations into cliques, puts each after all it depends on, and
numbers the strata: a clique stands one stratum above whatever it negates or aggregates. C014 draws
the cycle where a relation would have to be finished before it starts. `restratify` is for passes
that put other rules into a program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal as OneOf

from caladan.analysis.core import Checked, Clique, CoreAtom, CoreRule, RelationInfo
from caladan.program import Aggregate
from caladan.program.aggregates import names_in, row_of
from caladan.program.diagnostics import Diagnostics, RelatedSpan


@dataclass(frozen=True, slots=True)
class Edge:
    """`head` depends on `body`, because of an atom of a rule."""

    head: str
    body: str
    kind: OneOf["positive", "negated", "aggregated", "limited"]
    rule: CoreRule
    atom: CoreAtom

    @property
    def needs_finished(self) -> bool:
        """Whether the body must be complete before the head is evaluated."""
        return self.kind != "positive"


def edges(rules: Iterable[CoreRule]) -> tuple[Edge, ...]:
    """Every dependency, in the order of rules and atoms."""
    found: list[Edge] = []
    for rule in rules:
        aggregated = any(
            isinstance(a, Aggregate) and not row_of(a).is_monotone for a in rule.arguments
        )
        for atom in rule.atoms:
            if atom.negated:
                kind = "negated"
            elif aggregated:
                kind = "aggregated"
            elif rule.limit is not None:
                kind = "limited"
            else:
                kind = "positive"
            found.append(Edge(rule.head, atom.relation, kind, rule, atom))
    return tuple(found)


def components(
    nodes: Sequence[str], successors: Mapping[str, Sequence[str]]
) -> tuple[tuple[str, ...], ...]:
    """Strongly connected components, each after those it depends on (Tarjan, without recursion).

    >>> components(["a", "b", "c"], {"a": ["b"], "b": ["a", "c"]})
    (('c',), ('a', 'b'))
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    on_stack: set[str] = set()
    found: list[tuple[str, ...]] = []
    place = {n: i for i, n in enumerate(nodes)}
    for root in nodes:
        if root in index:
            continue
        work = [(root, iter(successors.get(root, ())))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for successor in rest:
                if successor not in place:
                    continue
                if successor not in index:
                    index[successor] = low[successor] = len(index)
                    stack.append(successor)
                    on_stack.add(successor)
                    work.append((successor, iter(successors.get(successor, ()))))
                    break
                if successor in on_stack:
                    low[node] = min(low[node], index[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members: list[str] = []
                    while True:
                        member = stack.pop()
                        on_stack.discard(member)
                        members.append(member)
                        if member == node:
                            break
                    found.append(tuple(sorted(members, key=place.__getitem__)))
    return tuple(found)


_THROUGH = {
    "negated": "negation",
    "aggregated": "an aggregate",
    "limited": "a limit",
}


def strata(
    rules: Sequence[CoreRule],
    derived: Iterable[str],
    found: Diagnostics,
    internal: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Clique, ...]:
    """The cliques of the derived relations, in order.

    `internal` relations are reported by the relation that each is a part of.
    """
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
                _report(edge, inside, found, internal)
        below = [level[e.body] + e.needs_finished for e in outgoing[number] if e.body in level]
        stratum = max(below, default=0)
        for member in members:
            level[member] = stratum
        cliques.append(Clique(members, bool(inside), stratum, tuple(own[number])))
    return tuple(cliques)


def restratify(
    checked: Checked, relations: Mapping[str, RelationInfo], rules: Iterable[CoreRule]
) -> Checked:
    """A program with other rules, which are known to have an order."""
    every = tuple(sorted(rules, key=lambda rule: rule.number))
    derived = [name for name, info in relations.items() if info.is_derived]
    cliques = strata(every, derived, Diagnostics())
    return replace(checked, relations=relations, rules=every, cliques=cliques)


def _report(
    edge: Edge, inside: Sequence[Edge], found: Diagnostics, internal: Mapping[str, str]
) -> None:
    def of_user(each: Edge) -> Edge:
        head, body = internal.get(each.head, each.head), internal.get(each.body, each.body)
        return replace(each, head=head, body=body)

    path = [of_user(e) for e in _path(edge.body, edge.head, inside) if e.body not in internal]
    edge = of_user(edge)
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
            *names, last = names_in("deals", "monotone")
            return f"inside recursion use a monotone aggregate: {', '.join(names)} or {last}"
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
