"""Extents: what a relation of a Bloom program holds, from tick to tick.

`contents` has the one fact of each key. Facts are there because they are *base* (handed in, stored
by an earlier tick) or because rules derive them; `derived` counts the ways they do. Indexes by
columns are made when a rule first looks facts up by these, and kept true from then on; those who
look up by the same columns share one. `Earlier` reads an extent as it was before its last change,
for rules that join a relation with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol, TypeAlias

from caladan.language.bloom.schema import CollectionKind, Schema
from caladan.language.bloom.values import Lattice, freeze, reveal
from caladan.program.diagnostics import CaladanError, Diagnostic, Place, Span, error

Fact: TypeAlias = tuple[Any, ...]
ExtentIndex: TypeAlias = dict[Any, dict[Fact, None]]
Desired: TypeAlias = dict[Any, Fact | None]


@dataclass(slots=True)
class TickChange:
    """What a relation lost and gained in a tick."""

    removed: Sequence[Fact] = ()
    added: Sequence[Fact] = ()

    def __bool__(self) -> bool:
        return bool(self.removed or self.added)


class FactLookup(Protocol):
    """What is looked up in: a dictionary, or one as it was."""

    def get(self, key: Any, /) -> Any: ...


class Readable(Protocol):
    """What the steps of a plan read: a relation, now or before it changed."""

    @property
    def width(self) -> int: ...
    @property
    def contents(self) -> FactLookup: ...
    def scan(self) -> Iterable[Fact]: ...
    def index(self, positions: tuple[int, ...], /) -> FactLookup: ...


class Inconsistent(Exception):
    """A fact was derived fewer times than never: a function gave two answers to one question."""


class KeyViolation(CaladanError):
    """Two facts of a collection have the same key."""

    __module__ = "caladan.bloom"

    def __init__(
        self, name: str, keys: str, old: Fact, new: Fact, place: Span | Place | None = None
    ) -> None:
        self.collection, self.facts = name, (old, new)
        shown = " and ".join(repr(reveal(fact)) for fact in self.facts)
        what = f"the same key ({keys})" if keys else "an empty key, which at most one fact has"
        super().__init__(
            Diagnostic(
                "C070",
                f"two facts of `{name}` have {what}: {shown}",
                place,
                help="`<<=` replaces the fact of a key at the next tick; columns that may differ "
                "belong to the key",
            )
        )


class Extent:
    """The facts of a relation."""

    def __init__(self, schema: Schema, *, has_rules: bool) -> None:
        self.schema = schema
        self.name = schema.name
        self.arity = len(schema.columns)
        self.width = schema.width
        self.is_keyed = self.width < self.arity
        self.lattices: Mapping[int, type[Lattice]] = schema.lattices
        self.persists = schema.kind.persists
        self.is_own_key = self.width == self.arity != 1
        """Whether a fact is its own key, so that contents hold it once."""
        self.key: Callable[[Fact], Any] = _itself if self.is_own_key else key_of(self.width)
        self.contents: dict[Any, Fact] = {}
        self.base: dict[Any, Fact] = {} if has_rules else self.contents
        self.derived: dict[Fact, int] = {}
        self.claims: dict[Any, dict[Fact, None]] = {}
        self.indexes: dict[tuple[int, ...], ExtentIndex] = {}
        self.change = TickChange()
        """What this tick changed so far."""
        self.scans = 0
        self.scanned: list[Extent] = []  # those that a tick went through, of all extents
        self.span: Span | Place | None = None

    def __len__(self) -> int:
        return len(self.contents)

    # ── Facts from outside ───────────────────────────────────────────────────────────────────────

    def fact(self, row: object) -> Fact:
        """A row as a fact: of the right width, hashable, with lattices where they belong."""
        if self.schema.kind is CollectionKind.LATTICE:
            row = (row,)
        if not isinstance(row, tuple | list):
            raise error("C011", f"a fact of `{self.name}` is a tuple of {self.arity}, not {row!r}")
        given: list[Any] = list(row)  # pyright: ignore[reportUnknownArgumentType]
        if len(given) != self.arity:
            raise error(
                "C011",
                f"`{self.name}` has {self.arity} columns, but a fact of {len(given)} is given",
                help=f"its columns are ({', '.join(self.schema.columns)})",
            )
        return self.made(given)

    def made(self, values: Iterable[Any]) -> Fact:
        """Values as a fact."""
        lattices = self.lattices
        if not lattices:
            fact = tuple(map(freeze, values))
        else:
            fact = tuple(
                self._lifted(i, lattices[i], value) if i in lattices else freeze(value)
                for i, value in enumerate(values)
            )
        try:
            hash(fact)
        except TypeError as problem:
            raise error(
                "C032",
                f"a fact of `{self.name}` has a value that cannot be hashed ({problem}): {fact!r}",
                help="facts hold numbers, texts, tuples and the like",
            ) from None
        return fact

    def _lifted(self, position: int, lattice: type[Lattice], value: Any) -> Lattice:
        try:
            return lattice.of(value)
        except (ValueError, TypeError) as problem:
            column = self.schema.columns[position]
            raise error(
                "C032", f"column {column} of `{self.name}` is {lattice.word}: {problem}"
            ) from None

    def joined(self, old: Fact | None, new: Fact) -> Fact:
        """What stands for a key that had one fact, or none, when another comes."""
        return new if old is None or old == new else self.merged(old, new)

    def merged(self, old: Fact, new: Fact) -> Fact:
        """Two facts with one key: lattices merge, anything else is a key violation."""
        values: list[Any] = []
        for one, other in zip(old, new, strict=True):
            if one == other:
                values.append(one)
            elif isinstance(one, Lattice) and type(one) is type(other):
                values.append(one.merge(other))
            else:
                raise self.violation(old, new)
        return tuple(values)

    def violation(self, old: Fact, new: Fact) -> KeyViolation:
        """Two facts with one key."""
        keys = ", ".join(self.schema.keys)
        return KeyViolation(self.name, keys, old, new, self.span)

    # ── Changes ──────────────────────────────────────────────────────────────────────────────────

    def based(self, desired: Desired) -> dict[Any, None]:
        """Change base facts of a relation with rules; the keys that may be concerned."""
        base = self.base
        for key, fact in desired.items():
            if fact is None:
                base.pop(key, None)
            else:
                base[key] = fact
        return dict.fromkeys(desired)

    def counted(self, pending: Mapping[Fact, int], keys: dict[Any, None]) -> None:
        """Change how often facts are derived; adds the keys that are concerned."""
        derived, key, claims = self.derived, self.key, self.claims
        for fact, change in pending.items():
            if not change:
                continue
            count = derived.get(fact, 0) + change
            if count < 0:
                raise Inconsistent(self.name)
            if count:
                derived[fact] = count
            else:
                derived.pop(fact, None)
            k = key(fact)
            keys[k] = None
            if self.is_keyed:
                claimed = claims.get(k)
                if count:
                    if claimed is None:
                        claims[k] = {fact: None}
                    else:
                        claimed[fact] = None
                elif claimed is not None:
                    claimed.pop(fact, None)
                    if not claimed:
                        del claims[k]

    def settled(self, keys: Iterable[Any]) -> Desired:
        """The fact of each key, as base facts and rules have it."""
        base, derived, claims = self.base, self.derived, self.claims
        desired: Desired = {}
        for k in keys:
            fact = base.get(k)
            if not self.is_keyed:
                if fact is None:
                    candidate = (k,) if self.width == 1 else k
                    fact = candidate if candidate in derived else None
            elif k in claims:
                for claim in claims[k]:
                    fact = self.joined(fact, claim)
            desired[k] = fact
        return desired

    def apply(self, desired: Desired) -> tuple[list[Fact], list[Fact]]:
        """Make contents as desired; what was removed and what was added by that."""
        contents = self.contents
        removed: list[Fact] = []
        added: list[Fact] = []
        for key, new in desired.items():
            old = contents.get(key)
            if old == new:
                continue
            if old is not None:
                removed.append(old)
            if new is not None:
                added.append(new)
                contents[key] = new
            else:
                del contents[key]
        for positions, index in self.indexes.items():
            pick = picker(positions)
            for fact in removed:
                k = pick(fact)
                rows = index[k]
                rows.pop(fact, None)
                if not rows:
                    del index[k]
        self._index(added)
        return removed, added

    def _index(self, facts: Iterable[Fact]) -> None:
        for positions, index in self.indexes.items():
            pick = picker(positions)
            for fact in facts:
                k = pick(fact)
                rows = index.get(k)
                if rows is None:
                    index[k] = {fact: None}
                else:
                    rows[fact] = None

    def put_all(self, facts: Iterable[Fact]) -> list[Fact]:
        """Add facts that are their own keys; those that are new."""
        contents = self.contents
        new = [fact for fact in dict.fromkeys(facts) if fact not in contents]
        contents.update(zip(new, new, strict=True))
        self._index(new)
        return new

    def become(self, contents: dict[Any, Fact]) -> tuple[list[Fact], list[Fact]]:
        """Hold other facts, of a relation with rules; what is removed and what is added by that."""
        before, self.contents = self.contents, contents
        removed = [fact for key, fact in before.items() if contents.get(key) != fact]
        added = (
            [fact for key, fact in contents.items() if before.get(key) != fact]
            if before
            else list(contents.values())
        )
        self.indexes.clear()
        return removed, added

    def put(self, fact: Fact) -> Fact | None:
        """Add a fact at once; it, or what it merged into, if that is new."""
        key = self.key(fact)
        old = self.contents.get(key)
        if old is not None:
            if old == fact:
                return None
            fact = self.merged(old, fact)
            if fact == old:
                return None
        self.apply({key: fact})
        return fact

    def store(self, keys: Iterable[Any]) -> None:
        """What a table holds now is base from the next tick on."""
        if self.base is self.contents:
            return
        for key in keys:
            fact = self.contents.get(key)
            if fact is None:
                self.base.pop(key, None)
            else:
                self.base[key] = fact

    def clear_derived(self) -> None:
        """Forget what rules derived; contents stay until they are settled anew."""
        self.derived.clear()
        self.claims.clear()

    # ── Looking up ───────────────────────────────────────────────────────────────────────────────

    def scan(self) -> Iterable[Fact]:
        """All facts, which is counted."""
        if not self.scans:
            self.scanned.append(self)
        self.scans += 1
        return self.contents.values()

    def index(self, positions: tuple[int, ...]) -> ExtentIndex:
        """Facts by the values of some columns."""
        found = self.indexes.get(positions)
        if found is None:
            found = self.indexes[positions] = {}
            pick = picker(positions)
            for fact in self.contents.values():
                found.setdefault(pick(fact), {})[fact] = None
        return found


class Earlier:
    """A relation as it was before this tick changed it."""

    def __init__(self, extent: Extent) -> None:
        self._extent = extent
        self.width = extent.width

    @property
    def contents(self) -> FactLookup:
        """The facts by their keys."""
        return _EarlierFacts(self._extent)

    def scan(self) -> Iterable[Fact]:
        """All facts that were there."""
        change = self._extent.change
        added = set(change.added)
        return [*(f for f in self._extent.scan() if f not in added), *change.removed]

    def index(self, positions: tuple[int, ...]) -> FactLookup:
        """Facts by the values of some columns."""
        return _EarlierIndex(self._extent, positions)


class _EarlierFacts:
    def __init__(self, extent: Extent) -> None:
        self._now = extent.contents
        self._added = set(map(extent.key, extent.change.added))
        self._removed = {extent.key(fact): fact for fact in extent.change.removed}

    def get(self, key: Any) -> Fact | None:
        if key in self._removed:
            return self._removed[key]
        return None if key in self._added else self._now.get(key)

    def __bool__(self) -> bool:
        return len(self._now) - len(self._added) + len(self._removed) > 0


class _EarlierIndex:
    def __init__(self, extent: Extent, positions: tuple[int, ...]) -> None:
        self._now = extent.index(positions)
        self._added = set(extent.change.added)
        self._removed: dict[Any, list[Fact]] = {}
        pick = picker(positions)
        for fact in extent.change.removed:
            self._removed.setdefault(pick(fact), []).append(fact)

    def get(self, key: Any) -> list[Fact] | None:
        facts = [f for f in self._now.get(key, ()) if f not in self._added]
        return (facts + self._removed.get(key, [])) or None


def key_of(width: int) -> Callable[[Fact], Any]:
    """The key of a fact: its first columns; a single one stands for itself."""
    return picker(tuple(range(width)))


def picker(positions: tuple[int, ...]) -> Callable[[Fact], Any]:
    """The values of some columns; of one column, the value alone."""
    return itemgetter(*positions) if positions else _empty


def _itself(fact: Fact) -> Fact:
    return fact


def _empty(_: Fact) -> tuple[()]:
    return ()
