"""Handing a clique over to the tiny-delta machine, and taking it back.

A `Worklist` turns the rules of a clique into the machine's tables, if they are made of what it
knows: plain heads, groups with a best value that nobody looks up, lookups with something bound,
negated atoms, comparisons, arithmetic of integers. `run` gives it the deltas, and takes over what
it found when it is done, when deltas have grown and whole columns are quicker again, or when a
number is beyond the machine. When it is time for it, choice.py says.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from caladan.columns.domains import FAR
from caladan.columns.kernels import worklist as machine
from caladan.columns.layout import Counts, Keys, Words
from caladan.columns.packed import PackedRelation
from caladan.columns.runs import Run
from caladan.fixpoint.groups import AggregateHead
from caladan.fixpoint.heads import RelationHead
from caladan.fixpoint.small_rounds.rules import MachineIndex, MachineTables, add_rule
from caladan.fixpoint.small_rounds.values import REGISTERS, PackedGroups
from caladan.join.plan import RulePlan
from caladan.program import thresholds
from caladan.rules.body import Version


class Worklist:
    """A clique in the machine's hands."""

    def __init__(
        self, members: Sequence[RelationHead], rules: Sequence[tuple[RelationHead, RulePlan]]
    ) -> None:
        tables = MachineTables()
        for member in members:
            if isinstance(member, AggregateHead):
                tables.groups[member.relation] = PackedGroups(member)
        self._groups = tables.groups
        self._members = [tables.relation(member.relation) for member in members]
        seeded: dict[int, list[int]] = {member: [] for member in self._members}
        for head, plan in rules:
            source, start = add_rule(tables, head.relation, plan)
            seeded[source].append(start)
        # The indexes of a relation stand together.
        order = sorted(range(len(tables.indexes)), key=lambda i: tables.indexes[i].relation)
        place = {old: new for new, old in enumerate(order)}
        self._indexes = [tables.indexes[i] for i in order]
        self._relations = tables.relations
        lookups = (machine.LOOKUP, machine.EXISTS, machine.ABSENT)
        steps = [
            (kind, place[what], *rest) if kind in lookups else (kind, what, *rest)
            for kind, what, *rest in tables.steps
        ]
        self._steps = np.array(steps, np.int64)
        self._terms = np.array(tables.terms or [(0,) * 5], np.int64)
        self._domains = tables.domains
        self._tops: Counts = np.zeros(max(1, len(self._domains)), np.int64)
        self._limit_words()
        self._rules = np.array([r for m in self._members for r in seeded[m]], np.int64)
        self._rule_bounds = np.cumsum([0, *(len(seeded[m]) for m in self._members)])
        self._widths = [body.widths for body in self._packed()]
        self._tail = _tail(thresholds.now.first_tail)
        self._make_tails()

    def still_fits(self) -> bool:
        """Whether the relations are packed as they were when the tables were made."""
        return (
            all(r in self._groups or r.packed() is not None for r in self._relations)
            and self._widths == [body.widths for body in self._packed()]
            and all(domain.is_near for domain in self._domains)
            and all(groups.still_fits for groups in self._groups.values())
        )

    def run(self, rounds: int, facts: int, stop: Counts, counters: Counts) -> int:
        """Work until nothing is new, deltas are large, or so many rounds or new facts are done.

        Returns how many facts were new, a better value of a group among them.
        """
        new = 0
        while True:
            code, found = self._enter(rounds, facts - new, stop, counters)
            left = self._leave()
            new += found
            if code < 0 or left > thresholds.now.small:
                return new
            if self._tail < _tail(thresholds.now.largest_tail):
                self._tail *= 4
                self._make_tails()

    def _limit_words(self) -> None:
        """Fill in how large the words that are computed may be: every key must have room."""
        widths = [
            each
            for relation, body in zip(self._relations, self._packed(), strict=True)
            for each in zip(relation.domains, body.widths, strict=True)
        ]
        rooms = [
            min([FAR, *(1 << width for own, width in widths if own is domain)])
            for domain in self._domains
        ]
        for step in self._steps:
            if step[machine.KIND] == machine.COMPUTE and step[machine.EXTRA] == machine.WORD:
                term = self._terms[step[machine.KEY_0] + 2]
                term[machine.CONSTANT] = rooms[term[machine.REGISTER]]

    def _packed(self) -> list[PackedRelation | PackedGroups]:
        bodies = (self._groups.get(r) or r.packed() for r in self._relations)
        return [body for body in bodies if body is not None]

    def _make_tails(self) -> None:
        """The tables of relations and indexes, and the memory of the tails they point into."""
        relations = np.zeros((len(self._relations), 14), np.int64)
        indexes = np.zeros((max(1, len(self._indexes)), 10), np.int64)
        fields: list[tuple[int, int, int]] = []
        slots = 4 * self._tail
        for position, number in enumerate(self._members):
            row = relations[number]
            row[machine.TAIL] = position * self._tail
            row[machine.CAPACITY] = self._tail
            row[machine.SLOTS] = position * slots
            row[machine.SLOT_MASK] = slots - 1
        chains = 0
        for i, index in enumerate(self._indexes):
            row = indexes[i]
            row[machine.OF] = index.relation
            row[machine.CHAIN] = -1
            if index.relation in self._members:
                row[machine.CHAIN] = chains * self._tail
                row[machine.X_SLOTS] = chains * slots
                row[machine.X_MASK] = slots - 1
                chains += 1
            base = self._packed()[index.relation].base.packing
            shift = index.packing.prefix_shift(len(index.columns))
            row[machine.FIELD_0] = len(fields)
            row[machine.FIELD_N] = len(index.columns)
            row[machine.SHIFT] = shift
            row[machine.X_LEAD] = index.packing.shifts[index.columns[0]] - shift
            fields.extend(
                (base.shifts[c], base.masks[c], index.packing.shifts[c] - shift)
                for c in index.columns
            )
        for number, body in enumerate(self._packed()):
            own = [i for i, index in enumerate(self._indexes) if index.relation == number]
            relations[number, machine.INDEX_0] = min(own, default=0)
            member = number in self._members
            relations[number, machine.INDEX_N] = max(own, default=-1) + 1 if member else 0
            relations[number, machine.LEAD] = body.base.packing.leading_shift
            if isinstance(body, PackedGroups):
                relations[number, machine.LEAD] -= body.value_bits
                relations[number, machine.VALUE_BITS] = body.value_bits
                relations[number, machine.LARGER] = int(body.larger)
        self._relation_rows, self._index_rows = relations, indexes
        self._fields = np.array(fields or [(0, 0, 0)], np.int64)
        count = len(self._members)
        self._facts: Keys = np.empty(count * self._tail, np.uint64)
        self._held: Keys = np.empty(count * slots, np.uint64)
        self._owners: Words = np.zeros(count * slots, np.uint32)
        self._chain_held: Keys = np.empty(max(1, chains * slots), np.uint64)
        self._chain_owners: Words = np.zeros(max(1, chains * slots), np.uint32)
        self._links: Words = np.zeros(max(1, chains * self._tail), np.uint32)
        self._registers = np.zeros(REGISTERS, np.int64)
        self._states = np.zeros((len(self._steps) + 1, 6), np.int64)

    def _enter(self, rounds: int, facts: int, stop: Counts, counters: Counts) -> tuple[int, int]:
        """What the machine ended with, and how many facts it found."""
        runs: list[tuple[int, int, int, int]] = []
        held: list[Run] = []  # keeps the arrays alive whose addresses the machine has

        def listed(some: Sequence[Run]) -> tuple[int, int]:
            first = len(runs)
            for run in some:
                held.append(run)
                bounds = run.bounds
                runs.append((
                    run.keys.ctypes.data, len(run), bounds.ctypes.data if len(bounds) else 0,
                    len(bounds),
                ))  # fmt: skip
            return first, len(runs)

        for groups in self._groups.values():
            groups.refresh()
        self._owners[:] = 0
        self._chain_owners[:] = 0
        for i, index in enumerate(self._indexes):
            found = self._relations[index.relation].index(index.columns, self._version(index))
            self._index_rows[i, machine.X_RUN_0 : machine.X_RUN_N + 1] = listed(found.runs)
        for number, body in enumerate(self._packed()):
            if number in self._members:
                self._relation_rows[number, machine.RUN_0 : machine.RUN_N + 1] = listed(
                    body.base.runs
                )
                delta = body.base.delta
                keys = np.empty(0, np.uint64) if delta is None else delta.keys
                assert len(keys) < self._tail, "the machine writes as if there were room"
                machine.seed(
                    number, keys, self._relation_rows, self._facts, self._held, self._owners
                )
        given = self._held_facts()
        most = np.array([4 * thresholds.now.small, rounds, facts + given], np.int64)
        self._tops[:] = 0
        code = machine.work(
            most, np.array(self._members, np.int64), self._rules,
            self._rule_bounds, self._steps, self._terms, self._relation_rows, self._index_rows,
            self._fields, np.array(runs or [(0, 0, 0, 0)], np.int64), self._facts, self._held,
            self._owners, self._chain_held, self._chain_owners, self._links, self._registers,
            self._states, counters, self._tops, stop,
        )  # fmt: skip
        for domain, top in zip(self._domains, self._tops.tolist(), strict=False):
            domain.size = max(domain.size, top + 1)
        return code, self._held_facts() - given

    def _held_facts(self) -> int:
        return int(self._relation_rows[self._members, machine.COUNT].sum())

    def _version(self, index: MachineIndex) -> Version:
        return Version.OLD if index.relation in self._members else Version.FULL

    def _leave(self) -> int:
        left = 0
        for number in self._members:
            row = self._relation_rows[number]
            tail = self._facts[row[machine.TAIL] :]
            old = tail[: row[machine.TAKEN]].copy()
            delta = tail[row[machine.TAKEN] : row[machine.COUNT]].copy()
            old.sort()
            delta.sort()
            self._packed()[number].absorb(old, delta)
            left += len(delta)
        return left


def _tail(bits: int) -> int:
    """How many facts a tail holds: at least what is given to the machine, and something new."""
    return 1 << max(bits, (2 * thresholds.now.small).bit_length())
