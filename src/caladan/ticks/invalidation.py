"""Invalidation: what is erased and what is gone through in full, decided at wiring.

The elements of a program are its collections, what its operators keep, and the rules between them:
data flows from scanned sources downstream. An element that is *invalidated* is erased and rebuilt;
one that is *rescanned* hands on all it holds instead of what is new. Which of them follow from
others is a negotiation, up and down, until nothing more follows:

    invalidated            ⇒ it rescans
    rescanned              ⇒ what is downstream is invalidated; a table keeps what it has stored
    invalidated            ⇒ its other sources rescan, for it is rebuilt from all of them
    a stateless element    passes a rescan on, upstream and downstream
    a stateful element     answers from its own state, and asks nobody upstream
    a join                 keeps a state for each side, so it asks no side for what it has

`Scheme` has the default sets, which follow from the source scratches that every tick empties, and
for each collection what follows *besides* should it lose facts. A tick looks them up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from caladan.analysis.core import CoreRule
from caladan.language.bloom.schema import CollectionKind
from caladan.ticks.wiring import TickProgram


@dataclass(slots=True)
class Element:
    """A collection, what an operator keeps, or the join or projection of a rule."""

    name: str
    kind: str
    stratum: int
    is_stateful: bool
    persists: bool = False
    is_join: bool = False
    sources: list[str] = field(default_factory=list[str])
    targets: list[str] = field(default_factory=list[str])


@dataclass(slots=True)
class Consequences:
    """What is invalidated and what rescans, each with why."""

    invalidate_set: dict[str, str] = field(default_factory=dict[str, str])
    rescan_set: dict[str, str] = field(default_factory=dict[str, str])

    def minus(self, other: Consequences) -> Consequences:
        """What the other does not have."""
        return Consequences(
            {n: why for n, why in self.invalidate_set.items() if n not in other.invalidate_set},
            {n: why for n, why in self.rescan_set.items() if n not in other.rescan_set},
        )

    def copy(self) -> Consequences:
        return Consequences(dict(self.invalidate_set), dict(self.rescan_set))


@dataclass(frozen=True, slots=True)
class Scheme:
    """The elements of a program, and the sets that ticks look up."""

    elements: Mapping[str, Element]
    default: Consequences
    scanners: Mapping[str, Consequences]

    @property
    def default_invalidate(self) -> frozenset[str]:
        """What every tick erases."""
        return frozenset(self.default.invalidate_set)

    @property
    def default_rescan(self) -> frozenset[str]:
        """What every tick goes through in full."""
        return frozenset(self.default.rescan_set)

    def invalidated(self, negated: Iterable[str]) -> frozenset[str]:
        """What a tick erases in which some collections lost facts."""
        found = set(self.default.invalidate_set)
        for name in negated:
            if name in self.scanners:
                found.update(self.scanners[name].invalidate_set)
        return frozenset(found)


def prepare_invalidation_scheme(wired: TickProgram) -> Scheme:
    """The sets of a program: the defaults, and what each collection adds to them."""
    graph = elements(wired)
    default = Consequences()
    for name in _emptied(wired, graph):
        default.invalidate_set[name] = "a source scratch, which every tick empties"
    rescan_invalidate_tc(graph, default)
    scanners = {
        name: rescan_invalidate_tc(graph, _primed(default, name)).minus(default)
        for name in graph
        if name in wired.schemas and not wired.schemas[name].kind.is_element
    }
    return Scheme(graph, default, scanners)


def _primed(start: Consequences, name: str) -> Consequences:
    primed = start.copy()
    primed.invalidate_set.setdefault(name, "it lost facts")
    return primed


def _emptied(wired: TickProgram, graph: Mapping[str, Element]) -> Iterable[str]:
    derived = {rule.head for rule in wired.rules}
    for name in graph:
        schema = wired.schemas.get(name)
        if schema is not None and not schema.kind.persists and name not in derived:
            yield name


def rescan_invalidate_tc(graph: Mapping[str, Element], found: Consequences) -> Consequences:
    """Go on until nothing more follows."""
    work = [*found.invalidate_set, *found.rescan_set]
    while work:
        element = graph[work.pop()]
        name = element.name
        if name in found.invalidate_set and name not in found.rescan_set:
            found.rescan_set[name] = "it is invalidated"
            work.append(name)
        if name in found.rescan_set:
            for target in map(graph.__getitem__, element.targets):
                if target.persists:
                    continue
                if not target.is_stateful:
                    if target.name not in found.rescan_set:
                        found.rescan_set[target.name] = f"passes on the rescan of {name}"
                        work.append(target.name)
                elif target.name not in found.invalidate_set:
                    found.invalidate_set[target.name] = f"{name} rescans"
                    work.append(target.name)
        asks = name in found.invalidate_set or (
            name in found.rescan_set and not element.is_stateful
        )
        if asks and not element.is_join:
            for source in element.sources:
                if source not in found.rescan_set:
                    found.rescan_set[source] = f"{name} is rebuilt from it"
                    work.append(source)
    return found


def elements(wired: TickProgram) -> dict[str, Element]:
    """The graph of elements: relations, and the rules between them."""
    levels = wired.strata()
    read = {atom.relation for rule in wired.rules for atom in rule.atoms}
    derived = {rule.head for rule in wired.rules}
    graph: dict[str, Element] = {}
    for name, schema in wired.schemas.items():
        if schema.kind is CollectionKind.CLOCK and name not in read:
            continue
        if schema.kind.is_element and name not in derived:
            continue
        kind = schema.kind.value
        graph[name] = Element(name, kind, levels[name], True, schema.kind.persists)
    for place, rule in enumerate(wired.rules, start=1):
        between = _between(place, rule, wired)
        if between is None:
            for atom in rule.atoms:
                _connect(graph, atom.relation, rule.head)
            continue
        between.stratum = levels[rule.head]
        graph[between.name] = between
        for atom in rule.atoms:
            _connect(graph, atom.relation, between.name)
        _connect(graph, between.name, rule.head)
    return graph


def _between(place: int, rule: CoreRule, wired: TickProgram) -> Element | None:
    """The element of a rule, unless its head keeps what the rule does."""
    if len(rule.atoms) > 1:
        return Element(f"join({place})", "join", 0, True, is_join=True)
    if (
        rule.has_aggregates
        or wired.schemas[rule.head].kind is CollectionKind.SORT
        or not rule.atoms
    ):
        return None
    return Element(f"project({place})", "project", 0, False)


def _connect(graph: dict[str, Element], source: str, target: str) -> None:
    if target not in graph[source].targets:
        graph[source].targets.append(target)
        graph[target].sources.append(source)
