"""Data of a session, encoded once and kept: domains, and relations with the orders made of them.

A run encodes the columns that can meet in its rules as one class (join/classes.py). Another run in
which the same columns meet, or fewer of them, takes the words they have, and the sorted runs. What
a run computes is not kept: a domain that takes in computed values is handed out as it was after the
data was encoded.

What is kept goes when its data does (`db.add` gives other data, and no result needs the old), and
when it is more than a share of the memory that a run may have.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from caladan.columns.domains import CodedDomain, Domain, SortedDomain, forked, word_of
from caladan.columns.relation import StoredRelation
from caladan.engines.embedded.tables import LoadedTable
from caladan.join.classes import Class, Classes, Node
from caladan.program import thresholds

Place = tuple[int, int]  # a table by its number, and a column of it


@dataclass(eq=False, slots=True)
class ClassEntry:
    """A class of columns: its domain as it was when they were encoded."""

    known: Class
    places: frozenset[Place]
    domain: Domain


@dataclass(eq=False, slots=True)
class RelationEntry:
    """The facts of a table, in the words of some classes."""

    table: int
    classes: tuple[ClassEntry, ...]
    relation: StoredRelation


@dataclass(slots=True)
class CacheHit:
    """What a run need not encode: domains by class, relations by name."""

    domains: dict[Node, Domain] = field(default_factory=dict[Node, Domain])
    relations: dict[str, StoredRelation] = field(default_factory=dict[str, StoredRelation])


class EncodedCache:
    """What runs of a session left for the next."""

    def __init__(self) -> None:
        self._numbers: weakref.WeakKeyDictionary[LoadedTable, int] = weakref.WeakKeyDictionary()
        self._next = 0
        self._classes: list[ClassEntry] = []
        self._relations: list[RelationEntry] = []  # the last used one last

    @property
    def nbytes(self) -> int:
        """The bytes of all relations."""
        return sum(each.relation.nbytes for each in self._relations)

    def find(
        self, classes: Classes, tables: Mapping[str, LoadedTable], others: Iterable[str]
    ) -> CacheHit:
        """What is there for a program; `others` are given data that is no table of their own."""
        self._sweep()
        members = classes.members(tables)
        blocked = {root for name in others for root in classes.roots(name)}
        known = {
            root: self._class(each, self._places(nodes, tables))
            for root, (each, nodes) in members.items()
            if nodes and root not in blocked
        }
        kept: dict[str, RelationEntry] = {}
        for name, table in tables.items():
            own = [known.get(root) for root in classes.roots(name)]
            found = next((r for r in self._relations if self._is(r, table, own)), None)
            if found is not None:
                kept[name] = found
        # A class whose words somebody needs is encoded, and with it all that it meets.
        reused = {root for root, each in known.items() if each is not None}
        while True:
            whole = {n for n in kept if reused.issuperset(classes.roots(n))}
            still = {root for root in reused if all(n in whole for n, _ in members[root][1])}
            if still == reused:
                break
            reused = still
        result = CacheHit()
        for root in reused:
            each = known[root]
            assert each is not None
            result.domains[root] = forked(each.domain)
        for name in whole:
            if not classes.roots(name):
                continue
            self._relations.remove(kept[name])
            self._relations.append(kept[name])
            body = kept[name].relation
            domains = [result.domains[root] for root in classes.roots(name)]
            result.relations[name] = StoredRelation.sharing(domains, body)
        return result

    def encoded(
        self, classes: Classes, tables: Mapping[str, LoadedTable]
    ) -> dict[Node, ClassEntry]:
        """The classes of a program that columns of tables are in, as they are now."""
        return {
            root: ClassEntry(each, self._places(nodes, tables), forked(classes.domain(root)))
            for root, (each, nodes) in classes.members(tables).items()
            if nodes
        }

    def keep(
        self,
        classes: Classes,
        made: Mapping[Node, ClassEntry],
        tables: Mapping[str, LoadedTable],
        relations: Mapping[str, StoredRelation],
        most: int,
    ) -> None:
        """Keep relations for the next run, as far as the memory that one may have allows."""
        for name, relation in relations.items():
            own = tuple(made[root] for root in classes.roots(name) if root in made)
            if own and len(own) == relation.arity:
                number = self._number(tables[name])
                self._relations.append(RelationEntry(number, own, relation))
                self._classes += [each for each in own if each not in self._classes]
        while self._relations and self.nbytes * thresholds.now.kept_share > most:
            del self._relations[0]
        self._sweep()

    def outside(self, used: Iterable[StoredRelation]) -> int:
        """The bytes of what a run does not use."""
        own = {id(relation.body) for relation in used}
        return sum(
            each.relation.nbytes for each in self._relations if id(each.relation.body) not in own
        )

    def _class(self, known: Class, places: frozenset[Place]) -> ClassEntry | None:
        for each in reversed(self._classes):
            if (
                each.known.kind is known.kind
                and each.known.computed == known.computed
                and places <= each.places
                and all(self._has(each.domain, value) for value in known.constants)
            ):
                return each
        return None

    def _has(self, domain: Domain, value: object) -> bool:
        """Whether a constant has a word; a domain that grows will give it one."""
        if isinstance(domain, CodedDomain | SortedDomain) or not domain.grows:
            return word_of(value, domain) is not None  # pyright: ignore[reportArgumentType]
        return not domain.kind.is_coded or word_of(value, domain) is not None  # pyright: ignore[reportArgumentType]

    def _is(
        self, kept: RelationEntry, table: LoadedTable, classes: Sequence[ClassEntry | None]
    ) -> bool:
        return kept.table == self._numbers.get(table) and all(
            one is other for one, other in zip(kept.classes, classes, strict=True)
        )

    def _places(
        self, nodes: Iterable[tuple[str, int]], tables: Mapping[str, LoadedTable]
    ) -> frozenset[Place]:
        return frozenset((self._number(tables[name]), column) for name, column in nodes)

    def _number(self, table: LoadedTable) -> int:
        if table not in self._numbers:
            self._next += 1
            self._numbers[table] = self._next
        return self._numbers[table]

    def _sweep(self) -> None:
        """Let go of what is of data that nobody has any more, and of classes of no relation."""
        alive = set(self._numbers.values())
        self._relations = [each for each in self._relations if each.table in alive]
        used = {id(own) for each in self._relations for own in each.classes}
        self._classes = [each for each in self._classes if id(each) in used]
