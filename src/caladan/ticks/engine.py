"""The engine of ticks: extents and nodes of a wired program, and what one tick does with them.

A tick takes what is handed in and what the last tick left for it, changes base facts, and goes
through the nodes in order. It either happens as a whole, or raises and leaves everything as it was.

Modes: *lazy* looks up what is invalidated and repairs where that is less work; with
`repair="never"` it does what the sets say and no more; *safe* starts everything from scratch in
every tick, which is the oracle of the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal as OneOf, NamedTuple

from caladan.language.bloom.schema import CLOCK, CollectionKind
from caladan.program import Time
from caladan.ticks.dataflow import Change, GroupNode, IndexNode, Node, PlainNode, SeededRule
from caladan.ticks.extent import Desired, Extent, Fact
from caladan.ticks.invalidation import Scheme, prepare_invalidation_scheme
from caladan.ticks.recursion import RecursiveNode
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
    """Extents and nodes, tick after tick."""

    def __init__(self, wired: TickProgram, *, safe: bool = False, repair: Repair = "auto") -> None:
        self.wired = wired
        self.safe = safe
        self.repair = repair
        self.scheme: Scheme = prepare_invalidation_scheme(wired)
        derived = {rule.head for rule in wired.rules}
        self.extents = {
            name: Extent(schema, has_rules=name in derived)
            for name, schema in wired.schemas.items()
        }
        for rule in wired.rules:
            extent = self.extents[rule.head]
            extent.span = extent.span or rule.span
        self.nodes = [self._node(clique) for clique in wired.cliques]
        self._consumers: dict[str, list[tuple[Node, SeededRule]]] = {n: [] for n in self.extents}
        for node in self.nodes:
            for delta in node.deltas:
                self._consumers[delta.atom.relation].append((node, delta))
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
        self._is_broken = True
        self.changes: dict[str, Change] = {}
        self.rebuilt: list[str] = []
        self.repaired: list[str] = []
        self.bulk: list[str] = []
        for schema in wired.schemas.values():
            if schema.kind is CollectionKind.LATTICE:
                bottom = schema.lattices[0].bottom()
                self.extents[schema.name].base[()] = (bottom,)

    def _node(self, clique: Any) -> Any:
        if clique.is_recursive:
            return RecursiveNode(clique, self.extents)
        (name,) = clique.relations
        extent = self.extents[name]
        (rule, *_) = clique.rules
        kind = extent.schema.kind
        if kind is CollectionKind.INDEX:
            return IndexNode(extent, rule, self.extents)
        if rule.has_aggregates:
            return GroupNode(extent, rule, self.extents)
        return PlainNode(extent, clique.rules, self.extents)

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
        before, emptied = self.changes, set(self._emptied)
        try:
            self._tick(handed, clock, undo)
        except BaseException:
            self._undo(undo, {} if self.changes is before else self.changes)
            self.changes, self._emptied = before, emptied
            raise
        self._is_broken = False

    def _undo(
        self, undo: list[tuple[Extent, Any, Fact | None]], changes: Mapping[str, Change]
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
        base, negated = self._base(handed, clock, undo)
        changes: dict[str, Change] = {}
        self.changes = changes
        nodes = self.nodes
        if self.safe or self._is_broken:
            for extent in self.extents.values():
                extent.indexes.clear()  # what joins keep
            for node in nodes:
                node.is_dirty = node.rebuild = True
                node.is_lost = self._is_broken
        elif self.repair == "never":
            # Repairs see for themselves what is lost: only without them the sets say what to erase.
            for name in self.scheme.invalidated(negated):
                if name in self._nodes_of:
                    self._nodes_of[name].is_dirty = self._nodes_of[name].rebuild = True
        for name in base:
            if name in self._nodes_of:
                self._nodes_of[name].start({name: base[name]})
        for name, desired in base.items():
            if name in self._given:
                self._tell(name, Change(*self.extents[name].apply(desired)))
        self.rebuilt, self.repaired, self.bulk = [], [], []
        for node in nodes:
            if node.is_dirty:
                found = node.finish()
                (self.rebuilt if node.rebuild else self.repaired).extend(node.names)
                if node.is_bulk:
                    self.bulk.extend(node.names)
                node.reset()
                for name, change in found.items():
                    self._tell(name, change)
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
                desired = {} if given is None and left is None else _stored(extent, given, left)
            elif given is None and name not in emptied and not self._is_broken:
                desired = {} if left is None else self._changed(extent, name)
            else:
                timed = self._timed.get(name)
                desired = _fresh(extent, given, None if timed is None else timed.all())
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

    def _tell(self, name: str, change: Change) -> None:
        if change:
            self.changes[name] = change
            for node, delta in self._consumers[name]:
                node.told(delta, change)

    def inherit(self, other: TickEngine) -> dict[str, Edits]:
        """Hold the tables of another engine; what it has left for the next tick."""
        for name, extent in other.extents.items():
            if extent.persists and name in self.extents:
                self.extents[name].base.update(extent.base)
                self.extents[name].contents.update(extent.contents)
        return {name: timed.all() for name, timed in other._timed.items() if timed.has_facts}

    # ── Looking at it ────────────────────────────────────────────────────────────────────────────

    def is_read(self, name: str) -> bool:
        """Whether rules read a collection."""
        return bool(self._consumers[name])

    def sent(self, name: str) -> Iterable[Fact]:
        """What the last tick sends to a collection."""
        relation = self.wired.due(name, "async")
        return () if relation is None else self.extents[relation].contents.values()


_DUE: tuple[Time, ...] = ("next", "delete", "upsert")


def _stored(extent: Extent, given: Edits | None, due: Edits | None) -> Desired:
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


def _fresh(extent: Extent, given: Edits | None, due: Edits | None) -> Desired:
    """What becomes of a collection that starts each tick empty."""
    desired: Desired = dict.fromkeys(extent.base)
    for each in (due, given):
        for fact in () if each is None else (*each.upsert, *each.insert):
            k = extent.key(fact)
            old = desired.get(k)
            desired[k] = extent.joined(old, fact)
    return desired
