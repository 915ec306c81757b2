"""One task's part of a clique.

All tasks have all finished relations, and encode them alike. `start` evaluates the exit rules, each
task for its share of one of their atoms; `step` evaluates the delta rules over what is new here.
Either leaves batches to be sent. `take` takes in what has come, and decides what is new.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from caladan.columns.domains import Domain
from caladan.columns.layout import Words
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.delta.program import DeltaProgram, DeltaRule
from caladan.engines.embedded.blame import blamed
from caladan.engines.embedded.body import Body, body_of, mismatched
from caladan.engines.embedded.classes import Classes
from caladan.engines.embedded.plans import RulePlan
from caladan.engines.embedded.tables import DerivedTable
from caladan.engines.embedded.walk import Sink
from caladan.engines.embedded.widened import widened_relation
from caladan.engines.spark.mesh.grouped import GroupMember
from caladan.engines.spark.mesh.members import Member, Slots
from caladan.engines.spark.mesh.placement import Placement, RuleBody, placement
from caladan.engines.spark.mesh.plain import PlainMember
from caladan.engines.spark.mesh.slots import Batch, Slot
from caladan.operators.tree import Scan, Version
from caladan.program import Constant

_ENOUGH: Final = 64  # facts for each task that make an atom worth sharing out
_SHARE: Final = "share@"


@dataclass(slots=True)
class Ready:
    """A rule that is ready to run, and what it has done."""

    rule: DeltaRule
    plan: RulePlan
    reads: tuple[StoredRelation, ...]
    seed: StoredRelation | None
    sink: Sink
    idle: bool
    seconds: float = 0.0

    def may_derive(self) -> bool:
        """Whether there is something new to start from, and something to join it with."""
        if self.idle or (self.seed is not None and not self.seed.delta_count()):
            return False
        return all(relation.count() for relation in self.reads)


class Part:
    """The part of task `me` of `tasks`. `check` is called now and then, and may raise."""

    def __init__(
        self,
        program: DeltaProgram,
        tables: Mapping[str, pa.Table],
        me: int,
        tasks: int,
        check: Callable[[], None],
    ) -> None:
        (self._clique,) = program.cliques
        self._program = program
        self._me, self.tasks = me, tasks
        self.check = check
        rules = (*self._clique.exit_rules, *self._clique.delta_rules)
        bodies = [(rule, body_of(rule, program.relations)) for rule in rules]
        self._numbers = {id(rule): number for number, rule in enumerate(rules)}
        self._classes = Classes(program, bodies)
        words = self._classes.encode(tables)
        self._base = {
            name: self._stored(name, words.get(name), tables)
            for name in program.relations
            if name not in self._clique.relations
        }
        own = {name: program.relations[name] for name in self._clique.relations}
        recursive = [
            RuleBody(rule.rule.number, rule.rule.head, body)
            for rule, body in bodies
            if rule.seed is not None
        ]
        self.placement: Placement = placement(recursive, own)
        self.slots = Slots()
        self._members = {name: self._member(name) for name in own}
        self._rules: list[Ready] = []
        self._exits: list[Ready] = []
        for rule, body in bodies:
            if rule.seed is not None:
                self._rules.append(self._recursive(rule, body))
            else:
                self._exits.append(self._exit(rule, body))
        for name, member in self._members.items():
            if name in words:
                member.give(words[name], tables[name].num_rows)
        self._aggregating = {r.rule.head: r.rule for r in rules if r.rule.has_aggregates}
        self._mine: list[tuple[Slot, Batch]] = []
        self.activity = 0
        """How many rows the last step left to be sent, to this task itself too."""
        self.new = 0
        """How many facts, or values of groups, were new when this task last took in."""

    # ── Rounds ───────────────────────────────────────────────────────────────────────────────────

    def start(self) -> list[list[tuple[Slot, Batch]]]:
        """Evaluate the exit rules; what goes to each task."""
        self._run(self._exits)
        # What is given counts as active: it has no delta before everybody takes in.
        return self._leaving(1)

    def step(self) -> list[list[tuple[Slot, Batch]]]:
        """Evaluate the delta rules over what is new; what goes to each task."""
        self._run(self._rules)
        going = self._leaving(0)
        for member in self._members.values():
            member.commit()
        return going

    def take(self, batches: Iterable[tuple[Slot, Batch]]) -> None:
        """Take in what has come, this task's own too, and see what of it is new."""
        for slot, batch in self._mine:
            slot.receive(batch)
        self._mine = []
        for slot, batch in batches:
            slot.receive(batch)
        self.new = 0
        for name, member in self._members.items():
            with blamed(self._aggregating.get(name)):
                self.new += member.flip()

    @property
    def keeps_some(self) -> bool:
        """Whether this task has something to take in from itself."""
        return bool(self._mine)

    @property
    def facts(self) -> int:
        """How many facts this task owns."""
        return sum(member.facts.count() for member in self._members.values())

    def solutions(self) -> dict[int, tuple[int, float]]:
        """By rule number, how many solutions were found here, and in how many seconds."""
        found: dict[int, tuple[int, float]] = {}
        for ready in (*self._exits, *self._rules):
            count, seconds = found.get(ready.rule.rule.number, (0, 0.0))
            found[ready.rule.rule.number] = (count + ready.sink.count, seconds + ready.seconds)
        return found

    def owned(self, name: str) -> DerivedTable:
        """The facts of a relation that this task owns."""
        info = self._program.relations[name]
        return DerivedTable(info.columns, self._members[name].facts, self._classes.columns(name))

    def _run(self, rules: Sequence[Ready]) -> None:
        for ready in rules:
            if ready.may_derive():
                started = time.perf_counter()
                with blamed(ready.rule.rule):
                    ready.plan.run(ready.sink, self.check)
                    ready.sink.finish()
                ready.seconds += time.perf_counter() - started

    def _leaving(self, activity: int) -> list[list[tuple[Slot, Batch]]]:
        going: list[list[tuple[Slot, Batch]]] = [[] for _ in range(self.tasks)]
        for member in self._members.values():
            for slot, batch in member.leaving():
                activity += batch.rows
                for task, part in enumerate(slot.spread.split(batch, self.tasks)):
                    if part is not None:
                        going[task].append((slot, part))
        self._mine, going[self._me] = going[self._me], []
        self.activity = activity
        return going

    def _member(self, name: str) -> Member:
        info = self._program.relations[name]
        owner = self.placement.owners[name]
        others = [copy for copy in self.placement.others if copy.relation == name]
        rest = (self._classes.columns(name), owner, others, self.slots, self._me, self.tasks)
        return GroupMember(info, *rest) if info.has_aggregates else PlainMember(*rest)

    # ── Rules ────────────────────────────────────────────────────────────────────────────────────

    def _recursive(self, rule: DeltaRule, body: Body) -> Ready:
        """A delta rule, over the copies that it reads."""
        known = RuleBody(rule.rule.number, rule.rule.head, body)
        relations: dict[str, StoredRelation] = {}
        atoms: list[Scan] = []
        seed: StoredRelation | None = None
        for scan in body.atoms:
            if scan.version is Version.FULL:
                relations[scan.relation] = self._base[scan.relation]
                atoms.append(scan)
                continue
            copy = self.placement.read(known, scan)
            relation = self._members[scan.relation].reading(copy)
            relations[copy.name] = relation
            atoms.append(replace(scan, relation=copy.name))
            if scan.version is Version.DELTA:
                seed = relation
        return self._ready(rule, body, tuple(atoms), relations, seed)

    def _exit(self, rule: DeltaRule, body: Body) -> Ready:
        """An exit rule, over this task's share of an atom; what is not shared the first does."""
        relations = {scan.relation: self._base[scan.relation] for scan in body.atoms}
        shared = None if body.cut is not None else self._shared(body)
        if shared is None:
            return self._ready(rule, body, body.atoms, relations, None, idle=self._me > 0)
        scan = body.atoms[shared]
        share = self._share(scan.relation)
        name = _SHARE + scan.relation
        atoms = list(body.atoms)
        atoms[shared] = replace(scan, relation=name, version=Version.DELTA)
        return self._ready(rule, body, tuple(atoms), {**relations, name: share}, share)

    def _shared(self, body: Body) -> int | None:
        """The atom to be shared out: the smallest that is large enough, without constants."""
        sizes = {
            i: self._base[scan.relation].count()
            for i, scan in enumerate(body.atoms)
            if not any(isinstance(a, Constant) for a in scan.arguments)
        }
        large = [i for i, size in sizes.items() if size >= _ENOUGH * self.tasks]
        if self.tasks == 1 or not large:
            return None
        return min(large, key=sizes.__getitem__)

    def _share(self, name: str) -> StoredRelation:
        """Every so manieth fact of a finished relation, as a delta."""
        relation = self._base[name]
        share = StoredRelation(self._classes.columns(name))
        if isinstance(relation.body, PackedRelation) and relation.packed() is not None:
            target = share.packed()
            assert target is not None
            for run in relation.body.base.runs:
                target.add_keys(run.keys[self._me :: self.tasks].copy())
        else:
            for block in relation.blocks():
                mine = [column[self._me :: self.tasks].copy() for column in block]
                share.add(mine, len(mine[0]) if mine else 1)
        share.flip()
        return share

    def _ready(
        self,
        rule: DeltaRule,
        body: Body,
        atoms: tuple[Scan, ...],
        relations: Mapping[str, StoredRelation],
        seed: StoredRelation | None,
        *,
        idle: bool = False,
    ) -> Ready:
        number = self._numbers[id(rule)]
        domains = {name: self._classes.variable(number, name) for name in body.kinds}
        plan = RulePlan(
            replace(body, atoms=atoms),
            relations,
            lambda scan: self._absent(scan, body, domains),
            domains,
            self._column,
            self._classes.columns(rule.rule.head),
        )
        keys = self._classes.keys(rule, body)
        sink = self._members[rule.rule.head].sink(rule, plan, keys)
        return Ready(rule, plan, tuple(relations.values()), seed, sink, idle)

    def _column(self, relation: str, column: int) -> Domain:
        """The domain of a column of a relation, a copy of one, or a share."""
        name = relation.removeprefix(_SHARE).partition("@")[0]
        return self._classes.column(name, column)

    def _absent(self, scan: Scan, body: Body, domains: Mapping[str, Domain]) -> StoredRelation:
        relation = self._base[scan.relation]
        info = self._program.relations[scan.relation]
        if columns := mismatched(scan, info, body.kinds):
            own = self._classes.columns(scan.relation)
            return widened_relation(relation, own, {c: domains[v] for c, v in columns.items()})
        return relation

    def _stored(
        self, name: str, columns: Sequence[Words] | None, tables: Mapping[str, pa.Table]
    ) -> StoredRelation:
        """A finished relation."""
        relation = StoredRelation(self._classes.columns(name))
        if columns is not None:
            relation.add(columns, tables[name].num_rows)
        relation.flip()
        relation.commit()
        return relation
