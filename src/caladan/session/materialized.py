"""Relations that earlier runs derived, kept for later ones.

    db.run("tc(A, B) <- arc(A, B). tc(A, B) <- tc(A, C), arc(C, B). query tc(A, B).")
    db.query("tc(1, X)")       # a lookup: tc is kept
    db.insert("arc", [(7, 8)])
    db.query("tc(1, X)")       # derives what the goal needs: tc was dropped with arc's old data

A relation is kept when a run derived it in full. It is read instead of its rules by programs that
mention it and define neither it nor anything it depends on. A change to the rules or the data of a
relation drops every kept relation that depends on it, at once.

What is kept counts towards the memory that a run may have. The oldest relations go first; those of
`Session.materialize` after the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from caladan.engines.interface import Engine, Materializing, Table
from caladan.program import thresholds
from caladan.program.notation import Widths
from caladan.program.transform import reachable

Reads = Callable[[str], Iterable[str]]
"""The relations that the rules of a relation mention."""


@dataclass(eq=False, slots=True)
class Materialized:
    """A derived relation: the table that a run made, and what only that run knew of it.

    `permissive` says how its data was read.
    """

    name: str
    table: Table
    order: tuple[tuple[int, bool], ...]
    widths: Widths
    permissive: bool
    is_pinned: bool = False


class Materializations:
    """The relations of a session that are kept, the oldest first."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._kept: dict[str, Materialized] = {}
        self._now = 0
        self._changed: dict[str, int] = {}

    @property
    def now(self) -> int:
        """A number that grows with every change of data or rules."""
        return self._now

    def __contains__(self, name: object) -> bool:
        return name in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, name: str) -> Materialized:
        return self._kept[name]

    def find(self, name: str, *, permissive: bool, is_read: bool) -> Materialized | None:
        """A kept relation that can stand for its rules.

        Where rules read it (`is_read`), its facts must be listed: one that is held in a shorter
        form costs less to derive again, in that form, than to list.
        """
        found = self._kept.get(name)
        engine = self._engine
        if found is None or found.permissive != permissive or not isinstance(engine, Materializing):
            return None
        return found if not is_read or engine.is_listed(found.table) else None

    def keep(self, made: Materialized, since: int, reads: Reads) -> None:
        """Keep a relation, unless something it depends on has changed `since` its run began."""
        if not isinstance(self._engine, Materializing):
            return
        if self._now > since:  # else nothing has, and there may be thousands of relations
            found = reachable([made.name], reads)
            if any(self._changed.get(each, 0) > since for each in found):
                return
        before = self._kept.pop(made.name, None)
        made.is_pinned |= before is not None and before.is_pinned
        self._kept[made.name] = made

    def make_room(self, most: int) -> None:
        """Drop relations until those that are kept take at most their share of so many bytes."""
        while self._kept and self.nbytes() * thresholds.now.kept_share > most:
            oldest = min(self._kept.values(), key=lambda each: each.is_pinned)
            self.drop(oldest.name)

    def nbytes(self) -> int:
        """The bytes of all that is kept."""
        engine = self._engine
        if not isinstance(engine, Materializing):
            return 0
        return sum(engine.nbytes(each.table) for each in self._kept.values())

    def pin(self, name: str) -> None:
        """Have a relation stay longer than what nobody asked to keep."""
        if name in self._kept:
            self._kept[name].is_pinned = True

    def drop(self, name: str) -> bool:
        """Forget a kept relation; False if it was not kept."""
        return self._kept.pop(name, None) is not None

    def clear(self) -> None:
        """Forget all of them."""
        self._kept.clear()

    def invalidate(self, names: Iterable[str], reads: Mapping[str, Iterable[str]]) -> None:
        """The rules or the data of some relations changed: forget all that depends on them."""
        changed = list(names)
        if not changed:
            return
        self._now += 1
        self._changed.update(dict.fromkeys(changed, self._now))
        if self._kept:
            readers: dict[str, list[str]] = {}
            for name, read in reads.items():
                for each in read:
                    readers.setdefault(each, []).append(name)
            for name in reachable(changed, lambda each: readers.get(each, ())):
                self.drop(name)
