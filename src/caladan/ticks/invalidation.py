"""Invalidation: which elements may hold what is wrong, and which are asked for all they hold.

Data flows from scanned sources downstream (elements.py). An element that is *invalidated* takes
losses into account, or starts over; one that is *rescanned* hands on all it holds instead of what
is new. Which follow from others is a negotiation, up and down, until nothing more follows:

    invalidated            ⇒ it rescans
    rescanned              ⇒ what is downstream is invalidated; a table keeps what it has stored
    invalidated            ⇒ its other sources rescan, for it is rebuilt from all of them
    a stateless element    passes a rescan on, upstream and downstream
    a stateful element     answers from its own state, and asks nobody upstream
    a join                 has an index for each side, so it asks no side for what it has

`Scheme` has the default sets, which follow from the source scratches that every tick empties, and
for each element that may take facts back what follows *besides* should it do so: a collection that
loses facts, a group whose values change, a rule with a negated atom that gains facts. A tick looks
the sets up and sets the flags of the elements in them; elements look at nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from caladan.ticks.elements import CollectionElement, Element, RuleElement


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


_PASSIVE = ("stream", "sort")
"""Buffers, which lose nothing but with their sources."""

_AGGREGATING = ("group", "reduce", "each_with_index")
"""Operators whose rows change as their source gains facts."""


def prepare_invalidation_scheme(graph: Mapping[str, Element]) -> Scheme:
    """The sets of a program: the defaults, and what each element adds to them."""
    default = Consequences()
    for name, element in graph.items():
        is_collection = isinstance(element, CollectionElement)
        if is_collection and not element.persists and not element.sources:
            default.invalidate_set[name] = "a source scratch, which every tick empties"
    rescan_invalidate_tc(graph, default)
    scanners: dict[str, Consequences] = {}
    for name, element in graph.items():
        primed = default.copy()
        if isinstance(element, CollectionElement):
            if element.kind in _PASSIVE and not element.extent.lattices:
                continue
            if element.kind in _AGGREGATING:
                primed.rescan_set.setdefault(name, "its rows changed")
            else:
                primed.invalidate_set.setdefault(name, "it lost facts")
        elif isinstance(element, RuleElement) and element.negates:
            primed.rescan_set.setdefault(name, "what it negates gained facts")
        else:
            continue
        scanners[name] = rescan_invalidate_tc(graph, primed).minus(default)
    return Scheme(graph, default, scanners)


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
