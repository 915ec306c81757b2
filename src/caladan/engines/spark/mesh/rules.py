"""Rules of a part, ready to run: each over the copies and shares that it reads here.

A delta rule reads copies of the clique's relations, an exit rule this task's share of one atom. A
rule whose facts fan out by heavy values is there twice: for the others, wherever a fact is owned;
and for the heavy ones in every task, over its share of what they find.

Exit rules are shared out: every task evaluates them for its share of one atom's facts.

The relations and rules of a clique, as a task has them while certain values are split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from caladan.columns.domains import Domain
from caladan.columns.layout import Mask, Words
from caladan.columns.packed import PackedRelation
from caladan.columns.relation import StoredRelation
from caladan.engines.spark.mesh.facts import PlainMember
from caladan.engines.spark.mesh.groups import GroupMember
from caladan.engines.spark.mesh.inputs import MeshInputs
from caladan.engines.spark.mesh.members import Member, Slots
from caladan.engines.spark.mesh.placement import Copy, Placement, RuleBody, placement
from caladan.engines.spark.mesh.skew import Fan, HeavyValues
from caladan.engines.spark.mesh.snapshot import SnapshotSection
from caladan.fixpoint.blueprint import said
from caladan.fixpoint.planner import widened_relation
from caladan.join.access import Access
from caladan.join.classes import Classes
from caladan.join.plan import RulePlan
from caladan.join.walk import Sink
from caladan.program import Constant
from caladan.program.events import RulePlanned
from caladan.rules.body import Body, Scan, Version
from caladan.rules.program import DeltaRule

RuleKey: TypeAlias = tuple[int, str | None]
"""The number of a rule, and the relation whose new facts seed it."""

_ENOUGH: Final = 64  # facts for each task that make an atom worth sharing out


def shared_atom(body: Body, base: Mapping[str, StoredRelation], tasks: int) -> int | None:
    """The atom to be shared out: the smallest that is large enough, without constants."""
    sizes = {
        i: base[scan.relation].count()
        for i, scan in enumerate(body.atoms)
        if not any(isinstance(a, Constant) for a in scan.arguments)
    }
    large = [i for i, size in sizes.items() if size >= _ENOUGH * tasks]
    if tasks == 1 or not large or body.cut is not None:
        return None
    return min(large, key=sizes.__getitem__)


def share(
    relation: StoredRelation, domains: Sequence[Domain], me: int, tasks: int
) -> StoredRelation:
    """Every so manieth fact of a finished relation, as a delta."""
    found = StoredRelation(domains)
    if isinstance(relation.body, PackedRelation) and relation.packed() is not None:
        target = found.packed()
        assert target is not None
        for run in relation.body.base.runs:
            target.add_keys(run.keys[me::tasks].copy())
    else:
        for block in relation.blocks():
            mine = [column[me::tasks].copy() for column in block]
            found.add(mine, len(mine[0]) if mine else 1)
    found.flip()
    return found


def parted(
    relation: StoredRelation, domains: Sequence[Domain], column: int, values: Words
) -> tuple[StoredRelation, StoredRelation]:
    """The facts of a finished relation that have one of these values in a column; the others."""
    found, others = StoredRelation(domains), StoredRelation(domains)
    for block in relation.blocks():
        mask: Mask = np.isin(block[column], values)
        for target, rows in ((found, mask), (others, ~mask)):
            target.add([words[rows] for words in block], int(rows.sum()))
    found.flip()
    others.flip()
    return committed(found), committed(others)


def committed(relation: StoredRelation) -> StoredRelation:
    """A relation whose delta has become old."""
    relation.commit()
    return relation


@dataclass(slots=True)
class ReadyRule:
    """A rule that is ready to run, and what it has done.

    `origins` says which relations the copies, parts and shares are of that it reads.
    """

    rule: DeltaRule
    plan: RulePlan
    origins: Mapping[str, str]
    reads: tuple[StoredRelation, ...]
    seed: StoredRelation | None
    sink: Sink
    idle: bool
    seconds: float = 0.0

    @property
    def key(self) -> RuleKey:
        """The rule's number and the relation whose new facts seed it."""
        seed = self.rule.seed
        atoms = self.rule.rule.atoms
        return self.rule.rule.number, None if seed is None else atoms[seed].relation

    def planned(self) -> RulePlanned | None:
        """The steps that it goes through, if they are others than when this was last asked."""
        steps = self.plan.news()
        return None if steps is None else RulePlanned(*self.key, tuple(map(self._said, steps)))

    def _said(self, step: Access) -> str:
        def shown(scan: Scan) -> Scan:
            is_share = self.rule.seed is None  # of an exit rule, which reads what is finished
            version = Version.FULL if is_share else scan.version
            return replace(scan, relation=self.origins[scan.relation], version=version)

        return said(step, shown)

    def may_derive(self) -> bool:
        """Whether there is something new to start from, and something to join it with."""
        if self.idle or (self.seed is not None and not self.seed.delta_count()):
            return False
        return all(relation.count() for relation in self.reads)


class Rules:
    """Makes the rules of task `me` of `tasks` ready."""

    def __init__(
        self,
        classes: Classes,
        base: Mapping[str, StoredRelation],
        members: Mapping[str, Member],
        placement: Placement,
        heavy: HeavyValues,
        fans: Mapping[int, Fan],
        me: int,
        tasks: int,
        search: str | None = None,
    ) -> None:
        self._search = search
        self._classes = classes
        self._base, self._members, self._placement = base, members, placement
        self._heavy, self._fans = heavy, fans
        self._me, self._tasks = me, tasks

    def recursive(self, rule: DeltaRule) -> Iterator[ReadyRule]:
        """A delta rule, over the copies that it reads; once more for facts that fan out."""
        fan = self._fans.get(rule.rule.place)
        if fan is None:
            yield self._over(rule, {}, None)
            return
        scan = rule.body.separated.atoms[fan.atom]
        domains = self._classes.columns(scan.relation)
        values = self._heavy.of(scan.relation, fan.column)
        assert values is not None
        heavy, light = parted(self._base[scan.relation], domains, fan.column, values)
        mine = committed(share(heavy, domains, self._me, self._tasks))
        yield self._over(rule, {fan.atom: (f"{scan.relation}@light", light)}, None)
        yield self._over(rule, {fan.atom: (f"{scan.relation}@heavy", mine)}, fan.copy)

    def _over(
        self,
        rule: DeltaRule,
        instead: Mapping[int, tuple[str, StoredRelation]],
        seeded: Copy | None,
    ) -> ReadyRule:
        """A delta rule that reads other relations instead of some atoms, seeded by some copy."""
        known = RuleBody.of(rule)
        relations: dict[str, StoredRelation] = {}
        came_from: dict[str, str] = {}
        atoms: list[Scan] = []
        seed: StoredRelation | None = None
        for number, scan in enumerate(known.body.atoms):
            if scan.version is Version.FULL:
                name, relation = instead.get(number, (scan.relation, self._base[scan.relation]))
                relations[name], came_from[name] = relation, scan.relation
                atoms.append(replace(scan, relation=name))
                continue
            copy = seeded or self._placement.read(known, scan)
            relation = self._members[scan.relation].reading(copy)
            relations[copy.name], came_from[copy.name] = relation, scan.relation
            atoms.append(replace(scan, relation=copy.name))
            if scan.version is Version.DELTA:
                seed = relation
        return self._ready(rule, atoms, relations, came_from, seed)

    def exit(self, rule: DeltaRule) -> ReadyRule:
        """An exit rule, over this task's share of an atom; what is not shared the first does."""
        body = rule.body.separated
        relations = {scan.relation: self._base[scan.relation] for scan in body.atoms}
        came_from = {name: name for name in relations}
        shared = shared_atom(body, self._base, self._tasks)
        if shared is None:
            idle = self._me > 0
            return self._ready(rule, body.atoms, relations, came_from, None, idle=idle)
        scan = body.atoms[shared]
        domains = self._classes.columns(scan.relation)
        mine = share(self._base[scan.relation], domains, self._me, self._tasks)
        name = f"{scan.relation}@share"
        came_from[name] = scan.relation
        atoms = list(body.atoms)
        atoms[shared] = replace(scan, relation=name, version=Version.DELTA)
        relations[name] = mine
        return self._ready(rule, atoms, relations, came_from, mine)

    def _ready(
        self,
        rule: DeltaRule,
        atoms: Sequence[Scan],
        relations: Mapping[str, StoredRelation],
        came_from: Mapping[str, str],
        seed: StoredRelation | None,
        *,
        idle: bool = False,
    ) -> ReadyRule:
        body = rule.body.separated
        domains = self._classes.variables(rule.rule, body)
        named = {**{scan.relation: scan.relation for scan in body.absents}, **came_from}
        plan = RulePlan(
            body.with_atoms(atoms),
            relations,
            lambda scan: self._absent(scan, body, domains),
            domains,
            lambda relation, column: self._classes.column(named[relation], column),
            self._classes.columns(rule.rule.head),
            self._search,
        )
        keys = self._classes.keys(rule)
        sink = self._members[rule.rule.head].sink(rule, plan, keys)
        return ReadyRule(rule, plan, named, tuple(relations.values()), seed, sink, idle)

    def _absent(self, scan: Scan, body: Body, domains: Mapping[str, Domain]) -> StoredRelation:
        relation = self._base[scan.relation]
        if columns := scan.mismatched(body.types):
            own = self._classes.columns(scan.relation)
            return widened_relation(relation, own, {c: domains[v] for c, v in columns.items()})
        return relation


class ShardRules:
    """What task `me` of `tasks` has of what is given, once it is decided which values are split."""

    def __init__(self, given: MeshInputs, me: int, tasks: int, heavy: HeavyValues) -> None:
        self.given, self.heavy = given, heavy
        self.me, self.tasks = me, tasks
        fans = {rule.rule: fan for rule in given.recursive if (fan := heavy.fan(rule, given.own))}
        self.placement: Placement = placement(
            given.recursive, given.own, heavy.has, [fan.copy for fan in fans.values()]
        )
        self.slots = Slots()
        self.members = {name: self._member(name) for name in given.own}
        made = Rules(
            given.classes, given.base, self.members,
            self.placement, heavy, fans, me, tasks, given.search,
        )  # fmt: skip
        self.rules: list[ReadyRule] = []
        self.exits: list[ReadyRule] = []
        for rule in given.clique.exit_rules:
            self.exits.append(made.exit(rule))
        for rule in given.clique.delta_rules:
            self.rules += made.recursive(rule)

    @property
    def found(self) -> int:
        """How many solutions the rules have found here."""
        return sum(int(ready.sink.count) for ready in (*self.exits, *self.rules))

    def shelves(self) -> Iterator[SnapshotSection]:
        """What there is to be saved between two rounds, in the order in which it is put back."""
        for member in self.members.values():
            yield from member.shelves()

    def _member(self, name: str) -> Member:
        info = self.given.own[name]
        owner = self.placement.owners[name]
        others = [copy for copy in self.placement.others if copy.relation == name]
        domains = self.given.classes.columns(name)
        rest = (domains, owner, others, self.slots, self.heavy.within, self.me, self.tasks)
        return GroupMember(info, *rest) if info.has_aggregates else PlainMember(*rest)
