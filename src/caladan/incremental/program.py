"""Incremental relations: what a program derives, kept true while facts come and go.

    IncrementalProgram(program, given, options, listener)
                                                   evaluates once, and wires everything for later
    made.change(inserted, deleted) ─► Changes      what that adds to and removes from each relation
    made.relations[name]                           a relation as it is now

Everything that can be decided before a change comes is decided when an `IncrementalProgram` is
made: the variants of every rule (rules/variants.py), their plans, the column orders they look
relations up by. A change then goes through the cliques in order, and only through those that read
something which changed (repair.py). What it costs follows what it changes, not what is there.

Domains stay open: facts may bring values that nobody has seen. Facts that are deleted stay hidden
in their runs until there are many of them (columns/membership.py).

A *transient* relation is empty again when the next change begins, as the inputs of a tick are. What
is derived from such relations alone is not repaired either: it is derived anew, from what there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from caladan.columns.domains import Domain, encode
from caladan.columns.relation import Batch, StoredRelation
from caladan.data.schema import arrow_schema, table_of
from caladan.fixpoint.blueprint import blueprint
from caladan.fixpoint.fixpoint import Fixpoint
from caladan.fixpoint.limits import Limits
from caladan.incremental.aggregate_maintenance import BestValueMaintenance, GroupMaintenance
from caladan.incremental.deletions import NOTHING, FactChange
from caladan.incremental.repair import FactRepair, Recomputation, Renewal, Repair
from caladan.incremental.wiring import Upkeep, Wiring
from caladan.join.classes import Classes
from caladan.program.events import Listener
from caladan.program.options import Options
from caladan.rules.program import DeltaProgram
from caladan.rules.variants import given_of, linear

_KINDS: dict[
    Upkeep, type[FactRepair | GroupMaintenance | BestValueMaintenance | Recomputation | Renewal]
] = {
    Upkeep.REPAIRED: FactRepair,
    Upkeep.REGROUPED: GroupMaintenance,
    Upkeep.IMPROVED: BestValueMaintenance,
    Upkeep.RECOMPUTED: Recomputation,
    Upkeep.RENEWED: Renewal,
}


@dataclass(slots=True)
class Changes:
    """What a change added and removed, by relation; only relations that changed are there."""

    by_relation: dict[str, FactChange] = field(default_factory=dict[str, FactChange])

    def added(self, relation: str) -> Batch:
        """The facts that are new."""
        return self.by_relation.get(relation, (NOTHING, NOTHING))[0]

    def removed(self, relation: str) -> Batch:
        """The facts that are gone."""
        return self.by_relation.get(relation, (NOTHING, NOTHING))[1]


class IncrementalProgram:
    """The relations of a program over facts that change.

    `given` has the facts from data and from the program's text; `transient` names relations that
    are empty again when the next change begins.
    """

    def __init__(
        self,
        program: DeltaProgram,
        given: Mapping[str, pa.Table],
        options: Options,
        listener: Listener,
        transient: Iterable[str] = (),
    ) -> None:
        # What a closure is given are steps of it, as what its other rules derive.
        program, steps = linear(program)
        given = {steps.get(name, name): table for name, table in given.items()}
        self.program = program
        self._limits = Limits(options)
        plan = blueprint(program)
        self._wiring = wiring = Wiring(program, plan, frozenset(transient), options, listener)
        classes = Classes(program, wiring.aliases, wiring.variants, is_open=True)
        words = classes.encode(given)
        encoded_given = {name: [(w, given[name].num_rows)] for name, w in words.items()}
        evaluation = Fixpoint(plan, classes, encoded_given, self._limits, listener, options.search)
        evaluation.rank()
        derived = {name for clique in program.cliques for name in clique.relations}
        for name in program.relations:
            if name not in derived:
                evaluation.load(name)
        for clique in program.cliques:
            evaluation.clique(clique)
        for name in program.relations:
            if name not in evaluation.layouts():
                evaluation.load(name)
        self.relations: dict[str, StoredRelation] = {
            name: evaluation.relation(name) for name in program.relations
        }
        self.domains: dict[str, tuple[Domain, ...]] = {
            name: classes.columns(name) for name in program.relations
        }
        self._given: dict[str, str] = {}  # where the facts go that a relation is given
        for name in program.relations:
            info = program.relations[name]
            self._given[name] = name
            if info.is_derived and name in derived:
                alias = given_of(info).name
                self._given[name] = alias
                self.relations[alias] = StoredRelation.of(
                    classes.columns(name), encoded_given.get(name, ())
                )
        for name, taking in steps.items():
            self._given[name] = self._given[taking]
        for relation in self.relations.values():
            relation.record()
            relation.forget_views()
        wiring.ready(classes, self.relations, self._limits)
        self._repairs: list[Repair] = [_KINDS[each.upkeep](wiring, each) for each in wiring.cliques]
        self._written = {
            name: StoredRelation.of(
                self.domains[name],
                [self.encode(name, table_of(rows, program.relations[name].columns))],
            )
            for name, rows in program.facts.items()
            if rows
        }
        self._contents: dict[str, Batch] = {}
        self._transient = wiring.transient
        self._is_broken = False

    @property
    def nbytes(self) -> int:
        """The bytes that the relations take."""
        return sum(relation.nbytes for relation in self.relations.values())

    # ── Values and words ─────────────────────────────────────────────────────────────────────────

    def encode(self, name: str, table: pa.Table) -> Batch:
        """Facts as words; values that are new get some."""
        columns = zip(table.columns, self.domains[name], strict=True)
        return tuple(encode(column, domain) for column, domain in columns), table.num_rows

    def given(self, name: str) -> StoredRelation:
        """The facts that a relation was given, apart from what rules derive."""
        return self.relations[self._given[name]]

    @property
    def cliques(self) -> list[tuple[tuple[str, ...], Upkeep, str, int, int]]:
        """By clique how it is kept true and why, and how often it was repaired and recomputed."""
        return [
            (made.clique.relations, made.upkeep, made.reason, repair.repairs, repair.recomputed)
            for made, repair in zip(self._wiring.cliques, self._repairs, strict=True)
        ]

    def decode(self, name: str, batch: Batch) -> pa.Table:
        """Words as facts."""
        schema = arrow_schema(self.program.relations[name].columns)
        columns, rows = batch
        if not schema.names:
            return pa.table({"": pa.nulls(rows)}).select([])
        if not rows:
            return schema.empty_table()
        arrays = [
            domain.arrow(words, kind)
            for words, domain, kind in zip(columns, self.domains[name], schema.types, strict=True)
        ]
        return pa.Table.from_arrays(arrays, schema=schema)

    # ── Changes ──────────────────────────────────────────────────────────────────────────────────

    def change(
        self,
        inserted: Mapping[str, Batch],
        deleted: Mapping[str, Batch] | None = None,
    ) -> Changes:
        """Take facts in and away, and bring all that is derived up to date.

        A fact that is both inserted and deleted is there afterwards.
        """
        changed: dict[str, FactChange] = {}
        touched: list[StoredRelation] = []
        self._wiring.restart()
        try:
            if self._contents or self._transient:
                self._empty(inserted, changed, touched)
            for name in dict.fromkeys((*(deleted or ()), *inserted)):
                if name not in self._transient:
                    less, more = (deleted or {}).get(name, NOTHING), inserted.get(name, NOTHING)
                    self._alter(self._given[name], less, more, changed, touched)
            for made, repair in zip(self._wiring.cliques, self._repairs, strict=True):
                self._limits.enter(made.clique.relations)
                if not repair.inputs.isdisjoint(changed) or self._is_broken:
                    repair.update(changed, self._contents, anew=self._is_broken)
                    touched += repair.relations
            if self._is_broken:
                self._is_broken = False
                touched = list(self.relations.values())
        except BaseException:
            # What is derived is neither what it was nor what it should be: next time all is
            # evaluated anew, and told as one change with this one.
            self._is_broken = True
            for repair in self._repairs:
                repair.calm()
            raise
        for relation in touched:
            relation.settle()
        try:
            new = sum(added[1] for added, _ in changed.values())
            self._limits.memory.add(new, lambda: self.relations)
        except MemoryError:
            raise self._limits.out_of_memory() from None
        for alias in self._wiring.givens:
            changed.pop(alias, None)
        return Changes(changed)

    def _alter(
        self,
        name: str,
        less: Batch,
        more: Batch,
        changed: dict[str, FactChange],
        touched: list[StoredRelation],
    ) -> None:
        relation = self.relations[name]
        touched.append(relation)
        written = self._written.get(self._wiring.givens.get(name, name))
        if less[1] and written is not None:  # what the program says stays true
            keep = ~written.contains(less[0])
            less = tuple(column[keep] for column in less[0]), int(np.count_nonzero(keep))
        if less[1]:
            relation.discard(*less)
        if more[1]:
            relation.extend([more])
        added, removed = relation.changes()
        if added[1] or removed[1]:
            changed[name] = (added, removed)

    def _empty(
        self,
        inserted: Mapping[str, Batch],
        changed: dict[str, FactChange],
        touched: list[StoredRelation],
    ) -> None:
        """Begin anew with transient relations; only those that others look up are stored."""
        before, self._contents = self._contents, {}
        for name in self._transient:
            now, last = inserted.get(name, NOTHING), before.get(name, NOTHING)
            if not now[1] and not last[1]:
                continue
            if now[1]:
                self._contents[name] = now
            if name in self._wiring.stored:
                self._alter(name, last, now, changed, touched)
                changed.setdefault(name, (NOTHING, NOTHING))
            else:
                changed[name] = (now, last)
