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
from caladan.columns.index import PackedIndex
from caladan.columns.kernels import machine, worklist as kernels
from caladan.columns.layout import Counts, Keys, Words
from caladan.columns.membership import LAST, stamps
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
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
        self._plans = [plan for _, plan in rules if len(plan.body.atoms) > 2]
        for head, plan in rules:
            source, start = add_rule(tables, head.relation, plan)
            seeded[source].append(start)
        # The indexes of a relation stand together, behind its own.
        self._relations = tables.relations
        self._indexes: list[MachineIndex] = []
        place: dict[int, int] = {}
        self._own = frozenset(self._members)
        others: dict[int, list[int]] = {}
        for i, index in enumerate(tables.indexes):
            others.setdefault(index.relation, []).append(i)
        for number, relation in enumerate(self._relations):
            if number in self._own:
                packing = tables.body(relation).base.packing
                self._indexes.append(MachineIndex(number, packing.order, packing))
            for i in others.get(number, ()):
                place[i] = len(self._indexes)
                self._indexes.append(tables.indexes[i])
        lookups = (machine.LOOKUP, machine.EXISTS, machine.ABSENT)
        steps = [
            (kind, place[what], *rest) if kind in lookups else (kind, what, *rest)
            for kind, what, *rest in tables.steps
        ]
        self._steps = np.array(steps, machine.STEPS)
        self._terms = np.array(tables.terms or [(0,) * 5], machine.TERMS)
        self._domains = tables.domains
        self._tops: Counts = np.zeros(max(1, len(self._domains)), np.int64)
        self._limit_words()
        self._rules = np.array([r for m in self._members for r in seeded[m]], np.int64)
        self._widths = [body.widths for body in self._packed()]
        self._registers = np.zeros(REGISTERS, np.int64)
        self._states = np.zeros(len(self._steps) + 1, machine.STATES)
        self._lay_out([len(seeded[m]) for m in self._members])

    def still_fits(self) -> bool:
        """Whether the relations are packed as they were when the tables were made."""
        return (
            all(r in self._groups or is_listed(r) for r in self._relations)
            and self._widths == [body.widths for body in self._packed()]
            and all(domain.is_near for domain in self._domains)
            and all(groups.still_fits for groups in self._groups.values())
        )

    @property
    def is_outgrown(self) -> bool:
        """Whether the orders in which rules go were chosen for much smaller relations."""
        return any(plan.is_outgrown for plan in self._plans)

    def run(self, rounds: int, facts: int, stop: Counts, counters: Counts) -> int:
        """Work until nothing is new, deltas are large, or so many rounds or new facts are done.

        Returns how many facts were new, a better value of a group among them.
        """
        new = 0
        while True:
            code, found = self._enter(rounds, facts - new, stop, counters)
            left = self._leave()
            new += found
            if code < 0 or left > thresholds.now.small or self.is_outgrown:
                return new

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
            if step["kind"] == machine.COMPUTE and step["extra"] == machine.WORD:
                term = self._terms[step["key_0"] + 2]
                term["constant"] = rooms[term["register"]]

    def _packed(self) -> list[PackedRelation | PackedGroups]:
        bodies = (self._groups.get(r) or r.packed() for r in self._relations)
        return [body for body in bodies if body is not None]

    def _lay_out(self, rules: Sequence[int]) -> None:
        """The tables of relations and indexes, but for where their tails and runs are."""
        relations = np.zeros(len(self._relations), machine.RELATIONS)
        indexes = np.zeros(len(self._indexes), machine.INDEXES)
        fields: list[tuple[int, int, int]] = []
        packed = self._packed()
        relations["rule_n"][self._members] = ends = np.cumsum(rules)
        relations["rule_0"][self._members] = ends - rules
        places: dict[int, list[int]] = {}
        for i, index in enumerate(self._indexes):
            places.setdefault(index.relation, []).append(i)
        for number, body in enumerate(packed):
            own = places.get(number, [])
            relations[number]["index_0"] = min(own, default=0)
            relations[number]["index_n"] = max(own, default=-1) + 1
            if isinstance(body, PackedGroups):
                relations[number]["value_bits"] = body.value_bits
                relations[number]["larger"] = int(body.larger)
        for i, index in enumerate(self._indexes):
            packing, row = index.packing, indexes[i]
            base = packed[index.relation].base.packing
            row["field_0"] = len(fields)
            if self._is_own(i):
                shift = int(relations[index.relation]["value_bits"])
                fields.append((shift, (1 << 64 - shift) - 1, 0))
                row["lead"] = packing.leading_shift - shift
            else:
                shift = packing.prefix_shift(len(index.columns))
                fields += [
                    (base.shifts[c], base.masks[c], packing.shifts[c] - shift)
                    for c in index.columns
                ]
                row["lead"] = packing.shifts[index.columns[0]] - shift
            row["field_n"] = len(fields)
            row["shift"] = shift
        self._relation_rows, self._index_rows = relations, indexes
        self._fields = np.array(fields, machine.FIELDS)

    def _is_own(self, index: int) -> bool:
        """Whether an index is by all columns, and tells what is there."""
        relation = self._indexes[index].relation
        return relation in self._own and (
            index == 0 or self._indexes[index - 1].relation != relation
        )

    def _make_tails(self, capacities: Sequence[int]) -> None:
        """Memory for tails, with empty tables, for so many facts of each member."""
        relations, indexes = self._relation_rows, self._index_rows
        facts = slots = chains = words = 0
        for number, capacity in zip(self._members, capacities, strict=True):
            row = relations[number]
            row["tail"], row["capacity"] = facts, capacity
            facts += capacity
            # The most bits that a key of the relation has, where it has a bit for every key.
            bits = sum(self._widths[number])
            row["bits"] = -1
            if not row["value_bits"] and bits <= thresholds.now.machine_bits:
                row["bits"] = words
                words += max(1, (1 << bits) >> 6)
            for i in range(row["index_0"], row["index_n"]):
                index, own = indexes[i], i == row["index_0"]
                index["tail"], index["chain"] = row["tail"], -1 if own else chains
                index["slots"], index["mask"] = slots, 2 * capacity - 1
                chains += 0 if own else capacity
                slots += 0 if own and row["bits"] >= 0 else 2 * capacity
        for i, index in enumerate(self._indexes):
            if index.relation not in self._own:
                indexes[i]["chain"] = -1
        self._facts: Keys = np.empty(facts, np.uint64)
        self._owners: Words = np.zeros(max(1, slots), np.uint32)
        self._links: Words = np.empty(max(1, chains), np.uint32)
        self._bits: Keys = np.zeros(max(1, words), np.uint64)

    def _fill_tails(self, capacities: Sequence[int], contents: Sequence[Keys]) -> None:
        """Tails of so many facts, with these in them."""
        self._make_tails(capacities)
        for number, keys in zip(self._members, contents, strict=True):
            row = self._relation_rows[number]
            assert len(keys) <= row["capacity"], "the machine writes only where there is room"
            row["count"] = len(keys)
            self._facts[row["tail"] : row["tail"] + len(keys)] = keys
            kernels.seed(
                number, self._relation_rows, self._index_rows, self._fields, self._facts,
                self._owners, self._links, self._bits,
            )  # fmt: skip

    def _enter(self, rounds: int, facts: int, stop: Counts, counters: Counts) -> tuple[int, int]:
        """What the machine ended with, and how many facts it found."""
        runs: list[tuple[int, int, int, int]] = []
        held: list[Run] = []  # keeps the arrays alive whose addresses the machine has
        packed = self._packed()
        for groups in self._groups.values():
            groups.refresh()
        for i, index in enumerate(self._indexes):
            if self._is_own(i):
                some: Sequence[Run] = packed[index.relation].base.runs
            else:
                relation = self._relations[index.relation]
                found = relation.index(index.columns, self._version(index))
                assert isinstance(found, PackedIndex)  # so it was when the tables were made
                some = found.runs
            self._index_rows[i]["run_0"] = len(runs)
            for run in some:
                held.append(run)
                bounds = run.bounds
                runs.append((
                    run.keys.ctypes.data, len(run), bounds.ctypes.data if len(bounds) else 0,
                    len(bounds),
                ))  # fmt: skip
            self._index_rows[i]["run_n"] = len(runs)
        deltas = [packed[number].base.delta for number in self._members]
        contents = [np.empty(0, np.uint64) if d is None else d.keys for d in deltas]
        self._relation_rows["taken"] = 0
        self._fill_tails([_first_tail(len(keys)) for keys in contents], contents)
        given = self._held_facts()
        most = np.array([4 * thresholds.now.small, rounds, facts + given], np.int64)
        self._tops[:] = 0
        counters[3] = 0
        while True:
            code = kernels.work(
                most, np.array(self._members, np.int64), self._rules, self._steps, self._terms,
                self._relation_rows, self._index_rows, self._fields,
                np.array(runs or [(0, 0, 0, 0)], machine.RUNS), self._facts, self._owners,
                self._links, self._bits, self._registers, self._states, counters, self._tops, stop,
            )  # fmt: skip
            if code < 0 or not self._grow(code):
                break
        for domain, top in zip(self._domains, self._tops.tolist(), strict=False):
            domain.size = max(domain.size, top + 1)
        return code, self._held_facts() - given

    def _grow(self, full: int) -> bool:
        """Make a tail larger, unless it is as large as tails get."""
        rows = self._relation_rows[self._members]
        capacities = rows["capacity"].tolist()
        place = self._members.index(full)
        if capacities[place] >= 1 << thresholds.now.largest_tail:
            return False
        capacities[place] *= 4
        self._fill_tails(capacities, [self._facts[row["tail"] :][: row["count"]] for row in rows])
        return True

    def _held_facts(self) -> int:
        return int(self._relation_rows["count"][self._members].sum())

    def _version(self, index: MachineIndex) -> Version:
        return Version.OLD if index.relation in self._own else Version.FULL

    def _leave(self) -> int:
        left = 0
        # Several relations fill their tails side by side: nobody knows in which order.
        alone = len(self._members) == 1
        first = stamps.take(self._held_facts() if alone else 1)
        packed = self._packed()
        for number in self._members:
            row = self._relation_rows[number]
            tail = self._facts[row["tail"] :]
            taken = int(row["taken"])
            old = tail[:taken].copy()
            delta = tail[taken : row["count"]].copy()
            ranks = None
            body = packed[number]
            if isinstance(body, PackedRelation) and body.is_ranked:
                ranks = np.full(len(old) + len(delta), first, np.uint32)
                if alone and first < LAST:
                    ranks += np.concatenate([np.argsort(old), taken + np.argsort(delta)]).astype(
                        "u4"
                    )
            old.sort()
            delta.sort()
            if isinstance(body, PackedRelation):
                body.absorb(old, delta, ranks)
            else:
                body.absorb(old, delta)
            left += len(delta)
        return left


def is_listed(relation: StoredRelation) -> bool:
    """Whether a relation is packed, and its runs hold its facts and no others."""
    body = relation.packed()
    return body is not None and not body.is_hiding


def _first_tail(given: int) -> int:
    """How many facts a tail holds at first: what is given to the machine, and something new."""
    return 1 << max(thresholds.now.first_tail, (2 * given).bit_length())
