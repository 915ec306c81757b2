"""Live relations: the relations of a program, maintained while the session's data changes.

    live = db.watch(program)      evaluates it and maintains all its relations
    db.insert("arc", [(1, 2)])    every `Live` is up to date when this returns
    live["tc"]                    the current Relation
    live.changes("tc")            the facts added and removed since the last call
    live.on_change(callback)      called after each change; returns a function that ends it
    live.close()

Reading, changing and closing may be done from any thread.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from caladan.columns.interner import Tuples
from caladan.columns.layout import Words
from caladan.columns.relation import Batch
from caladan.data.missing import values
from caladan.data.schema import ArrowTable, LocalTable, arrow_schema
from caladan.engines.embedded.tables import DerivedTable
from caladan.engines.interface import Table
from caladan.engines.missing import shown
from caladan.incremental.program import IncrementalProgram
from caladan.pipeline import Compiled
from caladan.program.diagnostics import Diagnostic, did_you_mean, error
from caladan.program.objects import Objects
from caladan.program.options import Options
from caladan.session.result import Relation, UnknownRelation
from caladan.session.stats import Stats

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHANGE: Final = "_change_type"
"""The column with the kind of change, insert or delete, as in Delta's change data feed."""

_BATCHES = 64  # of changes that nobody has looked at, before they are added up


@dataclass(frozen=True, slots=True)
class RelationChange:
    """The facts added to a relation and removed from it."""

    added: Relation
    removed: Relation

    def arrow(self) -> pa.Table:
        """Both as one Arrow table, with a column `_change_type`: insert or delete, as in Delta."""
        import pyarrow as pa

        parts: list[Any] = []
        for relation, change in ((self.removed, "delete"), (self.added, "insert")):
            facts: Any = relation.arrow()
            parts.append(
                facts.append_column(CHANGE, pa.array([change] * relation.count(), pa.string()))
            )
        return pa.concat_tables(parts)

    def spark(self, session: SparkSession | None = None) -> DataFrame:
        """Both as one Spark DataFrame, with a column `_change_type`: insert or delete."""
        from caladan.data.schema import wrap

        changes = wrap(self.arrow())
        return Relation(self.added.name, changes, session=self.added.session).spark(session)

    def __bool__(self) -> bool:
        return self.added.count() > 0 or self.removed.count() > 0


@dataclass(slots=True)
class CliqueUpkeep:
    """How relations are maintained, and why in that way.

    Of the `changes` they followed, `recomputed` were answered by evaluating them from scratch.
    """

    relations: tuple[str, ...]
    upkeep: str
    reason: str
    changes: int
    recomputed: int


@dataclass(slots=True)
class LiveStats:
    """The cost of maintaining relations: the first evaluation, and the changes since."""

    evaluation: Stats
    changes: int = 0
    seconds: float = 0.0
    """Of all changes together."""
    nbytes: int = 0
    cliques: list[CliqueUpkeep] = field(default_factory=list[CliqueUpkeep])

    def __str__(self) -> str:
        lines = [f"{self.changes:,} changes in {self.seconds:.3f} s, {self.nbytes:,} bytes held"]
        for each in self.cliques:
            why = f": {each.reason}" if each.reason else ""
            lines.append(
                f"  {', '.join(each.relations)}: {each.upkeep}{why}, {each.changes:,} changes, "
                f"{each.recomputed:,} of them evaluated anew"
            )
        return "\n".join(lines)


class Live(Mapping[str, Relation]):
    """The relations of a program over a session's data. Made by `Session.watch`."""

    def __init__(
        self,
        compiled: Compiled,
        maintained: IncrementalProgram,
        objects: Objects,
        stats: Stats,
        check: Callable[[Mapping[str, DerivedTable]], None],
        forget: Callable[[Live], None],
        session: SparkSession | None = None,
    ) -> None:
        self.compiled = compiled
        self.options = Options()
        self.session = session
        """The SparkSession of the DataFrames of its relations."""
        self._maintained: IncrementalProgram | None = maintained
        self._objects = objects
        self._check = check
        self._forget = forget
        self._lock = RLock()
        self._stats = LiveStats(stats)
        self._pending: dict[str, list[tuple[Batch, Batch]]] = {}
        self._earlier: dict[str, Counter[tuple[Any, ...]]] = {}
        """The rows added (1) and removed (-1) before the program was evaluated again."""
        self._callbacks: dict[object, Callable[[Mapping[str, RelationChange]], object]] = {}
        checked = compiled.checked.relations
        goals = [goal.name for goal in compiled.delta.goals]
        names = dict.fromkeys((*goals, *compiled.delta.relations))
        self._names = [n for n in names if n in checked and not checked[n].is_internal]
        self._outdated = set(self._names)

    # ── What users call ──────────────────────────────────────────────────────────────────────────

    def __getitem__(self, name: str) -> Relation:
        with self._lock:
            maintained = self._open()
            if name not in self._names:
                near = did_you_mean(name, self._names) or f"there are {', '.join(self._names)}"
                raise UnknownRelation(
                    Diagnostic("C010", f"no relation `{name}` is watched", help=near)
                )
            return self._relation(name, LiveTable(self._table(maintained, name), self._lock))

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def changes(self, name: str) -> RelationChange:
        """The facts added to a relation and removed from it since the last call, or since `watch`.

        Facts that came and went in between are in neither.
        """
        with self._lock:
            maintained = self._open()
            if name not in self._names:
                self[name]  # says so
            added, removed = _net(self._pending.pop(name, []), len(maintained.domains[name]))
            change = self._change(maintained, name, added, removed)
            earlier = self._earlier.pop(name, None)
            if earlier is None:
                return change
            earlier.update(change.added.rows())
            earlier.subtract(change.removed.rows())
            return self._rows_changed(name, earlier)

    def on_change(
        self, callback: Callable[[Mapping[str, RelationChange]], object]
    ) -> Callable[[], None]:
        """Call a function with the changed relations after each change.

        `insert` and `delete` call it before they return. Returns a function that removes it.
        """
        if not callable(callback):
            raise error(
                "C050", f"a callback must be callable, which a {type(callback).__name__} is not"
            )
        key = object()
        with self._lock:
            self._open()
            self._callbacks[key] = callback

        def unsubscribe() -> None:
            with self._lock:
                self._callbacks.pop(key, None)

        return unsubscribe

    @property
    def stats(self) -> LiveStats:
        """The cost of maintaining the relations so far."""
        with self._lock:
            maintained = self._maintained
            if maintained is not None:
                self._stats.nbytes = maintained.nbytes
                self._stats.cliques = [
                    CliqueUpkeep(relations, upkeep.value, reason, changes, recomputed)
                    for relations, upkeep, reason, changes, recomputed in maintained.cliques
                ]
            return self._stats

    def close(self) -> None:
        """Release the relations. The session stays open."""
        with self._lock:
            self._maintained = None
            self._pending.clear()
            self._callbacks.clear()
            self._forget(self)

    def __enter__(self) -> Live:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Live: {', '.join(self._names)}>"

    # ── What the session calls ───────────────────────────────────────────────────────────────────

    def given(self, name: str) -> pa.Table:
        """The facts given to a relation, without derived ones."""
        with self._lock:
            maintained = self._open()
            kept = maintained.given(name)
            blocks = [(block, len(block[0]) if block else 1) for block in kept.blocks()]
            return maintained.decode(name, _join(blocks, kept.arity) if kept.count() else ((), 0))

    def outdated(self) -> list[str]:
        """The relations that changed since the last call; all of them the first time."""
        with self._lock:
            found = [name for name in self._names if name in self._outdated]
            self._outdated.clear()
            return found

    def columns(self, name: str) -> Any:
        """The columns of a relation that takes data here, None if it is not read."""
        info = self.compiled.delta.relations.get(name)
        return None if info is None or info.origin != name else info.columns

    def follow(self, name: str, inserted: pa.Table | None, deleted: pa.Table | None) -> None:
        """Add and remove facts."""
        with self._lock:
            maintained = self._open()
            more = {} if inserted is None else {name: maintained.encode(name, inserted)}
            less = {} if deleted is None else {name: maintained.encode(name, deleted)}
            self._changed(maintained, more, less)

    def replace(self, name: str, table: pa.Table) -> None:
        """Replace all facts given to a relation."""
        with self._lock:
            maintained = self._open()
            kept = maintained.given(name)
            blocks = [(block, len(block[0]) if block else 1) for block in kept.blocks()]
            less = _join(blocks, kept.arity) if kept.count() else ((), 0)
            self._changed(maintained, {name: maintained.encode(name, table)}, {name: less})

    def restart(
        self,
        compiled: Compiled,
        maintained: IncrementalProgram,
        check: Callable[[Mapping[str, DerivedTable]], None],
    ) -> None:
        """Continue with relations evaluated from scratch; the difference is a change."""
        with self._lock:
            before = {name: self[name].rows() for name in self._names}
            changed = {*self._pending, *self._earlier}
            waiting = {name: self.changes(name) for name in self._names if name in changed}
            self._pending.clear()
            self.compiled, self._maintained, self._check = compiled, maintained, check
            self._stats.changes += 1
            told: dict[str, RelationChange] = {}
            for name in self._names:
                net = Counter(self[name].rows())
                net.subtract(before[name])
                if any(net.values()):
                    told[name] = self._rows_changed(name, net)
                if name in waiting:
                    net.update(waiting[name].added.rows())
                    net.subtract(waiting[name].removed.rows())
                self._earlier[name] = net
            for callback in list(self._callbacks.values()) if told else ():
                callback(told)

    def _rows_changed(self, name: str, net: Counter[tuple[Any, ...]]) -> RelationChange:
        columns = values(self.compiled.delta.relations[name].columns)

        def table(sign: int) -> Relation:
            rows = [row for row, count in net.items() if count == sign]
            by_column = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
            arrays = [
                pa.array(data, field.type)
                for data, field in zip(by_column, arrow_schema(columns), strict=True)
            ]
            names = [column.name for column in columns]
            return self._relation(
                name, ArrowTable(columns, pa.Table.from_arrays(arrays, names=names))
            )

        return RelationChange(table(1), table(-1))

    def _changed(
        self, maintained: IncrementalProgram, more: Mapping[str, Batch], less: Mapping[str, Batch]
    ) -> None:
        started = time.perf_counter()
        changes = maintained.change(more, less)
        self._stats.changes += 1
        self._stats.seconds += time.perf_counter() - started
        self._check({name: self._table(maintained, name) for name in self._watched()})
        self._outdated.update(changes.by_relation)
        for name, (added, removed) in changes.by_relation.items():
            waiting = self._pending.setdefault(name, [])
            waiting.append((added, removed))
            if len(waiting) > _BATCHES:
                self._pending[name] = [_net(waiting, len(maintained.domains[name]))]
        callbacks = list(self._callbacks.values())
        if not callbacks:
            return
        told = {
            name: self._change(maintained, name, added, removed)
            for name, (added, removed) in changes.by_relation.items()
            if name in self._names
        }
        for callback in callbacks if told else ():
            callback(told)

    def _watched(self) -> Iterator[str]:
        return (each.lost for each in self.compiled.supported.rules)

    def _open(self) -> IncrementalProgram:
        if self._maintained is None:
            raise error("C050", "this Live is closed")
        return self._maintained

    def _table(self, maintained: IncrementalProgram, name: str) -> DerivedTable:
        info = self.compiled.delta.relations[name]
        domains = maintained.domains[name]
        return DerivedTable(info.columns, maintained.relations[name], domains, info.order)

    def _change(
        self, maintained: IncrementalProgram, name: str, added: Batch, removed: Batch
    ) -> RelationChange:
        columns = self.compiled.delta.relations[name].columns
        tables = (maintained.decode(name, batch) for batch in (added, removed))
        return RelationChange(*(self._relation(name, ArrowTable(columns, each)) for each in tables))

    def _relation(self, name: str, table: Table) -> Relation:
        order = self.compiled.checked.relations[name].order
        return Relation(name, shown(table), order, self.session, objects=self._objects)


class LiveTable(LocalTable):
    """A relation that reads its current facts."""

    def __init__(self, table: DerivedTable, lock: RLock) -> None:
        self._table = table
        self._lock = lock
        self.columns = table.columns

    def count(self) -> int:
        with self._lock:
            return self._table.count()

    def arrow(self, limit: int | None = None) -> pa.Table:
        with self._lock:
            return self._table.arrow(limit)


def _net(batches: list[tuple[Batch, Batch]], arity: int) -> tuple[Batch, Batch]:
    """Combine successive changes into one, without facts that came and went."""
    if len(batches) == 1:
        return batches[0]
    parts = [(batch, sign) for pair in batches for batch, sign in zip(pair, (1, -1), strict=True)]
    parts = [(batch, sign) for batch, sign in parts if batch[1]]
    columns, rows = _join([batch for batch, _ in parts], arity)
    signs = np.repeat([sign for _, sign in parts], [batch[1] for batch, _ in parts]).astype(int)
    tuples = Tuples(arity)
    ids, fresh = tuples.ids(columns, rows)
    total = np.bincount(ids, signs, len(tuples)) if rows else np.empty(0)

    def those(sign: int) -> Batch:
        at = fresh[total == sign]
        return tuple(column[at] for column in columns), len(at)

    return those(1), those(-1)


def _join(batches: list[Batch], arity: int) -> Batch:
    none: Words = np.empty(0, np.uint32)
    columns = tuple(
        np.concatenate([none, *(batch[0][c] for batch in batches)]) for c in range(arity)
    )
    return columns, sum(rows for _, rows in batches)
