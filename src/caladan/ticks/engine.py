"""The engine of ticks: extents and elements of a wired program, and what one tick does with them.

A tick takes what is handed in and what the last tick left for it, looks up what the sets of the
invalidation scheme say for collections that lost facts, changes base facts, and goes through the
elements in order. It either happens as a whole, or raises and leaves everything as it was.

Modes: *lazy* repairs an invalid element where that is less work; with `repair="never"` it starts
all of them over; *safe* starts everything over in every tick without looking at the sets, which is
the oracle of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal as OneOf, NamedTuple

from caladan.analysis.core import Clique
from caladan.language.bloom.schema import CLOCK, CollectionKind
from caladan.program import Time
from caladan.ticks.elements import (
    CollectionElement,
    DerivedElement,
    DerivingElement,
    Element,
    GroupElement,
    IndexElement,
    RuleElement,
    SeededRule,
)
from caladan.ticks.extent import Desired, Extent, Fact, TickChange
from caladan.ticks.invalidation import Scheme, prepare_invalidation_scheme
from caladan.ticks.recursion import CliqueElement
from caladan.ticks.wiring import TickProgram

Repair = OneOf["auto", "never"]


@dataclass(slots=True)
class Edits:
    """Facts for one collection: to insert, to delete, to put in the place of others."""

    insert: list[Fact] = field(default_factory=list[Fact])
    delete: list[Fact] = field(default_factory=list[Fact])
    upsert: list[Fact] = field(default_factory=list[Fact])

    def add(self, other: Edits) -> None:
        """Take in what another holds, behind its own."""
        self.insert += other.insert
        self.delete += other.delete
        self.upsert += other.upsert


class NextRelations(NamedTuple):
    """The relations with what rules derive for the next tick of a collection."""

    next: Extent | None
    delete: Extent | None
    upsert: Extent | None

    @property
    def has_facts(self) -> bool:
        return any(each is not None and each.contents for each in self)

    @property
    def takes_away(self) -> bool:
        """Whether facts are to be deleted, or replaced."""
        return any(each is not None and each.contents for each in (self.delete, self.upsert))

    def all(self) -> Edits:
        return Edits(*([] if each is None else list(each.contents.values()) for each in self))


class TickEngine:
    """Extents and elements, tick after tick."""

    def __init__(self, wired: TickProgram, *, safe: bool = False, repair: Repair = "auto") -> None:
        self.wired = wired
        self.safe = safe
        self.repair = repair
        derived = {rule.head for rule in wired.rules}
        self.extents = {
            name: Extent(schema, has_rules=name in derived)
            for name, schema in wired.schemas.items()
        }
        for rule in wired.rules:
            extent = self.extents[rule.head]
            extent.span = extent.span or rule.span
        self.elements: dict[str, Element] = {}
        self._collections: dict[str, CollectionElement] = {}
        self._consumers: dict[str, list[tuple[DerivingElement, SeededRule | None]]] = {
            n: [] for n in self.extents
        }
        self._woken: dict[str, list[DerivingElement]] = {n: [] for n in self.extents}
        """What a relation without storage wakes whenever it has facts, be they those of before."""
        self.nodes = self._wire()
        self.scheme: Scheme = prepare_invalidation_scheme(self.elements)
        self._flag()
        self._given = {n for n in self.extents if n not in derived}
        self._nodes_of = {name: node for node in self.nodes for name in node.names}
        self._timed: dict[str, NextRelations] = {}
        for name, schema in wired.schemas.items():
            if not schema.kind.is_element:
                after = [wired.due(name, time) for time in _DUE]
                if any(after):
                    held = [None if each is None else self.extents[each] for each in after]
                    self._timed[name] = NextRelations(*held)
        self._clocks = [CLOCK] if self._consumers.get(CLOCK) else []
        self._emptied: set[str] = set()
        """Collections of one tick that were handed facts, which are gone in the next."""
        self.scanned: list[Extent] = []
        for extent in self.extents.values():
            extent.scanned = self.scanned
        self._holding: list[DerivingElement] = []
        """What holds facts of one tick, and has to be visited in the next."""
        self._is_broken = True
        self.changes: dict[str, TickChange] = {}
        self.rebuilt: list[str] = []
        self.repaired: list[str] = []
        self.bulk: list[str] = []
        for schema in wired.schemas.values():
            if schema.kind is CollectionKind.LATTICE:
                bottom = schema.lattices[0].bottom()
                self.extents[schema.name].base[()] = (bottom,)

    def _wire(self) -> list[DerivingElement]:
        """The elements of the program, and those that derive something, in order."""
        wired, extents = self.wired, self.extents
        levels = wired.strata()
        read = {atom.relation for rule in wired.rules for atom in rule.atoms}
        derived = {rule.head for rule in wired.rules}
        for name, schema in wired.schemas.items():
            is_used = name in read or schema.kind is not CollectionKind.CLOCK
            if name in derived or (is_used and not schema.kind.is_element):
                made = CollectionElement(extents[name], levels[name])
                made.is_fleeting = not (
                    schema.kind.persists or name in derived or self._has_timed(name)
                )
                self._collections[name] = self.elements[name] = made
        places = {id(rule): place for place, rule in enumerate(wired.rules, start=1)}
        nodes: list[DerivingElement] = []
        between: list[RuleElement] = []
        for clique in wired.cliques:
            node, rules = self._node(clique, levels, places)
            nodes.append(node)
            between += rules
            if not clique.is_recursive:
                self._collections[node.name] = self.elements[node.name] = node
            for rule in rules:
                for delta in rule.deltas:
                    if delta.atom.relation not in node.names:
                        self._consumers[delta.atom.relation].append((node, delta))
                for source in rule.reads:
                    if source.is_fleeting and source.name not in node.names:
                        self._woken[source.name].append(node)
        for rule in between:
            self.elements[rule.name] = rule
            for atom in rule.rule.atoms:
                self._connect(atom.relation, rule.name)
            self._connect(rule.name, rule.rule.head)
        return nodes

    def _node(
        self, clique: Clique, levels: Mapping[str, int], places: Mapping[int, int]
    ) -> tuple[DerivingElement, list[RuleElement]]:
        """What derives the relations of a clique, and the elements of its rules."""
        name, (rule, *_) = clique.relations[0], clique.rules
        extents, stratum = self.extents, levels[name]
        kind = extents[name].schema.kind
        if kind is CollectionKind.INDEX or rule.has_aggregates:
            source = self._collections[rule.atoms[0].relation]
            operator = IndexElement if kind is CollectionKind.INDEX else GroupElement
            node = operator(extents[name], stratum, rule, source)
            self._collections[name] = self.elements[name] = node
            self._connect(source.name, name)
            self._consumers[source.name].append((node, None))
            return node, []
        rules = [
            RuleElement(
                f"{'join' if len(each.atoms) > 1 else 'project'}({places[id(each)]})",
                each,
                levels[each.head],
                self._collections,
                extents,
                clique.relations if clique.is_recursive else (),
            )
            for each in clique.rules
        ]
        if clique.is_recursive:
            return CliqueElement(clique, stratum, rules, self._collections, extents), rules
        return DerivedElement(extents[name], stratum, rules, self._has_timed(name)), rules

    def _has_timed(self, name: str) -> bool:
        """Whether rules fill a collection for its next tick."""
        return any(self.wired.due(name, time) for time in _DUE)

    def _connect(self, source: str, target: str) -> None:
        if target not in self.elements[source].targets:
            self.elements[source].targets.append(target)
            self.elements[target].sources.append(source)

    def _flag(self) -> None:
        """Set the flags of the default sets for good; find what the other sets add to them."""
        elements = self.elements
        for name in self.scheme.default.invalidate_set:
            elements[name].is_invalid = True
        for name in self.scheme.default.rescan_set:
            elements[name].is_asked = True
        for node in self.nodes:
            node.may_repair = self.repair == "auto"
        self._more = {
            name: (
                [elements[each] for each in more.invalidate_set],
                [elements[each] for each in more.rescan_set],
            )
            for name, more in self.scheme.scanners.items()
            if more.invalidate_set or more.rescan_set
        }
        self._flagged: list[str] = []

    def _signal(self, name: str) -> None:
        """Set the flags of what follows, should an element take facts back."""
        if (more := self._more.get(name)) is not None and name not in self._flagged:
            self._flagged.append(name)
            for element in more[0]:
                element.is_invalid = True
            for element in more[1]:
                element.is_asked = True

    def _unflag(self) -> None:
        for name in self._flagged:  # none of them are in the default sets
            invalid, asked = self._more[name]
            for element in invalid:
                element.is_invalid = False
            for element in asked:
                element.is_asked = False
        self._flagged.clear()

    @property
    def has_work(self) -> bool:
        """Whether the last tick left something new for the next."""
        return any(
            each is not None and each.name in self.changes
            for timed in self._timed.values()
            for each in timed
        ) or any(timed.has_facts for name, timed in self._timed.items() if name in self.changes)

    # ── A tick ───────────────────────────────────────────────────────────────────────────────────

    def tick(self, handed: Mapping[str, Edits], clock: Fact) -> None:
        """One tick; raises, and leaves everything as it was, if a key is violated."""
        undo: list[tuple[Extent, Any, Fact | None]] = []
        before, emptied, holding = self.changes, set(self._emptied), self._holding
        try:
            self._tick(handed, clock, undo)
        except BaseException:
            self._undo(undo, {} if self.changes is before else self.changes)
            self.changes, self._emptied, self._holding = before, emptied, holding
            raise
        finally:
            self._unflag()
        self._is_broken = False

    def _undo(
        self, undo: list[tuple[Extent, Any, Fact | None]], changes: Mapping[str, TickChange]
    ) -> None:
        """Put facts back; how they were derived is found out anew by the next tick."""
        for extent, key, fact in reversed(undo):
            if fact is None:
                extent.base.pop(key, None)
            else:
                extent.base[key] = fact
        for name, change in changes.items():
            if name not in self._given:
                extent = self.extents[name]
                back: Desired = {extent.key(fact): None for fact in change.added}
                back.update({extent.key(fact): fact for fact in change.removed})
                extent.apply(back)
        for name in self._given:
            self.extents[name].indexes.clear()
        for node in self.nodes:
            node.reset()
        self._is_broken = True

    def _tick(
        self, handed: Mapping[str, Edits], clock: Fact, undo: list[tuple[Extent, Any, Fact | None]]
    ) -> None:
        for name in self.changes:
            self.extents[name].change = _NOTHING
        base, negated = self._base(handed, clock, undo)
        changes: dict[str, TickChange] = {}
        self.changes = changes
        nodes = self.nodes
        if self.safe or self._is_broken:
            for extent in self.extents.values():
                extent.indexes.clear()  # what joins keep
            for node in nodes:
                node.is_dirty = node.rebuild = node.is_lost = True
        else:
            for name in negated:
                self._signal(name)
            for node in self._holding:
                node.is_dirty = True
        for name in base:
            if name in self._nodes_of:
                self._nodes_of[name].start({name: base[name]})
        for name, desired in base.items():
            if name in self._given:
                self._tell(name, TickChange(*self.extents[name].apply(desired)))
                if self._woken[name]:
                    self._wake(name)
        self.rebuilt, self.repaired, self.bulk = [], [], []
        self._holding = []
        for node in nodes:
            if node.is_dirty:
                found = node.finish()
                (self.rebuilt if node.rebuild else self.repaired).extend(node.names)
                if node.is_bulk:
                    self.bulk.extend(node.names)
                if node.holds:
                    self._holding.append(node)
                node.reset()
                for name, change in found.items():
                    self._tell(name, change)
                if node.is_fleeting:
                    for name in node.names:
                        self._wake(name)
        for name, change in changes.items():
            extent = self.extents[name]
            if extent.persists and name not in self._given:
                extent.store([extent.key(f) for f in (*change.removed, *change.added)])
        for name, desired in base.items():
            if self.extents[name].persists:
                self.extents[name].store(desired)

    def _base(
        self, handed: Mapping[str, Edits], clock: Fact, undo: list[tuple[Extent, Any, Fact | None]]
    ) -> tuple[dict[str, Desired], list[str]]:
        """What becomes of base facts, and which collections lost some."""
        base: dict[str, Desired] = {}
        negated: list[str] = []
        emptied, self._emptied = self._emptied, set()
        clocked = Edits([clock])
        for name in dict.fromkeys((*handed, *emptied, *self._timed, *self._clocks)):
            extent = self.extents.get(name)
            if extent is None:
                continue  # a tick was asked for, and nothing handed in
            given = clocked if name == CLOCK else handed.get(name)
            left = self._left(name, given)
            if extent.persists:
                desired = (
                    {} if given is None and left is None else _apply_changes(extent, given, left)
                )
            elif given is None and name not in emptied and not self._is_broken:
                desired = {} if left is None else self._changed(extent, name)
            else:
                timed = self._timed.get(name)
                is_emptied = self.safe or self._is_broken or self._collections[name].is_invalid
                due = None if timed is None else timed.all()
                desired = _fresh(extent, given, due, is_emptied=is_emptied)
            if given is not None and not extent.persists:
                self._emptied.add(name)
            if not desired:
                continue
            base[name] = desired
            lost = False
            for key, fact in desired.items():
                was = extent.base.get(key)
                undo.append((extent, key, was))
                lost = lost or (was is not None and was != fact)
            if lost:
                negated.append(name)
        return base, negated

    def _left(self, name: str, given: Edits | None) -> Edits | None:
        """What the last tick left for a collection; None if nothing new follows from it."""
        timed = self._timed.get(name)
        if timed is None:
            return None
        last, own = self.changes, self.changes.get(name)
        news = any(each is not None and each.name in last for each in timed)
        if not self.extents[name].persists:
            return timed.all() if news or self._is_broken else None
        if not timed.has_facts:
            return None
        # A fact that is to be deleted may have been derived again, and stored by that.
        whole = (
            self._is_broken
            or timed.takes_away
            or (own is not None and own.removed)
            or (given is not None and (given.delete or given.upsert))
        )
        if whole:  # what is taken away may be what is to be there
            return timed.all()
        new = None if timed.next is None else last.get(timed.next.name)
        return None if new is None or not new.added else Edits(list(new.added))

    def _changed(self, extent: Extent, name: str) -> Desired:
        """What changes in a collection of one tick that only rules of the last tick fill."""
        desired: Desired = {}
        for relation in self._timed[name]:
            change = None if relation is None else self.changes.get(relation.name)
            if change is None:
                continue
            for fact in change.removed:
                key = extent.key(fact)
                if extent.base.get(key) == fact:
                    desired[key] = None
            for fact in change.added:
                key = extent.key(fact)
                old = desired[key] if key in desired else extent.base.get(key)
                desired[key] = extent.joined(old, fact)
        return desired

    def _tell(self, name: str, change: TickChange) -> None:
        if change:
            self.changes[name] = self.extents[name].change = change
            if change.removed and not (self.safe or self._collections[name].is_invalid):
                self._signal(name)  # values that grew, say, of a group
            for node, delta in self._consumers[name]:
                if delta is not None and delta.atom.negated and change.added:
                    self._signal(delta.element.name)
                node.told(delta, change)

    def _wake(self, name: str) -> None:
        if self.extents[name].contents:
            for node in self._woken[name]:
                node.is_dirty = True

    def inherit(self, other: TickEngine) -> dict[str, Edits]:
        """Hold the tables of another engine; what it has left for the next tick."""
        for name, extent in other.extents.items():
            if extent.persists and name in self.extents:
                self.hold(name, extent.base.values())
        return other.waiting()

    def waiting(self) -> dict[str, Edits]:
        """What the last tick left for the next, by collection."""
        return {name: timed.all() for name, timed in self._timed.items() if timed.has_facts}

    def hold(self, name: str, facts: Iterable[Fact]) -> None:
        """Begin with these facts in a table or a lattice."""
        extent = self.extents[name]
        held = {extent.key(fact): fact for fact in facts}
        extent.base.update(held)
        extent.contents.update(held)

    # ── Looking at it ────────────────────────────────────────────────────────────────────────────

    def is_read(self, name: str) -> bool:
        """Whether rules read a collection."""
        return bool(self._consumers[name])

    def sent(self, name: str) -> Iterable[Fact]:
        """What the last tick sends to a collection."""
        relation = self.wired.due(name, "async")
        return () if relation is None else self.extents[relation].contents.values()


_DUE: tuple[Time, ...] = ("next", "delete", "upsert")
_NOTHING = TickChange()


def _apply_changes(extent: Extent, given: Edits | None, due: Edits | None) -> Desired:
    """What becomes of the facts of a table: deletes, then upserts, then inserts."""
    base, key = extent.base, extent.key
    desired: Desired = {}
    parts = [each for each in (due, given) if each is not None]
    for each in parts:
        for fact in each.delete:
            k = key(fact)
            if base.get(k) == fact:
                desired[k] = None
    put: dict[Any, Fact] = {}
    for each in parts:
        for fact in each.upsert:
            k = key(fact)
            put[k] = desired[k] = extent.joined(put.get(k), fact)
    for each in parts:
        for fact in each.insert:
            k = key(fact)
            old = desired[k] if k in desired else base.get(k)
            desired[k] = extent.joined(old, fact)
    return desired


def _fresh(extent: Extent, given: Edits | None, due: Edits | None, *, is_emptied: bool) -> Desired:
    """What becomes of a collection that starts each tick empty."""
    desired: Desired = dict.fromkeys(extent.base) if is_emptied else {}
    for each in (due, given):
        for fact in () if each is None else (*each.upsert, *each.insert):
            k = extent.key(fact)
            old = desired.get(k)
            desired[k] = extent.joined(old, fact)
    return desired
