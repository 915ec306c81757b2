"""The fewest column orders that serve every lookup.

A lookup binds some columns of a relation; an order serves it if those columns come first in it.
One order serves a chain of such sets, each inside the next, so the fewest orders are the fewest
chains that cover all sets (Dilworth), found as a maximum matching of sets with larger ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from caladan.analysis.schedule import Absent, Bind, Lookup, schedule
from caladan.delta.program import Arrangement, DeltaRule
from caladan.program import Constant

Need = tuple[str, frozenset[int]]


def needs(rule: DeltaRule) -> Iterator[Need]:
    """The columns by which a rule looks each relation up, past the one it starts from."""
    core = rule.rule
    first = rule.seed
    if first is None:
        first = next((i for i, a in enumerate(core.atoms) if not a.negated), None)
    bound: set[str] = set()
    for step in schedule(core, first).steps:
        match step:
            case Lookup(index) | Absent(index):
                atom = core.atoms[index]
                columns = frozenset(
                    i
                    for i, a in enumerate(atom.arguments)
                    if isinstance(a, Constant) or a.name in bound
                )
                if columns:
                    yield atom.relation, columns
                if isinstance(step, Lookup):
                    bound.update(atom.variables)
            case Bind():
                bound.add(step.variable)
            case _:
                pass


def cover(wanted: Iterable[Need], arity: Mapping[str, int]) -> dict[Need, Arrangement]:
    """An arrangement for each need; needs share one where an order serves both.

    >>> wanted = [("r", frozenset({0})), ("r", frozenset({0, 1})), ("r", frozenset({1}))]
    >>> sorted({a.order for a in cover(wanted, {"r": 3}).values()})
    [(0, 1, 2), (1, 0, 2)]
    """
    by_relation: dict[str, list[frozenset[int]]] = {}
    for relation, columns in dict.fromkeys(wanted):
        by_relation.setdefault(relation, []).append(columns)
    found: dict[Need, Arrangement] = {}
    for relation, sets in by_relation.items():
        for chain in chains(sets):
            order: list[int] = []
            for columns in (*chain, range(arity[relation])):
                order += sorted(set(columns).difference(order))
            for columns in chain:
                found[relation, columns] = Arrangement(relation, tuple(order))
    return found


def chains(sets: list[frozenset[int]]) -> list[list[frozenset[int]]]:
    """The fewest chains of growing sets that cover all of them."""
    ordered = sorted(set(sets), key=lambda s: (len(s), sorted(s)))
    above: dict[frozenset[int], frozenset[int]] = {}
    below: dict[frozenset[int], frozenset[int]] = {}

    def match(one: frozenset[int], tried: set[frozenset[int]]) -> bool:
        for larger in ordered:
            if one < larger and larger not in tried:
                tried.add(larger)
                if larger not in below or match(below[larger], tried):
                    above[one], below[larger] = larger, one
                    return True
        return False

    for one in ordered:
        match(one, set())
    found: list[list[frozenset[int]]] = []
    for start in ordered:
        if start not in below:
            chain = [start]
            while chain[-1] in above:
                chain.append(above[chain[-1]])
            found.append(chain)
    return found
