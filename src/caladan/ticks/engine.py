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
from typing import Any, Literal as OneOf

from caladan.language.bloom.schema import CLOCK, CollectionKind
from caladan.program import Time
from caladan.ticks.dataflow import Change, GroupNode, IndexNode, Node, PlainNode, SeededRule
from caladan.ticks.extent import Desired, Extent, Fact
from caladan.ticks.invalidation import Scheme, scheme
from caladan.ticks.recursion import RecursiveNode
from caladan.ticks.wiring import Wired

Repair = OneOf["auto", "never"]


@dataclass(slots=True)
class Handed:
    """Facts for one collection: to insert, to delete, to put in the place of others."""

    insert: list[Fact] = field(default_factory=list[Fact])
    delete: list[Fact] = field(default_factory=list[Fact])
    upsert: list[Fact] = field(default_factory=list[Fact])

    def __bool__(self) -> bool:
        return bool(self.insert or self.delete or self.upsert)


class TickEngine:
    """Extents and nodes, tick after tick."""

    def __init__(self, wired: Wired, *, safe: bool = False, repair: Repair = "auto") -> None:
        self.wired = wired
        self.safe = safe
        self.repair = repair
        self.scheme: Scheme = scheme(wired)
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
        self._given = [n for n in self.extents if n not in derived]
        self._handed_to = [
            (name, schema) for name, schema in wired.schemas.items() if not schema.kind.is_element
        ]
        self._due: dict[str, Handed] = {}
        self._timed = [
            (schema.name, [(t, d) for t in _DUE if (d := wired.due(schema.name, t)) is not None])
            for _, schema in self._handed_to
        ]
        self._timed = [(name, due) for name, due in self._timed if due]
        self._full: set[str] = set()
        self._is_broken = True
        self.changes: dict[str, Change] = {}
        self.rebuilt: list[str] = []
        self.repaired: list[str] = []
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
        """Whether the last tick left something for the next."""
        return any(self._due.values())

    # ── A tick ───────────────────────────────────────────────────────────────────────────────────

    def tick(self, handed: Mapping[str, Handed], clock: Fact) -> None:
        """One tick; raises, and leaves everything as it was, if a key is violated."""
        undo: list[tuple[Extent, Any, Fact | None]] = []
        try:
            self._tick(handed, clock, undo)
        except BaseException:
            for extent, key, fact in reversed(undo):
                if fact is None:
                    extent.base.pop(key, None)
                else:
                    extent.base[key] = fact
            for name in self._given:
                self.extents[name].indexes.clear()
            self._is_broken = True
            self.changes = {}
            raise
        self._is_broken = False
        self._leave()

    def _tick(
        self, handed: Mapping[str, Handed], clock: Fact, undo: list[tuple[Extent, Any, Fact | None]]
    ) -> None:
        base: dict[str, Desired] = {}
        negated: list[str] = []
        for name, schema in self._handed_to:
            if name == CLOCK:
                given, due = Handed([clock]), None
            else:
                given, due = handed.get(name), self._due.get(name)
            extent = self.extents[name]
            if schema.kind.persists:
                if given is None and due is None:
                    continue
                desired = _stored(extent, given, due)
            elif given is None and due is None and name not in self._full:
                continue
            else:
                desired = _fresh(extent, given, due)
                if desired or name in self._full:
                    self._full.add(name)
            if desired:
                base[name] = desired
                old = extent.base
                for key, fact in desired.items():
                    was = old.get(key)
                    undo.append((extent, key, was))
                    if was is not None and was != fact:
                        negated.append(name)
        everything = self.safe or self._is_broken
        # Repairs see for themselves what is lost: only without them the sets say what to erase.
        erased: frozenset[str] = frozenset()
        if not everything and self.repair == "never":
            erased = self.scheme.invalidated(dict.fromkeys(negated))
        changes: dict[str, Change] = {}
        self.changes = changes
        for node in self.nodes:
            node.start(base, rebuild=everything or any(name in erased for name in node.names))
        for name in self._given:
            if name in base:
                extent = self.extents[name]
                self._tell(name, Change(*extent.apply(base[name])))
        self.rebuilt, self.repaired = [], []
        for node in self.nodes:
            found = node.finish()
            if found or node.rebuild:
                (self.rebuilt if node.rebuild else self.repaired).extend(node.names)
            for name, change in found.items():
                self._tell(name, change)
        for name, change in changes.items():
            extent = self.extents[name]
            if extent.schema.kind.persists and extent.base is not extent.contents:
                keys = [extent.key(f) for f in (*change.removed, *change.added)]
                extent.store(keys)
        for name, desired in base.items():
            extent = self.extents[name]
            if extent.schema.kind.persists:
                extent.store(desired)

    def _tell(self, name: str, change: Change) -> None:
        if change:
            self.changes[name] = change
            for node, delta in self._consumers[name]:
                node.told(delta, change)

    def _leave(self) -> None:
        """Note what rules derived for the next tick."""
        left: dict[str, Handed] = {}
        for name, relations in self._timed:
            handed = Handed()
            for time, relation in relations:
                facts = list(self.extents[relation].contents.values())
                match time:
                    case "next":
                        handed.insert = facts
                    case "delete":
                        handed.delete = facts
                    case _:
                        handed.upsert = facts
            if handed:
                left[name] = handed
        self._due = left

    # ── Looking at it ────────────────────────────────────────────────────────────────────────────

    def sent(self, name: str) -> Iterable[Fact]:
        """What the last tick sends to a collection."""
        relation = self.wired.due(name, "async")
        return () if relation is None else self.extents[relation].contents.values()

    def scans(self) -> dict[str, int]:
        """How often each relation was gone through in full, since the start."""
        return {name: extent.scans for name, extent in self.extents.items()}


_DUE: tuple[Time, ...] = ("next", "delete", "upsert")


def _stored(extent: Extent, given: Handed | None, due: Handed | None) -> Desired:
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
            if k in put and put[k] != fact:
                fact = extent.merged(put[k], fact)
            put[k] = desired[k] = fact
    for each in parts:
        for fact in each.insert:
            k = key(fact)
            old = desired[k] if k in desired else base.get(k)
            desired[k] = fact if old is None or old == fact else extent.merged(old, fact)
    return desired


def _fresh(extent: Extent, given: Handed | None, due: Handed | None) -> Desired:
    """What becomes of a collection that starts each tick empty."""
    desired: Desired = dict.fromkeys(extent.base)
    for each in (due, given):
        for fact in () if each is None else (*each.upsert, *each.insert):
            k = extent.key(fact)
            old = desired.get(k)
            desired[k] = fact if old is None or old == fact else extent.merged(old, fact)
    return desired
