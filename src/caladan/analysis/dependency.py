"""Which relation depends on which, and the cliques that follow.

`edges(rules)` lists the dependencies with what kind they are: an edge through a negated atom, a
non-monotone aggregate or a limit needs the other relation finished first. `components` finds the
strongly connected components, in the order in which they can be evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal as OneOf

from caladan.analysis.core import CoreAtom, CoreRule
from caladan.program import Aggregate

MONOTONE: Final = ("mmin", "mmax", "msum", "mcount")


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
            isinstance(a, Aggregate) and a.function not in MONOTONE for a in rule.arguments
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
